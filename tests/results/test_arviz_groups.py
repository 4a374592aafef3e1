"""groups: draws and data of a fit under named dimensions."""

import numpy as np
import pytest

from bdr_stan import BLR
from bdr_stan.estimators import label_models
from bdr_stan.results import arviz_groups
from bdr_stan.results.arviz_groups import named_groups, training_groups

IDS = ["a", "b", "c"]
Y = np.array([1.0, 2.0, 4.0])


def made(rng, stats=None):
    draws = {
        "w": rng.normal(size=(2, 5, 4)),
        "rho": rng.gamma(3, size=(2, 5)),
        "own": rng.normal(size=(2, 5, 6)),
        "curve": rng.normal(size=(2, 5, 4, 3)),
        "tau": rng.gamma(3, size=(2, 5)),
    }
    constants = {
        "landmarks": (rng.normal(size=(7, 2)), ["landmark", "feature"]),
        "bandwidth": (0.3, []),
    }
    return named_groups(draws, stats or {}, {"inference_method": "nuts"}, constants, IDS, Y)


def test_every_axis_has_its_name(rng):
    found = made(rng, {"lp": rng.normal(size=(2, 5))})
    assert set(found) == {"posterior", "sample_stats", "observed_data", "constant_data"}
    posterior = found["posterior"]
    assert posterior["w"].dims == ("chain", "draw", "component")
    assert posterior["rho"].dims == ("chain", "draw")
    assert posterior["own"].dims == ("chain", "draw", "own_dim_0")  # of a user's program
    assert posterior["curve"].dims == ("chain", "draw", "component", "function")
    assert posterior["tau"].dims == ("chain", "draw")  # other models have one for each component
    assert posterior.attrs == found["sample_stats"].attrs == {"inference_method": "nuts"}
    assert found["observed_data"]["y"].sel(bag="c") == 4
    assert found["constant_data"]["landmarks"].dims == ("landmark", "feature")
    assert found["constant_data"]["landmark"].values.tolist() == list(range(7))
    assert found["constant_data"]["bandwidth"].ndim == 0


def test_no_statistics_no_group(rng):
    assert "sample_stats" not in made(rng)


class Training:
    """Stands for the predictive distribution of the training bags, 10 draws."""

    n_draws = 10

    def log_likelihood(self, y):
        return np.arange(self.n_draws)[:, None] + 100 * y

    def sample(self, seed=None):
        return np.full((self.n_draws, 3), float(seed))


def test_training_groups_are_by_chain_and_draw():
    found = training_groups(Training(), {"w": np.zeros((2, 5, 3))}, Y, IDS, seed=8)
    log_lik = found["log_likelihood"]["y"]
    assert log_lik.dims == ("chain", "draw", "bag") and log_lik.shape == (2, 5, 3)
    assert log_lik.sel(chain=1, draw=2, bag="b") == 7 + 100 * 2
    assert (found["posterior_predictive"]["y"] == 8).all()


def test_a_posterior_that_is_not_given_labels_has_no_log_likelihood():
    found = training_groups(
        Training(), {"w": np.zeros((2, 5, 3))}, Y, IDS, has_likelihood=False, seed=8
    )
    assert set(found) == {"posterior_predictive"}


@pytest.mark.parametrize("largest, kept", [(300, True), (299, False)])
def test_groups_too_large_are_left_out(monkeypatch, largest, kept):
    monkeypatch.setattr(arviz_groups, "_LARGEST_POINTWISE", largest)
    bags = [np.array([[x], [x + 1]]) for x in range(6)]
    model = BLR(2, method="exact").fit(bags, np.arange(6.0), draws=50, seed=4)
    found = {"posterior_predictive", "log_likelihood"} & set(model.result_.groups)
    assert len(found) == (2 if kept else 0)


def test_what_is_left_out_is_not_computed(monkeypatch):
    bags = [np.array([[x], [x + 1]]) for x in range(6)]
    monkeypatch.setattr(arviz_groups, "_LARGEST_POINTWISE", 299)
    monkeypatch.setattr(label_models, "label_predictive", None)
    BLR(2, method="exact").fit(bags, np.arange(6.0), draws=50, seed=4)


def test_one_draw_has_no_log_likelihood_to_compare_by():
    class Mode(Training):
        n_draws = 1

    found = training_groups(Mode(), {"w": np.zeros((1, 1, 3))}, Y, IDS, seed=8)
    assert set(found) == {"posterior_predictive"}
