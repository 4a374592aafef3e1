"""Loss of kernel mean estimators on mixtures: Figures 1 and 2 of Muandet et al. (2014).

The loss is the squared RKHS distance from the true kernel mean, which has a closed form for the
paper's mixtures. First 10 points in 30 dimensions over a range of shrinkage, then the amount chosen
by leave-one-out cross-validation, for 2 to 100 points in 20 dimensions and 20 points in 2 to 100
dimensions. Averages are over random distributions and samples of each. Then F-KMSE by Nystrom
features beside the exact one, for 100 to 2000 points: time and loss.
"""

import time

import numpy as np

from bdr_stan.kernel_means.shrinkage import f_kmse, s_kmse
from data_gen.mixtures import random_mixture
from experiments import report
from experiments.kernels import KERNELS, kernel_of
from experiments.papers.gaussian_mixtures import MixtureMean
from experiments.papers.low_rank import nystrom_f_kmse
from experiments.papers.theorem_4 import theorem_4_scores

KME, SIMPLE, FLEXIBLE, THEOREM_4 = "KME", "S-KMSE", "F-KMSE", "F-KMSE by Theorem 4"
POINTS, FEATURES = (2, 5, 10, 20, 50, 100), (2, 5, 10, 20, 30, 50, 100)
FIGURE_1 = 10, 30  # points, dimensions
FIXED_FEATURES, FIXED_POINTS = 20, 20
MUST = 20, 30  # points, dimensions of the paired tests
LOW_RANK_POINTS, LANDMARKS = (100, 500, 2000), (20, 50, 200)
EXACT = "all"
SCALES = np.geomspace(1e-2, 1e2, 25)
RATIO = "squared RKHS error,\nas a share of KME's"
AMOUNT = "S-KMSE: lambda,\nF-KMSE: n lambda / smallest eigenvalue"
AXES = {
    "points": f"points, {FIXED_FEATURES} dimensions",
    "dimensions": f"dimensions, {FIXED_POINTS} points",
}


class Sample:
    """A sample's kernel matrix, and the terms of the true kernel mean in the loss."""

    def __init__(self, distribution, x, kernel):
        exact = MixtureMean(distribution, kernel)
        self.gram, self.cross, self.squared = kernel(x, x), exact(x), exact.norm**2

    def loss(self, weights):
        return weights @ self.gram @ weights - 2 * weights @ self.cross + self.squared

    def chosen(self):
        """Loss of each estimator, with lambda chosen by its score."""
        n = len(self.gram)
        weights = {
            KME: np.full(n, 1 / n),
            SIMPLE: s_kmse(self.gram)[0],
            FLEXIBLE: f_kmse(self.gram)[0],
            THEOREM_4: f_kmse(self.gram, scores=theorem_4_scores)[0],
        }
        return {name: self.loss(w) for name, w in weights.items()}

    def path(self):
        """Losses of S-KMSE at lambda, of F-KMSE at n lambda / smallest eigenvalue in `SCALES`."""
        n = len(self.gram)
        values, vectors = np.linalg.eigh(self.gram)
        kept = values > 1e-10 * values[-1]
        smallest, ones = values[kept][0], vectors.sum(axis=0)
        simple = [self.loss(np.full(n, 1 / (n * (1 + c)))) for c in SCALES]
        factors = [np.where(kept, values / (values + c * smallest), 0) for c in SCALES]
        return np.array([simple, [self.loss(vectors @ (f * ones) / n) for f in factors]])


def samples(n, p, name, *, distributions, repeats, seed):
    """Yield the list of samples of each distribution."""
    rng = np.random.default_rng([seed, n, p])  # the same points for every kernel
    for _ in range(distributions):
        distribution = random_mixture(p, seed=rng)
        points = [distribution.sample(n, seed=rng) for _ in range(repeats)]
        yield [Sample(distribution, x, kernel_of(name, x)) for x in points]


def average_losses(n, p, name, **options):
    """Mean loss of each estimator over the samples of each distribution; {name: array}."""
    by_distribution = []
    for several in samples(n, p, name, **options):
        found = [sample.chosen() for sample in several]
        by_distribution.append({key: np.mean([f[key] for f in found]) for key in found[0]})
    return {
        key: np.array([losses[key] for losses in by_distribution]) for key in by_distribution[0]
    }


def average_paths(n, p, name, **options):
    """Mean losses along `SCALES`, and with lambda chosen, as ratios to those of KME."""
    paths, chosen = [], []
    for several in samples(n, p, name, **options):
        paths += [sample.path() for sample in several]
        chosen += [list(sample.chosen().values()) for sample in several]
    plain, simple, flexible, _ = np.mean(chosen, axis=0)
    return np.mean(paths, axis=0) / plain, (simple / plain, flexible / plain)


