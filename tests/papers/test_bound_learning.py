"""The bound's slopes in landmarks, lengths and the Gaussian; what learning by it gains."""

import numpy as np
import pytest
from builders.counted_bags import counts_of_weighted_points, slices_of_a_roll
from scipy.optimize import approx_fprime

from bdr_stan import AggregateRegressor, Bags
from bdr_stan.kernels import RBF
from experiments.papers.bound_learning import _Search, learn_by_bound


def with_noise(bags, rng):
    """Bags with two more columns that mean nothing; in so many totals are of f alone."""
    points = np.column_stack([bags.points, rng.normal(size=(len(bags.points), 2))])
    return Bags(points, bags.offsets, weights=bags.weights)


@pytest.fixture(scope="module")
def problem():
    """Bags with weights and counts, landmarks and lengths."""
    bags, _, y = counts_of_weighted_points()
    bags = with_noise(bags, np.random.default_rng(1))
    return bags, y, bags.points[::9], np.array([1.5, 12.0, 3.0, 3.0])


def test_gradient(problem, rng):
    search = _Search.at(*problem)
    x = search.start + 0.1 * rng.normal(size=len(search.start))
    _, slope = search.objective(x)
    differences = approx_fprime(x, lambda x: search.objective(x)[0], 1e-6)
    np.testing.assert_allclose(slope, differences, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


def test_the_search_begins_at_the_bound_of_the_fit(problem):
    """Whose bags are compressed."""
    bags, y, landmarks, lengths = problem
    search = _Search.at(*problem)
    bound = search.bound(*search.unpacked(search.start))[0]
    assert bound == pytest.approx(fitted(bags, y, RBF(lengths), landmarks).bound_, rel=1e-8)


def fitted(bags, y, kernel, landmarks):
    settings = {"kernel": kernel, "landmarks": landmarks, "learn_kernel": False}
    return AggregateRegressor("poisson", "square", method="vb", **settings).fit(bags, y, seed=1)


def test_learning_raises_the_bound_and_lowers_the_error():
    rng = np.random.default_rng(0)
    (bags, y, rate), (held_out, counts, _) = (slices_of_a_roll(60, seed=s) for s in (1, 2))
    bags, held_out = with_noise(bags, rng), with_noise(held_out, rng)
    start = bags.points[::199], np.array([8.0, 8.0, 1.0, 1.0])

    def bound_and_error(kernel, landmarks):
        model = fitted(bags, y, kernel, landmarks)
        return model.bound_, np.mean((model.predict_points(bags.points).mean - rate) ** 2)

    bound, error = bound_and_error(RBF(start[1]), start[0])
    learned = learn_by_bound(bags, y, *start, max_iter=60)
    best, least = bound_and_error(learned.kernel, learned.landmarks)
    print(bound, learned.bound, best, error, least, learned.kernel, learned.steps)
    assert best > learned.bound - 0.5
    assert learned.bound > bound + 10
    assert least < 0.7 * error
    stopped = learn_by_bound(bags, y, *start, held_out=(held_out, counts), max_iter=60)
    assert stopped.steps <= learned.steps
    assert stopped.bound <= learned.bound
