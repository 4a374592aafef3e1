"""draws: traces and ranks of each chain."""

import numpy as np
import pytest

from bdr_stan import plots
from bdr_stan.results.inference_data import dataset


@pytest.fixture
def groups(rng):
    """Two chains of 100 draws of a, b and c; those of b lie apart, w is a vector."""
    draws = {name: rng.normal(size=(2, 100)) for name in "abc"}
    draws["b"][1] += 9
    draws["w"] = rng.normal(size=(2, 100, 3))
    return {"posterior": dataset(draws, {"w": ["component"]})}


def test_traces_are_the_draws_of_each_chain(groups):
    axes = plots.trace(groups, ["a", "b", "c"]).axes
    assert [ax.get_title() for ax in axes] == ["a", "b", "c"]
    drawn = [line.get_ydata() for line in axes[1].lines]
    np.testing.assert_array_equal(drawn, groups["posterior"]["b"].values)


def test_elements_are_named_as_in_diagnostics(groups):
    groups["posterior"] = groups["posterior"].assign_coords(component=["soil", "rain", "3"])
    (axis,) = plots.trace(groups, ["w[rain]"]).axes
    drawn = [line.get_ydata() for line in axis.lines]
    np.testing.assert_array_equal(drawn, groups["posterior"]["w"].values[:, :, 1])


def test_ranks_tell_chains_that_lie_apart(groups):
    mixed, apart = plots.ranks(groups, ["a", "b"]).axes
    for ax in (mixed, apart):
        assert sum(patch.get_data().values.sum() for patch in ax.patches) == 200
    first, second = (patch.get_data().values for patch in apart.patches)
    assert (first[10:] == 0).all() and (second[:10] == 0).all()
    assert max(patch.get_data().values.max() for patch in mixed.patches) < 10


def test_only_numbers_of_the_posterior_are_drawn(groups):
    with pytest.raises(ValueError, match=r"no number 'w', but 'w\[0\]' to 'w\[2\]'"):
        plots.trace(groups, ["w"])
    with pytest.raises(ValueError, match=r"no number 'd'; it has a, b, c, w\[0\]"):
        plots.trace(groups, ["d"])
    with pytest.raises(ValueError, match="there is no parameter to draw"):
        plots.ranks(groups, [])
