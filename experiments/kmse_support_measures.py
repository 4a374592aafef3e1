"""Support measure machines on shrunk kernel means: the protocol of Muandet et al. (2014), Table 2.

Classify the digit of an image from a bag of a few of its 3 x 3 patches with their positions; and
detect unusual bags of images, which contain five of the ten digits instead of all. Bags are drawn
from scikit-learn's digits. Each estimator of the bags' kernel means is used in a linear machine and
in one with a Gaussian kernel of the distances between kernel means.
"""

import itertools

import numpy as np
from scipy.stats import wilcoxon
from sklearn.metrics import roc_auc_score

from bdr_stan import Bags
from bdr_stan.kernel_means.shrinkage import ESTIMATORS
from experiments import report
from experiments.papers import OneClassSMM, SupportMeasureMachine

LEVELS = ("linear", "gaussian")
PLACE = 0.2  # weight of a patch's row and column relative to pixels in [0, 1]
CS = (10.0, 100.0, 1000.0)
PATCHES = {"digit from 10 patches": (10, 10), "digit from 2 to 12 patches": (2, 12)}
OUTLIERS = "bags of five digits"
# Muandet et al. (2014), Table 2: KME, S-KMSE, F-KMSE; SMM on images, OCSMM on galaxies.
PUBLISHED = {
    ("accuracy", "linear"): "0.543 / 0.552 / 0.561",
    ("accuracy", "gaussian"): "0.602 / 0.630 / 0.652",
    ("AUC", "linear"): "0.696 / 0.697 / 0.697",
    ("AUC", "gaussian"): "0.909 / 0.911 / 0.910",
}


def patch_bags(images, sizes, rng):
    """Each image as a bag of 3 x 3 patches, drawn without replacement, with their positions."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
    n, rows, columns = windows.shape[:3]
    place = PLACE * np.stack(np.meshgrid(range(rows), range(columns), indexing="ij"), axis=-1)
    place = np.broadcast_to(place, (n, rows, columns, 2))
    patches = np.concatenate([windows.reshape(n, rows, columns, 9), place], axis=-1)
    patches = patches.reshape(n, rows * columns, 11)
    counts = rng.integers(sizes[0], sizes[1] + 1, n)
    return Bags.from_list(
        [bag[rng.choice(len(bag), count, replace=False)] for bag, count in zip(patches, counts)]
    )


def digit_bags(images, digits, n_bags, n_digits, rng):
    """Bags of 5 to 20 images of `n_digits` digits, drawn anew for each bag."""
    images_of = [np.flatnonzero(digits == digit) for digit in range(10)]
    bags = []
    for _ in range(n_bags):
        present = rng.choice(10, n_digits, replace=False)
        drawn = rng.choice(present, rng.integers(5, 21))
        bags.append(
            images.reshape(len(images), -1)[[rng.choice(images_of[digit]) for digit in drawn]]
        )
    return Bags.from_list(bags)


def accuracies(images, digits, sizes, counts, seed):
    """Test accuracy of each machine, C chosen on validation bags; {(level, estimator): value}."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))[: sum(counts)]
    bags, y = patch_bags(images[order], sizes, rng), digits[order]
    train, validation, test = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    found = {}
    for level, estimator in itertools.product(LEVELS, ESTIMATORS):
        machines = [
            SupportMeasureMachine(bandwidth="median", estimator=estimator, outer=level, C=C).fit(
                bags[train], y[train], seed=seed
            )
            for C in CS
        ]
        best = np.argmax([machine.score(bags[validation], y[validation]) for machine in machines])
        found[level, estimator] = machines[best].score(bags[test], y[test])
    return found


def areas(images, digits, n_bags, seed):
    """Area under the ROC curve of each one-class machine; {(level, estimator): value}."""
    rng = np.random.default_rng(seed)
    train = digit_bags(images, digits, n_bags, 10, rng)
    like, unlike = (digit_bags(images, digits, n_bags, k, rng) for k in (10, 5))
    test = Bags.from_list([*like, *unlike])
    usual = np.repeat([1, 0], n_bags)
    found = {}
    for level, estimator in itertools.product(LEVELS, ESTIMATORS):
        machine = OneClassSMM(bandwidth="median", estimator=estimator, outer=level).fit(
            train, seed=seed
        )
        found[level, estimator] = roc_auc_score(usual, machine.decision_function(test))
    return found


def table(results):
    """Means (sd) over repeats, * where a paired Wilcoxon test against KME has p < 0.05."""
    lines = []
    for (task, score), found in results.items():
        for level in LEVELS:
            by_method = {name: np.array([f[level, name] for f in found]) for name in ESTIMATORS}
            cells = []
            for values in by_method.values():
                differ = np.any(values != by_method["kme"])
                sure = differ and wilcoxon(values, by_method["kme"]).pvalue < 0.05
                cells.append(f"{values.mean():.3f} ({values.std():.3f}){'*' if sure else ''}")
            published = PUBLISHED[score, level]
            lines.append([task, score, level, *cells, published])
    heads = ["task", "score", "second level", "KME", "S-KMSE", "F-KMSE", "published, other data"]
    return report.rows(heads, lines, right=slice(3, -1))


def main():
    from sklearn.datasets import load_digits

    parser = report.arguments(
        __doc__, quick="2 repeats of few bags", output="folder for kmse_support_measures.md"
    )
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    repeats, counts, n_bags = args.repeats, (300, 150, 500), 200
    if args.quick:
        repeats, counts, n_bags = 2, (40, 20, 40), 20
    images, digits = load_digits().images / 16, load_digits().target

    results = {}
    seeds = range(args.seed, args.seed + repeats)
    for task, sizes in PATCHES.items():
        results[task, "accuracy"] = [accuracies(images, digits, sizes, counts, s) for s in seeds]
        print(f"{task}: done", flush=True)
    results[OUTLIERS, "AUC"] = [areas(images, digits, n_bags, s) for s in seeds]
    scores = table(results)
    print(f"\nMean (sd) over {repeats} repeats:\n\n{scores}")
    if args.output is not None:
        text = REPORT.format(
            repeats=repeats,
            train=counts[0],
            held=counts[1],
            test=counts[2],
            n=n_bags,
            scores=scores,
        )
        report.write(args.output, "kmse_support_measures.md", text)


REPORT = """# Support measure machines on shrunk kernel means

The experiment follows Muandet et al. (2014), section 4.2, but not on its data (scenes, galaxies).
Bags are drawn from scikit-learn's digits:

- classify the digit of an image from a bag of its 3 x 3 patches with their positions: {train}
  training, {held} validation and {test} test images, C of 10, 100, 1000 chosen on validation
  images;
- detect bags of 5 to 20 images that contain five of the ten digits instead of all: one-class
  machines with nu = 0.1 on {n} usual bags, tested on {n} usual and {n} unusual ones.

RBF kernel of points, with bandwidth by the median rule; second level linear, or Gaussian with the
median rule on the distances of kernel means. Mean (sd) over {repeats} repeats; * is p < 0.05 in a
two-sided Wilcoxon test against KME, paired by repeat, in either direction:

{scores}

Bags of 10 patches shrink by similar amounts, without a gain. Where sizes differ, small bags shrink
most: kernel means then differ by size as well as by class, which costs accuracy. The same effect
improves the distances that detect unusual bags: they depend less on the number of points. A linear
one-class machine does not separate these bags at all. `BDR` shrinks towards the mean of all bags
instead of zero, and models the sampling uncertainty.

Reproduce: `python experiments/kmse_support_measures.py --output docs/validation`
"""

if __name__ == "__main__":
    main()
