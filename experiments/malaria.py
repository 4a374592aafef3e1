"""A malaria map from counts of districts, at the size of Law et al. (2018, aggregate outputs).

A synthetic country of 1,044,683 pixels in 957 districts, with 18 environmental covariates and two
coordinates, where the true rate of every pixel is known (``data_gen/malaria.py``). Rates are
learned from the counts of 574 districts, and scored on held-out districts and all pixels. The
points stay in a memory map: a matrix of pixels by landmarks is never in memory.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.stats import poisson

from bdr_stan import AggregateRegressor
from bdr_stan.aggregate.densities import Totals
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.training import training_features
from bdr_stan.kernels import Matern32, map_kernel
from bdr_stan.labels import Labels
from bdr_stan.metrics import calibration
from data_gen.malaria import FEATURES, FIELD_KM, FIELD_SD, effects, load_country, write_country
from experiments.known_effects import known_effects_nll
from experiments.papers import AggregateNN, ConstantRate
from experiments.report import arguments, map_array, markdown, peak_memory, pyplot, write

# Law et al. (2018), on their confidential data: bag NLL, log-scale MSE.
PUBLISHED = {
    "constant": "173.1 / 4.08",
    "Nyström-Exp": "88.1 / 1.31",
    "VBAgg-Sq": "97.6 / 1.38",
    "VBAgg-Exp": "99.2 / 1.21",
    "NN-Exp": "164.4 / 1.82",
}
LEVELS = (0.5, 0.8, 0.95)
FIELD = Matern32(FIELD_KM, variance=FIELD_SD**2)
HIGH = 100  # cases per 1,000 per year
# Of the smaller models, on which the methods are compared.
FEW_FUNCTIONS = 100


def methods(args, few, many):
    """The methods by name, with kernels and landmarks that have been learned."""

    def model(features, **parameters):
        given = {"kernel": features.kernel, "landmarks": features.landmarks}
        return AggregateRegressor(
            "poisson", "exp", thin=args.thin, learn_kernel=False, random_state=args.seed, **given
        ).set_params(**parameters)

    return {
        "constant": ConstantRate(),
        "NN-Exp": AggregateNN(20, n_restarts=1, max_iter=args.nn_steps, random_state=args.seed),
        "VBAgg-Exp, few": model(few, method="vb"),
        "Laplace-Exp, few": model(few, method="laplace"),
        "NUTS-Exp, few": model(few),
        "Nyström-Exp": model(many, method="optimize"),
        "Laplace-Exp": model(many, method="laplace"),
        "NUTS-Exp": model(many),
    }


def scores(model, country):
    """Bag and point scores on held-out districts: a row of the table."""
    bags, y, rate = country.bags, country.y, country.rate
    row = {}
    if isinstance(model, AggregateRegressor):
        predictive = model.predictive(bags)
        mean, row["bag NLL"] = predictive.mean, -predictive.log_prob(y).mean()
        points = model.predict_points(bags)
        rate_mean = points.mean
        table = calibration(rate, points, LEVELS).set_index("level")["coverage"]
        row |= {f"{level:.0%} coverage": table[level] for level in LEVELS}
    else:
        mean = model.predict(bags)
        row["bag NLL"] = -poisson.logpmf(y, mean).mean()
        rate_mean = model.predict_points(bags.points)
    some = y > 0  # the logarithm of 0 cases is undefined
    row["log MSE of bags"] = np.mean((np.log(mean[some]) - np.log(y[some])) ** 2)
    if np.ptp(rate_mean) > 0:
        row["correlation of log rates"] = np.corrcoef(np.log(rate_mean), np.log(rate))[0, 1]
    row["log MSE of pixels"] = np.mean((np.log(rate_mean) - np.log(rate)) ** 2)
    return row


def nll_of_truth(country):
    """Bag NLL of the true rates."""
    expected = country.bags.sums(country.bags.weights * country.rate)
    return -poisson.logpmf(country.y, expected).mean()


def other_countries(args):
    """Scores of Laplace-Exp on smaller countries of other seeds: one row per country."""
    import pandas as pd

    rows = {}
    for seed in args.others:
        with tempfile.TemporaryDirectory() as folder:
            write_country(folder, seed=seed, **args.small)
            country = load_country(folder)
            train, test = country.part("train"), country.part("test")
            start = time.perf_counter()
            features = learned_features(args, train, args.functions)
            model = methods(args, features, features)["Laplace-Exp"].fit(train.bags, train.y)
            seconds = time.perf_counter() - start
            rows[f"seed {seed}: {len(country.rate):,} pixels, {len(country.bags)} districts"] = {
                **scores(model, test),
                "bag NLL of the true rates": nll_of_truth(test),
                "bag NLL, effects known": known_effects_nll(train, test, effects, FIELD),
                "learning and fit, s": seconds,
            }
            print(pd.DataFrame(rows).iloc[:, -1].to_string(), flush=True)
    return pd.DataFrame(rows).T


def learned_features(args, country, n_functions):
    """Landmarks and kernel of highest evidence: lines, curves and a field in space."""
    labels = Labels(np.asarray(country.y, float))
    training = training_features(
        country.bags,
        Totals(labels, LIKELIHOODS["poisson"], LINKS["exp"]),
        kernel=map_kernel(FEATURES[:-2], ["x", "y"], n_functions=n_functions),
        learn=not args.quick,
        n_landmarks=args.landmarks,
        landmarks="kmeans",
        thin=args.thin,
        seed=args.seed,
    )
    return training.feature_map


def main():
    parser = arguments(
        __doc__,
        quick="500 pixels, 20 districts, 10 functions, some methods, no kernel learned",
        output="folder for malaria.md and malaria.png",
    )
    parser.add_argument("--country", type=Path, help="folder of the country (default: a new one)")
    parser.add_argument("--functions", type=int, default=800, help="basis functions of the field")
    parser.add_argument("--landmarks", type=int, default=8, help="per covariate")
    parser.add_argument("--thin", type=int, default=25, help="points per bag for the link exp")
    parser.add_argument("--only", nargs="+", help="names of the methods to run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--others", type=int, nargs="*", default=[2, 3, 4], help="seeds of others")
    args = parser.parse_args()
    args.nn_steps = 10 if args.quick else 150
    run = {"seed": args.seed, "warmup": 300, "draws": 800}
    if args.quick:
        run |= {"chains": 2, "warmup": 100, "draws": 50}
    size, args.small = {}, {"n_pixels": 200_000, "n_districts": 500}
    if args.quick:
        size = args.small = {"n_pixels": 500, "n_districts": 20}
        args.others = args.others[:1]
        args.functions, args.landmarks, args.thin = 10, 2, 5
        args.only = args.only or ["constant", "NN-Exp", "VBAgg-Exp, few", "Nyström-Exp", "NUTS-Exp"]
    with tempfile.TemporaryDirectory() as folder:
        if args.country is None:
            write_country(folder, seed=args.seed, **size)
        country = load_country(args.country or folder)
        report(country, args, run)


def report(country, args, run):
    """Fit and score the methods, print the table, write page and maps."""
    import pandas as pd

    train, test = country.part("train"), country.part("test")
    learned, learning = [], []
    for n_functions in (min(FEW_FUNCTIONS, args.functions), args.functions):
        start = time.perf_counter()
        learned.append(learned_features(args, train, n_functions))
        learning.append(time.perf_counter() - start)
        print(f"kernel of {n_functions} functions: {learning[-1]:.0f} s", flush=True)

    rows, cost, best = {}, {}, None
    for name, model in methods(args, *learned).items():
        if args.only and name not in args.only:
            continue
        bayesian = isinstance(model, AggregateRegressor)
        start = time.perf_counter()
        model.fit(train.bags, train.y, **(run if bayesian else {}))
        seconds = time.perf_counter() - start
        rows[name] = scores(model, test)
        cost[name] = {"fit, s": seconds, **(sampled(model) if bayesian else {})}
        best = model if best is None or "NUTS" in name else best  # other draws are freed
        print(pd.Series({**rows[name], **cost[name]}, name=name).to_string(), flush=True)

    start = time.perf_counter()
    points = best.predict_points(country.bags)
    mean, sd = points.mean, points.sd
    mapping = time.perf_counter() - start
    own, chain = peak_memory()
    table = pd.DataFrame(rows).T
    table["published, bag NLL / log MSE"] = pd.Series(PUBLISHED)
    truth, known = nll_of_truth(test), known_effects_nll(train, test, effects, FIELD)
    others = other_countries(args)
    quick = " --quick" if args.quick else ""
    text = f"""\
