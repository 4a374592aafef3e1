"""Classify donors by their cells: which donors are ill, of those with few cells and with many?

Cohorts of `bdr_stan.datasets.donor_cells`: 10 to 400 cells per donor, log counts of ten genes. A
donor is ill if the severity that shifts the composition and the state of its cells is above 0. The
usual analysis averages the cells of each donor (pseudobulk), often without the donors that have few
cells, and so cannot predict for these. Each cohort is a new draw of the cell types, training donors
and 400 test donors; nothing is tuned.

    python experiments/donors.py                   minutes
    python experiments/donors.py --output docs/validation     the page in docs
    python experiments/donors.py --quick           two small cohorts
    python experiments/donors.py --redraw --output docs/validation    its figure, from the page
"""

import re
from textwrap import fill

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bdr_stan import Bags, BDRClassifier, InverseBDRClassifier
from bdr_stan.datasets import donor_cells
from experiments.report import arguments, pyplot, rows, write

FULL = {"sizes": (60, 200), "n_test": 400, "n_cohorts": 20}, {"warmup": 500, "draws": 500}
QUICK = {"sizes": (30,), "n_test": 40, "n_cohorts": 2}, {"warmup": 50, "draws": 20}
FEW, N_CLUSTERS = 50, 10  # cells; clusters of cells whose shares are a donor's composition
PSEUDOBULK = "pseudobulk, logistic regression"
BAYES = {f"`{cls.__name__}`": cls() for cls in (BDRClassifier, InverseBDRClassifier)}
SCORES = ("AUC, few cells", "AUC, other donors", "log loss, few cells", "log loss, other donors")


def cohort(n_train, n_test, seed):
    """Training bags with their classes, and test bags with theirs; 1 is ill."""
    cells = donor_cells(n_train + n_test, seed=seed)
    bags = Bags.from_dataframe(cells, bag="donor", metadata=["severity"])
    ill = (bags.metadata["severity"].to_numpy() > 0).astype(int)
    return bags[:n_train], ill[:n_train], bags[n_train:], ill[n_train:]


def means(bags):
    """Average of each donor's cells."""
    return np.array([cells.mean(axis=0) for cells in bags])


def compositions(train, seed):
    """Function from bags to the shares of clusters of cells, which those of `train` define."""
    clusters = MiniBatchKMeans(N_CLUSTERS, random_state=seed, n_init=3).fit(train.points)

    def shares(bags):
        member = clusters.predict(bags.points)[:, None] == np.arange(N_CLUSTERS)
        return bags.sums(member.astype(float)) / bags.sizes[:, None]

    return shares


def by_logistic_regression(features, train, ill, test):
    """Probabilities of illness by logistic regression, its penalty chosen by cross-validation."""
    regression = LogisticRegressionCV(
        l1_ratios=(0,), scoring="neg_log_loss", max_iter=1000, use_legacy_attributes=False
    )
    model = make_pipeline(StandardScaler(), regression).fit(features(train), ill)
    return model.predict_proba(features(test))[:, 1]


def probabilities(train, ill, test, seed, sampling):
    """Predicted probabilities of illness of the test donors, by method."""
    many = train.sizes >= FEW
    found = {
        PSEUDOBULK: by_logistic_regression(means, train, ill, test),
        f"the same, trained without donors of fewer than {FEW} cells": by_logistic_regression(
            means, train[many], ill[many], test
        ),
        f"shares of {N_CLUSTERS} clusters of cells, logistic regression": by_logistic_regression(
            compositions(train, seed), train, ill, test
        ),
    }
    for name, model in BAYES.items():
        model.fit(train, ill, seed=seed, chains=2, progress=False, **sampling)
        found[name] = model.predict_proba(test)[:, 1]
    return found


def scores_of_cohort(n_train, n_test, seed, sampling):
    """Scores of each method, one row each, on test donors with few cells and on the others."""
    train, ill, test, truth = cohort(n_train, n_test, seed)
    few = test.sizes < FEW
    table = {
        name: [score(truth[some], p[some]) for score in (roc_auc_score, log_loss)
               for some in (few, ~few)]
        for name, p in probabilities(train, ill, test, seed, sampling).items()
    }  # fmt: skip
    return pd.DataFrame.from_dict(table, orient="index", columns=SCORES)


def lines(cohorts):
    """Mean scores with standard errors, and how AUC with few cells compares with pseudobulk's."""
    together = pd.concat(cohorts, keys=range(len(cohorts)))
    for name in cohorts[0].index:
        its = together.xs(name, level=1)
        more = [name, *(f"{its[s].mean():.3f} ± {its[s].sem():.3f}" for s in SCORES)]
        above, p = compared(cohorts, name)
        yield [*more, *(["", ""] if name == PSEUDOBULK else [f"{above} of {len(cohorts)}", p])]


