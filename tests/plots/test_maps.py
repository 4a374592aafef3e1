"""maps: pixels in their cells, scales and bars, read back from the artists."""

import numpy as np
import pytest

from bdr_stan import plots


@pytest.fixture
def country(rng):
    """Values, rows and columns of 30 pixels of a grid of 6 x 9, in no order."""
    cells = rng.permutation(54)[:30]
    return rng.gamma(3, 1, 30), cells // 9 + 100, cells % 9 + 40


def picture(ax):
    (image,) = ax.images
    return image.get_array()


def test_each_pixel_is_drawn_in_its_cell(country):
    values, row, col = country
    ax = plots.map(values, row=row, col=col, title="posterior mean", label="cases per 1,000")
    cells = picture(ax)
    np.testing.assert_array_equal(cells[row - row.min(), col - col.min()], values)
    assert cells.count() == 30  # the rest is blank
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # row 0 at the top
    assert ax.get_title() == "posterior mean" and ax.images[0].get_clim() == (
        values.min(),
        values.max(),
    )
    bar = ax.figure.axes[1]
    assert bar.get_xlabel() == "cases per 1,000"


def test_missing_values_stay_blank_and_limits_show_what_is_beyond(country):
    values, row, col = country
    values[[3, 7]] = np.nan
    ax = plots.map(values, row=row, col=col, limits=(3.0, 100.0))
    assert picture(ax).count() == 28 and ax.images[0].get_clim() == (3.0, 100.0)
    assert np.nanmin(values) < 3
    assert ax.images[0].colorbar.extend == "min"


def test_a_map_on_the_scale_of_logarithms(country):
    import matplotlib.pyplot as plt

    values, row, col = country
    _, given = plt.subplots()
    ax = plots.map(10**values, row=row, col=col, log=True, ax=given)
    assert ax is given
    middle = np.sqrt(np.prod(ax.images[0].get_clim()))
    assert ax.images[0].norm(middle) == pytest.approx(0.5)
    ax.figure.canvas.draw()
    marks = [float(t.get_text()) for t in ax.figure.axes[1].get_xticklabels() if t.get_text()]
    assert len(marks) >= 2 and set(np.log10(marks) % 1) == {0}  # plain numbers 1, 10, 100 ..
    values[:] = 2.0  # one colour
    plots.map(values, row=row, col=col, log=True).figure.canvas.draw()


def test_maps_share_a_scale_where_asked(country):
    truth, row, col = country
    maps = {"truth": truth, "mean": truth / 3, "sd": truth / 9, "P(rate > 2)": truth / 20}
    probability = {"label": "probability", "cmap": "cividis", "limits": (0, 1)}
    figure = plots.rate_maps(
        maps, row, col, shared=["truth", "mean"], label="cases", each={"P(rate > 2)": probability}
    )
    *axes, first, second, third = figure.axes
    assert [ax.get_title() for ax in axes] == list(maps)
    limits = [ax.images[0].get_clim() for ax in axes]
    assert limits[0] == limits[1] == (truth.min() / 3, truth.max())
    assert limits[2] == (truth.min() / 9, truth.max() / 9) and limits[3] == (0, 1)
    assert sorted(bar.get_xlabel() for bar in (first, second, third)) == [
        "cases",
        "cases",
        "probability",
    ]
    assert [ax.images[0].get_cmap().name for ax in axes] == ["viridis"] * 3 + ["cividis"]
    for ax, values in zip(axes, maps.values(), strict=True):
        np.testing.assert_array_equal(picture(ax)[row - row.min(), col - col.min()], values)
    figure.canvas.draw()


def test_bars_have_the_titles_where_no_label_is_given(country):
    values, row, col = country
    figure = plots.rate_maps({"mean": values, "sd": values, "P": values / 99}, row, col)
    assert [bar.get_xlabel() for bar in figure.axes[3:]] == ["mean", "sd", "P"]
    figure = plots.rate_maps({"truth": values, "mean": values}, row, col, shared=["truth", "mean"])
    assert figure.axes[2].get_xlabel() == "truth, mean"
    assert plots.map(values, row=row, col=col).figure.axes[1].get_xlabel() == "value"


def test_rounding_above_one_is_not_beyond_the_bar(country):
    _, row, col = country
    p = np.linspace(0, 1 + 1e-15, 30)
    assert p.max() > 1
    bar = plots.map(p, row=row, col=col, limits=(0, 1)).images[0].colorbar
    assert bar.extend == "neither"
    bar = plots.map(p + 0.01, row=row, col=col, limits=(0, 1)).images[0].colorbar
    assert bar.extend == "max"


def test_options_of_the_first_shared_map_hold_for_all(country):
    from matplotlib.colors import LogNorm

    values, row, col = country
    figure = plots.rate_maps(
        {"a": values, "b": 2 * values},
        row,
        col,
        shared=["a", "b"],
        each={"a": {"log": True, "cmap": "magma"}},
    )
    a, b, _ = figure.axes
    for ax in (a, b):
        assert isinstance(ax.images[0].norm, LogNorm)
        assert ax.images[0].get_cmap().name == "magma"


def test_maps_that_cannot_be_drawn(country):
    values, row, col = country
    with pytest.raises(ValueError, match=r"the map has values of shape \(29,\), expected \(30,\)"):
        plots.map(values[1:], row=row, col=col)
    with pytest.raises(
        ValueError, match=r"row has shape \(30,\) and col \(1,\): pass one number per"
    ):
        plots.map(values, row=row, col=col[:1])
    with pytest.raises(ValueError, match="row and col must be integers, found float64 and int64"):
        plots.map(values, row=row / 2, col=col)
    with pytest.raises(ValueError, match="'mean' has no value to draw"):
        plots.map(np.full(30, np.nan), row=row, col=col, title="mean")
    with pytest.raises(ValueError, match="the map is 0 at pixel 4: log=True needs values > 0"):
        plots.map(np.where(np.arange(30) == 4, 0, values), row=row, col=col, log=True)
    row[5], col[5] = row[2], col[2]
    text = f"the cell in row {row[2]} and col {col[2]} has 2 pixels: pass each once"
    with pytest.raises(ValueError, match=text):
        plots.map(values, row=row, col=col)
    with pytest.raises(ValueError, match="there is no map to draw"):
        plots.rate_maps({}, row, col)
    with pytest.raises(ValueError, match="there is no map 'sd'; there are: mean"):
        plots.rate_maps({"mean": values}, row, col, shared=["sd"])
    with pytest.raises(ValueError, match="there is no map 'sd'; there are: mean"):
        plots.rate_maps({"mean": values}, row, col, each={"sd": {}})
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        plots.rate_maps({"mean": values}, row[::-1], np.arange(30), colour="red")


def test_points_are_drawn_where_they_lie(rng):
    values, x, y = rng.normal(size=(3, 40))
    ax = plots.point_map(values, x, y, title="posterior mean", label="rate")
    (drawn,) = (marks for marks in ax.collections if len(marks.get_offsets()) == 40)
    np.testing.assert_array_equal(drawn.get_offsets(), np.column_stack([x, y]))
    np.testing.assert_array_equal(drawn.get_array(), values)
    assert drawn.colorbar.ax.get_ylabel() == "rate" and ax.get_title() == "posterior mean"
    plots.point_map([1.0, 2.0], [0.0, 1.0], [5.0, 5.0]).figure.canvas.draw()
    with pytest.raises(ValueError, match="pass one number per point each"):
        plots.point_map(values, x, y[1:])
