"""stacking: the weight goes to the fit that predicts best."""

import numpy as np
import pytest

from bdr_stan.results.inference_data import build, dataset
from bdr_stan.results.stacking import stack


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
    assert table["weight"].tolist() == pytest.approx([0, 1], abs=1e-6)
    # With log likelihoods of sd 0.1 around -1, each bag's elpd is near -1.
    assert table.loc["better", "elpd"] == pytest.approx(-40, abs=0.5)
    assert table.loc["better", "p"] == pytest.approx(40 * 0.1**2, rel=0.2)
    assert np.isfinite(table).all(axis=None)


def test_two_of_the_same_share_the_weight(rng):
    one = shifted(rng, 0)
    table = stack({"a": one, "b": one})
    assert table["weight"].sum() == pytest.approx(1)
    assert table.loc["a", "elpd"] == table.loc["b", "elpd"]
