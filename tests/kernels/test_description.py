"""Kernels as settings in files."""

import json

import numpy as np
import pandas as pd
import pytest
from builders.kernels import COLUMNS, composed

from bdr_stan.bags import Bags
from bdr_stan.kernels import (
    KERNELS,
    RBF,
    HilbertSpace,
    Linear,
    LinearEffects,
    Matern32,
    NormalScores,
    Polynomial,
    QuadraticEffects,
    RationalQuadratic,
    StudentT,
    kernel_config,
    kernel_from_config,
    kernel_named,
    resolve_kernel,
)


def test_a_kernel_goes_through_json(rng):
    x, y = rng.normal(size=(11, 3)), rng.normal(size=(4, 3))
    k = composed().on(COLUMNS, 3) * Polynomial(3, 0.5)
    again = kernel_from_config(json.loads(json.dumps(kernel_config(k))))
    np.testing.assert_array_equal(again(x, y), k(x, y))


@pytest.mark.parametrize(
    "kernel",
    [
        *(kernel_named(name, np.array([0.5, 1.0, 3.0])) for name in KERNELS),
        RationalQuadratic(np.float64(2.0), (0, 2), 3.0, alpha=0.3),
        StudentT(2.0, (np.int64(1),), degree=1.7),
        Linear((2, 1), 0.4),
        LinearEffects((2, 1), 0.4, centre=[1.0, 2.0], units=[3.0, 0.5]),
        QuadraticEffects((2, 1), 0.4, centre=[1.0, 2.0], units=[3.0, 0.5]),
        NormalScores(Matern32(0.6), [1], 2.0, knots=[[-1.0, 0.0, 4.0], [-2.0, 0.1, 2.0]]),
        HilbertSpace(Matern32([0.5, 2.0], (0, 2)), 7, 2.0, centre=[0.0, 1.0], reach=[2.0, 3.0]),
        (RBF(1.0) + RBF(2.0)).with_log_parameters([0.3, 0.2, 0.1]),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_every_kernel_goes_through_json(rng, kernel):
    x, y = rng.normal(size=(11, 3)), rng.normal(size=(4, 3))
    config = kernel_config(kernel)
    again = kernel_from_config(json.loads(json.dumps(config)))
    assert type(again) is type(kernel)
    np.testing.assert_array_equal(again(x, y), kernel(x, y))
    assert kernel_config(again) == config


@pytest.mark.parametrize(
    "columns",
    [
        ["b", "a"],
        ("c", 0),
        [np.int64(2), 1],
        np.array([0, 2]),
        np.array(["c", "a"]),
        pd.Index(["b"]),
    ],
    ids=repr,
)
def test_columns_go_through_json_as_they_are(columns):
    again = kernel_from_config(json.loads(json.dumps(kernel_config(RBF(2.0, columns)))))
    assert again.on(COLUMNS, 3).columns == RBF(2.0, columns).on(COLUMNS, 3).columns


@pytest.mark.parametrize("kernel", [RBF(), Matern32("ard", columns=["b", "a"]), composed()])
def test_a_kernel_that_waits_for_data_goes_through_json(rng, kernel):
    points = rng.normal(size=(60, 3)) * [1, 10, 100]
    bags = Bags.from_points(points, sizes=[20, 30, 10], features=COLUMNS)
    again = kernel_from_config(json.loads(json.dumps(kernel_config(kernel))))
    one, other = (resolve_kernel(k, "scaled", bags) for k in (kernel, again))
    np.testing.assert_array_equal(other(bags.points, bags[0]), one(bags.points, bags[0]))
