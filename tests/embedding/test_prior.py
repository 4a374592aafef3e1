"""Matrices of the embeddings' prior against their definitions, point by point."""

import numpy as np
import pytest
from builders.kernels import COLUMNS, gram, kernel_and_definition
from builders.partitions import COLUMNS as COLUMNS_OF_TABLE
from builders.partitions import partitions, people_table
from builders.training import (
    JITTER,
    dense_problem,
    empirical,
    labelled_bags,
    of_kernel,
    relative_error_of_scale,
    scale_between,
    training_of,
)

from bdr_stan.bags import Bags
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.prior import (
    check_embedding_prior,
    eta_prior,
    landmark_matrices,
    scale_log_sd,
)
from bdr_stan.embedding.training import training_features
from bdr_stan.kernels import RBF, Kernel

KERNELS = ["rbf", "rbf, a length a column", "matern32", "variance", "sum", "product", "linear"]


@pytest.fixture
def bags(rng):
    return labelled_bags(rng)[0]


@pytest.fixture
def u(rng):
    return rng.normal(size=(5, 3))


def assert_matrices(found, p):
    for name, values in zip(("K", "R", "Sigma"), found, strict=True):
        expected = getattr(p, name)
        atol = 1e-10 * np.abs(expected).max()
        np.testing.assert_allclose(values, expected, rtol=1e-8, atol=atol, err_msg=name)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("prior", ["empirical", "kernel"])
def test_matrices_are_their_definitions(bags, u, name, prior):
    training = training_of(bags, name, u)
    _, definition = kernel_and_definition(name)
    R = {"empirical": empirical, "kernel": of_kernel}[prior]
    found = landmark_matrices(training, embedding_prior=prior)
    assert_matrices(found, dense_problem(bags, np.zeros(len(bags)), definition, u, R))
    assert (found[0] is found[1]) == (prior == "kernel")


@pytest.mark.parametrize("name", ["matern32", "variance", "columns, a length each"])
def test_prior_of_another_kernel_is_its_definition(bags, u, name):
    kernel, definition = kernel_and_definition(name)
    training = training_of(bags, "rbf", u)
    K, R, _ = landmark_matrices(training, embedding_prior=kernel)
    expected = gram(definition, u, u).astype(float)
    expected += JITTER * np.trace(expected) / len(u) * np.eye(len(u))
    np.testing.assert_allclose(R, expected, rtol=1e-8)
    assert K is not R


def test_prior_of_the_same_kernel_is_the_kernel_prior(bags, u):
    training = training_of(bags, "rbf", u)
    K, R, _ = landmark_matrices(training, embedding_prior=training.kernel)
    np.testing.assert_allclose(R, K, rtol=1e-12)


class OfSquares(Kernel):
    """A kernel of a user: q(x)' M q(y) + 0.1 x'y, q the squares of the columns."""

    variance = 1.0
    M = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])

    def prepare(self, landmarks):
        return np.asarray(landmarks)

    def fill(self, points, prepared, out):
        out[:] = points**2 @ self.M @ prepared.T**2 + 0.1 * points @ prepared.T


def test_prior_of_a_user_s_own_kernel(bags):
    """Any covariance of the embeddings: a class with two methods."""
    u = np.array([[1.0, 0.2, 0.1], [0.3, 1.0, 0.0], [0.0, 0.4, 1.0]])
    training = training_of(bags, "rbf", u)
    _, R, _ = landmark_matrices(training, embedding_prior=OfSquares())
    expected = u**2 @ OfSquares.M @ u.T**2 + 0.1 * u @ u.T
    expected += JITTER * np.trace(expected) / 3 * np.eye(3)
    np.testing.assert_allclose(R, expected, rtol=1e-12)


def test_prior_of_another_kernel_needs_landmarks_with_all_columns(bags):
    kernel = RBF(1.0, columns=["a"]) + RBF(1.0, columns=["b"])
    training = training_features(bags, kernel=kernel, n_landmarks=6, covariance=True)
    with pytest.raises(ValueError, match="embedding_prior is a kernel, so kernel= must not be a"):
        landmark_matrices(training, embedding_prior=RBF(1.0))
    with pytest.raises(ValueError, match="bandwidth='scaled' is not a number yet"):
        landmark_matrices(training_of(bags, "rbf", np.eye(3)), embedding_prior=RBF("scaled"))


def test_the_default_is_the_empirical_prior(bags, u):
    training = training_of(bags, "rbf", u)
    _, definition = kernel_and_definition("rbf")
    p = dense_problem(bags, np.zeros(len(bags)), definition, u, empirical)
    assert_matrices(landmark_matrices(training), p)


