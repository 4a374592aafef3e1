"""The pass over points that lie in parts: the same embeddings, the same bits for any workers."""

import os
import signal
import threading
import time

import dask
import numpy as np
import pytest
from builders.partitions import COLUMNS, partitions
from dask.distributed import Client, LocalCluster
from numpy.testing import assert_allclose, assert_array_equal

from bdr_stan import BDR, BLR, Bags, RBFNetwork
from bdr_stan.embedding.landmarks import choose_landmarks
from bdr_stan.embedding.mean_embedding import BagSums, embed
from bdr_stan.embedding.training import training_features
from bdr_stan.kernels import RBF, LandmarkFeatures, median_bandwidth


@pytest.fixture(scope="module")
def lazy(table):
    with dask.config.set(scheduler="synchronous"):
        yield Bags.from_dask(partitions(table, 5), **COLUMNS)


@pytest.fixture(scope="module")
def feature_map(in_memory):
    return LandmarkFeatures(RBF(2.0), in_memory.points[::90])


@pytest.fixture(scope="module", params=[None, "w"], ids=["unweighted", "weighted"])
def columns(request):
    return {**COLUMNS, "weight": request.param, "features": ["age", "income", "region"]}


@pytest.fixture(scope="module", params=[1, 13])
def both(request, table, columns):
    """The same bags in memory and in partitions, whose edges cut most bags."""
    with dask.config.set(scheduler="synchronous"):
        yield (
            Bags.from_dataframe(table, **columns),
            Bags.from_dask(partitions(table, request.param), **columns),
        )


@pytest.mark.parametrize("covariance", [False, True])
def test_embedding_is_that_in_memory(both, feature_map, covariance):
    expected, found = (embed(bags, feature_map, covariance=covariance) for bags in both)
    assert_allclose(found.mean, expected.mean, rtol=1e-12)
    assert_allclose(found.sizes, expected.sizes, rtol=1e-14)
    if covariance:
        scale = np.abs(expected.covariance).max()
        assert_allclose(found.covariance, expected.covariance, rtol=0, atol=1e-13 * scale)


def test_selected_bags_alone(lazy, in_memory, feature_map):
    rows = [9, 3, 20]
    found = embed(lazy[rows], feature_map, covariance=True)
    expected = embed(in_memory[rows], feature_map, covariance=True)
    assert_allclose(found.mean, expected.mean, rtol=1e-12)
    assert_allclose(found.covariance, expected.covariance, rtol=1e-10, atol=1e-14)


def test_progress_counts_points(lazy, feature_map):
    calls = []
    embed(lazy, feature_map, progress=lambda *call: calls.append(call))
    assert calls[-1] == (lazy.n_points, lazy.n_points) and calls == sorted(calls)


def test_sums_join_whatever_was_cut(rng):
    """Parts in which some bags have no points, or no weight."""
    phi, bag = rng.normal(size=(60, 3)), rng.integers(4, size=60)
    weights = np.where(rng.random(60) < 0.3, 0, rng.random(60))
    factors = rng.random(4)

    def sums(rows):
        which = np.unique(bag[rows])
        found = BagSums.empty(len(which), 3, scatter=True)
        for k, i in enumerate(which):
            own = rows[bag[rows] == i]
            total = weights[own].sum()
            found.weight[k] = total
            found.mean[k] = weights[own] @ phi[own] / total if total else 0
            rest = phi[own] - found.mean[k]
            found.scatter += factors[i] * (weights[own, None] * rest).T @ rest
        return which, found

    parts = [sums(rows) for rows in np.array_split(np.arange(60), [2, 5, 30, 31])]
    joined = BagSums.merged(parts, factors, 4)
    _, whole = sums(np.arange(60))
    assert_allclose(joined.weight, whole.weight)
    assert_allclose(joined.mean, whole.mean)
    assert_allclose(joined.scatter, whole.scatter)


