"""What bags in memory and bags in partitions share: ids, metadata and named columns."""

from collections.abc import Mapping, Sequence
from copy import copy
from html import escape
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import numpy as np

from bdr_stan.arguments import unknown_attribute
from bdr_stan.bags.checks import describe
from bdr_stan.bags.columns import TableColumns, same_transformer
from bdr_stan.bags.matching import as_metadata, match_to_ids
from bdr_stan.types import Array, ArrayLike, DataFrame, PathName

# For other modules; completions of a user's prompt omit them.
_FOR_MODULES = {
    *("check_like", "check_order", "check_values", "chunks", "cut", "design", "is_memory_map"),
    "map_parts",
    *("name", "names_of_columns", "of_sample", "point_shares", "point_weights", "read"),
    *("read_checked", "read_rows", "release", "rows", "sample_points", "selected", "sources"),
    *("sums", "with_cluster_variances", "with_points"),
}
_SHOWN = 12  # names of columns in notebooks
_MIN_MASK_SIZE = 6  # fewer indices may well be all 0 and 1 without being a mask


class BagsBase:
    """Bags in memory or in partitions: a subclass defines their number, columns and points."""

    ids: Array | None
    features: list[str] | None
    columns: TableColumns | None
    replicate_weights: Array | None = None  # of the points, shape (N_points, R)
    cluster: Array | None = None  # of the points, codes within bags and strata, (N_points,)
    strata: Array | None = None
    # Shares of the variance between and within clusters, (2,), of a fit; see `cluster_variances`.
    cluster_variances: Array | None = None
    file: str | None = None  # path that the points were read from, as it was given
    sizes: Any  # number of points of each bag, int, shape (n,)
    effective_sizes: Any  # number of points, or Kish's with weights, float, shape (n,)
    totals: Any  # sum of the weights of each bag, shape (n,)
    weighted: Any  # whether points have weights, bool
    n_features: Any  # dimension p of a point
    n_points: Any  # number of points of all bags
    _metadata: "DataFrame | None" = None

    @property
    def metadata(self) -> "DataFrame | None":
        """Table with one row per bag, indexed by their ids; set tables are matched to them."""
        return self._metadata

    @metadata.setter
    def metadata(self, table: "DataFrame | None") -> None:
        in_order = None if table is None else as_metadata(table, len(self), self.ids)
        self._metadata = None if in_order is None else in_order.copy()

    def __len__(self) -> int:
        raise NotImplementedError

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            return unknown_attribute(self, name)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _FOR_MODULES]

    def __array__(self, *arguments: Any, **options: Any) -> Array:
        """Raise TypeError: bags of different sizes are not an array."""
        raise TypeError(
            "bags are not an array: pass them to an estimator of bdr_stan directly, and scale "
            "their columns by transformer= of Bags.from_dataframe instead of in a pipeline"
        )

    def _read_from(self, path: PathName) -> Self:
        """These bags, with the path that they were read from."""
        self.file = str(path)
        return self

    @property
    def cut(self) -> Array:
        """Whether each bag has points in several parts; none in memory does; bool, shape (n,)."""
        return np.zeros(len(self), bool)

    def take(self, indices: ArrayLike, axis: int = 0) -> Self:
        """Bags at these indices, in their order, with their weights, ids, metadata and pixels.

        Parameters
        ----------
        indices : integers, shape (m,)
            From -n to n - 1. Consecutive ones share the points of bags in memory; others copy
            them. Points in partitions do not move.
        axis : 0
            For NumPy and scikit-learn; only axis 0 exists.

        Raises
        ------
        IndexError
            A bag does not exist, or `indices` are not a 1-D array of integers.
        ValueError
            `axis` is not 0; an invalid value in a memory map, as for `check_values`; a bag in
            partitions that is selected twice, which needs `load` first.
        """
        if axis != 0:
            raise ValueError(f"bags have one axis, 0; found axis={axis}")
        return self._taken(self.selected(indices))

    def _taken(self, indices: Array) -> Self:
        """Bags at indices from 0 to n - 1."""
        raise NotImplementedError

    def _copy_of(self, indices: Array) -> Self:
        """Shallow copy with the ids and metadata of some of the bags; the rest is as it was."""
        bags = copy(self)
        bags.ids = None if self.ids is None else self.ids[indices]
        bags._metadata = None if self._metadata is None else self._metadata.iloc[indices]
        return bags

    @property
    def samples(self) -> Mapping[str, Any]:
        """Bags of each sample of points by its name; with one sample themselves, without a name."""
        return {"": self}

    def has(self, name: str) -> Array:
        """Whether each bag has the sample called `name`; bool array, shape (n,)."""
        return np.ones(len(self), bool)

    def of_sample(self, name: str) -> Any:
        """The bags that have the sample called `name`, in their order, with its points."""
        return self

    def sizes_of(self, name: str) -> Array:
        """Number of points of the sample called `name` in each bag, 0 without it; int, (n,)."""
        return self.sizes

    def check_order(self, **arguments: Any) -> None:
        """Raise ValueError for values without ids if some bag lacks the first sample."""

    def load(self) -> Any:
        """The bags with their points in this process's memory."""
        return self

    @property
    def design(self) -> str | None:
        """Argument that describes the sampling of the points; None if they are independent."""
        names = ("replicate_weights", "cluster")
        return next((name for name in names if getattr(self, name) is not None), None)

    def with_cluster_variances(self, variances: Array | None) -> Self:
        """The bags with the `cluster_variances` of a fit, if their points are in clusters."""
        if self.cluster is None:
            return self
        bags = copy(self)
        bags.cluster_variances = variances
        return bags

    def like(self, columns: TableColumns | None) -> Self:
        """The bags with the columns of another table that was read into the same features.

        Raises ValueError for a category or a missing value that the other table does not have;
        `columns` None changes nothing.
        """
        current = self.columns
        if columns is None or current is None or current.same_points(columns):
            return self
        # `check_like` raises for other names.
        return self if current.names != columns.names else self._with_columns(columns)

    def _with_columns(self, columns: TableColumns) -> Self:
        """The bags with the same columns of a table, encoded as in these."""
        raise NotImplementedError

    def read_rows(self, rows: Array) -> Array:
        """Copy of the points at `rows` of all points."""
        raise NotImplementedError

    def sample_points(self, n: int, rng: np.random.Generator) -> Array:
        """At most n points, float64, drawn without replacement from the points of all bags."""
        total = self.n_points
        rows = np.arange(total) if total <= n else np.sort(rng.choice(total, n, replace=False))
        return self.read_rows(rows).astype(np.float64)

    @property
    def iloc(self) -> Self:
        """The bags themselves: scikit-learn's splitters select with ``iloc`` and `take`."""
        return self

    loc = iloc  # scikit-learn passes boolean masks here

    @property
    def index(self) -> Array:
        """Labels of the bags in results: their ids, or 0 to n - 1; shape (n,)."""
        return np.arange(len(self)) if self.ids is None else self.ids

    @property
    def id_name(self) -> str:
        """Name of the ids: their column in the table, else "bag"."""
        named = self.columns.bag if self.columns is not None else None
        if named is None and self.metadata is not None:
            named = self.metadata.index.name
        return "bag" if named is None else str(named)

    @property
    def sources(self) -> Array:
        """For each column of the points, index of its column in the table; int, shape (p,)."""
        return np.arange(self.n_features) if self.columns is None else self.columns.sources

    def name(self, i: SupportsIndex) -> str:
        """Name of bag i in messages: its position and, if it has one, its id."""
        return describe(i, self.ids)

    def selected(self, key: Any) -> Array:
        """Indices, from 0 to n - 1, that a slice, an array of integers or a mask selects."""
        if isinstance(key, tuple):
            raise TypeError("bags have one index: select columns before making the bags")
        if isinstance(key, slice):
            return np.arange(len(self))[key]
        if np.asarray(key).dtype == bool:
            key = match_to_ids(key, self.ids, "the mask")
        key = np.asarray(key)
        if key.dtype == bool:
            if key.shape != (len(self),):
                raise IndexError(f"the mask has shape {key.shape}, expected ({len(self)},)")
            return np.flatnonzero(key)
        if key.shape == (len(self),) and len(self) >= _MIN_MASK_SIZE and np.isin(key, (0, 1)).all():
            raise IndexError(
                f"the key is {len(key)} numbers 0 and 1, as many as there are bags: make a mask of "
                "them, np.asarray(key, bool)"
            )
        if key.size == 0:
            key = key.astype(np.int64)
        if key.ndim != 1 or key.dtype.kind not in "iu":
            raise IndexError(
                "bags are selected by a 1-D array of integers or booleans; by id with "
                "bags[bags.ids == id]"
            )
        return np.arange(len(self))[key]  # negative ones resolved, range checked

    def check_like(
        self,
        n_features: int,
        features: Sequence[str] | None = None,
        columns: TableColumns | None = None,
        *,
        whose: str = "the bags",
        source: str = "the model was fitted to",
    ) -> None:
        """Raise ValueError unless `whose` points have the columns of `source`, a clause."""
        if not same_transformer(columns, features, self.columns, self.features):
            raise ValueError(
                f"the columns of {whose} were made by another transformer than the columns that "
                f"{source}, or only one of them by a transformer: read the table with like=, the "
                "fitted model or the training bags"
            )
        if self.n_features != n_features:
            raise ValueError(
                f"{whose} have {self.n_features} features per point, but {source} {n_features}: "
                "pass the same columns in the same order"
            )
        if self.features is None or features is None:
            return
        for k, (column, name) in enumerate(zip(self.features, features)):
            if column != name:
                raise ValueError(
                    f"column {k} of {whose} is {column!r}, but {source} {name!r} there: "
                    "pass the same columns in the same order"
                )

    def __repr__(self) -> str:
        name = type(self).__name__
        if len(self) == 0:
            return f"{name}(0 bags, {self.n_features} features)"
        return (
            f"{name}({len(self)} bags, {self.n_points} points, {self.n_features} features, sizes "
            f"{self._spread()}, {self._storage()}{', weighted' if self.weighted else ''})"
        )

    def _repr_html_(self) -> str:
        """Summary table for notebooks."""
        facts: dict[str, Any] = {"bags": len(self), "points": self.n_points}
        if len(self):
            facts["points per bag"] = self._spread()
        names = [str(k) for k in range(self.n_features)] if self.features is None else self.features
        more = "" if len(names) <= _SHOWN else f", .. ({len(names)} in total)"
        facts["columns"] = ", ".join(names[:_SHOWN]) + more
        if self.metadata is not None:
            facts["columns of the bags"] = ", ".join(map(str, self.metadata.columns[:_SHOWN]))
        facts["weights"] = "one per point" if self.weighted else "none"
        facts["storage"] = self._storage()
        rows = "".join(
            f'<tr><th scope="row">{name}</th><td>{escape(str(value))}</td></tr>'
            for name, value in facts.items()
        )
        return f"<table><caption>{type(self).__name__}</caption><tbody>{rows}</tbody></table>"

    def _spread(self) -> str:
        """Smallest, median and largest size."""
        low, median, high = np.quantile(self.sizes, [0, 0.5, 1])
        return f"{low:.0f} / {median:g} / {high:.0f} (min / median / max)"

    def _storage(self) -> str:
        """How the points are stored, for example their type."""
        raise NotImplementedError
