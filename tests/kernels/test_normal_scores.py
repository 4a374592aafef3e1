"""Kernels on the normal scores of a column."""

import numpy as np
import pytest
from scipy import stats

from bdr_stan import Bags
from bdr_stan.kernels import RBF, Matern32, NormalScores, resolve_kernel


@pytest.fixture
def bags(rng):
    points = np.column_stack([rng.normal(size=4000), rng.exponential(7, 4000)])
    return Bags.from_points(points, sizes=[1500, 2500], features=["a", "km"])


def test_scores_are_normal_quantiles_of_the_ranks(bags):
    kernel = resolve_kernel(NormalScores(columns=["km"]), "scaled", bags)
    scores = kernel.scores(bags.points)
    assert scores.shape == (4000, 1)
    middle = np.abs(scores[:, 0]) < 2
    exact = stats.norm.ppf((stats.rankdata(bags.points[:, 1]) - 0.5) / 4000)
    np.testing.assert_allclose(scores[middle, 0], exact[middle], atol=0.05)


def test_values_are_the_base_on_the_scores(bags):
    kernel = resolve_kernel(NormalScores(Matern32(0.7), ["km"], 2.0), "scaled", bags)
    x, u = bags.points[:20], bags.points[100:105]
    z, v = kernel.scores(x), kernel.scores(u)
    np.testing.assert_allclose(kernel(x, u), 2 * Matern32(0.7)(z, v))
    np.testing.assert_array_equal(kernel.diagonal(x), np.full(20, 2.0))


def test_any_rising_function_of_the_column_has_the_same_scores(bags):
    other = Bags.from_points(np.exp(bags.points / 5), sizes=bags.sizes)
    one = NormalScores(columns=[1]).resolved(bags, seed=1)
    two = NormalScores(columns=[1]).resolved(other, seed=1)
    np.testing.assert_allclose(two.scores(other.points), one.scores(bags.points), atol=0.15)


def test_beyond_the_data_scores_stay_as_they_are(bags):
    kernel = NormalScores(columns=[1]).resolved(bags)
    ends = kernel.scores(np.array([[0, -50.0], [0, 1e9]]))[:, 0]
    np.testing.assert_allclose(ends, stats.norm.ppf([0.5 / 101, 100.5 / 101]))


def test_values_that_are_often_the_same_share_a_score(rng):
    """Night lights are 0 in most places."""
    column = np.maximum(rng.normal(-1, 1, 3000), 0)[:, None]
    kernel = NormalScores(columns=[0]).resolved([column])
    dark = kernel.scores(np.zeros((1, 1)))[0, 0]
    below = stats.norm.ppf(np.linspace(0, np.mean(column == 0), 1001)[1:-1])
    assert dark == pytest.approx(below.mean(), abs=0.1)


def test_spaced_values_have_evenly_spaced_scores(bags):
    kernel = NormalScores(columns=[1]).resolved(bags)
    values = kernel.spaced(8)
    scores = kernel.scores(np.column_stack([values, values]))[:, 0]
    np.testing.assert_allclose(np.diff(scores), np.diff(scores)[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (NormalScores, "NormalScores takes one column, found columns=None: name one"),
        (
            lambda: NormalScores(columns=["a", "b"]),
            r"NormalScores takes one column, found columns=\['a', 'b'\]: name one",
        ),
        (
            lambda: NormalScores(RBF(columns=["a"]), columns=["a"]),
            r"NormalScores gets only scores: name the column as NormalScores\(base, columns=\['a'",
        ),
        (
            lambda: NormalScores(columns=[0]).scores(np.ones((2, 1))),
            r"NormalScores has no numbers yet: call resolved\(bags\)",
        ),
        (
            lambda: NormalScores(columns=[0]).resolved([np.ones((9, 1))]),
            "column 0 is constant: leave it out of NormalScores",
        ),
    ],
)
def test_unusable_kernels_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_knots_are_not_printed(bags):
    assert len(repr(NormalScores(columns=[1]).resolved(bags))) < 200


def test_a_category_has_no_scores():
    names = ["rain", "land=dry", "land=wet"]
    said = "takes one column of numbers, but 'land' is a category: give it to LinearEffects"
    with pytest.raises(ValueError, match=said):
        NormalScores(columns=["land"]).on(names, 3)
    assert NormalScores(columns=["rain"]).on(names, 3).columns == (0,)


def test_its_base_is_a_kernel():
    with pytest.raises(TypeError, match="base of NormalScores must be a Kernel, found 'rbf'"):
        NormalScores("rbf", columns=[0])
