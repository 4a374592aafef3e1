"""Polynomial kernels."""

import numpy as np
import pytest
from builders.kernels import gram, kernel_and_definition

from bdr_stan.kernels import Linear, Polynomial


@pytest.mark.parametrize("name", ["polynomial", "linear"])
def test_values_are_the_definition(rng, name):
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    kernel, definition = kernel_and_definition(name)
    np.testing.assert_allclose(kernel(x, y), gram(definition, x, y).astype(float), rtol=1e-10)
    np.testing.assert_allclose(kernel.diagonal(x), [definition(a, a) for a in x])


def test_defaults_are_the_square_with_a_constant(rng):
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(Polynomial()(x, y), (x @ y.T + 1) ** 2)
    np.testing.assert_allclose(Polynomial(columns=[2])(x, y), (x[:, 2:] @ y[:, 2:].T + 1) ** 2)
    np.testing.assert_allclose(Linear([1], 3.0)(x, y), 3 * x[:, 1:2] @ y[:, 1:2].T)


def test_it_has_no_bandwidth(rng):
    kernel = Polynomial(3)
    assert kernel.resolved([rng.normal(size=(9, 2))]) is kernel
    assert kernel.scaled(2.0) is kernel
    assert kernel.parameter_names == []
    assert kernel.with_log_parameters([]) is kernel


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polynomial(columns=[]), "Polynomial has no columns: name some, or None for all"),
        (lambda: Polynomial(1.5), "degree of Polynomial must be an integer >= 1, found 1.5"),
        (lambda: Polynomial(0), "degree of Polynomial must be an integer >= 1, found 0"),
        (lambda: Polynomial(2, -1), "constant of Polynomial must be a number >= 0, found -1"),
        (lambda: Linear(variance=0), "variance of Polynomial must be a positive number, found 0"),
    ],
)
def test_unusable_kernels_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
