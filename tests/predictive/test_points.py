"""Posterior of the rate at points against all points and draws at once."""

import numpy as np
import pytest
from builders.point_posteriors import point_case
from scipy import stats
from scipy.sparse import csc_array

from bdr_stan import threads
from bdr_stan.aggregate.links import LINKS
from bdr_stan.kernels import RBF, LandmarkFeatures, Linear
from bdr_stan.predictive import PointPredictive, points

N, S = 53, 40


@pytest.fixture(params=LINKS)
def link(request):
    return request.param


@pytest.fixture
def case(rng):
    return point_case(rng, N, S)


def test_moments_quantiles_and_probabilities(case, link):
    p, each = case.posterior(link), case.rates(link)
    assert len(p) == N and f"PointPredictive(53 points, 40 draws, link {link};" in repr(p)
    np.testing.assert_allclose(p.mean, each.mean(axis=1), rtol=1e-8)
    np.testing.assert_allclose(p.sd, each.std(axis=1), rtol=1e-8)
    np.testing.assert_allclose(p.quantile(0.3), np.quantile(each, 0.3, axis=1), rtol=1e-8)
    several = p.quantile([0.05, 0.5, 0.95])
    assert several.shape == (3, N)
    np.testing.assert_allclose(p.interval(0.9), several[[0, 2]], rtol=1e-10)
    threshold = np.median(each)
    np.testing.assert_allclose(
        p.exceedance(threshold), np.mean(each > threshold, axis=1), atol=1e-12
    )
    np.testing.assert_allclose(p.draws([50, 3, 3]), each[[50, 3, 3]].T, rtol=1e-8)


def test_a_threshold_and_a_rate_for_each_point(case, rng):
    p, each = case.posterior(), case.rates()
    threshold = rng.gamma(2, 1, N)
    above = np.mean(each > threshold[:, None], axis=1)
    np.testing.assert_allclose(p.exceedance(threshold), above, atol=1e-12)
    np.testing.assert_allclose(p.cdf(threshold), 1 - above, atol=1e-12)
    np.testing.assert_allclose(p.cdf(p.quantile(0.5)), 0.5, atol=1e-12)  # 20 of 40 draws


