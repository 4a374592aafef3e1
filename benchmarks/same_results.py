"""Whether a change of the code leaves every numerical result as it was.

    python benchmarks/same_results.py --save before.npz       on the tree as it was
    python benchmarks/same_results.py --compare before.npz    on the tree as it is
    python benchmarks/same_results.py --quick                 some fits twice, against each other

Fits of every estimator with fixed seeds, through public names alone, so that the same file runs on
both trees: their predictions, the means of their draws, what they chose. Each array is compared by
its largest difference, relative to its largest value.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # sums in one order on every machine

import sys
import time
import warnings
from fnmatch import fnmatch
from functools import partial

import click
import numpy as np
from sklearn.base import is_classifier

from bdr_stan import (
    BDR,
    BLR,
    MERR,
    AggregateRegressor,
    Bags,
    BDRClassifier,
    BLRClassifier,
    KernelMean,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    StackedClassifier,
    tune,
)
from bdr_stan.kernels import RBF, Matern32, Polynomial

try:
    from experiments.papers import (
        DFDR,
        AggregateNN,
        BagPixel,
        ConstantRate,
        FreqShrinkage,
        OneClassSMM,
        SupportMeasureMachine,
    )
except ImportError:  # a tree in which they were part of the package
    from bdr_stan.baselines import DFDR, AggregateNN, BagPixel, ConstantRate

    from bdr_stan import FreqShrinkage, OneClassSMM, SupportMeasureMachine

try:
    from experiments.papers.shrinkage_c import ShrinkageC
except ImportError:  # a tree in which it was a parameter
    ShrinkageC = partial(Shrinkage, embedding_prior="convolution")

TOLERANCE = 1e-10
# As many landmarks as bags: the search for the most probable scales magnifies rounding.
ILL_CONDITIONED = {"normal, one landmark a bag": 1e-7}
SHORT = {"chains": 2, "warmup": 100, "draws": 100}
N_BAGS, N_TRAINING = 60, 40

# ---------------------------------------------------------------- data


def points_of_bags(rng, *, weighted=False):
    """Bags of 1 to 40 points, two columns on different scales, around centres of their own."""
    sizes = np.r_[1, 1, 2, 40, rng.integers(1, 41, N_BAGS - 4)]
    centres = rng.normal(size=(N_BAGS, 2))
    points = np.repeat(centres, sizes, axis=0) + rng.normal(size=(sizes.sum(), 2))
    points[:, 1] *= 3.0
    weights = rng.uniform(0.2, 2.0, len(points)) if weighted else None
    bags = Bags.from_points(points, sizes=sizes, weights=weights, features=["x", "z"])
    return bags, centres


def regression(*, weighted=False):
    rng = np.random.default_rng(1)
    bags, centres = points_of_bags(rng, weighted=weighted)
    return bags, 3.0 + centres[:, 0] + np.sin(centres[:, 1]) + 0.2 * rng.normal(size=N_BAGS)


def many_points():
    """Bags of more points than are read at a time, one of them for itself."""
    rng = np.random.default_rng(4)
    sizes = np.r_[90_000, rng.integers(1, 3000, N_BAGS - 1)]
    centres = rng.normal(size=(N_BAGS, 2))
    points = np.repeat(centres, sizes, axis=0) + rng.normal(size=(sizes.sum(), 2))
    bags = Bags.from_points(points, sizes=sizes, weights=rng.uniform(0.1, 2, len(points)))
    return bags, 3.0 + centres[:, 0] + 0.2 * rng.normal(size=N_BAGS)


def counts_of_many_points():
    bags, _ = many_points()
    rate = 0.01 * np.exp(0.5 * np.asarray(bags.points)[:, 0])
    sums = np.add.reduceat(bags.weights * rate, bags.offsets[:-1])
    return bags, np.random.default_rng(5).poisson(sums)


def classes():
    bags, y = regression()
    return bags, np.where(y > 3, "high", "low")


def totals(likelihood):
    """Labels of bags whose points have a smooth rate; the trials of binomial ones."""
    rng = np.random.default_rng(2)
    bags, _ = points_of_bags(rng, weighted=likelihood != "normal")
    points = np.asarray(bags.points)
    f = np.sin(points[:, 0]) + 0.2 * points[:, 1]
    rate = f if likelihood == "normal" else 1 / (1 + np.exp(-f))
    if likelihood in ("poisson", "negative binomial", "exponential"):
        rate = 4 * rate
    weights = np.ones(len(points)) if bags.weights is None else bags.weights
    sums = np.add.reduceat(weights * rate, bags.offsets[:-1])
    if likelihood == "normal":
        return bags, sums + 0.1 * np.sqrt(bags.sizes) * rng.normal(size=N_BAGS), {}
    if likelihood == "exponential":
        return bags, rng.exponential(sums), {}
    if likelihood == "binomial":
        trials = rng.integers(5, 60, N_BAGS)
        share = sums / np.add.reduceat(weights, bags.offsets[:-1])
        return bags, rng.binomial(trials, share), {"trials": trials}
    dispersion = rng.gamma(4, 1 / 4, N_BAGS) if likelihood == "negative binomial" else 1
    return bags, rng.poisson(sums * dispersion), {}


# ---------------------------------------------------------------- what is kept of a fit

CHOSEN = (
    "landmarks_",
    "bandwidth_",
    "measure_scale_",
    "alpha_",
    "weights_",
    "shrinkage_",
    "bandwidths_",
    "smoothing_",
    "bound_",
    "thinning_error_",
    "rate_",
    "loss_",
    "validation_loss_",
    "sigma_",
)


def predictions(model, bags, points, **trials):
    if hasattr(model, "decision_function"):
        yield "decision", model.decision_function(bags)
    elif is_classifier(model):
        yield "probability", model.predict_proba(bags)
    else:
        yield "prediction", model.predict(bags, **trials)
    if hasattr(model, "predictive"):
        predictive = model.predictive(bags, **trials)
        if not is_classifier(model):
            yield "sd", predictive.sd
            yield "interval", predictive.interval(0.8)
    if hasattr(model, "predict_points"):
        rates = model.predict_points(points)
        if isinstance(rates, np.ndarray):
            yield "rates", rates
        else:
            yield "rates", rates.mean
            yield "sd of rates", rates.sd
            yield "interval of rates", rates.interval(0.8)
            yield "exceedance", rates.exceedance(2.0)


def state(model):
    for name in CHOSEN:
        value = getattr(model, name, None)
        if value is not None:
            yield name, value
    kernel = getattr(model, "kernel_", None)
    if hasattr(kernel, "log_parameters"):
        yield "kernel_", kernel.log_parameters
    if hasattr(model, "priors"):
        yield "priors", [value for _, value in sorted(model.priors(as_table=False).items())]
    if getattr(model, "method", None) is None:
        return
    for group in ("posterior", "log_likelihood"):
        if group not in model.idata:  # of so many bags that it is not kept
            continue
        for name, array in model.idata[group].data_vars.items():
            yield f"{group} of {name}", array.mean(("chain", "draw")).values


# ---------------------------------------------------------------- fits


def fitted(model, bags, y, options=None, trials=None):
    """Arrays of a model fitted to the first bags and predicting the others."""
    options = {"seed": 1, **(options or {})}
    first, others = slice(None, N_TRAINING), slice(N_TRAINING, None)
    cut = {} if trials is None else {"trials": trials[first]}
    y = () if y is None else (y[first],)
    model.fit(bags[first], *y, **cut, **options)
    rest = {} if trials is None else {"trials": trials[others]}
    out = dict(predictions(model, bags[others], bags[others].points, **rest))
    for m, member in enumerate([model, *getattr(model, "models_", [])]):
        out |= {f"{name} {m}" if m else name: value for name, value in state(member)}
    if isinstance(model, FreqShrinkage) and "kmse" in model.shrinkage:
        out["shrinkage_"] = model.embed(bags[first]).shrinkage
    return out


def regressor(model, *, weighted=False, **options):
    return lambda: fitted(model, *regression(weighted=weighted), options)


def with_many_points(model, data=many_points, **options):
    def fit():
        out = fitted(model, *data(), options)
        return {name: values for name, values in out.items() if "rates" not in name}

    return fit


def classifier(model, **options):
    return lambda: fitted(model, *classes(), options)


def aggregate(model, **options):
    def fit():
        bags, y, trials = totals(model.likelihood)
        return fitted(model, bags, y, options, **trials)

    return fit


def with_validation(model, seed=1):
    def fit():
        bags, y = regression()
        model.fit(bags[:30], y[:30], validation=(bags[30:40], y[30:40]), seed=seed)
        return {"prediction": model.predict(bags[40:]), **dict(state(model))}

    return fit


def constant_rate():
    bags, y, _ = totals("poisson")
    model = ConstantRate().fit(bags, y)
    rates = model.training_rates_
    return {**dict(predictions(model, bags, bags.points)), "rate": model.rate_, "training": rates}


def network(likelihood, **options):
    def fit():
        bags, y, _ = totals(likelihood)
        model = AggregateNN(10, likelihood, n_restarts=1, max_iter=30, **options)
        model.fit(bags[:30], y[:30], validation=(bags[30:40], y[30:40]), seed=1)
        return {**dict(predictions(model, bags[40:], bags.points)), **dict(state(model))}

    return fit


def outliers(**parameters):
    def fit():
        bags, _ = regression()
        model = OneClassSMM(nu=0.2, **parameters).fit(bags[:40], seed=1)
        return {"decision": model.decision_function(bags), "shrinkage": model.shrinkage_}

    return fit


def kernel_mean(estimator):
    def fit():
        bags, _ = regression()
        points, others = np.asarray(bags.points[:60]), np.asarray(bags.points[60:100])
        mean = KernelMean(points, Matern32(1.5), estimator=estimator)
        other = KernelMean(others, Matern32(1.5), estimator=estimator)
        return {
            "values": mean(others),
            "weights": mean.weights,
            "shrinkage": mean.shrinkage,
            "norm": mean.norm,
            "distance": mean.distance(other),
        }

    return fit


def tuned(*models, **options):
    def fit():
        bags, y = regression()
        found = tune(bags, y, models=models, seed=3, **options)
        numbers = found.table[["n_landmarks", "bandwidth_scale", "nll", "mse"]]
        bandwidths = np.vstack(found.table["bandwidth"])
        return {"table": numbers.to_numpy(float), "bandwidths": bandwidths}

    return fit


ARD = RBF("ard", columns=["x"]) + Matern32(columns=["z"])

FITS = {
    "BLR exact": regressor(BLR(8, method="exact")),
    "BLR nuts": regressor(BLR(8), **SHORT),
    "BLR laplace, rational quadratic": regressor(
        BLR(8, kernel="rational quadratic", method="laplace"), draws=100
    ),
    "Shrinkage": regressor(Shrinkage(8)),
    "Shrinkage, weights": regressor(Shrinkage(8), weighted=True),
    "Shrinkage, kernel prior": regressor(Shrinkage(8, embedding_prior="kernel")),
    "Shrinkage, convolution prior": regressor(ShrinkageC(8)),
    "Shrinkage, given scale": regressor(ShrinkageC(8, measure_scale=2.0, bandwidth=1.5)),
    "Shrinkage, random landmarks": regressor(Shrinkage(8, landmarks="random")),
    "BDR nuts": regressor(BDR(8), **SHORT),
    "BDR nuts, one row a bag": regressor(BDR(5, compress=False), **SHORT),
    "BDR laplace, weights": regressor(BDR(8, method="laplace"), weighted=True, draws=100),
    "BDR laplace, kernel prior": regressor(
        BDR(8, embedding_prior="kernel", method="laplace"), draws=100
    ),
    "BDR laplace, Matern 3/2": regressor(BDR(8, kernel="matern32", method="laplace"), draws=100),
    "BDR optimize, length scales": regressor(
        BDR(8, kernel="cauchy", bandwidth=[1.0, 3.0], bandwidth_scale=0.8, method="optimize")
    ),
    "BLRClassifier nuts": classifier(BLRClassifier(8), **SHORT),
    "BLRClassifier optimize": classifier(BLRClassifier(8, method="optimize")),
    "ShrinkageClassifier": classifier(ShrinkageClassifier(8)),
    "BDRClassifier nuts": classifier(BDRClassifier(8), **SHORT),
    "RBFNetwork": regressor(RBFNetwork(8)),
    "FreqShrinkage, validation": with_validation(FreqShrinkage(8)),
    "FreqShrinkage, S-KMSE": regressor(FreqShrinkage(8, shrinkage="s-kmse")),
    "FreqShrinkage, F-KMSE": regressor(FreqShrinkage(8, shrinkage="f-kmse")),
    "MERR": regressor(MERR()),
    "MERR, polynomial": regressor(MERR(Polynomial(2))),
    "MERR, weights": regressor(MERR("exponential"), weighted=True),
    "MERR, outer kernel": regressor(MERR(outer="rbf")),
    "MERR, sum": regressor(MERR(RBF(1.5, columns=["x"]) + Matern32(3.0, columns=["z"]))),
    "DFDR l2": regressor(DFDR()),
    "DFDR l1": regressor(DFDR(distance="l1", n_samples=200)),
    "DFDR, validation": with_validation(DFDR()),
    "SupportMeasureMachine": classifier(SupportMeasureMachine()),
    "SupportMeasureMachine, F-KMSE": classifier(
        SupportMeasureMachine("matern32", estimator="f-kmse", outer="gaussian")
    ),
    "OneClassSMM": outliers(),
    "OneClassSMM, S-KMSE": outliers(estimator="s-kmse", outer="gaussian"),
    "poisson, square, nuts": aggregate(AggregateRegressor("poisson", n_landmarks=6), **SHORT),
    "poisson, square, laplace": aggregate(
        AggregateRegressor("poisson", n_landmarks=6, method="laplace", kernel="matern52"), draws=100
    ),
    "poisson, square, laplace, learned sum": aggregate(
        AggregateRegressor("poisson", n_landmarks=6, method="laplace", kernel=ARD), draws=100
    ),
    "poisson, square, kernel held": aggregate(
        AggregateRegressor("poisson", n_landmarks=6, method="laplace", learn_kernel=False),
        draws=100,
    ),
    "poisson, square, vb": aggregate(
        AggregateRegressor("poisson", n_landmarks=6, method="vb"), draws=100
    ),
    "poisson, square, effects": aggregate(
        AggregateRegressor("poisson", n_landmarks=5, bag_effects=True, learn_kernel=False), **SHORT
    ),
    "poisson, exp, nuts": aggregate(AggregateRegressor("poisson", "exp", 6), **SHORT),
    "poisson, exp, laplace, thin": aggregate(
        AggregateRegressor("poisson", "exp", 6, method="laplace", thin=8), draws=100
    ),
    "poisson, exp, vb": aggregate(AggregateRegressor("poisson", "exp", 6, method="vb"), draws=100),
    "negative binomial, nuts": aggregate(
        AggregateRegressor("negative binomial", n_landmarks=6), **SHORT
    ),
    "negative binomial, exp, laplace": aggregate(
        AggregateRegressor("negative binomial", "exp", 6, method="laplace"), draws=100
    ),
    "exponential, laplace": aggregate(
        AggregateRegressor("exponential", n_landmarks=6, method="laplace"), draws=100
    ),
    "exponential, exp, optimize": aggregate(
        AggregateRegressor("exponential", "exp", 6, method="optimize")
    ),
    "binomial, nuts": aggregate(AggregateRegressor("binomial", n_landmarks=6), **SHORT),
    "binomial, laplace, thin": aggregate(
        AggregateRegressor("binomial", n_landmarks=6, method="laplace", thin=8), draws=100
    ),
    "normal, nuts": aggregate(AggregateRegressor("normal", n_landmarks=6), **SHORT),
    "normal, vb": aggregate(AggregateRegressor("normal", n_landmarks=6, method="vb"), draws=100),
    "normal, laplace": aggregate(
        AggregateRegressor("normal", n_landmarks=6, method="laplace"), draws=100
    ),
    "normal, one landmark a bag": aggregate(
        AggregateRegressor("normal", landmarks="one per bag", learn_kernel=False, method="vb"),
        draws=100,
    ),
    "BagPixel": aggregate(BagPixel("poisson", "exp", 6, method="laplace"), draws=100),
    "ConstantRate": constant_rate,
    "AggregateNN": network("poisson"),
    "AggregateNN, square, penalties": network(
        "exponential", link="square", manifold=0.1, bag_manifold=0.1, n_frequencies=20
    ),
    "AggregateNN, identity": network("normal", link="identity"),
    "Stacked": regressor(Stacked([BLR(6, method="exact"), BDR(6, method="laplace")]), draws=100),
    "StackedClassifier": classifier(
        StackedClassifier([BLRClassifier(6, method="laplace"), BDRClassifier(6, method="laplace")]),
        draws=100,
    ),
    "BLR exact, many points": with_many_points(BLR(20, method="exact")),
    "Shrinkage, many points": with_many_points(Shrinkage(20)),
    "poisson, square, many points": with_many_points(
        AggregateRegressor("poisson", n_landmarks=10, method="vb"), counts_of_many_points, draws=100
    ),
    "poisson, exp, many points": with_many_points(
        AggregateRegressor("poisson", "exp", 10, method="laplace", thin=50),
        counts_of_many_points,
        draws=100,
    ),
    "BagPixel, many points": with_many_points(
        BagPixel("poisson", "exp", 10, method="laplace"), counts_of_many_points, draws=100
    ),
    "AggregateNN, many points": with_many_points(
        AggregateNN(10, n_restarts=1, max_iter=10), counts_of_many_points
    ),
    "KernelMean": kernel_mean("kme"),
    "KernelMean, S-KMSE": kernel_mean("s-kmse"),
    "KernelMean, F-KMSE": kernel_mean("f-kmse"),
    "tune": tuned(
        BDR(),
        BLR(method="exact"),
        RBFNetwork(),
        bandwidth_scale=(0.5, 1.0),
        n_landmarks=(5, 10),
        cv=3,
        draws=100,
    ),
    "tune, refined": tuned(
        RBFNetwork(), bandwidth_scale=(0.5, 1.0), n_landmarks=(5,), cv=3, refine="bandwidth"
    ),
}
QUICK = ("BLR exact", "RBFNetwork", "MERR", "DFDR l2", "SupportMeasureMachine", "ConstantRate")

# ---------------------------------------------------------------- comparison


def results(names):
    """Arrays by "fit: quantity", and the seconds of each fit."""
    arrays, seconds = {}, {}
    for name in names:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short chains mix badly, and warn of it
            values = FITS[name]()
        seconds[name] = time.perf_counter() - start
        arrays |= {f"{name}: {what}": np.asarray(value, float) for what, value in values.items()}
        click.echo(f"{name}: {seconds[name]:.1f} s", err=True)
    return arrays, seconds


def difference(before, now):
    """Largest difference of two arrays, relative to the largest value of the first."""
    if now is None or before.shape != now.shape:
        return np.inf
    if not np.array_equal(np.isfinite(before), np.isfinite(now)):
        return np.inf
    finite = np.isfinite(before)
    size = np.abs(before[finite]).max(initial=0.0)
    gap = np.abs(before[finite] - now[finite]).max(initial=0.0)
    return gap / size if size else gap


def compare(before, now, seconds):
    """Print the largest difference of every fit; whether each is below its tolerance."""
    print(f"{'fit':42} {'largest relative difference':>27}  {'of':28} {'seconds':>8}")
    all_same, worst = True, 0.0
    for name in seconds:
        keys = [key for key in before if key.startswith(f"{name}: ")]
        gaps = {
            key.removeprefix(f"{name}: "): difference(before[key], now.get(key)) for key in keys
        }
        what = max(gaps, key=gaps.get) if gaps else "nothing to compare"
        gap = gaps.get(what, np.inf)
        same = gap <= ILL_CONDITIONED.get(name, TOLERANCE)
        all_same, worst = all_same and same, max(worst, gap)
        mark = "" if same else "  <--"
        print(f"{name:42} {gap:27.1e}  {what:28} {seconds[name]:8.1f}{mark}")
    print(f"largest of all: {worst:.1e}, {'the same' if all_same else 'NOT THE SAME'} results")
    return all_same


@click.command()
@click.option("--save", type=click.Path(dir_okay=False), help="Write the results to this .npz.")
@click.option("--compare", "known", type=click.Path(exists=True), help="Results to compare with.")
@click.option("--only", default="*", help="Fits whose name matches, such as 'BDR*'.")
@click.option("--quick", is_flag=True, help="A few fits in closed form, twice.")
def main(save, known, only, quick):
    """Save the results of many fits, or compare them with saved ones."""
    names = [name for name in FITS if fnmatch(name, only) and (name in QUICK or not quick)]
    arrays, seconds = results(names)
    if save:
        np.savez(save, **arrays)
    if known or not save:
        before = dict(np.load(known)) if known else results(names)[0]
        sys.exit(0 if compare(before, arrays, seconds) else 1)


if __name__ == "__main__":
    main()
