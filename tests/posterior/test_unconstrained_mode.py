"""Modes of densities in closed form, and densities that have none."""

import numpy as np
import pytest

from bdr_stan.posterior.stanli import hessian, mode_of_density

PRECISION = np.array([[2.0, 0.5, 0.0], [0.5, 40.0, 1.0], [0.0, 1.0, 0.3]])
CENTRE = np.array([1.0, -2.0, 3.0])


def normal(q):
    away = PRECISION @ (q - CENTRE)
    return -0.5 * (q - CENTRE) @ away, -away


def test_normal_density():
    mode = mode_of_density(normal, np.zeros(3))
    np.testing.assert_allclose(mode, CENTRE, atol=1e-6)
    np.testing.assert_allclose(hessian(normal, mode), -PRECISION, atol=1e-6)


def test_curvature_of_another_density():
    def density(q):
        return -np.cosh(q).sum(), -np.sinh(q)

    np.testing.assert_allclose(hessian(density, np.array([0.0, 1.0])), -np.diag(np.cosh([0, 1])),
                               atol=1e-7)  # fmt: skip


def test_steps_beyond_the_support_are_shortened():
    """-x + log(x) above 0 alone, from where the first step leaves the support."""

    def density(q):
        if q[0] <= 0:
            raise RuntimeError("log of a negative number")
        return 10 * (np.log(q[0]) - q[0]), 10 * (1 / q - 1)

    np.testing.assert_allclose(mode_of_density(density, np.array([1.9])), 1.0, rtol=1e-5)
    np.testing.assert_allclose(mode_of_density(density, np.array([0.01])), 1.0, rtol=1e-5)


def test_start_without_a_density_says_why():
    def density(q):
        raise RuntimeError("rejected")

    with pytest.raises(RuntimeError, match="^rejected$"):
        mode_of_density(density, np.zeros(2))


def test_density_that_rises_for_ever():
    def density(q):
        return q.sum(), np.ones_like(q)

    with pytest.raises(RuntimeError, match=r"no mode was found in \d+ iterations: set iter to mor"):
        mode_of_density(density, np.zeros(2), iterations=50)


def test_search_that_halts_on_a_slope():
    def density(q):
        return -np.abs(q - 0.123).sum() - 3 * np.abs(q).sum(), -np.sign(q - 0.123) - 3 * np.sign(q)

    with pytest.raises(RuntimeError, match="halt on a slope, as at a kink .*use method='nuts'"):
        mode_of_density(density, np.array([0.7]))