def compared(cohorts, name):
    """Cohorts in which a method has the higher AUC with few cells, and Wilcoxon's p-value."""
    gain = np.array([table.loc[name, SCORES[0]] - table.loc[PSEUDOBULK, SCORES[0]]
                     for table in cohorts])  # fmt: skip
    return int(np.sum(gain > 0)), f"{wilcoxon(gain).pvalue:.1g}"


def conclusion(by_size):
    """One sentence per size of the cohort."""
    for n_train, cohorts in by_size.items():
        name = next(iter(BAYES))
        mean = {m: np.mean([table.loc[m, SCORES[0]] for table in cohorts])
                for m in (name, PSEUDOBULK)}  # fmt: skip
        above, p = compared(cohorts, name)
        yield (
            f"- {n_train} training donors: AUC of test donors with fewer than {FEW} cells "
            f"{mean[name]:.3f} by {name}, {mean[PSEUDOBULK]:.3f} by pseudobulk; higher in {above} "
            f"of {len(cohorts)} cohorts, p = {p}."
        )


def draw(page, path):
    """AUC of each method with standard errors, a panel per table of the page."""
    tables = re.findall(r"^### (\d+) training donors\n\n((?:\|.*\n)+)", page, re.MULTILINE)
    plt = pyplot()
    size = {"figsize": (9, 3.2), "layout": "constrained"}
    figure, axes = plt.subplots(1, len(tables), sharex=True, sharey=True, squeeze=False, **size)
    for axis, (n_train, table) in zip(axes[0], tables):
        cells = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
        height = -np.arange(len(cells))
        for column, shift, marker in ((1, 0.12, "o"), (2, -0.12, "s")):
            auc, error = np.array([row[column].split(" ± ") for row in cells], float).T
            axis.errorbar(auc, height + shift, xerr=2 * error, fmt=marker, label=SCORES[column - 1])
        names = [fill(row[0].replace("`", ""), 30) for row in cells]
        axis.set(title=f"{n_train} training donors", xlabel="AUC of test donors")
        axis.set_yticks(height, names)
        axis.grid(axis="x", alpha=0.3)
    axes[0, 0].legend(fontsize="small", loc="lower left")
    figure.savefig(path, dpi=100)


def main():
    parser = arguments(__doc__, quick="two small cohorts", output="folder for the page donors.md")
    parser.add_argument("--redraw", action="store_true", help="only the figure of the page there")
    args = parser.parse_args()
    if args.redraw:
        draw((args.output / "donors.md").read_text(), args.output / "donors.png")
        return
    options, sampling = QUICK if args.quick else FULL
    by_size = {}
    for n_train in options["sizes"]:
        by_size[n_train] = [
            scores_of_cohort(n_train, options["n_test"], seed, sampling)
            for seed in range(1, options["n_cohorts"] + 1)
        ]
        print(f"{n_train} training donors: done", flush=True)

    heads = ["method", *SCORES, "higher AUC, few cells", "p"]
    tables = "\n\n".join(
        f"### {n_train} training donors\n\n{rows(heads, lines(cohorts))}"
        for n_train, cohorts in by_size.items()
    )
    found = "\n".join(fill(each, 100, subsequent_indent="  ") for each in conclusion(by_size))
    text = f"""\
# Donors with few cells

Which donors are ill? Labels belong to donors, measurements to cells, and a donor may have ten cells
or four hundred ([tutorial](../tutorials/single_cells.md)). Averages of few cells are noisy, and an
analysis of averages (*pseudobulk*) treats them as exact, or leaves donors with few cells out.

{options["n_cohorts"]} cohorts of simulated donors (`bdr_stan.datasets.donor_cells`), each with new
cell types and {options["n_test"]} test donors. A donor is ill if its severity, which shifts the
composition of its cells and the state of one type, is above 0. *Few cells*: fewer than {FEW}. Means
over the cohorts with standard errors; number of cohorts in which a method's AUC of test donors with
few cells is above that of pseudobulk, and p-value of Wilcoxon's signed-rank test (two-sided).

## Result

{found}

![AUC by method, of donors with few cells and of others](donors.png)

*Means over the cohorts, with bars of two standard errors.*

{tables}

## Settings

Pseudobulk: means of log counts over the cells of a donor, standardised; logistic regression with an
L2 penalty chosen by cross-validated log loss. Composition: shares of {N_CLUSTERS} clusters from
k-means on the training cells. `BDRClassifier` and `InverseBDRClassifier` have their defaults; 2
chains of {sampling["warmup"]} warm-up steps and {sampling["draws"]} draws.

Reproduce: `python experiments/donors.py --output docs/validation`
"""
    if args.output is not None:
        write(args.output, "donors.md", text)
        draw(text, args.output / "donors.png")
    print(text)


if __name__ == "__main__":
    main()
