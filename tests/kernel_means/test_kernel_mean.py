"""KernelMean: values, inner products and distances, against sums over pairs of points."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import wilcoxon

from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernel_means.shrinkage import ESTIMATORS
from bdr_stan.kernels import KERNELS, RBF, Linear, Polynomial, median_bandwidth
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


# ------------------------------------------------------------------ shrinkage towards any function


@pytest.mark.parametrize("estimator", ["s-kmse", "f-kmse"])
def test_weights_towards_a_target(rng, estimator):
    """With the linear kernel means are vectors: shrink x - f, then move back by f."""
    x, centre = rng.normal(size=(9, 3)), rng.normal(size=(4, 3)) + 2
    target = KernelMean(centre, Linear(), estimator="s-kmse")
    f = target.weights @ centre
    moved = KernelMean(x - f, Linear(), estimator=estimator)
    shrunk = KernelMean(x, Linear(), estimator=estimator, target=target)
    assert shrunk.shrinkage == pytest.approx(moved.shrinkage, rel=1e-6)
    np.testing.assert_allclose(
        shrunk.weights @ shrunk.points, f + moved.weights @ moved.points, rtol=1e-6
    )
    z = rng.normal(size=(5, 3))
    np.testing.assert_allclose(shrunk(z), z @ (shrunk.weights @ shrunk.points))
    assert shrunk.norm == pytest.approx(np.linalg.norm(shrunk.weights @ shrunk.points))


def test_simple_shrinkage_minimises_the_score_towards_its_target(rng):
    """The definition, with each point left out in turn: alpha f* + (1 - alpha) mu."""
    x, kernel = rng.normal(size=(8, 2)), RBF(1.2)
    target = KernelMean(rng.normal(size=(3, 2)) + 0.5, kernel)

    def score(alpha):
        total = 0.0
        for i in range(8):
            others = np.delete(x, i, axis=0)
            points = np.concatenate([target.points, others, x[i : i + 1]])
            c = np.r_[np.full(3, alpha / 3), np.full(7, (1 - alpha) / 7), -1.0]
            total += c @ kernel(points, points) @ c / 8
        return total

    best = minimize_scalar(score, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).x
    mean = KernelMean(x, kernel, estimator="s-kmse", target=target)
    assert mean.shrinkage / (1 + mean.shrinkage) == pytest.approx(best, rel=1e-5)
    np.testing.assert_allclose(mean(x), best * target(x) + (1 - best) * KernelMean(x, kernel)(x))


@pytest.mark.parametrize("shift", [0.1, 1.0, 30.0])
def test_any_target_lowers_the_risk_up_to_the_bound_of_the_theorem(rng, shift):
    """Muandet et al. (2014), Theorem 1, with the exact risk: all samples of a discrete variable.

    The risk of alpha f* + (1 - alpha) mu_hat is below that of mu_hat exactly for 0 < alpha < 2 D /
    (D + |f* - mu|^2), D the risk of mu_hat, and least at half of the bound; so for any f*.
    """
    kernel, support, n = RBF(1.0), rng.normal(size=(4, 2)), 3
    truth, target = KernelMean(support, kernel), KernelMean(support[:2] + shift, kernel)
    points = np.concatenate([support, target.points])
    gram = kernel(points, points)
    samples = [np.bincount(chosen, minlength=4) / n for chosen in product(range(4), repeat=n)]

    def risk(alpha):
        losses = []
        for weights in samples:
            c = np.r_[(1 - alpha) * weights - 0.25, np.full(2, alpha / 2)]
            losses.append(c @ gram @ c)
        return np.mean(losses)

    plain = risk(0.0)
    assert plain == pytest.approx((1 - truth.norm**2) / n)  # D = (E k(x, x) - |mu|^2) / n
    bound = 2 * plain / (plain + target.distance(truth) ** 2)
    assert risk(bound) == pytest.approx(plain, rel=1e-9)
    for share in (0.01, 0.5, 0.99):
        assert risk(share * bound) < plain
    assert risk(1.01 * bound) > plain and risk(-0.01 * bound) > plain
    assert risk(bound / 2) < min(risk(0.49 * bound), risk(0.51 * bound))


def test_shrinkage_towards_a_near_target_gains_more(rng):
    """Remark 1: the nearer f* is to mu, the lower the risk; here by 200 samples of 5 points."""
    kernel = RBF(1.0)
    truth = KernelMean(rng.normal(size=(500, 2)), kernel)
    targets = {"near": KernelMean(rng.normal(size=(500, 2)) + 0.1, kernel), "zero": None}
    losses = {name: [] for name in targets}
    for _ in range(200):
        x = truth.points[rng.integers(500, size=5)]
        for name, target in targets.items():
            mean = KernelMean(x, kernel, estimator="s-kmse", target=target)
            losses[name].append(truth.distance(mean) ** 2)
    gain = np.subtract(losses["zero"], losses["near"])
    assert gain.mean() > 4 * gain.std() / np.sqrt(200)


def test_targets_that_are_none(rng):
    x = rng.normal(size=(5, 3))
    other = KernelMean(x + 1, bandwidth=2.0)
    with pytest.raises(TypeError, match="target must be a KernelMean, found 0"):
        KernelMean(x, estimator="s-kmse", target=0)
    with pytest.raises(ValueError, match="estimator 'kme' does not shrink"):
        KernelMean(x, bandwidth=2.0, target=other)
    with pytest.raises(ValueError, match="the means have different kernels"):
        KernelMean(x, bandwidth=1.0, estimator="s-kmse", target=other)
    with pytest.raises(ValueError, match=r"points have shape .5, 2., expected .m, 3."):
        KernelMean(x[:, :2], bandwidth=2.0, estimator="s-kmse", target=other)