def test_but_for_the_jitter_the_matrices_are_plain(bags, u):
    training = training_of(bags, "rbf", u)
    K, _, Sigma = landmark_matrices(training, embedding_prior="kernel")
    np.testing.assert_allclose(K, RBF(0.9)(u, u) + JITTER * np.eye(5), rtol=1e-12)
    np.testing.assert_array_equal(Sigma, training.embedding.covariance + JITTER * np.eye(5))


def test_few_bags_leave_the_empirical_prior_positive_definite(rng, u):
    bags = Bags.from_list([rng.normal(size=(9, 3)), rng.normal(size=(4, 3))], features=COLUMNS)
    _, R, _ = landmark_matrices(training_of(bags, "rbf", u))
    values = np.linalg.eigvalsh(R)
    assert values[0] > 0 and values[-2] < 0.1 * values[-1]  # two bags tell one direction


# ---------------------------------------------------------------- eta


def embeddings(rng, n, sizes, *, within=1.0, d=5, spread=1.0):
    """Empirical embeddings minus their average, true covariance B, average covariance of a point.

    sizes and within are numbers or arrays of n: points per bag, factor of its points' covariance.
    """
    B = np.diag(0.5 ** np.arange(d))
    true = spread * rng.normal(size=(n, d)) @ np.sqrt(B)
    noise = np.broadcast_to(np.sqrt(3 * within / sizes), n)
    mean = true + rng.normal(size=(n, d)) * noise[:, None]
    return mean - mean.mean(axis=0), spread**2 * B, 3 * np.mean(within) * np.eye(d)


def embedded(mean, sizes):
    return Embedding(sizes, mean, None)


def test_eta_prior_is_the_moment_estimate(rng):
    """E |mu_hat_i - m0|^2 = eta tr(R) + tr(Sigma) / N_i, by hand and where the truth is known."""
    mean, sizes = np.array([[1.0, -2.0], [3.0, 0.0]]), np.array([2.0, 4.0])
    Sigma, R = np.diag([0.5, 1.5]), np.diag([1.0, 3.0])
    found = eta_prior(embedded(mean, sizes), Sigma, R)
    assert found["eta_median"] == pytest.approx(((2 + 2) / 2 - 2 * (0.5 + 0.25) / 2) / 4)
    sizes = rng.choice([1, 5, 40], 20_000)
    true = rng.multivariate_normal(np.zeros(2), 0.7 * R, 20_000)
    seen = true + rng.multivariate_normal(np.zeros(2), Sigma, 20_000) / np.sqrt(sizes)[:, None]
    assert eta_prior(embedded(seen, sizes), Sigma, R)["eta_median"] == pytest.approx(0.7, rel=0.03)


@pytest.mark.parametrize("tails", [1.0, 100.0])
def test_log_sd_is_the_jackknife(rng, tails):
    """Against leaving bags out one by one; with heavy tails the trace's own error is the larger."""
    n = 60
    sizes = rng.choice([10.0, 12.0, 20.0], n)
    heavy = np.sqrt(tails / rng.chisquare(tails, n))
    mean, _, Sigma = embeddings(rng, n, sizes)
    mean = 2 * heavy[:, None] * mean
    mean -= mean.mean(axis=0)
    expected = relative_error_of_scale(mean, sizes, Sigma)
    assert 0.1 < expected < 2
    assert scale_log_sd(embedded(mean, sizes), Sigma) == pytest.approx(expected, rel=1e-10)
    normal = np.hypot(
        np.sqrt(2 / (n - 1)) * np.mean(np.sum(mean**2, axis=1)),
        np.trace(Sigma) * np.std(1 / sizes),
    ) / scale_between(mean, sizes, Sigma)
    assert (expected > 1.01 * normal) == (tails == 1)


def test_log_sd_is_small_where_many_bags_show_the_scale(rng):
    mean, _, Sigma = embeddings(rng, 5_000, 50.0)
    assert scale_log_sd(embedded(mean, np.full(5_000, 50.0)), Sigma) == 0.1
    mean, _, Sigma = embeddings(rng, 200, 50.0)
    assert 0.1 < scale_log_sd(embedded(mean, np.full(200, 50.0)), Sigma) < 0.2


