"""The bandwidth by full Bayes, by stacking and by evidence: BLR on 200 bags of 8 points.

A plain program of BLR with a lognormal prior of the bandwidth, `bandwidth_bayes.stan`, recomputes
all features at each step of the sampler. It is compared with fits at the bandwidths of a grid: the
one with the highest evidence, all of them weighted by evidence times prior, and `Stacked`, which
weighs them by leave-one-out densities. Labels are averages of a function of the points' true
distribution, plus noise.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from bdr_stan import BLR, RBF, Bags, Predictive, Stacked
from bdr_stan.predictive import Blend
from experiments.report import arguments, markdown, write

PROGRAM = Path(__file__).with_name("bandwidth_bayes.stan")
LANDMARKS = np.linspace(-3, 3, 10)[:, None]
MEDIAN, LOG_SD = 1.0, 1.0  # of the lognormal prior of the bandwidth
GRID = MEDIAN * np.exp(np.linspace(-1.5, 1.5, 7))
N_POINTS, NOISE = 8, 0.1
FULL_BAYES = "full Bayes, on stanli"


def simulated(rng, n):
    """Bags of 8 points, normal about a centre with sd 0.5, and labels."""
    centres = rng.normal(size=(n, 1, 1))
    points = centres + 0.5 * rng.normal(size=(n, N_POINTS, 1))
    # The average of sin(2 x) over a normal distribution with sd 0.5.
    y = np.sin(2 * centres.ravel()) * np.exp(-0.5) + NOISE * rng.normal(size=n)
    return points, y


def features(points, bandwidth):
    """Mean embeddings of bags, shape (n, 8, 1), at the landmarks: shape (n, d)."""
    return np.exp(-((points - LANDMARKS.T) ** 2) / (2 * bandwidth**2)).mean(axis=1)


def model_at(bandwidth, **options):
    return BLR(kernel=RBF(bandwidth), landmarks=LANDMARKS, **options)


def own_data(points):
    """Data of the program that the plain program of BLR has not."""
    squares = np.moveaxis((points - LANDMARKS.T) ** 2, 1, 0)
    prior = {"bandwidth_median": MEDIAN, "bandwidth_log_sd": LOG_SD}
    return {"n": N_POINTS, "squares": squares, **prior}


def full_bayes(points, y, new_points, sampling):
    """Predictive distribution of the labels of new bags by the program, and its fit."""
    model = model_at(MEDIAN, engine="stanli", stan_file=PROGRAM)
    model.fit(Bags.from_list(list(points)), y, stan_data=own_data(points), seed=1, **sampling)
    draws = {name: model.result_.draws(name) for name in ("bandwidth", "w", "intercept", "sigma")}
    means = np.array([
        intercept + (features(new_points, b) - features(points, b).mean(axis=0)) @ w
        for b, w, intercept in zip(draws["bandwidth"], draws["w"], draws["intercept"])
    ])  # fmt: skip
    sds = np.broadcast_to(draws["sigma"][:, None], means.shape)
    return Predictive(lambda i: (means[:, i], sds[:, i]), *means.shape[::-1]), model


def compared(rng, n, sampling):
    """Rows by method: NLL and coverage of new labels, seconds."""
    (points, y), (new_points, new_y) = simulated(rng, n), simulated(rng, 500)
    bags, new_bags = Bags.from_list(list(points)), Bags.from_list(list(new_points))
    clock, rows = time.perf_counter, {}

    def score(name, predictive, seconds):
        low, high = predictive.interval(0.95)
        rows[name] = {
            "NLL": -predictive.log_prob(new_y).mean(),
            "coverage of 95%": np.mean((low <= new_y) & (new_y <= high)),
            "seconds": seconds,
        }

    start = clock()
    models = [model_at(b, method="exact").fit(bags, y, seed=1) for b in GRID]
    evidences = np.array(
        [model.log_evidence(model.training_features(bags), y)[0] for model in models]
    )
    seconds = clock() - start
    predictives = [model.predictive(new_bags) for model in models]
    score("highest evidence of seven", predictives[evidences.argmax()], seconds)
    log_weights = evidences - 0.5 * (np.log(GRID / MEDIAN) / LOG_SD) ** 2
    weights = np.exp(log_weights - log_weights.max())
    score("seven by evidence and prior", Blend(predictives, weights / weights.sum()), seconds)
    start = clock()
    stacked = Stacked(models=[model_at(b, method="exact") for b in GRID]).fit(bags, y, seed=1)
    score("Stacked of seven", stacked.predictive(new_bags), clock() - start)
    start = clock()
    predictive, model = full_bayes(points, y, new_points, sampling)
    score(FULL_BAYES, predictive, clock() - start)
    diagnostics = model.diagnostics()
    rows[FULL_BAYES] |= {"R-hat": diagnostics["max_r_hat"], "diverged": diagnostics["divergences"]}
    table = pd.DataFrame(rows).T
    print(table.round(5), flush=True)
    return table


def main():
    parser = arguments(__doc__, quick="one set of 40 bags", output="for bandwidth_bayes.md")
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--bags", type=int, default=200)
    parser.add_argument("--draws", type=int, default=300, help="of each of two chains")
    args = parser.parse_args()
    if args.quick:
        args.sets, args.bags, args.draws = 2, 30, 50
    sampling = {"chains": 2, "warmup": args.draws, "draws": args.draws}
    sets = [compared(np.random.default_rng(seed), args.bags, sampling) for seed in range(args.sets)]
    table = table_of(sets)
    print(f"Bandwidths averaged or chosen:\n{table}")
    if args.output is not None:
        write(args.output, "bandwidth_bayes.md", page(table, args))


def table_of(sets):
    """Averages over the data sets, and differences from full Bayes, with standard errors."""
    values = {name: np.stack([rows.loc[name] for rows in sets]) for name in sets[0].index}
    table = {}
    for name, rows in values.items():
        gaps = rows[:, 0] - values[FULL_BAYES][:, 0]
        error = gaps.std(ddof=1) / np.sqrt(len(sets))
        table[name] = {
            "NLL": rows[:, 0].mean(),
            "NLL minus full Bayes's (s.e.)": f"{gaps.mean():.4f} ({error:.4f})" * any(gaps),
            "coverage of 95%": rows[:, 1].mean(),
            "median seconds": f"{np.median(rows[:, 2]):.1f}",
            "largest R-hat": rows[:, 3].max(),
            "divergences": f"{rows[:, 4].sum():.0f}" if name == FULL_BAYES else "",
        }
    return markdown(pd.DataFrame(table).T.rename_axis("bandwidth"))


def page(table, args):
    return f"""\
