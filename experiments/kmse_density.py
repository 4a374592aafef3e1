"""Densities and kernel PCA from shrunk kernel means: Table 1 and Figure 3 of Muandet et al. (2014).

A mixture of 10 isotropic Gaussians is fitted to each estimate of the kernel mean of the training
points (70% of a data set) and scored by its log likelihood on the others. Kernel PCA is centred by
each estimate of the mean, with its covariance operator shrunk or not, and scored by the distance of
new points from their reconstruction. Data sets come with scikit-learn; ``--csv`` adds your own.
"""

from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from sklearn.mixture import GaussianMixture as EM
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from bdr_stan import KernelMean
from bdr_stan.kernel_means.shrinkage import ESTIMATORS, f_kmse
from experiments import report
from experiments.kernels import KERNELS, kernel_of
from experiments.papers.density_matching import kmeans_mixture, match_mixture
from experiments.papers.kernel_pca import KernelPCA
from experiments.papers.theorem_4 import theorem_4_scores

SETS = ("wine", "wdbc", "iris", "digits")
THEOREM_4 = "theorem 4"
N_COMPONENTS, TEST_SHARE, LARGEST_SET = 10, 0.3, 600
# Muandet et al. (2014), Table 1: KME, S-KMSE, F-KMSE.
PUBLISHED = {
    ("wdbc", "LIN"): (30.98, 30.93, 30.44),
    ("wdbc", "POLY2"): (93.05, 91.58, 87.53),
    ("wdbc", "POLY3"): (58.82, 54.12, 50.39),
    ("wdbc", "RBF"): (30.82, 30.60, 30.26),
    ("wine", "LIN"): (15.92, 15.89, 16.04),
    ("wine", "POLY2"): (24.28, 24.13, 23.52),
    ("wine", "POLY3"): (35.21, 32.95, 32.47),
    ("wine", "RBF"): (17.15, 16.92, 16.63),
}
# Estimators of mean and of covariance operator in kernel PCA.
PCA_KINDS = {
    "S-KMSE mean": ("s-kmse", "kme"),
    "F-KMSE mean": ("f-kmse", "kme"),
    "F-COSE": ("kme", "f-kmse"),
    "F-KMSE mean, F-COSE": ("f-kmse", "f-kmse"),
}
PCA_POINTS, PCA_COMPONENTS = (10, 20, 50, 100), 5


def load_points(name, seed):
    """Points of a bundled data set, standardised; at most 600, drawn at random.

    Pixels keep their differences in scale: the digits are divided by one number.
    """
    from sklearn import datasets

    load = {
        "wine": datasets.load_wine,
        "wdbc": datasets.load_breast_cancer,
        "iris": datasets.load_iris,
        "digits": datasets.load_digits,
    }[name]
    points = load().data.astype(float)
    scale = points.std() if name == "digits" else points.std(axis=0)
    return some_of((points - points.mean(axis=0)) / scale, seed)


def load_csv(path, seed):
    """Numeric columns of a CSV file, standardised; rows with missing values are dropped."""
    import pandas as pd

    table = pd.read_csv(path).select_dtypes("number").dropna()
    points = table.to_numpy(float)
    points = points[:, points.std(axis=0) > 0]
    if len(points) < 2 * N_COMPONENTS or points.shape[1] == 0:
        raise SystemExit(
            f"{path} has {len(points)} complete rows and {points.shape[1]} numeric columns that "
            f"vary: at least {2 * N_COMPONENTS} rows and one column are needed"
        )
    return some_of((points - points.mean(axis=0)) / points.std(axis=0), seed)


def some_of(points, seed):
    order = np.random.default_rng(seed).permutation(len(points))
    return points[order[:LARGEST_SET]]


def estimate(points, kernel, name):
    """The named estimate of the kernel mean; also F-KMSE with Theorem 4's choice of lambda."""
    if name != THEOREM_4:
        return KernelMean(points, kernel, estimator=name)
    mean = KernelMean(points, kernel)
    mean.weights, mean.shrinkage = f_kmse(kernel(points, points), scores=theorem_4_scores)
    return mean


