"""KernelMean: values, inner products and distances, against sums over pairs of points."""

import numpy as np
import pytest
from scipy.stats import wilcoxon

from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernel_means.shrinkage import ESTIMATORS
from bdr_stan.kernels import KERNELS, RBF, Polynomial, median_bandwidth
from data_gen.mixtures import random_mixture
from experiments.papers.gaussian_mixtures import MixtureMean


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kernel", [RBF(1.5), Polynomial(2)], ids=repr)
def test_values_inner_products_and_distances(rng, kernel, estimator):
    x, y, z = rng.normal(size=(7, 2)), rng.normal(size=(4, 2)) + 1, rng.normal(size=(5, 2))
    one, two = (KernelMean(points, kernel, estimator=estimator) for points in (x, y))
    np.testing.assert_allclose(
        one(z), [sum(w * kernel(p[None], v[None])[0, 0] for w, v in zip(one.weights, x)) for p in z]
    )
    plain = one.weights @ kernel(x, y) @ two.weights
    np.testing.assert_allclose([one.inner(two), two.inner(one)], plain)
    np.testing.assert_allclose(one.norm**2, one.weights @ kernel(x, x) @ one.weights)
    c = np.concatenate([one.weights, -two.weights])
    both = np.concatenate([x, y])
    np.testing.assert_allclose(one.distance(two) ** 2, c @ kernel(both, both) @ c)
    assert one.distance(one) < 1e-7


def test_names_bandwidths_and_chunks(rng, monkeypatch):
    x = rng.normal(size=(40, 3))
    mean = KernelMean(x, "cauchy", "median")
    assert mean.kernel.bandwidth == pytest.approx(median_bandwidth([x]))
    assert KernelMean(x, "cauchy").kernel.units == pytest.approx(x.std(axis=0))
    whole = mean(x)
    monkeypatch.setattr("bdr_stan.kernel_means.set_kernels._BYTES_PER_THREAD", 8 * 40 * 7)
    np.testing.assert_allclose(mean(x), whole, rtol=1e-14)


def test_shrunk_means_are_nearer_than_plain_ones():
    """20 points in 30 dimensions, 30 distributions of the paper: its Figures 1 and 2."""
    rng = np.random.default_rng(1)
    losses = {name: [] for name in ESTIMATORS}
    for _ in range(30):
        distribution = random_mixture(30, seed=rng)
        x = distribution.sample(20, seed=rng)
        kernel = RBF(np.sqrt(2) * median_bandwidth([x]))
        exact = MixtureMean(distribution, kernel)
        for name in ESTIMATORS:
            losses[name].append(exact.distance(KernelMean(x, kernel, estimator=name)) ** 2)
    for name in ("s-kmse", "f-kmse"):
        assert np.mean(losses[name]) < np.mean(losses["kme"])
        assert wilcoxon(losses[name], losses["kme"], alternative="less").pvalue < 0.01


def test_errors(rng):
    x = rng.normal(size=(5, 3))
    with pytest.raises(ValueError, match="estimator must be one of 'kme', 's-kmse', 'f-kmse'"):
        KernelMean(x, estimator="mean")
    with pytest.raises(ValueError, match="kernel must be a Kernel, 'auto' or one of 'rbf'"):
        KernelMean(x, "gauss")
    with pytest.raises(ValueError, match="bandwidth=2.0 goes with the name of a kernel: give RBF"):
        KernelMean(x, RBF(1.0), bandwidth=2.0)
    with pytest.raises(ValueError, match=r"bag 0, point 1, column 2: value is nan"):
        x_bad = x.copy()
        x_bad[1, 2] = np.nan
        KernelMean(x_bad)
    with pytest.raises(ValueError, match=r"points have shape .5, 2., expected .m, 3."):
        KernelMean(x)(x[:, :2])
    with pytest.raises(ValueError, match="the means have different kernels"):
        KernelMean(x).distance(KernelMean(2 * x))


@pytest.mark.parametrize("kernel", ["rbf", "exponential", "matern32", "student t"])
def test_identical_samples_have_no_distance(kernel, rng):
    """Also with kernels that have a kink where points meet."""
    x = rng.normal(size=(30, 2))
    mean = KernelMean(x, kernel, bandwidth=0.7)
    assert mean.distance(KernelMean(x[::-1], kernel, bandwidth=0.7)) < 1e-8
    other = KernelMean(x + 0.3, kernel, bandwidth=0.7)
    K = KERNELS[kernel](0.7)
    squared = K(x, x).mean() - 2 * K(x, x + 0.3).mean() + K(x + 0.3, x + 0.3).mean()
    assert mean.distance(other) == pytest.approx(np.sqrt(squared), rel=1e-6)
