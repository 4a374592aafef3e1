"""Set kernels against means over all pairs of points, one kernel at a time and in grids."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bdr_stan.kernel_means import set_kernels as module
from bdr_stan.bags import Bags
from bdr_stan.kernels import (
    RBF,
    Cauchy,
    Exponential,
    InverseMultiquadric,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
    RationalQuadratic,
    StudentT,
)
from bdr_stan.kernel_means.set_kernels import set_kernels

THETAS = 2.0 ** np.arange(-15, 11)
# Values at the distance d.
GRIDS = {
    "rbf": [(RBF(t), lambda d, t=t: np.exp(-(d**2) / (2 * t**2))) for t in THETAS],
    "exponential": [
        (Exponential(2 * t**2), lambda d, t=t: np.exp(-d / (2 * t**2))) for t in THETAS
    ],
    "cauchy": [(Cauchy(t), lambda d, t=t: 1 / (1 + (d / t) ** 2)) for t in THETAS],
    "student t": [
        (StudentT(1.0, degree=t), lambda d, t=t: 1 / (1 + d**t)) for t in THETAS if t <= 2
    ],
    "rational quadratic": [
        (RationalQuadratic(t, alpha=2.5), lambda d, t=t: (1 + (d / t) ** 2 / 5) ** -2.5)
        for t in THETAS
    ],
    "inverse multiquadric": [
        (InverseMultiquadric(t, variance=3.0), lambda d, t=t: 3 / np.sqrt(1 + (d / t) ** 2))
        for t in THETAS
    ],
    "matern32": [
        (Matern32(t), lambda d, t=t: (1 + np.sqrt(3) * d / t) * np.exp(-np.sqrt(3) * d / t))
        for t in THETAS
    ],
    "matern52": [
        (
            Matern52(t),
            lambda d, t=t: (
                (1 + np.sqrt(5) * d / t + 5 * (d / t) ** 2 / 3) * np.exp(-np.sqrt(5) * d / t)
            ),
        )
        for t in THETAS
    ],
}


def bags_of(rng, sizes, p=3, weighted=True):
    arrays = [rng.normal(2 * rng.normal(size=p) + 50, 1, (size, p)) for size in sizes]
    weights = [rng.uniform(0, 2, size) for size in sizes] if weighted else None
    return Bags.from_list(arrays, weights=weights)


def weights_of(bags, i):
    if bags.weights is None:
        return np.full(bags.sizes[i], 1 / bags.sizes[i])
    own = bags.weights[bags.offsets[i] : bags.offsets[i + 1]]
    return own / own.sum()


def double_loop(bags, others, value):
    """value(x, y) of all pairs of points, averaged by weight."""
    return np.array(
        [
            [weights_of(bags, i) @ value(a, b) @ weights_of(others, j) for j, b in enumerate(others)]
            for i, a in enumerate(bags)
        ]
    )


@pytest.fixture
def two_sides(rng):
    """Bags from 1 to 30 points, some with points in common."""
    bags, others = bags_of(rng, [7, 1, 30, 12]), bags_of(rng, [5, 20, 1], weighted=False)
    shared = np.concatenate([bags[0], others[1]])
    weights = [weights_of(bags, i) for i in range(4)]
    return (
        Bags.from_list([*bags, shared], weights=[*weights, np.ones(27)]),
        Bags.from_list([*others, bags[2]]),
    )


@pytest.mark.parametrize("name", GRIDS)
def test_grid_of_distances_is_the_mean_over_pairs(two_sides, name):
    bags, others = two_sides
    found = set_kernels(bags, [kernel for kernel, _ in GRIDS[name]], others)
    itself = set_kernels(bags, [kernel for kernel, _ in GRIDS[name]])
    for k, (kernel, value) in enumerate(GRIDS[name]):

        def values(x, y, value=value):
            return value(cdist(x, y))

        size = {"rtol": 0, "atol": 1e-11 * kernel.variance, "err_msg": repr(kernel)}
        np.testing.assert_allclose(found[k], double_loop(bags, others, values), **size)
        np.testing.assert_allclose(itself[k], double_loop(bags, bags, values), **size)
        np.testing.assert_array_equal(itself[k], itself[k].T)


def test_wide_kernels_keep_what_tells_bags_apart(rng):
    """Of k = 1 - s/2b^2 + .. with large b the ones say nothing: the rest has to be right too."""
    bags = bags_of(rng, [40, 60, 50], weighted=False)
    wide, wider = set_kernels(bags, [RBF(2.0**10), RBF(2.0**11)])
    rest = double_loop(bags, bags, lambda x, y: -np.expm1(-cdist(x, y, "sqeuclidean") / 2**21))
    np.testing.assert_allclose(1 - wide, rest, rtol=1e-8)
    assert (1 - wide).max() < 1e-4 and wider.min() > wide.min()


def test_blocks_do_not_matter(rng, monkeypatch):
    """Bags in pieces, blocks of many bags, and any number of threads."""
    bags = bags_of(rng, [25, 3, 1, 1, 1, 40, 2])
    others = bags_of(rng, [1, 1, 33, 4])
    kernels = [RBF(0.5), Matern32(3.0), Polynomial(2, 1.0), Linear()]
    whole, cross = set_kernels(bags, kernels), set_kernels(bags, kernels, others)
    monkeypatch.setattr(module, "_ROWS", 8)
    monkeypatch.setattr(module, "_BAGS", 2)
    for n_jobs in (1, 3):
        pieces = set_kernels(bags, kernels, n_jobs=n_jobs)
        np.testing.assert_allclose(pieces, whole, rtol=1e-10)
        np.testing.assert_allclose(set_kernels(bags, kernels, others, n_jobs=n_jobs), cross, rtol=1e-10)
    np.testing.assert_array_equal(pieces, set_kernels(bags, kernels, n_jobs=2))


def test_grid_of_polynomials_is_the_mean_over_pairs(rng):
    bags, others = bags_of(rng, [4, 1, 9]), bags_of(rng, [2, 6], weighted=False)
    kernels = [Polynomial(p, c, variance=v) for p, c, v in [(2, 0.5, 1.0), (3, 0.0, 2.0), (3, 8.0, 1.0)]]
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


def test_repeated_points_and_single_precision(rng):
    """Bags of one value, far from the origin, and float32."""
    bags = Bags.from_list([np.full((3, 2), 7.0), np.full((2, 2), 7.0), np.full((4, 2), 8.0)])
    narrow = set_kernels(bags, [RBF(1e-3), Exponential(1e-3)])
    np.testing.assert_allclose(narrow, np.stack([[[1, 1, 0], [1, 1, 0], [0, 0, 1]]] * 2), atol=1e-12)
    alike = Bags.from_list([np.ones((2, 1)), np.ones((1, 1))])
    np.testing.assert_allclose(set_kernels(alike, [RBF(1.0), Cauchy(2.0)]), 1.0, rtol=1e-14)
    points = rng.normal(size=(9, 2)).astype(np.float32)
    single, double = Bags(points, [0, 4, 9]), Bags(points.astype(float), [0, 4, 9])
    kernels = [RBF(1.0), Cauchy(2.0)]
    np.testing.assert_array_equal(set_kernels(single, kernels), set_kernels(double, kernels))


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
    with pytest.raises(ValueError, match="others have 2 features a point, but the bags 3"):
        set_kernels(bags, [RBF(1.0)], [np.ones((2, 2))])
    with pytest.raises(ValueError, match="bandwidth='median' waits for data"):
        set_kernels(bags, [RBF(1.0), RBF("median")])
    with pytest.raises(ValueError, match="RBF looks at the column 5, which the points do not have"):
        set_kernels(bags, [RBF(1.0, columns=[5])])
    with pytest.raises(TypeError, match="not bags"):
        set_kernels(np.ones((3, 2)), [RBF(1.0)])
