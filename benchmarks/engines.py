"""Compare stanli with CmdStan: log densities and gradients of every program, times of a fit.

python benchmarks/engines.py            100 points per model, 1,000 gamma bags; a quiet machine
python benchmarks/engines.py --quick    3 models, 3 points each, 100 bags, few draws

Relative differences are of the value, and of the gradient in the Euclidean norm, the largest over
points drawn around the mode. Times are processor seconds of this process and of CmdStan's, engines
in turn.
"""

import argparse
import resource
import time
import warnings
from typing import Any, NamedTuple
from unittest import mock

import cmdstanpy
import numpy as np
import pandas as pd

from bdr_stan import (
    BDR,
    BLR,
    AggregateRegressor,
    Bags,
    BDRClassifier,
    BLRClassifier,
    InverseBDR,
    InverseBDRClassifier,
    JointRegressor,
)
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.posterior import stanli
from bdr_stan.posterior.model import StanInput
from data_gen.gamma import gamma_bags

N_BAGS = 25


class Labels(NamedTuple):
    """Labels of the same bags, of the kinds that the models take."""

    numbers: np.ndarray
    classes: np.ndarray
    grades: np.ndarray
    counts: np.ndarray
    shares: np.ndarray
    of_trials: np.ndarray
    totals: np.ndarray


# Name -> (estimator, its labels, further arguments of fit): every program, and its branches.
TRIALS = np.full(N_BAGS, 30)
SIZED = {"label_sd": np.full(N_BAGS, 0.1)}
PLACES = {
    "surveys": [np.array([[x, -x]]) for x in np.linspace(-1, 1, 5)],
    "positives": [1, 0, 3, 4, 9],
    "examined": [20, 20, 30, 20, 25],
}
MODELS = {
    "BLR": (BLR(4, smooths=["year"]), "numbers", {}),
    "BLR, size noise": (BLR(4, label_noise="size"), "numbers", SIZED),
    "BDR": (BDR(4), "numbers", {}),
    "BDR, terms": (BDR(4, covariates=["x"], groups=["state"], smooths=["year"]), "numbers", {}),
    "BDR, size noise": (BDR(4, label_noise="size"), "numbers", SIZED),
    "BDR, Poisson": (BDR(4, family="poisson", groups=["state"]), "counts", {}),
    "BDR, Student's t": (BDR(4, family="student_t"), "numbers", {}),
    "BDR, ordinal": (BDR(4, family="ordinal"), "grades", {}),
    "BDR, beta": (BDR(4, family="beta"), "shares", {}),
    "BDR, beta-binomial": (BDR(4, family="beta_binomial"), "of_trials", {"trials": TRIALS}),
    "BDRClassifier": (BDRClassifier(4, covariates=["x"]), "classes", {}),
    "BLRClassifier": (BLRClassifier(4), "classes", {}),
    "InverseBDR": (InverseBDR(4), "numbers", {}),
    "InverseBDRClassifier": (InverseBDRClassifier(4), "classes", {}),
    "counts, square link": (AggregateRegressor("poisson", "square", 4), "counts", {}),
    "gamma totals, square link": (AggregateRegressor("gamma", "square", 4), "totals", {}),
    "counts, exp link, effects": (
        AggregateRegressor("poisson", "exp", 4, bag_effects=True),
        "counts",
        {},
    ),
    "exponential totals, exp link": (AggregateRegressor("exponential", "exp", 4), "totals", {}),
    "binomial totals, effects": (
        AggregateRegressor("binomial", "logit", 4, bag_effects=True),
        "of_trials",
        {"trials": TRIALS},
    ),
    "counts and surveys": (JointRegressor("poisson", n_landmarks=4), "counts", PLACES),
    "normal totals, coefficients": (
        AggregateRegressor("normal", "identity", 4, bag_effects=[0]),
        "totals",
        {},
    ),
}


