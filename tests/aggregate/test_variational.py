"""VBAgg: expectations against draws, slopes against differences, the bound against the evidence."""

from math import factorial

import numpy as np
import pytest
from builders import reference
from builders.totals import labelled
from scipy import stats
from scipy.optimize import OptimizeResult

from bdr_stan import Bags
from bdr_stan.aggregate import densities, variational
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.rows import AggregateRows, point_rows, square_factors
from bdr_stan.aggregate.variational import variational_posterior
from bdr_stan.kernels import RBF, NystromFeatures
from bdr_stan.posterior.mode import find_mode

DISPERSION = 0.6
RHO = 0.5
NAMES = [name for name, likelihood in LIKELIHOODS.items() if likelihood.expected_terms]
EACH_LINK = pytest.mark.parametrize("link", ["square", "exp"])
ALL = pytest.mark.parametrize(
    ("likelihood", "link"), [(n, link) for n in NAMES for link in LIKELIHOODS[n].expected_terms]
)


def aggregate_likelihood(rows, y, likelihood, link, **scales):
    return densities.aggregate_likelihood(rows, labelled(y, likelihood, link), **scales)


def expected_log_likelihood(rows, y, likelihood, link, **scales):
    return variational.expected_log_likelihood(rows, labelled(y, likelihood, link), **scales)


def rows_of(rng, sizes, d):
    """Points' rows of bags, the last column 1, with weights."""
    sizes = np.asarray(sizes)
    X = np.column_stack([0.5 * rng.normal(size=(sizes.sum(), d)), np.ones(sizes.sum())])
    p = rng.uniform(0.5, 2, len(X))
    start = np.cumsum(sizes) - sizes
    total, noise = np.add.reduceat(p, start), np.sqrt(np.add.reduceat(p**2, start))
    return AggregateRows(X, sizes, p, total, noise, residual_variance=0.3 * total)


def labels(rng, rows, link, likelihood="poisson", level=1.5):
    """Labels, with the intercept at `level` and weights of size RHO."""
    theta = np.append(RHO * rng.normal(size=rows.rows.shape[1] - 1), level)
    mean = rows.means(theta[None], LINKS[link].rate)[0]
    is_count = LIKELIHOODS[likelihood].is_count
    return rng.poisson(mean).astype(float) if is_count else rng.exponential(mean)


def dispersion_of(likelihood):
    return dict.fromkeys(LIKELIHOODS[likelihood].scales, DISPERSION)


def priors_of(level=1.5):
    return {
        "intercept_location": level,
        "intercept_scale": 0.5,
        "rho_median": RHO,
        "rho_log_sd": 0.5,
    }


def fitted(rows, y, likelihood, link, *, rho=RHO, priors=None, **options):
    """Mode at rho and variational posterior."""
    priors = priors or priors_of()
    scales = dispersion_of(likelihood)
    intercept = priors["intercept_location"], priors["intercept_scale"]
    mode = find_mode(
        aggregate_likelihood(rows, y, likelihood, link, rho=rho, **scales),
        np.eye(rows.rows.shape[1] - 1),
        intercept,
        rho=rho,
    )
    return mode, variational_posterior(
        rows,
        labelled(y, likelihood, link),
        priors=priors,
        rho=rho,
        mode=mode,
        scales=scales,
        **options,
    )


def random_gaussian(rng, D, spread, level=1.5):
    return np.append(0.3 * rng.normal(size=D - 1), level), spread * np.tril(rng.normal(size=(D, D)))


