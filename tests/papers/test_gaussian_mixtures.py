"""Exact kernel means of mixtures of Gaussians, against Monte Carlo and samples of few points."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernels import RBF, Cauchy, Linear, Polynomial
from data_gen.mixtures import GaussianMixture, random_mixture
from experiments.papers.gaussian_mixtures import MixtureMean

CLOSED = [RBF(2.0), RBF([2.0, 0.7, 5.0], variance=3.0), Linear(), Polynomial(2), Polynomial(3, 0.5)]


@pytest.fixture
def mixture(rng):
    factors = rng.normal(size=(3, 3, 3))
    return GaussianMixture(
        np.array([0.2, 0.5, 0.3]), rng.normal(size=(3, 3)), factors @ factors.transpose(0, 2, 1)
    )


def test_density_and_sample_of_a_mixture(mixture):
    x = mixture.sample(100_000, seed=3)
    np.testing.assert_allclose(x.mean(axis=0), mixture.weights @ mixture.means, atol=0.05)
    moved = mixture.means - mixture.weights @ mixture.means
    spread = (
        np.tensordot(mixture.weights, mixture.covariances, 1) + moved.T * mixture.weights @ moved
    )
    np.testing.assert_allclose(np.cov(x.T), spread, atol=0.03 * np.trace(spread))
    parts = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    density = sum(w * multivariate_normal(m, S).pdf(x[:5]) for w, m, S in parts)
    np.testing.assert_allclose(np.exp(mixture.log_density(x[:5])), density)


@pytest.mark.parametrize("kernel", CLOSED, ids=repr)
def test_exact_means_against_monte_carlo(mixture, kernel):
    exact = MixtureMean(mixture, kernel)
    x = mixture.sample(6, seed=1)
    n = 200_000
    values = kernel(x, mixture.sample(n, seed=2))
    error = values.std(axis=1) / np.sqrt(n)
    assert np.all(np.abs(exact(x) - values.mean(axis=1)) < 4 * error)
    pairs = exact(mixture.sample(n, seed=4))  # the mean of these is the squared norm
    assert abs(exact.norm**2 - pairs.mean()) < 4 * pairs.std() / np.sqrt(n)


@pytest.mark.parametrize("kernel", CLOSED, ids=repr)
def test_a_mixture_of_points_is_a_sample(rng, kernel):
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    exact = MixtureMean(GaussianMixture(np.full(4, 0.25), x, np.zeros(4)), kernel)
    sample, other = KernelMean(x, kernel), KernelMean(y, kernel, estimator="f-kmse")
    np.testing.assert_allclose(exact(y), sample(y))
    np.testing.assert_allclose(exact.norm, sample.norm)
    for pair in ((exact, other), (other, exact)):
        np.testing.assert_allclose(pair[0].distance(pair[1]), sample.distance(other))


def test_isotropic_covariances(rng):
    means, variances = rng.normal(size=(2, 3)), np.array([0.5, 2.0])
    short = GaussianMixture(np.array([0.4, 0.6]), means, variances)
    full = GaussianMixture(short.weights, means, variances[:, None, None] * np.eye(3))
    x = rng.normal(size=(6, 3))
    np.testing.assert_allclose(short.log_density(x), full.log_density(x))
    np.testing.assert_allclose(MixtureMean(short, RBF(1.0))(x), MixtureMean(full, RBF(1.0))(x))


def test_mixtures_of_the_paper():
    several = [random_mixture(4, seed=seed) for seed in range(400)]
    means = np.array([m.means for m in several])
    assert means.min() < -9.5 and means.max() > 9.5 and abs(means.mean()) < 0.5
    covariances = np.array([m.covariances for m in several]).mean(axis=(0, 1))
    np.testing.assert_allclose(covariances, 14.2 * np.eye(4), atol=0.6)  # 7 x 2 I + 0.2 I
    np.testing.assert_array_equal(several[0].weights, [0.05, 0.3, 0.4, 0.25])
    assert (
        np.linalg.matrix_rank(random_mixture(12, seed=1).covariances - 0.2 * np.eye(12)).max() == 7
    )


@pytest.mark.parametrize("kernel", [Cauchy(1.0), Polynomial(4), RBF(), RBF(1.0, columns=(0,))])
def test_kernels_without_a_closed_form(mixture, kernel):
    with pytest.raises(ValueError, match="exact kernel means of Gaussians need RBF"):
        MixtureMean(mixture, kernel)
