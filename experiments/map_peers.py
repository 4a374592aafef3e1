"""Maps from totals compared with the additive models of R's mgcv, on held-out districts.

python experiments/map_peers.py                                       to the screen
python experiments/map_peers.py --madagascar FILE.rda --output docs/validation   also map_peers.md

FILE.rda is data/madagascar_malaria.rda of github.com/timcdlucas/agouti, the malaria example of R's
disaggregation. Rows of mgcv are left out where Rscript or the package (Debian: r-cran-mgcv) is
missing; without FILE.rda the generated countries alone are compared.
"""

import tempfile
import textwrap
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import logsumexp

from bdr_stan import AggregateRegressor, Bags, Matern32
from bdr_stan.kernels import HilbertSpace, LinearEffects, map_kernel
from data_gen.grid_country import N_DISTRICTS, N_TRAIN, TRUTHS, grid_country
from experiments.ecological import rscript
from experiments.report import arguments, markdown, write

OWN = "AggregateRegressor"
NUTS = "AggregateRegressor, NUTS"
# Of our models: whether effects of covariates are straight lines, and parameters.
OURS = {
    OWN: (False, {"method": "laplace"}),
    "AggregateRegressor, lines": (True, {"method": "laplace"}),
    "AggregateRegressor, kernel not learned": (False, {"method": "laplace", "learn_kernel": False}),
    NUTS: (False, {}),
}
MGCV = {
    "mgcv, weighted pixels": ("pixels", "curves"),
    "mgcv, district means": ("means", "curves"),
    "mgcv, district means, lines": ("means", "lines"),
}
BASE, TRUE = "mgcv, weighted pixels", "true rates"
MADAGASCAR, FOLDS = "Madagascar", 5
_QUANTILES = (0.025, 0.5, 0.975)
_READ = "a <- commandArgs(TRUE); load(a[1]); write.csv(madagascar_malaria, a[2], row.names=FALSE)"
_FIT = """suppressMessages(library(mgcv)); a <- commandArgs(TRUE); set.seed(1)
file <- function(name) file.path(a[1], name); draws <- as.integer(a[4])
p <- read.csv(file("pixels.csv")); d <- read.csv(file("districts.csv")); n <- nrow(d)
z <- setdiff(names(p), c("district", "weight", "x", "y"))
cell <- cbind(p$district, ave(p$district, p$district, FUN=seq_along))
W <- matrix(0, n, max(cell[, 2])); W[cell] <- p$weight / d$people[p$district]
X <- lapply(p[c(z, "x", "y")], function(v) { M <- matrix(v[1], n, ncol(W)); M[cell] <- v; M })
if (a[2] == "means") { X <- lapply(X, function(M) rowSums(W * M)); W <- matrix(1, n, 1) }
effects <- if (a[3] == "lines") z else sprintf("s(%s, by=W, k=%s)", z, a[6])
right <- c("offset(log(people))", effects, sprintf("s(x, y, by=W, k=%s)", a[5]))
some <- function(k) c(lapply(c(X, list(W=W)), function(M) drop(as.matrix(M)[k, ])), d[k, ])
test <- some(d$train == 0)
model <- gam(reformulate(right, "cases"), nb(), some(d$train == 1), method="REML")
beta <- t(rmvn(draws, coef(model), vcov(model, unconditional=TRUE)))
log_rate <- function(new) predict(model, new, type="lpmatrix") %*% beta
write.csv(test$people * exp(log_rate(test)), file("expected.csv"), row.names=FALSE)
pixels <- log_rate(cbind(p[d$train[p$district] == 0, ], W=1, people=1))
q <- t(apply(pixels, 1, quantile, c(.025, .5, .975)))
write.csv(q, file("pixels_out.csv"), row.names=FALSE)
write(model$family$getTheta(TRUE), file("size.txt"))
write(paste0("mgcv ", packageVersion("mgcv"), ", ", R.version.string), file("version.txt"))"""


