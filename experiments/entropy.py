"""Learning the entropy of sets of points: ridge regression on kernel means, smoothing, and BDR.

The experiment of Szabo et al. (2014) after Poczos et al. (2012): 100 sets of 500 points from one
two-dimensional Gaussian distribution, rotated by random angles; the label is the entropy of the
first coordinate (``data_gen/entropy.py``). 25 sets are for training, 25 for choosing settings, 50
for testing; each of the 25 runs has its own distribution. MERR has a Gaussian kernel and the inner
product of kernel means; DFDR smooths labels by the L1 or L2 distance between density estimates. BLR
and BDR, which also give predictive distributions, have few landmarks.
"""

import warnings

import numpy as np
from sklearn.base import clone

from bdr_stan import BDR, BLR, MERR, Bags, tune
from bdr_stan.kernel_means.set_kernels import BagMeans
from bdr_stan.kernels import RBF, median_bandwidth
from bdr_stan.plots import MODELS
from data_gen.entropy import entropy_sets
from experiments.papers import DFDR
from experiments.papers.kernel_grids import held_out
from experiments.report import arguments, markdown, pyplot, write

SCALES = 2.0 ** np.arange(-3, 4)  # times the median bandwidth, for MERR
DENSITY_SCALES = 2.0 ** np.arange(-5, 1)  # the same for DFDR
PAPER = ("MERR", "DFDR L2", "DFDR L1")


def merr(train, validation, kernels):
    """MERR with the kernel and penalty of the least error on the validation sets."""
    (bags, y), (others, of_others) = train, validation
    together, labels = Bags.concatenate([bags, others]), np.concatenate([y, of_others])
    split = np.arange(len(y)), np.arange(len(y), len(labels))
    tried = []
    for kernel in kernels:
        gram = BagMeans(together, kernel).products()
        alphas, errors, _ = held_out(gram, labels, [split])
        best = np.argmin(errors)
        tried.append((errors[best], kernel, alphas[best]))
    _, kernel, alpha = min(tried, key=lambda candidate: candidate[0])
    return MERR(kernel, alpha=float(alpha)).fit(bags, y)


def fit_each(train, validation, seed, run):
    """Every method, tuned on the validation sets and fitted to the training sets."""
    bags, y = train
    median = median_bandwidth(bags, seed=seed)
    smoothers = {"bandwidths": DENSITY_SCALES * median}
    fits = {
        "MERR": merr(train, validation, [RBF(scale * median) for scale in SCALES]),
        "DFDR L2": DFDR(**smoothers).fit(bags, y, validation=validation, seed=seed),
        "DFDR L1": DFDR(distance="l1", **smoothers).fit(bags, y, validation=validation, seed=seed),
    }
    tuned = tune(
        bags,
        y,
        models={
            "BLR": BLR(bandwidth="median", method="exact"),
            "BDR": BDR(bandwidth="median"),
        },
        validation=validation,
        n_landmarks=(10, 20),
        bandwidth_scale=(0.5, 1, 2, 4),
        score="mse",
        seed=seed,
    )
    for name, model in tuned.best_of.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # short chains
            fits[name] = clone(model).fit(bags, y, seed=seed, **run)
    return fits


def rmse(y, predicted):
    return float(np.sqrt(np.mean((y - predicted) ** 2)))


def one_run(seed, n_points, run):
    """Test RMSE of every method, coverage of BLR and BDR, and what `draw` plots."""
    sets = entropy_sets(seed, n_points=n_points)
    train, validation, test = (
        (sets.bags[part], sets.y[part]) for part in (slice(0, 25), slice(25, 50), slice(50, 100))
    )
    fits = fit_each(train, validation, seed, run)
    bags, y = test
    predictions = {name: model.predict(bags) for name, model in fits.items()}
    errors = {name: rmse(y, predicted) for name, predicted in predictions.items()}
    covered = {}
    for name in ("BLR", "BDR"):
        lower, upper = fits[name].predictive(bags).interval(0.95)
        covered[name] = float(np.mean((lower <= y) & (y <= upper)))
    return errors, covered, (y, sets.angle[50:], predictions)


