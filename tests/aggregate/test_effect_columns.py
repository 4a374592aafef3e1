"""Coefficients that differ between bags: what labels tell of them, and of parts of bags."""

import numpy as np
import pytest

from bdr_stan import Bags
from bdr_stan.aggregate.effect_columns import (
    covariances,
    effect_columns,
    effects_given_totals,
    subsets_given_totals,
)
from bdr_stan.aggregate.rows import mean_points


def random_covariance(rng, K):
    A = rng.normal(size=(K, K))
    return A @ A.T


def test_columns_are_standardised_and_the_first_is_the_constant():
    rng = np.random.default_rng(0)
    points = rng.normal([3, 40, 0], [1, 9, 1], size=(60, 3))
    bags = Bags(points, [0, 10, 60], weights=rng.random(60), features=["a", "b", "c"])
    columns = effect_columns(bags, ["b", "a"])
    assert columns.names == ["intercept", "b", "a"]
    g = columns(points)
    np.testing.assert_allclose(g.mean(0), [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(g.std(0), [0, 1, 1], rtol=1e-12)
    p = bags.weights[:, None]
    totals = np.array([(p * g)[:10].sum(0), (p * g)[10:].sum(0)])
    means = mean_points(bags).points
    np.testing.assert_allclose(columns.sums(means, bags.totals), totals, rtol=1e-10)


def test_all_values_of_a_category_but_the_first():
    import pandas as pd

    table = pd.DataFrame({"town": [*"aabb"], "group": [*"xyzx"], "age": [1.0, 2, 3, 4]})
    columns = effect_columns(Bags.from_dataframe(table, "town"), ["group"])
    assert columns.names == ["intercept", "group=y", "group=z"]


@pytest.mark.parametrize(
    "wanted, says",
    [
        (["d"], "bag_effects depends on the column 'd', which the points do not have"),
        (["a", "a"], "name a column twice"),
        (["c"], "column 'c' is the same at all points"),
        (["a", "zero"], "column 'zero' is the same at all points"),
    ],
)
def test_columns_that_cannot_be_used(wanted, says):
    points = np.column_stack([np.arange(6.0), np.arange(6.0) ** 2, np.ones(6), np.zeros(6)])
    bags = Bags(points, [0, 3, 6], features=["a", "b", "c", "zero"])
    with pytest.raises(ValueError, match=says):
        effect_columns(bags, wanted)


def test_effects_given_totals_are_those_of_the_joint_normal():
    rng = np.random.default_rng(1)
    n, K, S = 3, 2, 40_000
    G, noise, residual = rng.normal(size=(n, K)), rng.random(n), rng.normal(size=n)
    covariance = random_covariance(rng, K)
    repeated = (np.tile(a, (S, 1)) for a in (residual, noise))
    residuals, noises = repeated
    drawn = effects_given_totals(residuals, G, noises, np.tile(covariance, (S, 1, 1)), 1)
    for a in range(n):
        shared = covariance @ G[a]
        nu = G[a] @ shared + noise[a]
        mean, own = shared * residual[a] / nu, covariance - np.outer(shared, shared) / nu
        error = np.sqrt(np.diag(own) / S)
        assert np.all(np.abs(drawn[:, a].mean(0) - mean) < 5 * error)
        np.testing.assert_allclose(np.cov(drawn[:, a].T), own, atol=0.04 * np.trace(own))
    mode = effects_given_totals(residuals[:1], G, noises[:1], covariance[None], 1)
    shared = G @ covariance
    nu = np.sum(shared * G, axis=1) + noise
    np.testing.assert_allclose(mode[0], shared * (residual / nu)[:, None], rtol=1e-12)


def test_subsets_given_totals_are_those_of_the_joint_normal():
    """Of outcomes at points, one bag at a time, and with the rest of the bag they add up."""
    rng = np.random.default_rng(2)
    m, K, sigma = 9, 2, 0.7
    p, g = rng.random(m), np.column_stack([np.ones(m), rng.normal(size=m)])
    covariance = random_covariance(rng, K)
    f, y, part = rng.normal(size=m), 3.0, np.arange(m) < 4
    joint = g @ covariance @ g.T + sigma**2 * np.eye(m)
    nu, shared = p @ joint @ p, (p * part) @ joint @ p
    found = []
    for inside in (part, ~part):
        q = p * inside
        sums = np.array([q @ g]), np.array([p @ g])
        noise = np.array([[sigma**2 * q @ q]]), np.array([[sigma**2 * p @ p]])
        given = np.array([[q @ f]]), np.array([[y - p @ f]])
        found.append(subsets_given_totals(*given, *sums, *noise, covariance[None]))
    q = p * part
    np.testing.assert_allclose(found[0][0], q @ f + shared / nu * (y - p @ f), rtol=1e-12)
    np.testing.assert_allclose(found[0][1], np.sqrt(q @ joint @ q - shared**2 / nu), rtol=1e-9)
    np.testing.assert_allclose(found[0][0] + found[1][0], y, rtol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9)


def test_covariances():
    sd, correlation = np.array([[2.0, 3.0]]), np.array([[[1, 0.5], [0.5, 1]]])
    np.testing.assert_allclose(
        covariances({"effect_sd": sd, "effect_correlation": correlation}), [[[4, 3], [3, 9]]]
    )
