"""What the features leave out of the logarithm of a bag's total, and when that is too much."""

import warnings

import numpy as np
import pytest

from bdr_stan import Bags
from bdr_stan.aggregate import outside_basis
from bdr_stan.aggregate.outside_basis import (
    omitted_variance,
    warn_beyond_box,
    warn_of_omitted_totals,
)
from bdr_stan.kernels import RBF, FieldFeatures, HilbertSpace, Matern32, resolve_kernel

KERNEL = RBF(0.7, columns=(0, 1)) + Matern32(1.0, columns=(2,), variance=0.5)


@pytest.fixture
def bags(rng):
    points, weights = rng.normal(size=(60, 3)), rng.uniform(0.5, 2.0, size=60)
    return Bags(points, np.array([0, 1, 9, 30, 60]), weights=weights)


@pytest.fixture
def features(bags):
    return FieldFeatures(KERNEL, bags.points[:6])


def by_definition(bags, features):
    """s'(K - Psi Psi')s of each bag, K the sum of the fields' kernels."""
    found = []
    for weights, points in zip(np.split(bags.weights, bags.offsets[1:-1]), bags, strict=True):
        shares, psi = weights / weights.sum(), features(points)
        gram = sum(field(points, points) for field in features.fields)
        found.append(shares @ (gram - psi @ psi.T) @ shares)
    return np.array(found)


def test_it_is_the_variance_of_a_bags_mean_outside_the_basis(bags, features):
    np.testing.assert_allclose(omitted_variance(bags, features), by_definition(bags, features))


def test_of_many_points_some_are_looked_at_and_bags_without_weight_there_are_passed_over(rng):
    points, weights = rng.normal(size=(320, 3)), np.ones(320)
    weights[:300] = 0.0
    weights[1] = 1.0  # of the first bag, whose points 0, 3, 6, ... are looked at
    bags = Bags(points, np.array([0, 300, 320]), weights=weights)
    features = FieldFeatures(KERNEL, points[:6])
    np.testing.assert_allclose(omitted_variance(bags, features), by_definition(bags, features)[[1]])


def test_fields_of_more_than_three_columns_are_left_out(rng):
    bags = Bags(rng.normal(size=(20, 5)), np.array([0, 8, 20]))
    wide, narrow = RBF(1.0, columns=(0, 1, 2, 3)), RBF(0.5, columns=(4,))
    landmarks = bags.points[:4]
    both = omitted_variance(bags, FieldFeatures(wide + narrow, landmarks))
    points = Bags(bags.points[:, 4:], bags.offsets)
    alone = omitted_variance(points, FieldFeatures(RBF(0.5), landmarks[:, 4:]))
    np.testing.assert_allclose(both, alone)


# The median of omitted variances is 4, of rho .5: the log of a total lacks an sd of 1.
@pytest.mark.parametrize(
    ("dispersion", "counts", "warns"),
    [
        (None, None, True),
        (0.9, None, True),
        (1.0, None, False),
        (1.1, None, False),
        (None, np.array([0, 1, 1]), False),
        (None, np.array([2, 4, 9]), True),
        (0.8, np.array([2, 4, 9]), True),
        (0.9, np.array([2, 4, 9]), False),
    ],
)
def test_a_warning_where_totals_scatter_less(
    bags, features, monkeypatch, recwarn, dispersion, counts, warns
):
    monkeypatch.setattr(outside_basis, "omitted_variance", lambda *_: np.array([0.0, 4.0, 100.0]))
    drawn = {"rho": np.array([0.1, 0.5, 7.0])}
    if dispersion is not None:
        drawn["dispersion"] = np.array([0.0, dispersion, 3.0])
    warn_of_omitted_totals(bags, counts, features, drawn)
    assert [str(w.message)[:54] for w in recwarn] == warns * [
        "the features leave out a standard deviation of 1 of th"
    ]


def test_points_are_beyond_the_functions_only_outside_of_the_training_range():
    time = np.linspace(0, 10, 41)[:, None]
    bags = Bags(time, np.array([0, 20, 41]), features=["time"])
    kernel = resolve_kernel(HilbertSpace(Matern32(1.0, columns=["time"])), "scaled", bags)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_beyond_box(bags, kernel)
    later = Bags(time + 6, bags.offsets, features=["time"])
    with pytest.warns(
        UserWarning, match="23 points .* column 'time' from 10.5 to 16, .* to 10.25:"
    ):
        warn_beyond_box(later, kernel)
