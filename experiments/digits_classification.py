"""Classify bags of 1 to 300 handwritten digits: are the class probabilities calibrated?

Each bag contains images drawn from a distribution over the digits; its class is whether the mean of
that *distribution* is above 4.5. A bag of one image contains little information about it, which its
probability should reflect. BLRClassifier treats mean embeddings as exact; ShrinkageClassifier and
BDRClassifier model their sampling uncertainty. Training and test bags are drawn from the same
images of scikit-learn's digits. All settings are defaults; nothing is tuned.

    python experiments/digits_classification.py           about three minutes
    python experiments/digits_classification.py --output docs/validation
    python experiments/digits_classification.py --quick   fewer bags and draws

With --output, writes digits_classification.md (scores by bag size) and digits_classification.png
(reliability of the probabilities by bag size).
"""

import time

import numpy as np

from bdr_stan import BDRClassifier, BLRClassifier, ShrinkageClassifier, metrics, plots
from bdr_stan.datasets import digits_bags
from experiments.report import arguments, rows, write

MODELS = (BLRClassifier, ShrinkageClassifier, BDRClassifier)
FULL = {"n_train": 800, "n_test": 4000, "n_landmarks": 60}, {"chains": 4, "draws": 1000}
QUICK = {"n_train": 150, "n_test": 400, "n_landmarks": 15}, {"chains": 2, "draws": 200}
N_BINS = 5
PICTURE = "digits_classification.png"
SCORES = {
    "log loss": lambda row: f"{row['log_loss']:.3f}",
    "Brier": lambda row: f"{row['brier']:.3f}",
    "accuracy": lambda row: f"{row['accuracy']:.3f}",
}
GAPS = {"gap": lambda row: f"{row['gap']:.3f} ({row['gap by chance']:.3f})"}


def classes(n_bags, seed):
    """Bags of digits and the class of each: whether its distribution's mean is above 4.5."""
    bags, mean = digits_bags(n_bags, seed=seed)
    return bags, np.where(mean > 4.5, "mean > 4.5", "mean <= 4.5")


def fit_all(bags, y, n_landmarks, sampling):
    """All classifiers, fitted on the same landmarks and embeddings."""
    features = BDRClassifier(n_landmarks, bandwidth="median").training_features(bags, seed=1)
    models = {}
    for classifier in MODELS:
        begun = time.monotonic()
        model = classifier(n_landmarks).fit_features(features, y, seed=1, **sampling)
        models[classifier.__name__] = model
        print(f"{classifier.__name__}, {time.monotonic() - begun:.1f} s")
        print(model.report(), flush=True)
    return models


def scores(models, predictives, bags, y):
    """Scores by bag size: name of a model -> DataFrame."""
    tables = {}
    for name in models:
        table = metrics.table_by_size(y, predictives[name], bags.sizes)
        bins = metrics.reliability(y, predictives[name], N_BINS, sizes=bags.sizes)
        table["gap"], table["gap by chance"] = (
            calibration_gap(bins).T.loc[:, table.index].to_numpy()
        )
        tables[name] = table
    return tables


def calibration_gap(bins):
    """Mean gap between observed shares and predicted probabilities, and its mean by chance.

    Both are averages over the bins, weighted by their numbers of bags; the mean distance of a
    normal share from its expectation is sqrt(2 / pi) standard errors.
    """
    weight = bins["n_bags"] / bins.groupby("size")["n_bags"].transform("sum")
    gap = weight * (bins["observed"] - bins["predicted"]).abs()
    chance = weight * bins["se"] * np.sqrt(2 / np.pi)
    return bins.assign(gap=gap, chance=chance).groupby("size")[["gap", "chance"]].sum()


def side_by_side(tables, measures):
    """Scores of all models in one Markdown table, one row per class of bag sizes.

    measures : dict, title -> function from a row of the table to text
    """
    first = next(iter(tables.values()))
    heads, columns = ["images", "bags"], [first.index, first["n_bags"]]
    for title, text in measures.items():
        for name, table in tables.items():
            heads.append(f"{title} {name.removesuffix('Classifier')}")
            columns.append(table.apply(text, axis=1))
    return rows(heads, zip(*columns, strict=True), right=slice(None))


def conclusion(tables):
    losses = {name: table["log_loss"] for name, table in tables.items()}
    smallest = next(iter(tables.values())).index[0]
    images = "1 image" if smallest == "1" else f"{smallest} images"
    each = ", ".join(f"{name} {loss[smallest]:.3f}" for name, loss in losses.items())
    over_all = ", ".join(f"{name} {loss['all']:.3f}" for name, loss in losses.items())
    return f"Log loss in bags of {images}: {each};\nin all bags: {over_all} (base rate: 0.693)."


def draw(predictives, truth, sizes):
    """Figure of reliability in bags of one image and in all larger bags."""
    figure = plots.reliability(predictives, truth, sizes, edges=[1], n_bins=N_BINS)
    for ax in figure.axes:
        title = ax.get_title().replace(">1 points", "2 to 300 images").replace("point", "image")
        ax.set(title=title, xticks=(0, 0.25, 0.5, 0.75), yticks=(0, 0.25, 0.5, 0.75, 1))
    return figure


def main():
    args = arguments(
        __doc__,
        quick="fewer bags and draws",
        output="folder for table and figure",
        folder="digits_classification_output",
    ).parse_args()
    counts, sampling = QUICK if args.quick else FULL

    train, y = classes(counts["n_train"], seed=1)
    test, truth = classes(counts["n_test"], seed=2)
    models = fit_all(train, y, counts["n_landmarks"], sampling)
    predictives = {name: model.predictive(test) for name, model in models.items()}
    tables = scores(models, predictives, test, truth)

    text = f"""\
# Classes of bags of digits

{len(train)} training and {len(test)} test bags, separate draws of the same images, 1 to 300 images
per bag; {counts["n_landmarks"]} landmarks. The class is whether the mean of a bag's distribution
over the digits is above 4.5.

{side_by_side(tables, SCORES)}

{conclusion(tables)}

Calibration: mean gap between the share of the class and its predicted probability, over {N_BINS}
bins of the probability. In brackets: the mean gap by chance if every probability is calibrated.

{side_by_side(tables, GAPS)}

![Share of the class against its predicted probability, by bag size]({PICTURE})

Calibrated probabilities are on the diagonal. Bars are two standard errors to either side; the area
of a point grows with its number of bags.

Reproduce: `python experiments/digits_classification.py{" --quick" if args.quick else ""}`
"""
    write(args.output, "digits_classification.md", text)
    draw(predictives, truth, test.sizes).savefig(args.output / PICTURE, dpi=200)
    print(text)


if __name__ == "__main__":
    main()