def test_weighted_sums_under_each_draw(case, link, rng, monkeypatch):
    coefficients = rng.gamma(1, 1, (4, N)) * (rng.random((4, N)) < 0.3)
    each = case.rates(link)
    for points_at_once in (17, 1000):
        monkeypatch.setattr(points, "CHUNK_BYTES", 8 * sum(case.theta.shape) * points_at_once)
        rates, above = case.posterior(link).weighted_sums(csc_array(coefficients), 0.4)
        np.testing.assert_allclose(rates, (coefficients @ each).T, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(above, (coefficients @ (each > 0.4)).T, atol=1e-12)


def test_the_residual_variance_of_sums_is_independent_between_points():
    """Points without features, f ~ N(0, rho^2): numbers above thresholds are binomial."""

    class Nothing:
        def __call__(self, points, out):
            out[:] = 0.0

        def residual_variance(self, points, psi):
            return np.ones(len(points))

    n, S = 400, 500
    p = PointPredictive(
        lambda a, b: np.zeros((b - a, 1)), n, Nothing(), np.zeros((S, 2)), LINKS["identity"],
        rho=np.tile([0.5, 2.0], S // 2),
    )  # fmt: skip
    rates, above = p.weighted_sums(csc_array(np.ones((1, n))), 0.0)
    assert above.mean() == pytest.approx(n / 2, abs=5 * np.sqrt(n / 4 / S))
    assert above.std() == pytest.approx(np.sqrt(n / 4), rel=0.15)
    np.testing.assert_array_equal(rates, np.zeros((S, 1)))
    again = p.weighted_sums(csc_array(np.ones((1, n))), 0.0)
    np.testing.assert_array_equal(above, again[1])
    _, above = p.weighted_sums(csc_array(np.ones((1, n))), 1.0)
    for found, rho in zip((above[::2], above[1::2]), (0.5, 2.0), strict=True):
        share = stats.norm.sf(1 / rho)
        error = 5 * np.sqrt(n * share * (1 - share) / (S / 2))
        assert found.mean() == pytest.approx(n * share, abs=error)


def test_weights_count_draws(case, link, rng):
    counts = rng.multinomial(60, rng.dirichlet(np.ones(S)))
    weighted = case.posterior(link, weights=counts / 60)
    repeated = case._replace(theta=np.repeat(case.theta, counts, axis=0)).posterior(link)
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-9)
    np.testing.assert_allclose(weighted.sd, repeated.sd, rtol=1e-9)
    np.testing.assert_allclose(weighted.exceedance(0.8), repeated.exceedance(0.8), atol=1e-12)
    expected = np.quantile(repeated.draws(np.arange(N)), 0.37, axis=0, method="inverted_cdf")
    np.testing.assert_allclose(weighted.quantile(0.37), expected, rtol=1e-9)


def test_square_of_normal_draws_has_the_moments_of_a_chi_square(rng):
    """f ~ N(m, s^2): f^2 has mean m^2 + s^2, variance 2 s^4 + 4 m^2 s^2, a known distribution."""
    as_they_are = LandmarkFeatures(Linear(), np.eye(1))
    theta = np.column_stack([rng.normal(0.7, 0.4, 200_000), np.zeros(200_000)])
    p = PointPredictive(lambda a, b: np.ones((b - a, 1)), 2, as_they_are, theta, LINKS["square"])
    mean, variance = 0.7**2 + 0.4**2, 2 * 0.4**4 + 4 * 0.7**2 * 0.4**2
    assert p.mean == pytest.approx(mean, abs=4 * np.sqrt(variance / 200_000))
    assert p.sd == pytest.approx(np.sqrt(variance), rel=0.02)
    exact = stats.ncx2(1, (0.7 / 0.4) ** 2, scale=0.4**2)
    assert p.exceedance(1.0) == pytest.approx(exact.sf(1.0), abs=0.005)
    assert p.quantile(0.9)[0] == pytest.approx(exact.ppf(0.9), rel=0.02)


@pytest.mark.parametrize("points_at_once", [16, 17, 52, 1000])
def test_chunks_and_threads_do_not_matter(case, link, monkeypatch, points_at_once):
    def everything():
        p = case.posterior(link)
        return [p.mean, p.sd, p.quantile([0.1, 0.8]), p.exceedance(0.4), p.cdf(np.full(N, 0.2))]

    monkeypatch.setattr(threads, "effective_n_jobs", lambda _: 1)
    whole = everything()
    monkeypatch.setattr(threads, "effective_n_jobs", lambda _: 3)
    monkeypatch.setattr(points, "CHUNK_BYTES", 8 * sum(case.theta.shape) * points_at_once)
    for one, other in zip(whole, everything(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_points_of_a_file_are_read_chunk_by_chunk(case, tmp_path, monkeypatch):
    np.save(tmp_path / "points.npy", case.points.astype(np.float32))
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    monkeypatch.setattr(points, "CHUNK_BYTES", 8 * sum(case.theta.shape) * 20)
    asked = []

    def read(start, stop):
        asked.append((start, stop))
        return mapped[start:stop]

    p = PointPredictive(read, N, case.features, case.theta, LINKS["square"])
    np.testing.assert_allclose(p.mean, case.rates().mean(axis=1), rtol=1e-5)
    assert sorted(asked) == [(0, 20), (20, 40), (40, 53)]
    assert p.sd.shape == (N,) and len(asked) == 3  # mean and sd share one pass


def test_few_draws_of_many_weights_take_no_more_memory():
    """A mode is one draw: chunks are as small as the features of their points ask."""
    many = np.linspace(-1, 1, 1000)[:, None]
    features = LandmarkFeatures(RBF(0.5), many)
    asked = []

    def read(start, stop):
        asked.append(stop - start)
        return np.zeros((stop - start, 1))

    p = PointPredictive(read, 5000, features, np.full((1, 1001), 1e-3), LINKS["exp"])
    np.testing.assert_allclose(p.mean, p.mean[0], rtol=1e-10)
    assert p.sd.max() == 0
    assert sum(asked) == 5000 and max(asked) * 1001 * 8 < points.CHUNK_BYTES


def test_errors_of_reading_are_raised(case):
    def read(start, stop):
        raise ValueError("point 3 is NaN")

    with pytest.raises(ValueError, match="point 3 is NaN"):
        PointPredictive(read, N, case.features, case.theta, LINKS["square"]).mean  # noqa: B018


def test_bad_input(case):
    p = case.posterior()
    with pytest.raises(ValueError, match="quantiles need 0 < q < 1, found q = 0"):
        p.quantile(0)
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1, found 95"):
        p.interval(95)
    with pytest.raises(ValueError, match=r"threshold has shape \(2,\): pass one number, or one"):
        p.exceedance([1.0, 2.0])
    with pytest.raises(ValueError, match="the threshold is NaN"):
        p.exceedance(np.nan)
    for row in (-1, N):
        with pytest.raises(ValueError, match=f"no point {row}: the points are 0 to 52"):
            p.draws([0, row])
    for rows, found in (([0.5], r"float64 of shape \(1,\)"), (3, r"int64 of shape \(\)"), ([], "")):
        with pytest.raises(ValueError, match=f"rows must list numbers of points, found {found}"):
            p.draws(rows)
