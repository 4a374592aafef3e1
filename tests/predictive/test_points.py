"""Posterior of the rate at points against all points and draws at once."""

import numpy as np
import pytest
from scipy import stats

from bdr_stan.predictive import points as point_predictive
from bdr_stan.aggregate.rows import nystrom
from bdr_stan.kernels import RBF
from bdr_stan.metrics import normal_nll, point_calibration, poisson_nll
from bdr_stan.predictive.points import PointPredictive

N, S = 53, 40
RATES = {
    "square": lambda f: f**2,
    "exp": np.exp,
    "identity": lambda f: f,
    "logit": lambda f: 1 / (1 + np.exp(-f)),
}


@pytest.fixture(params=RATES)
def link(request):
    return request.param


@pytest.fixture
def case(rng):
    """Points, features and draws; the function changes sign."""
    points = rng.normal(size=(N, 3))
    return points, nystrom(RBF(1.5), points[:7].copy()), rng.normal(0.3, 1, size=(S, 8))


def posterior(case, link="square", **options):
    points, features, theta = case
    return PointPredictive(lambda a, b: points[a:b], N, features, theta, link, **options)


def rates(case, link="square"):
    """Rates at all points under all draws, shape (N, S), from the kernel itself."""
    points, features, theta = case
    landmarks = features.landmarks
    L = np.linalg.cholesky(RBF(1.5)(landmarks, landmarks) + 1e-6 * np.eye(7))
    psi = np.linalg.solve(L, RBF(1.5)(landmarks, points))
    return RATES[link](psi.T @ theta[:, :-1].T + theta[:, -1])


def test_moments_quantiles_and_probabilities(case, link):
    p, each = posterior(case, link), rates(case, link)
    assert len(p) == N and f"PointPredictive(53 points, 40 draws, link {link};" in repr(p)
    np.testing.assert_allclose(p.mean, each.mean(axis=1), rtol=1e-8)
    np.testing.assert_allclose(p.sd, each.std(axis=1), rtol=1e-8)
    np.testing.assert_allclose(p.quantile(0.3), np.quantile(each, 0.3, axis=1), rtol=1e-8)
    several = p.quantile([0.05, 0.5, 0.95])
    assert several.shape == (3, N)
    np.testing.assert_allclose(p.interval(0.9), several[[0, 2]], rtol=1e-10)
    at = np.median(each)
    np.testing.assert_allclose(p.exceedance(at), np.mean(each > at, axis=1), atol=1e-12)
    np.testing.assert_allclose(p.draws([50, 3, 3]), each[[50, 3, 3]].T, rtol=1e-8)


def test_a_threshold_and_a_rate_for_each_point(case, rng):
    p, each = posterior(case), rates(case)
    at = rng.gamma(2, 1, N)
    above = np.mean(each > at[:, None], axis=1)
    np.testing.assert_allclose(p.exceedance(at), above, atol=1e-12)
    np.testing.assert_allclose(p.cdf(at), 1 - above, atol=1e-12)
    np.testing.assert_allclose(p.cdf(p.quantile(0.5)), 0.5, atol=1e-12)  # 20 of 40 draws


def test_weights_count_draws(case, link, rng):
    points, features, theta = case
    counts = rng.multinomial(60, rng.dirichlet(np.ones(S)))
    weighted = posterior(case, link, weights=counts / 60)
    repeated = posterior((points, features, np.repeat(theta, counts, axis=0)), link)
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-9)
    np.testing.assert_allclose(weighted.sd, repeated.sd, rtol=1e-9)
    np.testing.assert_allclose(weighted.exceedance(0.8), repeated.exceedance(0.8), atol=1e-12)
    expected = np.quantile(repeated.draws(np.arange(N)), 0.37, axis=0, method="inverted_cdf")
    np.testing.assert_allclose(weighted.quantile(0.37), expected, rtol=1e-9)


def test_square_of_normal_draws_has_the_moments_of_a_chi_square(rng):
    """f ~ N(m, s^2): f^2 has mean m^2 + s^2, variance 2 s^4 + 4 m^2 s^2, a known distribution."""
    theta = rng.normal([0.7], 0.4, size=(200_000, 1))
    p = PointPredictive(lambda a, b: np.ones((b - a, 1)), 2, lambda x: x, theta, "square")
    mean, variance = 0.7**2 + 0.4**2, 2 * 0.4**4 + 4 * 0.7**2 * 0.4**2
    assert p.mean == pytest.approx(mean, abs=4 * np.sqrt(variance / 200_000))
    assert p.sd == pytest.approx(np.sqrt(variance), rel=0.02)
    exact = stats.ncx2(1, (0.7 / 0.4) ** 2, scale=0.4**2)
    assert p.exceedance(1.0) == pytest.approx(exact.sf(1.0), abs=0.005)
    assert p.quantile(0.9)[0] == pytest.approx(exact.ppf(0.9), rel=0.02)


