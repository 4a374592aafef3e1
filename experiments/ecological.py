"""Ecological inference: both groups' rates of two-by-two tables, beside R's package eco.

python experiments/ecological.py                   to the screen
python experiments/ecological.py --output docs/validation     also ecological.md

Columns of eco are empty where Rscript or the package (Debian: r-cran-eco) is missing.
"""

import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from bdr_stan import AggregateRegressor, Bags
from experiments.report import arguments, markdown, write

PAGE = """# Two-by-two tables: rates of groups from the rates of counties

For each county the share X of a group and the overall rate are known, and the rates of the group
and of all others are estimated. "census" is literacy of black and white people in 1,040 counties of
the US in 1910 by race, whose cells are known (the data of the R package
[eco](https://cran.r-project.org/package=eco)); the others are generated: 300 counties, whose two
rates are logit-normal. "census, context" has X as a further column, and eco its option `context`.

{table}

- "bdr" is `AggregateRegressor("normal", bag_effects=["group"])` and its `bounds`, "one rate" the
  same without `bag_effects`, "eco" the function of that name with its defaults and 15,000 draws.
- Each cell has the values of the group and of the others. RMSE is the error of the posterior means
  over the counties; ratio is bdr's to eco's, over both groups together; coverage refers to 95%
  intervals.
- In "census" both rates go with X, of which a model without context knows nothing: its intervals
  cover less than their level. Compare both before you report one.
- With context, intervals are wider than they need to be: only the curvature of the labels in the
  share tells whether a group's rate depends on its share.

Reproduce: `python experiments/ecological.py --output docs/validation`
"""
_ECO = """suppressMessages(library(eco)); a <- commandArgs(TRUE); d <- read.csv(a[1]); set.seed(1)
W <- eco(Y ~ X, data=d, context=a[3]=="context", n.draws=15000, burnin=5000, thin=4)$W
q <- function(k, p) apply(W[, k, ], 2, quantile, p)
write.csv(data.frame(mean_1=colMeans(W[, 1, ]), lower_1=q(1, .025), upper_1=q(1, .975),
                     mean_0=colMeans(W[, 2, ]), lower_0=q(2, .025), upper_0=q(2, .975)), a[2])"""
_CENSUS = "data(census, package='eco'); write.csv(census, commandArgs(TRUE)[1], row.names=FALSE)"
# Means, standard deviations and covariance of the logits of the two rates.
_LOGITS = (
    ((0.4, 1.5), (0.6, 0.5), 0.09),
    ((-0.5, 0.8), (0.8, 0.4), 0.0),
    ((0.8, 2.2), (0.5, 0.7), 0.175),
    ((-1.0, 0.0), (0.7, 0.7), -0.098),
)


def generated(seed, n=300):
    """Counties with the share X, the overall rate Y, and the rates W1 and W2 of both groups."""
    rng = np.random.default_rng(seed)
    X = rng.beta(1.5, 2, n) if seed % 2 == 0 else rng.uniform(0.02, 0.98, n)
    mean, sd, shared = _LOGITS[seed]
    covariance = np.diag(np.square(sd)) + shared * (1 - np.eye(2))
    W = expit(rng.multivariate_normal(mean, covariance, n))
    return pd.DataFrame(
        {"Y": X * W[:, 0] + (1 - X) * W[:, 1], "X": X, "W1": W[:, 0], "W2": W[:, 1]}
    )


def rscript(code, *args):
    """Run R code with arguments; False where R or the package is missing."""
    if shutil.which("Rscript") is None:
        return False
    run = subprocess.run(
        ["Rscript", "-e", code, *map(str, args)], capture_output=True, text=True, check=False
    )
    if run.returncode and "there is no package" not in run.stderr:
        raise RuntimeError(run.stderr)
    return run.returncode == 0


def eco_rates(counties, context):
    """Posterior mean and 95% interval of both groups' rates by eco; None without the package."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.csv"), Path(folder, "found.csv")
        counties.to_csv(given, index=False)
        if not rscript(_ECO, given, found, "context" if context else "none"):
            return None
        rates = pd.read_csv(found)
    return {
        k: rates[[f"{name}_{k}" for name in ("mean", "lower", "upper")]].set_axis(
            ["mean", "lower", "upper"], axis=1
        )
        for k in (1, 0)
    }


def bdr_rates(counties, context, method, bag_effects):
    """Posterior mean and 95% interval of both groups' rates, by group 1 and 0."""
    n, X = len(counties), counties["X"].to_numpy()
    points = pd.DataFrame(
        {
            "county": np.repeat(np.arange(n), 2),
            "group": np.tile([1.0, 0.0], n),
            "share": np.repeat(X, 2),
            "weight": np.column_stack([X, 1 - X]).ravel(),
        }
    )
    features = ["group", "share"] if context else ["group"]
    bags = Bags.from_dataframe(points, "county", features, weight="weight")
    y = counties["Y"].to_numpy()
    model = AggregateRegressor(
        "normal",
        n_landmarks=20 if context else 2,
        bag_effects=["group"] if bag_effects else False,
        method=method,
    ).fit(bags, y, seed=1, progress=False)
    return {
        k: model.bounds(bags, y, bags.where(group=k), highest_rate=1).set_axis(range(n))
        for k in (1, 0)
    }


def errors(rates, counties):
    """RMSE and coverage of each group, shapes (2,)."""
    rmse, coverage = [], []
    for k, name in ((1, "W1"), (0, "W2")):
        true, found = counties[name].to_numpy(), rates[k]
        rmse.append(np.sqrt(np.mean((found["mean"] - true) ** 2)))
        held = (found["lower"] - 1e-9 <= true) & (true <= found["upper"] + 1e-9)
        coverage.append(held.mean())
    return np.array(rmse), np.array(coverage)


def main():
    parser = arguments(__doc__, quick="2 tables of 60 counties", output="folder of ecological.md")
    args = parser.parse_args()
    method = "optimize" if args.quick else "nuts"
    tables = {}
    if not args.quick:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "census.csv")
            if rscript(_CENSUS, file):
                census = pd.read_csv(file)
                tables = {"census": census, "census, context": census}
    n = 60 if args.quick else 300
    tables |= {f"generated {k + 1}": generated(k, n) for k in range(2 if args.quick else 4)}
    lines = []
    for name, counties in tables.items():
        context = "context" in name
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", category=UserWarning
            )  # divergences; see docs/rates.md
            found = {
                "bdr": bdr_rates(counties, context, method, True),
                "one rate": bdr_rates(counties, context, method, False),
            }
        eco = eco_rates(counties, context)
        found |= {"eco": eco} if eco else {}
        line, together = {"table": name}, {}
        for which, rates in found.items():
            rmse, coverage = errors(rates, counties)
            together[which] = np.sqrt(np.mean(rmse**2))
            line[f"RMSE, {which}"] = "{:.4f}, {:.4f}".format(*rmse)
            line[f"coverage, {which}"] = "{:.3f}, {:.3f}".format(*coverage)
        if eco:
            line["ratio"] = f"{together['bdr'] / together['eco']:.3f}"
        print(line, flush=True)
        lines.append(line)
    order = [f"{kind}, {which}" for kind in ("RMSE", "coverage") for which in found]
    table = pd.DataFrame(lines).set_index("table").reindex(columns=[*order, "ratio"])
    print(markdown(table))
    if args.output:
        write(args.output, "ecological.md", PAGE.format(table=markdown(table)))


if __name__ == "__main__":
    main()