# ------------------------------------------------------------------ landmarks and bandwidth


def test_landmarks_and_bandwidth_do_not_depend_on_partitions(table, monkeypatch):
    monkeypatch.setattr("bdr_stan.kernels.bandwidth._SAMPLED_POINTS", 50)
    with dask.config.set(scheduler="synchronous"):
        few, many = (Bags.from_dask(partitions(table, n), **COLUMNS) for n in (2, 11))
        for method in ("kmeans", "random"):
            a, b = (choose_landmarks(bags, 6, method=method, seed=4) for bags in (few, many))
            assert_array_equal(a, b)
        assert median_bandwidth(few, seed=1) == median_bandwidth(many, seed=1)


def test_table_in_the_order_of_bags_has_the_landmarks_of_memory(table):
    table = table.sort_values("county", kind="stable", ignore_index=True)
    with dask.config.set(scheduler="synchronous"):
        lazy = Bags.from_dask(partitions(table, 4), **COLUMNS)
        found = training_features(lazy, n_landmarks=8, covariance=True, seed=2)
    expected = training_features(
        Bags.from_dataframe(table, **COLUMNS), n_landmarks=8, covariance=True, seed=2
    )
    assert_array_equal(found.landmarks, expected.landmarks)
    assert found.bandwidth.tolist() == expected.bandwidth.tolist()
    assert (
        list(found.record.index) == list(expected.record.index)
        and found.record.columns == expected.record.columns
    )


def test_one_landmark_a_bag_needs_all_points(lazy):
    with pytest.raises(TypeError, match=r"bags.load\(\)"):
        choose_landmarks(lazy, method="one per bag")


# ------------------------------------------------------------------ fits


@pytest.mark.parametrize(
    "model",
    [
        BLR(method="exact"),
        BDR(method="optimize", covariates=["people"]),
        RBFNetwork(),
    ],
    ids=repr,
)
def test_fits_and_predictions_are_those_in_memory(model, lazy, in_memory):
    y = in_memory.metadata["y"].to_numpy()
    model.set_params(landmarks=in_memory.points[::60], bandwidth=2.0)
    expected = model.fit(in_memory, y, seed=1).predict(in_memory)
    assert_allclose(model.predict(lazy), expected, rtol=1e-10)
    found = model.fit(lazy, y, seed=1).predict(lazy)
    # Rounding moves where an optimiser stops.
    assert_allclose(found, expected, rtol=1e-2 if isinstance(model, BDR) else 1e-8)


# ------------------------------------------------------------------ workers


def features_of(table, n=12):
    bags = Bags.from_dask(partitions(table, n), **COLUMNS)
    found = training_features(bags, n_landmarks=8, covariance=True, seed=2)
    return [bags.totals, found.landmarks, found.embedding.mean, found.embedding.covariance]


def test_the_same_bits_in_threads_and_in_one(table):
    with dask.config.set(scheduler="synchronous"):
        expected = features_of(table)
    with dask.config.set(scheduler="threads", num_workers=4):
        for found, alone in zip(features_of(table), expected):
            assert_array_equal(found, alone)


@pytest.mark.slow
def test_the_same_bits_by_one_two_and_four_workers_one_of_which_dies(table):
    with dask.config.set(scheduler="synchronous"):
        expected = features_of(table, 30)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        for n in (1, 2, 4):
            cluster.scale(n)
            client.wait_for_workers(n)
            for found, alone in zip(features_of(table, 30), expected):
                assert_array_equal(found, alone)
        victim = next(iter(client.run(os.getpid).values()))
        killed = threading.Thread(target=_kill_when_busy, args=(client, victim))
        killed.start()
        for found, alone in zip(features_of(table, 30), expected):
            assert_array_equal(found, alone)
        killed.join()
        assert victim not in client.run(os.getpid).values()


def _kill_when_busy(client, process):
    while not any(client.processing().values()):
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
