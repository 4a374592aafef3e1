"""Densities of labels with normal linear predictors, against adaptive quadrature of SciPy's."""

import signal

import numpy as np
import pytest
from builders.families import EXAMPLES, FAMILIES, label_of, scipy_log_density
from scipy import integrate, optimize
from scipy.special import polygamma

from bdr_stan.families import label_densities
from bdr_stan.families.counts import _trigamma
from bdr_stan.labels import Labels

VARIANCES = [1e-8, 1e-4, 0.01, 1.0, 10.0, 100.0]


def densities(name, y, mean, variance, trials, scales):
    arrays = np.broadcast_arrays(np.asarray(y, float), mean, variance)
    y, mean, variance = (np.atleast_1d(a).astype(float) for a in arrays)
    trials = None if trials is None else np.full(len(y), float(trials))
    return label_densities(FAMILIES[name], Labels(y, trials=trials), mean, variance, **scales)


def by_adaptive_quadrature(name, y, mean, variance, trials, scales):
    """log of the integral, by SciPy on an interval around its numerical mode."""
    sd = np.sqrt(variance)

    def log_integrand(h):
        prior = -0.5 * ((h - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
        return scipy_log_density(name, y, h, trials, scales) + prior

    parameters = scales | ({"trials": np.float64(trials)} if trials else {})
    reach = [mean, FAMILIES[name].best_predictor(np.float64(y), **parameters)]
    most = trials or y or 1.0  # no slope is steeper, but those of counts and gammas at their means
    ends = [*(x for x in reach if np.isfinite(x)), mean - variance * most, mean + variance * most]
    grid = np.unique(
        np.concatenate(
            [np.linspace(min(ends), max(ends), 2001), mean + sd * np.linspace(-9, 9, 401)]
        )
    )
    values = log_integrand(grid)
    best = np.nanargmax(values)
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    mode = optimize.minimize_scalar(
        lambda h: -log_integrand(h), bounds=bracket, method="bounded", options={"xatol": 1e-12}
    ).x
    highest = max(log_integrand(mode), values[best])

    def end(side):
        width = sd / 1024
        while log_integrand(mode + side * width) > highest - 40:
            width *= 1.3
        return mode + side * width

    low, high = end(-1), end(1)
    total, _ = integrate.quad(
        lambda h: np.exp(log_integrand(h) - highest),
        low,
        high,
        points=[mode],
        epsabs=0,
        epsrel=1e-10,
        limit=500,
    )
    return highest + np.log(total)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("name", FAMILIES)
def test_density_is_that_of_adaptive_quadrature(name, variance):
    rng = np.random.default_rng(0)
    for y, trials, scales in EXAMPLES[name].cases:
        mean = label_of(name, y, trials) + min(np.sqrt(variance), 2) * rng.normal()
        found = densities(name, y, mean, variance, trials, scales).value[0]
        expected = by_adaptive_quadrature(name, y, mean, variance, trials, scales)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-6, err_msg=f"{y} {scales}")


@pytest.mark.parametrize("variance", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives_are_those_of_differences(name, variance):
    step = 1e-3 * np.sqrt(variance)
    for y, trials, scales in EXAMPLES[name].cases:
        mean = label_of(name, y, trials) + 0.3 * np.sqrt(variance)
        found = densities(name, y, mean, variance, trials, scales)
        m = mean + step * np.array([-1, 1])
        v = variance + step * np.sqrt(variance) * np.array([-1, 1])
        by_m = densities(name, y, m, variance, trials, scales)
        by_v = densities(name, y, mean, v, trials, scales)

        def slope(values, argument):
            return np.diff(values)[0] / np.diff(argument)[0]

        expected = {
            "slope": slope(by_m.value, m),
            "curvature": -slope(by_m.slope, m),
            "third": -slope(by_m.curvature, m),
            "fourth": slope(by_m.third, m),
            "by_variance": slope(by_v.value, v),
            "by_both": slope(by_v.slope, v),
            "by_variance_twice": slope(by_v.by_variance, v),
        }
        # Units: a derivative times the right power of the predictor's sd given the label.
        scale = 1 / np.sqrt(found.curvature[0] + 1 / variance)
        for order, of in enumerate(expected):
            power = {"slope": 1, "curvature": 2, "third": 3, "fourth": 4}.get(of, order - 2)
            unit = scale**-power if order < 4 else 1 / variance ** (1 + (order == 6))
            np.testing.assert_allclose(
                getattr(found, of)[0], expected[of], rtol=1e-3, atol=1e-3 * unit, err_msg=of
            )


@pytest.mark.parametrize("name", FAMILIES)
def test_without_variance_the_predictor_is_its_mean(name):
    for y, trials, scales in EXAMPLES[name].cases:
        mean = label_of(name, y, trials) + 0.2
        found = densities(name, y, mean, 0.0, trials, scales)
        expected = scipy_log_density(name, y, mean, trials, scales)
        np.testing.assert_allclose(found.value[0], expected, rtol=1e-9, atol=1e-9)
        nearly = densities(name, y, mean, 1e-14, trials, scales)
        np.testing.assert_allclose(found.slope, nearly.slope, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found.curvature, nearly.curvature, rtol=1e-4, atol=1e-4)


@pytest.fixture
def no_hang():
    """A search that does not end fails."""

    def late(*_):
        pytest.fail("the integral took more than 20 seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", FAMILIES)
def test_labels_far_from_their_predictors_take_finitely_long(no_hang, name):
    """Densities of 0, and those that are no numbers as the predictor's exponential overflows."""
    for y, trials, scales in EXAMPLES[name].cases:
        for mean in (-1e4, -800.0, 0.0, 800.0, 1e4):
            for variance in (1e-8, 1.0, 1e4):
                with np.errstate(all="ignore"):
                    value = densities(name, y, mean, variance, trials, scales).value[0]
                assert not value > 1e3


@pytest.mark.parametrize(("mean", "variance"), [(np.nan, 1.0), (0.0, np.nan), (np.inf, 1.0)])
@pytest.mark.parametrize("name", FAMILIES)
def test_predictors_that_are_no_numbers_give_none(no_hang, name, mean, variance):
    y, trials, scales = EXAMPLES[name].cases[0]
    with np.errstate(all="ignore"):
        found = densities(name, y, [mean, 0.1], [variance, 1.0], trials, scales).value
    assert not np.isfinite(found[0])
    alone = densities(name, y, 0.1, 1.0, trials, scales).value
    np.testing.assert_allclose(found[1], alone[0], rtol=1e-12)


def test_counts_of_a_simulation_that_did_not_end(no_hang):
    """Poisson counts from 0 to 387,636, drawn from wide priors, at predictors far from most."""
    y = np.array([5, 48, 157, 17_122, 245, 25, 1, 387_636, 12, 0, 12, 0, 119.0])
    rng = np.random.default_rng(1)
    for _ in range(20):
        mean, variance = 40 * rng.normal(size=len(y)), 10 ** rng.uniform(-6, 3, len(y))
        with np.errstate(all="ignore"):
            found = densities("poisson", y, mean, variance, None, {})
        assert not np.isnan(found.value).any()


def test_trigamma_is_that_of_scipy():
    x = np.geomspace(1e-12, 1e9, 500)
    np.testing.assert_allclose(_trigamma(x), polygamma(1, x), rtol=1e-12)