NOTES = """\
## Recommendations

- Where counts are sums of rates of pixels (the generated countries) `AggregateRegressor` has the
  lowest NLL of districts, and its intervals of pixels contain most of the true rates. mgcv puts the
  average inside the exponential: its rates of pixels are too high on average, more where the rate
  varies more within a district, and its intervals of pixels are too narrow.
- With "lines" our model has the form of disaggregation's model: as good if effects are linear, far
  worse with a bump.
- On Madagascar, where counts scatter by about half of their mean or more, all are equally good
  within their errors, with Laplace's method and with NUTS, and mgcv takes seconds.
- Without a learned kernel intervals of pixels are too narrow in the generated countries.

## Not compared

- [pyinla](https://pypi.org/project/pyinla/) 0.1.13: the wheel installs, but contains no INLA
  program (nor do 0.1.6 and 0.1.11), which is downloaded from GitHub at the first fit, and it asks
  for an activation code of its authors. The models that INLA has for totals are the models of mgcv
  above, with a field on a mesh.
- [disaggregation](https://cran.r-project.org/package=disaggregation) 0.4.1 is only on CRAN, as is
  fmesher, which it needs; all tools here come from PyPI and Debian.
"""


class Split(NamedTuple):
    """Bags of all districts, their counts, which are held out, and true rates, if known."""

    problem: str
    bags: Bags
    y: np.ndarray
    held_out: np.ndarray
    rate: np.ndarray | None


class Prediction(NamedTuple):
    """Log densities and 95% intervals of held-out counts, quantiles of their pixels' log rates."""

    log_prob: np.ndarray
    interval: tuple
    log_rates: np.ndarray


def countries(args):
    """A split of each generated country: 100 districts for training, 30 held out."""
    for truth in TRUTHS:
        for seed in args.seeds:
            country = grid_country(truth, seed=seed, **args.size)
            n = len(country.bags)
            held_out = np.arange(n) >= round(n * N_TRAIN / N_DISTRICTS)
            yield Split(truth, country.bags, country.y, held_out, country.rate)


def madagascar(path):
    """Five splits of the districts of Madagascar, each held out once."""
    if not path.exists():
        raise SystemExit(f"there is no file {path}: --madagascar takes madagascar_malaria.rda")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "madagascar.csv"
        if not rscript(_READ, path, table):
            raise SystemExit("Rscript reads the file of --madagascar: install r-base-core")
        pixels = pd.read_csv(table).rename(columns={"longitude": "x", "latitude": "y"})
    names = ["Elevation", "EVI", "LSTmean", "x", "y"]
    bags = Bags.from_dataframe(
        pixels[["ID", "pop", *names]].astype({"ID": str}), "ID", weight="pop"
    )
    cases = pixels.drop_duplicates("ID").set_index("ID")["cases"].rename(index=str)
    y = cases[list(bags.ids)].round().to_numpy(int)  # they are estimates, with decimals
    fold = np.random.default_rng(1).permutation(len(y)) % FOLDS
    for each in range(FOLDS):
        yield Split(MADAGASCAR, bags, y, fold == each, None)


def kernel_of(names, lines, n_functions):
    """The kernel for maps, or one with straight lines alone and a field."""
    if not lines:
        return map_kernel(names, n_functions=n_functions)
    field = HilbertSpace(Matern32(columns=["x", "y"]), n_functions=n_functions)
    return LinearEffects(columns=names) + field


def own(split, lines, parameters, args):
    """Predictions of `AggregateRegressor`."""
    train = split.bags[np.flatnonzero(~split.held_out)]
    test = split.bags[np.flatnonzero(split.held_out)]
    model = AggregateRegressor(
        link="exp", kernel=kernel_of(covariates(split), lines, args.functions), thin=args.thin,
        random_state=1, **parameters,
    ).fit(train, split.y[~split.held_out], draws=args.draws)  # fmt: skip
    predictive, points = model.predictive(test), model.predict_points(test)
    return Prediction(
        predictive.log_prob(split.y[split.held_out]),
        predictive.interval(0.95),
        np.log(np.column_stack([points.quantile(q) for q in _QUANTILES])),
    )


def covariates(split):
    """Names of all columns but those of the place."""
    return [name for name in split.bags.features if name not in ("x", "y")]


