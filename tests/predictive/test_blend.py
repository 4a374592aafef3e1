"""Mixtures of normals and densities on grids."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bdr_stan.predictive import Blend, GridPredictive, Predictive, mix
from bdr_stan.predictive.grid import RepeatedLabels

GRID = np.linspace(-9, 9, 3001)
MEAN, SD = np.array([-1.0, 0.5]), np.array([0.4, 0.8])
WEIGHTS = np.array([0.3, 0.7])
Y = np.array([-0.7, 1.4])


def normals():
    """One draw of N(0, 1) for each of two bags."""
    return Predictive(lambda i: (np.zeros((1, len(i))), np.ones((1, len(i)))), 2, 1)


def gridded():
    log_density = stats.norm.logpdf(GRID, MEAN[:, None], SD[:, None])
    return GridPredictive(lambda i: iter([log_density[i]]), GRID, 2, 1)


@pytest.fixture
def blend():
    return mix([normals(), gridded()], WEIGHTS)


def parts(function, y=Y):
    return np.array([function(y, 0, 1), function(y, MEAN, SD)])


def test_it_is_the_mixture(blend):
    assert isinstance(blend, Blend) and len(blend) == 2
    assert "2 bags, 2 models" in repr(blend)
    mean = 0.7 * MEAN
    np.testing.assert_allclose(blend.mean, mean, atol=1e-6)
    second = 0.3 * 1 + 0.7 * (SD**2 + MEAN**2)
    np.testing.assert_allclose(blend.sd**2, second - mean**2, rtol=1e-4)
    np.testing.assert_allclose(blend.cdf(Y), WEIGHTS @ parts(stats.norm.cdf), atol=1e-4)
    expected = logsumexp(parts(stats.norm.logpdf), b=WEIGHTS[:, None], axis=0)
    np.testing.assert_allclose(blend.log_prob(Y), expected, atol=1e-4)


@pytest.mark.parametrize("level", [1e-4, 0.3, 0.5, 0.999])
def test_quantiles_invert_the_cdf(blend, level):
    np.testing.assert_allclose(blend.cdf(blend.quantile(level)), level, rtol=1e-6)


def test_quantiles_lie_at_repeated_labels():
    """A part that has probability .6 of 0, and one that has none."""
    grid = np.array([0.0, 1e-6, 5.0])
    density = np.log([[1.2e6, 0.08, 0.08]] * 2)
    zero = RepeatedLabels(np.zeros(1), np.ones(1))
    part = GridPredictive(lambda i: iter([density[i]]), grid, 2, 1, repeated=zero)
    blend = mix([normals(), part], WEIGHTS)
    at = 0.3 * 0.5 + np.array([0.001, 0.7 * 0.599])
    assert np.all(blend.quantile(at) == 0)
    assert np.all(blend.quantile(0.1) < 0) and np.all(blend.quantile(0.65) > 0)


def test_quantiles_and_intervals_have_their_shapes(blend):
    levels = [0.1, 0.9]
    np.testing.assert_allclose(blend.interval(0.8), blend.quantile(levels))
    assert blend.quantile(levels).shape == (2, 2) and blend.quantile(0.5).shape == (2,)
    with pytest.raises(ValueError, match="0 < q < 1"):
        blend.quantile(1.0)
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1"):
        blend.interval(2)


def test_samples_are_of_the_mixture(blend):
    labels = blend.sample(20_000, seed=3)
    for n, labels_of_bag in enumerate(labels.T):
        uniform = [blend.cdf(np.full(2, y))[n] for y in labels_of_bag[:1000]]
        assert stats.kstest(uniform, "uniform").pvalue > 1e-4
    np.testing.assert_array_equal(blend.sample(5, seed=1), blend.sample(5, seed=1))
    assert blend.sample(seed=1).shape == (2, 2)
    with pytest.raises(ValueError, match="size must be None or an integer >= 1"):
        blend.sample(0)


def test_a_weight_of_one_is_that_model(blend):
    alone = mix([normals(), gridded()], [0.0, 1.0])
    for name in ("mean", "sd"):
        np.testing.assert_allclose(getattr(alone, name), getattr(gridded(), name), rtol=1e-9)
    np.testing.assert_allclose(alone.quantile(0.2), gridded().quantile(0.2), rtol=1e-9)
    np.testing.assert_allclose(alone.log_prob(Y), gridded().log_prob(Y))


def test_normals_alone_need_no_blend():
    assert isinstance(mix([normals(), normals()], WEIGHTS), Predictive)


def test_bags_must_have_the_same_ids_where_they_have_some():
    def with_ids(*ids):
        return normals().with_ids_of(SimpleNamespace(ids=np.array(ids), id_name="bag"))

    mixed = mix([with_ids("a", "b"), normals(), with_ids("a", "b")], [0.2, 0.3, 0.5])
    assert mixed.n_draws == 3
    with pytest.raises(ValueError, match="of bags with different ids"):
        mix([with_ids("a", "b"), with_ids("b", "a")], WEIGHTS)
