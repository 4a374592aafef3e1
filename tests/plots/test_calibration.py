"""calibration: curves and points, read back from their artists."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import plots


def test_calibration(case):
    y, predictive, sizes = case
    ax = plots.calibration(y, predictive, sizes)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["2 points", "50 points", "all bags"]
    for line in ax.lines[:3]:
        level, share = line.get_data()
        assert np.abs(share - level).max() < 0.12
    import matplotlib.pyplot as plt

    _, given = plt.subplots()
    assert plots.calibration(y, predictive, ax=given) is given
    assert len(given.get_legend().get_texts()) == 1


class Classes:
    """Predictive probabilities of the second of two classes."""

    def __init__(self, p, classes):
        self.mean, self.classes = p, np.array(classes)


def test_reliability_shows_each_model_by_size(rng):
    sizes, p = np.repeat([1, 40], 500), rng.uniform(0, 1, 1000)
    y = np.where(rng.uniform(size=1000) < p, "yes", "no")
    models = {"right": Classes(p, ["no", "yes"]), "timid": Classes((1 + p) / 3, ["no", "yes"])}
    figure = plots.reliability(models, y, sizes, n_bins=4)
    left, right = figure.axes
    assert [ax.get_title() for ax in figure.axes] == ["1 point (500 bags)", "40 points (500 bags)"]
    assert left.get_ylabel() == 'share of "yes"'
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["right", "timid"]
    of = sizes == 40
    first, second = (c for c in right.collections if c.get_label() in models)
    predicted, observed = first.get_offsets().T
    assert len(predicted) == 4 and np.all(np.abs(predicted - observed) < 0.15)
    bins = (p[of] * 4).astype(int)
    np.testing.assert_allclose(observed, [np.mean(y[of][bins == k] == "yes") for k in range(4)])
    areas = first.get_sizes()
    np.testing.assert_allclose(areas, 10 + 90 * np.bincount(bins) / 500)
    assert np.ptp(second.get_offsets()[:, 0]) < 0.5  # probabilities between 1/3 and 2/3


def test_reliability_needs_a_model():
    with pytest.raises(ValueError, match="there is no model to draw"):
        plots.reliability({}, [0, 1], [1, 2])


def test_calibration_curves_of_methods():
    import matplotlib.pyplot as plt

    levels = np.array([0.5, 0.8, 0.95])
    tables = {
        name: pd.DataFrame({"level": levels, "coverage": levels * share})
        for name, share in (("NUTS", 1.0), ("VBAgg", 0.3))
    }
    _, given = plt.subplots()
    ax = plots.point_calibration(tables, ax=given)
    assert ax is given
    for line, table in zip(ax.lines, tables.values(), strict=False):
        np.testing.assert_array_equal(line.get_xydata(), table)
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == ["NUTS", "VBAgg", "calibrated"]
    assert len({line.get_color() for line in ax.lines}) == 3
    plots.point_calibration(tables).figure.canvas.draw()
    for none_or_many in ({}, dict.fromkeys("abcdefgh", tables["NUTS"])):
        with pytest.raises(ValueError, match=f"1 to 6 methods, found {len(none_or_many)}"):
            plots.point_calibration(none_or_many)
