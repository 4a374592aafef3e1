"""Bags with points that stay in the parts of a table, read part by part with Dask.

Each part returns a result for its bags; results are combined in the order of the parts, whatever
order they finish in, so no result depends on the number of workers.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from joblib import parallel_config
from threadpoolctl import threadpool_limits

from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.checks import offsets_of_sizes
from bdr_stan.bags.column_roles import ColumnRoles, resolve_like
from bdr_stan.bags.columns import TableColumns
from bdr_stan.bags.parts import Part, PartReader, in_order
from bdr_stan.bags.scan import ScannedTable, merge_scans, scan
from bdr_stan.extras import require
from bdr_stan.types import Array


class PartitionedBags(BagsBase):
    """Bags of points that stay in the parts of a Dask DataFrame or of Parquet files.

    `Bags.from_dask` and ``Bags.from_parquet(lazy=True)`` return them. Estimators on mean embeddings
    accept them instead of `Bags`; a slice, an array of indices or a boolean mask selects bags, and
    `load` reads them into memory for everything else. Memory has only the id, size and metadata row
    of each bag. `parts`, `sizes_in_parts`, `reader` and `scanned` come from `from_parts`.

    Attributes
    ----------
    ids, metadata, features, columns
        As of `Bags`.
    sizes : int array, shape (n,)
        Number of points of each bag.
    effective_sizes : array, shape (n,)
        With weights Kish's (sum w)^2 / sum w^2, else the sizes.
    totals : array, shape (n,)
        Sum of the weights of each bag, its size without weights.
    file : str, or None
        Path that the points are read from, if they are in files.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> from bdr_stan import Bags
    >>> table = pd.DataFrame({"town": list("aabbb"), "x": [1.0, 2.0, 3.0, 5.0, 7.0]})
    >>> bags = Bags.from_dask(dd.from_pandas(table, npartitions=2), bag="town")
    >>> bags
    PartitionedBags(2 bags, 5 points, 1 features, sizes 2 / 2.5 / 3 (min / median / max), 2 parts)
    >>> bags[1:].load().points.ravel()
    array([3., 5., 7.])
    """

    ids: Array

    def __init__(
        self,
        parts: Sequence[Part],
        sizes_in_parts: Sequence[Array],
        reader: PartReader,
        scanned: ScannedTable,
    ) -> None:
        self._parts, self._sizes_in_parts, self._reader = parts, sizes_in_parts, reader
        self._codes, self.ids = scanned.codes, scanned.ids
        self.sizes, self.effective_sizes = scanned.sizes, scanned.effective_sizes
        self.totals, self.metadata = scanned.totals, scanned.metadata

    @classmethod
    def from_parts(
        cls,
        kind: Callable[..., Any],
        parts: Sequence[Part],
        features: Sequence[str],
        roles: ColumnRoles,
        *,
        missing: str = "error",
        like: Any = None,
        unseen: str = "error",
    ) -> Self:
        """Bags of parts with these features: one pass counts, checks values and learns columns.

        `kind` is `Bags`, the type of the rows of a part in memory; `roles` has the user's features;
        the other arguments are as for `Bags.from_dask`.
        """
        columns = resolve_like(like, roles.features, missing, None, unseen)
        reader = PartReader(kind, replace(roles, features=features), missing, unseen, columns)
        results = list(in_order(scan, [(p.table, p.where) for p in parts], reader))
        scans = [each for each, _ in results if each is not None]
        scanned = merge_scans(scans, [dropped for _, dropped in results], reader)
        with_rows = [part for part, (each, _) in zip(parts, results) if each is not None]
        roles = replace(reader.roles, metadata=None)  # which have been read
        reader = replace(reader, columns=scanned.columns, roles=roles)
        return cls(with_rows, [each.sizes for each in scans], reader, scanned)

    # ------------------------------------------------------------ properties

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Array]:
        raise TypeError("the bags are in partitions and are not read one by one: use bags.load()")

    @property
    def columns(self) -> TableColumns:  # type: ignore[override]
        """How the points are made from the columns of the table."""
        return cast(TableColumns, self._reader.columns)

    @property
    def features(self) -> list[str]:  # type: ignore[override]
        """Names of the p columns of a point."""
        return self.columns.features

    @property
    def n_features(self) -> int:
        """Dimension p of a point."""
        return len(self.features)

    @property
    def weighted(self) -> bool:
        """Whether points have weights."""
        return self._reader.roles.weight is not None

    @property
    def n_parts(self) -> int:
        """Number of parts with points of these bags."""
        return sum(bool(np.any(codes >= 0)) for codes in self._codes)

    @property
    def n_points(self) -> int:
        """Number of points of all bags, without bags' pieces of weight 0."""
        return int(self._rows_in_parts.sum())

    @property
    def cut(self) -> Array:
        """Whether each bag has points in several parts; bool array, shape (n,)."""
        parts_of = np.zeros(len(self), np.int64)
        for codes in self._codes:
            parts_of[codes[codes >= 0]] += 1
        return parts_of > 1

    @property
    def _rows_in_parts(self):
        return np.array([s[c >= 0].sum() for c, s in zip(self._codes, self._sizes_in_parts)])

    def _storage(self):
        return f"{self.n_parts} parts"

    # ------------------------------------------------------------ selection

    def __getitem__(self, key: Any) -> "PartitionedBags":
        return self.take(key)

    def _taken(self, indices):
        position = np.full(len(self) + 1, -1)  # the last entry: excluded bags, code -1, stay so
        position[indices] = np.arange(len(indices))
        if np.any(position[indices] != np.arange(len(indices))):
            raise ValueError("bags in partitions can be selected once each: load() them first")
        position[-1] = -1
        bags = self._copy_of(indices)
        bags._codes = [position[codes] for codes in self._codes]
        for name in ("sizes", "effective_sizes", "totals"):
            setattr(bags, name, getattr(self, name)[indices])
        return bags

    def _with_columns(self, columns):
        more = [name for name in self.columns.fills if name not in columns.fills]
        if more:
            raise ValueError(
                f"column {more[0]!r} has missing values, but none in the training table: fill "
                "them in, or drop these points by missing='drop'"
            )
        bags = copy(self)
        bags._reader = replace(self._reader, columns=columns)
        return bags

    # ------------------------------------------------------------ passes over the points

    def map_parts(
        self,
        function: Callable[..., Any],
        *per_bag: Array | None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[tuple[Array, Any]]:
        """Apply a function to the bags of each part; results come in the order of the parts.

        The function is called as ``function(bags, *per_bag)`` with the part's `Bags` and their rows
        of `per_bag`, arrays of shape (n, ...) or None; it and its result are sent between machines.
        Yields pairs (indices of the part's bags, all different; result). `progress` is called as
        ``progress(points done, total points)``.
        """
        arguments, bags_of_parts = [], []
        for part, codes in zip(self._parts, self._codes):
            keep = codes >= 0
            if keep.any():
                bags_of_parts.append(codes[keep])
                rows = [None if a is None else a[codes[keep]] for a in per_bag]
                arguments.append((part.table, None if keep.all() else keep, rows))
        done, n_rows = 0, self._rows_in_parts
        n_rows = n_rows[n_rows > 0]
        results = in_order(_on_part, arguments, (self._reader, function))
        for codes, n, result in zip(bags_of_parts, n_rows, results, strict=True):
            yield codes, result
            done += int(n)
            if progress is not None:
                progress(done, self.n_points)

    def read_rows(self, rows: Array) -> Array:
        """Copy of the points at `rows` of all points, ordered by part and row."""
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum(self._rows_in_parts)
        bounds = np.searchsorted(rows[order], np.concatenate([[0], ends]))
        arguments = []
        for k, part in enumerate(self._parts):
            here = rows[order[bounds[k] : bounds[k + 1]]] - (ends[k - 1] if k else 0)
            keep = self._codes[k] >= 0
            if len(here):
                arguments.append((part.table, None if keep.all() else keep, here))
        unordered = np.concatenate(list(in_order(_rows_of_part, arguments, self._reader)))
        points = np.empty_like(unordered)
        points[order] = unordered
        return points

    def load(self) -> Any:
        """The bags with their points in this process's memory, as `Bags`."""
        parts = list(self.map_parts(copy))
        codes = np.concatenate([np.repeat(indices, bags.sizes) for indices, bags in parts])
        order = np.argsort(codes, kind="stable")
        weights = None
        if self.weighted:
            weights = np.concatenate([bags.weights for _, bags in parts])[order]
        bags = self._reader.kind(
            np.concatenate([bags.points for _, bags in parts])[order],
            offsets_of_sizes(np.bincount(codes, minlength=len(self))),
            weights=weights,
            ids=self.ids,
            metadata=self.metadata,
            columns=self.columns,
            copy=False,
        )
        bags.file = self.file
        return bags


def parts_of_dask(ddf: Any, roles: ColumnRoles, like: Any) -> tuple[list[Part], Sequence[str]]:
    """Partitions of a Dask DataFrame and names of the feature columns, see `Bags.from_dask`."""
    require("bags of a Dask DataFrame need Dask: pip install 'bdr-stan[dask]'", "dask.dataframe")
    import dask.dataframe as dd

    if not isinstance(ddf, dd.DataFrame):
        raise TypeError(
            f"expected a Dask DataFrame, found a {type(ddf).__name__}: use Bags.from_dataframe for "
            "tables in memory"
        )
    if roles.bag not in ddf.columns and roles.bag == ddf.index.name:
        ddf = ddf.reset_index()
    roles = roles.like(like).with_features(list(ddf.columns))
    delayed = ddf[roles.given].to_delayed()
    return [Part(f"partition {k}", table) for k, table in enumerate(delayed)], roles.features or []


# ------------------------------------------------------------------ functions that run on a part


def _on_part(table, keep, per_bag, shared):
    reader, function = shared
    bags = reader.bags(reader.rows(table, keep))
    # A worker already has one thread per core; BLAS with one gives the same bits everywhere.
    threadpool_limits(1, user_api="blas")
    with parallel_config("sequential"):
        return function(bags, *per_bag)


def _rows_of_part(table, keep, rows, reader):
    points = reader.rows(table, keep)[rows.tolist(), :]
    return reader.columns.points(points, unseen=reader.unseen)
