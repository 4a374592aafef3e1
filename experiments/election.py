"""Who voted for whom: shares of women and men for yes, from votes of counties.

python experiments/election.py                   ten elections, to the screen
python experiments/election.py --output docs/validation     also election.md
"""

import warnings

import numpy as np
import pandas as pd

from bdr_stan import BDR, Bags
from data_gen.election import FEATURES, election
from experiments.report import arguments, markdown, write

SUBGROUPS = {"women": "f", "men": "m"}
PAGE = """# An election: who voted for whom

{n} generated elections
(`data_gen/election.py`): {counties} counties in 40 states with 5 to 500 sampled residents. The
label is the share of yes among 100 to 100,000 votes, with its standard error; the model is
`BDR(50, method="laplace", covariates=["state"])`. It predicts the shares of women and of men for
yes in each county, which it has never seen, by `population(bags.where(sex="f"), "county")`.

Means over the elections, with the lowest and the highest; "shrunk to the average county" is
`predictive`, which takes the women of a county for a county (and warns).

{table}

The gap is the difference of the two averages over all counties, by
`population(women, minus=men)`; intervals of the gap contain the truth in {held} of {n} elections.

Intervals of the counties of one election share the error of its gap: where the gap is far off, as
in the election of lowest coverage, fewer than 95% hold.

Such predictions rest on the assumption that a woman votes equally in counties with many women and
with few, given what the model knows of the county. Where the share of women goes with something
that the model does not know and that moves all votes, its effect is taken for one of sex, and the
intervals do not tell.

Reproduce: `python experiments/election.py --output docs/validation`
"""


def scores(mean, interval, truth):
    """Correlation, RMSE and coverage of predictions of a share."""
    low, high = interval
    return {
        "correlation": np.corrcoef(mean, truth)[0, 1],
        "RMSE": np.sqrt(np.mean((mean - truth) ** 2)),
        "coverage of 95% intervals": np.mean((low < truth) & (truth < high)),
    }


def one_election(seed, **sizes):
    """Scores by subgroup and method, and whether the interval of the gap holds the truth."""
    generated = election(seed, **sizes)
    counties = generated.counties
    share = (counties["yes"] + 0.5) / (counties["votes"] + 1)
    label_sd = np.sqrt(share * (1 - share) / counties["votes"])
    known = counties[["state"]].assign(share=share, se=label_sd)
    bags = Bags.from_dataframe(
        generated.residents.join(known, on="county"),
        "county",
        FEATURES,
        metadata=["state", "share", "se"],
    )
    model = BDR(50, method="laplace", covariates=["state"]).fit(
        bags, "share", label_sd="se", seed=seed
    )
    found, subgroups = {}, {}
    for name, sex in SUBGROUPS.items():
        subgroups[name] = subgroup = bags.where(sex=sex)
        truth = counties.loc[subgroup.ids, name].to_numpy()
        for method, predictive in (
            ("population", model.population(subgroup, "county")),
            ("shrunk to the average county", model.predictive(subgroup)),
        ):
            found[name, method] = scores(predictive.mean, predictive.interval(0.95), truth)
    gap = model.population(subgroups["women"], minus=subgroups["men"])
    low, high = np.ravel(gap.interval(0.95))
    both = counties.loc[subgroups["women"].ids, "women"].mean()
    truth = both - counties.loc[subgroups["men"].ids, "men"].mean()
    return pd.DataFrame(found).T, {"gap": gap.mean[0], "truth": truth, "held": low <= truth <= high}


def main():
    parser = arguments(__doc__, quick="2 elections of 60 counties", output="folder of election.md")
    args = parser.parse_args()
    n, sizes = (2, {"n_counties": 60, "n_states": 5}) if args.quick else (10, {})
    tables, gaps = [], []
    with warnings.catch_warnings():
        # Counties without a man in the sample, and the subgroups that are shrunk for comparison.
        warnings.filterwarnings("ignore", message=".*have no points that meet the conditions")
        warnings.filterwarnings("ignore", message="the bags lie to one side of the training bags")
        for seed in range(n):
            table, gap = one_election(seed, **sizes)
            tables.append(table)
            gaps.append(gap)
            print(f"election {seed}: gap {gap['gap']:.3f}, truth {gap['truth']:.3f}", flush=True)
    every = pd.concat(tables, keys=range(n)).groupby(level=[1, 2], sort=False)
    mean, low, high = every.mean(), every.min(), every.max()
    shown = pd.DataFrame(
        {
            name: [
                f"{mean[name][k]:.3f} ({low[name][k]:.3f}, {high[name][k]:.3f})" for k in mean.index
            ]
            for name in mean
        },
        index=pd.Index([", ".join(k) for k in mean.index], name="subgroup"),
    )
    table = markdown(shown)
    held = sum(gap["held"] for gap in gaps)
    print(table, f"\nintervals of the gap hold in {held} of {n}")
    if args.output:
        counties = sizes.get("n_counties", 600)
        write(
            args.output, "election.md", PAGE.format(n=n, counties=counties, table=table, held=held)
        )


if __name__ == "__main__":
    main()
