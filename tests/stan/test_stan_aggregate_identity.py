"""stan/fast/aggregate_identity.stan against SciPy on the raw points, and its calibration."""

from dataclasses import replace

import numpy as np
import pytest
from builders import calibration, reference
from builders.calibration import FALSE_ALARM, LANDMARKS, p_values, ranks
from builders.totals import labelled
from scipy import stats

from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.models.totals import TotalsWithEffects, totals_with_effects_data
from bdr_stan.posterior.settings import SamplerSettings

PRIORS = {
    "intercept_location": 0.5,
    "intercept_scale": 1.0,
    "rho_median": 0.8,
    "rho_log_sd": 0.4,
    "sigma_scale": 0.5,
    "effect_sd_scale": 0.7,
    "effect_correlation_shape": 2.0,
}


class Problem:
    """Points of some bags: weights, features, columns with coefficients of the bag."""

    def __init__(self, rng, n=12, d=LANDMARKS, K=2):
        sizes = rng.integers(1, 9, n)
        self.weights = [rng.gamma(2.0, size=m) / m for m in sizes]
        self.psi = [rng.normal(size=(m, d)) for m in sizes]
        self.columns = [np.column_stack([np.ones(m), rng.normal(size=(m, K - 1))]) for m in sizes]
        self.y = rng.normal(size=n)
        self.error_sd = np.where(np.arange(n) % 3, 1e-3, rng.uniform(0.1, 1.0, n))

    def rows(self):
        sums = [p @ np.column_stack([x, np.ones(len(p))]) for p, x in zip(self.weights, self.psi)]
        total = np.array([p.sum() for p in self.weights])
        noise = np.sqrt([np.sum(p**2) for p in self.weights])
        n = len(total)
        rows = AggregateRows(np.array(sums), np.ones(n, int), None, total, noise)
        return replace(rows, known_variance=self.error_sd**2)

    def sums(self):
        return np.array([p @ g for p, g in zip(self.weights, self.columns)])


def draw(rng, K):
    """Parameters from their priors."""
    rho = PRIORS["rho_median"] * np.exp(PRIORS["rho_log_sd"] * rng.normal())
    # LKJ(2) of two columns: (r + 1) / 2 ~ beta(2, 2).
    r = 2 * rng.beta(2, 2) - 1
    return {
        "weights": rho * rng.normal(size=LANDMARKS),
        "intercept": 0.5 + rng.normal(),
        "rho": rho,
        "sigma": 0.5 * abs(rng.normal()),
        "effect_sd": 0.7 * np.abs(rng.normal(size=K)),
        "correlation": r if K == 2 else 0.0,
    }


def factor(K, correlation):
    omega = np.eye(K)
    if K == 2:
        omega[0, 1] = omega[1, 0] = correlation
    return np.linalg.cholesky(omega)


def labels(p, rng, weights, intercept, sigma, effect_sd, correlation, **rest):
    """Sums of outcomes at points, whose rates have the bag's own coefficients."""
    y = []
    F = effect_sd[:, None] * factor(len(effect_sd), correlation)
    for w, psi, g in zip(p.weights, p.psi, p.columns):
        rates = intercept + psi @ weights + g @ (F @ rng.normal(size=len(F)))
        y.append(w @ (rates + sigma * rng.normal(size=len(w))))
    return np.array(y) + p.error_sd * rng.normal(size=len(y))


def log_likelihood(p, weights, intercept, sigma, effect_sd, correlation, **rest):
    """Of each label, by the covariance matrix of the outcomes at its points."""
    value = 0.0
    F = effect_sd[:, None] * factor(len(effect_sd), correlation)
    for y, w, psi, g, e in zip(p.y, p.weights, p.psi, p.columns, p.error_sd):
        outcomes = g @ F @ F.T @ g.T + sigma**2 * np.eye(len(w))
        sd = np.sqrt(w @ outcomes @ w + e**2)
        value += stats.norm.logpdf(y, w @ (intercept + psi @ weights), sd)
    return value


def log_density(p, x, use_likelihood=True):
    value = log_likelihood(p, **x) if use_likelihood else 0.0
    value += stats.norm.logpdf(x["intercept"], 0.5, 1.0)
    value += stats.norm.logpdf(x["weights"], 0, x["rho"]).sum()
    value += stats.lognorm.logpdf(x["rho"], 0.4, scale=0.8)
    value += stats.norm.logpdf(x["sigma"], 0, 0.5)
    value += stats.norm.logpdf(x["effect_sd"], 0, 0.7).sum()
    if len(x["effect_sd"]) == 2:  # Jacobian of the factor's one free entry: 1 / sqrt(1 - r^2)
        value += stats.beta.logpdf((x["correlation"] + 1) / 2, 2, 2)
    return value + len(x["weights"]) * np.log(x["rho"])  # of t = w / rho


