"""Kernel mean matching: gradients against differences, minima against what is known."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernels import RBF, Linear, Matern32, Polynomial
from data_gen.mixtures import GaussianMixture
from experiments.papers.density_matching import IsotropicProducts, kmeans_mixture, match_mixture
from experiments.papers.gaussian_mixtures import MixtureMean

KERNELS = [RBF(1.5, variance=2.0), Linear(), Polynomial(2), Polynomial(3, 0.5, variance=0.1)]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_products_and_gradients(rng, kernel):
    x, y = rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    s, t = rng.uniform(0.1, 2, 3), rng.uniform(0, 2, 4)
    found = IsotropicProducts(kernel, x, s, y, t)
    exact = [
        [
            MixtureMean(GaussianMixture(np.ones(1), x[[i]], s[[i]]), kernel).inner(
                MixtureMean(GaussianMixture(np.ones(1), y[[j]], t[[j]]), kernel)
            )
            for j in range(4)
        ]
        for i in range(3)
    ]
    np.testing.assert_allclose(found.values, exact)
    factors = rng.normal(size=(3, 4))

    def total(parameters):
        moved = IsotropicProducts(kernel, parameters[:6].reshape(3, 2), parameters[6:], y, t)
        return np.sum(factors * moved.values)

    by_x, by_s = found.gradients(factors)
    numeric = approx_fprime(np.concatenate([x.ravel(), s]), total, 1e-7)
    np.testing.assert_allclose(np.concatenate([by_x.ravel(), by_s]), numeric, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("estimator", ["kme", "s-kmse", "f-kmse"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_no_small_step_comes_nearer(rng, kernel, estimator):
    x = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(20, 2)) * 0.5 + 3])
    mean = KernelMean(x, kernel, estimator=estimator)
    start = kmeans_mixture(x, 3, seed=1)
    start = GaussianMixture(start.weights, start.means + 0.5, start.covariances)
    found = match_mixture(mean, start)
    nearest = mean.distance(MixtureMean(found, kernel)) ** 2
    assert nearest < mean.distance(MixtureMean(start, kernel)) ** 2
    slack = 1e-6 * mean.norm**2
    for _ in range(20):
        weights = found.weights * np.exp(1e-2 * rng.normal(size=3))
        near = GaussianMixture(
            weights / weights.sum(),
            found.means + 1e-2 * rng.normal(size=(3, 2)),
            found.covariances * np.exp(1e-2 * rng.normal(size=3)),
        )
        assert mean.distance(MixtureMean(near, kernel)) ** 2 > nearest - slack


def test_it_finds_the_density(rng):
    """Many points of a known mixture, RBF kernel: the parameters come back."""
    truth = GaussianMixture(
        np.array([0.3, 0.7]), np.array([[-2.0, 0.0], [2.0, 1.0]]), np.array([0.5, 1.5])
    )
    x = truth.sample(1000, seed=5)
    found = match_mixture(KernelMean(x, RBF(1.5)), kmeans_mixture(x, 2, seed=0))
    order = np.argsort(found.means[:, 0])
    np.testing.assert_allclose(found.weights[order], truth.weights, atol=0.05)
    np.testing.assert_allclose(found.means[order], truth.means, atol=0.15)
    np.testing.assert_allclose(found.covariances[order], truth.covariances, atol=0.3)
    new = truth.sample(2000, seed=6)
    assert np.mean(truth.log_density(new) - found.log_density(new)) < 0.02


def test_the_linear_kernel_matches_the_mean_alone(rng):
    x = rng.normal(size=(40, 3)) + 1
    start = kmeans_mixture(x, 4, seed=0)
    start = GaussianMixture(start.weights, start.means + 1, start.covariances)
    found = match_mixture(KernelMean(x, Linear()), start)
    np.testing.assert_allclose(found.weights @ found.means, x.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(found.covariances, start.covariances, rtol=1e-6)


def test_start_from_clusters(rng):
    x = np.array([[0.0, 0], [0, 2], [10, 0], [10, 4], [99, 99]])
    start = kmeans_mixture(x, 3, seed=0)
    order = np.argsort(start.means[:, 0])
    np.testing.assert_allclose(start.weights[order], [0.4, 0.4, 0.2])
    np.testing.assert_allclose(start.means[order], [[0, 1], [10, 2], [99, 99]])
    np.testing.assert_allclose(start.covariances[order], [0.5, 2, 1])  # 10 / 5 points / 2
    doubled = np.repeat(x, 2, axis=0)  # clusters without spread
    variances = kmeans_mixture(doubled, 5, seed=0).covariances
    np.testing.assert_allclose(variances, 1e-4 * np.var(x, axis=0).mean())


def test_errors(rng):
    x = rng.normal(size=(5, 2))
    start = kmeans_mixture(x, 2, seed=0)
    with pytest.raises(ValueError, match="n_components must be an integer from 1 to 5, .* found 6"):
        kmeans_mixture(x, 6)
    with pytest.raises(ValueError, match="all points coincide"):
        kmeans_mixture(np.ones((4, 2)), 2)
    with pytest.raises(ValueError, match="exact kernel means of Gaussians need RBF"):
        match_mixture(KernelMean(x, Matern32(1.0)), start)
    with pytest.raises(ValueError, match="an RBF with one bandwidth"):
        match_mixture(KernelMean(x, RBF([1.0, 2.0])), start)
