"""Prior means m0 of the embeddings other than the average of the bags."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from builders import reference
from builders.kernels import gram, kernel_and_definition
from builders.mistakes import BAGS, LAZY, Y, check_call
from builders.partitions import partitions
from builders.training import (
    dense_problem,
    empirical,
    labelled_bags,
    moment_estimate,
    of_kernel,
    training_of,
)
from numpy.testing import assert_allclose

import bdr_stan
from bdr_stan import Bags, BDRClassifier, Shrinkage
from bdr_stan.embedding import training as training_module
from bdr_stan.embedding.compressed_embedding import CompressedEmbedding
from bdr_stan.embedding.prior import check_prior_mean, with_prior_mean
from bdr_stan.embedding.training import training_features
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel

MEANS = pytest.mark.parametrize("prior_mean", ["zero", np.array([[1.0, 2.0, 0.5], [0.0, -1, 1]])])


def model_and_problem(rng, prior_mean, embedding_prior):
    bags, y = labelled_bags(rng)
    u = rng.normal(size=(5, 3))
    _, definition = kernel_and_definition("matern32")
    R = {"kernel": of_kernel, "empirical": empirical}[embedding_prior]
    p = dense_problem(bags, y, definition, u, R)
    origin = np.zeros(5)
    if not isinstance(prior_mean, str):
        origin = gram(definition, prior_mean, u).astype(float).mean(axis=0)
    model = BDRModel.of_training(
        training_of(bags, "matern32", u),
        Labels(y),
        embedding_prior=embedding_prior,
        prior_mean=prior_mean,
    )
    return model, replace(p, origin=origin)


@MEANS
def test_log_likelihood_is_the_definition(rng, prior_mean):
    model, p = model_and_problem(rng, prior_mean, "kernel")
    assert_allclose(model.coordinates.m0, p.origin, rtol=1e-12, atol=1e-15)
    for _ in range(3):
        w, intercept = rng.normal(size=5), rng.normal()
        sigma, eta = rng.gamma(2.0, size=2)
        expected = reference.bdr_log_likelihood(p, model.weight_basis @ w, intercept, sigma, eta)
        found = model.likelihood(sigma=sigma, eta=eta)(np.r_[w, intercept])[0]
        assert found == pytest.approx(expected, rel=1e-7)


@MEANS
def test_covariance_between_bags_is_about_the_prior_mean(rng, prior_mean):
    model, p = model_and_problem(rng, prior_mean, "empirical")
    B = moment_estimate(p.mu, p.sizes, p.Sigma, p.origin)
    R = B + 0.01 * np.trace(B) / np.trace(p.K) * p.K
    V = model.weight_basis
    assert_allclose(V.T @ R @ V, np.eye(5), atol=1e-8)
    squares = np.mean(np.sum((p.mu - p.origin) ** 2, axis=1))
    between = squares - np.trace(p.Sigma) * np.mean(1 / p.sizes)
    assert model.priors["eta_median"] == pytest.approx(between / np.trace(R), rel=1e-8)


def test_small_bags_shrink_towards_it(tmp_path):
    rng = np.random.default_rng(3)
    y = rng.normal(size=60)
    bags = [rng.normal(mean, size=(n, 1)) for mean, n in zip(y, [2, 50] * 30, strict=True)]
    shared = {"kernel": "rbf", "bandwidth": 1.0, "embedding_prior": "kernel"}
    shared["landmarks"] = np.linspace(-3, 3, 6)[:, None]
    points = np.full((4, 1), 2.0)  # whose embedding there is 1
    default, moved = (
        Shrinkage(**shared, **options).fit(bags, y, seed=1)
        for options in ({}, {"prior_mean": points})
    )
    of_default, of_moved = (
        model.embedding_posterior([[[-1.0]]], points[:1])["mean"].item()
        for model in (default, moved)
    )
    assert of_default + 0.1 < of_moved < 1
    moved.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc")
    assert_allclose(again.prior_mean, points)
    assert_allclose(again.predict(bags), moved.predict(bags), rtol=1e-10)


def test_average_is_the_average_embedding(rng):
    bags, _ = labelled_bags(rng)
    training = training_of(bags, "rbf", rng.normal(size=(5, 3)))
    assert_allclose(
        with_prior_mean(training, "average").embedding.m0, training.embedding.mean.mean(axis=0)
    )
    points = bags.points[:9]
    moved = with_prior_mean(training, points).embedding
    assert_allclose(moved.m0, training.feature_map(points).mean(axis=0), rtol=1e-12)
    assert_allclose(moved.take(np.arange(3)).m0, moved.m0)
    assert training.embedding.prior_mean is None


@pytest.mark.parametrize("prior_mean", ["zero", [[0.5, 0.0]]])
def test_sums_of_bags_in_partitions_have_it(monkeypatch, prior_mean):
    monkeypatch.setattr(training_module, "MOST_KEPT", 0)
    rng = np.random.default_rng(1)
    bag = np.repeat(np.arange(300), rng.integers(2, 9, 300))
    points = rng.normal(size=(300, 2))[bag] + rng.normal(size=(len(bag), 2))
    table = pd.DataFrame(points, columns=["a", "b"]).assign(bag=bag)
    y = rng.normal(size=300)
    shared = {"kernel": "rbf", "bandwidth": 1.5, "landmarks": points[:6], "covariance": "average"}
    in_parts = training_features(
        Bags.from_dask(partitions(table, 3), "bag", ["a", "b"]),
        labels=Labels(y),
        by_size=True,
        **shared,
    )
    assert isinstance(in_parts.embedding, CompressedEmbedding)
    exact = training_features(Bags.from_dataframe(table, "bag", ["a", "b"]), **shared)
    for embedding_prior in ("kernel", "empirical"):
        models = [
            BDRModel.of_training(
                training, Labels(y), embedding_prior=embedding_prior, prior_mean=prior_mean
            )
            for training in (in_parts, exact)
        ]
        assert models[0].priors == pytest.approx(models[1].priors, rel=1e-7)
        theta = np.r_[rng.normal(size=6) * 0.1, 0.2]
        at = {"sigma": 0.8, "eta": 0.9}
        beta = models[1].weight_basis @ theta[:6]
        values = [
            model.likelihood(**at)(np.r_[np.linalg.solve(model.weight_basis, beta), 0.2])[0]
            for model in models
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-8)


def test_columns_of_a_table_are_taken_by_name():
    points = pd.DataFrame({"z": [0.0, 1.0], "other": [7.0, 8.0], "x": [2.0, 3.0]})
    of_table, of_array = (
        Shrinkage(5, prior_mean=mean).fit(BAGS, Y, seed=1).coordinates_.m0
        for mean in (points, points[["x", "z"]].to_numpy())
    )
    assert_allclose(of_table, of_array, rtol=1e-12)
    check_call(lambda: Shrinkage(5, prior_mean=points[["x"]]).fit(BAGS, Y), "prior_mean")


def test_bags_of_classes_and_in_parts():
    model = BDRClassifier(5, method="optimize", prior_mean="zero").fit(BAGS, Y > 0.1, seed=1)
    assert_allclose(model.coordinates_.m0, 0)
    model = Shrinkage(5, prior_mean=[[0.5]]).fit(LAZY, Y, seed=1)
    assert model.coordinates_.m0[-1] != 0


def test_bags_of_several_samples():
    rng = np.random.default_rng(3)
    y = rng.normal(size=30)
    people, houses = ([rng.normal(mean, size=shape) for mean in y] for shape in ((20, 2), (9, 1)))
    samples = {"people": people, "houses": houses}
    model = Shrinkage(5, prior_mean="zero").fit(samples, y, seed=1)
    assert_allclose(model.coordinates_.m0, 0)
    assert model.score(samples, y) > 0.8


def test_a_report_takes_the_training_bags(tmp_path):
    """By their average embedding, unless m0 is another one."""
    model = Shrinkage(5, prior_mean="zero").fit(BAGS, Y, seed=1)
    model.report_html(tmp_path / "report.html", BAGS)
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_points_have_the_columns_of_the_bags():
    check_call(
        lambda: Shrinkage(5, prior_mean=[[0.0, 1.0, 2.0]]).fit(BAGS, Y),
        "prior_mean must be 'average', 'zero' or finite numbers, shape (m, 2), found shape (1, 3)",
    )
    check_prior_mean("zero")
    check_prior_mean(np.ones((3, 2)), 2)
