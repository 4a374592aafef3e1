"""calibration: curves and points, read back from their artists."""

import numpy as np
import pytest

from bdr_stan import plots


def test_calibration(case):
    y, predictive, sizes = case
    ax = plots.calibration(y, predictive, sizes)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["2 points (200 bags)", "50 points (300 bags)", "all 500 bags"]
    lines = [line for line in ax.lines if line.get_label() in legend]
    assert len({line.get_marker() for line in lines}) == 3  # told apart without colours too
    for line in lines:
        level, share = line.get_data()
        assert len(level) == 10 and np.abs(share - level).max() < 0.12
    import matplotlib.pyplot as plt

    _, given = plt.subplots()
    assert plots.calibration(y, predictive, ax=given) is given
    assert len(given.get_legend().get_texts()) == 1


def test_a_class_of_few_bags_has_no_line(case):
    y, predictive, sizes = case
    sizes = np.where(np.arange(500) < 19, 1, sizes)
    ax = plots.calibration(y, predictive, sizes)
    few, other, *_ = (line for line in ax.lines if "point" in line.get_label())
    assert few.get_label() == "1 point (19 bags): too few" and len(few.get_xdata()) == 0
    assert other.get_label() == "2 points (181 bags)" and len(other.get_xdata()) == 10


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
    assert left.get_ylabel() == 'observed share of "yes"'
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["right", "timid"]
    mask = sizes == 40
    first, second = (c for c in right.collections if len(c.get_offsets()) > 1)
    predicted, observed = first.get_offsets().T
    assert len(predicted) == 4 and np.all(np.abs(predicted - observed) < 0.15)
    bins = (p[mask] * 4).astype(int)
    np.testing.assert_allclose(observed, [np.mean(y[mask][bins == k] == "yes") for k in range(4)])
    areas = first.get_sizes()
    np.testing.assert_allclose(areas, 10 + 90 * np.bincount(bins) / 500)
    assert np.ptp(second.get_offsets()[:, 0]) < 0.5  # probabilities between 1/3 and 2/3
    figure.canvas.draw()
    for text in (left.title, left.xaxis.label):  # within the figure
        assert figure.bbox.y0 <= text.get_window_extent().y0
        assert text.get_window_extent().y1 <= figure.bbox.y1


def test_reliability_joins_no_bins_of_few_bags():
    p = np.repeat([0.1, 0.4, 0.6, 0.9], [30, 30, 19, 40])
    y = np.where(np.arange(119) % 2 == 0, "yes", "no")
    models = {"right": Classes(p, ["no", "yes"])}
    (ax,) = plots.reliability(models, y, np.ones(119), n_bins=4).axes
    (line,) = (line for line in ax.lines if line.get_label() == "right")
    assert np.isfinite(line.get_ydata()).tolist() == [True, True, False, True]
    (dots,) = (c for c in ax.collections if hasattr(c, "get_sizes"))
    hollow = (dots.get_facecolors()[:, :3] == 1).all(axis=1)
    assert hollow.tolist() == [False, False, True, False]


def test_reliability_needs_a_model():
    with pytest.raises(ValueError, match="there is no model to draw"):
        plots.reliability({}, [0, 1], [1, 2])


def test_heights_in_the_predictions_tell_intervals_that_are_too_short(case, normal):
    y, good, sizes = case
    bad = normal(good.mean, np.full(500, 0.5))  # right for bags of 50, far too sure for 2
    small, large = plots.pit(y, bad, sizes).axes
    assert [ax.get_title() for ax in (small, large)] == [
        "2 points (200 bags)", "50 points (300 bags)"
    ]  # fmt: skip
    for ax, mask in ((small, sizes == 2), (large, sizes == 50)):
        heights = ax.patches[-1].get_data().values
        counts = np.histogram(bad.cdf(y)[mask], 5, (0, 1))[0]
        np.testing.assert_allclose(heights, 5 * counts / mask.sum())
    assert small.patches[-1].get_data().values[0] > 1.7
    band = large.patches[0].get_extents().transformed(large.transData.inverted())
    assert ((large.patches[-1].get_data().values - [band.y0]) > 0).all()
    assert (large.patches[-1].get_data().values < band.y1).all()
    (every,) = plots.pit(y, good).axes
    assert every.get_title() == "all bags"


class Threes:
    """Every draw of every count is 3."""

    def sample(self, size, seed):
        return np.full((size, 8), 3)


def test_rootogram_hangs_observed_counts_from_predicted_ones():
    y = np.array([3, 3, 3, 3, 1, 0, 0, 0])
    ax = plots.rootogram(y, Threes())
    line = ax.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2, 3])
    np.testing.assert_allclose(line.get_ydata(), [0, 0, 0, np.sqrt(8)])
    ends = [bar.get_y() + bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(ends, [-np.sqrt(3), -1, 0, np.sqrt(8) - 2], atol=1e-12)


def test_rootogram_of_large_counts_has_few_bins():
    rng = np.random.default_rng(0)
    y = rng.poisson(5000, 300)

    class Predicted:
        def sample(self, size, seed):
            return rng.poisson(5000, (size, 300))

    ax = plots.rootogram(y, Predicted())
    assert 25 <= len(ax.patches) <= 40
    with pytest.raises(ValueError, match="counts"):
        plots.rootogram([0.5, 1.0], Threes())
