"""Warnings of suspicious columns and rows of a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bdr_stan.bags.column_values import counts_text, first_of
from bdr_stan.bags.columns import TableColumns
from bdr_stan.bags.missing_codes import Ends, ends_of, warn_of_codes
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

CODES_OF_POINTS = (
    "drop these points, for example with df.replace({codes}, float('nan')) of a table and "
    "missing='drop'"
)
_ODD_SUM, _EQUAL_SUM = 0.01, 0.001  # relative differences of sums of weights from their median
_MOST_ODD = 0.2  # of all bags
_SAMPLE_SIZE = 10_000  # points of a memory map searched for codes of missing values
_ROWS_COMPARED = 1_000  # of the smallest bags, in search of repeated rows
_MIN_DIFFERENT_ROWS = 20  # with fewer, equal counts may be chance
_MIN_BAGS_CORRELATED = 5
_MIN_CORRELATION = 1 - 1e-6  # of the means of a column with a label that it restates


def warn_of_columns(
    points: Array, offsets: Array, columns: TableColumns, metadata: Any = None
) -> None:
    """Warn of columns that are constant, identify the bag, or restate a label."""
    starts = offsets[:-1]
    lowest, highest = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)
    several = np.diff(offsets) > 1
    constant: list[str] = []
    within: list[str] = []  # constant within each bag
    ids: list[str] = []
    for k, source in enumerate(columns.names if columns.transformer is None else ()):
        block = columns.sources == k
        low, high = lowest[:, block], highest[:, block]
        if np.all(low.min(axis=0) == high.max(axis=0)):
            constant.append(source)
        elif len(starts) > 1 and several.any() and np.all(low == high):
            unique = len(np.unique(low, axis=0)) == len(low)
            (ids if unique else within).append(source)
    messages = column_messages(constant, within, ids)
    if metadata is not None:
        messages += _restated_labels(points, offsets, columns.features, metadata)
    if messages:
        warn("; ".join(messages))


def column_messages(
    constant: Sequence[str], within: Sequence[str], ids: Sequence[str] = ()
) -> list[str]:
    """Messages about columns that are constant, constant within bags, or like an id."""
    return [
        sentence.format(first_of(names, 5))
        for sentence, names in (
            ("constant columns, which carry no information: {}", constant),
            (
                "columns that are the same for all points of a bag: {}; name the label and "
                "covariates of the bags in metadata= and leave them out of the features",
                within,
            ),
            (
                "columns that are the same for all points of a bag and different in every bag, "
                "like an id or a label: {}; name them in metadata=, or leave them out",
                ids,
            ),
        )
        if names
    ]


def _restated_labels(points, offsets, features, metadata):
    """Messages about columns with bag means that are a linear function of bag metadata."""
    n = len(offsets) - 1
    if n < _MIN_BAGS_CORRELATED:
        return []
    means = np.add.reduceat(points, offsets[:-1], axis=0, dtype=np.float64)
    means /= np.diff(offsets)[:, None]
    means -= means.mean(axis=0)
    norms = np.sqrt(np.sum(means**2, axis=0))
    messages = []
    for name in metadata.columns:
        values = metadata[name].to_numpy()
        if values.dtype.kind not in "fiu" or not np.isfinite(values.astype(float)).all():
            continue
        values = values.astype(float) - values.astype(float).mean()
        bounds = norms * np.sqrt(np.sum(values**2)) * _MIN_CORRELATION
        restates = (np.abs(values @ means) >= bounds) & (bounds > 0)
        messages += [
            f"column {features[k]!r} is a linear function of {name!r}: does it restate the label?"
            for k in np.flatnonzero(restates)
        ]
    return messages


def warn_of_values(bags: Any) -> None:
    """Warn of codes of missing values in `Bags` in memory, and of odd sums of weights."""
    if not bags.is_memory_map:  # which is not read before a fit
        warn_of_codes(ends_of_points(bags), "points", CODES_OF_POINTS)
    if bags.weights is not None:
        warn_of_codes({"weights": ends_of(bags.weights)}, "points", "leave these points out")
        if np.ptp(bags.weights) > 0:
            warn_of_odd_sums(bags.totals, bags.name)


def warn_of_odd_sums(totals: Array, name: Callable[[int], str]) -> None:
    """Warn of bags with a sum of weights unlike the sum of nearly all others."""
    usual = np.median(totals)
    away = np.abs(totals / usual - 1)
    odd, equal = np.flatnonzero(away > _ODD_SUM), np.sum(away < _EQUAL_SUM)
    if len(odd) and len(odd) + equal == len(totals) and len(odd) <= _MOST_ODD * len(totals):
        warn(
            f"the weights of {name(int(odd[0]))} add up to {totals[odd[0]]:.4g} ({len(odd)} such "
            f"bags), the weights of all others to {usual:.4g}, as shares do: remove rows that are "
            "repeated, or add those that are missing"
        )


def ends_of_points(bags: Any) -> dict[Any, Ends]:
    """Ends of each column of the points of `Bags`, by name or number; a sample of a memory map."""
    points = bags.points
    if bags.is_memory_map:
        points = np.asarray(points[:: 1 + len(points) // _SAMPLE_SIZE])
        points = points[np.isfinite(points).all(axis=1)]  # `embed` checks them
        bags.release()
    names = bags.features or range(bags.n_features)
    return {name: ends_of(points[:, k]) for k, name in enumerate(names)}


def warn_of_copies(points: Array, offsets: Array) -> None:
    """Warn if every row of the smallest bags occurs several times in its bag, as after a join."""
    import pandas as pd

    sizes = np.diff(offsets)
    if np.gcd.reduce(sizes) == 1:
        return  # with every row repeated r times, r divides each size
    smallest = np.argsort(sizes, kind="stable")
    smallest = smallest[: 1 + np.searchsorted(np.cumsum(sizes[smallest]), _ROWS_COMPARED)]
    rows = np.concatenate([points[offsets[i] : offsets[i + 1]] for i in smallest])
    if np.all(rows == np.floor(rows)):
        return  # rows of whole numbers may well be equal
    table = pd.DataFrame(rows).assign(bag=np.repeat(smallest, sizes[smallest]))
    counts = pd.util.hash_pandas_object(table, index=False).value_counts().to_numpy()
    if len(counts) >= _MIN_DIFFERENT_ROWS and counts[0] > 1 and np.all(counts == counts[0]):
        warn(
            f"each row occurs {counts[0]} times in its bag: was the table joined or appended to "
            "itself? drop_duplicates() leaves one of each"
        )


def dropped_message(n: int, n_points: int, counts: Mapping[str, int], n_lost: int) -> str:
    """Message about n dropped points with missing values, and bags lost with them."""
    lost = f"; {n_lost} bags have no other points and are dropped" if n_lost else ""
    return f"dropped {n} of {n_points} points with missing values ({counts_text(counts)}){lost}"
