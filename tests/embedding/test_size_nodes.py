"""A few sizes stand for all, with the likelihood of the bags to rounding."""

import numpy as np
import pytest

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.embedding.size_nodes import at_size_nodes
from bdr_stan.models.likelihoods import normal_likelihood

D = 12
SIZES = {
    "lognormal": lambda rng, n: np.ceil(rng.lognormal(np.log(60), 1, n)),
    "one to thousands": lambda rng, n: np.ceil(np.exp(rng.uniform(0, 9, n))),
    "mostly tiny": lambda rng, n: np.clip(2 / rng.random(n) ** (2 / 3), 1, 20_000).astype(int),
    "weighted": lambda rng, n: rng.lognormal(np.log(250), 1, n),
    "some huge": lambda rng, n: np.append(rng.integers(50, 400, n - 2), [10**6, 10**8]),
}


def drawn(sizes, *, sigma, seed=1, n=6000):
    """Rows [z, x], labels of the model itself and its parameters: shrinkage over five orders."""
    rng = np.random.default_rng(seed)
    n_points = SIZES[sizes](rng, n).astype(float)
    lam = np.geomspace(1e-2, 1e3, D)
    eta, theta = 0.7, rng.normal(size=D + 2)
    rows = rng.normal(size=(n, D + 1)) * np.append(np.geomspace(3, 1e-2, D), 1.0)
    s = shrinkage_factors(n_points, lam, eta)
    mean = (s * rows[:, :D]) @ theta[:D] + rows[:, D] * theta[D] + theta[-1]
    nu = eta * (1 - s) @ theta[:D] ** 2 + sigma**2
    y = mean + np.sqrt(nu) * rng.normal(size=n)
    return rows, y, n_points, lam, theta, {"sigma": sigma, "eta": eta}


def assert_same_likelihood(rows, exact, lam, theta, scales, seed=2):
    """At the parameters, near them and far from them."""
    rng = np.random.default_rng(seed)
    for spread, change in ((0, 0), (1e-3, 0.1), (0.1, 1), (2, 3)):
        at = theta + spread * rng.normal(size=len(theta))
        changed = {name: x * np.exp(change * rng.normal()) for name, x in scales.items()}
        found, expected = (normal_likelihood(r, lam, **changed)(at) for r in (rows, exact))
        assert found[0] == pytest.approx(expected[0], rel=1e-9)
        for derivative, true in zip(found[1:], expected[1:], strict=True):
            np.testing.assert_allclose(derivative, true, rtol=1e-8, atol=1e-9 * np.abs(true).max())


@pytest.mark.parametrize("sigma", [1.0, 1e-4])
@pytest.mark.parametrize("sizes", SIZES)
def test_likelihood_is_kept(sizes, sigma):
    z, y, n_points, lam, theta, scales = drawn(sizes, sigma=sigma)
    exact = compress(z, y, n_points)
    rows = at_size_nodes(exact)
    assert len(rows.rows) < 40 * (D + 3)
    assert_same_likelihood(rows, exact, lam, theta, scales)


@pytest.mark.parametrize("sizes", ["lognormal", "mostly tiny"])
def test_noise_of_a_point_is_kept(sizes):
    z, y, n_points, lam, theta, scales = drawn(sizes, sigma=0.3)
    exact = compress(z, y, n_points)
    assert_same_likelihood(at_size_nodes(exact), exact, lam, theta, scales | {"sigma_point": 2.0})


def test_known_errors_are_kept(rng):
    z, y, n_points, lam, theta, scales = drawn("lognormal", sigma=0.3, n=20_000)
    known = rng.lognormal(0, 0.5, len(y)) * (rng.random(len(y)) < 0.9)
    exact = compress(
        z, y + np.sqrt(known) * rng.normal(size=len(y)), n_points, known_variance=known
    )
    rows = at_size_nodes(exact)
    assert len(rows.rows) < 0.6 * len(exact.rows)
    assert_same_likelihood(rows, exact, lam, theta, scales)


def test_known_errors_alone_are_kept(rng):
    z, y, _, _, theta, scales = drawn("lognormal", sigma=0.3)
    known = rng.lognormal(0, 1, len(y))
    exact = compress(z, y, np.ones(len(y)), known_variance=known)
    rows = at_size_nodes(exact)
    assert len(rows.rows) < 40 * (D + 3)
    assert_same_likelihood(rows, exact, np.zeros(D), theta, scales)


def test_groups_that_cost_less_stay_as_they_are(rng):
    z, y = rng.normal(size=(300, D)), rng.normal(size=300)
    few_bags = compress(z[:30], y[:30], np.arange(1, 31))
    np.testing.assert_array_equal(at_size_nodes(few_bags).rows, few_bags.rows)
    few_sizes = compress(z, y, np.repeat([3, 9, 20], 100))
    np.testing.assert_array_equal(at_size_nodes(few_sizes).rows, few_sizes.rows)


def test_fewer_groups_are_worth_more_rows(rng):
    z, y, n_points, lam, theta, scales = drawn("lognormal", sigma=0.3, n=200)
    exact = compress(z, y, n_points)
    rows = at_size_nodes(exact)
    assert len(rows.rows) > len(exact.rows)
    assert len(rows.length) < 0.4 * len(exact.length)
    assert_same_likelihood(rows, exact, lam, theta, scales)


def test_many_bags_of_the_smallest_sizes_stay_as_they_are():
    z, y, n_points, *_ = drawn("mostly tiny", sigma=1.0, n=20_000)
    exact = compress(z, y, n_points)
    rows = at_size_nodes(exact)
    np.testing.assert_array_equal(rows.rows[: exact.length[0]], exact.rows[: exact.length[0]])
    assert rows.sign[0] == 1 and (rows.sign == -1).any()
    assert (rows.sign * rows.n_bags).sum() == pytest.approx(len(y))
