"""Maps of small countries whose log rate is linear or has a bump in one covariate.

The kernel for maps (lines and smooth curves in covariates, a field in space) is fitted to the cases
of 100 districts of a simulated country (``data_gen/grid_country.py``) and scored on the pixels and
cases of the 30 others.
"""

import time

import numpy as np
from scipy.stats import poisson

from bdr_stan import AggregateRegressor
from bdr_stan.kernels import Matern32, map_kernel
from bdr_stan.metrics import calibration
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
    shares = calibration(test.rate, points, LEVELS).set_index("level")["coverage"]
    expected = test.bags.sums(test.bags.weights * test.rate)
    return {
        "truth": truth,
        "country": str(seed),
        "NLL": -model.predictive(test.bags).log_prob(test.y).mean(),
        "NLL, effects known": known_effects_nll(
            train, test, TRUTHS[truth], Matern32(FIELD_KM, variance=FIELD_SD**2)
        ),
        "NLL of the true rates": -poisson.logpmf(test.y, expected).mean(),
        "correlation of log rates": np.corrcoef(np.log(points.mean), np.log(test.rate))[0, 1],
        **{f"{level:.0%} coverage": shares[level] for level in LEVELS},
        "fit, s": round(seconds),
    }


def main():
    import pandas as pd

    parser = arguments(
        __doc__, quick="small countries, few draws", output="folder for grid_country.md"
    )
    parser.add_argument("--functions", type=int, default=300, help="basis functions of the field")
    parser.add_argument("--method", default="laplace")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--thin", type=int, default=50, help="points per district")
    args = parser.parse_args()
    run, args.size = {}, {}
    if args.quick:
        args.functions, args.thin, args.seeds = 30, 10, args.seeds[:1]
        run, args.size = {"draws": 100}, {"side": 40, "n_districts": 26}
    rows = [scores(truth, seed, args, run) for truth in TRUTHS for seed in args.seeds]
    table = pd.DataFrame(rows).set_index("truth")
    quick = " --quick" if args.quick else ""
    text = f"""\
# Lines, curves and a field in space

Simulated countries (`data_gen/grid_country.py`) with 100 training and 30 test districts. The log
rate is the sum of a spatial field and the effects of three covariates, all linear or one of them a
bump. Both have the same kernel, `map_kernel` with {args.functions} functions, method
"{args.method}" and {args.thin} points per district.

{markdown(table)}

NLL is the mean of -log of the predictive probability of a held-out district's cases. "NLL,
effects known" is its value where the covariates' effects and the field's covariance are known and
only the field is learned (`experiments/known_effects.py`). Correlation and coverage are over the
pixels of held-out districts.

Reproduce: `python experiments/grid_country.py{quick} --output docs/validation`
"""
    print(text)
    if args.output is not None:
        write(args.output, "grid_country.md", text)


if __name__ == "__main__":
    main()
