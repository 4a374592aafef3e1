"""What has a name is matched by it: labels, tables and versions of bags by the bags' ids.

Position counts only where one of the two has no names.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bdr_stan.bags.checks import plain
from bdr_stan.types import Array, ArrayLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_metadata", "check_same_rows", "label_name", "match_to_ids", "rows_of_ids"]

_SHOWN = 3  # entries of an index in messages


def match_to_ids(values: ArrayLike, ids: Array | None, name: str = "y") -> ArrayLike:
    """Values of bags in the order of the bags.

    Parameters
    ----------
    values : pandas Series, xarray DataArray, or array, shape (n,)
        A Series whose index is the ids in any order is brought into their order; one with the
        default index 0, 1, .. and all that has no index is taken by position.
    ids : array, shape (n,), or None
        Of the bags; None takes values by position.
    name : str, default "y"
        What messages call the values.

    Returns
    -------
    `values`, or a pandas Series in the order of the ids

    Raises
    ------
    ValueError
        The index names other bags than the ids, or a bag twice.

    Examples
    --------
    >>> import pandas as pd
    >>> from bdr_stan.bags import match_to_ids
    >>> match_to_ids(pd.Series({"bob": 2.0, "ann": 1.0}), ["ann", "bob"]).to_list()
    [1.0, 2.0]
    >>> match_to_ids(pd.Series([1.0, 2.0]), ["ann", "bob"]).to_list()
    [1.0, 2.0]
    >>> match_to_ids(pd.Series({"bob": 2.0, "eve": 1.0}), ["ann", "bob"])
    Traceback (most recent call last):
        ...
    ValueError: the index of y, 'bob', 'eve', lacks the id 'ann' of bag 0 (1 such in all): index ...
    """
    if ids is None:
        return values
    if hasattr(values, "to_series") and hasattr(values, "coords"):  # xarray's
        values = values.to_series()
    if not (hasattr(values, "iloc") and hasattr(values, "index")):
        return values
    rows = rows_of_ids(values.index, ids, name)
    return values if rows is None else values.iloc[rows]


def label_name(y: Any) -> str | None:
    """Name of labels, of the metadata column or the Series that has them; None where it has none.

    Examples
    --------
    >>> from bdr_stan.bags import label_name
    >>> label_name("vote"), label_name([0.3, 0.7])
    ('vote', None)
    """
    name = y if isinstance(y, str) else getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def rows_of_ids(index: Any, ids: ArrayLike, name: str) -> Array | None:
    """Row of an index for each id, shape (n,); None where a pandas index only counts the rows.

    Raises
    ------
    ValueError
        The index names other bags than the ids, or a bag twice.
    """
    import pandas as pd

    index = index if isinstance(index, pd.Index) else pd.Index(index)
    wanted = pd.Index(np.asarray(ids))
    if index.equals(wanted):
        return np.arange(len(wanted))
    counts_rows = isinstance(index, pd.RangeIndex)
    one_level = index.nlevels == 1
    if one_level and index.is_unique and len(index) == len(wanted):
        rows = index.get_indexer(wanted)
        if np.all(rows >= 0):
            if counts_rows:
                raise ValueError(
                    f"{name} has the default index 0, 1, .., and the ids of the bags are the same "
                    f"numbers in another order: pass {name}.to_numpy() where it is in the order of "
                    "the bags, else give it the ids as its index"
                )
            return rows
    if counts_rows:
        return None
    shown = ", ".join(repr(plain(label)) for label in index[:_SHOWN].to_list())
    shown += ", .." if len(index) > _SHOWN else ""
    mend = (
        f"index {name} by the ids of the bags, or pass {name}.to_numpy() where it is in their order"
    )
    missing = np.flatnonzero(~wanted.isin(index)) if one_level else np.arange(len(wanted))
    if len(missing):
        bag = missing[0]
        raise ValueError(
            f"the index of {name}, {shown}, lacks the id {plain(wanted[bag])!r} of bag {bag} "
            f"({len(missing)} such in all): {mend}"
        )
    if not index.is_unique:
        twice = plain(index[index.duplicated()][0])
        raise ValueError(f"the index of {name} has {twice!r} more than once: {mend}")
    raise ValueError(
        f"{name} has {len(index)} rows, but there are {len(wanted)} bags: pass {name}.loc[bags.ids]"
    )


def as_metadata(metadata: object, n: int, ids: Array | None = None) -> "pd.DataFrame":
    """Table of n rows, one per bag in the order of the bags, indexed by their ids if any."""
    import pandas as pd

    if not isinstance(metadata, (pd.DataFrame, Mapping)):
        raise TypeError(f"metadata must be a pandas DataFrame, found a {type(metadata).__name__}")
    metadata = pd.DataFrame(metadata)
    rows = None if ids is None else rows_of_ids(metadata.index, ids, "metadata")
    if rows is not None:
        metadata = metadata.iloc[rows]
    if len(metadata) != n:
        raise ValueError(f"metadata has {len(metadata)} rows, but there are {n} bags: one a bag")
    if ids is None or metadata.index.equals(pd.Index(ids)):
        return metadata
    return metadata.set_axis(pd.Index(ids), axis=0)


def check_same_rows(first: Any, second: Any, names: tuple[str, str]) -> None:
    """Raise ValueError where two values of points are pandas objects with different indices."""
    one, other = (getattr(values, "index", None) for values in (first, second))
    if hasattr(one, "equals") and hasattr(other, "equals") and not one.equals(other):
        raise ValueError(
            f"the index of {names[1]} differs from that of {names[0]}: put both in the same order, "
            f"or pass {names[1]}.to_numpy() where they are"
        )
