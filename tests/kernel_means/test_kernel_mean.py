"""KernelMean, the exact means of mixtures of Gaussians, and the loss between them."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal, wilcoxon
from sklearn.datasets import load_iris

from bdr_stan.bags import Bags
from bdr_stan.kernel_means.gaussian_mixtures import GaussianMixture, MixtureMean
from bdr_stan.kernel_means.kernel_mean import (
    ESTIMATORS,
    KernelMean,
    bag_inner_products,
    bag_squared_norms,
    bag_weights,
    f_kmse,
    f_kmse_score,
    kernel_mean_weights,
)
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
    median_bandwidth,
)
from data_gen.mixtures import random_mixture

KERNELS = [
    RBF(2.0),
    RBF([2.0, 0.7, 5.0]),
    Exponential(2.0),
    Matern32(2.0),
    Matern52(2.0, columns=(0, 2)),
    Cauchy(2.0),
    RationalQuadratic(2.0, alpha=0.5),
    InverseMultiquadric(2.0),
    StudentT(2.0, degree=1.5),
    Linear(),
    Polynomial(2),
    Polynomial(3, 0.5),
    RBF(2.0) + Linear(variance=0.1),
    RBF(2.0) * Matern32(4.0),
]
CLOSED = [RBF(2.0), RBF([2.0, 0.7, 5.0], variance=3.0), Linear(), Polynomial(2), Polynomial(3, 0.5)]


def name_of(kernel):
    return repr(kernel)


def left_out(points, kernel, fit):
    """(1/n) sum_i |mean without point i - k(x_i, .)|^2, with everything refitted."""
    n, total = len(points), 0.0
    for i in range(n):
        others = np.delete(points, i, axis=0)
        gram = kernel(others, others)
        beta, cross = fit(gram), kernel(others, points[i : i + 1])[:, 0]
        total += beta @ gram @ beta - 2 * beta @ cross + kernel.diagonal(points[i : i + 1])[0]
    return total / n


def simple(factor):
    return lambda gram: np.full(len(gram), factor / len(gram))


def flexible(shrinkage):
    return lambda gram: np.linalg.solve(
        gram + len(gram) * shrinkage * np.eye(len(gram)), gram.mean(axis=1)
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=name_of)
def test_simple_shrinkage_minimises_the_score_of_refits(rng, kernel):
    x = rng.normal(size=(12, 3)) + 1.5
    mean = KernelMean(x, kernel, estimator="s-kmse")
    a = np.array([0.25, 0.5, 1.0])  # the score is a parabola in a = 1 / (1 + lambda)
    scores = [left_out(x, kernel, simple(v)) for v in a]
    parabola = np.polyfit(a, scores, 2)
    best = -parabola[1] / (2 * parabola[0])
    np.testing.assert_allclose(1 / (1 + mean.shrinkage), best, rtol=1e-10)
    np.testing.assert_allclose(mean.weights, best / 12, rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=name_of)
def test_flexible_score_is_that_of_refits(rng, kernel):
    x = rng.normal(size=(12, 3)) + 1.5
    gram = kernel(x, x)
    for shrinkage in (1e-3, 0.1, 10.0):
        plain = left_out(x, kernel, flexible(shrinkage))
        np.testing.assert_allclose(f_kmse_score(gram, shrinkage), plain, rtol=1e-8)


@pytest.mark.parametrize("kernel", [RBF(2.0), Linear(), Polynomial(2)], ids=name_of)
def test_score_of_theorem_4(rng, kernel):
    """Point i leaves the average, but stays among the functions; against plain loops."""
    x = rng.normal(size=(9, 3)) + 1
    gram, n = kernel(x, x), 9

    def plain(shrinkage):
        total = 0.0
        for i in range(n):
            others = np.delete(gram, i, axis=1).sum(axis=1) / n
            r = np.linalg.lstsq(
                (n - 1) / n * gram @ gram + n * shrinkage * gram, gram @ others, rcond=1e-12
            )[0]
            r[i] -= 1
            total += r @ gram @ r
        return total / n

    at = np.array([0.01, 0.3, 20.0])
    np.testing.assert_allclose(
        f_kmse_score(gram, at, span="all"), [plain(v) for v in at], rtol=1e-8
    )
    # At lambda 0 there is nothing to filter, and both scores are that of the plain mean.
    np.testing.assert_allclose(
        f_kmse_score(gram, 0.0, span="all"), f_kmse_score(gram, 0.0), rtol=1e-12
    )
    chosen = f_kmse(gram, span="all")[1]
    found = minimize_scalar(
        lambda v: plain(np.exp(v)), bounds=np.log([chosen / 9, chosen * 9]), method="bounded"
    )
    np.testing.assert_allclose(f_kmse_score(gram, chosen, span="all"), found.fun, rtol=1e-7)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kernel", [RBF(1.5), Polynomial(2)], ids=name_of)
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
    mean = KernelMean(x, "cauchy")
    assert mean.kernel.bandwidth == pytest.approx(median_bandwidth([x]))
    whole = mean(x)
    monkeypatch.setattr("bdr_stan.kernel_means.kernel_mean._CHUNK_BYTES", 8 * 40 * 7)
    np.testing.assert_allclose(mean(x), whole, rtol=1e-14)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("chunk_bytes", [8 * 49, 1 << 22])
def test_inner_products_of_bags(rng, estimator, chunk_bytes):
    """Bags larger and smaller than a chunk, one point included, against one pair at a time."""
    kernel = RBF(2.0)
    arrays = [rng.normal(size=(size, 3)) for size in (1, 5, 30, 2, 8)]
    means = [KernelMean(a, kernel, estimator=estimator) for a in arrays]
    plain = np.array([[a.inner(b) for b in means] for a in means])
    bags = Bags.from_list(arrays)
    weights, shrinkage = bag_weights(bags, kernel, estimator)
    np.testing.assert_allclose(shrinkage, [m.shrinkage for m in means])
    found = bag_inner_products(bags, weights, kernel, chunk_bytes=chunk_bytes)
    np.testing.assert_allclose(found, plain, rtol=1e-12)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(bag_squared_norms(bags, weights, kernel), plain.diagonal())
    some = bag_inner_products(
        bags, weights, kernel, bags[1:3], weights[1:36], chunk_bytes=chunk_bytes, n_jobs=1
    )
    np.testing.assert_allclose(some, plain[:, 1:3], rtol=1e-12)


def test_weighted_bags_keep_their_weights(rng):
    bags = Bags.from_list(
        [rng.normal(size=(2, 1)), rng.normal(size=(3, 1))], weights=[[1, 3], [0, 2, 2]]
    )
    weights, _ = bag_weights(bags, RBF(1.0), "kme")
    np.testing.assert_allclose(weights, [0.25, 0.75, 0, 0.5, 0.5])
    with pytest.raises(ValueError, match="'s-kmse' counts points equally, but the bags have"):
        bag_weights(bags, RBF(1.0), "s-kmse")


def test_memory_maps(rng, tmp_path):
    points = rng.normal(size=(30, 2))
    sizes, kernel = [4, 26], RBF(1.0)
    in_memory = Bags.from_points(points, sizes=sizes)
    np.save(tmp_path / "points.npy", points)
    mapped = Bags.from_points(np.load(tmp_path / "points.npy", mmap_mode="r"), sizes=sizes)
    weights = bag_weights(in_memory, kernel, "s-kmse")[0]
    np.testing.assert_array_equal(bag_weights(mapped, kernel, "s-kmse")[0], weights)
    plain = bag_inner_products(in_memory, weights, kernel)
    np.testing.assert_array_equal(bag_inner_products(mapped, weights, kernel), plain)
    points[7, 1] = np.nan
    np.save(tmp_path / "points.npy", points)
    mapped = Bags.from_points(np.load(tmp_path / "points.npy", mmap_mode="r"), sizes=sizes)
    with pytest.raises(ValueError, match="bag 1, point 3, column 1: value is nan"):
        bag_weights(mapped, kernel, "kme")


# ------------------------------------------------------------ mixtures of Gaussians


@pytest.fixture
def mixture(rng):
    factors = rng.normal(size=(3, 3, 3))
    return GaussianMixture(
        np.array([0.2, 0.5, 0.3]), rng.normal(size=(3, 3)), factors @ factors.transpose(0, 2, 1)
    )


def test_density_and_sample_of_a_mixture(mixture):
    x = mixture.sample(100_000, seed=3)
    np.testing.assert_allclose(x.mean(axis=0), mixture.weights @ mixture.means, atol=0.05)
    moved = mixture.means - mixture.weights @ mixture.means
    spread = (
        np.tensordot(mixture.weights, mixture.covariances, 1) + moved.T * mixture.weights @ moved
    )
    np.testing.assert_allclose(np.cov(x.T), spread, atol=0.03 * np.trace(spread))
    parts = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    density = sum(w * multivariate_normal(m, S).pdf(x[:5]) for w, m, S in parts)
    np.testing.assert_allclose(np.exp(mixture.log_density(x[:5])), density)


@pytest.mark.parametrize("kernel", CLOSED, ids=name_of)
def test_exact_means_against_monte_carlo(mixture, kernel):
    exact = MixtureMean(mixture, kernel)
    x = mixture.sample(6, seed=1)
    n = 200_000
    values = kernel(x, mixture.sample(n, seed=2))
    error = values.std(axis=1) / np.sqrt(n)
    assert np.all(np.abs(exact(x) - values.mean(axis=1)) < 4 * error)
    pairs = exact(mixture.sample(n, seed=4))  # the mean of these is the squared norm
    assert abs(exact.norm**2 - pairs.mean()) < 4 * pairs.std() / np.sqrt(n)


@pytest.mark.parametrize("kernel", CLOSED, ids=name_of)
def test_a_mixture_of_points_is_a_sample(rng, kernel):
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    exact = MixtureMean(GaussianMixture(np.full(4, 0.25), x, np.zeros(4)), kernel)
    sample, other = KernelMean(x, kernel), KernelMean(y, kernel, estimator="f-kmse")
    np.testing.assert_allclose(exact(y), sample(y))
    np.testing.assert_allclose(exact.norm, sample.norm)
    for pair in ((exact, other), (other, exact)):
        np.testing.assert_allclose(pair[0].distance(pair[1]), sample.distance(other))


def test_isotropic_covariances(rng):
    means, variances = rng.normal(size=(2, 3)), np.array([0.5, 2.0])
    short = GaussianMixture(np.array([0.4, 0.6]), means, variances)
    full = GaussianMixture(short.weights, means, variances[:, None, None] * np.eye(3))
    x = rng.normal(size=(6, 3))
    np.testing.assert_allclose(short.log_density(x), full.log_density(x))
    np.testing.assert_allclose(MixtureMean(short, RBF(1.0))(x), MixtureMean(full, RBF(1.0))(x))


def test_mixtures_of_the_paper():
    several = [random_mixture(4, seed=seed) for seed in range(400)]
    means = np.array([m.means for m in several])
    assert means.min() < -9.5 and means.max() > 9.5 and abs(means.mean()) < 0.5
    covariances = np.array([m.covariances for m in several]).mean(axis=(0, 1))
    np.testing.assert_allclose(covariances, 14.2 * np.eye(4), atol=0.6)  # 7 x 2 I + 0.2 I
    np.testing.assert_array_equal(several[0].weights, [0.05, 0.3, 0.4, 0.25])
    assert (
        np.linalg.matrix_rank(random_mixture(12, seed=1).covariances - 0.2 * np.eye(12)).max() == 7
    )


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
            losses[name].append(KernelMean(x, kernel, estimator=name).distance(exact) ** 2)
    for name in ("s-kmse", "f-kmse"):
        assert np.mean(losses[name]) < np.mean(losses["kme"])
        assert wilcoxon(losses[name], losses["kme"], alternative="less").pvalue < 0.01


# ------------------------------------------------------------ errors


def test_errors(rng, mixture):
    x = rng.normal(size=(5, 3))
    with pytest.raises(ValueError, match="estimator must be one of 'kme', 's-kmse', 'f-kmse'"):
        KernelMean(x, estimator="mean")
    with pytest.raises(ValueError, match="kernel must be one of 'rbf'"):
        KernelMean(x, "gauss")
    with pytest.raises(ValueError, match="bandwidth=2.0 goes with the name of a kernel: give RBF"):
        KernelMean(x, RBF(1.0), bandwidth=2.0)
    with pytest.raises(ValueError, match=r"bag 0, point 1, column 2: value is nan"):
        x_bad = x.copy()
        x_bad[1, 2] = np.nan
        KernelMean(x_bad)
    with pytest.raises(ValueError, match="points have shape .5, 2., expected .m, 3."):
        KernelMean(x)(x[:, :2])
    with pytest.raises(ValueError, match="the means have different kernels"):
        KernelMean(x).distance(KernelMean(2 * x))
    with pytest.raises(ValueError, match="span must be 'others' or 'all', found 'none'"):
        f_kmse(np.eye(3), span="none")
    for kernel in (Cauchy(1.0), Polynomial(4), RBF(), RBF(1.0, columns=(0,))):
        with pytest.raises(ValueError, match="exact kernel means of Gaussians need RBF"):
            MixtureMean(mixture, kernel)


def test_weights_on_real_points():
    x = load_iris().data
    kernel = RBF(1.0)
    plain, simple, flexible = (kernel_mean_weights(x, kernel, name)[0] for name in ESTIMATORS)
    assert plain.sum() == pytest.approx(1)
    assert 0.9 < simple.sum() < 1
    assert flexible.std() > 1e-5  # not one factor for all