def negative_log_likelihoods(points, seed, n_init):
    """Value on test points under each fitted mixture, {(kernel, estimator): value}, and EM's."""
    train, test = train_test_split(points, test_size=TEST_SHARE, random_state=seed)
    start = kmeans_mixture(train, N_COMPONENTS, n_init=n_init, seed=seed)
    found = {}
    for name in KERNELS:
        kernel = kernel_of(name, train)
        for estimator in (*ESTIMATORS, THEOREM_4):
            mixture = match_mixture(estimate(train, kernel, estimator), start)
            found[name, estimator] = -np.mean(mixture.log_density(test))
    em = EM(N_COMPONENTS, covariance_type="spherical", n_init=3, reg_covar=1e-4, random_state=seed)
    return found, -em.fit(train).score(test)


def density_table(results):
    """Average negative log likelihoods and the published ones, in Markdown."""
    lines = []
    for (set_name, kernel), by_method in results.items():
        cells = [f"{np.mean(by_method['kme']):.2f}"]
        for name in ("s-kmse", "f-kmse", THEOREM_4):
            lower = int(np.sum(by_method[name] < by_method["kme"] - 1e-9))
            unequal = int(np.sum(np.abs(by_method[name] - by_method["kme"]) > 1e-9))
            sure = unequal and binomtest(lower, unequal).pvalue < 0.05
            cells.append(
                f"{np.mean(by_method[name]):.2f} ({lower} of {unequal}{'*' if sure else ''})"
            )
        published = " / ".join(f"{v:.2f}" for v in PUBLISHED.get((set_name, kernel), ()))
        lines.append([set_name, kernel, *cells, published])
    heads = ["set", "kernel", "KME", "S-KMSE", "F-KMSE", "by Theorem 4", "published"]
    return report.rows(heads, lines, right=slice(2, -1))


def reconstruction_errors(points, n, seed):
    """Mean error of plain kernel PCA from n points on the others, and the ratios to it."""
    train, test = train_test_split(points, train_size=n, random_state=seed)
    kernel = kernel_of("RBF", train)

    def error(mean, covariance):
        pca = KernelPCA(PCA_COMPONENTS, kernel, mean=mean, covariance=covariance)
        return pca.fit(train).reconstruction_error(test).mean()

    plain = error("kme", "kme")
    return plain, {name: error(*kind) / plain for name, kind in PCA_KINDS.items()}


def pca_table(errors):
    """Change of the reconstruction error in percent, +- two standard errors, in Markdown."""
    lines = []
    for (set_name, n), (plain, by_method) in errors.items():
        changes = [percent(by_method[name]) for name in PCA_KINDS]
        cells = [f"{change:+.2f} +- {se:.2f}" for change, se in changes]
        lines.append([set_name, n, f"{np.mean(plain):.3f}", *cells])
    return report.rows(
        ["set", "points", "error of plain PCA", *PCA_KINDS], lines, right=slice(1, None)
    )


def percent(ratios):
    """Mean change in percent, and two standard errors."""
    changes = 100 * (np.asarray(ratios) - 1)
    return changes.mean(), 2 * changes.std(ddof=1) / np.sqrt(len(changes))


def draw_errors(errors, path):
    from bdr_stan.plots import MODELS

    colours = dict(zip(PCA_KINDS, (MODELS[1], MODELS[0], *MODELS[2:])))
    names = list(dict.fromkeys(name for name, _ in errors))
    figure, axes = report.pyplot().subplots(
        1, len(names), figsize=(3.1 * len(names) + 0.3, 3.4), squeeze=False, layout="constrained"
    )
    for ax, name in zip(axes[0], names):
        sizes = [n for label, n in errors if label == name]
        ax.axhline(0, color="black", lw=1)
        for k, (kind, colour) in enumerate(colours.items()):
            change, se = np.transpose([percent(errors[name, n][1][kind]) for n in sizes])
            position = np.array(sizes) * 1.04 ** (k - 1.5)  # side by side
            ax.errorbar(
                position, change, se, fmt="o-", ms=4, lw=1.2, capsize=2, color=colour, label=kind
            )
        ax.set(title=name, xscale="log", xticks=sizes, xlabel="training points")
        ax.set_xticklabels(sizes)
        ax.minorticks_off()
    axes[0, 0].set_ylabel("reconstruction error,\nchange from plain PCA, %")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(4, len(names)), frameon=False
    )
    figure.savefig(path, dpi=90)


