"""Bags whose points stay in the parts of a table, read part by part by Dask.

Each part returns a result for its bags; results are combined in the order of the parts, whatever
order they finish in, so that no result depends on the number of workers.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast
from uuid import uuid4

import numpy as np
from joblib import parallel_config
from threadpoolctl import threadpool_limits

from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.checks import check_bags_have_weight
from bdr_stan.bags.column_roles import (
    feature_columns,
    known_features,
    named_columns,
    resolve_like,
)
from bdr_stan.bags.column_values import counts_text
from bdr_stan.bags.column_warnings import column_messages, dropped_message
from bdr_stan.bags.columns import TableColumns
from bdr_stan.bags.parts import Part, PartReader, PartSurvey, merged_columns, survey
from bdr_stan.bags.readers import bag_codes, one_row_per_bag
from bdr_stan.bags.text_columns import warn_of_similar_ids
from bdr_stan.types import Array, ArrayLike
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    import pandas as pd


class PartitionedBags(BagsBase):
    """Bags of points that stay in the parts of a Dask DataFrame or of Parquet files.

    Made by `Bags.from_dask` and ``Bags.from_parquet(lazy=True)``. Estimators on mean embeddings
    accept them in place of `Bags`; a slice, an array of indices or a boolean mask selects bags, and
    `load` reads them into memory for everything else. Memory has only the id, size and metadata row
    of each bag.

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
    client : distributed.Client, or None
        The cluster that computes, if one was given.

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
        codes: Sequence[Array],
        sizes_in_parts: Sequence[Array],
        reader: PartReader,
        *,
        ids: Array,
        sizes: Array,
        effective_sizes: Array,
        totals: Array,
        metadata: "pd.DataFrame | None" = None,
        client: Any = None,
    ) -> None:
        """Arguments as from `from_parts`; `codes` are the bags of each part among all, or -1."""
        self._parts, self._codes, self._sizes_in_parts = parts, codes, sizes_in_parts
        self._reader = reader
        self.ids, self.metadata = ids, metadata
        self.sizes, self.effective_sizes, self.totals = sizes, effective_sizes, totals
        self.client = client

    @classmethod
    def from_parts(
        cls,
        kind: Callable[..., Any],
        parts: tuple[Sequence[Part], Sequence[str]],
        bag: str,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        metadata: Sequence[str] | None = None,
        *,
        missing: str = "error",
        like: Any = None,
        unseen: str = "error",
        client: Any = None,
    ) -> Self:
        """Bags of (parts, feature columns): one pass that counts, checks values and learns columns.

        ``kind`` is `Bags`, the type of the rows of a part in memory; the rest is as for
        `Bags.from_dask`.
        """
        columns = resolve_like(like, features, missing, None, unseen)
        check_client(client)
        tables, names = parts
        reader = PartReader(kind, bag, weight, metadata, names, missing, unseen, columns)
        found = list(in_order(survey, [(p.table, p.where) for p in tables], reader, client=client))
        surveys = [each for each, _ in found if each is not None]
        nonempty = [part for part, (each, _) in zip(tables, found) if each is not None]
        _check_some_rows(surveys, [dropped for _, dropped in found])
        codes, ids = _number_bags(surveys, bag)
        pieces = np.concatenate(codes)
        sizes = np.zeros(len(ids), np.int64)
        np.add.at(sizes, pieces, np.concatenate([each.sizes for each in surveys]))
        _warn_of_dropped([dropped for _, dropped in found], sizes, ids)
        table = None
        if metadata is not None:
            values = {
                name: np.concatenate([each.metadata[name].to_numpy() for each in surveys])
                for name in metadata
            }
            table = one_row_per_bag(values, pieces, ids, bag)
        if columns is None:
            columns = merged_columns([each.columns for each in surveys])
            _warn_of_columns(surveys, columns)
        weights = {"effective_sizes": sizes.astype(float), "totals": sizes.astype(float)}
        if weight is not None:
            weights = _merged_weights(surveys, codes, ids)
            # Where all weights of a bag in a part are 0, its points there contribute nothing.
            codes = [np.where(e.largest > 0, c, -1) for c, e in zip(codes, surveys)]
        return cls(
            nonempty,
            codes,
            [each.sizes for each in surveys],
            replace(reader, columns=columns, metadata=None),  # metadata have been read
            ids=ids,
            sizes=sizes,
            metadata=table,
            client=client,
            **weights,
        )

    # ------------------------------------------------------------ what is known

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
        return self._reader.weight is not None

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
        return self.take(self.selected(key))

    def take(self, indices: ArrayLike, axis: int = 0) -> "PartitionedBags":
        """Bags at some indices, in their order, as `Bags.take`; their points stay where they are.

        Raises
        ------
        ValueError
            A bag is selected twice, which needs `load` first.
        """
        if axis != 0:
            raise ValueError(f"bags have one axis, 0; found axis={axis}")
        indices = self.selected(indices)
        position = np.full(len(self) + 1, -1)  # the last entry: excluded bags, code -1, stay so
        position[indices] = np.arange(len(indices))
        if np.any(position[indices] != np.arange(len(indices))):
            raise ValueError("bags in partitions can be selected once each: load() them first")
        position[-1] = -1
        bags = copy(self)
        bags._codes = [position[codes] for codes in self._codes]
        for name in ("ids", "sizes", "effective_sizes", "totals"):
            setattr(bags, name, getattr(self, name)[indices])
        bags.metadata = None if self.metadata is None else self.metadata.iloc[indices]
        return bags

    def like(self, columns: TableColumns | None) -> "PartitionedBags":
        """As `Bags.like`; ValueError where only the other table has no missing values."""
        current = self.columns
        if columns is None or current.same_points(columns) or current.names != columns.names:
            return self  # `check_like` raises for what differs
        more = [name for name in current.fills if name not in columns.fills]
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
        """Apply a function to the bags of each part, for results in the order of the parts.

        The function is called as ``function(bags, *per_bag)`` with the part's `Bags` and their rows
        of `per_bag`, arrays of shape (n, ...) or None; it and its result are sent between machines.
        Yields pairs (indices of the part's bags, all different; result). `progress` is called as
        ``progress(points done, points in all)``.
        """
        arguments, which = [], []
        for part, codes in zip(self._parts, self._codes):
            keep = codes >= 0
            if keep.any():
                which.append(codes[keep])
                rows = [None if a is None else a[codes[keep]] for a in per_bag]
                arguments.append((part.table, None if keep.all() else keep, rows))
        done, rows_in = 0, self._rows_in_parts
        rows_in = rows_in[rows_in > 0]
        results = in_order(_on_part, arguments, (self._reader, function), client=self.client)
        for codes, n, result in zip(which, rows_in, results, strict=True):
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
        found = np.concatenate(
            list(in_order(_rows_of_part, arguments, self._reader, client=self.client))
        )
        points = np.empty_like(found)
        points[order] = found
        return points

    def load(self) -> Any:
        """The bags with their points in this process's memory, as `Bags`."""
        pieces = list(self.map_parts(_itself))
        codes = np.concatenate([np.repeat(which, bags.sizes) for which, bags in pieces])
        order = np.argsort(codes, kind="stable")
        weights = None
        if self.weighted:
            weights = np.concatenate([bags.weights for _, bags in pieces])[order]
        sizes = np.bincount(codes, minlength=len(self))
        return self._reader.kind(
            np.concatenate([bags.points for _, bags in pieces])[order],
            np.concatenate([[0], np.cumsum(sizes)]),
            weights=weights,
            ids=self.ids,
            metadata=self.metadata,
            columns=self.columns,
        )


