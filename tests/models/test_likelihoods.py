"""Likelihoods of weights and intercept: values from the definitions, slopes and curvatures."""

import numpy as np
import pytest
from builders import reference
from scipy import stats

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.families import FAMILIES
from bdr_stan.labels import Labels
from bdr_stan.models.embedding_model import rows_by_size
from bdr_stan.models.likelihoods import (
    family_likelihood,
    logit_likelihood,
    normal_likelihood,
    probit_likelihood,
)

SIGMA, ETA = 0.5, 0.6


def problem(rng, classes=False):
    """Embedded bags, their rows in the joint basis, and that basis."""
    p = reference.random_problem(rng, n=40, d=3)
    lam, V = joint_basis(p.Sigma, p.R)
    y = (p.y > np.median(p.y)).astype(float) if classes else p.y
    return p, y, lam, V, compress((p.mu - p.m0) @ V, y, p.sizes, lossless=not classes)


def likelihood(name, rng):
    _, _, lam, _, rows = problem(rng, classes=name != "normal")
    if name == "normal":
        return normal_likelihood(rows, lam, sigma=SIGMA, eta=ETA)
    return probit_likelihood(rows, lam, eta=ETA) if name == "probit" else logit_likelihood(rows)


NAMES = pytest.mark.parametrize("name", ["normal", "probit", "logit"])


@NAMES
def test_slope_is_that_of_the_value(name, rng):
    function = likelihood(name, rng)
    for theta in rng.normal(size=(5, 4)):
        slope = reference.gradient(lambda x: function(x)[0], theta)
        np.testing.assert_allclose(function(theta)[1], slope, rtol=1e-6, atol=1e-6)


@NAMES
def test_curvature_is_that_of_the_slope(name, rng):
    function = likelihood(name, rng)
    for theta in rng.normal(size=(5, 4)):
        slope = [reference.gradient(lambda x, k=k: function(x)[1][k], theta) for k in range(4)]
        np.testing.assert_allclose(function(theta)[3], -np.array(slope), rtol=1e-5, atol=1e-5)


def test_probit_information_is_the_expected_curvature(rng):
    """Averaged over labels drawn at theta, the outer product of the score."""
    _, _, lam, _, rows = problem(rng, classes=True)
    theta = 0.5 * rng.normal(size=4)
    information = probit_likelihood(rows, lam, eta=ETA)(theta)[2]
    expected = np.zeros((4, 4))
    for row, size in zip(rows.rows, rows.bag_size):
        for label in (0.0, 1.0):
            one = compress(row[None, :-2], [label], [size], lossless=False)
            value, score, *_ = probit_likelihood(one, lam, eta=ETA)(theta)
            expected += np.exp(value) * np.outer(score, score)
    np.testing.assert_allclose(information, expected, rtol=1e-8, atol=1e-12)


def test_normal_value(rng):
    p, _, lam, V, rows = problem(rng)
    theta = rng.normal(size=4)
    expected = reference.bdr_log_likelihood(p, V @ theta[:3], theta[3], SIGMA, ETA)
    value = normal_likelihood(rows, lam, sigma=SIGMA, eta=ETA)(theta)[0]
    assert value == pytest.approx(expected, rel=1e-10)


def test_families_with_normal_labels_are_the_normal_likelihood(rng):
    """Student's t of many degrees of freedom, with its slope, information and curvature."""
    p, y, lam, V, _ = problem(rng)
    rows = rows_by_size((p.mu - p.m0) @ V, y, p.sizes)
    scales = {"eta": ETA, "sigma": SIGMA}
    expected = normal_likelihood(rows, lam, **scales)
    t = FAMILIES["student_t"]
    found = family_likelihood(rows, lam, t, Labels(rows.rows[:, -1]), df_above_2=1e8, **scales)
    theta = rng.normal(size=4)
    for ours, other in zip(found(theta), expected(theta), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-5, atol=1e-5 * np.abs(other).max())


def test_probit_value(rng):
    p, y, lam, V, rows = problem(rng, classes=True)
    theta = rng.normal(size=4)
    mean, variance = reference.bdr_moments(p, V @ theta[:3], theta[3], 1.0, ETA)
    expected = stats.norm.logcdf((2 * y - 1) * mean / np.sqrt(variance)).sum()
    assert probit_likelihood(rows, lam, eta=ETA)(theta)[0] == pytest.approx(expected, rel=1e-10)


def test_logit_value(rng):
    p, y, _, V, rows = problem(rng, classes=True)
    theta = rng.normal(size=4)
    latent = theta[3] + (p.mu - p.m0) @ V @ theta[:3]
    expected = stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-latent))).sum()
    assert logit_likelihood(rows)(theta)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["probit", "logit"])
def test_far_from_the_labels_all_is_finite(name, rng):
    function = likelihood(name, rng)
    value, slope, information, _ = function(np.full(4, 60.0))
    assert np.isfinite(value)
    assert np.isfinite(slope).all()
    assert np.isfinite(information).all()