def draw_paths(paths, path):
    colours = colours_of_estimators()
    figure, axes = report.pyplot().subplots(
        1, len(paths), figsize=(3.5 * len(paths), 3.6), sharey=True, layout="constrained"
    )
    for ax, (name, (curves, chosen)) in zip(axes, paths.items()):
        ax.axhline(1, color="black", lw=1, label=f"{KME}, no shrinkage")
        for label, curve, level in zip((SIMPLE, FLEXIBLE), curves, chosen):
            ax.plot(SCALES, curve, color=colours[label], label=f"{label}, by shrinkage")
            ax.axhline(
                level, color=colours[label], lw=1.2, ls="--", label=f"{label}, shrinkage chosen"
            )
        ax.set(title=f"{name} kernel", xscale="log", ylim=(0.4, 1.6), xlabel=AMOUNT)
    axes[0].set_ylabel(RATIO)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=90)


def draw_sizes(results, path):
    """Ratios of losses against the number of points and of dimensions, one column per kernel."""
    colours = colours_of_estimators()
    figure, axes = report.pyplot().subplots(
        2, len(KERNELS), figsize=(3.1 * len(KERNELS), 5.6), sharey=True, layout="constrained"
    )
    for row, (along, by_kernel) in zip(axes, results.items()):
        for ax, (name, by_size) in zip(row, by_kernel.items()):
            ax.axhline(1, color="black", lw=1, label=f"{KME}, no shrinkage")
            sizes = list(by_size)
            for label, style in ((SIMPLE, "o-"), (FLEXIBLE, "s-"), (THEOREM_4, "^:")):
                ratios = [losses[label].mean() / losses[KME].mean() for losses in by_size.values()]
                ax.plot(sizes, ratios, style, ms=4, lw=1.3, color=colours[label], label=label)
            ax.set(title=f"{name} kernel", xscale="log", xticks=sizes, ylim=(0.2, 1.3))
            ax.set_xlabel(AXES[along])
            ax.set_xticklabels(sizes)
            ax.minorticks_off()
        row[0].set_ylabel(RATIO)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=90)


def colours_of_estimators():
    from bdr_stan.plots import MODELS

    return dict(zip((FLEXIBLE, SIMPLE, THEOREM_4), MODELS))


def table_of_tests(n, p, **options):
    """Mean losses at one size and paired tests of each estimator against KME, in Markdown."""
    from scipy.stats import wilcoxon

    lines = []
    for name in KERNELS:
        losses = average_losses(n, p, name, **options)
        p_values = [
            wilcoxon(losses[key], losses[KME], alternative="less").pvalue
            for key in (SIMPLE, FLEXIBLE)
        ]
        means = [f"{losses[key].mean():.4g}" for key in (KME, SIMPLE, FLEXIBLE, THEOREM_4)]
        lines.append([name, *means, *(f"{v:.1g}" for v in p_values)])
    heads = ["kernel", KME, SIMPLE, FLEXIBLE, "by Theorem 4", "p, S-KMSE", "p, F-KMSE"]
    return report.rows(heads, lines, right=slice(1, None))


def size_table(by_size, along):
    """Mean RBF losses by size, in Markdown."""
    keys = (KME, SIMPLE, FLEXIBLE, THEOREM_4)
    lines = [
        [size, *(f"{losses[key].mean():.4f}" for key in keys)] for size, losses in by_size.items()
    ]
    return report.rows([along, *keys], lines, right=slice(None))


def low_rank_losses(n, p, *, distributions, seed):
    """Loss of KME, (D,); of F-KMSE by its number of landmarks losses and CPU seconds, (D,) each."""
    rng = np.random.default_rng([seed, n, p])
    plain, found = [], {}
    for _ in range(distributions):
        distribution = random_mixture(p, seed=rng)
        x = distribution.sample(n, seed=rng)
        kernel = kernel_of("RBF", x)
        sample = Sample(distribution, x, kernel)
        plain.append(sample.loss(np.full(n, 1 / n)))
        for landmarks in (EXACT, *(d for d in LANDMARKS if d < n)):
            start = time.process_time()
            if landmarks == EXACT:
                weights, _ = f_kmse(kernel(x, x))
            else:
                weights, _ = nystrom_f_kmse(x, kernel, landmarks, seed=seed)
            seconds = time.process_time() - start
            found.setdefault(landmarks, []).append((sample.loss(weights), seconds))
    return np.array(plain), {name: np.transpose(pairs) for name, pairs in found.items()}


def low_rank_table(sizes, p, **options):
    """Time of F-KMSE by Nystrom features, and its loss as a share of KME's, in Markdown."""
    lines = []
    for n in sizes:
        plain, found = low_rank_losses(n, p, **options)
        exact = found[EXACT][0] / plain
        for landmarks, (losses, seconds) in found.items():
            ratios = losses / plain
            cells = [seconds.mean(), *mean_and_error(ratios)]
            if landmarks != EXACT:
                cells += mean_and_error(ratios - exact)
            lines.append([n, landmarks, *(f"{value:.4f}" for value in cells)])
    heads = ["points", "landmarks", "CPU seconds", "loss / KME's", "se", "minus exact", "se"]
    lines = [line + [""] * (len(heads) - len(line)) for line in lines]
    return report.rows(heads, lines, right=slice(None))


