"""Inner products of kernel means of bags against means over all pairs of points."""

import numpy as np
import pytest
from builders.pairs_of_points import bags_of, double_loop

from bdr_stan.bags import Bags
from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernel_means.set_kernels import BagMeans
from bdr_stan.kernel_means.shrinkage import ESTIMATORS
from bdr_stan.kernels import RBF


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("chunk_bytes", [8 * 49, 1 << 22])
def test_inner_products_of_bags(rng, estimator, chunk_bytes, monkeypatch):
    """Bags larger and smaller than a chunk, one point included, against one pair at a time."""
    kernel = RBF(2.0)
    arrays = [rng.normal(size=(size, 3)) for size in (1, 5, 30, 2, 8)]
    means = [KernelMean(a, kernel, estimator=estimator) for a in arrays]
    plain = np.array([[a.inner(b) for b in means] for a in means])
    bags = Bags.from_list(arrays)
    weights = np.concatenate([mean.weights for mean in means])
    monkeypatch.setattr("bdr_stan.kernel_means.set_kernels._BYTES_PER_THREAD", chunk_bytes)
    weighted = BagMeans(bags, kernel, weights)
    found = weighted.products()
    np.testing.assert_allclose(found, plain, rtol=1e-12)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(weighted.squared_norms(), plain.diagonal())
    some = weighted.products(BagMeans(bags[1:3], kernel, weights[1:36]), n_jobs=1)
    np.testing.assert_allclose(some, plain[:, 1:3], rtol=1e-12)


def test_inner_products_of_memory_maps(rng, tmp_path):
    points = rng.normal(size=(30, 2))
    sizes, kernel = [4, 26], RBF(1.0)
    in_memory = Bags.from_points(points, sizes=sizes)
    np.save(tmp_path / "points.npy", points)
    mapped = Bags.from_points(np.load(tmp_path / "points.npy", mmap_mode="r"), sizes=sizes)
    weights = rng.uniform(size=30)
    plain = BagMeans(in_memory, kernel, weights).products()
    np.testing.assert_array_equal(BagMeans(mapped, kernel, weights).products(), plain)


def test_products_are_those_of_kernel_means(rng):
    bags = bags_of(rng, [5, 1, 12], weighted=False)
    others = bags_of(rng, [4, 7], weighted=False)
    kernel = RBF(3.0)
    means, right = (BagMeans(b, kernel) for b in (bags, others))
    single, theirs = ([KernelMean(x, kernel) for x in b] for b in (bags, others))
    plain = np.array([[a.inner(b) for b in theirs] for a in single])
    np.testing.assert_allclose(means.products(right), plain, rtol=1e-10)
    np.testing.assert_allclose(means.squared_norms(), [a.norm**2 for a in single], rtol=1e-10)
    np.testing.assert_allclose(means.products().diagonal(), means.squared_norms(), rtol=1e-10)


def test_weighted_bags_keep_their_weights(rng):
    bags = bags_of(rng, [3, 1, 6])
    means = BagMeans(bags, RBF(3.0))
    np.testing.assert_allclose(means.products(), double_loop(bags, bags, RBF(3.0)), rtol=1e-10)
