"""Maps from counts of districts, from surveys of places, and from both in one model.

Generated countries (``data_gen/malaria.py``) with cases by district and 60 surveyed places, whose
true rate is known at each pixel. The same is repeated with surveys that are biased by design: at
places of high prevalence alone, and of a prevalence that does not follow the rate.
"""

import tempfile
import time
import warnings

import numpy as np
from scipy.special import logit

from bdr_stan import AggregateRegressor, Bags, JointRegressor
from bdr_stan.kernels import map_kernel
from bdr_stan.metrics import calibration
from data_gen.malaria import (
    EFFECTS,
    FEATURES,
    SURVEY_DESIGNS,
    load_country,
    surveys,
    write_country,
)
from experiments.report import arguments, markdown, write

SPACE = ["x", "y"]
ALONE = "counts alone"


def kernel(args, more=()):
    """Lines and curves in the covariates that the rate depends on, and a field in space."""
    return map_kernel([*EFFECTS, *more], SPACE, n_functions=args.functions)


def settings(args, seed, columns=()):
    """Parameters that all models of counts share."""
    return {
        "link": "exp",
        "n_landmarks": args.landmarks,
        "kernel": kernel(args, columns),
        "thin": args.thin,
        "method": args.method,
        "random_state": seed,
    }


def rmse(found, true):
    """Root mean square error of logarithms."""
    return np.sqrt(np.mean((np.log(found) - np.log(true)) ** 2))


def scores(points, rate):
    """Errors of the log rates at pixels, and how many of their 95% intervals hold."""
    found = points.quantile(0.5)
    return {
        "correlation": np.corrcoef(np.log(found), np.log(rate))[0, 1],
        "RMSE": rmse(found, rate),
        "95% coverage": calibration(rate, points, (0.95,))["coverage"].iloc[0],
    }


def survey_alone(args, survey, seed):
    """A model of the log odds of surveys: a field in space and lines in the covariates."""
    return AggregateRegressor(
        "binomial", n_landmarks=args.landmarks, kernel=kernel(args), method=args.method,
        random_state=seed,
    ).fit(survey.places, survey.positives, trials=survey.examined, **args.run)  # fmt: skip


def with_column(bags, values):
    """The bags with one more column of their points."""
    return Bags(
        np.column_stack([bags.points, values]),
        bags.offsets,
        weights=bags.weights,
        features=[*FEATURES, "survey"],
    )


def covariate_model(args, country, survey_map, seed):
    """The model of counts with the survey's map of log odds as one more covariate."""
    bags = with_column(country.bags, logit(survey_map.quantile(0.5)))
    model = AggregateRegressor(**settings(args, seed, ["survey"])).fit(bags, country.y, **args.run)
    return model.predict_points(bags)


def rows_of_country(country, args, seed):
    """Rows of the table: counts alone, then with each kind of survey the others."""
    start = time.perf_counter()
    counts = AggregateRegressor(**settings(args, seed))
    counts.fit(country.bags, country.y, **args.run)
    of_counts = scores(counts.predict_points(country.bags), country.rate)
    yield {"survey": "none", "model": ALONE, "country": seed, **of_counts,
           "seconds": time.perf_counter() - start}  # fmt: skip
    learned = {"kernel": counts.kernel_, "landmarks": counts.landmarks_, "learn_kernel": False}
    for design in SURVEY_DESIGNS:
        survey = surveys(country, design, seed=seed)
        start = time.perf_counter()
        joint = JointRegressor(**{**settings(args, seed), **learned}).fit(
            country.bags, country.y, surveys=survey.places, positives=survey.positives,
            examined=survey.examined, **args.run,
        )  # fmt: skip
        low, high = joint.agreement_.interval
        shared = {"survey": design, "country": seed}
        yield {
            **shared, "model": "joint", **scores(joint.predict_points(country.bags), country.rate),
            "slope": joint.agreement_.slope.mean(), "slope from": low, "slope to": high,
            "percentile": 100 * joint.agreement_.percentiles.mean(),
            "places p": joint.agreement_.p_value,
            "seconds": time.perf_counter() - start,
        }  # fmt: skip
        if design != "representative":
            continue
        start = time.perf_counter()
        survey_map = survey_alone(args, survey, seed).predict_points(country.bags)
        odds = logit(survey_map.quantile(0.5))
        correlation = np.corrcoef(odds, np.log(country.rate))[0, 1]
        yield {**shared, "model": "survey alone", "correlation": correlation,
               "seconds": time.perf_counter() - start}  # fmt: skip
        start = time.perf_counter()
        as_column = covariate_model(args, country, survey_map, seed)
        yield {**shared, "model": "survey as a covariate", **scores(as_column, country.rate),
               "seconds": time.perf_counter() - start}  # fmt: skip


