"""Posterior of true mean embeddings at points against the dense formulas, written out anew."""

import numpy as np
import pandas as pd
import pytest
from builders.mistakes import check_call
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

import bdr_stan
from bdr_stan import BDR, BLR, RBF, Bags, BDRClassifier, Cauchy, Shrinkage

JITTER = 1e-4
LENGTHS = np.array([12.0, 15_000.0])  # years and dollars


def people(n=30, seed=0):
    """Rows in no order: people of towns of 1 to 40, in years and dollars, with weights."""
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(np.r_[1, 1, rng.integers(2, 41, n - 2)])
    town = np.repeat(np.arange(n), sizes)
    level = rng.normal(size=n)
    rows = pd.DataFrame(
        {
            "town": np.array([f"t{i:02}" for i in range(n)])[town],
            "age": 45 + 8 * level[town] + 12 * rng.normal(size=len(town)),
            "income": 40_000 + 9_000 * level[town] + 15_000 * rng.normal(size=len(town)),
            "w": rng.uniform(0.2, 2.0, len(town)),
        }
    )
    return rows.sample(frac=1, random_state=seed), pd.Series(level, index=sorted(set(rows["town"])))


def bags_of(rows):
    return Bags.from_dataframe(rows, "town", ["age", "income"], weight="w")


ROWS, Y = people()
BAGS = bags_of(ROWS)
NEW = bags_of(people(8, seed=1)[0])
POINTS = np.array([[30.0, 20_000.0], [45.0, 40_000.0], [61.0, 75_000.0], [150.0, 40_000.0]])
LANDMARKS = np.random.default_rng(2).normal([45, 40_000], [12, 15_000], size=(7, 2))


def rbf(x, y, lengths=LENGTHS):
    squares = sum(
        np.subtract.outer(x[:, c], y[:, c]) ** 2 / lengths[c] ** 2 for c in range(x.shape[1])
    )
    return np.exp(-squares / 2)


def cauchy(x, y):
    squares = sum(np.subtract.outer(x[:, c], y[:, c]) ** 2 / LENGTHS[c] ** 2 for c in range(2))
    return 1 / (1 + squares / 9)


class Definition:
    """Section 3.2 of Law et al. (2018), with dense matrices, of features phi with matrix K."""

    def __init__(self, bags, phi, K):
        self.phi, self.K = phi, K + JITTER * np.eye(len(K))
        moments = [self.moments(bags, i) for i in range(len(bags))]
        self.means, self.sizes = (
            np.array([m[0] for m in moments]),
            np.array([m[1] for m in moments]),
        )
        within = [covariance for _, size, covariance in moments if size > 1 + 1e-9]
        self.Sigma = np.mean(within, axis=0) + JITTER * np.eye(len(K))
        self.m0 = self.means.mean(axis=0)

    def moments(self, bags, i):
        """Mean features of a bag, its effective size and its covariance of features."""
        start, stop = bags.offsets[i], bags.offsets[i + 1]
        w, values = bags.weights[start:stop], self.phi(bags.points[start:stop])
        total, squares = w.sum(), np.sum(w**2)
        mean = w @ values / total
        with np.errstate(all="ignore"):
            covariance = (
                (values - mean).T @ np.diag(w) @ (values - mean) / (total - squares / total)
            )
        return mean, total**2 / squares, covariance

    def at(self, bags, points, eta, R, cross, prior):
        """Mean and covariance of each bag; R, cross and prior are r(u, u), r(x, u) and r(x, y)."""
        interpolated = self.phi(points) @ np.linalg.inv(self.K)
        means, covariances = [], []
        for i in range(len(bags)):
            mean, size, _ = self.moments(bags, i)
            gain = eta * cross @ np.linalg.inv(eta * R + self.Sigma / size)
            means.append(interpolated @ self.m0 + gain @ (mean - self.m0))
            covariances.append(eta * prior - gain @ (eta * cross).T)
        return np.array(means), np.array(covariances)

    def interpolated(self, points, R, share, k):
        """r(x, u) and r(x, y) of an R between landmarks, with this share of K."""
        P = self.phi(points) @ np.linalg.inv(self.K)
        return P @ R, P @ R @ P.T + share * (k(points, points) - P @ self.phi(points).T)