def labelled_bags(seed: int = 5) -> tuple[Bags, Labels]:
    """Bags of 2 to 30 points with columns of metadata, and labels of every kind."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=N_BAGS)
    points = [rng.normal(c, 1, (rng.choice([2, 8, 30]), 2)) for c in centres]
    metadata = pd.DataFrame(
        {
            "x": rng.normal(size=N_BAGS),
            "state": rng.choice(["Ohio", "Iowa", "Utah"], N_BAGS),
            "year": rng.uniform(1990, 2020, N_BAGS),
        },
        index=[f"bag {k}" for k in range(N_BAGS)],
    )
    bags = Bags.from_list(points, ids=list(metadata.index), metadata=metadata)
    numbers = centres + rng.normal(0, 0.3, N_BAGS)
    shares = 1 / (1 + np.exp(-numbers))
    return bags, Labels(
        numbers,
        (numbers > 0).astype(int),
        np.digitize(numbers, [-0.5, 0.5]),
        rng.poisson(20 * np.exp(0.3 * numbers)),
        shares,
        rng.binomial(30, shares),
        bags.sums(np.abs(bags.points[:, 0])),
    )


def program_of(name: str) -> tuple[str, StanInput]:
    """Program of a model of `MODELS`, its data and initial values, by a short fit on stanli."""
    estimator, kind, known = MODELS[name]
    bags, labels = labelled_bags()
    model = estimator.set_params(engine="stanli")
    with warnings.catch_warnings(), mock.patch.object(stanli, "run", wraps=stanli.run) as run:
        warnings.simplefilter("ignore")  # few draws
        y = getattr(labels, kind)
        model.fit(bags, y, chains=1, warmup=20, draws=20, seed=1, progress=False, **known)
    program, stan_input, _ = run.call_args.args
    return program, stan_input


def differences(
    program: str, data: dict[str, Any], n_points: int, seed: int = 1
) -> tuple[int, float, float]:
    """Number of parameters, and largest differences of log density and gradient from CmdStan's."""
    by_stanli, by_cmdstan = stanli.load(program, data), compile_program(program, progress=False)
    dimension = by_stanli.n_unconstrained
    points = 0.5 * np.random.default_rng(seed).normal(size=(n_points, dimension))
    names = list(by_cmdstan.src_info()["parameters"])
    # Zero-size parameters, which have no draws, are empty arrays.
    parameters = {name: np.empty((1, n_points, 0)) for name in names}
    drawn, _ = stanli.constrained(by_stanli, points)
    parameters |= {name: values for name, values in drawn.items() if name in parameters}
    of_value, of_gradient = [], []
    with cmdstanpy.disable_logging():
        for k, point in enumerate(points):
            at = {name: values[0, k] for name, values in parameters.items()}
            row = by_cmdstan.log_prob(at, data, jacobian=True, sig_figs=18).to_numpy()[0]
            value, slope = by_stanli.log_prob_grad(point)
            of_value.append(abs(value - row[0]) / max(1.0, abs(row[0])))
            of_gradient.append(np.linalg.norm(slope - row[1:]) / np.linalg.norm(row[1:]))
    return dimension, max(of_value), max(of_gradient)


def processor_seconds(engine: str, n_bags: int, draws: int) -> tuple[float, float, float]:
    """Processor seconds and wall time of a fit of BDR to gamma bags, and its largest R-hat."""
    bags, y = gamma_bags(23, s5=25, splits=("train",))["train"]
    model = BDR(60, "rbf", "median", engine=engine)
    features = model.training_features(bags[:n_bags], seed=1)
    before, start = _used(), time.perf_counter()
    model.fit_features(features, y[:n_bags], warmup=draws, draws=draws, seed=1, progress=False)
    return _used() - before, time.perf_counter() - start, model.diagnostics()["max_r_hat"]


def _used():
    """Processor seconds of this process and of those that it waited for."""
    each = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in each)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    warnings.simplefilter("ignore")  # of a few divergences
    quick = parser.parse_args().quick
    n_points, n_bags, draws, rounds = (3, 100, 200, 1) if quick else (100, 1000, 1000, 3)

    print(f"| model | program | parameters | log density | gradient |\n|{'---|' * 5}")
    for name in list(MODELS)[: 3 if quick else None]:
        program, stan_input = program_of(name)
        dimension, value, gradient = differences(program, stan_input.data, n_points)
        cells = (name, program, dimension, f"{value:.0e}", f"{gradient:.0e}")
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

    compile_program("bdr", progress=False)
    seconds: dict[str, list[float]] = {"cmdstan": [], "stanli": []}
    print(f"\n{n_bags} gamma bags, 60 landmarks, 4 chains x ({draws} + {draws})")
    for _ in range(rounds):
        for engine, used in seconds.items():
            processor, wall, r_hat = processor_seconds(engine, n_bags, draws)
            used.append(processor)
            print(f"{engine}: processor {processor:.1f} s, wall {wall:.1f} s, R-hat {r_hat:.3f}")
    ratios = np.divide(seconds["stanli"], seconds["cmdstan"])
    print(f"stanli takes {np.median(ratios):.2f} times CmdStan's processor time")


if __name__ == "__main__":
    main()
