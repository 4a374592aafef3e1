"""Bags that the tests of bags share."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan.bags import Bags


@pytest.fixture
def arrays(rng):
    return [rng.normal(size=(n, 2)) for n in (3, 1, 4, 2, 5)]


@pytest.fixture
def bags(arrays):
    return Bags.from_list(
        arrays,
        ids=list("abcde"),
        weights=[np.arange(1.0, len(a) + 1) for a in arrays],
        metadata=pd.DataFrame({"region": list("NSNSN")}),
        features=["age", "income"],
    )


@pytest.fixture
def mapped(tmp_path, rng):
    np.save(tmp_path / "points.npy", rng.normal(size=(20, 2)))
    return np.load(tmp_path / "points.npy", mmap_mode="r")


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weighted(request):
    return request.param


@pytest.fixture
def bags_of(rng, weighted):
    """Makes bags of given sizes; of their weights some are 0, but never all of a bag."""

    def make(sizes):
        n_points = sum(sizes)
        weights = None
        if weighted:
            weights = rng.gamma(2.0, size=n_points) * (rng.random(n_points) < 0.8)
            weights[np.cumsum(sizes) - 1] += 0.5
        return Bags.from_points(rng.normal(size=(n_points, 2)), sizes=sizes, weights=weights)

    return make


@pytest.fixture(params=[[3, 1, 4, 2, 50], [7], [1], [1, 1, 1]], ids=str)
def several(request, bags_of):
    return bags_of(request.param)