def data_of(p, **given):
    whitening = reference.plain_coordinates(LANDMARKS)
    return {**totals_with_effects_data(p.rows(), p.y, p.sums(), PRIORS), **whitening, **given}


def parameters(x):
    return {
        "t": np.append(x["weights"] / x["rho"], x["intercept"]),
        "rho": x["rho"],
        "sigma": x["sigma"],
        "effect_sd": x["effect_sd"],
        "effect_factor": factor(len(x["effect_sd"]), x["correlation"]),
    }


@pytest.fixture(scope="module")
def program():
    return compile_program("aggregate_identity", progress=False)


@pytest.mark.parametrize("use_likelihood", [True, False])
@pytest.mark.parametrize("K", [1, 2])
def test_log_density(program, K, use_likelihood):
    rng = np.random.default_rng(K)
    p = Problem(rng, K=K)
    data = data_of(p, use_likelihood=int(use_likelihood))
    points = [draw(rng, K) for _ in range(6)]
    stan = [reference.log_density(program, data, parameters(x))[0] for x in points]
    gap = np.subtract([log_density(p, x, use_likelihood) for x in points], stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


def test_gradient(program):
    """In t, and in the logarithms of the scales, whose Jacobians are the scales."""
    rng = np.random.default_rng(5)
    p = Problem(rng)
    x = draw(rng, 2)

    def density(v):
        rho, sigma, *sds = np.exp(v[4:8])
        scales = {"rho": rho, "sigma": sigma, "effect_sd": np.array(sds)}
        changed = {**x, **scales, "weights": v[:3] * rho, "intercept": v[3]}
        return log_density(p, changed) + v[4:8].sum()

    given = parameters(x)
    v = np.concatenate([given["t"], np.log([x["rho"], x["sigma"], *x["effect_sd"]])])
    _, slope = reference.log_density(program, data_of(p), given, jacobian=True)
    np.testing.assert_allclose(slope[:8], reference.gradient(density, v), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"sigma_scale": 0.0}, "sigma_scale, effect_sd_scale and effect_correlation_shape must"),
        ({"effect_correlation_shape": 0.0}, "effect_correlation_shape must be > 0"),
        ({"squared_weights": np.zeros(12)}, "squared_weights must be > 0, found 0"),
        ({"effect_columns": np.full((12, 2), np.inf)}, "row 1 of rows, effect_columns"),
        ({"known_variance": np.full(12, np.inf)}, "known_variance must hold finite numbers"),
    ],
)
def test_refusals(program, changes, says):
    rng = np.random.default_rng(6)
    p = Problem(rng)
    data, start = data_of(p, **changes), parameters(draw(rng, 2))
    with pytest.raises(RuntimeError) as error:
        program.sample(data=data, inits=start, chains=1, show_progress=False, sig_figs=18)
    assert says in str(error.value)


def test_data_and_whitening_are_what_the_program_declares(program):
    p = Problem(np.random.default_rng(7))
    model = TotalsWithEffects(
        p.rows(), labelled(p.y, "normal", "identity"), p.sums(), ["intercept", "x"]
    )
    found = model.stan_input(SamplerSettings("nuts", 1, 10, 10, 1, False, None, {})).data
    of_covariates = {name for name in found if name.startswith("gamma_")}
    assert set(found) - of_covariates == set(program.src_info()["inputs"])


@pytest.mark.slow
def test_it_is_calibrated(program):
    def simulate(rng):
        p, x = Problem(rng, n=25), draw(rng, 2)
        p.y = labels(p, rng, **x)
        return p, x | {"effect_sd": x["effect_sd"][1]} | {"first_sd": x["effect_sd"][0]}

    def likelihood(p, first_sd, effect_sd, **x):
        return log_likelihood(p, effect_sd=np.array([first_sd, effect_sd]), **x)

    def fit(model, p, seed):
        start = parameters(draw(np.random.default_rng(seed), 2))
        found = calibration.thinned(model, data_of(p), start, seed)
        sds = found["effect_sd"]
        return {
            **{name: found[name] for name in ("rho", "sigma", "intercept")},
            "weights": found["w"],
            "first_sd": sds[:, 0],
            "effect_sd": sds[:, 1],
            "correlation": found["effect_correlation"][:, 0, 1],
        }

    found = p_values(ranks(program, simulate, fit, likelihood, 40, seed=3))
    assert set(found) >= {"rho", "sigma", "first_sd", "effect_sd", "correlation", "log likelihood"}
    assert min(found.values()) > FALSE_ALARM, found
