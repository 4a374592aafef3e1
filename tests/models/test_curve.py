"""The basis of the curve against the Gaussian process it stands for, and the points."""

import numpy as np
import pytest

from bdr_stan.models.curve import (
    HALF_WIDTH,
    N_POINTS,
    CurvedCoordinates,
    basis_frequencies,
    basis_functions,
    leading_points,
    normal_points,
    spectral_sd,
)


@pytest.mark.parametrize("q, B, ell", [(1, 30, 0.7), (2, 250, 1.0), (3, 500, 1.6)])
def test_basis_has_the_covariance_of_the_gaussian_process(q, B, ell):
    u = np.random.default_rng(1).uniform(-1.5, 1.5, (12, q))
    frequencies = basis_frequencies(q, B)
    weighted = basis_functions(u, frequencies) * spectral_sd(frequencies, ell)
    squared = np.sum((u[:, None] - u) ** 2, axis=2)
    expected = np.exp(-squared / (2 * ell**2))
    np.testing.assert_allclose(weighted @ weighted.T, expected, atol=0.03)


def test_basis_is_orthonormal_and_0_at_the_edge_and_beyond():
    frequencies = basis_frequencies(1, 6)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    phi = basis_functions(HALF_WIDTH * nodes[:, None], frequencies)
    gram = (phi * (HALF_WIDTH * weights)[:, None]).T @ phi
    np.testing.assert_allclose(gram, np.eye(6), atol=1e-10)
    outside = np.array([[-9.0], [-HALF_WIDTH], [HALF_WIDTH], [HALF_WIDTH + 0.3]])
    np.testing.assert_allclose(basis_functions(outside, frequencies), 0, atol=1e-12)


@pytest.mark.parametrize("q, B", [(1, 7), (2, 20), (3, 20)])
def test_the_smoothest_functions_are_kept(q, B):
    kept = basis_frequencies(q, B)
    order = np.stack(np.meshgrid(*[np.arange(1, 15)] * q, indexing="ij"), axis=-1).reshape(-1, q)
    squares = np.sort(np.sum((order * np.pi / (2 * HALF_WIDTH)) ** 2, axis=1))
    np.testing.assert_allclose(np.sum(kept**2, axis=1), squares[:B])
    assert len(np.unique(kept, axis=0)) == B


@pytest.mark.parametrize("q", [1, 2, 3])
def test_points_stand_for_a_standard_normal(q):
    points = normal_points(q)
    assert points.shape == (N_POINTS, q)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.mean(points**2, axis=0), 1)
    of_cosine = np.mean(np.cos(points), axis=0)
    np.testing.assert_allclose(of_cosine, np.exp(-0.5), atol=0.02)


def test_leading_points_have_the_moments_of_the_posterior():
    z, sizes, lam = np.array([[0.4, -1.0, 2.0], [1.5, 0.3, 0.0]]), [2.0, 50.0], np.r_[1.0, 3.0, 9.0]
    u = leading_points(z, np.array(sizes), lam, normal_points(2))
    for i, size in enumerate(sizes):
        for k in range(2):
            s = 1 / (1 + lam[k] / size)
            np.testing.assert_allclose(u[i, :, k].mean(), s * z[i, k])
            np.testing.assert_allclose(u[i, :, k].var(), 1 - s)


def test_coordinates_come_back_from_what_a_fit_keeps():
    d = 3
    coordinates = CurvedCoordinates(
        np.zeros(d), np.eye(d), np.arange(d), np.eye(d), frequencies=basis_frequencies(2, 4)
    )
    constants = {name: values for name, (values, _) in coordinates.constants().items()}
    again = CurvedCoordinates.from_constants(constants)
    assert vars(again).keys() == vars(coordinates).keys()
    for name, values in vars(coordinates).items():
        np.testing.assert_array_equal(getattr(again, name), values)
