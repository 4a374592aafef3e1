"""Normal totals of the Swiss roll of Law et al. (2018, aggregate outputs), section H.2.1.

Each individual has a normal outcome of mean 0 to 1 along the roll and sd 0.1; a bag's label is the
sum of its outcomes. With normal totals the variational posterior is exact at given scales. Scored
on individuals of 100 test bags, at data seeds 0 to 4 and 50 or 100 training bags.
"""

import time
from functools import partial

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.metrics import mean_squared_error

from bdr_stan import AggregateRegressor, metrics
from data_gen.swiss_roll import NORMAL_SD, swiss_roll
from experiments.elevators import score
from experiments.papers import AggregateNN, ConstantRate
from experiments.report import arguments, markdown, mean_and_error, results_of, write

LEVELS = (0.5, 0.8, 0.95)
MANIFOLD = (0.0, 0.1)  # weights of the network's penalty, chosen on validation bags
NN_STEPS = 150
STEP = 5  # coverage is computed on every fifth point


def fit_all(data, args, seed, seconds):
    """Every method fitted to the training bags: {name: model}; `seconds` gets the time of each."""
    train, models = data["train"], {}

    def timed(name, model, **run):
        start = time.process_time()
        models[name] = model.fit(train.bags, train.y, **run)
        seconds[name] = time.process_time() - start
        return model

    learner = AggregateRegressor("normal", n_landmarks=args.landmarks, method="vb")
    learned = timed("VBAgg (exact)", learner.set_params(learn_kernel=not args.quick), seed=seed)
    basis = {"kernel": learned.kernel_, "landmarks": learned.landmarks_, "learn_kernel": False}
    timed("NUTS", AggregateRegressor("normal", **basis), seed=seed, **args.chains)
    timed("Nyström", AggregateRegressor("normal", method="optimize", **basis), seed=seed)
    stop, validation = data["early_stop"], data["validation"]
    networks = [
        AggregateNN(
            likelihood="normal", link="identity", manifold=weight, n_restarts=1, max_iter=NN_STEPS
        )
        for weight in MANIFOLD
    ]
    for network in networks:
        timed("NN", network, validation=(stop.bags, stop.y), seed=seed)
    models["NN"] = min(
        networks, key=lambda m: mean_squared_error(validation.y, m.predict(validation.bags))
    )
    timed("constant", ConstantRate("normal"))
    return models


def scores_of(model, split):
    """NLL of individuals' outcomes, MSE of their means, scores of bags, coverage of the means."""
    row = score(model, (split.bags, split.y, split.outcomes))
    rates = model.predict_points(split.bags.points)
    bayesian = isinstance(model, AggregateRegressor)
    row["individual MSE"] = mean_squared_error(split.rate, rates.mean if bayesian else rates)
    if bayesian and len(rates.theta) > 1:
        some = model.predict_points(split.bags.points[::STEP])
        table = metrics.calibration(split.rate[::STEP], some, LEVELS)
        row |= dict(zip(LEVELS, table["coverage"], strict=True))
    return row


def references(split):
    """Scores of the true means, and of the label of a bag over its size."""
    rate = np.repeat(split.y / split.bags.sizes, split.bags.sizes)
    totals = split.bags.sums(split.rate)
    return {
        "constant in bag": {"individual MSE": mean_squared_error(split.rate, rate)},
        "true means": {
            "individual NLL": -norm.logpdf(split.outcomes, split.rate, NORMAL_SD).mean(),
            "individual MSE": 0.0,
            "bag NLL": -norm.logpdf(split.y, totals, NORMAL_SD * np.sqrt(split.bags.sizes)).mean(),
            "bag MSE": mean_squared_error(split.y, totals),
        },
    }


def run(draw, args, **size):
    """Fit and score all methods on a draw, (number of bags, data seed): a row each."""
    (n_bags, seed), seconds = draw, {}
    data = swiss_roll(seed, n_bags=n_bags, likelihood="normal", **size)
    models = fit_all(data, args, seed, seconds)
    by_name = {
        name: scores_of(model, data["test"]) | {"seconds": seconds[name]}
        for name, model in models.items()
    }
    by_name |= references(data["test"])
    mse = {name: f"{row['individual MSE']:.4f}" for name, row in by_name.items()}
    print(f"{n_bags} bags, data seed {seed}: MSE {mse}", flush=True)
    described = {"training bags": n_bags, "data seed": seed}
    return [{"method": name} | described | row for name, row in by_name.items()]


