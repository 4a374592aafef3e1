"""Points and draws at which a fitted model is evaluated."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import Bags, PartitionedBags, TableColumns, as_bags
from bdr_stan.bags.tables import as_table, is_table
from bdr_stan.types import Array, ArrayLike


def one_bag(points: ArrayLike) -> Bags:
    """Points, shape (n, p), as one bag."""
    if np.ndim(points) == 0 or len(points) == 0:
        raise ValueError(f"points have shape {np.shape(points)}, expected (n, p) with n >= 1")
    return Bags(points, [0, len(points)], copy=False)


def as_points(model: Any, points: Any) -> Bags:
    """Points of an array, of bags, or of a table with the columns of a model's fit, as Bags."""
    check_is_fitted(model, "result_")
    if isinstance(points, (Bags, PartitionedBags)):
        return as_bags(points)
    if hasattr(points, "to_delayed"):
        raise TypeError(
            "points of a Dask DataFrame are taken partition by partition: call this inside of "
            "ddf.map_partitions"
        )
    names = getattr(model, "feature_names_in_", None)
    if names is None or not is_table(points):
        return one_bag(np.asanyarray(points))
    columns = model.columns_ or TableColumns(tuple(names))
    frame = as_table(points)
    missing = [name for name in columns.names if name not in frame.columns]
    if missing:
        raise ValueError(
            f"the table has no column {missing[0]!r}, which the model was fitted to; it "
            f"has {', '.join(map(str, frame.columns))}"
        )
    columns.check_complete(frame)
    return one_bag(columns.points(frame))


def district_of_points(points: Any, n: int, district: ArrayLike | str) -> Array:
    """Ids of the bags of n points, shape (n,), as they are or from a table's column."""
    if isinstance(district, str):
        if district not in getattr(points, "columns", ()):
            raise ValueError(f"the points have no column {district!r} of districts")
        district = points[district]
    names = np.asarray(district, object)
    if names.shape != (n,):
        raise ValueError(
            f"district has shape {names.shape}, but there are {n} points: pass the id of a "
            "training bag for each"
        )
    return names


def evenly_spaced(draws: Array, n: int) -> Array:
    """At most n of the draws, shape (S, ...)."""
    return draws[np.linspace(0, len(draws) - 1, min(n, len(draws))).round().astype(int)]