@ALL
def test_slopes_are_those_of_the_value(likelihood, link, rng):
    rows = rows_of(rng, [1, 2, 9, 4], d=3)
    y = labels(rng, rows, link, likelihood)
    expected = expected_log_likelihood(rows, y, likelihood, link, **dispersion_of(likelihood))
    mean, factor = random_gaussian(rng, 4, 0.2)
    _, by_mean, by_factor, by_log_rho = expected(mean, factor, RHO)
    of_mean = reference.gradient(lambda m: expected(m, factor, RHO)[0], mean)
    of_factor = reference.gradient(
        lambda f: expected(mean, f.reshape(4, 4), RHO)[0], factor.ravel()
    )
    of_log_rho = reference.gradient(
        lambda x: expected(mean, factor, np.exp(x[0]))[0], [np.log(RHO)]
    )
    np.testing.assert_allclose(by_mean, of_mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(by_factor.ravel(), of_factor, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(by_log_rho, of_log_rho[0], rtol=1e-7, atol=1e-7)
    assert (by_log_rho != 0) == (link == "square")


@ALL
def test_without_spread_it_is_the_log_likelihood(likelihood, link, rng):
    rows = rows_of(rng, [1, 2, 9, 4], d=3)
    y = labels(rng, rows, link, likelihood)
    scales = dispersion_of(likelihood)
    mean, _ = random_gaussian(rng, 4, 0)
    value, by_mean, *_ = expected_log_likelihood(rows, y, likelihood, link, **scales)(
        mean, np.zeros((4, 4)), RHO
    )
    log_density, slope, *_ = aggregate_likelihood(rows, y, likelihood, link, rho=RHO, **scales)(
        mean
    )
    assert value == pytest.approx(log_density, rel=1e-12)
    np.testing.assert_allclose(by_mean, slope, rtol=1e-10)


def test_moments_of_squares(rng):
    """Poisson labels 0 and 1 tell the mean and variance that stand for a bag's total."""
    rows = rows_of(rng, [9], d=3)
    mean, factor = random_gaussian(rng, 4, 0.3)
    at = [
        expected_log_likelihood(rows, [k], "poisson", "square")(mean, factor, RHO)[0]
        for k in (0, 1)
    ]
    M = -at[0]
    V = 2 * M**2 * (np.log(M) - (at[1] - at[0]))
    thetas = mean + rng.normal(size=(400_000, 4)) @ factor.T
    draws = LINKS["square"].means(rows, thetas, rho=RHO)[:, 0]
    assert pytest.approx(draws.mean(), rel=5e-3) == M
    assert pytest.approx(draws.var(), rel=2e-2) == V


def log_density_by_scipy(likelihood, y, mean):
    """Of each label, at the scales of `dispersion_of`."""
    if likelihood == "poisson":
        return stats.poisson.logpmf(y, mean)
    if likelihood == "exponential":
        return stats.expon.logpdf(y, scale=mean)
    if likelihood == "gamma":
        return stats.gamma.logpdf(y, DISPERSION**-2, scale=mean * DISPERSION**2)
    shape = DISPERSION**-2
    return stats.nbinom.logpmf(y, shape, shape / (shape + mean))


def drawn(rng, rows, y, likelihood, link, mean, factor, n=100_000):
    """Expected log likelihood by draws, and its standard error."""
    thetas = mean + rng.normal(size=(n, len(mean))) @ factor.T
    totals = LINKS[link].means(rows, thetas, rho=RHO)
    sums = log_density_by_scipy(likelihood, y, totals).sum(axis=1)
    return sums.mean(), sums.std() / np.sqrt(n)


@pytest.mark.parametrize("likelihood", NAMES)
def test_expectation_of_squares_for_small_spread(likelihood, rng):
    """The expansion leaves out a small part of what the spread changes."""
    rows = rows_of(rng, [3, 2, 9, 4], d=3)
    y = labels(rng, rows, "square", likelihood)
    mean, factor = random_gaussian(rng, 4, 0.08)
    expected = expected_log_likelihood(rows, y, likelihood, "square", **dispersion_of(likelihood))
    exact, error = drawn(rng, rows, y, likelihood, "square", mean, factor)
    change = exact - expected(mean, 0 * factor, RHO)[0]
    assert abs(expected(mean, factor, RHO)[0] - exact) < 0.1 * abs(change) + 4 * error


@pytest.mark.parametrize("likelihood", NAMES)
def test_bound_with_exponentials(likelihood, rng):
    """Below the expectation."""
    rows = rows_of(rng, [1, 2, 9, 4], d=3)
    y = labels(rng, rows, "exp", likelihood)
    expected = expected_log_likelihood(rows, y, likelihood, "exp", **dispersion_of(likelihood))
    for spread in (0.1, 0.5):
        mean, factor = random_gaussian(rng, 4, spread)
        exact, error = drawn(rng, rows, y, likelihood, "exp", mean, factor)
        assert expected(mean, factor, RHO)[0] < exact + 4 * error


def test_poisson_bound_of_one_point_is_exact(rng):
    rows = rows_of(rng, [1, 1, 1], d=2)
    y = np.array([0.0, 3, 20])
    mean, factor = random_gaussian(rng, 3, 0.3)
    h, v = rows.rows @ mean, np.sum((rows.rows @ factor) ** 2, axis=1)
    p = rows.weights
    exact = y * (np.log(p) + h) - p * np.exp(h + v / 2) - [np.log(factorial(int(k))) for k in y]
    value = expected_log_likelihood(rows, y, "poisson", "exp")(mean, factor, RHO)[0]
    assert value == pytest.approx(exact.sum(), rel=1e-12)


def test_square_takes_points_or_their_factors(rng):
    points = rng.normal(size=(60, 2))
    bags = Bags.from_points(points, sizes=[1, 2, 40, 17])
    features = NystromFeatures(RBF(1.0), points[:5])
    y = np.array([2.0, 0, 90, 30])
    mean, factor = random_gaussian(rng, 6, 0.2)
    one = expected_log_likelihood(point_rows(bags, features), y, "poisson", "square")
    other = expected_log_likelihood(square_factors(bags, features), y, "poisson", "square")
    for a, b in zip(one(mean, factor, RHO), other(mean, factor, RHO), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


def log_evidence(rows, y, likelihood, link, priors, rho):
    """By quadrature over the weight and the intercept, f and -f both."""
    w = np.linspace(-8 * rho, 8 * rho, 201)
    location, scale = priors["intercept_location"], priors["intercept_scale"]
    f0 = np.linspace(location - 9 * scale, location + 9 * scale, 201)
    theta = np.stack(np.meshgrid(w, f0), axis=-1).reshape(-1, 2)
    log_density = stats.norm.logpdf(theta[:, 0], 0, rho)
    log_density += stats.norm.logpdf(theta[:, 1], location, scale)
    totals = np.stack(
        [
            LINKS[link].rate(theta @ rows.rows[a : a + n].T) @ rows.weights[a : a + n]
            for a, n in zip(rows.start, rows.length, strict=True)
        ],
        axis=1,
    )
    if link == "square":
        totals += rho**2 * rows.residual_variance
    log_density += log_density_by_scipy(likelihood, y, totals).sum(axis=1)
    cell = (w[1] - w[0]) * (f0[1] - f0[0])
    return np.logaddexp.reduce(log_density) + np.log(cell)


@ALL
def test_bound_and_evidence(likelihood, link, rng):
    """Below it with the exp link; near it with the square link."""
    rows = rows_of(rng, rng.integers(1, 9, 60), d=1)
    y = labels(rng, rows, link, likelihood)
    _, found = fitted(rows, y, likelihood, link)
    exact = log_evidence(rows, y, likelihood, link, priors_of(), found.rho)
    if link == "exp":
        assert exact - 10 < found.bound < exact
    else:
        assert abs(found.bound - exact) < 0.1


def bound_by_hand(rows, y, likelihood, link, priors, mean, factor, log_rho):
    """Bound, and log prior density of log(rho) up to a constant, from SciPy's normals."""
    d = len(mean) - 1
    scale = np.append(np.full(d, np.exp(log_rho)), priors["intercept_scale"])
    location = np.append(np.zeros(d), priors["intercept_location"])
    S = factor @ factor.T
    expected_log_prior = stats.norm.logpdf(mean, location, scale).sum()
    expected_log_prior -= 0.5 * np.sum(S.diagonal() / scale**2)
    entropy = stats.multivariate_normal(np.zeros(d + 1), S).entropy()
    value = expected_log_likelihood(rows, y, likelihood, link, **dispersion_of(likelihood))
    bound = value(mean, factor, np.exp(log_rho))[0] + expected_log_prior + entropy
    return bound, stats.norm.logpdf(log_rho, np.log(priors["rho_median"]), priors["rho_log_sd"])


@ALL
@pytest.mark.parametrize("n", [3, 40])
def test_the_bound_is_at_its_maximum(likelihood, link, n, rng):
    """With more weights than bags, and fewer."""
    rows = rows_of(rng, rng.integers(1, 12, n), d=5)
    y = labels(rng, rows, link, likelihood)
    _, found = fitted(rows, y, likelihood, link, tol=1e-5)

    def at(mean, factor, log_rho):
        return bound_by_hand(rows, y, likelihood, link, priors_of(), mean, factor, log_rho)

    best = at(found.mean, found.factor, np.log(found.rho))
    assert found.bound == pytest.approx(best[0], rel=1e-10)
    for _ in range(10):
        shift, turn, stretch = rng.normal(size=6), rng.normal(size=(6, 6)) / 6, rng.normal()
        high, low = (  # a short way along a direction as long as the posterior is wide
            sum(
                at(
                    found.mean + x * found.factor @ shift,
                    found.factor @ (np.eye(6) + x * turn),
                    np.log(found.rho) + x * stretch,
                )
            )
            for x in (0.01, -0.01)
        )
        assert high < sum(best) and low < sum(best)
        assert abs(high - low) < 0.05 * (2 * sum(best) - high - low)


@EACH_LINK
def test_slope_of_the_search_is_that_of_its_objective(link, rng, monkeypatch):
    """Away from the start, where mean and factor of the coordinates are 0 and 1."""
    rows = rows_of(rng, [1, 2, 9, 4], d=2)
    y = labels(rng, rows, link)

    def search(objective, start, **_):
        x = start + 0.3 * rng.normal(size=len(start))
        by_step = reference.gradient(lambda at: objective(at)[0], x)
        np.testing.assert_allclose(objective(x)[1], by_step, rtol=1e-6, atol=1e-6)
        return OptimizeResult(x=x, jac=0 * x)

    monkeypatch.setattr(variational, "minimize", search)
    fitted(rows, y, "poisson", link)


@EACH_LINK
def test_the_start_does_not_matter(link, rng):
    rows = rows_of(rng, rng.integers(1, 12, 30), d=4)
    y = labels(rng, rows, link)
    ends = [fitted(rows, y, "poisson", link, rho=rho, tol=1e-6)[1] for rho in (0.05, RHO, 5.0)]
    for end in ends[1:]:
        assert end.rho == pytest.approx(ends[0].rho, rel=1e-4)
        np.testing.assert_allclose(end.mean, ends[0].mean, atol=1e-4)
        covariances = [e.factor @ e.factor.T for e in (end, ends[0])]
        np.testing.assert_allclose(*covariances, atol=1e-5)


@EACH_LINK
def test_many_counts_at_single_points_leave_a_gaussian(link, rng):
    """There the posterior is that of Laplace's method."""
    rows = rows_of(rng, np.ones(200, int), d=3)
    y = labels(rng, rows, link, level=30.0 if link == "square" else 6.0)
    priors = priors_of(30.0 if link == "square" else 6.0)
    # rho all but fixed, or the two would be at different scales
    mode, found = fitted(rows, y, "poisson", link, priors=priors | {"rho_log_sd": 1e-4})
    whitened = np.linalg.solve(mode.whitening, found.factor)
    np.testing.assert_allclose(whitened @ whitened.T, np.eye(4), atol=0.01)
    shift = np.linalg.solve(mode.whitening, found.mean - mode.theta)
    np.testing.assert_allclose(shift, 0, atol=0.05)
    assert found.bound == pytest.approx(mode.log_evidence, abs=0.05)


def test_exponentials_of_many_points_are_too_narrow(rng):
    """The log-sum lemma's known fault; squares have the width of Laplace's method."""
    rows = rows_of(rng, np.full(60, 50), d=4)
    width = {}
    for link in ("square", "exp"):
        mode, found = fitted(rows, labels(rng, rows, link), "poisson", link)
        sd = [np.linalg.norm(rows.rows @ F, axis=1).mean() for F in (found.factor, mode.whitening)]
        width[link] = sd[0] / sd[1]
    assert width["exp"] < 0.6
    assert 0.8 < width["square"] < 1.2


def test_errors(rng):
    rows = rows_of(rng, [3, 4], d=2)
    y = np.array([1.0, 2])
    factors = AggregateRows(rows.rows, rows.length, None, rows.total, rows.noise_factor)
    *most, last = map(repr, NAMES)
    with pytest.raises(ValueError, match=f"choose {', '.join(most)} or {last} with link 'square'"):
        expected_log_likelihood(rows, y, "binomial", "logit")
    with pytest.raises(ValueError, match="link 'identity': choose"):
        expected_log_likelihood(rows, y, "poisson", "identity")
    with pytest.raises(ValueError, match="link 'exp' needs the points' own rows"):
        expected_log_likelihood(factors, y, "poisson", "exp")
    with pytest.raises(ValueError, match="dispersion must be > 0, found 0.0"):
        expected_log_likelihood(rows, y, "negative binomial", "square")


def test_a_search_cut_short_warns(rng):
    rows = rows_of(rng, rng.integers(1, 12, 30), d=4)
    y = labels(rng, rows, "exp")
    with pytest.warns(UserWarning, match="still rises after 2 steps .*: raise max_iter"):
        fitted(rows, y, "poisson", "exp", max_iter=2)
