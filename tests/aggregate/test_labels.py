"""Labels of totals of bags: what each likelihood takes, and what it says of the rest."""

import numpy as np
import pytest

from bdr_stan import Bags
from bdr_stan.aggregate.likelihoods import LIKELIHOODS, likelihood_named
from bdr_stan.aggregate.links import LINKS
from bdr_stan.estimators.label_models import TotalLabels

COUNTS = [name for name, likelihood in LIKELIHOODS.items() if likelihood.is_count]


def kind(likelihood):
    return TotalLabels(LIKELIHOODS[likelihood], LINKS["exp"])


@pytest.fixture
def bags():
    points = np.random.default_rng(1).normal(size=(7, 2))
    return Bags.from_points(points, sizes=[1, 2, 4], ids=["north", "west", "east"])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_good_labels_become_floats(bags, likelihood):
    for y in ([3, 1, 2], [2, 2, 2], np.array([2**31 - 1, 1, 5])):
        labels = LIKELIHOODS[likelihood].check_labels(bags, y)
        assert labels.dtype == np.float64
        np.testing.assert_array_equal(labels, y)
    assert (
        len(LIKELIHOODS[likelihood].check_labels([np.ones((2, 1)), np.ones((3, 1))], [1, 2])) == 2
    )


def test_each_likelihood_has_its_labels(bags):
    np.testing.assert_array_equal(LIKELIHOODS["poisson"].check_labels(bags, [0, 1, 0]), [0, 1, 0])
    np.testing.assert_array_equal(
        LIKELIHOODS["normal"].check_labels(bags, [-1.5, 0, 0]), [-1.5, 0, 0]
    )
    labels = kind("binomial").read(bags, [0, 4, 2], trials=[1, 4, 3])
    np.testing.assert_array_equal(labels.y, [0, 4, 2])
    np.testing.assert_array_equal(labels.trials, [1, 4, 3])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_labels_of_the_wrong_shape(bags, likelihood):
    with pytest.raises(ValueError, match="y has 2 labels, but there are 3 bags"):
        LIKELIHOODS[likelihood].check_labels(bags, [1, 2])
    with pytest.raises(ValueError, match=r"pass y\[:, 0\], of"):
        LIKELIHOODS[likelihood].check_labels(bags, [[1], [2], [3]])
    with pytest.raises(TypeError, match="the label of bag 0 .*, not a number"):
        LIKELIHOODS[likelihood].check_labels(bags, ["1", "2", "3"])
    with pytest.raises(ValueError, match=r"label of bag 1 \(id 'west'\) is nan \(2 in total\)"):
        LIKELIHOODS[likelihood].check_labels(bags, [1, np.nan, np.inf])


@pytest.mark.parametrize("likelihood", COUNTS)
def test_labels_that_are_no_counts(bags, likelihood):
    needs = rf"\(1 in total\): the {likelihood} likelihood needs counts 0, 1, 2"
    with pytest.raises(ValueError, match=r"label of bag 2 \(id 'east'\) is -2 " + needs):
        LIKELIHOODS[likelihood].check_labels(bags, [0, 1, -2])
    with pytest.raises(ValueError, match=r"label of bag 1 \(id 'west'\) is 1.5 " + needs):
        LIKELIHOODS[likelihood].check_labels(bags, [0, 1.5, 2])
    with pytest.raises(ValueError, match=r"\(id 'north'\) is 2147483648 .* up to 2147483647"):
        LIKELIHOODS[likelihood].check_labels(bags, [2**31, 1, 2])
    with pytest.raises(ValueError, match="all 3 labels are 0: there is no rate"):
        LIKELIHOODS[likelihood].check_labels(bags, [0, 0, 0])


@pytest.mark.parametrize("total", [0, -0.25])
@pytest.mark.parametrize("likelihood", [n for n, each in LIKELIHOODS.items() if each.is_positive])
def test_labels_that_are_not_positive(bags, likelihood, total):
    with pytest.raises(ValueError, match=rf"'east'\) is {total} .*{likelihood} likelihood needs"):
        LIKELIHOODS[likelihood].check_labels(bags, [1, 2, total])


def test_trials(bags):
    def check(trials, y=(0, 1, 2)):
        kind("binomial").read(bags, y, trials=trials)

    with pytest.raises(ValueError, match=r"\(id 'east'\) is 2, above its 1 trials \(1 in total\)"):
        check([5, 5, 1])
    with pytest.raises(ValueError, match=r"trials has shape \(2,\), expected \(3,\)"):
        check([5, 5])
    with pytest.raises(TypeError, match="the number of trials of bag 0 .*, not a number"):
        check(["many", "some", "few"])
    for bad, shown in ((0, "0"), (2.5, "2.5"), (-1, "-1"), (np.nan, "nan")):
        with pytest.raises(ValueError, match=rf"number of trials of bag 1 .* is {shown} .*from 1"):
            check([5, bad, 5], y=[0, 0, 2])
    with pytest.raises(ValueError, match="number of trials of bag 0 .* up to 2147483647"):
        check([2**31, 5, 5])


def test_unknown_likelihood_and_strange_trials(bags):
    with pytest.raises(ValueError, match="likelihood must be one of 'poisson', .*, found 'beta'"):
        likelihood_named("beta")
    with pytest.raises(TypeError, match="the poisson likelihood takes no trials: leave it out"):
        kind("poisson").read(bags, [1, 2, 3], trials=[4, 4, 4])


def test_bags_without_points_or_weight_are_refused_where_bags_are_made():
    points = np.ones((3, 1))
    with pytest.raises(ValueError, match="all weights of bag 1 are zero"):
        Bags.from_points(points, sizes=[1, 2], weights=[1, 0, 0])
    with pytest.raises(ValueError, match="bag 0, point 0: weight is -1"):
        Bags.from_points(points, sizes=[1, 2], weights=[-1, 1, 0])
    with pytest.raises(ValueError, match="bag 1 has no points"):
        Bags.from_points(points, sizes=[3, 0])
