"""Linear effects: the inner product of standardised columns."""

import numpy as np
import pytest

from bdr_stan import Bags
from bdr_stan.kernels import LinearEffects


def test_data_standardise_the_columns(rng):
    """Years and dollars count alike, whatever their units."""
    points = np.column_stack([rng.normal(40, 12, 300), rng.lognormal(10, 0.5, 300), np.ones(300)])
    kernel = LinearEffects(columns=[1, 0]).resolved(Bags.from_points(points, sizes=[100, 200]))
    z = (points - points.mean(axis=0)) / [points[:, 0].std(), points[:, 1].std(), 1]
    np.testing.assert_allclose(kernel(points[:9], points[9:12]), z[:9, :2] @ z[9:12, :2].T)
    np.testing.assert_allclose(kernel.diagonal(points), np.sum(z[:, :2] ** 2, axis=1))
    assert kernel.resolved([points * 2]) is kernel


def test_nothing_of_it_is_learned():
    kernel = LinearEffects()
    assert kernel.parameter_names == []
    assert kernel.scaled(2.0) is kernel and kernel.with_log_parameters([]) is kernel


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LinearEffects(variance=0),
            "variance of LinearEffects must be a positive number, found 0",
        ),
        (
            lambda: LinearEffects(columns=[]),
            "LinearEffects has no columns: name some, or None for all",
        ),
        (
            lambda: LinearEffects(units=[1.0]),
            "LinearEffects has centre and units, or neither: give both",
        ),
        (
            lambda: LinearEffects()([[1.0]], [[2.0]]),
            r"LinearEffects has no numbers yet: call resolved\(bags\)",
        ),
    ],
)
def test_unusable_kernels_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
