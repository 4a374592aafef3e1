"""Votes of counties that were never seen: shares, calibration by size, and what people do today.

python experiments/votes.py                   ten elections, to the screen
python experiments/votes.py --output docs/validation     also votes.md
"""

import warnings

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit, logit

from bdr_stan import BDR, BLR, Bags
from bdr_stan.kernels import LinearEffects
from bdr_stan.metrics import size_classes
from data_gen.election import FEATURES, election
from experiments.report import arguments, markdown, write

TERMS = {"groups": ["state"], "smooths": [["x", "y"]]}
_LEVELS = np.arange(0.5, 2000) / 2000  # of quantiles that stand for a distribution of log odds
PAGE = """# An election: counties never seen

{n} generated elections
(`data_gen/election.py`): {counties} counties in {states} states, with 5 to 500 sampled residents
and 100 to 100,000 votes. Two thirds of the counties are used for fits, the rest predicted: numbers
of votes for yes out of the votes.

Negative log predictive probability of the votes, the average over counties, and in how many of the
elections `BDR` with terms is better:

{nll}

- "BDR, terms" is `BDR(50, family="binomial", groups=["state"], smooths=[["x", "y"]])`.
- "normal" is `BDR(50)` of the log odds of the shares; the votes are binomial given the log odds.
- "means of counties" is a binomial regression on the means of the residents' columns with effects
  of the states, `BLR(kernel=LinearEffects(), family="binomial", groups=["state"])`.

Coverage of the 95% intervals of "BDR, terms" by the number of sampled residents, all elections
together:

{coverage}

Reproduce: `python experiments/votes.py --output docs/validation`
"""


def log_probability_from_log_odds(predictive, yes, votes):
    """Log probability of the votes whose log odds have this predictive distribution, (n,)."""
    h = predictive.quantile(_LEVELS)
    return np.log(np.mean(stats.binom.pmf(yes, votes, expit(h)), axis=0))


def one_election(seed, settings, terms, **sizes):
    """NLL of each model, and a table of coverage by county."""
    generated = election(seed, **sizes)
    counties = generated.counties
    share = (counties["yes"] + 0.5) / (counties["votes"] + 1)
    known = counties[["state", "x", "y", "votes", "yes"]].assign(log_odds=logit(share))
    bags = Bags.from_dataframe(
        generated.residents.join(known, on="county"),
        "county",
        FEATURES,
        metadata=list(known.columns),
    )
    order = np.random.default_rng(seed).permutation(len(bags))
    train, test = np.split(order, [2 * len(bags) // 3])
    train, test = bags[train], bags[test]
    yes, votes = (test.metadata[name].to_numpy() for name in ("yes", "votes"))
    run = {"seed": seed, "chains": 2, "draws": 500}
    counts = {"trials": "votes", **run}
    fits = {
        "BDR, terms": (BDR(family="binomial", **settings, **terms), "yes", counts),
        "normal": (BDR(**settings), "log_odds", run),
        "means of counties": (
            BLR(family="binomial", **{**settings, "kernel": LinearEffects()}, groups=["state"]),
            "yes",
            counts,
        ),
    }
    nll, coverage = {}, None
    for name, (model, label, options) in fits.items():
        predictive = model.fit(train, label, **options).predictive(test)
        if label == "yes":
            log_probability = predictive.log_prob(yes)
        else:
            log_probability = log_probability_from_log_odds(predictive, yes, votes)
        nll[name] = float(-np.mean(log_probability))
        if coverage is None:
            low, high = predictive.interval(0.95)
            held = (low <= yes) & (yes <= high)
            coverage = pd.DataFrame({"size": test.sizes, "held": held})
    return nll, coverage


def main():
    parser = arguments(
        __doc__,
        quick="1 election of 30 counties, modes, an RBF kernel, groups",
        output="folder of votes.md",
    )
    args = parser.parse_args()
    n, sizes = (1, {"n_counties": 30, "n_states": 3}) if args.quick else (10, {})
    settings, terms = {"n_landmarks": 50}, TERMS
    if args.quick:
        settings = {"n_landmarks": 10, "kernel": "rbf", "method": "optimize"}
        terms = {"groups": ["state"]}
    nll, coverage = [], []
    with warnings.catch_warnings():
        # A few counties lie outside of the square of the others, and some chains are short.
        warnings.filterwarnings("ignore", message="smooth .* lie outside the range")
        for seed in range(n):
            found, of_counties = one_election(seed, settings, terms, **sizes)
            nll.append(found)
            coverage.append(of_counties)
            print(f"election {seed}:", {k: round(v, 3) for k, v in found.items()}, flush=True)
    table = pd.DataFrame(nll)
    better = (table.iloc[:, [0]].to_numpy() < table).sum()
    shown = pd.DataFrame(
        {
            "NLL": table.mean().map("{:.3f}".format),
            "BDR, terms, is better": [f"{k} of {n}" if k else "" for k in better],
        }
    ).rename_axis("model")
    held = pd.concat(coverage, ignore_index=True)
    classes = size_classes(held["size"].to_numpy(), [15, 50, 150])
    by_size = pd.DataFrame(
        [
            (name, str(mask.sum()), f"{held['held'][mask].mean():.3f}")
            for name, mask in classes.items()
        ],
        columns=["residents", "counties", "coverage"],
    ).set_index("residents")
    tables = markdown(shown), markdown(by_size)
    print(*tables, sep="\n\n")
    if args.output:
        counties, states = sizes.get("n_counties", 600), sizes.get("n_states", 40)
        page = PAGE.format(n=n, counties=counties, states=states, nll=tables[0], coverage=tables[1])
        write(args.output, "votes.md", page)


if __name__ == "__main__":
    main()
