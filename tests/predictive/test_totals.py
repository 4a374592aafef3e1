"""Predictive mixtures of counts and positive totals against SciPy draw by draw, and Monte Carlo."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.predictive import AggregatePredictive, mix, mixture
from bdr_stan.predictive.totals import count_quantile

S, N = 9, 6
NAMES = ("poisson", "negative binomial", "exponential", "gamma", "binomial")
COUNTS = [name for name in NAMES if LIKELIHOODS[name].is_count]


class Case:
    """Means of the draws, with what the likelihood needs besides; the bags' scales differ much."""

    def __init__(self, rng, name, weighted=False):
        self.name = name
        spread = rng.gamma(4, 0.25, (S, N))
        if name == "binomial":
            self.mean = np.clip(0.4 * spread * np.geomspace(1e-3, 1, N), 0, 0.95)
        else:
            self.mean = spread * np.geomspace(0.02, 1e6, N)
        self.scales = {scale: rng.uniform(0.1, 1, S) for scale in LIKELIHOODS[name].scales}
        trials = {"trials": np.array([1, 3, 20, 50, 400, 10**6])}
        self.of_bags = trials if name == "binomial" else {}
        self.weights = rng.dirichlet(np.ones(S)) if weighted else None

    @property
    def predictive(self):
        return AggregatePredictive(
            lambda i: self.mean[:, i],
            N,
            S,
            LIKELIHOODS[self.name],
            **self.of_bags,
            weights=self.weights,
            **self.scales,
        )

    def draw(self, s, i):
        """SciPy's distribution of bag i under draw s, parametrised apart from the code."""
        mean = self.mean[s, i]
        if self.name == "poisson":
            return stats.poisson(mean)
        if self.name == "exponential":
            return stats.gamma(1, scale=mean)
        if self.name == "gamma":
            square = self.scales["dispersion"][s] ** 2
            return stats.gamma(1 / square, scale=mean * square)
        if self.name == "binomial":
            return stats.binom(self.of_bags["trials"][i], mean)
        variance = mean + self.scales["dispersion"][s] ** 2 * mean**2
        return stats.nbinom(mean**2 / (variance - mean), mean / variance)

    def average(self, function, i):
        """Average of a function of bag i's distributions over the draws."""
        return np.average([function(self.draw(s, i)) for s in range(S)], weights=self.weights)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["equal", "weighted"])
def case(rng, name, request):
    return Case(rng, name, request.param)


def labels_near(case):
    y = case.predictive.mean * np.linspace(0.3, 1.6, N)
    return np.round(y) if case.name in COUNTS else y


def test_moments_are_those_of_the_mixture(case):
    p = case.predictive
    assert len(p) == N and p.n_draws == S
    assert f"({case.name}, 6 bags, 9 draws" in repr(p)
    for i in range(N):
        mean = case.average(lambda d: d.mean(), i)
        square = case.average(lambda d: d.var() + d.mean() ** 2, i)
        assert p.mean[i] == pytest.approx(mean)
        assert p.sd[i] ** 2 == pytest.approx(square - mean**2)


def test_density_and_cdf_are_averages_over_draws(case):
    p, y = case.predictive, labels_near(case)
    each = p.log_likelihood(y)
    assert each.shape == (S, N)
    log_density = "logpmf" if case.name in COUNTS else "logpdf"
    for i in range(N):
        np.testing.assert_allclose(
            each[:, i], [getattr(case.draw(s, i), log_density)(y[i]) for s in range(S)], rtol=1e-9
        )
        assert p.cdf(y)[i] == pytest.approx(case.average(lambda d, i=i: d.cdf(y[i]), i))
    b = 1 / S if case.weights is None else case.weights[:, None]
    np.testing.assert_allclose(p.log_prob(y), logsumexp(each, b=b, axis=0), rtol=1e-12)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_have_probability_one_in_all(rng, name):
    case = Case(rng, name)
    total = np.zeros(2)
    for y in range(40):
        total += np.exp(case.predictive.log_prob(np.full(N, y)))[:2]
    np.testing.assert_allclose(total, 1, rtol=1e-9)
    assert np.all(case.predictive.log_prob(np.full(N, 2.5)) == -np.inf)
    assert np.all(case.predictive.cdf(np.full(N, -1)) == 0)