def parts_of_dask(
    ddf: Any,
    bag: str,
    features: Sequence[str] | None,
    weight: str | None,
    metadata: Sequence[str] | None,
    like: Any = None,
) -> tuple[list[Part], list[str]]:
    """Partitions of a Dask DataFrame and names of the feature columns, see `Bags.from_dask`."""
    try:
        import dask.dataframe as dd
    except ImportError as error:
        raise ImportError(
            f"bags of a Dask DataFrame need {error.name}: pip install 'bdr-stan[dask]'"
        ) from None
    if not isinstance(ddf, dd.DataFrame):
        raise TypeError(
            f"expected a Dask DataFrame, found a {type(ddf).__name__}: use Bags.from_dataframe for "
            "tables in memory"
        )
    if bag not in ddf.columns and bag == ddf.index.name:
        ddf = ddf.reset_index()
    names = list(ddf.columns)
    features = feature_columns(names, bag, known_features(like, features), weight, metadata)
    ddf = ddf[named_columns(names, bag, features, weight, metadata)]
    parts = [Part(f"partition {k}", table) for k, table in enumerate(ddf.to_delayed())]
    return parts, features


# ------------------------------------------------------------------ what runs on a part


def _on_part(table, keep, per_bag, shared):
    reader, function = shared
    bags = reader.bags(reader.rows(table, keep))
    # A worker already has one thread per core; BLAS with one gives the same bits everywhere.
    threadpool_limits(1, user_api="blas")
    with parallel_config("sequential"):
        return function(bags, *per_bag)


