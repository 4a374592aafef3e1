"""Random Fourier features or landmarks: BLR and BDR with as many features of each kind.

A mean embedding may be the kernel at landmarks, or random Fourier features, which the discussion of
Law et al. (2018) names for kernels without a Gram matrix. Both models take them without a change:
Fourier features of the points are points of a linear kernel, whose landmarks are the unit vectors.
The data are gamma bags of Law et al. and two real tables (``experiments/real_tables.py``); the
bandwidth of each kind is chosen on validation bags.
"""

import warnings

import numpy as np
from sklearn.base import clone

from bdr_stan import BDR, BLR, Bags, Linear
from bdr_stan.kernels import resolve_kernel
from data_gen.gamma import gamma_bags
from experiments.papers.fourier_features import FourierFeatures, draw_frequencies
from experiments.real_tables import groups_of
from experiments.report import arguments, rows, write

SCALES = (0.5, 1.0, 2.0)  # times the bandwidth of the median rule
PARTS = (200, 100, 200)  # bags for training, validation and testing, at most
TABLES = ("schools, mathematics", "workers, wages")
MODELS = {"BLR": BLR(method="exact"), "BDR": BDR(kernel="rbf", method="laplace")}
KINDS = ("landmarks", "fourier")


def data_of(name, seed, parts):
    """Bags and labels of a table, and the slices of its parts."""
    if name == "gamma":
        pairs = gamma_bags(23 + seed)
        bags = [pairs[split][0][:n] for split, n in zip(("train", "validation", "test"), parts)]
        y = [pairs[split][1][:n] for split, n in zip(("train", "validation", "test"), parts)]
        return Bags.concatenate(bags), np.concatenate(y), np.cumsum([0, *parts])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of columns that bags share
        bags, y = groups_of(name, np.random.default_rng(seed), sum(parts))
    shares = np.cumsum([0, *parts]) / sum(parts)
    return bags, y, (shares * len(bags)).astype(int)


def fourier_bags(bags, bandwidth, dimension, seed):
    """The bags with random Fourier features as points."""
    frequencies = draw_frequencies(dimension // 2, bags.n_features, seed=seed)
    return Bags(FourierFeatures(frequencies, bandwidth)(bags.points), bags.offsets)


def scores(model, bags, y, ends, seed):
    """Negative log density and mean squared error on validation and on test bags."""
    first, second, third, last = ends
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(bags[first:second], y[first:second], seed=seed)
        found = []
        for part in (slice(second, third), slice(third, last)):
            predictive = model.predictive(bags[part])
            density = -predictive.log_prob(y[part]).mean()
            found.append((density, np.mean((predictive.mean - y[part]) ** 2)))
    return found


def best_scores(name, kind, dimension, bags, y, ends, seed):
    """Test scores of a model with the bandwidth of the best validation density."""
    tried = []
    for scale in SCALES:
        kernel = resolve_kernel("rbf", "scaled", bags[: ends[1]], seed=seed, scale=scale)
        model = clone(MODELS[name])
        points = bags
        if kind == "fourier":
            points = fourier_bags(bags, kernel.lengths, dimension, seed)
            model.set_params(kernel=Linear(), landmarks=np.eye(dimension))
        else:
            model.set_params(kernel=kernel, n_landmarks=dimension)
        tried.append(scores(model, points, y, ends, seed))
    return min(tried, key=lambda found: found[0][0])[1]


def main():
    parser = arguments(
        __doc__, quick="gamma bags once, few of them", output="folder for fourier_features.md"
    )
    parser.add_argument("--repeats", type=int, default=6, help="data sets per table (default 6)")
    parser.add_argument("--features", type=int, nargs="+", default=[60], help="default 60")
    args = parser.parse_args()
    names, parts, dimensions, repeats = ("gamma", *TABLES), PARTS, args.features, args.repeats
    if args.quick:
        names, parts, dimensions, repeats = ("gamma",), (40, 20, 20), (10,), 1

    lines = []
    for name in names:
        sets = [data_of(name, seed, parts) for seed in range(repeats)]
        for model in MODELS:
            for dimension in dimensions:
                found = np.array(
                    [
                        [best_scores(model, kind, dimension, *each, seed) for kind in KINDS]
                        for seed, each in enumerate(sets)
                    ]
                )  # (repeats, kinds, scores)
                lines.append([name, model, dimension, *cells(found)])
                print(", ".join(map(str, lines[-1])), flush=True)
    heads = ["data", "model", "features", *(f"{s}, {kind}" for s in ("NLL", "MSE")
             for kind in (*KINDS, "difference"))]  # fmt: skip
    table = rows(heads, lines)
    print(f"\n{table}\n\nDifferences are Fourier features less landmarks: above 0 landmarks win.")
    if args.output is not None:
        text = TEXT.format(repeats=repeats, train=parts[0], validation=parts[1], test=parts[2])
        write(args.output, "fourier_features.md", f"{text}\n\n{table}\n\n{AFTER}\n")


def cells(found):
    """Averages of both kinds and their difference with its standard error, for each score."""
    for k in range(found.shape[2]):
        landmarks, fourier = found[:, 0, k], found[:, 1, k]
        difference = fourier - landmarks
        error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
        yield f"{landmarks.mean():.3f}"
        yield f"{fourier.mean():.3f}"
        yield f"{difference.mean():.3f} ± {error:.3f}"


TEXT = """\
# Random Fourier features or landmarks

The mean embedding of a bag may average the kernel at landmarks, or random Fourier features (Rahimi
and Recht 2007), a cosine and a sine at random frequencies. Law et al. (2018, section 6) name them
as an alternative. `BLR` and `BDR` take them as points of a linear kernel:

```python
from experiments.papers.fourier_features import FourierFeatures, draw_frequencies

psi = FourierFeatures(draw_frequencies(30, bags.n_features, seed=1), bandwidth)
points = Bags(psi(bags.points), bags.offsets)
BDR(kernel=Linear(), landmarks=np.eye(60)).fit(points, y)
```

This is the comparison with k-means landmarks, for as many features of each kind: {repeats} data
sets of gamma bags and {repeats} splits of two [real tables](real_tables.md), at most {train} bags
for training, {validation} for the choice of the bandwidth out of 1/2, 1 and 2 times the median
rule, {test} for testing. NLL is the negative log predictive density per bag; differences, with
standard errors, are Fourier features less landmarks: above 0 landmarks are better."""

AFTER = """\
With `BDR` landmarks are better on gamma bags and schools, and on wages no worse than the standard
error; with `BLR` neither kind is better throughout. Landmarks also go with every kernel, with sums
of kernels and with columns by name. So `BLR` and `BDR` have no option for Fourier features: the
three lines above are for problems in which landmarks fail.

Reproduce: `python experiments/fourier_features.py --output docs/validation`"""


if __name__ == "__main__":
    main()
