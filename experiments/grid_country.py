"""Maps of small countries whose truth is a linear model, or has a bump in one covariate.

The kernel for maps, lines and smooth curves in covariates and a field in space, is fitted to the
cases of 100 districts of a generated country (``data_gen/grid_country.py``) and scored on the
pixels and the cases of the 30 others.
"""

import time

import numpy as np

from bdr_stan import AggregateRegressor
from bdr_stan.kernels import Matern32, map_kernel
from bdr_stan.metrics import point_calibration, poisson_nll
from data_gen.grid_country import COVARIATES, FIELD_KM, FIELD_SD, TRUTHS, grid_country
from experiments.known_effects import known_effects_nll
from experiments.report import arguments, markdown, write

LEVELS = (0.5, 0.8, 0.95)


def scores(truth, seed, args, run):
    """A row of the table: one country, one method."""
    country = grid_country(truth, seed=seed, **args.size)
    train, test = country.part("train"), country.part("test")
    kernel = map_kernel(COVARIATES, n_functions=args.functions)
    model = AggregateRegressor(
        "poisson", "exp", kernel=kernel, thin=args.thin, method=args.method, random_state=seed
    )
    start = time.perf_counter()
    model.fit(train.bags, train.y, **run)
    seconds = time.perf_counter() - start
    points = model.predict_points(test.bags)
    holds = point_calibration(test.rate, points, LEVELS).set_index("level")["coverage"]
    expected = test.bags.sums(test.bags.weights * test.rate)
    return {
        "truth": truth,
        "country": str(seed),
        "NLL": -model.predictive(test.bags).log_prob(test.y).mean(),
        "NLL, all but the field known": known_effects_nll(
            train, test, TRUTHS[truth], Matern32(FIELD_KM, variance=FIELD_SD**2)
        ),
        "NLL of the true rates": poisson_nll(test.y, expected),
        "correlation of log rates": np.corrcoef(np.log(points.mean), np.log(test.rate))[0, 1],
        **{f"{level:.0%} holds": holds[level] for level in LEVELS},
        "fit, s": round(seconds),
    }


def main():
    import pandas as pd

    parser = arguments(
        __doc__, quick="small countries, few draws", output="folder of grid_country.md"
    )
    parser.add_argument("--functions", type=int, default=300, help="of the field in space")
    parser.add_argument("--method", default="laplace")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--thin", type=int, default=50, help="points a district")
    args = parser.parse_args()
    run, args.size = {}, {}
    if args.quick:
        args.functions, args.thin, args.seeds = 30, 10, args.seeds[:1]
        run, args.size = {"draws": 100}, {"side": 40, "n_districts": 26}
    rows = [scores(truth, seed, args, run) for truth in TRUTHS for seed in args.seeds]
    table = pd.DataFrame(rows).set_index("truth")
    text = f"""\
# Lines, curves and a field in space

Written by `python experiments/grid_country.py{" --quick" if args.quick else ""} --output docs`.

Generated countries (`data_gen/grid_country.py`), 100 districts to learn from and 30 to score: \
the log rate is linear in three covariates, or one of them acts by a bump, beside a field in \
space. The same kernel for both, `map_kernel` with {args.functions} functions, method \
"{args.method}", {args.thin} points a district.

{markdown(table)}

NLL is the mean of -log of the predictive probability of a held-out district's cases; \
"all but the field known" is its value for one who knows the covariates' effects and the field's \
covariance, and learns the field alone (`experiments/known_effects.py`); correlation and shares \
of true rates in intervals are of the pixels there.
"""
    print(text)
    if args.output is not None:
        write(args.output, "grid_country.md", text)


if __name__ == "__main__":
    main()