def main():
    parser = report.arguments(
        __doc__,
        quick="wine and iris, 2 splits",
        output="folder for kmse_density.md and its figure",
    )
    parser.add_argument("--csv", type=Path, nargs="+", default=[], help="CSV files of points")
    parser.add_argument("--repeats", type=int, default=10, help="splits for the densities")
    parser.add_argument("--pca-repeats", type=int, default=30, help="splits for kernel PCA")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    names, n_init, repeats, pca_repeats = SETS, 50, args.repeats, args.pca_repeats
    if args.quick:
        names, n_init, repeats, pca_repeats = ("wine", "iris"), 5, 2, 3
    sets = {name: load_points(name, args.seed) for name in names}
    sets |= {path.stem: load_csv(path, args.seed) for path in args.csv}

    results, em = {}, {}
    for name, points in sets.items():
        seeds = range(args.seed, args.seed + repeats)
        found, em[name] = zip(*(negative_log_likelihoods(points, s, n_init) for s in seeds))
        for kernel in KERNELS:
            results[name, kernel] = {
                estimator: np.array([each[kernel, estimator] for each in found])
                for estimator in (*ESTIMATORS, THEOREM_4)
            }
        print(f"{name}: densities of {len(points)} points", flush=True)
    densities = density_table(results)
    by_em = ", ".join(f"{name} {np.mean(values):.2f}" for name, values in em.items())
    print(f"\nNegative log likelihood per test point:\n\n{densities}\n\nEM: {by_em}\n", flush=True)

    errors = {}
    for name, points in sets.items():
        for n in PCA_POINTS:
            if n > 0.7 * len(points):
                continue
            seeds = range(args.seed, args.seed + pca_repeats)
            plain, ratios = zip(*(reconstruction_errors(points, n, s) for s in seeds))
            errors[name, n] = plain, {kind: [r[kind] for r in ratios] for kind in PCA_KINDS}
    errors_table = pca_table(errors)
    print(f"Reconstruction error of kernel PCA, change in percent:\n\n{errors_table}")
    if args.output is not None:
        sizes = ", ".join(f"{name} {len(p)} x {p.shape[1]}" for name, p in sets.items())
        text = REPORT.format(
            sizes=sizes,
            repeats=repeats,
            pca_repeats=pca_repeats,
            densities=densities,
            em=by_em,
            errors=errors_table,
            components=PCA_COMPONENTS,
        )
        report.write(args.output, "kmse_density.md", text)
        draw_errors(errors, args.output / "kmse_density_pca.png")


REPORT = """# Densities and kernel PCA from shrunk kernel means

This page repeats experiments of Muandet et al. (2014), section 4.2. Points are standardised (digits
divided by one number), and at most 600 are drawn at random:
{sizes}.

Kernels are x'y (LIN), (x'y + 1)^2 (POLY2), (x'y + 1)^3 (POLY3) and exp(-|x - y|^2 / 2b^2) (RBF),
b^2 the median squared distance of the training points.

## Kernel mean matching

Negative log likelihood per test point under the mixture of 10 isotropic Gaussians whose kernel mean
is nearest to the estimated one: means over {repeats} random splits, with 30% of the points for
testing. All estimators start from the tightest of 50 k-means clusterings. In brackets: splits where
the estimator is better than KME, of those where they differ; * is p < 0.05 in a two-sided sign
test. "By Theorem 4" is F-KMSE with the leave-one-out score as printed in the paper. The published
column is KME / S-KMSE / F-KMSE on the paper's own splits.

{densities}

The same mixture by maximum likelihood (EM, which needs no kernel):
{em}.

With the RBF kernel both shrinkage estimators are better than KME on every set. On wdbc all three
are far worse than EM and the published values: the nearest kernel mean does not give the most
likely density. The linear and polynomial kernels use three moments at most, which many mixtures
match, including narrow ones; their likelihoods depend more on where the search starts and stops
than on the mean.

## Kernel PCA

RBF kernel, {components} components. The error is the squared RKHS distance of a new point from its
reconstruction, the mean plus the projection onto the components. Changes are from plain kernel PCA
on the same training points, in percent: mean and two standard errors over {pca_repeats} splits.
S-COSE scales the covariance operator by one factor, which does not change the components. Centring
by a shrunk mean helps with few points; weighting them by F-COSE does not.

![Change of the reconstruction error](kmse_density_pca.png)

{errors}

Reproduce: `python experiments/kmse_density.py --output docs/validation`
"""

if __name__ == "__main__":
    with threadpool_limits(1):  # matrices are small
        main()