# Malaria in districts, mapped to pixels

A simulated country (`data_gen/malaria.py`): {len(country.rate):,} pixels in {len(country.bags)}
districts of {country.bags.sizes.min()} to {country.bags.sizes.max():,} pixels,
{country.y.sum():,} cases; {len(train.bags)} training and {len(test.bags)} test districts. Log rates
are the sum of a line and a smooth curve in each of the 18 covariates and a spatial Matern 3/2 field
(`map_kernel`) of {args.functions} sines ("few": {min(FEW_FUNCTIONS, args.functions)}). Variances
and the field's length scale maximise the evidence; {args.thin} weighted points represent each
district in training. The published figures are from the paper's own, confidential data: they show
its ranking of methods and are not comparable with ours. [Ten splits](malaria_splits.md) follow the
protocol of the paper.

Counts are Poisson with rate exp f, where f is a Gaussian process. Nyström is the mode of its
posterior, VBAgg the variational approximation of the paper, Laplace a normal approximation, NUTS
draws. NN is a neural network, constant one rate for all.

## Held-out districts and pixels

{markdown(table.round(3), text_or_nothing)}

The true rates give a bag NLL of {truth:.2f}; with known covariate effects and field covariance, and
only the field learned, it is {known:.2f} (`experiments/known_effects.py`). Bag NLL is the mean of
-log of the predictive probability of a district's cases; log MSE is the mean squared error of
logarithms, over districts with cases and over pixels. Coverage refers to central intervals for the
pixels' true rates, including the variance that the features do not capture.