@pytest.mark.parametrize("n", [1, 2, 50, 1000])
def test_log_sd_is_2_where_bags_do_not_show_the_scale(rng, n):
    spread = 1.0 if n <= 2 else 0.0
    mean, _, Sigma = embeddings(rng, n, 3.0, spread=spread)
    mean -= 0.0 if n == 1 else mean.mean(axis=0)
    assert scale_log_sd(embedded(mean, np.full(n, 3.0)), 1.1 * Sigma) == 2.0


def test_log_sd_of_few_bags_is_large():
    """Also where their embeddings happen to be equally far from the average."""
    found = {}
    for n in (3, 5, 10):
        for seed in range(20):
            mean, _, Sigma = embeddings(np.random.default_rng(seed), n, 50.0)
            found.setdefault(n, []).append(scale_log_sd(embedded(mean, np.full(n, 50.0)), Sigma))
    assert min(found[3]) > 1 and min(found[5]) > 0.7 and min(found[10]) > 0.47
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert scale_log_sd(embedded(square, np.full(4, 1e6)), np.eye(2)) == pytest.approx(
        np.sqrt(2 / 3), rel=1e-5
    )


def test_log_sd_is_larger_where_sizes_differ(rng):
    """Labels of such bags identify eta, and the within-bag part may depend on the size."""
    sizes = rng.choice([5.0, 10.0, 50.0], 300)
    one = np.full(300, 1 / np.mean(1 / sizes))  # as much noise, in all
    mean, _, Sigma = embeddings(rng, 300, sizes)
    assert scale_log_sd(embedded(mean, sizes), Sigma) > 2 * scale_log_sd(embedded(mean, one), Sigma)


@pytest.mark.parametrize("kind", ["one size", "several sizes", "small bags are wide"])
@pytest.mark.parametrize("n", [20, 60, 200])
def test_prior_covers_the_scale_where_bags_scatter_differently(kind, n):
    """Within-bag covariances by up to ten times; the prior is of their average alone."""
    away = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        sizes = np.full(n, 10.0) if kind == "one size" else rng.choice([5.0, 50.0], n)
        within = 10 ** rng.uniform(-0.5, 0.5, n)
        if kind == "small bags are wide":
            within = np.where(sizes == 5, 10**0.5, 10**-0.5)
        mean, B, Sigma = embeddings(rng, n, sizes, within=within)
        found = eta_prior(embedded(mean, sizes), Sigma, B)
        away.append(np.log(1 / found["eta_median"]) / found["eta_log_sd"])  # the true eta is 1
    assert np.mean(np.abs(away) < 2) >= 0.95 and np.max(np.abs(away)) < 3


@pytest.mark.parametrize("prior", ["kernel", RBF(2.0)])
def test_log_sd_is_2_where_the_shape_of_the_prior_covariance_is_assumed(rng, prior):
    mean, B, Sigma = embeddings(rng, 200, 50.0)
    arguments = embedded(mean, np.full(200, 50.0)), Sigma, B
    assert eta_prior(*arguments, embedding_prior=prior)["eta_log_sd"] == 2.0
    assert eta_prior(*arguments)["eta_log_sd"] < 0.2


@pytest.mark.parametrize("weight", [None, "w"])
def test_eta_prior_of_bags_in_partitions_is_that_of_bags_in_memory(weight):
    table, columns = people_table(), {**COLUMNS_OF_TABLE, "weight": weight}
    found = []
    for bags in (
        Bags.from_dataframe(table, **columns, features=["age", "income"]),
        Bags.from_dask(partitions(table, 5), **columns, features=["age", "income"]),
    ):
        landmarks = np.random.default_rng(0).normal(size=(5, 2))
        training = training_features(bags, landmarks=landmarks, bandwidth=1, covariance=True)
        _, R, Sigma = landmark_matrices(training)
        found.append(eta_prior(training.embedding, Sigma, R))
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert 0.1 < found[0]["eta_log_sd"] < 2


def test_eta_prior_is_positive_where_bags_do_not_differ(rng):
    mean = rng.normal(size=(50, 2))
    found = eta_prior(embedded(mean, np.ones(50)), 100 * np.eye(2), np.eye(2))
    away = mean - mean.mean(axis=0)
    assert found["eta_median"] == pytest.approx(0.01 * np.mean(np.sum(away**2, axis=1)) / 2)
    assert found["eta_log_sd"] == 2


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("prior", ["empirical", "kernel", RBF(2.0)])
def test_choices(prior):
    check_embedding_prior(prior)


def test_another_choice_is_refused():
    with pytest.raises(ValueError, match="'empirical', 'kernel' or a kernel, found 'prior'"):
        check_embedding_prior("prior")
