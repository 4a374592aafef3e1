"""Sums over bags that lie in parts: the likelihood, the priors and the fits of their embeddings."""

import dask
import numpy as np
import pandas as pd
import pytest
from builders.partitions import partitions
from numpy.testing import assert_allclose

from bdr_stan import BDR, BLR, Bags, Shrinkage
from bdr_stan.embedding import training as training_module
from bdr_stan.embedding.compressed_embedding import CompressedEmbedding
from bdr_stan.embedding.covariates import learn_covariates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.prior import landmark_matrices
from bdr_stan.embedding.shrinkage import joint_basis, shrinkage_factors
from bdr_stan.embedding.training import training_features
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel, BLRModel

N, QUICK = 1200, {"n_landmarks": 10, "covariance": "average", "bandwidth": 1.5, "seed": 2}


@pytest.fixture(scope="module")
def table():
    """Bags of lognormal sizes one after another: only those at the edges of parts are cut."""
    rng = np.random.default_rng(5)
    sizes = np.ceil(rng.lognormal(np.log(8), 1, N)).astype(int)
    bag = np.repeat(np.arange(N), sizes)
    centre = rng.normal(size=(N, 2))
    points = centre[bag] + rng.normal(size=(len(bag), 2))
    return pd.DataFrame(
        {
            "bag": bag,
            "a": points[:, 0],
            "b": points[:, 1],
            "same": rng.normal(size=len(bag)),  # in all bags
            "w": rng.uniform(0.5, 2, len(bag)),
            "x": (centre[:, 1] + rng.normal(size=N))[bag],
            "y": (1 + np.sin(centre[:, 0]) + 0.3 * rng.normal(size=N))[bag],
        }
    )


def bags_in(table, n_parts, **columns):
    columns = {"bag": "bag", "metadata": ["x", "y"], "features": ["a", "b", "same"]} | columns
    if n_parts is None:
        return Bags.from_dataframe(table, **columns)
    return Bags.from_dask(partitions(table, n_parts), **columns)


@pytest.fixture
def compressed(monkeypatch):
    """Embeddings of bags in partitions are not kept, however few."""
    monkeypatch.setattr(training_module, "MOST_KEPT", 0)
    with dask.config.set(scheduler="synchronous"):
        yield


def labels_that_fit(training, sigma):
    """Labels of the model itself, of standard deviation 1, with this noise beside the shrinkage."""
    rng = np.random.default_rng(3)
    embedding = training.embedding
    _, R, Sigma = landmark_matrices(training)
    lam, V = joint_basis(Sigma, R)
    s = shrinkage_factors(embedding.sizes, lam, 0.8)
    w = rng.normal(size=len(lam))
    mean = (s * (embedding.deviations.rows @ V)) @ w
    sd = np.sqrt(0.8 * (1 - s) @ w**2)
    y = mean + sd * rng.normal(size=len(mean))
    unit = np.std(y)
    return 1e3 + y / unit + sigma * rng.normal(size=len(y)), V @ w / unit


def assert_same_model(found, exact, beta, sigmas):
    """Priors, and the likelihood at weights near the truth and over their prior."""
    assert found.priors == pytest.approx(exact.priors, rel=1e-8)
    rng = np.random.default_rng(8)
    for sigma in sigmas:
        for spread in (0, 1e-4, 1):
            weights = beta + spread * np.std(beta) * rng.normal(size=len(beta))
            scales = {name: np.exp(rng.normal()) for name in exact.scales if name != "rho"}
            scales |= {"sigma": sigma}
            rest = rng.normal(size=exact.n_covariates + 1) * spread
            values = []
            for model in (found, exact):
                w = np.linalg.solve(model.weight_basis, weights)
                likelihood = model.likelihood(level=model.level, **scales)
                value, slope, information, _ = likelihood(np.r_[w, rest])
                d = len(w)
                # With respect to the weights of landmarks.
                slope = np.r_[np.linalg.solve(model.weight_basis.T, slope[:d]), slope[d:]]
                values.append((value, slope))
            (value, slope), (expected, true) = values
            assert value == pytest.approx(expected, rel=1e-9)
            # Slopes vanish at the mode: then relative to their sd under the model.
            size = max(np.abs(true).max(), np.sqrt(information[-1, -1]))
            assert_allclose(slope, true, rtol=1e-8, atol=1e-9 * size)


@pytest.mark.usefixtures("compressed")
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("n_parts", [1, 4, 31])
def test_model_is_that_of_all_bags(table, n_parts, weight):
    at = {"kernel": "rbf", "landmarks": bags_in(table, None).points[::1500], **QUICK}
    exact = training_features(bags_in(table, None, weight=weight), **at)
    lazy = bags_in(table, n_parts, weight=weight)
    y, beta = labels_that_fit(exact, 1e-4)
    found = training_features(lazy, labels=Labels(y), by_size=True, **at)
    assert isinstance(found.embedding, CompressedEmbedding)
    for name in ("extremes", "scatter"):
        of_all = getattr(exact.embedding, name)
        assert_allclose(getattr(found.embedding, name), of_all, atol=1e-10 * np.abs(of_all).max())
    error, of_all = (each.embedding.error_of_trace(0.7) for each in (found, exact))
    assert error == pytest.approx(of_all, rel=1e-7)
    models = (
        BDRModel.of_training(found, Labels(y)),
        BDRModel.of_training(exact, Labels(y), lossless=False),
    )
    assert models[0].data["T"] < 0.5 * N < models[1].data["T"]
    assert_same_model(*models, beta, [1e-4, 0.03, 1.0])


