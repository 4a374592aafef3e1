"""Bounds of means under selection against linear programming and drawn weights."""

import numpy as np
import pytest
from scipy.optimize import linprog

from bdr_stan.bags import Bags
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.questions import sensitivity
from bdr_stan.questions.sensitivity import SelectedPoints, extreme_means


def by_linear_programming(weights, values, factor):
    """Least and largest means by the transform of Charnes and Cooper: u = v / sum v, s = 1 / sum v.

    u_j - G w_j s <= 0, w_j s / G - u_j <= 0, sum u = 1.
    """
    m = len(values)
    above = np.column_stack([np.eye(m), -factor * weights])
    below = np.column_stack([-np.eye(m), weights / factor])
    sums_to_one = np.append(np.ones(m), 0.0)[None]
    found = []
    for sign in (1, -1):
        solved = linprog(
            sign * np.append(values, 0.0),
            A_ub=np.vstack([above, below]),
            b_ub=np.zeros(2 * m),
            A_eq=sums_to_one,
            b_eq=[1.0],
            bounds=(0, None),
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        assert solved.success
        found.append(sign * solved.fun)
    return found


def in_blocks(weights, values, rows):
    pieces = range(0, len(weights), rows)
    return lambda: [(weights[k : k + rows], values[k : k + rows]) for k in pieces]


def problem(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 40))
    weights = rng.gamma(1.0, size=m) if seed % 2 else np.ones(m)
    values = rng.normal(rng.normal(), 1, size=(m, 3)).round(1 if seed % 5 == 0 else 12)  # ties
    return weights, values, 1 + rng.gamma(1.0), int(rng.integers(1, m + 1))


@pytest.mark.parametrize("seed", range(200))
def test_extremes_are_those_of_linear_programming(seed):
    weights, values, factor, rows = problem(seed)
    mean, (low, high) = extreme_means(in_blocks(weights, values, rows), np.array([1.0, factor]))
    np.testing.assert_allclose(mean, weights @ values / weights.sum(), atol=1e-14)
    np.testing.assert_allclose([low[0], high[0]], [mean, mean], atol=1e-14)
    expected = [by_linear_programming(weights, each, factor) for each in values.T]
    np.testing.assert_allclose(np.stack([low[1], high[1]], axis=1), expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_weights_within_the_factor_are_covered(seed):
    weights, values, factor, rows = problem(seed)
    _, (low, high) = extreme_means(in_blocks(weights, values, rows), np.array([factor]))
    rng = np.random.default_rng(seed)
    for power in (1.0, 0.1):  # within the bound, and mostly at its ends
        exponent = rng.beta(power, power, size=(500, len(weights))) * 2 - 1
        drawn = weights * factor**exponent
        means = drawn @ values / drawn.sum(axis=1, keepdims=True)
        assert np.all((low[0] - 1e-12 <= means) & (means <= high[0] + 1e-12))


def test_a_large_factor_gives_the_least_and_the_largest_value():
    values = np.array([[3.0], [-1.0], [2.0]])
    _, (low, high) = extreme_means(in_blocks(np.ones(3), values, 2), np.array([1e5]))
    np.testing.assert_allclose([low.item(), high.item()], [-1, 3], atol=1e-8)


def test_values_that_are_equal_have_no_bounds_apart():
    mean, extremes = extreme_means(in_blocks(np.ones(5), np.full((5, 2), 7.0), 2), np.array([3.0]))
    np.testing.assert_allclose(extremes - mean, 0, atol=1e-14)


@pytest.mark.parametrize("kept", [1 << 23, 0])
def test_shifts_of_a_bag_are_of_the_function_shrunk_as_its_embedding(rng, monkeypatch, kept):
    monkeypatch.setattr(sensitivity, "_NUMBERS_KEPT", kept)
    monkeypatch.setattr(sensitivity, "_NUMBERS_PER_BLOCK", 1)
    sizes, d, S = [7, 30], 3, 4
    weights = [rng.gamma(1.0, size=n) for n in sizes]
    bags = Bags.from_list([rng.normal(size=(n, 2)) for n in sizes], weights=weights)
    landmarks, m0, lam = rng.normal(size=(d, 2)), rng.normal(size=d), rng.gamma(1.0, size=d)
    basis, w, eta = rng.normal(size=(d, d)), rng.normal(size=(S, d)), rng.gamma(1.0, size=S)
    coordinates = Coordinates(m0, basis, lam, np.eye(d))
    features = LandmarkFeatures(RBF(1.0), landmarks)
    effective = np.array([5.0, 22.0])
    found = SelectedPoints(bags, effective, features, coordinates, w, eta)
    for i, points in enumerate(bags):
        kernel = np.exp(-((points[:, None] - landmarks) ** 2).sum(axis=2) / 2)
        s = eta[:, None] * effective[i] / (eta[:, None] * effective[i] + lam)
        values = (kernel - m0) @ basis @ (w * s).T
        mean = weights[i] @ values / weights[i].sum()
        least, most = np.transpose([by_linear_programming(weights[i], v, 1.7) for v in values.T])
        shifts = found.shifts(i, np.array([1.7]))
        np.testing.assert_allclose(shifts[:, 0], [least - mean, most - mean], atol=1e-8)
