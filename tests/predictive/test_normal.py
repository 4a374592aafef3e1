"""Predictive mixtures of normals against SciPy and brute force."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from bdr_stan.predictive import Predictive, mix, mixture

S, N = 7, 5


@pytest.fixture
def parts(rng):
    """Means and sds of the components; bag 3 has well separated modes, bag 4 sds far apart."""
    mean, sd = rng.normal(size=(S, N)), rng.gamma(3, 0.3, (S, N))
    mean[:, 3] += np.where(np.arange(S) % 2, 30.0, -30.0)
    sd[:, 4] *= np.geomspace(1e-3, 1e3, S)
    return mean, sd


def mixture_of(mean, sd):
    return Predictive(lambda i: (mean[:, i], sd[:, i]), mean.shape[1], len(mean))


def cdf(parts, i, y):
    return stats.norm.cdf(y, parts[0][:, i], parts[1][:, i]).mean()


def test_moments_are_those_of_the_mixture(parts):
    p = mixture_of(*parts)
    assert len(p) == N and p.n_draws == S and p.mean.shape == p.sd.shape == (N,)
    assert "5 bags, 7 draws" in repr(p)
    for i, (m, s) in enumerate(zip(*(a.T for a in parts))):
        assert p.mean[i] == pytest.approx(m.mean())
        assert p.sd[i] ** 2 == pytest.approx(np.mean(s**2 + m**2) - m.mean() ** 2)


@pytest.mark.parametrize("q", [1e-6, 0.025, 0.3, 0.5, 0.9, 1 - 1e-6])
def test_quantile_inverts_the_cdf(parts, q):
    x = mixture_of(*parts).quantile(q)
    assert x.shape == (N,)
    for i in range(N):
        assert cdf(parts, i, x[i]) == pytest.approx(q, rel=1e-7)
        low, high = x[i] - 100, x[i] + 100
        root = optimize.brentq(lambda y, i=i: cdf(parts, i, y) - q, low, high, xtol=1e-13)
        assert x[i] == pytest.approx(root, rel=1e-7, abs=1e-8)


def test_quantile_between_modes_that_do_not_touch():
    p = mixture_of(np.array([[-30.0], [30.0]]), np.ones((2, 1)))
    assert abs(p.quantile(0.5)[0]) < 25  # the cdf is 1/2 all the way
    np.testing.assert_allclose(p.quantile([0.25, 0.75])[:, 0], [-30, 30], atol=1e-9)


def test_quantiles_are_ordered_and_intervals_made_of_them(parts):
    p = mixture_of(*parts)
    x = p.quantile([0.025, 0.25, 0.5, 0.75, 0.975])
    assert x.shape == (5, N) and np.all(np.diff(x, axis=0) > 0)
    np.testing.assert_allclose(p.interval(), x[[0, 4]], rtol=1e-8)
    np.testing.assert_allclose(p.interval(0.5), x[[1, 3]], rtol=1e-8)
    lower, upper = p.interval(0.8)
    for i in range(N):
        assert cdf(parts, i, upper[i]) - cdf(parts, i, lower[i]) == pytest.approx(0.8, abs=1e-8)


def test_log_prob_is_the_log_of_the_mean_density(parts, rng):
    p, y = mixture_of(*parts), rng.normal(size=N)
    each = p.log_likelihood(y)
    np.testing.assert_allclose(each, stats.norm.logpdf(y, *parts), rtol=1e-12)
    np.testing.assert_allclose(p.log_prob(y), np.log(np.exp(each).mean(axis=0)), rtol=1e-12)
    assert np.all(np.isfinite(p.log_prob(y + 1e4)[:3]))  # far in the tail, not log(0)


def test_density_integrates_to_one_and_to_the_moments(rng):
    mean, sd = rng.normal(size=(4, 1)), rng.gamma(3, 0.3, (4, 1))
    p = mixture_of(mean, sd)
    powers = [
        integrate.quad(lambda y, k=k: y**k * np.exp(p.log_prob([y])[0]), -15, 15, limit=200)[0]
        for k in range(3)
    ]
    expected = [1, p.mean[0], p.sd[0] ** 2 + p.mean[0] ** 2]
    np.testing.assert_allclose(powers, expected, rtol=1e-7)


def test_samples_have_the_mixture_s_distribution(parts):
    p = mixture_of(*parts)
    labels = p.sample(20_000, seed=5)
    assert labels.shape == (20_000, N)
    for i in range(N):
        uniform = stats.norm.cdf(labels[:, i, None], parts[0][:, i], parts[1][:, i]).mean(axis=1)
        assert stats.kstest(uniform, "uniform").pvalue > 1e-3, f"bag {i}"
    error = p.sd / np.sqrt(20_000)
    np.testing.assert_array_less(np.abs(labels.mean(axis=0) - p.mean), 4.5 * error)
    np.testing.assert_allclose(labels.std(axis=0), p.sd, rtol=0.05)


def test_default_sample_follows_the_draws(parts):
    mean, _ = parts
    p = mixture_of(mean, np.full_like(mean, 1e-9))
    labels = p.sample(seed=1)
    assert labels.shape == (S, N)
    np.testing.assert_allclose(labels, mean, atol=1e-7)
    np.testing.assert_array_equal(labels, p.sample(seed=1))
    assert not np.array_equal(labels, p.sample(seed=2))
    np.testing.assert_array_equal(p.sample(3, seed=np.random.default_rng(4)), p.sample(3, seed=4))


def test_one_draw_is_a_normal(rng):
    mean, sd = rng.normal(size=(1, N)), rng.gamma(3, 1, (1, N))
    p, normal, y = mixture_of(mean, sd), stats.norm(mean[0], sd[0]), rng.normal(size=N)
    np.testing.assert_allclose(p.mean, mean[0])
    np.testing.assert_allclose(p.sd, sd[0])
    np.testing.assert_allclose(p.quantile(0.2), normal.ppf(0.2), rtol=1e-12)
    np.testing.assert_allclose(p.interval(0.9), normal.interval(0.9), rtol=1e-12)
    np.testing.assert_allclose(p.log_prob(y), normal.logpdf(y), rtol=1e-12)
    assert p.sample(seed=0).shape == (1, N)


def test_standard_deviation_shared_by_the_bags(rng):
    """Components of shape (S, 1), as one size of bag has them, once broadcast to the bags."""
    mean, sd = rng.normal(size=(S, N)), np.tile(rng.gamma(3, 1, (S, 1)), N)
    np.testing.assert_allclose(
        mixture_of(mean, sd).sd, np.sqrt(np.mean(sd**2, axis=0) + mean.var(axis=0))
    )


@pytest.mark.parametrize("at_once", [1, S, 2 * S, 3 * S + 1])
def test_chunks_do_not_matter(parts, rng, monkeypatch, at_once):
    y = rng.normal(size=N)

    def everything():
        p = mixture_of(*parts)
        return [p.mean, p.sd, p.quantile([0.1, 0.8]), p.log_prob(y), p.log_likelihood(y)]

    whole = everything()
    monkeypatch.setattr(mixture, "COMPONENTS_AT_ONCE", at_once)
    asked = []
    Predictive(lambda i: asked.append(len(i)) or (parts[0][:, i], parts[1][:, i]), N, S)
    assert sum(asked) == N and max(asked) == max(1, at_once // S)
    for one, other in zip(whole, everything()):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert mixture_of(*parts).sample(4, seed=1).shape == (4, N)


@pytest.mark.parametrize("q", [0, 1, -0.1, 1.2, np.nan, [0.5, 1.0]])
def test_quantile_rejects(parts, q):
    with pytest.raises(ValueError, match="quantiles need 0 < q < 1, found q = "):
        mixture_of(*parts).quantile(q)


@pytest.mark.parametrize("level", [0, 1, 95, np.nan])
def test_interval_rejects(parts, level):
    with pytest.raises(ValueError, match=f"between 0 and 1, found {level}"):
        mixture_of(*parts).interval(level)


@pytest.mark.parametrize("y", [0.0, np.zeros(N + 1), np.zeros((N, 1))])
@pytest.mark.parametrize("method", ["log_prob", "log_likelihood"])
def test_labels_that_do_not_match_the_bags(parts, y, method):
    with pytest.raises(ValueError, match=r"y has shape \(.*\), expected \(5,\)"):
        getattr(mixture_of(*parts), method)(y)


def test_cdf_inverts_the_quantiles(rng):
    mean, sd = rng.normal(size=(30, 7)), rng.uniform(0.2, 2, (30, 7))
    predictive = Predictive(lambda i: (mean[:, i], sd[:, i]), 7, 30)
    for q in (0.03, 0.5, 0.9):
        np.testing.assert_allclose(predictive.cdf(predictive.quantile(q)), q, rtol=1e-8)
    with pytest.raises(ValueError, match=r"y has shape \(3,\), expected \(7,\)"):
        predictive.cdf(np.zeros(3))


def test_mix_weighs_the_draws_of_all(parts, rng):
    means, sds = parts
    one = Predictive(lambda i: (means[:3, i], sds[:3, i]), N, 3)
    weights = np.array([0.1, 0.2, 0.4, 0.3])
    other = Predictive(lambda i: (means[3:, i], sds[3:, i]), N, 4, weights)
    both, y = mix([one, other], [0.3, 0.7]), rng.normal(size=N)
    assert isinstance(both, Predictive) and both.n_draws == S
    np.testing.assert_allclose(both.weights, np.r_[[0.1] * 3, 0.7 * weights])
    np.testing.assert_allclose(both.mean, 0.3 * one.mean + 0.7 * other.mean, rtol=1e-12)
    np.testing.assert_allclose(both.cdf(y), 0.3 * one.cdf(y) + 0.7 * other.cdf(y), rtol=1e-12)
    quantile = both.quantile(0.4)
    np.testing.assert_allclose(0.3 * one.cdf(quantile) + 0.7 * other.cdf(quantile), 0.4, rtol=1e-8)
