"""Joint basis and shrinkage against dense formulas written apart, and against stored numbers."""

import numpy as np
import pytest
from builders import reference
from builders.reference import posterior_moments
from builders.training import moment_estimate
from scipy import stats

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.shrinkage import (
    between_bag_covariance,
    joint_basis,
    reliability,
    shrinkage_factors,
)
from data_gen.gamma import gamma_bags

DIMENSIONS = [1, 2, 7, 30]


def matrices(rng, d):
    return 3 * reference.positive_definite(rng, d), reference.positive_definite(rng, d)


def simulated_embeddings(rng, B, Sigma, sizes):
    d = len(B)
    true = rng.multivariate_normal(np.zeros(d), B, len(sizes))
    noise = rng.multivariate_normal(np.zeros(d), Sigma, len(sizes))
    return 2 + true + noise / np.sqrt(sizes)[:, None]


@pytest.mark.parametrize("n", [2, 9, 200])
@pytest.mark.parametrize("d", DIMENSIONS[:3])
def test_between_bag_covariance_is_the_weighted_average(rng, n, d):
    """Few bags with much noise among them: negative eigenvalues are cut."""
    Sigma, B = matrices(rng, d)
    sizes = rng.choice([1.0, 3.0, 50.0], n)
    mean = simulated_embeddings(rng, B, Sigma, sizes)
    found = between_bag_covariance(Embedding(sizes, mean, None), Sigma)
    expected = moment_estimate(mean, sizes, Sigma)
    away = mean - mean.mean(axis=0)
    if np.trace(expected) < 0.01 * np.mean(np.sum(away**2, axis=1)):
        expected = 0.01 * np.cov(mean.T, bias=True).reshape(d, d)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(found)[0] > -1e-12


def test_between_bag_covariance_of_many_bags_is_the_true_one(rng):
    Sigma, B = matrices(rng, 3)
    sizes = rng.choice([1.0, 5.0, 100.0], 40_000)
    mean = simulated_embeddings(rng, B, Sigma, sizes)
    found = between_bag_covariance(Embedding(sizes, mean, None), Sigma)
    np.testing.assert_allclose(found, B, atol=0.03 * np.trace(B))


def test_between_bag_covariance_is_never_lost_in_the_noise(rng):
    """Bags that do not differ beyond noise: a hundredth of the embeddings' variance is left."""
    mean = rng.normal(size=(50, 3))
    away = mean - mean.mean(axis=0)
    found = between_bag_covariance(Embedding(np.ones(50), mean, None), 100 * np.eye(3))
    np.testing.assert_allclose(found, 0.01 * away.T @ away / 50)


def test_reliability_of_many_bags_is_that_of_the_true_variances(rng):
    """Its standard error is 0.2%, over other draws."""
    B, Sigma = matrices(rng, 3)
    sizes, w = rng.choice([1.0, 2.0, 5.0], 40_000), np.array([1.0, -0.5, 2.0])
    embedding = Embedding(sizes, simulated_embeddings(rng, B, Sigma, sizes), None)
    lam, V = joint_basis(Sigma, np.eye(3))
    between, within = w @ V.T @ B @ V @ w, lam @ w**2
    shares = between / (between + within / sizes)
    expected = np.sum(shares**2) / np.sum(shares)
    assert 0.2 < expected < 0.8
    np.testing.assert_allclose(reliability(embedding, V, lam, w), expected, rtol=0.02)
    assert reliability(Embedding(sizes, np.ones((40_000, 3)), None), V, lam, w) == 0


@pytest.mark.parametrize("d", DIMENSIONS)
def test_joint_basis_makes_both_matrices_diagonal(rng, d):
    Sigma, R = matrices(rng, d)
    lam, V = joint_basis(Sigma, R)
    np.testing.assert_allclose(V.T @ R @ V, np.eye(d), atol=1e-11)
    np.testing.assert_allclose(V.T @ Sigma @ V, np.diag(lam), atol=1e-10 * lam[-1])
    np.testing.assert_allclose(Sigma @ V, R @ V * lam, atol=1e-10 * lam[-1])
    assert np.all(np.diff(lam) >= 0)


def test_within_variance_is_never_negative(rng):
    _, R = matrices(rng, 6)
    direction = rng.normal(size=6)
    lam, _ = joint_basis(np.outer(direction, direction), R)  # rank one: five zeros
    assert np.all(lam >= 0) and lam[-1] > 0
    np.testing.assert_allclose(lam[:-1], 0, atol=1e-12 * lam[-1])


@pytest.mark.parametrize("d", DIMENSIONS)
def test_shrinkage_in_the_joint_basis_is_the_dense_posterior(rng, d):
    Sigma, R = matrices(rng, d)
    n, eta = 12, 0.3
    sizes = rng.choice([1, 2, 40, 5000], n)
    mu, m0, alpha = rng.normal(size=(n, d)), rng.normal(size=d), rng.normal(size=d)
    lam, V = joint_basis(Sigma, R)
    s = shrinkage_factors(sizes, lam, eta)
    assert s.shape == (n, d) and np.all((s > 0) & (s <= 1))
    w, z = np.linalg.solve(V, alpha), (mu - m0) @ V
    mean, variance = (s * z) @ w, eta * (1 - s) @ w**2

    M, C = posterior_moments(mu, sizes, m0, Sigma, R, eta)
    assert M.shape == (n, d) and C.shape == (n, d, d)
    np.testing.assert_array_equal(C, C.transpose(0, 2, 1))
    for i in range(n):
        dense_M, dense_C = reference.embedding_posterior(mu[i], sizes[i], m0, Sigma, R, eta)
        np.testing.assert_allclose(M[i], dense_M, rtol=1e-8, atol=1e-10, err_msg=f"bag {i}")
        np.testing.assert_allclose(
            C[i], dense_C, rtol=1e-8, atol=1e-10 * np.abs(dense_C).max(), err_msg=f"bag {i}"
        )
        dense_mean = alpha @ (dense_M - m0)
        assert mean[i] == pytest.approx(dense_mean, rel=1e-8, abs=1e-10), f"bag {i}"
        assert variance[i] == pytest.approx(alpha @ dense_C @ alpha, rel=1e-8), f"bag {i}"


