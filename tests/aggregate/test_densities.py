"""Likelihoods of totals of bags: values by SciPy, slopes and curvatures by differences."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.laguerre import laggauss
from scipy.special import expit
from test_stan_aggregate_exp import point_rows

from bdr_stan.aggregate.densities import (
    LINKS,
    RATES,
    aggregate_likelihood,
    label_density,
    rate,
)
from bdr_stan.aggregate.rows import AggregateRows

ALL = [(name, link) for name, links in LINKS.items() for link in links]
MODELS = pytest.mark.parametrize("likelihood, link", ALL)


def problem(likelihood, link, n=6):
    p, true = reference.random_rates(np.random.default_rng(3), likelihood, link, n)
    return p, true | {name: 0.7 for name in ("dispersion", "sigma") if name in true}


def scales_of(true):
    return {name: true[name] for name in ("dispersion", "sigma") if name in true}


def options(p, true):
    return scales_of(true) | ({} if p.trials is None else {"trials": p.trials})


def function_of(p, true, rows=None):
    rows = point_rows(p) if rows is None else rows
    return aggregate_likelihood(rows, p.y, p.likelihood, p.link, **options(p, true))


def factors(p):
    """Rows without weights of the square link: sqrt(p) times the points', or their triangles."""
    rows = point_rows(p)
    X = rows.rows * np.sqrt(rows.weights)[:, None]
    blocks = [np.linalg.qr(X[a : a + m], mode="r") for a, m in zip(rows.start, rows.length)]
    length = np.array([len(block) for block in blocks])
    start = np.cumsum(length) - length
    triangles = AggregateRows(np.vstack(blocks), start, length, None, rows.total, rows.noise_factor)
    return {"points": replace(rows, rows=X, weights=None), "triangles": triangles}


def some_thetas(number=4):
    """Weights and intercepts that keep f away from zero, where the logarithm of f^2 breaks."""
    return np.random.default_rng(8).normal([0, 0, 0, 1.5], 0.2, size=(number, 4))


@MODELS
def test_value_is_scipys(likelihood, link):
    p, true = problem(likelihood, link)
    function = function_of(p, true)
    scales = scales_of(true)
    for theta in some_thetas():
        expected = reference.rate_log_likelihood(p, w=theta[:-1], intercept=theta[-1], **scales)
        assert function(theta)[0] == pytest.approx(expected, rel=1e-10)


@MODELS
def test_slope_is_that_of_the_value(likelihood, link):
    p, true = problem(likelihood, link)
    function = function_of(p, true)
    for theta in some_thetas():
        slope = reference.gradient(lambda x: function(x)[0], theta)
        np.testing.assert_allclose(function(theta)[1], slope, rtol=1e-7, atol=1e-7)


@MODELS
def test_curvature_is_that_of_the_slope(likelihood, link):
    p, true = problem(likelihood, link)
    function = function_of(p, true)
    for theta in some_thetas():
        bend = [reference.gradient(lambda x, k=k: function(x)[1][k], theta) for k in range(4)]
        np.testing.assert_allclose(function(theta)[3], -np.array(bend), rtol=1e-6, atol=1e-6)


@MODELS
def test_information_is_the_expected_curvature_and_square_of_the_slope(likelihood, link):
    """Label by label, over all that the label may be; continuous ones by Gaussian quadrature."""
    p, true = problem(likelihood, link, n=3)
    theta = np.append(true["w"], true["intercept"])
    scales = scales_of(true)
    squared, curved = np.zeros((2, 4, 4))
    for a in range(3):
        one = replace(
            p, psi=p.psi[a : a + 1], weights=p.weights[a : a + 1],
            trials=None if p.trials is None else p.trials[a : a + 1],
        )  # fmt: skip
        law = reference.law_of_labels(one, w=theta[:-1], intercept=theta[-1], **scales)
        if likelihood == "exponential":  # slope and curvature are linear in y: ten nodes do
            labels, shares = laggauss(10)
            labels = labels * law.mean()
        elif likelihood == "normal":
            labels, shares = hermegauss(10)
            labels, shares = law.mean() + law.std() * labels, shares / shares.sum()
        else:
            labels = np.arange(law.ppf(1 - 1e-15).item() + 1)
            shares = law.pmf(labels)
        for y, share in zip(labels, shares):
            _, slope, _, curvature = function_of(replace(one, y=np.array([y])), true)(theta)
            squared += share * np.outer(slope, slope)
            curved += share * curvature
    information = function_of(p, true)(theta)[2]
    np.testing.assert_allclose(squared, information, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(curved, information, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("likelihood", LINKS)
def test_density_of_labels_and_its_derivatives_in_the_mean(likelihood):
    link = LINKS[likelihood][-1]
    p, true = problem(likelihood, link)
    mean = reference.rate_means(p, true["w"], true["intercept"], np.zeros(6))
    scales = options(p, true)
    noise = scales.pop("sigma", 1.0) * point_rows(p).noise_factor
    density = label_density(p.y, likelihood, noise=noise, **scales)
    value, slope, _, curvature, change = density(mean)
    law = reference.law_of_labels(p, true["w"], true["intercept"], **scales_of(true))
    discrete = hasattr(law.dist, "logpmf")
    assert value == pytest.approx(np.sum((law.logpmf if discrete else law.logpdf)(p.y)))
    derivatives = {"value": (0, slope), "slope": (1, -curvature), "information": (2, change)}
    for name, (k, expected) in derivatives.items():
        by_step = reference.gradient(lambda x, k=k: np.sum(density(x)[k]), mean, step=1e-5)
        np.testing.assert_allclose(by_step, expected, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("likelihood", [name for name, link in ALL if link == "square"])
@pytest.mark.parametrize("rows", ["points", "triangles"])
def test_factors_do_as_well_as_points(likelihood, rows):
    p, true = problem(likelihood, "square")
    one, other = function_of(p, true), function_of(p, true, factors(p)[rows])
    for theta in some_thetas():
        for ours, theirs in zip(one(theta), other(theta), strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9)


def test_dispersion_of_none_is_poisson():
    p, true = problem("negative binomial", "exp")
    theta = np.append(true["w"], true["intercept"])
    rows = point_rows(p)
    counted = aggregate_likelihood(rows, p.y, "poisson", "exp")(theta)
    spread = aggregate_likelihood(rows, p.y, "negative binomial", "exp", dispersion=1e-4)(theta)
    for one, other in zip(counted, spread, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("link", RATES)
def test_rates_have_their_derivatives(link, rng):
    f = rng.normal(size=20)
    value, slope, bend = RATES[link](f)
    expected = {"square": f**2, "exp": np.exp(f), "logit": expit(f), "identity": f}[link]
    np.testing.assert_allclose(value, expected)
    np.testing.assert_array_equal(rate(f, link), value)
    for k, of_slope in ((0, slope), (1, bend)):
        by_step = [reference.gradient(lambda x, k=k: RATES[link](x)[k][0], [at])[0] for at in f]
        np.testing.assert_allclose(of_slope, by_step, rtol=1e-8, atol=1e-8)
