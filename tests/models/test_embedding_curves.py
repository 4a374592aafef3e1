"""Curves, their evidence, mode and coordinates, from definitions."""

from dataclasses import replace

import numpy as np
import pytest
from builders import curves, reference
from builders.training import JITTER, labelled_bags, training_of

from bdr_stan.embedding.label_functions import functions_of_numbers
from bdr_stan.models.embedding_curves import (
    CurveSums,
    coefficient_scales,
    curves_given,
    most_probable_curves,
    residual_coordinates,
    rows_without_blur,
)


def sums_of(p):
    return CurveSums.from_rows(p.B, p.z, p.sizes)


def test_scales_of_the_coefficients(problem):
    p, true = problem
    found = coefficient_scales(p.functions, true["amplitude"], true["curvature"], 1.5)
    expected = curves.coefficient_sds(p.functions, p.priors, true["amplitude"], true["curvature"])
    np.testing.assert_allclose(found, expected)


def test_curves_are_those_of_regression_on_all_bags(problem):
    p, true = problem
    given = {name: true[name] for name in ("tau", "amplitude", "curvature")}
    scales = curves.coefficient_sds(p.functions, p.priors, true["amplitude"], true["curvature"])
    found = curves_given(sums_of(p), p.lam, true["tau"], scales)
    mean, covariance = curves.curve_posterior(p, **given)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.log_evidence, curves.log_likelihood(p, **given), rtol=1e-10)


def test_slopes_of_the_evidence(problem):
    p, true = problem
    scales = curves.coefficient_sds(p.functions, p.priors, true["amplitude"], true["curvature"])
    sums, K = sums_of(p), len(p.lam)

    def evidence(x):
        tau, own = np.exp(x[:K]), np.exp(x[K:]).reshape(scales.shape)
        return curves_given(sums, p.lam, tau, own).log_evidence.sum()

    found = curves_given(sums, p.lam, true["tau"], scales)
    slopes = reference.gradient(evidence, np.log(np.r_[true["tau"], scales.ravel()]))
    np.testing.assert_allclose(found.by_log_tau, slopes[:K], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.by_log_scale.ravel(), slopes[K:], rtol=1e-6, atol=1e-7)


def test_the_mode_is_where_the_density_of_the_logarithms_is_flat(problem):
    p, _ = problem
    modes, found = most_probable_curves(sums_of(p), p.lam, p.functions, p.priors)
    assert ("curvature" in modes) == p.has_curvature
    K = len(p.lam)

    def density(x):
        point = {
            "tau": np.exp(x[:K]),
            "amplitude": np.exp(x[K : 2 * K]),
            "curvature": np.exp(x[-1]),
        }
        return curves.log_prior(p, **point) + curves.log_likelihood(p, **point).sum() + x.sum()

    x = np.log(np.concatenate([np.atleast_1d(value) for value in modes.values()]))
    np.testing.assert_allclose(reference.gradient(density, x), 0, atol=1e-3)
    given = {"curvature": 1.0} | modes
    mean, _ = curves.curve_posterior(p, **given)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-8, atol=1e-10)


# ---------------------------------------------------------------- coordinates


def test_coordinates_make_the_covariances_diagonal(rng):
    bags, y = labelled_bags(rng, n=60)
    training = training_of(bags, "rbf", rng.normal(size=(4, 3)))
    B = functions_of_numbers(y)(y)
    m0, basis, lam = residual_coordinates(training, B)
    np.testing.assert_allclose(m0, training.embedding.mean.mean(axis=0))
    Sigma = training.embedding.covariance + JITTER * np.eye(4)
    np.testing.assert_allclose(basis.T @ Sigma @ basis, np.diag(lam), atol=1e-8 * lam.max())


def test_coordinates_have_unit_spread_about_the_curve():
    """Many bags of many points: what the label leaves has the identity for a covariance."""
    training, y = curves.simulated(np.random.default_rng(3), n=3000, sizes=(500, 2000))
    B = functions_of_numbers(y)(y)
    m0, basis, lam = residual_coordinates(training, B)
    z = (training.embedding.mean - m0) @ basis
    left = z - B @ np.linalg.lstsq(B, z, rcond=None)[0]
    within = np.diag(lam) * np.mean(1 / training.embedding.sizes)
    np.testing.assert_allclose(np.cov(left.T), np.eye(len(lam)) + within, atol=0.1)


def test_coordinates_of_embeddings_that_the_label_determines():
    """A thousandth of their spread is left between bags."""
    training, y = curves.simulated(np.random.default_rng(3), n=300)
    B = functions_of_numbers(y)(y)
    mean = B @ np.random.default_rng(4).normal(size=(B.shape[1], 4))
    exact = replace(training.embedding, mean=mean, sizes=np.full(300, 1e9))
    _, basis, _ = residual_coordinates(replace(training, embedding=exact), B)
    left = np.trace(np.linalg.inv(basis @ basis.T))  # of R, as V'RV is the identity
    assert left == pytest.approx(1e-3 * mean.var(axis=0).sum(), rel=1e-3)


