"""Searches run on a Dask cluster where joblib is told so."""

import joblib
import numpy as np
import pytest
from builders.problems import location_bags
from dask.distributed import Client
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from bdr_stan import BLR, tune


@pytest.fixture(scope="module")
def client():
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as one:
        yield one


def done_by(client):
    """How many tasks the workers have done."""
    log = client.run(lambda dask_worker: len(dask_worker.state.log))
    return sum(log.values())


def test_grid_search(client):
    bags, y = location_bags(n=24)
    search = GridSearchCV(BLR(5, method="exact"), {"n_landmarks": [3, 5]}, cv=3)
    alone = search.fit(bags, y, seed=1).cv_results_["mean_test_score"]
    before = done_by(client)
    with joblib.parallel_config("dask"):
        search.fit(bags, y, seed=1)
    assert done_by(client) > before
    assert_array_equal(search.cv_results_["mean_test_score"], alone)


def test_tune(client):
    bags, y = location_bags(n=24)

    def scores():
        found = tune(
            bags, y, models=[BLR(method="exact")], cv=3, n_landmarks=(3, 5), bandwidth_scale=(1.0,)
        )
        return found.table["nll"].to_numpy()

    alone, before = scores(), done_by(client)
    with joblib.parallel_config("dask"):
        found = scores()
    assert done_by(client) > before and np.isfinite(found).all()
    assert_array_equal(found, alone)
