"""Bags of points: the points of all bags in one stacked array, with offsets where bags begin."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy as shallow_copy
from typing import TYPE_CHECKING, Any, Self, TypeAlias, overload

import numpy as np

from bdr_stan.arguments import answered
from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.checks import (
    LARGEST_VALUE,
    as_features,
    as_ids,
    as_offsets,
    as_points,
    as_replicates,
    as_vector,
    as_weights,
    offsets_of_sizes,
    values_are_usable,
)
from bdr_stan.bags.chunks import Chunk, cut_chunks, memory_map, release, share_memory
from bdr_stan.bags.clusters import Clusters, clustered_sizes, variances_of_columns
from bdr_stan.bags.column_warnings import warn_of_values
from bdr_stan.bags.columns import TableColumns, points_that_meet
from bdr_stan.bags.partitions import PartitionedBags
from bdr_stan.bags.readers import Readers
from bdr_stan.bags.samples import Samples
from bdr_stan.bags.tables import bag_codes, is_table
from bdr_stan.types import Array, ArrayLike, DataFrame, check_flags
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    from bdr_stan.maps.grid import Pixels


_CHECK_BYTES = 1 << 22  # read at a time, so a memory map stays on disk


class Bags(Readers):
    """Bags of points in one stacked array.

    Bag i is ``points[offsets[i]:offsets[i + 1]]``. ``bags[i]`` is that array; a slice, an array of
    indices or a boolean mask returns a smaller ``Bags`` (a contiguous range without copying the
    points).

    Parameters
    ----------
    points : array, shape (N_points, p), bag after bag
        float32 is kept, other numbers become float64. A memory map is not loaded: its values are
        checked during `embed`.
    offsets : integers, shape (n + 1,), from 0 up to N_points
    weights : array, shape (N_points,), optional
        Weight of each point within its bag, >= 0, with a positive sum in every bag.
    replicate_weights : array, shape (N_points, R), optional
        Replicates of the weights as surveys publish them, R >= 2: from balanced repeated
        replication, the jackknife or the bootstrap. They determine each bag's effective size in the
        models with uncertain embeddings; see `replicate_scale`. Each must have a positive sum in
        every bag; single ones may be negative.
    replicate_scale : float, or array, shape (R,), with `replicate_weights`
        The variance of an estimate t is the sum over r of scale_r (t_r - t)^2, t_r with replicate
        r. Scales are 1 / R for balanced repeated replication and the bootstrap, 1 / (R (1 - rho)^2)
        for Fay's method, (R - 1) / R for the delete-one jackknife, 4 / R for successive
        differences, as in the American Community Survey.
    cluster : array, shape (N_points,), optional
        Sampled cluster of each point, such as its household, matched within bags (and strata): the
        same id in two bags is two clusters. Clusters determine effective sizes, as replicate
        weights do, by the variance between clusters, pooled over the bags of a fit.
    strata : array, shape (N_points,), with `cluster`
        Stratum from which each point's cluster was sampled, matched within bags.
    ids : array, shape (n,), optional, all different
    metadata : pandas DataFrame, one row per bag, optional
        Matched to the ids by its index, unless it is the default 0, 1, ...; then indexed by them.
    features : names of the p columns, optional
    columns : TableColumns, optional
        How the points were made from the columns of a table; determines `features`.
    pixels : Pixels, N_points of them, optional
        The raster pixel of each point: `row` and `col` from 0 on a `grid`, and `share`, the part of
        the pixel in the district.
    copy : bool, default True
        Copy points that are an array in memory, so later changes to it have no effect here; False
        shares its memory. A memory map is not copied; weights, ids and metadata always are.

    Attributes
    ----------
    points, offsets, weights, ids, metadata, features, columns, pixels
        As given, once checked; None if absent.
    replicate_weights, replicate_scale
        The same; the scales are an array, shape (R,).
    cluster, strata
        The same as integer codes, shape (N_points,).
    file
        Path that the points were read from by `from_csv` or `from_parquet`, else None.

    Raises
    ------
    TypeError, ValueError
        The message names the bag, point and column, and a correction.

    Examples
    --------
    >>> from bdr_stan import Bags
    >>> points = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    >>> bags = Bags(points, [0, 1, 3], ids=["ann", "bob"], features=["age", "income"])
    >>> bags[1]
    array([[3., 4.],
           [5., 6.]])
    >>> bags[bags.sizes > 1].ids
    array(['bob'], dtype='<U3')
    """

    @answered
    def __init__(
        self,
        points: ArrayLike,
        offsets: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        replicate_weights: ArrayLike | None = None,
        replicate_scale: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        strata: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        metadata: "DataFrame | None" = None,
        features: Iterable[object] | None = None,
        columns: TableColumns | None = None,
        pixels: "Pixels | None" = None,
        copy: bool = True,
    ) -> None:
        if offsets is None:
            raise TypeError(
                "Bags(points, offsets) takes stacked points and where bags begin: for a list of "
                "arrays use Bags.from_list(arrays), for a table Bags.from_dataframe(df, bag=...)"
            )
        check_flags(copy=copy)
        self.points = as_points(points)
        if copy and not self.is_memory_map and share_memory(self.points, points):
            self.points = self.points.copy()
        self.offsets = as_offsets(offsets, len(self.points))
        n = len(self.offsets) - 1
        self.ids = None if ids is None else as_ids(ids, n).copy()
        self.columns = columns
        if columns is not None:
            features = columns.features
        self.features = None if features is None else as_features(features, self.n_features)
        self.metadata = metadata
        if pixels is not None and len(pixels) != len(self.points):
            raise ValueError(
                f"pixels has {len(pixels)} pixels, but there are {len(self.points)} points: one "
                "per point"
            )
        self.pixels = pixels
        if n == 0:
            raise ValueError("there are no bags: pass at least one bag of points")
        empty = np.flatnonzero(self.sizes == 0)
        if len(empty):
            raise ValueError(
                f"{self.name(empty[0])} has no points ({len(empty)} in total): "
                "leave it out, with its label"
            )
        self.weights = None
        if weights is not None:
            self.weights = as_weights(weights, self.offsets, self.ids).copy()
        self.replicate_weights, self.replicate_scale = as_replicates(
            replicate_weights, replicate_scale, self.weights, self.offsets, self.ids
        )
        for name, values in (("cluster", cluster), ("strata", strata)):
            if values is not None:
                values = as_vector(values, len(self.points), name, "point")
                setattr(self, name, bag_codes(values, f"point {{}} has no {name}")[0])
        if strata is not None and cluster is None:
            raise ValueError("strata go with cluster: pass cluster, such as a number per point")
        if cluster is not None and replicate_weights is not None:
            raise ValueError("cluster and replicate_weights both describe the design: omit one")
        if not self.is_memory_map:
            self.check_values()
        if copy:  # from a user: readers and parts of the package share the memory
            warn_of_values(self)

    @classmethod
    def concatenate(cls, parts: "Sequence[BagsLike]") -> Self:
        """All bags of several collections, loaded into memory.

        Parameters
        ----------
        parts : sequence of Bags, or of lists of arrays, shapes (n_points, p)
            Points of parts without weights get weight 1 if another part has weights. Ids, metadata
            and pixels are dropped, as ids of different parts may coincide.

        Returns
        -------
        Bags, with the column names of the first part that has some

        Raises
        ------
        ValueError
            No parts are given; the columns of the parts differ in number or name; a part has
            replicate weights or clusters.
        """
        if not isinstance(parts, Iterable):
            raise TypeError(f"parts must be a list of bags, found a {type(parts).__name__}")
        stacks = [as_bags(part) for part in parts]
        if not stacks:
            raise ValueError("there are no bags: pass at least one bag of points")
        features = next((part.features for part in stacks if part.features is not None), None)
        for k, part in enumerate(stacks):
            part.check_like(
                stacks[0].n_features,
                features,
                stacks[0].columns,
                whose=f"the bags at position {k}",
                source="those before have",
            )
        weights = None
        if any(part.design is not None for part in stacks):
            raise ValueError(
                "parts with replicate weights or clusters cannot be joined: make the bags from all "
                "points at once"
            )
        if any(part.weights is not None for part in stacks):
            weights = np.concatenate([part.point_weights for part in stacks])
        bags = cls(
            np.concatenate([part.points for part in stacks]),
            offsets_of_sizes(np.concatenate([part.sizes for part in stacks])),
            weights=weights,
            features=features,
            columns=next((part.columns for part in stacks if part.columns is not None), None),
            copy=False,
        )
        for part in stacks:
            part.release()
        return bags

    # ------------------------------------------------------------ selection

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, key: int | np.integer) -> Array: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | Array) -> "Bags": ...
    def __getitem__(self, key):
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            if not -len(self) <= key < len(self):
                raise IndexError(f"bag {key} is out of range: there are {len(self)} bags, from 0")
            i = range(len(self))[key]
            return self.read(self.offsets[i], self.offsets[i + 1])
        return self.take(key)

    def _taken(self, indices):
        sizes = self.sizes[indices]
        offsets = offsets_of_sizes(sizes)
        starts = self.offsets[indices]
        if len(indices) and np.all(np.diff(indices) == 1):
            rows = slice(starts[0], starts[0] + offsets[-1])
            points = self.points[rows]
        else:
            rows = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
            points = self.read_rows(rows)
        return self.with_points(points, offsets, rows, indices)

    def where(self, /, **conditions: Any) -> "Bags":
        """The points of a subgroup, for example women, in bags with the same ids and metadata.

        Parameters
        ----------
        **conditions
            Condition on each column of this name: a value; a list of values; or a function from the
            column's values, shape (N_points,), to whether each point belongs to the subgroup. A
            column of categories keeps its name and values of the table.

        Returns
        -------
        Bags
            The points that meet all conditions, with their weights. Missing values meet none.

        Raises
        ------
        ValueError
            No condition, an unknown column or value, or no point meets the conditions.
        TypeError
            A column of numbers is compared with text.

        Warns
        -----
        UserWarning
            Some bags have no such points and are excluded.
        """
        rows = np.flatnonzero(points_that_meet(self, conditions))
        if self.weights is not None:
            rows = rows[self.weights[rows] > 0]
        bag = np.searchsorted(self.offsets, rows, side="right") - 1
        sizes = np.bincount(bag, minlength=len(self))
        kept = np.flatnonzero(sizes)
        if not len(kept):
            raise ValueError("no point meets the conditions")
        left_out = len(self) - len(kept)
        if left_out:
            first = self.name(np.flatnonzero(sizes == 0)[0])
            warn(
                f"{left_out} of {len(self)} bags have no points that meet the conditions and are "
                f"left out, such as {first}"
            )
        return self.with_points(self.read_rows(rows), offsets_of_sizes(sizes[kept]), rows, kept)

    def with_points(
        self, points: Array, offsets: Array, rows: Array | slice, bags: Array
    ) -> "Bags":
        """Bags of these points, at `rows` of the stack, of the bags with these indices."""
        chosen = self._copy_of(bags)
        chosen.points, chosen.offsets = points, offsets
        for name in ("weights", "replicate_weights", "cluster", "strata"):
            values = getattr(self, name)
            setattr(chosen, name, None if values is None else values[rows])
        chosen.pixels = None if self.pixels is None else self.pixels[rows]
        return chosen

    def to_dataframe(self) -> "DataFrame":
        """The points in a table with one row per point.

        Returns
        -------
        pandas DataFrame, N_points rows
            The bag's id in a column called `id_name`, the columns of the points by their names,
            else x0, x1, ...; a column weight if the points have weights.
        """
        import pandas as pd

        table = pd.DataFrame(self.points, columns=self.names_of_columns)
        table.insert(0, self.id_name, np.repeat(self.index, self.sizes), allow_duplicates=True)
        return table if self.weights is None else table.assign(weight=self.weights)

    def describe(self) -> "DataFrame":
        """Points, effective sizes and design effects of the bags and, last, of all together.

        Returns
        -------
        pandas DataFrame of n + 1 rows, indexed by the bags' ids and "all"
            points; clusters, if the bags have them; effective_size, by weights and clusters, the
            number of independent points of equal weights that are as precise, on average over the
            columns in units of their standard deviations; design_effect, points / effective_size.
            Replicate weights do not enter.
        """
        import pandas as pd

        columns, sizes = {"points": self.sizes}, self.effective_sizes
        if self.cluster is not None:
            sizes = clustered_sizes(self.with_cluster_variances(variances_of_columns(self)))
            columns["clusters"] = np.bincount(Clusters.of_bags(self).bag)
        table = pd.DataFrame(columns, index=pd.Index(self.index, name=self.id_name))
        table = table.assign(effective_size=sizes)
        table = pd.concat([table, table.sum().rename("all").to_frame().T]).rename_axis(self.id_name)
        design_effect = table["points"] / table["effective_size"]
        return table.astype(dict.fromkeys(columns, int)).assign(design_effect=design_effect)

    @property
    def names_of_columns(self) -> list[str]:
        """Names of the points' columns, x0, x1, ... if they have none."""
        return self.features or [f"x{k}" for k in range(self.n_features)]

    # ------------------------------------------------------------ arithmetic

    @property
    def n_features(self) -> int:
        """Dimension p of a point."""
        return self.points.shape[1]

    @property
    def n_points(self) -> int:
        """Number of points of all bags."""
        return len(self.points)

    def _with_columns(self, columns):
        if columns.transformer is not None or self.columns.transformer is not None:
            return self  # `check_like` raises for differences

        def bag_of(row):
            return self.name(np.searchsorted(self.offsets, row, side="right") - 1)

        bags = shallow_copy(self)
        bags.points = columns.aligned(self.points, self.columns, bag_of)
        bags.features, bags.columns = columns.features, columns
        return bags

    @property
    def sizes(self) -> Array:
        """Number of points of each bag, int64, shape (n,)."""
        return np.diff(self.offsets)

    @property
    def effective_sizes(self) -> Array:
        """Number of points, or with weights Kish's (sum w)^2 / sum w^2; float, shape (n,)."""
        if self.weights is None:
            return self.sizes.astype(np.float64)
        # Relative to the bag's largest weight, so squares cannot over- or underflow.
        largest = np.maximum.reduceat(self.weights, self.offsets[:-1])
        scaled = self.weights / np.repeat(largest, self.sizes)
        return self.sums(scaled) ** 2 / self.sums(scaled**2)

    @property
    def weighted(self) -> bool:
        """Whether points have weights."""
        return self.weights is not None

    @property
    def point_weights(self) -> Array:
        """Weight of each point, 1 if bags have no weights; float, shape (N_points,)."""
        return np.ones(len(self.points)) if self.weights is None else self.weights

    @property
    def point_shares(self) -> Array:
        """Weight of each point over the total weight of its bag; float, shape (N_points,)."""
        if self.weights is None:
            return np.repeat(1 / self.sizes, self.sizes)
        return self.weights / np.repeat(self.totals, self.sizes)

    @property
    def totals(self) -> Array:
        """Sum of the weights of each bag, its size without weights; float, shape (n,)."""
        return self.sizes.astype(np.float64) if self.weights is None else self.sums(self.weights)

    def sums(self, values: ArrayLike) -> Array:
        """Sums of values, (N_points, ...), over the points of each bag, (n, ...), in their type."""
        values = np.asarray(values)
        if values.shape[:1] != (len(self.points),):
            raise ValueError(
                f"values has shape {values.shape}, expected ({len(self.points)}, ...): one per "
                "point"
            )
        return np.add.reduceat(values, self.offsets[:-1], axis=0)

    def chunks(self, n_points: int) -> list[Chunk]:
        """The stack of points in chunks of at most `n_points`, see `cut_chunks`."""
        return cut_chunks(self.offsets, n_points)

    def map_parts(
        self,
        function: Callable[..., Any],
        *per_bag: Array | None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[tuple[Array, Any]]:
        """As `PartitionedBags.map_parts`, for one part; `function` itself reports progress."""
        yield np.arange(len(self)), function(self, *per_bag, progress=progress)

    # ------------------------------------------------------------ reading

    @property
    def is_memory_map(self) -> bool:
        """Whether the points are in a memory-mapped file."""
        return memory_map(self.points) is not None

    def read(self, start: int, stop: int) -> Array:
        """Points start to stop of the stack as floats (a view if they are stored as floats)."""
        rows = self.points[start:stop]
        return rows if rows.dtype.kind == "f" else rows.astype(np.float64)

    def read_checked(self, start: int, stop: int) -> Array:
        """As `read`; the values of a memory map are checked as they are read."""
        points = self.read(start, stop)
        if self.is_memory_map and not values_are_usable(points):
            self.check_values()
        return points

    def read_rows(self, rows: Array) -> Array:
        """Copy of the points at `rows` of the stack; rows of a memory map are checked."""
        if not self.is_memory_map:
            return self.points[rows]
        out = np.empty((len(rows), self.n_features), self.read(0, 0).dtype)
        for start in range(0, len(rows), 1000):
            out[start : start + 1000] = self.points[rows[start : start + 1000]]
            self.release()
        if not values_are_usable(out):
            self.check_values()
        return out

    def release(self) -> None:
        """Release the pages read from a memory map; the file keeps the data."""
        release(self.points)

    # ------------------------------------------------------------ checks

    def check_values(self) -> None:
        """Raise ValueError for the first value that is NaN, infinite or a nodata marker."""
        rows = max(1, _CHECK_BYTES // (8 * self.n_features))
        first, count = None, 0
        for start in range(0, len(self.points), rows):
            block = self.read(start, start + rows)
            if not values_are_usable(block):
                bad = np.argwhere(~(np.abs(block) <= LARGEST_VALUE))
                if first is None:
                    first = start + bad[0, 0], bad[0, 1], block[tuple(bad[0])]
                count += len(bad)
            self.release()
        if first is not None:
            raise ValueError(self._bad_value(*first, count))

    def _bad_value(self, row: int, column: int, value: float, count: int) -> str:
        i = np.searchsorted(self.offsets, row, side="right") - 1
        named = "" if self.features is None else f" ({self.features[column]!r})"
        where = f"{self.name(i)}, point {row - self.offsets[i]}, column {column}{named}"
        if np.isfinite(value):
            what = f"value {value:.3g} looks like a nodata marker"
        else:
            what = f"value is {value}"
        return f"{where}: {what} ({count} in total): drop these points or fill them in"

    def _storage(self) -> str:
        return f"{self.points.dtype}{', memory map' if self.is_memory_map else ''}"


BagsLike: TypeAlias = Bags | PartitionedBags | Samples | Mapping | Sequence[ArrayLike] | Array


@overload
def as_bags(X: BagsLike) -> Bags: ...
@overload
def as_bags(X: BagsLike, *, in_parts: bool = ..., samples: bool = ...) -> Any: ...
def as_bags(X: BagsLike, *, in_parts: bool = False, samples: bool = False) -> Any:
    """User input as `Bags`, unchanged if it is one.

    With `in_parts`, `PartitionedBags` are accepted, with `samples`,
    `Samples` or a dict of such bags. TypeError for a single table or
    2-D array, which does not identify the bags, and for points in
    partitions without `in_parts`; ValueError without bags, and for
    invalid points, see `Bags`.
    """
    if isinstance(X, Mapping):
        if any(isinstance(values, np.ndarray) and values.ndim == 2 for values in X.values()):
            raise TypeError(
                "X is a dict of arrays: pass Bags.from_list(list(X.values()), ids=list(X)), or a "
                "dict of bags such as {'residents': people, 'houses': houses}"
            )
        X = Samples({name: as_bags(bags, in_parts=in_parts) for name, bags in X.items()})
    if isinstance(X, BagsBase):
        if isinstance(X, Samples) and not samples:
            raise TypeError(
                f"bags with several samples, {', '.join(X.samples)}, are for BDR, BLR and "
                "Shrinkage: pass the bags of one sample"
            )
        if len(X) == 0:
            raise ValueError("there are no bags: pass at least one bag of points")
        if isinstance(X, PartitionedBags) and not in_parts:
            raise TypeError(
                "this needs all points in memory, but these bags are in partitions: pass "
                "bags.load(), or some of them, as bags[:1000].load()"
            )
        return X
    if isinstance(X, np.ndarray) and X.dtype != object:
        if X.ndim != 3:
            raise TypeError(
                f"X is a single array of shape {X.shape}, not bags: pass a list of 2-D arrays, "
                "one per bag, or Bags.from_points(points, bag=...)"
            )
        n, size, p = X.shape
        offsets = np.arange(n + 1) * size
        return Bags._made(points=X.reshape(n * size, p), offsets=offsets)
    if isinstance(X, (list, tuple, np.ndarray)):
        return Bags.from_list(X)
    if is_table(X):
        raise TypeError("X is a table, not bags: use Bags.from_dataframe(df, bag=...)")
    raise TypeError(f"X is a {type(X).__name__}, not bags: pass a list of 2-D arrays, one per bag")