def empirical_prior(definition):
    """R of moments, and the share of K in it."""
    away, sizes, Sigma = definition.means - definition.m0, definition.sizes, definition.Sigma
    total, within = np.mean(np.sum(away**2, axis=1)), np.trace(Sigma)
    between = max(total - within * np.mean(1 / sizes), 0.01 * total)
    weights = 1 / (1 + within / (between * sizes))
    weights /= weights.sum()
    B = (away.T * weights) @ away - Sigma * np.sum(weights / sizes)
    values, vectors = np.linalg.eig(np.linalg.solve(Sigma, B))
    B = Sigma @ (vectors * np.maximum(values, 0)) @ np.linalg.inv(Sigma @ vectors) @ Sigma
    share = 0.01 * np.trace(B) / np.trace(definition.K)
    return B.real + share * definition.K, share


def fitted(**options):
    shared = {"kernel": RBF(LENGTHS), "landmarks": LANDMARKS, "method": "optimize"}
    return BDR(**{**shared, **options}).fit(BAGS, Y, seed=1)


def assert_posterior(model, expected, bags=NEW, points=POINTS):
    found = model.embedding_posterior(bags, points)
    mean, covariance = expected
    scale = np.sqrt(np.abs(covariance).max())
    assert_allclose(found["mean"], mean, rtol=0, atol=1e-10 * max(scale, np.abs(mean).max()))
    assert_allclose(found["covariance"], covariance, rtol=0, atol=1e-10 * scale**2)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert_allclose(found["sd"], sd, rtol=1e-7)


def eta_of(model):
    return model.result_.draws("eta")


def dense(bags=BAGS):
    return Definition(bags, lambda x: rbf(x, LANDMARKS), rbf(LANDMARKS, LANDMARKS))


def test_default_prior_is_the_dense_formula():
    model, definition = fitted(), dense()
    R, share = empirical_prior(definition)
    at_points = definition.interpolated(POINTS, R, share, rbf)
    assert_posterior(model, definition.at(NEW, POINTS, eta_of(model)[0], R, *at_points))


def test_kernel_prior_is_the_dense_formula():
    model, definition = fitted(embedding_prior="kernel"), dense()
    cross, prior = rbf(POINTS, LANDMARKS), rbf(POINTS, POINTS)
    expected = definition.at(NEW, POINTS, eta_of(model)[0], definition.K, cross, prior)
    assert_posterior(model, expected)


def test_another_kernel_as_the_prior_is_the_dense_formula():
    model, definition = fitted(embedding_prior=Cauchy(3 * LENGTHS)), dense()
    R = cauchy(LANDMARKS, LANDMARKS)
    R += JITTER * np.trace(R) / len(R) * np.eye(len(R))
    at_points = cauchy(POINTS, LANDMARKS), cauchy(POINTS, POINTS)
    assert_posterior(model, definition.at(NEW, POINTS, eta_of(model)[0], R, *at_points))


def test_of_a_sum_of_kernels_it_is_the_sum_of_the_embeddings():
    """Landmarks of each summand, whose embeddings are independent a priori."""
    kernel = RBF(LENGTHS[0], columns=["age"]) + Cauchy(LENGTHS[1], columns=["income"])
    model = fitted(kernel=kernel, landmarks="kmeans", n_landmarks=8, embedding_prior="kernel")
    first, second = (model.landmarks_[np.isfinite(column)] for column in model.landmarks_.T)

    def of_age(x, y):
        return rbf(x[:, :1], y[:, :1])

    def of_income(x, y):
        return 1 / (1 + np.subtract.outer(x[:, 1], y[:, 1]) ** 2 / LENGTHS[1] ** 2)

    def phi(x):
        return np.hstack([of_age(x, first), of_income(x, second)])

    definition = Definition(BAGS, phi, block_diag(of_age(first, first), of_income(second, second)))
    prior = of_age(POINTS, POINTS) + of_income(POINTS, POINTS)
    expected = definition.at(NEW, POINTS, eta_of(model)[0], definition.K, phi(POINTS), prior)
    assert_posterior(model, expected)


