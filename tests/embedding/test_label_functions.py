"""Functions of the label: smooth, orthonormal, constant beyond the labels; contrasts of classes."""

import numpy as np
import pytest

from bdr_stan.embedding.label_functions import (
    LabelFunctions,
    functions_of_classes,
    functions_of_numbers,
)


@pytest.fixture
def y(rng):
    return 40 + 7 * rng.gamma(2.0, size=80)


def test_functions_of_numbers_are_orthonormal_and_begin_with_lines(y):
    functions = functions_of_numbers(y)
    B = functions(y)
    assert B.shape == (80, len(functions.smooth)) == (80, 6)
    np.testing.assert_allclose(B.T @ B / len(y), np.eye(6), atol=1e-3)  # knots are rounded
    np.testing.assert_array_equal(B[:, 0], 1)
    np.testing.assert_allclose(B[:, 1], (y - y.mean()) / y.std(), atol=1e-3)
    assert functions.n_straight == 1 and not functions.has_classes


def test_scales_are_one_over_the_root_of_squared_curvature(y):
    functions = functions_of_numbers(y)
    u, knots = np.linspace(*functions.knots[[0, -1]], 20_001), functions.knots
    values = functions(functions.centre + functions.unit * u)[:, 2:]
    bends = np.gradient(np.gradient(values, u, axis=0), u, axis=0)[2:-2]
    curvature = np.mean(bends**2, axis=0)
    expected = np.sqrt(curvature[0] / curvature)
    np.testing.assert_allclose(functions.smooth[2:], expected, rtol=0.02)
    assert np.all(np.diff(functions.smooth[2:]) < 0)  # the smoothest first
    np.testing.assert_array_equal(functions.smooth[:2], 1)
    ends = (np.array([y.min(), y.max()]) - y.mean()) / y.std()
    np.testing.assert_allclose(knots[[0, -1]], ends, atol=1e-3)


def test_functions_stay_beyond_the_labels(y):
    functions = functions_of_numbers(y)
    ends, beyond = functions([y.min(), y.max()]), functions([y.min() - 3, y.max() + 1e6])
    np.testing.assert_allclose(beyond, ends, atol=0.01)  # knots are rounded
    np.testing.assert_array_equal(functions([y.min() - 99, y.max() + 3]), beyond)


def test_units_of_labels_do_not_matter(y):
    B = functions_of_numbers(y)(y)
    again = functions_of_numbers(5 + 1e3 * y)(5 + 1e3 * y)
    np.testing.assert_allclose(np.abs(again), np.abs(B), atol=1e-7)


@pytest.mark.parametrize("n_labels", [2, 3, 4])
@pytest.mark.parametrize("n_bags", [12, 60])
def test_few_different_labels_have_few_functions(rng, n_labels, n_bags):
    y = rng.permutation(np.arange(n_bags) % n_labels) * 2.5
    functions = functions_of_numbers(y)
    B = functions(y)
    assert B.shape == (n_bags, n_labels)
    np.testing.assert_allclose(B.T @ B / n_bags, np.eye(n_labels), atol=1e-7)
    between = functions(np.linspace(0, y.max(), 50))
    assert np.abs(between).max() < 5


def test_an_outlier_leaves_a_line(rng):
    y = np.append(rng.normal(size=40), 1e6)
    functions = functions_of_numbers(y)
    assert len(functions.knots) == 2 and functions(y).shape == (41, 2)


@pytest.mark.parametrize("n_bags, expected", [(2, 2), (5, 2), (9, 3), (17, 5), (18, 6), (99, 6)])
def test_few_bags_have_few_functions(rng, n_bags, expected):
    y = rng.normal(size=n_bags)
    B = functions_of_numbers(y)(y)
    assert B.shape == (n_bags, expected)
    np.testing.assert_allclose(B.T @ B / n_bags, np.eye(expected), atol=0.01)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_contrasts_of_classes(n_classes):
    functions = functions_of_classes(n_classes)
    B = functions(np.arange(n_classes))
    np.testing.assert_allclose(B.T @ B / n_classes, np.eye(n_classes), atol=1e-12)
    np.testing.assert_array_equal(B[:, 0], 1)
    assert functions.has_classes and functions.n_straight == n_classes - 1
    np.testing.assert_array_equal(functions([1, 0, 1]), B[[1, 0, 1]])


def test_constants_keep_the_functions(y):
    for functions, labels in (
        (functions_of_numbers(y), np.linspace(30, 90, 7)),
        (functions_of_classes(3), np.array([2, 0, 1])),
    ):
        constants = {name: np.asarray(v) for name, (v, _) in functions.constants().items()}
        again = LabelFunctions.from_constants(constants)
        np.testing.assert_array_equal(again(labels), functions(labels))
        assert again.n_straight == functions.n_straight
