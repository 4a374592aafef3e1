"""The malaria protocol of Law et al. (2018, aggregate outputs) on a generated country: ten splits.

Districts are split ten times into 60% training, 20% validation and 20% test districts. The function
has one RBF kernel of 18 covariates with a length scale per column, and a Matern 3/2 field in space;
a landmark per training district. Length scales are learned in each split, by the evidence of its
training districts. ``--full`` is the size of the paper's data.
"""

import tempfile
import time
from functools import partial

import numpy as np
import pandas as pd

from bdr_stan import AggregateRegressor
from bdr_stan.aggregate.thinning import thinned_bags
from bdr_stan.kernels import RBF, HilbertSpace, Matern32
from data_gen.malaria import FEATURES, N_DISTRICTS, N_PIXELS, SPLITS, load_country, write_country
from experiments.malaria import nll_of_truth, scores
from experiments.papers import AggregateNN, ConstantRate
from experiments.report import arguments, markdown, mean_and_error, results_of, write

# Law et al. (2018) on their confidential data: bag NLL and log-scale MSE of test districts.
# Settings by validation bags; "bound": settings by the training objective.
PUBLISHED = {
    "constant": (173.1, 4.08),
    "Nyström-Exp": (88.1, 1.31),
    "VBAgg-Sq": (97.6, 1.38),
    "VBAgg-Sq, bound": (94.1, 1.21),
    "VBAgg-Exp": (99.2, 1.21),
    "VBAgg-Exp, bound": (97.2, 1.04),
    "NN-Exp": (164.4, 1.82),
}
LINKS = {"Sq": "square", "Exp": "exp"}
METHODS = {"VBAgg": "vb", "Nyström": "optimize"}
REFERENCE = "VBAgg-Sq"
COLUMNS = {
    "bag NLL": "bag NLL",
    "log MSE of bags": "log MSE",
    "log MSE of pixels": "log MSE of pixels",
    "95% coverage": "95% coverage",
}
HIDDEN = 20  # units of the network


def fit_split(country, seed, args):
    """Scores of every method on the test districts, and seconds of the processor: {name: row}."""
    parts = {name: country.part(name, seed) for name in SPLITS}
    train, validation = (
        (thinned_bags(parts[name].bags, args.thin), parts[name].y)
        for name in ("train", "validation")
    )
    covariates, place = np.split(np.arange(len(FEATURES)), [-2])
    kernel = RBF("ard", columns=covariates.tolist()) + HilbertSpace(
        Matern32(columns=place.tolist()), n_functions=args.functions
    )
    rows = {}

    def fitted(name, model, **run):
        start = time.process_time()
        model.fit(*train, **run)
        seconds = time.process_time() - start
        if name:
            rows[name] = scores(model, parts["test"]) | {"seconds": seconds}
        return model

    fitted("constant", ConstantRate())
    network = AggregateNN(HIDDEN, n_restarts=1, max_iter=args.nn_steps)
    fitted("NN-Exp", network, validation=validation, seed=seed)
    for short, link in LINKS.items():
        learner = AggregateRegressor("poisson", link, args.landmarks, kernel, method="optimize")
        learned = fitted("", learner.set_params(learn_kernel=not args.quick), seed=seed).kernel_
        for name, method in METHODS.items():
            model = AggregateRegressor("poisson", link, kernel=learned, method=method)
            model.set_params(n_landmarks=None, landmarks="one per bag", learn_kernel=False)
            fitted(f"{name}-{short}", model, seed=seed)
    rows["true rates"] = {"bag NLL": nll_of_truth(parts["test"])}
    nll = {name: f"{row['bag NLL']:.2f}" for name, row in rows.items()}
    print(f"split {seed}: bag NLL {nll}", flush=True)
    return rows


def score_table(results):
    """Scores of each method over the splits beside the published ones."""
    rows = {}
    ours = dict.fromkeys(results.columns.get_level_values(0))
    for name in ours | dict.fromkeys(PUBLISHED):
        row = {}
        if name in ours:
            of_method = results[name]
            row = {
                title: mean_and_error(of_method[column]) if column in of_method else ""
                for column, title in COLUMNS.items()
            }
            if "seconds" in of_method:
                row["fit, s"] = f"{of_method['seconds'].median():.1f}"
        if name in PUBLISHED:
            row["published: bag NLL / log MSE"] = "{} / {}".format(*PUBLISHED[name])
        rows[name] = row
    return pd.DataFrame(rows).T.fillna("").rename_axis("method")


def difference_table(results):
    """The reference minus each other method, over the splits, and how often it is better."""
    rows = {}
    for name in dict.fromkeys(results.columns.get_level_values(0)):
        row = {}
        for column, title in list(COLUMNS.items())[:3]:
            if name == REFERENCE or column not in results[name]:
                continue
            gap = results[REFERENCE][column] - results[name][column]
            row[title] = f"{mean_and_error(gap)}, {(gap < 0).sum()} of {len(gap)}"
        if len(row) == 3:
            rows[name] = row
    return pd.DataFrame(rows).T.rename_axis(f"{REFERENCE} minus")


