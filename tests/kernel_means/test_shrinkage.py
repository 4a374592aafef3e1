"""Shrunk kernel means against estimates made anew without each point, in plain loops."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_iris

from bdr_stan import kernels
from bdr_stan.kernel_means.shrinkage import (
    ESTIMATORS,
    f_kmse,
    f_kmse_score,
    gram_means,
    kernel_mean_weights,
    s_kmse,
    s_kmse_shrinkage,
)

KERNELS = {
    "rbf": kernels.RBF(1.5),
    "linear": lambda x, y: x @ y.T,
    "quadratic": lambda x, y: (x @ y.T + 1) ** 2,
}


OBJECTS = [
    kernels.RBF(2.0),
    kernels.RBF([2.0, 0.7, 5.0]),
    kernels.Exponential(2.0),
    kernels.Matern32(2.0),
    kernels.Matern52(2.0, columns=(0, 2)),
    kernels.Cauchy(2.0),
    kernels.RationalQuadratic(2.0, alpha=0.5),
    kernels.InverseMultiquadric(2.0),
    kernels.StudentT(2.0, degree=1.5),
    kernels.Linear(),
    kernels.Polynomial(2),
    kernels.Polynomial(3, 0.5),
    kernels.RBF(2.0) + kernels.Linear(variance=0.1),
    kernels.RBF(2.0) * kernels.Matern32(4.0),
]


SIZES = [2, 3, 10, 40]


def points(rng, n, p=3):
    return rng.normal(size=(n, p)) + 1.0


def leave_one_out(gram, weights_of):
    """(1/n) sum_i |sum_(j != i) w_j k(x_j, .) - k(x_i, .)|^2, w the weights from the others."""
    n = len(gram)
    total = 0.0
    for i in range(n):
        others = np.delete(np.arange(n), i)
        c = np.zeros(n)
        c[others] = weights_of(gram[np.ix_(others, others)])
        c[i] = -1
        total += c @ gram @ c
    return total / n


def simple(shrinkage):
    return lambda gram: np.full(len(gram), 1 / (len(gram) * (1 + shrinkage)))


def flexible(shrinkage):
    def weights(gram):
        n = len(gram)
        return np.linalg.solve(gram + n * shrinkage * np.eye(n), gram.mean(axis=1))

    return weights


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]


@pytest.mark.parametrize("n", SIZES)
def test_simple_shrinkage_minimises_the_leave_one_out_score(rng, kernel, n):
    x = points(rng, n) + 2  # positive kernel values on average: a minimum inside
    gram = kernel(x, x)
    weights, shrinkage = s_kmse(gram)
    # The score is a parabola in a = 1 / (1 + lambda): three values give its minimum.
    a = np.array([0.25, 0.5, 1.0])
    parabola = np.polyfit(a, [leave_one_out(gram, simple(1 / v - 1)) for v in a], 2)
    best = -parabola[1] / (2 * parabola[0])
    np.testing.assert_allclose(1 / (1 + shrinkage), best, rtol=1e-10)
    np.testing.assert_allclose(weights, best / n, rtol=1e-10)
    assert shrinkage > 0


def test_simple_shrinkage_by_hand():
    # Two points with k = 1 on the diagonal, 1/2 off it: m_i is the other point, A = 1, B = 1/2.
    weights, shrinkage = s_kmse([[1, 0.5], [0.5, 1]])
    assert shrinkage == pytest.approx(1.0)
    np.testing.assert_allclose(weights, 0.25)


def test_points_unlike_on_average_shrink_to_nothing():
    gram = np.array([[1.0, -0.2], [-0.2, 1.0]])
    weights, shrinkage = s_kmse(gram)
    assert shrinkage == np.inf
    np.testing.assert_array_equal(weights, 0)
    scores = [leave_one_out(gram, simple(v)) for v in (0, 1, 10, 1e3, 1e6)]
    assert np.all(np.diff(scores) < 0)  # it does fall all the way
    assert s_kmse(np.eye(4))[1] == np.inf


@pytest.mark.parametrize("estimator", [s_kmse, f_kmse])
def test_nothing_to_shrink(estimator):
    for gram in ([[2.0]], np.full((5, 5), 0.7), np.zeros((3, 3))):
        weights, shrinkage = estimator(gram)
        assert shrinkage == pytest.approx(0, abs=1e-15)
        np.testing.assert_allclose(weights, 1 / len(gram))


@pytest.mark.parametrize("n", [1, 2, 100, 257])
def test_sums_in_chunks_are_those_of_the_matrix(rng, kernel, n, monkeypatch):
    x = points(rng, n)
    gram = kernel(x, x)
    for chunk_bytes in (8, 8 * 30**2, 1 << 22):
        if chunk_bytes == 8 and n > 100:
            continue
        monkeypatch.setattr("bdr_stan.kernel_means.shrinkage._BLOCK_BYTES", chunk_bytes)
        sums = gram_means(x, kernel)
        np.testing.assert_allclose(sums, (gram.mean(), gram.diagonal().mean()), rtol=1e-10)
    np.testing.assert_allclose(s_kmse_shrinkage(n, *sums), s_kmse(gram)[1], rtol=1e-9)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shrinkage", [0.0, 1e-6, 1e-3, 0.1, 10.0, 1e4])
def test_flexible_score_is_that_of_estimates_made_anew(rng, kernel, n, shrinkage):
    x = points(rng, n)
    gram = kernel(x, x)
    plain = leave_one_out(gram, flexible(shrinkage) if shrinkage else simple(0))
    np.testing.assert_allclose(f_kmse_score(gram, shrinkage), plain, rtol=1e-8)


@pytest.mark.parametrize("kernel", OBJECTS, ids=repr)
def test_scores_are_those_of_refits_for_every_kernel(rng, kernel):
    x = rng.normal(size=(12, 3)) + 1.5
    gram = kernel(x, x)
    weights, _ = kernel_mean_weights(x, kernel, "s-kmse")
    a = np.array([0.25, 0.5, 1.0])  # the score is a parabola in a = 1 / (1 + lambda)
    parabola = np.polyfit(a, [leave_one_out(gram, simple(1 / v - 1)) for v in a], 2)
    np.testing.assert_allclose(weights, -parabola[1] / (2 * parabola[0]) / 12, rtol=1e-10)
    for shrinkage in (1e-3, 0.1, 10.0):
        plain = leave_one_out(gram, flexible(shrinkage))
        np.testing.assert_allclose(f_kmse_score(gram, shrinkage), plain, rtol=1e-8)


def test_flexible_score_with_repeated_points(rng):
    x = points(rng, 12)
    x[6:] = x[:6]
    gram = kernels.RBF(1.5)(x, x)
    for shrinkage in (1e-4, 0.1):
        plain = leave_one_out(gram, flexible(shrinkage))
        np.testing.assert_allclose(f_kmse_score(gram, shrinkage), plain, rtol=1e-8)


def test_many_scores_at_once(rng):
    gram = kernels.RBF(1.5)(*[points(rng, 15)] * 2)
    shrinkage = np.array([[0.0, 0.01], [1.0, 0.0]])
    one_by_one = [[float(f_kmse_score(gram, v)) for v in row] for row in shrinkage]
    np.testing.assert_allclose(f_kmse_score(gram, shrinkage), one_by_one, rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_flexible_estimator_is_at_the_minimum(rng, kernel, n):
    x = points(rng, n)
    gram = kernel(x, x)
    weights, shrinkage = f_kmse(gram)
    assert shrinkage > 0
    np.testing.assert_allclose(weights, flexible(shrinkage)(gram), rtol=1e-8, atol=1e-12)
    best = f_kmse_score(gram, shrinkage)
    assert best <= f_kmse_score(gram, 0.0)
    grid = np.geomspace(1e-8, 1e6, 300)
    scores = f_kmse_score(gram, grid)
    at = int(np.clip(np.argmin(scores), 1, 298))
    found = minimize_scalar(
        lambda v: leave_one_out(gram, flexible(np.exp(v))),
        bounds=np.log(grid[[at - 1, at + 1]]),
        method="bounded",
    )
    # Where the score falls all the way, the search ends where nothing is left to gain.
    assert best <= found.fun * (1 + 1e-3)
    if shrinkage < 10:
        np.testing.assert_allclose(best, found.fun, rtol=1e-8)


def test_lambda_does_not_depend_on_the_unit_of_the_kernel(rng):
    x = points(rng, 20)
    gram = kernels.RBF(1.5)(x, x)
    for estimator, power in ((s_kmse, 0), (f_kmse, 1)):
        (weights, shrinkage), (scaled, other) = estimator(gram), estimator(1e6 * gram)
        np.testing.assert_allclose(scaled, weights, rtol=1e-4)
        np.testing.assert_allclose(other, shrinkage * 1e6**power, rtol=1e-4)


@pytest.mark.parametrize("estimator", [s_kmse, f_kmse])
def test_shrinking_brings_the_mean_nearer(estimator):
    """Points N(0.4, I) in 20 dimensions, linear kernel: the mean itself is known."""
    rng = np.random.default_rng(3)
    truth = np.full(20, 0.4)
    plain = shrunk = 0.0
    for _ in range(50):
        x = rng.normal(size=(10, 20)) + truth
        plain += np.sum((x.mean(axis=0) - truth) ** 2)
        shrunk += np.sum((estimator(x @ x.T)[0] @ x - truth) ** 2)
    assert shrunk < 0.85 * plain


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (np.ones((2, 3)), r"shape \(2, 3\), expected \(n, n\)"),
        (np.ones((0, 0)), r"shape \(0, 0\)"),
        ([[1, np.nan], [np.nan, 1]], r"entry \(0, 1\) of the kernel matrix is nan"),
        ([[1, 0.5], [0.2, 1]], "not symmetric"),
    ],
)
def test_wrong_kernel_matrices(gram, message):
    for use in (s_kmse, f_kmse, lambda gram: f_kmse_score(gram, 0.1)):
        with pytest.raises(ValueError, match=message):
            use(gram)


def test_other_errors():
    with pytest.raises(ValueError, match="negative eigenvalue -1"):
        f_kmse([[1, 2], [2, 1]])
    with pytest.raises(ValueError, match="one point has no leave-one-out score"):
        f_kmse_score([[1.0]], 0.1)
    with pytest.raises(ValueError, match="shrinkage must be finite and >= 0, found -0.1"):
        f_kmse_score(np.eye(3), -0.1)


def test_weights_on_real_points():
    x = load_iris().data
    kernel = kernels.RBF(1.0)
    plain, simple, flexible = (kernel_mean_weights(x, kernel, name)[0] for name in ESTIMATORS)
    assert plain.sum() == pytest.approx(1)
    assert 0.9 < simple.sum() < 1
    assert flexible.std() > 1e-5  # not one factor for all


def test_unknown_names():
    with pytest.raises(ValueError, match="estimator must be one of 'kme', .* found 'mean'"):
        kernel_mean_weights(np.eye(3), kernels.RBF(1.0), "mean")
