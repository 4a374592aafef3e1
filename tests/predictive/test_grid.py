"""Densities on a grid of labels against densities that are known."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp

from bdr_stan.predictive import GridPredictive, mixture
from bdr_stan.predictive.grid import RepeatedLabels, trapezoid_weights, weights_at, weights_between

GRID = np.sort(np.r_[np.linspace(-9, 9, 1501), np.random.default_rng(1).uniform(-9, 9, 300)])
MEAN = np.array([[-1.0, 0.3, 2.0], [-0.5, 0.5, 1.0]])  # two draws, three bags
SD = np.array([[0.4, 0.7, 1.1], [0.5, 0.6, 0.9]])


def on_grid(log_density, n_bags, n_draws, grid, noise_sd=None):
    """Of densities log_density(draw, bags) at the labels of the grid."""

    def log_densities(i):
        for draw in range(n_draws):
            yield log_density(draw, i)

    return GridPredictive(log_densities, grid, n_bags, n_draws, noise_sd)


def normals_with(noise_sd):
    """Mixtures of two normals, and noise."""
    return on_grid(
        lambda s, i: stats.norm.logpdf(GRID, MEAN[s, i, None], SD[s, i, None]), 3, 2, GRID, noise_sd
    )


@pytest.fixture
def normals():
    return normals_with(None)


@pytest.fixture
def triangle():
    """Bag 0 falls from 0 to 2, bag 1 rises: densities that are linear, and so exact on any grid."""
    grid = np.array([0.0, 0.3, 1.1, 2.0])
    density = np.array([(2 - grid) / 2, grid / 2])
    with np.errstate(divide="ignore"):
        values = np.log(density)
    return on_grid(lambda s, i: values[i], 2, 1, grid)


def with_repeated_labels():
    """Probability .3 of 0, .2 of 1, and half of the mass uniform on [0, 2]; resolutions .1, .4."""
    grid = np.array([0.0, 1e-6, 0.5, 1 - 1e-6, 1.0, 1 + 1e-6, 2.0])
    density, weights = np.full(7, 0.25), trapezoid_weights(grid)
    density[[0, 4]] = np.array([0.3, 0.2]) / weights[[0, 4]]
    repeated = RepeatedLabels(np.array([0.0, 1.0]), np.array([0.1, 0.4]))
    values = np.log(np.tile(density, (2, 1)))
    return GridPredictive(lambda i: iter([values[i]]), grid, 2, 1, repeated=repeated)


def test_repeated_labels_have_probabilities():
    found = with_repeated_labels()
    np.testing.assert_allclose(found.mean, 0.2 + 0.5, rtol=1e-5)
    for label, below in ((-1e-9, 0), (0.0, 0.3), (0.4, 0.4), (1.0, 0.75), (1.5, 0.875), (2.0, 1)):
        np.testing.assert_allclose(found.cdf([label, label]), below, atol=1e-5)
    for level, label in ((0.01, 0), (0.29, 0), (0.4, 0.4), (0.56, 1), (0.74, 1), (0.875, 1.5)):
        assert found.quantile(level)[0] == pytest.approx(label, abs=1e-4)
        assert label not in (0, 1) or found.quantile(level)[0] == label  # exactly
    drawn = found.sample(4000, seed=1)
    assert np.mean(drawn == 0) == pytest.approx(0.3, abs=0.03)
    assert np.mean(drawn == 1) == pytest.approx(0.2, abs=0.03)


def test_repeated_labels_are_as_dense_as_their_resolution_says():
    found = with_repeated_labels()
    np.testing.assert_allclose(np.exp(found.log_prob([0.0, 1.0])), [3.0, 0.5], rtol=1e-6)
    np.testing.assert_allclose(np.exp(found.log_prob([0.4, 1.7])), 0.25, rtol=1e-6)


def test_weights_are_those_of_the_trapezoidal_rule(rng):
    values = rng.normal(size=len(GRID))
    assert trapezoid_weights(GRID) @ values == pytest.approx(np.trapezoid(values, GRID))


def assert_is_a_mixture_of_normals(found, y, sd):
    """Of the means of both draws with these standard deviations."""
    mean = MEAN.mean(axis=0)
    np.testing.assert_allclose(found.mean, mean, atol=1e-3)
    np.testing.assert_allclose(found.sd**2, np.mean(sd**2 + MEAN**2, axis=0) - mean**2, rtol=1e-3)
    np.testing.assert_allclose(found.cdf(y), stats.norm.cdf(y, MEAN, sd).mean(axis=0), atol=1e-3)
    each = stats.norm.logpdf(y, MEAN, sd)
    np.testing.assert_allclose(found.log_likelihood(y), each, atol=5e-3)
    np.testing.assert_allclose(found.log_prob(y), logsumexp(each, axis=0) - np.log(2), atol=5e-3)


def test_a_mixture_of_normals(normals):
    assert_is_a_mixture_of_normals(normals, np.array([-0.8, 0.1, 2.5]), SD)
    assert f"3 bags, 2 draws, {len(GRID)} labels" in repr(normals)


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


@pytest.mark.filterwarnings("error")
def test_the_median_of_a_density_with_a_gap_is_in_it():
    """Half of it is below 1, exactly, half above 4; there it begins at 0."""
    with np.errstate(divide="ignore"):
        values = np.log([[1.0, 0, 0, 0, 0, 1]])
    p = on_grid(lambda s, i: values[i], 1, 1, np.arange(6.0))
    assert 1 <= p.quantile(0.5)[0] <= 4


def test_samples_are_of_the_density(normals):
    labels = normals.sample(20_000, seed=3)
    assert labels.shape == (20_000, 3)
    for n, labels_of_bag in enumerate(labels.T):
        uniform = [normals.cdf(np.full(3, y))[n] for y in labels_of_bag[:1000]]
        assert stats.kstest(uniform, "uniform").pvalue > 1e-4
    away = np.abs(labels.mean(axis=0) - normals.mean)
    np.testing.assert_array_less(away, 4.5 * normals.sd / np.sqrt(20_000))
    assert normals.sample(seed=1).shape == (2, 3)


@pytest.mark.parametrize("noise_sd", [None, np.array([0.4, 0.1, 0.4])])
@pytest.mark.parametrize("kept", [True, False])
def test_neither_chunks_nor_memory_matter(monkeypatch, kept, noise_sd):
    normals = normals_with(noise_sd)

    def everything(p):
        y = np.array([-0.8, 0.1, 2.5])
        return [p.mean, p.sd, p.quantile([0.1, 0.8]), p.cdf(y), p.log_prob(y), p.log_likelihood(y)]

    whole = everything(normals)
    monkeypatch.setattr(mixture, "COMPONENTS_AT_ONCE", 2 * len(GRID))
    if not kept:
        monkeypatch.setattr("bdr_stan.predictive.grid._MOST_KEPT", 0)
    again = GridPredictive(normals.log_densities, GRID, 3, 2, noise_sd)
    assert max(len(i) for i, _ in again._chunks()) == 2
    for one, other in zip(whole, everything(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_labels_must_be_one_a_bag(normals):
    for ask in (normals.cdf, normals.log_prob, normals.log_likelihood):
        with pytest.raises(ValueError, match="y has shape"):
            ask([0.0, 1.0])
    with pytest.raises(TypeError, match="'a', not a number"):
        normals.cdf(["a"] * 3)


# ---------------------------------------------------------------- noise


def test_normals_with_noise_are_wider_normals():
    noise = np.array([0.05, 0.8, 3.0])  # from less than labels of the grid are apart
    found, sd = normals_with(noise), np.hypot(SD, noise)
    assert_is_a_mixture_of_normals(found, np.array([-0.8, 0.1, 9.5]), sd)
    np.testing.assert_allclose(found.expected(np.arange(3)), MEAN, atol=1e-3)
    for level in (0.01, 0.3, 0.975):
        np.testing.assert_allclose(found.cdf(found.quantile(level)), level, rtol=1e-9)
    labels = found.sample(20_000, seed=3)
    for n, labels_of_bag in enumerate(labels.T):
        draw = np.random.default_rng(n).integers(0, 2, 20_000)
        expected = np.random.default_rng(5).normal(MEAN[draw, n], sd[draw, n])
        assert stats.ks_2samp(labels_of_bag, expected).pvalue > 1e-4


def falling_with(y, noise_sd):
    """Density at y of a label whose own density falls from 1 at 0 to 0 at 2, with noise."""
    ends = [0.0, 0.01, 0.1, 1.0, 1.9, 1.99, 2.0]
    pieces = [
        quad(lambda label: (1 - label / 2) * stats.norm.pdf(y, label, noise_sd), *piece, epsabs=0)[
            0
        ]
        for piece in pairwise(ends)
    ]
    return sum(pieces)


def test_noise_of_labels_with_ends_against_integrals(triangle):
    noise = np.array([0.3, 1.5])
    found = GridPredictive(triangle.log_densities, triangle.grid, 2, 1, noise)
    for y in (-2.0, -0.4, 0.9, 2.4):
        expected = [falling_with(y, noise[0]), falling_with(2 - y, noise[1])]
        np.testing.assert_allclose(np.exp(found.log_prob([y, y])), expected, rtol=1e-6)


def test_tails_of_noise_keep_their_digits(triangle):
    found = GridPredictive(triangle.log_densities, triangle.grid, 2, 1, np.array([0.1, 0.1]))
    for y in (-1.5, 3.5):
        expected = np.log([falling_with(y, 0.1), falling_with(2 - y, 0.1)])
        assert expected.max() < -100
        np.testing.assert_allclose(found.log_prob([y, y]), expected, rtol=1e-6)


def test_tails_of_noise_keep_their_digits_where_the_grid_is_longer():
    """Noise of labels above 0, on a grid that begins at -3, where they are not."""
    with np.errstate(divide="ignore"):
        values = np.log([[0, 0, 0.5, 1.0]])
    found = on_grid(lambda s, i: values[i], 1, 1, np.array([-3.0, 0, 1, 2]), np.array([0.1]))
    assert found.log_prob([-1.5])[0] == pytest.approx(np.log(falling_with(3.5, 0.1)), rel=1e-6)


def test_quantiles_of_labels_with_noise_are_in_its_tails():
    """Of labels that are little but noise; as many below a grid of three labels as above."""
    grid, levels = np.linspace(-0.1, 0.1, 41), np.array([1e-4, 0.1, 0.9, 0.9999])
    for sd in (1.0, 1000.0):
        noise = on_grid(lambda s, i: np.full((1, 41), np.log(5)), 1, 1, grid, np.array([sd]))
        found = noise.quantile(levels)[:, 0]
        np.testing.assert_allclose(found / sd, stats.norm.ppf(levels), atol=0.01)
    grid = np.array([-20.0, 0, 20])
    wide = on_grid(lambda s, i: np.full((1, 3), -np.log(40)), 1, 1, grid, np.ones(1))
    found = wide.quantile([0.001, 0.999])[:, 0]
    assert found[1] > 20
    assert -found[0] == pytest.approx(found[1])


def test_no_noise_is_as_none(normals):
    y = np.array([-0.8, 0.1, 2.5])
    for noise, same in ((np.zeros(3), slice(None)), (np.array([0.0, 0.5, 0.0]), [0, 2])):
        found = normals_with(noise)
        for name in ("log_prob", "cdf", "log_likelihood"):
            values, expected = getattr(found, name)(y), getattr(normals, name)(y)
            np.testing.assert_allclose(values[..., same], expected[..., same], rtol=1e-9)
        np.testing.assert_array_equal(found.mean, normals.mean)
        np.testing.assert_array_equal(found.sd[same], normals.sd[same])
        values, expected = found.quantile([0.1, 0.6]), normals.quantile([0.1, 0.6])
        np.testing.assert_allclose(values[:, same], expected[:, same], rtol=1e-9)


def test_weights_of_noise_add_to_the_share_that_lies_on_the_grid():
    grid, labels = np.array([0.0, 0.1, 1.0, 1.2]), np.array([-0.3, 0.5, 2.0])
    sd = np.array([0.5, 0.01, 0.7])
    share = np.diff(stats.norm.cdf(np.array([[0.0], [1.2]]), labels, sd), axis=0)[0]
    weights = weights_at(labels, grid, sd)
    np.testing.assert_allclose(weights.sum(axis=1), share, rtol=1e-10)
    np.testing.assert_allclose(weights[1] @ grid, 0.5, rtol=1e-10)


def test_weights_between_labels_of_the_grid_are_linear_and_none_beyond_it():
    grid = np.array([0.0, 0.5, 2.0])
    labels = np.array([-0.1, 0.0, 0.2, 0.5, 1.9, 2.0, 2.1])
    expected = np.interp(labels, grid, [3.0, 1.0, 4.0], left=0.0, right=0.0)
    np.testing.assert_allclose(weights_between(labels, grid) @ [3.0, 1.0, 4.0], expected)
