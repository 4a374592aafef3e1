"""point_map, read back from the artists."""

import numpy as np
import pytest

from bdr_stan import plots


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