def mean_and_error(values):
    """Mean and its standard error."""
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def main():
    parser = report.arguments(
        __doc__,
        quick="5 distributions, 1 sample, 3 sizes; low rank for 100 points",
        output="folder for kmse_loss.md and its figures",
    )
    parser.add_argument("--distributions", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=10, help="samples of each distribution")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    options = {"distributions": args.distributions, "repeats": args.repeats, "seed": args.seed}
    points, features, low_rank_points = POINTS, FEATURES, LOW_RANK_POINTS
    if args.quick:
        options |= {"distributions": 5, "repeats": 1}
        points, features = POINTS[1:4], FEATURES[1:4]
        low_rank_points = LOW_RANK_POINTS[:1]

    tests = table_of_tests(*MUST, **options)
    print(f"{MUST[0]} points in {MUST[1]} dimensions:\n\n{tests}\n", flush=True)
    paths = {name: average_paths(*FIGURE_1, name, **options) for name in KERNELS}
    print("Lowest loss over that of KME at 10 points in 30 dimensions, over all lambda:")
    for name, (curves, _) in paths.items():
        print(f"{name}: S-KMSE {curves[0].min():.3f}, F-KMSE {curves[1].min():.3f}", flush=True)
    results = {
        "points": {
            name: {n: average_losses(n, FIXED_FEATURES, name, **options) for n in points}
            for name in KERNELS
        },
        "dimensions": {
            name: {p: average_losses(FIXED_POINTS, p, name, **options) for p in features}
            for name in KERNELS
        },
    }
    by_points = size_table(results["points"]["RBF"], "points")
    by_features = size_table(results["dimensions"]["RBF"], "dimensions")
    print(f"\nRBF, {FIXED_FEATURES} dimensions:\n\n{by_points}")
    print(f"\nRBF, {FIXED_POINTS} points:\n\n{by_features}")
    low_rank = low_rank_table(
        low_rank_points,
        FIXED_FEATURES,
        distributions=options["distributions"],
        seed=args.seed,
    )
    print(f"\nF-KMSE by Nystrom features:\n\n{low_rank}")
    if args.output is not None:
        text = REPORT.format(
            distributions=options["distributions"],
            repeats=options["repeats"],
            tests=tests,
            by_points=by_points,
            by_features=by_features,
            low_rank=low_rank,
        )
        report.write(args.output, "kmse_loss.md", text)
        draw_paths(paths, args.output / "kmse_loss_figure1.png")
        draw_sizes(results, args.output / "kmse_loss_figure2.png")


REPORT = """# Loss of kernel mean estimators

The losses are for {distributions} random distributions of Muandet et al. (2014), section 4.1,
{repeats} samples of each. The loss is the squared RKHS distance from the true kernel mean, in
closed form. KME has weights 1/n; S-KMSE shrinks all weights by one factor, F-KMSE each principal
direction by its own. The amount minimises the leave-one-out score. "By Theorem 4" is F-KMSE with
the score as printed in the paper, which leaves a point out of the average but keeps it among the
functions that span the estimate. Kernels are x'y (LIN), (x'y + 1)^2 (POLY2), (x'y + 1)^3 (POLY3)
and exp(-|x - y|^2 / 2b^2) (RBF), b^2 the median squared distance of the sample.

20 points in 30 dimensions; p is from a one-sided Wilcoxon test that the loss is below that of KME,
paired by distribution:

{tests}

![Loss against shrinkage](kmse_loss_figure1.png)

Figure 1: 10 points in 30 dimensions, against lambda for S-KMSE and n lambda over the smallest
non-zero eigenvalue of the kernel matrix for F-KMSE. Dashed: lambda chosen for each sample.

![Loss against sizes](kmse_loss_figure2.png)

Figure 2: 20 dimensions (top), 20 points (bottom). The gain is larger with fewer points and, for the
linear and polynomial kernels, with more dimensions. In two dimensions shrinkage increases the loss
with the linear kernel: as for Stein's estimator, it helps from three dimensions on.

RBF kernel, 20 dimensions:

{by_points}

RBF kernel, 20 points:

{by_features}

F-KMSE by low rank (section 5): the kernel matrix from Nystrom features of some of the points as
landmarks, in time linear in the number of points; "all" is the exact estimator. RBF kernel, 20
dimensions, one sample of each distribution; standard errors over the distributions, of the
difference from the exact loss over paired samples:

{low_rank}

Reproduce: `python experiments/kmse_loss.py --output docs/validation`
"""

if __name__ == "__main__":
    main()