# The bandwidth by full Bayes

BLR on {args.bags} bags of {N_POINTS} points in one column, with ten landmarks: averages over \
{args.sets} simulated data sets. "{FULL_BAYES}" has a lognormal prior of the bandwidth and \
recomputes all features at each step of NUTS: it is the plain program of BLR with six more lines, \
`experiments/bandwidth_bayes.stan`, run with 2 chains of {args.draws} draws. The others are exact \
fits at {len(GRID)} bandwidths from {GRID[0]:.2f} to {GRID[-1]:.2f}: the one with the highest \
evidence, all of them weighted by evidence times prior, and `Stacked`, which weighs them by \
leave-one-out densities. NLL is the mean negative log density of 500 new labels; standard errors \
are over the data sets. Seconds include the predictions, while many other programs ran.

{table}

Full Bayes is better than the one bandwidth of highest evidence by the difference in the table, \
which is small, and takes many times as long, as all features are computed again at each step. \
Weights of a few bandwidths, by evidence or by `Stacked`, are as good. So the package has no \
prior of the bandwidth: use `tune(score="evidence")`, or `Stacked` of several.

Reproduce: `{" ".join(["python experiments/bandwidth_bayes.py", *sys.argv[1:]])}`
"""


if __name__ == "__main__":
    main()
