"""Set kernels of lists of kernels of all kinds against means over all pairs of points."""

import numpy as np
import pytest
from builders.pairs_of_points import bags_of, double_loop
from sklearn.model_selection import KFold

from bdr_stan.bags import Bags
from bdr_stan.kernels import RBF, Cauchy, Exponential, Linear, Matern52, Polynomial
from experiments.papers.kernel_grids import held_out, set_kernels


def test_grid_of_polynomials_is_the_mean_over_pairs(rng):
    bags, others = bags_of(rng, [4, 1, 9]), bags_of(rng, [2, 6], weighted=False)
    kernels = [
        Polynomial(p, c, variance=v) for p, c, v in [(2, 0.5, 1.0), (3, 0.0, 2.0), (3, 8.0, 1.0)]
    ]
    kernels += [Polynomial(2, 2.0), Linear()]
    for k, found in zip(kernels, set_kernels(bags, kernels, others), strict=True):

        def values(x, y, k=k):
            return k.variance * (x @ y.T + k.constant) ** k.degree

        np.testing.assert_allclose(found, double_loop(bags, others, values), rtol=1e-10)


def test_kernels_of_all_kinds_in_one_list(rng):
    bags = bags_of(rng, [6, 1, 11])
    bags = Bags.from_list(list(bags), features=["a", "b", "c"])
    kernels = [
        RBF(1.5),
        Polynomial(2, 1.0),
        RBF(1.5, columns=["b"]),
        Matern52(0.7, columns=["b"]),
        RBF([1.0, 2.0, 3.0]),
        RBF(2.0) * Linear() + Cauchy(1.0),
        Exponential(4.0),
    ]
    found = set_kernels(bags, kernels)
    for k, kernel in enumerate(kernels):
        seen = kernel.on(["a", "b", "c"], 3)
        expected = double_loop(bags, bags, seen)
        # the kernels' own distances are good to 1e-16 |x|^2
        np.testing.assert_allclose(found[k], expected, rtol=1e-9, err_msg=repr(kernel))


def test_memory_map(rng, tmp_path):
    points = rng.normal(size=(20, 2))
    np.save(tmp_path / "points.npy", points)
    mapped = Bags(np.load(tmp_path / "points.npy", mmap_mode="r"), [0, 7, 20])
    kernels = [RBF(1.0), Cauchy(2.0)]
    held = set_kernels(Bags(points, [0, 7, 20]), kernels)
    np.testing.assert_array_equal(set_kernels(mapped, kernels), held)
    points[8, 1] = np.nan
    np.save(tmp_path / "points.npy", points)
    mapped = Bags(np.load(tmp_path / "points.npy", mmap_mode="r"), [0, 7, 20])
    with pytest.raises(ValueError, match="bag 1, point 1, column 1: value is nan"):
        set_kernels(mapped, kernels)


def test_errors(rng):
    bags = bags_of(rng, [3, 4])
    with pytest.raises(ValueError, match="others have 2 features per point, but the bags have 3"):
        set_kernels(bags, [RBF(1.0)], [np.ones((2, 2))])
    with pytest.raises(ValueError, match="bandwidth='median' is not a number yet"):
        set_kernels(bags, [RBF(1.0), RBF("median")])
    with pytest.raises(
        ValueError, match="RBF depends on the column 5, which the points do not have"
    ):
        set_kernels(bags, [RBF(1.0, columns=[5])])
    with pytest.raises(TypeError, match="not bags"):
        set_kernels(np.ones((3, 2)), [RBF(1.0)])


def test_held_out_errors_of_one_kernel_matrix(rng):
    x, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    splits = list(KFold(3).split(x))
    alphas, errors, predictions = held_out(x @ x.T, y, splits)
    assert alphas.shape == errors.shape == (49,) and predictions.shape == (30, 49)
    np.testing.assert_allclose(errors, np.mean((predictions - y[:, None]) ** 2, axis=0))
    several = rng.normal([0.0, 5.0, 1.0], size=(30, 3))
    _, errors, predictions = held_out(x @ x.T, several, splits, alphas)
    np.testing.assert_allclose(errors, np.mean((predictions - several[:, None]) ** 2, axis=(0, 2)))