def test_draws_of_eta_are_averaged():
    """Law of total covariance over the draws."""
    model = fitted(embedding_prior="kernel", method="nuts", landmarks=LANDMARKS[:4])
    assert len(eta_of(model)) > 100
    definition = Definition(
        BAGS, lambda x: rbf(x, LANDMARKS[:4]), rbf(LANDMARKS[:4], LANDMARKS[:4])
    )
    at_points = rbf(POINTS, LANDMARKS[:4]), rbf(POINTS, POINTS)
    of_draws = [
        definition.at(NEW, POINTS, eta, definition.K, *at_points) for eta in model.draws()["eta"]
    ]
    means, covariances = map(np.array, zip(*of_draws, strict=True))
    between = [np.cov(means[:, i].T, bias=True) for i in range(len(NEW))]
    assert_posterior(model, (means.mean(axis=0), covariances.mean(axis=0) + np.array(between)))


def test_result_is_labelled_and_takes_tables(tmp_path):
    model = fitted()
    found = model.embedding_posterior(NEW, POINTS)
    assert found["mean"].dims == ("bag", "point")
    assert found["covariance"].dims == ("bag", "point", "other_point")
    assert found["bag"].values.tolist() == NEW.ids.tolist()
    table = pd.DataFrame(POINTS, columns=["age", "income"])[["income", "age"]]
    rows = people(8, seed=1)[0].sample(frac=1, random_state=9)
    model.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc").embedding_posterior(rows, table)
    for name in found:
        assert_allclose(again[name], found[name], rtol=1e-9, atol=1e-12)


def test_of_several_samples_one_is_named():
    rng = np.random.default_rng(4)
    y = rng.normal(size=30)
    samples = {
        "people": [rng.normal(mean, size=(20, 2)) for mean in y],
        "houses": [rng.normal(mean, size=(9, 1)) for mean in y],
    }
    model = Shrinkage(5).fit(samples, y, seed=1)
    found = model.embedding_posterior(samples["houses"][:3], [[0.0], [1.0]], sample="houses")
    assert found["mean"].shape == (3, 2) and np.all(found["sd"] > 0)
    with pytest.raises(ValueError, match="sample must be one of 'people', 'houses'"):
        model.embedding_posterior(samples["houses"], [[0.0]])


def test_classifiers_and_one_point():
    model = BDRClassifier(5, method="optimize").fit(BAGS, Y > 0, seed=1)
    found = model.embedding_posterior(NEW, POINTS[:1])
    assert found["covariance"].shape == (len(NEW), 1, 1)


MISTAKES = {
    "not fitted": (lambda: BDR().embedding_posterior(NEW, POINTS), "fit"),
    "another column": (lambda: fitted().embedding_posterior(NEW, POINTS[:, :1]), "column"),
    "points of a table": (
        lambda: fitted().embedding_posterior(NEW, pd.DataFrame({"age": [1.0]})),
        "income",
    ),
    "no points": (lambda: fitted().embedding_posterior(NEW, np.empty((0, 2))), "points"),
    "no bags": (lambda: fitted().embedding_posterior([], POINTS), "bag"),
    "a sample": (lambda: fitted().embedding_posterior(NEW, POINTS, sample="a"), "sample"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    check_call(*MISTAKES[name])


def test_exact_embeddings_have_no_posterior():
    assert not hasattr(BLR(), "embedding_posterior")
