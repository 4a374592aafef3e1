"""Demonstration: bags of few points affect the intervals of BLR, but not of BDR."""

import time
import warnings
from pathlib import Path

import numpy as np

from bdr_stan.metrics import size_classes, table_by_size

LEVEL = 0.95
ROWS = {"BLR": "averages treated as\nexact (BLR)", "BDR": "sampling error\nmodelled (BDR)"}
DRAWN = ("1", "6-20", ">100")  # classes of bag sizes in the figure
# Sufficient for calibrated intervals at every bag size; more landmarks reduce the error a little
# and are slower.
SETTINGS = {"n_landmarks": 40, "bandwidth": "median", "bandwidth_scale": 0.75}  # pixels: one unit
FULL = {"n_train": 800, "n_test": 1000}, {"chains": 4, "warmup": 500, "draws": 1000}
QUICK = {"n_train": 300, "n_test": 400}, {"chains": 4, "warmup": 300, "draws": 1000}
INTRODUCTION = """\
Each bag contains 1 to 300 images of handwritten digits, as if one person had written them.
Its label is the mean of the digits that person tends to write, not of those in the bag.
{n_train} training bags and {n_test} other bags of the same population of images.
"""


def run(output="demo_output", quick=False):
    """Fit both models; write ``fit.nc``, of BDR, and ``demo.png``; return "BLR", "BDR" -> table."""
    from bdr_stan import BDR, BLR, plots

    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    counts, sampling = QUICK if quick else FULL
    print(INTRODUCTION.format(**counts))
    step = _stopwatch()
    train, y = _bags(counts["n_train"], seed=1)
    test, truth = _bags(counts["n_test"], seed=2)
    features = BDR(**SETTINGS).training_features(train, seed=1)
    step(f"made {len(train)} + {len(test)} bags, embedded {len(train.points)} images")

    tables, predictives, models = {}, {}, {}
    drawn = np.any([size_classes(test.sizes)[name] for name in DRAWN], axis=0)
    for model in (BLR(**SETTINGS), BDR(**SETTINGS)):
        name = type(model).__name__
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "CmdStan is not set up")  # the next line names it
            model.fit_features(features, y, seed=1, progress=True, **sampling)
        engine = model.result_.settings["run"]["versions"].get("engine", "CmdStan")
        tables[name] = table_by_size(truth, model.predictive(test), test.sizes, level=LEVEL)
        step(f"fitted {name} with NUTS ({engine}), predicted the test bags")
        models[name], predictives[ROWS[name]] = model, model.predictive(test[drawn])
    models["BDR"].save(output / "fit.nc", notes={"bag": "bag", "label": "label"})
    y, sizes = truth[drawn], test.sizes[drawn]
    figure = plots.prediction(y, predictives, sizes, level=LEVEL, label="mean digit")
    figure.savefig(output / "demo.png", dpi=100)
    step(f"wrote {output / 'fit.nc'} and {output / 'demo.png'}")

    _show(tables)
    for name, model in models.items():
        print(f"{name}, {model.report()}")
    print("\n" + conclusion(tables))
    return tables


def conclusion(tables):
    """What coverage shows, in a sentence; within three standard errors of `LEVEL` it is correct."""
    by_size = {name: table.drop(index="all") for name, table in tables.items()}
    error = {name: (table["coverage"] - LEVEL).abs() for name, table in by_size.items()}
    chance = 3 * np.sqrt(LEVEL * (1 - LEVEL) / by_size["BLR"]["n_bags"])
    small, large = chance.index[0], chance.index[-1]
    blr, bdr = by_size["BLR"], by_size["BDR"]
    numbers = (
        f"in bags of {_images(small)} the {LEVEL:.0%} intervals of BLR cover "
        f"{blr['coverage'][small]:.0%} of the labels, those of BDR {bdr['coverage'][small]:.0%}; "
        f"in bags of {_images(large)} {blr['coverage'][large]:.0%} and "
        f"{bdr['coverage'][large]:.0%}, with widths of {blr['width'][large]:.2f} and "
        f"{bdr['width'][large]:.2f}"
    )
    blr_wrong = blr["coverage"][small] < LEVEL - chance[small]
    if blr_wrong and (error["BDR"] <= chance).all():
        finding = "BLR is overconfident for small bags, BDR is calibrated for every size"
    elif blr_wrong and error["BDR"].max() < error["BLR"].max():
        finding = "BLR is overconfident for small bags, BDR is closer to nominal coverage"
    else:
        finding = "These bags do not show that the intervals of BDR are better"
    return f"{finding}: {numbers}."


def _images(size):
    return "1 image" if size == "1" else f"{size} images"


def _bags(n, seed):
    """Bags of the training half of the images, columns as in ``python -m data_gen.digits``."""
    from bdr_stan.datasets import digits_bags

    bags, y = digits_bags(n, seed=seed, split="train")  # the sets differ only by chance
    bags.features = [f"x{k}" for k in range(1, bags.n_features + 1)]
    return bags, y


def _stopwatch():
    begun = time.monotonic()

    def step(text):
        print(f"[{time.monotonic() - begun:5.1f} s] {text}", flush=True)

    return step


def _show(tables):
    """Both models side by side, one row per class of bag sizes."""
    import pandas as pd

    columns = {("", "bags"): tables["BLR"]["n_bags"]}
    for measure, title, form in [
        ("mse", "MSE", "{:.3f}"),
        ("nll", "NLL", "{:.2f}"),
        ("coverage", f"{LEVEL:.0%} coverage", "{:.0%}"),
        ("width", "width", "{:.2f}"),
    ]:
        for name, table in tables.items():
            columns[title, name] = table[measure].map(form.format)
    print(pd.DataFrame(columns).rename_axis("images").to_string())