@pytest.mark.parametrize("points_at_once", [16, 17, 52, 1000])
def test_chunks_and_threads_do_not_matter(case, link, monkeypatch, points_at_once):
    def everything(**options):
        p = posterior(case, link, **options)
        return [p.mean, p.sd, p.quantile([0.1, 0.8]), p.exceedance(0.4), p.cdf(np.full(N, 0.2))]

    whole = everything(n_jobs=1)
    monkeypatch.setattr(point_predictive, "_CHUNK_BYTES", 8 * S * points_at_once)
    for one, other in zip(whole, everything(n_jobs=3), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_points_of_a_file_are_read_chunk_by_chunk(case, tmp_path, monkeypatch):
    points, features, theta = case
    np.save(tmp_path / "points.npy", points.astype(np.float32))
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    monkeypatch.setattr(point_predictive, "_CHUNK_BYTES", 8 * S * 20)
    asked = []

    def read(start, stop):
        asked.append((start, stop))
        return mapped[start:stop]

    p = PointPredictive(read, N, features, theta, "square")
    np.testing.assert_allclose(p.mean, rates(case).mean(axis=1), rtol=1e-5)
    assert sorted(asked) == [(0, 20), (20, 40), (40, 53)]
    assert p.sd.shape == (N,) and len(asked) == 3  # mean and sd share one pass


def test_errors_of_reading_are_raised(case):
    def read(start, stop):
        raise ValueError("point 3 is NaN")

    with pytest.raises(ValueError, match="point 3 is NaN"):
        PointPredictive(read, N, *case[1:], "square").mean  # noqa: B018


def test_bad_input(case):
    with pytest.raises(ValueError, match="link must be one of square, exp, .*, found 'log'"):
        posterior(case, "log")
    p = posterior(case)
    with pytest.raises(ValueError, match="quantiles need 0 < q < 1, found q = 0"):
        p.quantile(0)
    with pytest.raises(ValueError, match="an interval needs 0 < level < 1, found level = 95"):
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


def test_links_stand_for_those_of_the_likelihoods(rng):
    from bdr_stan.aggregate.densities import RATES as of_likelihoods

    f = rng.normal(size=9)
    assert set(point_predictive.LINKS) == set(of_likelihoods)
    for name, link in point_predictive.LINKS.items():
        np.testing.assert_allclose(link(f), of_likelihoods[name](f)[0], rtol=1e-12)


# ---------------------------------------------------------------- how good they are


def test_nll_of_individuals(rng):
    y, rate = rng.poisson(3, 20), rng.gamma(3, 1, 20)
    assert poisson_nll(y, rate) == pytest.approx(-stats.poisson(rate).logpmf(y).mean())
    assert poisson_nll([0, 0], [0, 2]) == 1 and poisson_nll([1], [0]) == np.inf
    mean, sd = rng.normal(size=20), rng.gamma(3, 1, 20)
    assert normal_nll(y, mean, sd) == pytest.approx(-stats.norm(mean, sd).logpdf(y).mean())
    assert normal_nll(y, mean, 0.7) == pytest.approx(-stats.norm(mean, 0.7).logpdf(y).mean())


@pytest.mark.parametrize(
    "score, message",
    [
        (lambda: poisson_nll([1, 2.5], [1, 1]), r"y is 2.5 at individual 1: counts are 0, 1, 2"),
        (lambda: poisson_nll([1, -1], [1, 1]), "y is -1 at individual 1"),
        (lambda: poisson_nll([1, 1], [1, -2]), "rate is -2 at individual 1: rates are >= 0"),
        (lambda: poisson_nll([1, 1], [1, np.nan]), "rate is NaN at individual 1"),
        (lambda: poisson_nll([1, 1], [1]), r"rate has shape \(1,\) and y .* for each individual"),
        (lambda: normal_nll([1, 1], [1, 1], 0), "sd is 0 at individual 0: standard deviations"),
        (lambda: normal_nll([1, 1], [1, 1], [1.0]), r"sd has shape \(1,\) and y has shape \(2,\)"),
        (lambda: normal_nll([], [], 1), "there are no individuals to score"),
    ],
)
def test_nll_rejects(score, message):
    with pytest.raises(ValueError, match=message):
        score()


def test_point_calibration_counts_rates_inside_central_intervals(case, rng):
    p = posterior(case)
    truth = rng.gamma(2, 1, N)
    table = point_calibration(truth, p, [0.31, 0.73])
    assert list(table.columns) == ["level", "coverage"] and table["level"].tolist() == [0.31, 0.73]
    for level, share in table.to_numpy():
        lower, upper = np.quantile(rates(case), [(1 - level) / 2, (1 + level) / 2], axis=1)
        inside = np.mean((lower <= truth) & (truth <= upper))
        assert share == pytest.approx(inside, abs=2 / N)  # quantiles lie between draws
    assert 0.1 < table["coverage"][0] < table["coverage"][1] < 0.95


def test_point_calibration_of_a_calibrated_posterior(rng):
    """Truth and draws from one distribution, point by point."""
    theta = rng.normal(size=(2000, 1))
    scale = rng.gamma(3, 1, (3000, 1))
    p = PointPredictive(lambda a, b: scale[a:b], 3000, lambda x: x, theta, "exp")
    truth = np.exp(scale[:, 0] * rng.normal(size=3000))
    table = point_calibration(truth, p)
    np.testing.assert_allclose(table["coverage"], table["level"], atol=0.04)


def test_point_calibration_rejects(case):
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1, found 95"):
        point_calibration(np.ones(N), posterior(case), [95])
    with pytest.raises(ValueError, match=r"shape \(2,\): pass one number, or one for each of the"):
        point_calibration(np.ones(2), posterior(case))
