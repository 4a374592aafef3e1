"""Links: rates and derivatives, default priors of f, rows and means of bags, moments."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference, totals
from builders.totals import Given
from scipy.special import expit, logit

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS, link_of
from bdr_stan.aggregate.rows import square_factors
from bdr_stan.bags import Bags
from bdr_stan.cmdstan.programs import program_names
from bdr_stan.kernels import RBF, FieldFeatures

EVERY = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


@pytest.fixture
def bags(rng):
    """Weighted bags of 1 to 9 points that are features already."""
    sizes = [1, 9, 4]
    return Bags.from_points(rng.normal(size=(14, 3)), sizes=sizes, weights=rng.gamma(2, 1, 14))


@pytest.fixture
def thetas(rng):
    return rng.normal(0.3, 0.4, (5, 4))


def by_hand(bags, link, thetas, effects):
    """Means of the bags' labels, point by point; of "logit" averages."""
    rate = {"square": np.square, "exp": np.exp, "logit": expit, "identity": np.positive}[link.name]
    found = np.zeros((len(thetas), len(bags)))
    for a, points in enumerate(bags):
        weights = bags.weights[bags.offsets[a] : bags.offsets[a + 1]]
        for s, theta in enumerate(thetas):
            f, own = points @ theta[:-1] + theta[-1], effects[s, a]
            if link.name == "logit":
                found[s, a] = weights @ rate(f + own) / weights.sum()
            else:
                found[s, a] = np.exp(own) * (weights @ rate(f))
    return found


@EVERY
def test_rates_have_their_derivatives(link, rng):
    f = rng.normal(size=20)
    value, slope, curvature = link.derivatives(f)
    expected = {"square": f**2, "exp": np.exp(f), "logit": expit(f), "identity": f}[link.name]
    np.testing.assert_allclose(value, expected)
    np.testing.assert_array_equal(link.rate(f), value)
    for k, expected in ((0, slope), (1, curvature)):
        by_step = [
            reference.gradient(lambda x, k=k: link.derivatives(x)[k][0], [at])[0] for at in f
        ]
        np.testing.assert_allclose(expected, by_step, rtol=1e-8, atol=1e-8)


@EVERY
def test_rates_can_be_written_in_place(link, rng):
    f = rng.normal(size=(3, 4))
    expected = link.rate(f)
    assert link.rate(f, out=f) is f
    np.testing.assert_array_equal(f, expected)


@EVERY
def test_every_link_has_a_program_and_a_likelihood(link):
    assert link.program in program_names()
    assert any(link.name in likelihood.links for likelihood in LIKELIHOODS.values())
    assert repr(link) == f"{type(link).__name__}()"


@pytest.mark.parametrize("name, level", [("square", 2.0), ("exp", np.log(4))])
def test_prior_of_f_is_at_the_overall_rate(name, level):
    prior = LINKS[name].function_prior(4.0)
    assert prior.level == pytest.approx(level)
    spreads = {"square": (2 / 3, 1.0), "exp": (1.5, 1.0)}[name]
    assert (prior.level_sd, prior.sd) == pytest.approx(spreads)


@pytest.mark.parametrize("share, level", [(0.3, logit(0.3)), (1.0, logit(1 - 1e-6))])
def test_prior_of_log_odds_is_finite(share, level):
    assert LINKS["logit"].function_prior(share) == pytest.approx((level, 1.5, 1.0))


@pytest.mark.parametrize(
    "name, with_effects",
    [(name, False) for name in LINKS]
    + [(n, True) for n, link in LINKS.items() if not link.is_linear],
)
def test_means_of_bags_and_of_their_rows(bags, thetas, name, rng, with_effects):
    link = LINKS[name]
    effects = 0.5 * rng.normal(size=(5, 3)) if with_effects else None
    expected = by_hand(bags, link, thetas, np.zeros((5, 3)) if effects is None else effects)
    rows = link.rows(bags, Given(3))
    np.testing.assert_allclose(link.means(rows, thetas, effects), expected, rtol=1e-8)
    found = link.means_of_bags(bags, Given(3), thetas, effects)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@EVERY
def test_means_include_what_features_leave_out_where_rho_is_given(bags, thetas, link):
    """Squares have its variance, in units of rho^2."""
    features = FieldFeatures(RBF(1.0), bags.points[:3])
    without, rho = link.means_of_bags(bags, features, thetas), np.linspace(0.5, 2, 5)
    psi = features(bags.points)
    expected = by_hand(
        Bags(psi, bags.offsets, weights=bags.weights), link, thetas, np.zeros((5, 3))
    )
    np.testing.assert_allclose(without, expected, rtol=1e-8)
    left_out = bags.sums(bags.weights * (1 - np.sum(psi**2, axis=1)))
    expected = without + link.uses_residual_variance * np.outer(rho**2, left_out)
    found = link.means_of_bags(bags, features, thetas, rho=rho)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@EVERY