![True rate, posterior mean and sd, probability of more than {HIGH} cases per 1,000](malaria.png)

## Other countries

Laplace-Exp on three smaller countries. "Effects known": covariate effects and field covariance are
known.

{markdown(others.round(3))}

## Cost

On {os.cpu_count()} cores; peak memory {own:.2f} GB in Python, at most {chain:.2f} GB in a chain.
Learning the kernel took {learning[1]:.0f} s (few: {learning[0]:.0f} s); means and standard
deviations of all {len(country.rate):,} pixels from 1000 draws took {mapping:.0f} s.

{markdown(pd.DataFrame(cost).T.round(3), text_or_nothing)}

Reproduce: `python experiments/malaria.py{quick} --output docs/validation`
"""
    print(f"\n{text}")
    if args.output is None:
        return
    write(args.output, "malaria.md", text)
    maps = {
        "true rate": country.rate,
        "posterior mean of the rate": mean,
        "posterior sd of the rate": sd,
        f"P(rate > {HIGH} per 1,000 per year)": points.exceedance(HIGH),
    }
    draw_maps(map_array(maps, country.row, country.col), args.output / "malaria.png")


def draw_maps(maps, path):
    """Maps in two rows; the first two are rates on one scale, the last is a probability."""
    from matplotlib.colors import LogNorm, Normalize

    rates = maps[:2]
    common = LogNorm(float(rates.min()), float(rates.max()))
    norms = common, common, LogNorm(), Normalize(0, 1)
    colours = "viridis", "viridis", "magma", "cividis"
    figure, axes = pyplot().subplots(2, 2, figsize=(7.5, 8.5), layout="compressed")
    for ax, image, norm, colour in zip(axes.flat, maps, norms, colours, strict=True):
        unit = "cases per 1,000 people per year" if colour != "cividis" else "probability"
        bar = {"label": unit, "location": "bottom", "format": "%g", "pad": 0.02}
        image.plot(ax=ax, norm=norm, cmap=colour, yincrease=False, cbar_kwargs=bar)
        ax.set(title=str(image["map"].item()), aspect="equal")
        ax.axis("off")
    figure.savefig(path, dpi=180)


def sampled(model):
    """Diagnostics of the sampler, for the table of costs."""
    d = model.diagnostics()
    if d["method"] != "nuts":
        return {}
    return {
        "leapfrog steps per draw": d["mean_n_steps"],
        "divergences": d["divergences"],
        "max R-hat": d["max_r_hat"],
        "min bulk ESS": d["min_ess_bulk"],
    }


def text_or_nothing(value):
    return str(value) if value == value else ""  # empty for NaN


if __name__ == "__main__":
    main()