@pytest.mark.parametrize("unit", [1e3, 1e6])
def test_sums_at_nodes_do_not_depend_on_the_unit_of_sizes(rng, unit):
    sizes = np.arange(1, 400)
    given = rng.normal(size=(399, 2)), rng.normal(size=(399, 3))
    found, other = (CurveSums.from_rows(*given, size) for size in (sizes, unit * sizes))
    assert len(found.size) == len(other.size) < 399
    np.testing.assert_allclose(found.cross, other.cross, atol=1e-9)


def test_sums_of_bags_of_one_size_stay(rng):
    B, z = rng.normal(size=(9, 2)), rng.normal(size=(9, 3))
    found = CurveSums.from_rows(B, z, np.full(9, 5.0))
    np.testing.assert_array_equal(found.size, [5])
    np.testing.assert_allclose(found.cross[0], B.T @ z)


# ---------------------------------------------------------------- uncertain labels


def uncertain(rng, n=20_000):
    """Coordinates of bags of which averages and covariances of two functions are known.

    The first coordinate follows the second function steeply, the last one not at all.
    """
    curve, lam = np.array([[0.3, 2.0], [0.1, 0.5], [-0.4, 0.0]]), np.array([0.5, 2.0, 9.0])
    B = np.column_stack([np.ones(n), rng.normal(size=n)])
    blur = np.zeros((n, 2, 2))
    blur[:, 1, 1] = rng.choice([0.01, 0.6], n)
    sizes = rng.choice([2.0, 50.0], n)
    at = B + np.column_stack([np.zeros(n), rng.normal(0, np.sqrt(blur[:, 1, 1]))])
    return curve, lam, B, blur, sizes, rng.normal(at @ curve.T, np.sqrt(1 + lam / sizes[:, None]))


def test_rows_of_uncertain_labels_have_the_variance_of_certain_ones(rng):
    curve, lam, B, blur, sizes, z = uncertain(rng)
    tau = np.sqrt(1 + 0.305 * curve[:, 1] ** 2)  # with the spread of the labels
    scaled, rows = rows_without_blur(z, sizes, lam, B, blur, tau, curve)
    for size in (2.0, 50.0):
        for variance in (0.01, 0.6):
            of = (sizes == size) & (blur[:, 1, 1] == variance)
            left = (rows - scaled @ curve.T)[of]
            np.testing.assert_allclose(left.var(axis=0), 1 + lam / size, rtol=0.12)
    # Bags of uncertain labels count as much as their variance says, in the coordinate that moves.
    share = (1 + 0.5 / 50) / (1 + 0.5 / 50 + 0.6 * 4)
    uncertain_bag = (sizes == 50) & (blur[:, 1, 1] == 0.6)
    np.testing.assert_allclose(scaled[uncertain_bag, 0] ** 2, share, rtol=0.05)
    np.testing.assert_allclose(
        rows[:, 0] - scaled @ curve[0], scaled[:, 0] * (z - B @ curve.T)[:, 0]
    )


def test_rows_of_certain_labels_stay(rng):
    curve, lam, B, blur, sizes, z = uncertain(rng, 10)
    same = rows_without_blur(z, sizes, lam, B, 0 * blur, np.ones(3), curve)
    for found, expected in zip(same, (B, z)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("largest", [300, 100_000])
def test_many_sizes_are_nodes_of_the_same_likelihood(rng, largest):
    """Whatever tau and lambda, also where sums of nodes are negative."""
    sizes = np.unique(np.geomspace(1, largest, 4000).round())
    n, K = len(sizes), 40
    y = rng.normal(size=n)
    functions = functions_of_numbers(y)
    B, z = functions(y), rng.normal(size=(n, K))
    nodes = CurveSums.from_rows(B, z, sizes)
    assert len(nodes.size) < 60 < n
    assert (nodes.size[0], nodes.size[-1]) == (1, largest)
    every = CurveSums(
        sizes, np.ones(n), B[:, :, None] * B[:, None], B[:, :, None] * z[:, None], z**2
    )
    assert nodes.n_bags.sum() == pytest.approx(n, rel=1e-12)
    lam, tau = 10 ** rng.uniform(-3, 4, K), 10 ** rng.uniform(-3, 3, K)
    scales = rng.gamma(2.0, size=(K, B.shape[1]))
    found, expected = (curves_given(sums, lam, tau, scales) for sums in (nodes, every))
    for name, values in vars(expected).items():
        np.testing.assert_allclose(
            getattr(found, name), values, rtol=1e-8, atol=1e-10, err_msg=name
        )


def test_a_tenth_of_the_spread_is_not_of_uncertain_labels(rng):
    """However uncertain they are; only the second function moves, so that c' V c = 4 v."""
    z, B = rng.normal(size=(5, 1)), rng.normal(size=(5, 2))
    blur, sizes, tau = np.zeros((5, 2, 2)), np.full(5, 8.0), 3.0
    blur[:, 1, 1] = 50.0
    curve, lam = np.array([[0.3, 2.0]]), np.array([0.5])
    scaled, _ = rows_without_blur(z, sizes, lam, B, blur, np.array([tau]), curve)
    residual = 0.1 * tau**2 + 0.5 / 8
    np.testing.assert_allclose(scaled, B * np.sqrt(residual / (residual + 4 * 50)))
