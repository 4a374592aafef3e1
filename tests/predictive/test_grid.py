"""Densities on a grid of labels against densities that are known."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bdr_stan.predictive import GridPredictive, mixture
from bdr_stan.predictive.grid import trapezoid_weights

GRID = np.sort(np.r_[np.linspace(-9, 9, 1501), np.random.default_rng(1).uniform(-9, 9, 300)])
MEAN = np.array([[-1.0, 0.3, 2.0], [-0.5, 0.5, 1.0]])  # two draws, three bags
SD = np.array([[0.4, 0.7, 1.1], [0.5, 0.6, 0.9]])


def on_grid(log_density, n_bags, n_draws, grid):
    """Of densities log_density(draw, bags) at the labels of the grid."""

    def log_densities(i):
        for draw in range(n_draws):
            yield log_density(draw, i)

    return GridPredictive(log_densities, grid, n_bags, n_draws)


@pytest.fixture
def normals():
    """Mixtures of two normals."""
    return on_grid(
        lambda s, i: stats.norm.logpdf(GRID, MEAN[s, i, None], SD[s, i, None]), 3, 2, GRID
    )


@pytest.fixture
def triangle():
    """Bag 0 falls from 0 to 2, bag 1 rises: densities that are linear, and so exact on any grid."""
    grid = np.array([0.0, 0.3, 1.1, 2.0])
    density = np.array([(2 - grid) / 2, grid / 2])
    with np.errstate(divide="ignore"):
        values = np.log(density)
    return on_grid(lambda s, i: values[i], 2, 1, grid)


def test_weights_are_those_of_the_trapezoidal_rule(rng):
    values = rng.normal(size=len(GRID))
    assert trapezoid_weights(GRID) @ values == pytest.approx(np.trapezoid(values, GRID))


def test_a_mixture_of_normals(normals):
    y = np.array([-0.8, 0.1, 2.5])
    mean = MEAN.mean(axis=0)
    np.testing.assert_allclose(normals.mean, mean, atol=1e-3)
    np.testing.assert_allclose(normals.sd**2, np.mean(SD**2 + MEAN**2, axis=0) - mean**2, rtol=1e-3)
    np.testing.assert_allclose(normals.cdf(y), stats.norm.cdf(y, MEAN, SD).mean(axis=0), atol=1e-3)
    each = stats.norm.logpdf(y, MEAN, SD)
    np.testing.assert_allclose(normals.log_likelihood(y), each, atol=5e-3)
    np.testing.assert_allclose(normals.log_prob(y), logsumexp(each, axis=0) - np.log(2), atol=5e-3)
    assert "3 bags, 2 draws, labels from -9 to 9" in repr(normals)


def test_linear_densities_are_exact(triangle):
    np.testing.assert_allclose(triangle.cdf([0.5, 0.5]), [0.5 - 0.25 / 4, 0.25 / 4])
    np.testing.assert_allclose(triangle.cdf([1.7, 1.7]), [1.7 - 1.7**2 / 4, 1.7**2 / 4])
    np.testing.assert_allclose(triangle.log_prob([0.5, 0.5]), np.log([0.75, 0.25]))
    q = np.array([1e-9, 0.2, 0.5, 0.99])
    expected = np.column_stack([-2 * np.expm1(0.5 * np.log1p(-q)), 2 * np.sqrt(q)])
    np.testing.assert_allclose(triangle.quantile(q), expected, rtol=1e-9)
    np.testing.assert_allclose(triangle.interval(0.6), triangle.quantile([0.2, 0.8]))


def test_nothing_lies_beyond_the_grid(triangle):
    np.testing.assert_allclose(triangle.cdf([-1.0, 3.0]), [0, 1], atol=1e-15)
    assert triangle.log_prob([-0.01, 2.01]).tolist() == [-np.inf, -np.inf]
    assert triangle.log_likelihood([-0.01, 2.01]).tolist() == [[-np.inf, -np.inf]]
    labels = triangle.sample(1000, seed=1)
    assert labels.min() >= 0 and labels.max() <= 2


@pytest.mark.parametrize("level", [1e-6, 0.025, 0.4, 0.5, 0.999])
def test_quantiles_invert_the_cdf(normals, triangle, level):
    for p in (normals, triangle):
        np.testing.assert_allclose(p.cdf(p.quantile(level)), level, rtol=1e-9)


def test_a_density_with_a_gap():
    """Half of it below 1, half above 2, nothing between."""
    grid = np.array([0, 1, 1 + 1e-9, 2 - 1e-9, 2, 3])
    with np.errstate(divide="ignore"):
        values = np.log([[0.5, 0.5, 0, 0, 0.5, 0.5]])
    p = on_grid(lambda s, i: values[i], 1, 1, grid)
    np.testing.assert_allclose(p.quantile([0.25, 0.75])[:, 0], [0.5, 2.5], atol=1e-6)
    assert p.cdf([1.5]) == pytest.approx(0.5)
    labels = p.sample(1000, seed=1)[:, 0]
    assert not np.any((labels > 1.01) & (labels < 1.99))


def test_samples_are_of_the_density(normals):
    labels = normals.sample(20_000, seed=3)
    assert labels.shape == (20_000, 3)
    for n, own in enumerate(labels.T):
        uniform = [normals.cdf(np.full(3, y))[n] for y in own[:1000]]
        assert stats.kstest(uniform, "uniform").pvalue > 1e-4
    away = np.abs(labels.mean(axis=0) - normals.mean)
    np.testing.assert_array_less(away, 4.5 * normals.sd / np.sqrt(20_000))
    assert normals.sample(seed=1).shape == (2, 3)


@pytest.mark.parametrize("kept", [True, False])
def test_neither_chunks_nor_memory_matter(normals, monkeypatch, kept):
    def everything(p):
        y = np.array([-0.8, 0.1, 2.5])
        return [p.mean, p.sd, p.quantile([0.1, 0.8]), p.cdf(y), p.log_prob(y), p.log_likelihood(y)]

    whole = everything(normals)
    monkeypatch.setattr(mixture, "COMPONENTS_AT_ONCE", 2 * len(GRID))
    if not kept:
        monkeypatch.setattr("bdr_stan.predictive.grid._MOST_KEPT", 0)
    again = GridPredictive(normals.log_densities, GRID, 3, 2)
    assert max(len(i) for i, _ in again._chunks()) == 2
    for one, other in zip(whole, everything(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_labels_must_be_one_a_bag(normals):
    for ask in (normals.cdf, normals.log_prob, normals.log_likelihood):
        with pytest.raises(ValueError, match="y has shape"):
            ask([0.0, 1.0])
    with pytest.raises(TypeError, match="not numbers"):
        normals.cdf(["a"] * 3)