def mgcv(split, form, effects, args):
    """Predictions of mgcv, and the versions; None without Rscript or the package."""
    bags = split.bags
    pixels = pd.DataFrame(np.asarray(bags.points), columns=list(bags.features))
    pixels = pixels.assign(
        weight=bags.weights, district=np.repeat(np.arange(len(bags)) + 1, bags.sizes)
    )
    districts = pd.DataFrame(
        {"cases": split.y, "people": bags.sums(bags.weights), "train": 1 - split.held_out}
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pixels.to_csv(folder / "pixels.csv", index=False)
        districts.to_csv(folder / "districts.csv", index=False)
        if not rscript(_FIT, folder, form, effects, args.draws, *args.bases):
            return None
        expected = pd.read_csv(folder / "expected.csv").to_numpy()
        log_rates = pd.read_csv(folder / "pixels_out.csv").to_numpy()
        size = float((folder / "size.txt").read_text())
        version = (folder / "version.txt").read_text().strip()
    return mixture(split.y[split.held_out], expected, size, log_rates), version


def mixture(y, expected, size, log_rates, seed=1):
    """Prediction by the mixture of negative binomials over draws of the means, shape (n, draws)."""
    law = stats.nbinom(size, size / (size + expected))
    log_prob = logsumexp(law.logpmf(y[:, None]), axis=1) - np.log(expected.shape[1])
    drawn = law.rvs(expected.shape, random_state=np.random.default_rng(seed))
    return Prediction(log_prob, tuple(np.quantile(drawn, (0.025, 0.975), axis=1)), log_rates)


def inside(values, low, high):
    """Share of the values between the ends of their intervals."""
    return np.mean((low <= values) & (values <= high))


def scores(split, prediction):
    """Scores of held-out counts and, where the truth is known, of their pixels' log rates."""
    row = {
        "NLL": -prediction.log_prob.mean(),
        "95% coverage": inside(split.y[split.held_out], *prediction.interval),
    }
    if split.rate is None:
        return row
    true = np.log(split.rate[np.repeat(split.held_out, split.bags.sizes)])
    low, middle, high = prediction.log_rates.T
    return row | {
        "correlation": np.corrcoef(middle, true)[0, 1],
        "RMSE": np.sqrt(np.mean((middle - true) ** 2)),
        "bias": np.mean(middle - true),
        "pixel coverage": inside(true, low, high),
    }


def rows_of(split, args):
    """Rows of all methods on one split."""
    for name, setting in OURS.items():
        if name == NUTS and split.rate is not None:  # a minute or more each
            continue
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            row = scores(split, own(split, *setting, args))
        warned = any("leave out a standard deviation" in str(each.message) for each in caught)
        yield {"method": name, **row, "warned": warned, "seconds": time.perf_counter() - start}
    for name, (form, effects) in MGCV.items():
        start = time.perf_counter()
        found = mgcv(split, form, effects, args)
        if found is None:
            return
        prediction, version = found
        yield {"method": name, **scores(split, prediction), "version": version,
               "seconds": time.perf_counter() - start}  # fmt: skip
    if split.rate is not None:
        expected = split.bags.sums(split.bags.weights * split.rate)[split.held_out]
        nll = -stats.poisson.logpmf(split.y[split.held_out], expected).mean()
        yield {"method": TRUE, "NLL": nll}


def counts_table(rows):
    """NLL, its paired difference from one method with standard error, and coverage, by problem."""
    base = BASE if BASE in set(rows["method"]) else OWN
    columns = {}
    for problem, found in rows.groupby("problem", sort=False):
        nll = found.pivot(index="split", columns="method", values="NLL")
        above = nll.sub(nll[base], axis=0).drop(columns=base)
        error = above.sem()
        columns[f"{problem}: NLL"] = nll.mean()
        columns[f"{problem}: NLL above {base}"] = pd.Series(
            {name: f"{above[name].mean():.2f} ± {error[name]:.2f}" for name in above}
        )
        columns[f"{problem}: 95% coverage"] = found.groupby("method")["95% coverage"].mean()
    known = [name for name in (*OURS, *MGCV, TRUE) if name in set(rows["method"])]
    table = pd.DataFrame(columns).loc[known]
    table.index.name = "method"
    return table


def pixels_table(rows):
    """Means over countries of the scores of pixels."""
    known = rows[rows["correlation"].notna()]
    columns = ["correlation", "RMSE", "bias", "pixel coverage"]
    table = known.groupby(["problem", "method"], sort=False)[columns].mean()
    table.index = [f"{problem}: {method}" for problem, method in table.index]
    table.index.name = "country: method"
    return table


def about_mgcv(rows, args):
    """What the models of mgcv are, or that they are missing."""
    if "version" not in rows:
        return "Rscript or its package mgcv is missing: rows of mgcv are left out."
    space, curves = args.bases
    return f"""\
"mgcv" ({rows["version"].dropna().iloc[0]}) is `gam` with the family `nb()`, the offset log
population, smooths `s(z,k={curves})` of the covariates or straight lines, and
`s(x,y,k={space})`, by REML. With "district means" covariates and places are averages over a
district's population, as in the usual models of disease mapping. With "weighted pixels" the log
rate of a district is the average of its pixels' log rates, by matrix arguments of smooths (linear
functional terms). Both put the average inside the exponential, where a total is a sum of exp(f).
Predictions average over {args.draws} draws of the coefficients from their normal posterior, with
the correction for the smoothing parameters."""


def about_scores(rows, args):
    """What the scores are, and our models."""
    laplace = [name for name in OURS if name != NUTS]
    warned = rows[rows["method"].isin(laplace)].groupby("method", sort=False)["warned"]
    counts = [f'{int(each.sum())} of the {len(each)} fits of "{name}"' for name, each in warned]
    return f"""\
NLL is the mean of -log of the predictive probability of a held-out district's cases; differences
are paired, with standard errors over the splits. "{OWN}" has `map_kernel` with {args.functions}
functions, {args.thin} points per district and method "laplace"; "lines" has `LinearEffects` and
the same field, the form of the model of disaggregation; "kernel not learned" is
`learn_kernel=False`, lengths by the median rule; "NUTS", on {MADAGASCAR} alone, is the first model
with the default method. The warning that totals scatter less than what the features leave out,
which goes with too narrow intervals, was raised by {", ".join(counts)}."""


def about_places(args):
    """Where the data are from."""
    of_madagascar = f"""\
"{MADAGASCAR}" is the malaria example of R's
[disaggregation](https://doi.org/10.18637/jss.v106.i11): cases of 109 districts, 28,892 pixels with
elevation, vegetation, surface temperature and population (the file `data/madagascar_malaria.rda` of
[agouti](https://github.com/timcdlucas/agouti), cases rounded). Each district is held out once, in
{FOLDS} random folds. """
    return f"""\
{of_madagascar if args.madagascar else ""}"linear" and "bump" are generated countries
(`data_gen/grid_country.py`), seeds {", ".join(map(str, args.seeds))}, of whose districts 10 in 13
are for training. All methods have the same covariates, exposures and splits, and negative binomial
counts."""


def page(rows, args):
    """The text of the page."""
    options = " --quick" * args.quick
    options += " --madagascar madagascar_malaria.rda" * bool(args.madagascar)
    return f"""\
# Maps from totals compared with other tools

{wrapped(about_places(args))}

{markdown(counts_table(rows), digits=2)}

{wrapped(about_scores(rows, args))}

{wrapped(about_mgcv(rows, args))}

## Pixels of held-out districts

{markdown(pixels_table(rows), digits=2)}

Scores of the log rates: correlation, root mean square error and mean error of the posterior median,
and the share of pixels whose 95% interval contains the true rate.

{NOTES}
Reproduce: `python experiments/map_peers.py{options} --output docs/validation`
"""


def wrapped(text):
    """The words of a paragraph in lines of at most 100 columns."""
    return textwrap.fill(
        " ".join(text.split()), 100, break_long_words=False, break_on_hyphens=False
    )


def main():
    parser = arguments(
        __doc__, quick="one small country each, few draws", output="folder for map_peers.md"
    )
    parser.add_argument("--madagascar", type=Path, help="madagascar_malaria.rda of agouti")
    parser.add_argument("--functions", type=int, default=300, help="basis functions of the field")
    parser.add_argument("--thin", type=int, default=50, help="points per district")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    args = parser.parse_args()
    args.draws, args.bases, args.size = 1000, (60, 6), {}
    if args.quick:
        args.functions, args.thin, args.draws, args.bases = 30, 10, 100, (10, 4)
        args.seeds, args.size = args.seeds[:1], {"side": 40, "n_districts": 52}
    splits = [*(madagascar(args.madagascar) if args.madagascar else ()), *countries(args)]
    rows = []
    for number, split in enumerate(splits):
        for row in rows_of(split, args):
            rows.append({"problem": split.problem, "split": number, **row})
            print(rows[-1], flush=True)
    text = page(pd.DataFrame(rows), args)
    print(text)
    if args.output is not None:
        write(args.output, "map_peers.md", text)


if __name__ == "__main__":
    main()