def test_points_are_thinned_where_they_are_kept(bags, link):
    length = link.rows(bags, Given(3), thin=2).length
    if link.can_thin:
        np.testing.assert_array_equal(length, [1, 2, 2])
    else:
        np.testing.assert_array_equal(length, link.rows(bags, Given(3)).length)


@EVERY
@pytest.mark.parametrize("rows_of", ["fit", "points"])
def test_slopes_of_the_means(bags, thetas, link, rows_of, rng):
    """Gradient and second derivatives, of rows of points and of those a fit takes."""
    rows = (link if rows_of == "fit" else LINKS["exp"]).rows(bags, Given(3))
    means_at = link.mean_function(rows)
    c = rng.normal(size=3)
    for theta in thetas[:2]:
        mean, by_theta, second = means_at(theta)
        np.testing.assert_allclose(mean, link.means(rows, theta[None])[0], rtol=1e-10)
        by_step = [reference.gradient(lambda x, a=a: means_at(x)[0][a], theta) for a in range(3)]
        np.testing.assert_allclose(by_theta, by_step, rtol=1e-7, atol=1e-8)
        by_step = [
            reference.gradient(lambda x, k=k: c @ means_at(x)[1][:, k], theta) for k in range(4)
        ]
        np.testing.assert_allclose(second(c), by_step, rtol=1e-7, atol=1e-7)


@EVERY
def test_shares_of_points_in_their_bags_mean(bags, link, thetas):
    rows = LINKS["exp"].rows(bags, Given(3))
    rates = link.rate(rows.rows @ thetas[0])
    expected = by_hand(bags, link, thetas, np.zeros((5, 3)))[0]
    np.testing.assert_allclose(np.add.reduceat(link.shares(rows) * rates, rows.start), expected)


def test_packed_squares_are_those_of_the_points(rng):
    p, _ = totals.random_rates(rng, "poisson", "square", n=9, d=2)
    points, packed = totals.point_rows(p), totals.compressed(p)
    assert packed.packs and not points.packs
    theta, c = rng.normal(size=3), rng.normal(size=9)
    one, other = (LINKS["square"].mean_function(rows)(theta) for rows in (points, packed))
    np.testing.assert_allclose(other[0], one[0], rtol=1e-10)
    np.testing.assert_allclose(other[1], one[1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(other[2](c), one[2](c), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["square", "exp"])
def test_moments_of_the_means(bags, name, rng):
    """Against draws: with squares mean and variance, with exponentials three sums."""
    rows = replace(LINKS["exp"].rows(bags, Given(3)), residual_variance=np.array([0.5, 1.0, 2.0]))
    mean, factor = rng.normal(0.5, 0.3, 4), 0.2 * np.tril(rng.normal(size=(4, 4)))
    seen = []

    def of_moments(*moments):
        seen.append(moments)
        return 0.0, [np.zeros(3) for _ in moments]

    LINKS[name].expectation(rows, of_moments)(mean, factor, 0.8)
    thetas = mean + rng.normal(size=(200_000, 4)) @ factor.T
    draws = LINKS[name].means(rows, thetas, rho=0.8)
    if name == "square":
        np.testing.assert_allclose(seen[0], [draws.mean(axis=0), draws.var(axis=0)], rtol=0.02)
    else:
        X, start, p = rows.rows, rows.start, rows.weights
        h, v = X @ mean, np.sum((X @ factor) ** 2, axis=1)
        expected = [np.add.reduceat(p * np.exp(h + c * v), start) for c in (0, 0.5, -0.5)]
        np.testing.assert_allclose(seen[0], expected)
        np.testing.assert_allclose(seen[0][1], draws.mean(axis=0), rtol=0.01)


def test_exponentials_of_factors_have_no_moments(bags):
    with pytest.raises(ValueError, match="link 'exp' needs the points' own rows"):
        LINKS["exp"].expectation(square_factors(bags, Given(3)), None)


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_links_of_likelihoods(likelihood):
    assert link_of(likelihood).name == likelihood.links[0]
    for name in likelihood.links:
        assert link_of(likelihood, name) is LINKS[name]
    names = " or ".join(map(repr, likelihood.links))
    with pytest.raises(ValueError, match=f"likelihood takes the link {names}, found 'log'"):
        link_of(likelihood, "log")
