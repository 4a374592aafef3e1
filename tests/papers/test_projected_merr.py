"""Kernel means projected on the kernel at landmarks, and ridge regression on them."""

import numpy as np
import pytest
from builders.location_family import location_family

from bdr_stan import MERR, Bags
from bdr_stan.kernel_means.set_kernels import BagMeans
from bdr_stan.kernels import RBF, Linear
from experiments.papers.projected_merr import ProjectedMERR


@pytest.fixture(scope="module")
def problem():
    bags, y = location_family(3, 30, largest=20)
    return Bags.from_list(bags), y


def test_projections_on_all_points_are_exact(problem):
    """A linear kernel has fewer directions than landmarks."""
    bags, model = problem[0], ProjectedMERR()
    for kernel in (RBF(3.0), Linear()):
        model.place(kernel, bags.points)
        coordinates = np.concatenate(model.projected(bags))
        products = BagMeans(bags, kernel).products()
        np.testing.assert_allclose(coordinates @ coordinates.T, products, rtol=1e-5, atol=1e-9)
    assert coordinates.shape == (30, 2)
    model.place(RBF(3.0), bags.points[:2])
    squares = np.sum(np.concatenate(model.projected(bags)) ** 2, axis=1)
    assert np.all(squares < BagMeans(bags, RBF(3.0)).squared_norms())


@pytest.mark.parametrize("outer", ["linear", "rbf"])
def test_all_points_as_landmarks_give_the_exact_fit(problem, outer):
    bags, y = problem
    exact = MERR(outer=outer).fit(bags, y, seed=1).predict(bags)
    n = len(bags.points)
    near, few = (ProjectedMERR(outer, k).fit(bags, y, seed=1).predict(bags) for k in (n, 5))
    np.testing.assert_allclose(near, exact, rtol=1e-4)
    assert np.abs(few - exact).max() > 1e-3