def _rows_of_part(table, keep, rows, reader):
    return reader.points(reader.rows(table, keep)[rows.tolist(), :])


def _itself(bags):
    return bags


def in_order(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    shared: Any,
    *,
    client: Any = None,
) -> Iterator[Any]:
    """Results of ``function(*arguments[k], shared)`` in the order of k, computed by Dask.

    Delayed objects among the arguments are computed first; `shared` is sent once to each worker.
    Without `client` the running one computes, and without one Dask's own scheduler, usually
    threads.
    """
    from dask import compute, config, delayed

    client = check_client(client) or _running_client()
    shared = delayed(shared, name=f"bdr-stan-{uuid4().hex}", traverse=False)
    call = delayed(function, pure=False)
    tasks = [call(*given, shared) for given in arguments]
    # Dask's threads on this machine are as many as its cores.
    with threadpool_limits(1, user_api="blas"):
        if client is None:
            yield from compute(*tasks)
            return
        # Tasks include a few numbers per bag: for millions of bags Dask would warn.
        with config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            futures = deque(client.compute(tasks))
        try:
            while futures:
                yield futures[0].result()
                futures.popleft()  # frees the result on its worker
        finally:
            client.cancel(list(futures))


def check_client(client: Any) -> Any:
    """A running Dask client, or None; raises for anything else."""
    if client is None:
        return None
    if not hasattr(client, "compute") or not hasattr(client, "status"):
        raise TypeError(f"client must be a distributed.Client, found a {type(client).__name__}")
    if client.status != "running":
        raise ValueError(
            f"the Dask client is {client.status}: connect again, and make the bags with the new one"
        )
    return client


def _running_client():
    distributed = sys.modules.get("distributed")  # imported wherever there is a client
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


# ------------------------------------------------------------------ from surveys to bags


def _check_some_rows(surveys, dropped):
    if surveys:
        return
    if any(dropped):
        counts = counts_text(_missing_counts(dropped))
        raise ValueError(f"every row has a missing value ({counts}): leave these columns out")
    raise ValueError("no part of the table has a row: there are no bags")


def _number_bags(surveys: Sequence[PartSurvey], bag: str) -> tuple[list[Array], Array]:
    """Indices of the bags of each part among all, and all ids in order."""
    kinds = ["numbers" if each.ids.dtype.kind in "iuf" else "other values" for each in surveys]
    if len(set(kinds)) > 1:
        first, other = kinds.index("numbers"), kinds.index("other values")
        raise TypeError(
            f"column {bag!r} holds numbers in {surveys[first].columns.where}, but other values in "
            f"{surveys[other].columns.where}: give it one kind in all parts"
        )
    codes, ids = bag_codes(np.concatenate([each.ids for each in surveys]), "{}", by_id=True)
    warn_of_similar_ids(ids)
    ends = np.cumsum([len(each.ids) for each in surveys])
    return np.split(codes, ends[:-1]), ids


def _merged_weights(surveys, codes, ids):
    """Effective sizes and sums of weights; relative to a bag's largest weight, as in `Bags`."""
    largest = np.zeros(len(ids))
    for which, part in zip(codes, surveys):
        largest[which] = np.maximum(largest[which], part.largest)
    check_bags_have_weight(largest, ids)
    sums, squares = np.zeros(len(ids)), np.zeros(len(ids))
    for which, part in zip(codes, surveys):
        relative = part.largest / largest[which]
        sums[which] += part.sums * relative
        squares[which] += part.squares * relative**2
    return {"effective_sizes": sums**2 / squares, "totals": sums * largest}


def _missing_counts(dropped):
    return sum((Counter(each.missing) for each in dropped if each), Counter())


def _warn_of_dropped(dropped, sizes, ids):
    n = sum(each.n for each in dropped if each)
    if not n:
        return
    lost = {value for each in dropped if each for value in each.ids.tolist()} - set(ids.tolist())
    message = dropped_message(n, n + sizes.sum(), _missing_counts(dropped), len(lost))
    warn(message)


def _warn_of_columns(surveys, columns):
    constant, within = [], []
    for name in columns.names:
        known = [each for each in surveys if name in each.low]
        if name in columns.categories or name in columns.fills:
            continue
        if min(each.low[name] for each in known) == max(each.high[name] for each in known):
            constant.append(name)
        elif max(each.sizes.max() for each in known) > 1 and not any(
            each.varies[name] for each in known
        ):
            within.append(name)
    messages = column_messages(constant, within)
    if messages:
        warn("; ".join(messages))