def main():
    parser = arguments(
        __doc__,
        quick="1000 pixels, 30 districts, 2 splits, no kernel learned",
        output="folder for malaria_splits.md",
    )
    parser.add_argument("--full", action="store_true", help="the size of the paper's data: hours")
    parser.add_argument("--pixels", type=int, default=30_000)
    parser.add_argument("--districts", type=int, default=150)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--thin", type=int, default=10, help="points per district")
    parser.add_argument("--functions", type=int, default=40, help="sines of the field in space")
    parser.add_argument("--landmarks", type=int, default=30, help="while lengths are learned")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    args.nn_steps = 10 if args.quick else 150
    if args.full:
        args.pixels, args.districts, args.thin, args.functions = N_PIXELS, N_DISTRICTS, 25, 300
    if args.quick:
        args.pixels, args.districts, args.splits = 1000, 30, 2
        args.thin, args.functions, args.landmarks = 5, 10, 5
    with tempfile.TemporaryDirectory() as folder:
        write_country(folder, seed=1, n_pixels=args.pixels, n_districts=args.districts)
        country = load_country(folder)
        fitted = partial(fit_split, country, args=args)
        report(country, args, results_of(fitted, range(args.splits), args.jobs))


def report(country, args, by_split):
    """Print the tables of the splits' scores, and write the page."""
    results = pd.DataFrame([pd.DataFrame(rows).unstack() for rows in by_split])
    results = results.dropna(axis=1, how="all")
    text = TEXT.format(
        pixels=f"{len(country.rate):,}",
        districts=len(country.bags),
        n_train=len(country.part("train").bags),
        n_test=len(country.part("test").bags),
        splits=args.splits,
        thin=args.thin,
        functions=args.functions,
        landmarks=args.landmarks,
        scores=markdown(score_table(results)),
        differences=markdown(difference_table(results)),
        findings="" if args.quick or args.full else FINDINGS,
        option=" --quick" if args.quick else " --full" if args.full else "",
    )
    print(f"\n{text}")
    if args.output is not None:
        write(args.output, "malaria_splits.md", text)


FINDINGS = """
Findings:

- VBAgg-Sq has the lowest bag NLL, lower than the mode with the same link at all ten splits. In the
  paper the mode is best (Nyström-Exp).
- In log MSE the methods of Gaussian processes do not differ: the differences are below one standard
  error. The paper's gain of VBAgg-Exp over VBAgg-Sq and Nyström-Exp is not there.
- With the exponential link the average bag NLL is the one of a single split, at which rates of some
  new districts, unlike the training districts in their covariates, are far too high.
- The network has a lower log MSE than all of them, unlike in the paper, where it is worse than all.
  One kernel of 18 covariates with a landmark for each of 90 districts represents this country
  poorly: its rates are sums of effects of single covariates. The kernels of single covariates of
  [the page on the large country](malaria.md) suit such effects.
- The 95% intervals of pixels cover too little with both links: VBAgg is overconfident, and these
  features omit much of f.
"""

TEXT = """\
# Malaria: the protocol of the paper

Law et al. (2018), "Variational learning on aggregate outputs with Gaussian processes", section 4.2,
on a generated country (`data_gen/malaria.py`): {pixels} pixels in {districts} districts. The paper
has 1,044,683 pixels in 957 districts; the option `--full` has as many. As in the paper:

- {splits} random splits: {n_train} training districts, {n_test} test districts, and as many
  validation districts, which only the network needs;
- Poisson cases, population per 1,000 people as weights; the rate is f^2 (Sq) or exp f (Exp);
- f has one RBF kernel of the 18 covariates with a length scale per column, plus a Matern 3/2 kernel
  in space; one landmark per training district for the covariates.

Unlike in the paper, length scales maximise the evidence of the training districts, with {landmarks}
landmarks; the field in space has {functions} sines; {thin} weighted points represent a training
district. [The same country at full size](malaria.md) has a kernel for each covariate instead, and
draws of NUTS.

## Scores

On test districts: mean over splits and its standard error. Splits are of one country, so the
standard errors do not include differences between countries. The published figures are from the
paper's own, confidential data, so only the order of the methods can be compared. "Bound" are
settings by the bound on the training districts in the paper, its others by validation districts.
Log MSE is the mean squared error of logarithms, over districts with cases and over pixels; fits are
in seconds of the processor, without the search for length scales.

{scores}

{reference} minus each method (below 0: {reference} is better), and the number of splits at which
{reference} is better:

{differences}
{findings}
Reproduce: `python experiments/malaria_splits.py{option} --output docs/validation`
""".replace("{reference}", REFERENCE)


if __name__ == "__main__":
    main()
