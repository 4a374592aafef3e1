"""groups: draws and data of a fit under named dimensions."""

import numpy as np
import pytest

from bdr_stan.results import groups
from bdr_stan.results.groups import named_groups, pointwise_groups

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

    def log_likelihood(self, y):
        return np.arange(10)[:, None] + 100 * y

    def sample(self, seed=None):
        return np.full((10, 3), float(seed))


def test_pointwise_groups_are_by_chain_and_draw():
    found = pointwise_groups(Training, Y, IDS, (2, 5), seed=8)
    log_lik = found["log_likelihood"]["y"]
    assert log_lik.dims == ("chain", "draw", "bag") and log_lik.shape == (2, 5, 3)
    assert log_lik.sel(chain=1, draw=2, bag="b") == 7 + 100 * 2
    assert (found["posterior_predictive"]["y"] == 8).all()


def test_what_the_program_wrote_itself_is_kept():
    own = np.zeros((2, 5, 3))
    found = pointwise_groups(Training, Y, IDS, (2, 5), log_lik=own, y_rep=own + 1, seed=8)
    assert (found["log_likelihood"]["y"] == 0).all()
    assert (found["posterior_predictive"]["y"] == 1).all()


@pytest.mark.parametrize("largest, kept", [(30, 2), (29, 0)])
def test_groups_too_large_are_left_out(monkeypatch, largest, kept):
    monkeypatch.setattr(groups, "LARGEST_POINTWISE", largest)
    made = []
    found = pointwise_groups(lambda: made.append(1) or Training(), Y, IDS, (2, 5), seed=8)
    assert len(found) == kept and len(made) == (kept > 0)  # what is not kept is not computed


def test_one_draw_has_no_log_likelihood_to_compare_by():
    y_rep = np.zeros((1, 1, 3))
    assert set(pointwise_groups(Training, Y, IDS, (1, 1), y_rep=y_rep)) == {"posterior_predictive"}