@pytest.mark.usefixtures("compressed")
def test_covariates_size_noise_and_label_errors(table):
    at = {"kernel": "rbf", "landmarks": bags_in(table, None).points[::1500], **QUICK}
    at |= {"covariates": learn_covariates(bags_in(table, None), ["x"])}
    exact = training_features(bags_in(table, None), **at)
    y, beta = labels_that_fit(exact, 0.1)
    label_sd = np.random.default_rng(1).choice([0.0, 0.1, 0.3], N)
    labels = Labels(y, label_sd=label_sd)
    found = training_features(bags_in(table, 5), labels=labels, by_size=True, **at)
    models = [
        BDRModel.of_training(of, labels, label_noise="size", lossless=of is found)
        for of in (found, exact)
    ]
    assert_same_model(*models, beta, [1e-4, 0.1, 1.0])


@pytest.mark.usefixtures("compressed")
@pytest.mark.parametrize("by_size", [False, True])
def test_linear_regression(table, by_size):
    at = {"kernel": "rbf", "landmarks": bags_in(table, None).points[::1500], **QUICK}
    exact = training_features(bags_in(table, None), **at)
    beta = np.random.default_rng(2).normal(size=len(exact.landmarks))
    y = exact.embedding.deviations.rows @ beta
    y += 1e-4 * np.std(y) * np.random.default_rng(4).normal(size=N)
    found = training_features(bags_in(table, 5), labels=Labels(y), by_size=by_size, **at)
    noise = "size" if by_size else "constant"
    models = [
        BLRModel(of.embedding, Labels(y), label_noise=noise, lossless=of is found)
        for of in (found, exact)
    ]
    assert models[0].data["G"] == 1 or by_size
    assert_same_model(*models, beta, np.std(y) * np.array([1e-4, 0.1, 1.0]))


@pytest.mark.usefixtures("compressed")
def test_effects_left_out_and_priors_are_those_in_memory(table):
    at = {"kernel": "linear + rbf", **QUICK, "n_landmarks": 30}
    exact = training_features(bags_in(table, None), **at)
    y = table.groupby("bag")["y"].first().to_numpy()
    found = training_features(bags_in(table, 5), labels=Labels(y), by_size=True, **at)
    assert str(found.kernel) == str(exact.kernel) and "(2,)" not in str(found.kernel)
    assert len(found.landmarks) < 30
    a, b = (BDRModel.of_training(of, Labels(y)) for of in (found, exact))
    assert a.constants["linear_variance"] == b.constants["linear_variance"]
    assert a.priors == pytest.approx(b.priors, rel=1e-8)


@pytest.mark.usefixtures("compressed")
@pytest.mark.parametrize(
    "model",
    [
        Shrinkage(10, covariates=["x"]),
        BLR(10, method="exact"),
        BLR(10, method="exact", label_noise="size"),
    ],
    ids=repr,
)
def test_fits_are_those_in_memory(table, model):
    expected = model.fit(bags_in(table, None), "y", seed=1).predict(bags_in(table, None))
    lazy = bags_in(table, 5)
    model.fit(lazy, "y", seed=1)
    assert "posterior_predictive" not in model.result_.groups
    found = model.predict_table(lazy)
    # Rounding moves where an optimiser stops.
    assert_allclose(found["mean"], expected, rtol=1e-4)


@pytest.mark.usefixtures("compressed")
def test_other_likelihoods_keep_embeddings(table):
    lazy = bags_in(table, 5)
    model = Shrinkage(10, compress=False).fit(lazy, "y", seed=1)
    assert "posterior_predictive" in model.result_.groups


def test_few_bags_in_partitions_keep_predictions(table):
    with dask.config.set(scheduler="synchronous"):
        model = BDR(10, method="laplace").fit(bags_in(table, 3), "y", seed=1)
    assert {"posterior_predictive", "log_likelihood"} <= set(model.result_.groups)


@pytest.mark.usefixtures("compressed")
def test_the_same_bits_in_threads_and_in_one(table):
    at = {"kernel": "rbf", "landmarks": bags_in(table, None).points[::1500], **QUICK}
    labels = Labels(np.arange(float(N)))

    def embedding():
        return training_features(bags_in(table, 9), labels=labels, by_size=True, **at).embedding

    expected = embedding()
    with dask.config.set(scheduler="threads", num_workers=4):
        found = embedding()
    np.testing.assert_array_equal(found.sums.rows.rows, expected.sums.rows.rows)
    np.testing.assert_array_equal(found.sums.powers, expected.sums.powers)
    np.testing.assert_array_equal(found.covariance, expected.covariance)


@pytest.mark.usefixtures("compressed")
def test_all_bags_may_be_cut(table):
    shuffled = table.sample(frac=1, random_state=1, ignore_index=True)
    at = {"kernel": "rbf", "landmarks": bags_in(table, None).points[::1500], **QUICK}
    y = table.groupby("bag")["y"].first().to_numpy()
    labels = Labels(y)
    found = training_features(bags_in(shuffled, 7), labels=labels, by_size=True, **at)
    expected = training_features(bags_in(table, None), **at)
    assert isinstance(expected.embedding, Embedding)
    assert BDRModel.of_training(found, Labels(y)).priors == pytest.approx(
        BDRModel.of_training(expected, Labels(y)).priors, rel=1e-8
    )
