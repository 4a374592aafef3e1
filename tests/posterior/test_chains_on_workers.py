"""Chains on the workers of a cluster: the draws that the same chains make here."""

import numpy as np
import pytest
from builders import training
from builders.problems import location_bags
from dask.distributed import Client, LocalCluster
from numpy.testing import assert_array_equal

from bdr_stan import BLR
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.posterior.model import StanInput
from bdr_stan.posterior.sampling import run
from bdr_stan.posterior.settings import SamplerSettings

SHORT = {"chains": 3, "warmup": 60, "draws": 40, "seed": 2}

pytestmark = [
    pytest.mark.slow,  # processes start
    pytest.mark.filterwarnings("ignore:3 chains of 40 draws"),
]


@pytest.fixture(scope="module")
def client():
    processes = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**processes) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def labelled_bags():
    return location_bags(n=24)


def tasks_of(client):
    """How many tasks each worker has done."""
    return client.run(lambda dask_worker: len(dask_worker.state.log)).values()


def test_the_same_draws(client, labelled_bags):
    here = BLR(4).fit(*labelled_bags, **SHORT).idata
    there = BLR(4).fit(*labelled_bags, **SHORT, client=client).idata
    assert min(tasks_of(client)) > 0
    for group in ("posterior", "sample_stats", "posterior_predictive"):
        for name, values in here[group].items():
            assert_array_equal(there[group][name], values, err_msg=name)
    assert there["posterior"].attrs["inference_method"] == "nuts"


def test_without_a_seed_each_fit_has_its_own(client, labelled_bags):
    fits = [
        BLR(4).fit(*labelled_bags, **{**SHORT, "seed": None}, client=client).idata["posterior"]["w"]
        for _ in range(2)
    ]
    assert (fits[0] != fits[1]).any()
    assert (fits[0][0] != fits[0][1]).any()


def test_a_chain_that_fails_says_why(client, rng):
    bags, y = training.labelled_bags(rng)
    model = BLRModel(embed(bags, LandmarkFeatures(RBF(1.5), rng.normal(size=(3, 3)))), Labels(y))
    scales, mode, _ = most_probable_scales(model)
    data = model.data | model.whitening(scales, mode)
    inits = [{"t": np.zeros(4), **scales}] * 2
    settings = SamplerSettings(
        chains=2, warmup=10, draws=10, seed=1, progress=False, options={"client": client}
    )
    with pytest.raises(RuntimeError, match="^Stan's nuts of blr failed: .*sigma_scale is -1"):
        run("blr", StanInput(data | {"sigma_scale": -1.0}, inits), settings)


def test_a_client_that_is_closed(labelled_bags):
    with Client(processes=False, n_workers=1, dashboard_address=None) as client:
        pass
    with pytest.raises(ValueError, match="client must be a Dask client that runs, found <Client: "):
        BLR(4).fit(*labelled_bags, client=client)
    with pytest.raises(TypeError, match="method='laplace' takes no client"):
        BLR(4, method="laplace").fit(*labelled_bags, client=client)