def summary(rows):
    """Means over countries of each model, and how it compares with each source alone."""
    import pandas as pd

    of_counts = rows[rows["model"] == ALONE].set_index("country")
    of_survey = rows[rows["model"] == "survey alone"].set_index("country")
    both = np.maximum(of_counts["correlation"], of_survey["correlation"])
    found = {}
    for (survey, model), own in rows.groupby(["survey", "model"], sort=False):
        own = own.set_index("country")
        better = own["correlation"] > both
        ratio = own["RMSE"] / of_counts["RMSE"]
        found[f"{survey}: {model}"] = {
            "correlation": own["correlation"].mean(),
            "RMSE": own["RMSE"].mean(),
            "RMSE, largest share of that of counts": ratio.max(),
            "95% coverage": own["95% coverage"].mean(),
            "lowest": own["95% coverage"].min(),
            "highest": own["95% coverage"].max(),
            "above both alone": "" if "alone" in model else f"{better.sum()} of {len(own)}",
            "seconds": own["seconds"].mean(),
        }
    table = pd.DataFrame(found).T
    table.index.name = "survey: model"
    return table


def agreement(rows):
    """What each joint fit found of its surveys, one row per country and design."""
    joint = rows[rows["model"] == "joint"]
    columns = ["country", "slope", "slope from", "slope to", "percentile", "places p"]
    table = joint.set_index("survey")[columns]
    return table.assign(country=table["country"].astype(str))


def reported(rows):
    """How many joint fits reported a disagreement, or unlike places, for each design."""
    joint = rows[rows["model"] == "joint"]
    for design, own in joint.groupby("survey", sort=False):
        slopes, places = (own["slope from"] <= 0).sum(), (own["places p"] < 0.01).sum()
        yield (
            f"- {design}: {slopes} of {len(own)} fits reported that surveys and totals disagree, "
            f"{places} that the places are unlike the districts' points."
        )


def page(rows, args, size):
    """The text of the page."""
    lines = "\n".join(reported(rows))
    quick = " --quick" if args.quick else ""
    return f"""\
# Surveys and totals in one map

Generated countries (`data_gen/malaria.py`) of {size["n_pixels"]:,} pixels in
{size["n_districts"]} districts with Poisson cases, seeds {", ".join(map(str, args.seeds))}, and 60
surveyed places where 50 to 150 people are examined. The log odds of a positive have the slope 0.8
in the log rate, and places differ by a further 0.4. Three designs of surveys: "representative",
places drawn as people live; "high", among the fifth of the people with the highest prevalence;
"unrelated", a prevalence that does not follow the rate.

"Joint" is `JointRegressor`, with the kernel of "{ALONE}"
(`AggregateRegressor`); "survey alone" a binomial model of the surveys, whose log odds are compared
with the log rates; "survey as a covariate" a model of the counts with the map of the survey alone
as one more covariate. All have `map_kernel` of the eight covariates that the rate depends on with
{args.functions} functions, {args.thin} points per district, the default negative binomial counts,
whose effects of districts also absorb what functions and points leave out, and method
"{args.method}". Scores are over all pixels: correlation and root mean square error of log rates,
and the share of pixels whose 95% interval contains the true rate.

{markdown(summary(rows))}

"Above both alone" counts the countries where the correlation is above those of the counts alone
and of the representative survey alone. The seconds of "joint" exclude the kernel, which
"{ALONE}" has learned.

## Whether the report finds out

{lines}

"Percentile" is the mean percentile of the places' log rates among the districts' points, 50 where
they are drawn as people live, and "places p" the probability of one as far from 50 by chance.

{markdown(agreement(rows))}

Reproduce: `python experiments/joint_maps.py{quick} --output docs/validation`
"""


def main():
    import pandas as pd

    parser = arguments(
        __doc__,
        quick="one country of 800 pixels, few functions",
        output="folder for joint_maps.md",
    )
    parser.add_argument("--functions", type=int, default=200, help="basis functions of the field")
    parser.add_argument("--landmarks", type=int, default=10, help="per covariate")
    parser.add_argument("--thin", type=int, default=20, help="points per district")
    parser.add_argument("--method", default="laplace")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 11)))
    args = parser.parse_args()
    args.run, size = {"draws": 1000}, {"n_pixels": 30_000, "n_districts": 100}
    if args.quick:
        args.functions, args.landmarks, args.thin, args.seeds = 10, 2, 5, args.seeds[:1]
        args.run, size = {"draws": 100}, {"n_pixels": 800, "n_districts": 20}
    rows = []
    for seed in args.seeds:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what fits say of surveys is in the table
            write_country(folder, seed=seed, **size)
            for row in rows_of_country(load_country(folder), args, seed):
                print(pd.Series(row).to_frame().T.to_string(header=len(rows) == 0), flush=True)
                rows.append(row)
    text = page(pd.DataFrame(rows), args, size)
    print(text)
    if args.output is not None:
        write(args.output, "joint_maps.md", text)


if __name__ == "__main__":
    main()
