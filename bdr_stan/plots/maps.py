"""Map of values at points."""

import numpy as np

from bdr_stan.plots.style import names_as_written, pyplot
from bdr_stan.types import ArrayLike, Axes


@names_as_written
def point_map(
    values: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    title: str | None = None,
    label: str = "value",
    cmap: str = "viridis",
    ax: "Axes | None" = None,
) -> "Axes":
    """Map of values at points.

    xarray draws rasters, ``rates["mean"].plot()``, and geopandas polygons, ``table.plot("cases")``.

    Parameters
    ----------
    values, x, y : arrays, shape (n,), value and coordinates of each point
    title : str, optional, above the map
    label : str, default "value", of the colour bar, with the unit
    cmap : str, default "viridis", matplotlib colour map
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    ValueError : no point, or arrays of different lengths.

    Examples
    --------
    >>> from bdr_stan import plots
    >>> ax = plots.point_map([1.0, 4.0, 2.0], [33.1, 33.4, 33.9], [-1.2, -1.0, -1.5], label="rate")
    >>> ax.get_xlabel()
    'x'
    """
    values, x, y = (np.asarray(each, float) for each in (values, x, y))
    if not values.shape == x.shape == y.shape or values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"values, x and y have shapes {values.shape}, {x.shape}, {y.shape}: pass one number "
            "per point each"
        )
    width, height = np.ptp(x), np.ptp(y)
    if ax is None:
        side = 3.6 * np.clip(height / width if width > 0 else 1, 0.4, 2) + 0.7
        ax = pyplot().figure(figsize=(4.8, side), layout="compressed").add_subplot()
    # Marker size in points: squares that fill the plane if points are on a grid.
    square = 230 * np.sqrt(max(width * height, 1e-12) / len(x)) / max(width, height, 1e-6)
    size = float(np.clip(square, 1.5, 9)) ** 2
    image = ax.scatter(x, y, c=values, s=size, cmap=cmap, marker="s", linewidths=0)
    ax.set(aspect="equal", title=title, xlabel="x", ylabel="y")
    ax.figure.colorbar(image, ax=ax, label=label)
    return ax