@pytest.mark.parametrize("q", [1e-6, 0.025, 0.3, 0.5, 0.9, 0.975, 1 - 1e-6])
@pytest.mark.parametrize("name", COUNTS)
def test_quantile_is_the_smallest_count_that_reaches_q(rng, name, q):
    for weighted in (False, True):
        p = Case(rng, name, weighted).predictive
        x = p.quantile(q)
        assert x.shape == (N,) and np.all(x == np.floor(x)) and np.all(x >= 0)
        assert np.all(p.cdf(x) >= q)
        assert np.all(p.cdf(x - 1) < q)


def test_quantile_of_one_draw_is_scipys(rng):
    for name in NAMES:
        case = Case(rng, name)
        p = AggregatePredictive(
            lambda i, case=case: case.mean[:1, i],
            N,
            1,
            LIKELIHOODS[name],
            **case.of_bags,
            **{scale: values[:1] for scale, values in case.scales.items()},
        )
        for q in (0.01, 0.5, 0.999):
            expected = [case.draw(0, i).ppf(q) for i in range(N)]
            np.testing.assert_allclose(p.quantile(q), expected, rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COUNTS])
def test_quantile_of_positive_totals_inverts_the_cdf(rng, name):
    p = Case(rng, name, weighted=True).predictive
    for q in (1e-6, 0.025, 0.5, 0.99, 1 - 1e-6):
        np.testing.assert_allclose(p.cdf(p.quantile(q)), q, rtol=1e-7)


@pytest.mark.parametrize("spread", [0.0, 1e-3, 0.2])
def test_quantile_takes_few_steps_where_counts_are_large(rng, spread):
    mean = 1e6 * np.exp(spread * rng.normal(size=(501, 20)))
    p = AggregatePredictive(lambda i: mean[:, i], 20, 501, LIKELIHOODS["poisson"])
    evaluated = []

    def given_draw(j):
        evaluated.append(len(j))
        return stats.poisson(mean[:, j])

    for q in (0.025, 0.5, 0.975):
        x = count_quantile(given_draw, p.mean, p.sd, q, np.full(501, 1 / 501))
        np.testing.assert_array_equal(x, p.quantile(q))
    assert sum(evaluated) < 3 * 20 * 6  # halving alone takes from 12 to 20 steps


def test_quantiles_where_modes_do_not_touch_or_nothing_varies():
    p = AggregatePredictive(
        lambda i: np.array([[0.0, 0.0], [1e4, 0.0]])[:, i], 2, 2, LIKELIHOODS["poisson"]
    )
    np.testing.assert_array_equal(p.quantile([0.25, 0.5]), [[0, 0], [0, 0]])
    assert p.quantile(0.75)[0] == pytest.approx(1e4, rel=1e-3) and p.quantile(0.75)[1] == 0
    certain = AggregatePredictive(
        lambda i: np.ones((3, 1)), 1, 3, LIKELIHOODS["binomial"], trials=[7]
    )
    assert list(certain.quantile([0.01, 0.99])[:, 0]) == [7, 7] and certain.sd[0] == 0


def test_intervals_are_made_of_quantiles(case):
    p = case.predictive
    x = p.quantile([0.1, 0.25, 0.75, 0.9])
    assert x.shape == (4, N) and np.all(np.diff(x, axis=0) >= 0)
    np.testing.assert_allclose(p.interval(0.8), x[[0, 3]], rtol=1e-8)
    np.testing.assert_allclose(p.interval(0.5), x[[1, 2]], rtol=1e-8)


