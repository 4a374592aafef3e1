"""Contours of a contrast against the strengths of an omitted cause, read back from the artists."""

import numpy as np
import pytest

from bdr_stan import plots
from bdr_stan.predictive import Robustness

STRENGTHS = {"wealth": (0.3, 0.1), "state $x": (0.05, 0.02)}


@pytest.mark.parametrize("sign", [1, -1])
def test_lines_are_where_mean_and_interval_reach_zero(sign):
    ends = sorted((sign * 0.6, sign * 2.9))
    found = Robustness(sign * 1.8, 0.6, *ends, 0.9, 90, STRENGTHS)
    ax = plots.robustness(found)
    *_, of_mean, of_interval = ax.collections
    for line, value in [(of_mean, found.value), (of_interval, found.interval_value)]:
        c_d, c_y = np.concatenate([path.vertices for path in line.get_paths()]).T
        assert len(c_d) > 20
        nearest = np.argmin(np.abs(c_d - c_y))
        np.testing.assert_allclose(c_d[nearest], value, rtol=0.03)
        np.testing.assert_allclose(c_y[nearest], value, rtol=0.03)
    biases = [
        found.bias(y, d) for d, y in np.concatenate([p.vertices for p in of_mean.get_paths()])
    ]
    np.testing.assert_allclose(biases, 1.8, rtol=0.02)


def test_points_are_those_of_covariates_with_their_names():
    ax = plots.robustness(Robustness(1.8, 0.6, 0.6, 2.9, 0.9, 90, STRENGTHS))
    assert [text.get_text() for text in ax.texts if text.get_text() in STRENGTHS] == [*STRENGTHS]
    points = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "o"]
    assert points == [[0.1, 0.3], [0.02, 0.05]]
    assert "90% interval" in ax.get_legend().get_texts()[1].get_text()


def test_the_end_of_the_axes_is_given():
    ax = plots.robustness(Robustness(1.8, 0.6, 0.6, 2.9, 0.9, 90), largest=0.2)
    assert ax.get_xlim() == ax.get_ylim() == (0, 0.2)