def score_table(results):
    """Scores by method, with means over data seeds and standard errors."""
    digits = {"individual NLL": 3, "individual MSE": 4, "bag NLL": 3, "bag MSE": 2}
    return pd.DataFrame(
        {
            name: {metric: mean_and_error(rows[metric], n) for metric, n in digits.items()}
            | {f"coverage, {level:.0%}": mean_and_error(rows[level]) for level in LEVELS}
            for name, rows in results.groupby("method", sort=False)
        }
    ).T.rename_axis("method")


def size_table(results):
    """MSE of the individuals' means by method and number of training bags."""
    table = results.pivot_table(
        "individual MSE",
        "method",
        "training bags",
        aggfunc=lambda values: mean_and_error(values, 4),
        sort=False,
    )
    return table.rename_axis("method")


def main():
    parser = arguments(
        __doc__, quick="one draw, few bags, short chains", output="folder for the page"
    )
    parser.add_argument("--seeds", type=int, help="data seeds 0, 1, .. (default 5)")
    parser.add_argument("--bags", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--landmarks", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    args.seeds = args.seeds or (2 if args.quick else 5)
    args.chains = {"chains": 2, "warmup": 300, "draws": 500}
    size = {"n_test": 100}
    if args.quick:
        args.bags, args.landmarks = [24], 6
        args.chains |= {"warmup": 100, "draws": 100}
        size = {"n_test": 20, "mean_size": 20, "size_sd": 8}
    draws = [(n_bags, seed) for n_bags in args.bags for seed in range(args.seeds)]
    rows = results_of(partial(run, args=args, **size), draws, args.jobs)
    results = pd.DataFrame([row for rows_of_draw in rows for row in rows_of_draw])
    seconds = results.groupby("method", sort=False)["seconds"].median().dropna()
    n_shown = 100 if 100 in args.bags else args.bags[0]
    text = TEXT.format(
        n_shown=n_shown,
        last_seed=args.seeds - 1,
        landmarks=args.landmarks,
        scores=markdown(score_table(results[results["training bags"] == n_shown])),
        sizes=markdown(size_table(results)),
        seconds=", ".join(f"{name} {median:.1f}" for name, median in seconds.items()),
        findings="" if args.quick else FINDINGS,
        quick=" --quick" if args.quick else "",
    )
    print(f"\n{text}")
    if args.output is not None:
        write(args.output, "swiss_roll_normal.md", text)


FINDINGS = """
Findings: with normal totals the mean of an individual is learned well from sums, with an MSE far
below the variance within bags (constant in bag), and the NLL is near the NLL of the true means.
VBAgg, which is exact at its scales, and NUTS agree. The mode has the same MSE with 100 bags, but
a worse NLL, and a worse MSE with 50 bags. Coverage is above its level on average.
"""

TEXT = """\
# Swiss roll: normal totals

The roll of [the page on counts](swiss_roll.md) with the paper's other model (Law et al. 2018,
"Variational learning on aggregate outputs with Gaussian processes", section H.2.1): an individual
has a normal outcome of sd 0.1 whose mean rises from 0 to 1 along the roll, and the label of a bag
is the sum. `likelihood="normal"`, {landmarks} landmarks from k-means, an RBF kernel with one length
scale per column, of highest evidence. VBAgg is exact for normal totals, given rho and sigma of
highest evidence; NUTS has their posterior; Nyström is the mode; NN a network with the identity link
and a manifold penalty chosen on validation bags; constant one mean for all. The paper has figures
of these methods but no numbers, so none are quoted.

## Scores

On individuals and bags of the test bags, {n_shown} training bags: mean over data seeds 0 to
{last_seed} and its standard error. NLL is of the outcomes, MSE of the individuals' means. Coverage
is of central intervals for the means.

{scores}

## More bags

MSE of the individuals' means by the number of training bags:

{sizes}

Seconds of the processor per fit, median (VBAgg: with the search for length scales; NUTS: without
its chains, which are processes of their own):
{seconds}.
{findings}
Reproduce: `python experiments/swiss_roll_normal.py{quick} --output docs/validation`
"""


if __name__ == "__main__":
    main()