def draw(errors, shown, path):
    """Box plot of the errors; labels and predictions by angle in the median run of MERR."""
    from matplotlib.ticker import FixedLocator, NullFormatter

    figure, (boxes, curve) = pyplot().subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    names = list(errors)
    boxes.boxplot([errors[name] for name in names], tick_labels=names)
    boxes.set_yscale("log")
    boxes.yaxis.set_major_locator(FixedLocator([0.02, 0.05, 0.1, 0.2, 0.5, 1]))
    boxes.yaxis.set_major_formatter("{x:g}")
    boxes.yaxis.set_minor_formatter(NullFormatter())
    boxes.set_xlabel("method")
    boxes.set_ylabel("RMSE of the entropy of test sets, nats")
    boxes.set_title(f"errors in {len(errors[names[0]])} runs: medians, quartiles, outliers")
    middle = int(np.argsort(errors["MERR"])[len(shown) // 2])
    y, angle, predictions = shown[middle]
    order = np.argsort(angle)
    curve.plot(angle[order], y[order], color="black", label="true entropy")
    for (name, marker), colour in zip((("MERR", "o"), ("DFDR L2", "x"), ("BDR", "+")), MODELS):
        found = {"color": colour, "markersize": 6, "fillstyle": "none"}
        curve.plot(angle, predictions[name], marker, **found, label=f"predicted by {name}")
    curve.set_xlabel("angle of rotation of a test set, radians")
    curve.set_ylabel("entropy of the first coordinate, nats")
    curve.set_title(f"test sets of run {middle} (median RMSE of MERR)")
    curve.legend()
    figure.savefig(path, dpi=100)


def summary(errors):
    """Median and quartiles of the errors, and the number of runs where MERR has the lower one."""
    import pandas as pd

    rows = {}
    for name, values in errors.items():
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        lower = "" if name == "MERR" else f"{np.sum(np.less(errors['MERR'], values))}"
        rows[name] = [f"{middle:.4f}", f"{low:.4f} to {high:.4f}", lower]
    columns = ["median RMSE", "quartiles", "runs where MERR is lower"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("method")


def main():
    parser = arguments(
        __doc__, quick="one run, sets of 50 points", output="folder for entropy.md and entropy.png"
    )
    parser.add_argument("--runs", type=int, default=25)
    args = parser.parse_args()

    n_runs, n_points = (1, 50) if args.quick else (args.runs, 500)
    chain = {"chains": 2, "warmup": 100, "draws": 100} if args.quick else {"chains": 2}
    errors, covered, shown = {}, {}, []
    for seed in range(n_runs):
        found, inside, predicted = one_run(seed, n_points, chain)
        shown.append(predicted)
        for name, value in found.items():
            errors.setdefault(name, []).append(value)
        for name, value in inside.items():
            covered.setdefault(name, []).append(value)
        print(", ".join(f"{name} {value:.4f}" for name, value in found.items()), flush=True)
    table = summary(errors)
    merr, dfdr = np.median(errors["MERR"]), min(np.median(errors[n]) for n in PAPER[1:])
    verdict = f"Median RMSE of MERR: {merr:.4f}, of the better DFDR: {dfdr:.4f}."
    inside = ", ".join(f"{name} {np.mean(values):.3f}" for name, values in covered.items())
    inside = f"Coverage of central 95% intervals, test labels: {inside}."
    print(f"\n{table.to_string()}\n\n{verdict}\n{inside}")
    if args.output is None:
        return
    parts = [
        "# Entropy of sets of points",
        TEXT.format(runs=n_runs, points=n_points),
        markdown(table),
        verdict,
        inside,
        "![Test errors, and predictions of one run](entropy.png)",
        f"Reproduce: `python experiments/entropy.py --runs {n_runs} --output docs/validation`",
    ]
    write(args.output, "entropy.md", "\n\n".join(parts) + "\n")
    draw(errors, shown, args.output / "entropy.png")


TEXT = """\
In the setting of Szabo et al. (2014), in each of {runs} runs 100 sets of {points} points are drawn
from one two-dimensional Gaussian distribution, rotated by a random angle per set. The label of a
set is the entropy of the first coordinate, in nats; 25 sets are for training, 25 for choosing
settings, 50 for testing.

MERR is kernel ridge regression on exact kernel means; DFDR smooths labels by the L1 or L2 distance
between density estimates. BLR and BDR, with few landmarks, give predictive distributions."""


if __name__ == "__main__":
    main()
