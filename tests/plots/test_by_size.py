"""by_size: what each panel shows, read back from its artists."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from bdr_stan import plots
from bdr_stan.plots.by_size import BARS_PER_PANEL


def texts(ax):
    return [text.get_text() for text in ax.texts]


def bars(ax):
    """Intervals drawn: where they hold the truth, and where they miss it."""
    return [lines.get_segments() for lines in ax.collections if hasattr(lines, "get_segments")]


def test_several_models_show_who_is_wrong(case, normal):
    y, good, sizes = case
    bad = normal(good.mean, np.full(500, 0.5))  # right for bags of 50, far too sure for 2
    figure = plots.prediction(y, {"BLR": bad, "BDR": good}, sizes)
    axes = np.reshape(figure.axes, (2, 2))
    (key,) = figure.legends
    hit, miss = (text.get_text() for text in key.get_texts())
    assert hit == "interval contains the label;\npercentage within 3 standard errors of 95%"
    assert miss == "interval misses the label;\npercentage further from 95%"
    colours = [to_hex(line.get_color()) for line in key.legend_handles]
    assert colours == [plots.COVERS.lower(), plots.MISSES.lower()]
    assert axes[0, 0].get_title() == "2 points (200 bags)"
    assert axes[1, 0].get_title() == "" and axes[1, 0].get_xlabel() == "observed label"
    assert [texts(ax)[-1] for ax in axes[:, 0]] == ["BLR", "BDR"]
    assert [ax.texts[0].get_color() for ax in axes.ravel()] == [
        plots.MISSES, plots.COVERS, plots.COVERS, plots.COVERS
    ]  # fmt: skip
    for ax in axes.ravel():
        hit, miss = bars(ax)
        assert len(hit) + len(miss) == BARS_PER_PANEL
        assert all(bar[0, 1] <= bar[0, 0] <= bar[1, 1] for bar in hit)
        assert not any(bar[0, 1] <= bar[0, 0] <= bar[1, 1] for bar in miss)
    assert len(bars(axes[0, 0])[1]) > 30 and len(bars(axes[1, 0])[1]) < 12
    assert len({ax.get_ylim() for ax in axes.ravel()}) == 1


def test_axes_name_what_the_labels_are(case):
    y, predictive, sizes = case
    first, *_ = plots.prediction(y, {"BDR": predictive}, sizes, label="age, years").axes
    assert first.get_xlabel() == "observed age, years"
    assert first.get_ylabel() == "predicted age, years"


def test_a_comparison_needs_a_model(case):
    with pytest.raises(ValueError, match="no model to draw: pass at least one"):
        plots.prediction(case[0], {}, case[2])


def test_one_bag_a_class_can_be_drawn(normal):
    predictive = normal([1.0, 1.0], [1.0, 1.0])
    plots.prediction([1.0, 1.0], predictive, [1, 7]).canvas.draw()
    plots.prediction([1.0, 1.0], {"BLR": predictive}, [1, 7]).canvas.draw()


def test_predictions_are_drawn_with_their_intervals(case, normal):
    y, predictive, sizes = case
    lower, upper = predictive.interval(0.8)
    figure = plots.prediction(y, predictive, sizes, level=0.8, label="age, years")
    first, second = figure.axes
    assert first.get_title() == "2 points (200 bags)" and second.get_title().startswith("50 ")
    for ax, mask in ((first, sizes == 2), (second, sizes == 50)):
        share = np.mean((lower <= y)[mask] & (y <= upper)[mask])
        assert texts(ax) == [f"{share:.0%} in their 80% interval"]
        hit, miss = bars(ax)
        assert len(hit) + len(miss) == BARS_PER_PANEL
        assert all(bar[0, 1] <= bar[0, 0] <= bar[1, 1] for bar in hit)
        assert not any(bar[0, 1] <= bar[0, 0] <= bar[1, 1] for bar in miss)
    assert first.get_ylabel() == "predicted age, years" and first.get_xscale() == "linear"
    (every,) = plots.prediction(y, predictive).axes
    assert every.get_title() == "all bags"
    totals = np.geomspace(1, 1000, 30)
    (wide,) = plots.prediction(totals, normal(totals, 0.1 * totals)).axes
    assert wide.get_xscale() == wide.get_yscale() == "log"
    with pytest.raises(ValueError, match="lower has shape"):
        plots.prediction(y[:3], predictive)