def test_samples_have_the_mixture_s_distribution(case):
    p, size = case.predictive, 20_000
    labels = p.sample(size, seed=5)
    assert labels.shape == (size, N)
    assert (labels.dtype.kind == "i") == (case.name in COUNTS)
    np.testing.assert_array_less(np.abs(labels.mean(axis=0) - p.mean), 4.5 * p.sd / np.sqrt(size))
    for q in (0.2, 0.5, 0.8):
        quantile = p.quantile(q)
        share, expected = np.mean(labels <= quantile, axis=0), p.cdf(quantile)
        error = np.sqrt(expected * (1 - expected) / size)
        np.testing.assert_array_less(np.abs(share - expected), 4.5 * error + 1e-12)
    np.testing.assert_array_equal(p.sample(3, seed=4), p.sample(3, seed=np.random.default_rng(4)))


def test_default_sample_follows_the_draws(rng):
    mean = 10.0 ** np.arange(8, 8 + S)[:, None] * np.ones(N)  # sds are small beside them
    labels = AggregatePredictive(lambda i: mean[:, i], N, S, LIKELIHOODS["poisson"]).sample(seed=1)
    np.testing.assert_allclose(labels, mean, rtol=1e-3)


@pytest.mark.parametrize("at_once", [1, 2 * S, 3 * S + 1])
def test_chunks_do_not_matter(case, monkeypatch, at_once):
    y = labels_near(case)

    def everything():
        p = case.predictive
        return [p.mean, p.sd, p.quantile([0.1, 0.8]), p.log_prob(y), p.log_likelihood(y), p.cdf(y)]

    whole = everything()
    monkeypatch.setattr(mixture, "COMPONENTS_AT_ONCE", at_once)
    for one, other in zip(whole, everything(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert case.predictive.sample(4, seed=1).shape == (4, N)


def test_mix_weighs_the_draws_of_all(rng, name):
    one, other = Case(rng, name), Case(rng, name, weighted=True)
    p, y = mix([one.predictive, other.predictive], [0.3, 0.7]), labels_near(one)
    assert isinstance(p, AggregatePredictive) and p.n_draws == 2 * S
    parts = [c.predictive for c in (one, other)]
    np.testing.assert_allclose(p.cdf(y), 0.3 * parts[0].cdf(y) + 0.7 * parts[1].cdf(y), rtol=1e-10)
    np.testing.assert_allclose(p.mean, 0.3 * parts[0].mean + 0.7 * parts[1].mean, rtol=1e-10)


@pytest.mark.parametrize(
    "name, given, message",
    [
        ("poisson", {"trials": [1]}, r"of the poisson likelihood are \[\], found \['trials'\]"),
        ("binomial", {"dispersion": [1, 1]}, r"are \['trials'\], found \['dispersion'\]"),
        ("binomial", {}, r"of the binomial likelihood are \['trials'\], found \[\]"),
        ("negative binomial", {}, r"are \['dispersion'\], found \[\]"),
        ("binomial", {"trials": [3, 4]}, r"trials must be numbers >= 0 of shape \(1,\)"),
        ("binomial", {"trials": [np.nan]}, "trials must be numbers >= 0"),
        ("negative binomial", {"dispersion": [0.1]}, r"dispersion must be .* of shape \(2,\)"),
        ("negative binomial", {"dispersion": [0.1, -1]}, "dispersion must be numbers >= 0"),
    ],
)
def test_what_a_likelihood_does_not_take_or_lacks(name, given, message):
    with pytest.raises(ValueError, match=message):
        AggregatePredictive(lambda i: np.ones((2, len(i))), 1, 2, LIKELIHOODS[name], **given)


def test_levels_and_labels_that_are_of_no_use(case):
    p = case.predictive
    with pytest.raises(ValueError, match="quantiles need 0 < q < 1, found q = 1"):
        p.quantile(1)
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1, found 95"):
        p.interval(95)
    for method in (p.cdf, p.log_prob, p.log_likelihood):
        with pytest.raises(ValueError, match=r"y has shape \(3,\), expected \(6,\)"):
            method(np.zeros(3))