def test_posterior_moments_of_one_bag_of_one_point_at_one_landmark():
    M, C = posterior_moments([[5.0]], [1], np.array([1.0]), np.array([[6.0]]), np.array([[2.0]]), 1)
    assert pytest.approx(np.array([[1 + 4 * 2 / (2 + 6)]])) == M
    assert pytest.approx(np.array([[[2 * 6 / (2 + 6)]]])) == C


def test_large_bags_keep_their_embedding_and_tiny_ones_take_the_average(rng):
    Sigma, R = matrices(rng, 5)
    mu, m0 = rng.normal(size=(2, 5)), rng.normal(size=5)
    M, C = posterior_moments(mu, [1e12, 1e-12], m0, Sigma, R, 0.7)
    np.testing.assert_allclose(M, [mu[0], m0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(C, [np.zeros((5, 5)), 0.7 * R], atol=1e-9)
    lam, _ = joint_basis(Sigma, R)
    np.testing.assert_allclose(
        shrinkage_factors([1e12, 1e-12], lam, 0.7).T, [[1, 0]] * 5, atol=1e-9
    )


def test_shrinkage_grows_with_size_and_with_eta(rng):
    lam, _ = joint_basis(*matrices(rng, 4))
    assert np.all(np.diff(shrinkage_factors([1, 2, 3, 100], lam, 0.5), axis=0) > 0)
    assert np.all(shrinkage_factors([7], lam, 2.0) > shrinkage_factors([7], lam, 1.0))
    np.testing.assert_array_equal(shrinkage_factors([7], np.zeros(4), 1e-9), np.ones((1, 4)))


def test_prior_that_is_not_positive_definite(rng):
    Sigma, R = matrices(rng, 3)
    R = R - 1.5 * np.eye(3) / 50 * np.linalg.norm(R, 2)
    with pytest.raises(
        ValueError, match=r"not positive definite \(smallest eigenvalue -0\.01"
    ) as e:
        joint_basis(Sigma, R)
    assert "fewer landmarks or a smaller bandwidth" in str(e.value)


def test_integrating_the_embedding_out_by_simulation(rng):
    """The label's density is the average of normal densities over its uncertain embedding."""
    p = reference.random_problem(rng, n=6, d=3, sizes=[1, 1, 4, 4, 60, 60])
    alpha, intercept, sigma, eta = np.array([0.6, -0.4, 0.9]), 0.3, 0.5, 0.8
    lam, V = joint_basis(p.Sigma, p.R)
    s = shrinkage_factors(p.sizes, lam, eta)
    w, z = np.linalg.solve(V, alpha), (p.mu - p.m0) @ V
    ours = stats.norm.logpdf(p.y, intercept + (s * z) @ w, np.sqrt(eta * (1 - s) @ w**2 + sigma**2))
    for i, (y, mu, size) in enumerate(zip(p.y, p.mu, p.sizes)):
        M, C = reference.embedding_posterior(mu, size, p.m0, p.Sigma, p.R, eta)
        true = rng.multivariate_normal(M, C, 200_000)
        density = stats.norm.pdf(y, intercept + (true - p.m0) @ alpha, sigma)
        error = density.std() / np.sqrt(len(density))
        assert np.exp(ours[i]) == pytest.approx(density.mean(), abs=4.5 * error), f"bag {i}"
        assert error < 0.02 * density.mean()


def test_stored_predictions_of_the_shrinkage_model(reference_data):
    stored = np.load(reference_data / "oracle_shrinkageC_s5_50.npz")
    bags, _ = gamma_bags(23, s5=50, splits=["test"])["test"]
    u, bw, measure, alpha = (stored[k] for k in ["landmarks", "bw", "measure_var", "alpha"])
    mu = []
    for points in bags:
        squared = ((points[:, None] - u) ** 2).sum(axis=-1)
        mu.append(np.exp(-squared / (2 * bw**2)).mean(axis=0))
    minus = ((u[:, None] - u) ** 2).sum(axis=-1)
    plus = ((u[:, None] + u) ** 2).sum(axis=-1)
    R = stored["R_scale"] * (2 * np.pi / (2 / bw**2 + 1 / measure)) ** (u.shape[1] / 2)
    R = R * np.exp(-minus / (4 * bw**2) - plus / (8 * (bw**2 / 2 + measure)))

    lam, V = joint_basis(stored["Sigma"], R)
    s = shrinkage_factors(bags.sizes, lam, 1.0)
    w, z = np.linalg.solve(V, alpha), (np.array(mu) - stored["m0"]) @ V
    mean = stored["bias"] + stored["m0"] @ alpha + (s * z) @ w
    np.testing.assert_allclose(mean, stored["test_mean"], rtol=0, atol=2e-9)
    variance = (1 - s) @ w**2 + stored["obs_var"]
    np.testing.assert_allclose(variance, stored["test_var"], rtol=0, atol=1e-10)
