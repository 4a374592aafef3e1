"""Matching by name: labels, tables and other versions of bags to the bags' ids.

Position is used only if one of the two has no names.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bdr_stan.bags.checks import plain
from bdr_stan.types import Array, ArrayLike, DataFrame

_SHOWN = 3  # entries of an index in messages


def match_to_ids(values: ArrayLike, ids: Array | None, name: str = "y") -> ArrayLike:
    """Values in the order of `ids`; a Series by its index, unless it is the default 0, 1, ..."""
    if isinstance(values, Mapping):
        raise TypeError(f"{name} is a dict: pass pd.Series({name}), which is matched to the ids")
    if ids is None:
        return values
    if hasattr(values, "to_series") and hasattr(values, "coords"):  # xarray's
        values = values.to_series()
    if not (hasattr(values, "iloc") and hasattr(values, "index")):
        return values
    rows = rows_of_ids(values.index, ids, name)
    return values if rows is None else values.iloc[rows]


def labels_in_order(y: ArrayLike, predictive: Any) -> ArrayLike:
    """Labels in the order of the bags of a predictive distribution, by its `ids` if any."""
    answers = ("interval", "quantile", "log_prob", "cdf", "classes")
    if not any(hasattr(predictive, name) for name in answers):
        raise TypeError(
            f"predictive must be a predictive distribution, such as model.predictive(bags), found "
            f"a {type(predictive).__name__}"
        )
    if getattr(predictive, "is_partly_known", False):
        raise ValueError("times are censored or truncated: use log_prob(y), metrics.concordance")
    return match_to_ids(y, getattr(predictive, "ids", None))


def label_name(y: Any) -> str | None:
    """Name of labels: of the metadata column or the Series; None without a name."""
    name = y if isinstance(y, str) else getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def rows_of_ids(index: Any, ids: ArrayLike, name: str) -> Array | None:
    """Row of an index for each id, shape (n,); None for the default index 0, 1, ..."""
    import pandas as pd

    index = index if isinstance(index, pd.Index) else pd.Index(index)
    wanted = pd.Index(np.asarray(ids))
    if index.equals(wanted):
        return np.arange(len(wanted))
    counts_rows = isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(len(index)))
    one_level = index.nlevels == 1
    if one_level and index.is_unique and len(index) == len(wanted):
        texts = counts_rows and wanted.inferred_type == "string"
        rows = (index.astype(str) if texts else index).get_indexer(wanted)
        if np.all(rows >= 0) and not np.array_equal(rows, np.arange(len(rows))):
            if counts_rows:
                raise ValueError(
                    f"{name} has the default index 0, 1, ..., and the ids of the bags are the same "
                    f"numbers in another order: pass {name}.to_numpy() where it is in the order of "
                    "the bags, else give it the ids as its index"
                )
            return rows
    if counts_rows:
        return None
    shown = ", ".join(repr(plain(label)) for label in index[:_SHOWN].to_list())
    shown += ", .." if len(index) > _SHOWN else ""
    missing = np.flatnonzero(~wanted.isin(index)) if one_level else np.arange(len(wanted))
    advice = f"index {name} by the ids of the bags"
    if len(missing) < len(wanted):
        advice = f"give these bags a value, or use bags[np.isin(bags.ids, {name}.index)]"
    elif len(index) == len(wanted):
        unnamed = "reset_index(drop=True)" if name == "metadata" else "to_numpy()"
        advice += f", or pass {name}.{unnamed} if it is in their order"
    if len(missing):
        bag = missing[0]
        raise ValueError(
            f"the index of {name}, {shown}, lacks the id {plain(wanted[bag])!r} of bag {bag} "
            f"({len(missing)} in total): {advice}"
        )
    if not index.is_unique:
        repeated = plain(index[index.duplicated()][0])
        raise ValueError(f"the index of {name} has {repeated!r} more than once: give each bag one")
    raise ValueError(
        f"{name} has {len(index)} rows, but there are {len(wanted)} bags: pass {name}.loc[bags.ids]"
    )


def as_metadata(metadata: object, n: int, ids: Array | None = None) -> "DataFrame":
    """Table of n rows, one per bag in the order of the bags, indexed by their ids if any."""
    import pandas as pd

    if not isinstance(metadata, (pd.DataFrame, Mapping)):
        raise TypeError(f"metadata must be a pandas DataFrame, found a {type(metadata).__name__}")
    metadata = pd.DataFrame(metadata)
    rows = None if ids is None else rows_of_ids(metadata.index, ids, "metadata")
    if rows is not None:
        metadata = metadata.iloc[rows]
    if len(metadata) != n:
        raise ValueError(f"metadata has {len(metadata)} rows, but there are {n} bags: one per bag")
    if ids is None or metadata.index.equals(pd.Index(ids)):
        return metadata
    return metadata.set_axis(pd.Index(ids), axis=0)


def check_same_rows(first: Any, second: Any, names: tuple[str, str]) -> None:
    """Raise ValueError if two pandas objects with one row per point differ in index."""
    import pandas as pd

    one, other = (getattr(values, "index", None) for values in (first, second))
    if isinstance(one, pd.Index) and isinstance(other, pd.Index) and not one.equals(other):
        raise ValueError(
            f"the index of {names[1]} differs from the index of {names[0]}: put both in the same "
            f"order, or pass {names[1]}.to_numpy() where they are"
        )
