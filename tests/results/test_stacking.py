"""stacking: the weight goes to the fit that predicts best."""

import numpy as np
import pytest

from bdr_stan.results.inference_data import build, dataset
from bdr_stan.results.leave_one_out import stack, stacking_weights


def shifted(rng, shift):
    """A fit to 40 labels whose log likelihoods are `shift` off."""
    values = rng.normal(-1 + shift, 0.1, size=(4, 100, 40))
    attrs = {"inference_method": "nuts"}
    draws = {"sigma": rng.gamma(9, size=(4, 100))}
    return build(
        {
            "posterior": dataset(draws, {}, attrs=attrs),
            "log_likelihood": dataset({"y": values}, {"y": ["bag"]}),
        }
    )


def test_the_better_fit_takes_the_weight(rng):
    table = stack({"worse": shifted(rng, -1), "better": shifted(rng, 0)})
    assert list(table.index) == ["worse", "better"]
    assert list(table.columns) == ["elpd", "se", "p", "max_pareto_k", "weight"]
    # The prior is worth one label, so that no weight is 0.
    assert 0 < table.loc["worse", "weight"] < 0.03
    assert table["weight"].sum() == pytest.approx(1)
    # With log likelihoods of sd 0.1 around -1, each bag's elpd is near -1.
    assert table.loc["better", "elpd"] == pytest.approx(-40, abs=0.5)
    assert table.loc["better", "p"] == pytest.approx(40 * 0.1**2, rel=0.2)
    assert np.isfinite(table).all(axis=None)


def test_two_of_the_same_share_the_weight(rng):
    one = shifted(rng, 0)
    table = stack({"a": one, "b": one})
    assert table["weight"].tolist() == pytest.approx([0.5, 0.5])
    assert table.loc["a", "elpd"] == table.loc["b", "elpd"]


def test_few_labels_give_no_model_all_the_weight(rng):
    """Of five labels that one model happens to predict a little better."""
    log_density = rng.normal(-1, 0.1, (5, 1)) + np.array([0.0, -0.3])
    weights = stacking_weights(log_density)
    assert 0.5 < weights[0] < 0.95
    many = stacking_weights(np.repeat(log_density, 1000, axis=0))
    assert many[0] > 0.99


def test_weights_are_where_the_posterior_is_highest(rng):
    log_density = rng.normal(-1, 1, (30, 2))

    def log_posterior(weight):
        weights = np.array([weight, 1 - weight])
        return np.log(np.exp(log_density) @ weights).sum() + 0.5 * np.log(weights).sum()

    tried = np.linspace(0.001, 0.999, 999)
    best = tried[np.argmax([log_posterior(weight) for weight in tried])]
    assert stacking_weights(log_density)[0] == pytest.approx(best, abs=2e-3)
