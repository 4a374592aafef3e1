"""Bags of points: every bag's points stacked in one array, with the offsets where bags begin.

Everything that can be wrong with the input is checked here, once, with the bag, point and
column named.
"""

import mmap
from difflib import get_close_matches
from pathlib import Path

import numpy as np

# Rasters mark missing cells by values such as -3.4e38; no measurement is that large.
LARGEST_VALUE = 1e30
_CHECK_BYTES = 1 << 22  # read this much at a time where an array may be a memory map


class Bags:
    """Bags of points in one stacked array.

    Bag i holds the rows ``points[offsets[i]:offsets[i + 1]]``. ``bags[i]`` is that array;
    a slice, an array of indices or a boolean mask gives a smaller ``Bags`` (a contiguous
    range without copying the points).

    Parameters
    ----------
    points : array, shape (N_points, p), bag after bag
        float32 is kept, other numbers become float64. A memory map is not loaded: its values
        are checked when they are first read (`embed` does) instead of here.
    offsets : integers, shape (n + 1,), from 0 up to N_points
    weights : array, shape (N_points,), optional
        Weight of each point within its bag, >= 0, with a positive sum in every bag.
    ids : array, shape (n,), optional, all different
    metadata : pandas DataFrame, one row a bag, optional
    features : names of the p columns, optional

    Raises
    ------
    TypeError, ValueError : one sentence that names the bag, point and column and how to mend it.
    """

    def __init__(self, points, offsets, *, weights=None, ids=None, metadata=None, features=None):
        points = _as_points(points)
        self.points = points
        self.offsets = _as_offsets(offsets, len(points))
        n = len(self.offsets) - 1
        self.ids = None if ids is None else _as_ids(ids, n)
        self.features = None if features is None else _as_features(features, points.shape[1])
        self.metadata = None if metadata is None else _as_metadata(metadata, n)
        self.weights = None
        if n == 0:
            raise ValueError("there are no bags: pass at least one bag of points")
        empty = np.flatnonzero(self.sizes == 0)
        if len(empty):
            raise ValueError(
                f"{self.name(empty[0])} has no points ({len(empty)} such in all): "
                "leave it out, with its label"
            )
        if weights is not None:
            self.weights = _as_weights(weights, self)
        if not self.is_memory_map:
            self.check_values()

    @classmethod
    def from_list(cls, arrays, ids=None, weights=None, metadata=None, features=None):
        """Bags from a list of 2-D arrays, one a bag; `weights` is a list of 1-D arrays."""
        names = [_describe(i, ids) for i in range(len(arrays))]
        arrays = [_as_bag(array, name) for array, name in zip(arrays, names)]
        for array, name in zip(arrays, names):
            if array.shape[1] != arrays[0].shape[1]:
                raise ValueError(
                    f"{name} has points of {array.shape[1]} features, but {names[0]} of "
                    f"{arrays[0].shape[1]}: give every bag the same columns"
                )
        if weights is not None:
            weights = _stack_weights(weights, arrays, names)
        sizes = [len(array) for array in arrays]
        points = np.concatenate(arrays) if arrays else np.empty((0, 1))
        return cls(
            points,
            np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
            weights=weights,
            ids=ids,
            metadata=metadata,
            features=features,
        )

    @classmethod
    def from_points(
        cls, points, bag=None, sizes=None, *, weights=None, ids=None, metadata=None, features=None
    ):
        """Bags from stacked points and either the bag of each point or the bags' sizes.

        Parameters
        ----------
        points : array, shape (N_points, p); a memory map is not loaded
        bag : array, shape (N_points,), optional
            Any label that names the bag of each point; becomes `ids`. Points are brought together
            by bag, in order, and bags come in order of first appearance; on a memory map they
            must already lie together.
        sizes : integers, shape (n,), optional
            Number of points in each bag, for points that lie bag after bag.
        weights, ids, metadata, features : as in `Bags`; `ids` goes with `sizes` only.
        """
        if (bag is None) == (sizes is None):
            raise TypeError("pass exactly one of bag (the bag of each point) and sizes")
        points = _as_points(points)
        if bag is not None:
            if ids is not None:
                raise TypeError("ids come from bag: pass only one of them")
            sizes, ids, order = _group(bag, len(points))
            if order is not None:
                if _memory_map(points) is not None:
                    raise ValueError(
                        "the points of a bag do not lie together in the memory map: "
                        "sort the file by bag, or load it into memory first"
                    )
                points = points[order]
                if weights is not None:
                    weights = _as_vector(weights, len(order), "weights", "point")[order]
        offsets = np.concatenate([[0], np.cumsum(_as_sizes(sizes, len(points)))])
        return cls(points, offsets, weights=weights, ids=ids, metadata=metadata, features=features)

    @classmethod
    def from_dataframe(cls, df, bag, features=None, weight=None, metadata=None):
        """Bags from a pandas, polars or pyarrow table with one row a point.

        Parameters
        ----------
        df : table
        bag : name of the column that says which bag a row belongs to; becomes `ids`
        features : names of the columns of a point
            Default: all numeric and boolean columns that are not named otherwise.
        weight : name of the column of point weights, optional
        metadata : names of columns that are constant within each bag, optional
        """
        import narwhals as nw
        import pandas as pd

        try:
            df = nw.from_native(df, eager_only=True)
        except TypeError:
            raise TypeError(
                f"expected a pandas, polars or pyarrow table, found {type(df).__name__}"
            ) from None
        named = _named_columns(df.columns, bag, features, weight, metadata)
        if features is None:
            features = [
                column
                for column, dtype in df.schema.items()
                if column not in named and (dtype.is_numeric() or dtype == nw.Boolean)
            ]
            if not features:
                raise ValueError("the table has no numeric column left to be a feature")
        columns = [_numeric_column(df[column], column) for column in features]
        if weight is not None:
            weight_values = _numeric_column(df[weight], weight)
        if len(df) == 0:
            raise ValueError("the table has no rows: there are no bags")
        codes, ids = _bag_codes(
            df[bag].to_numpy(), f"row {{}} has no bag: column {bag!r} is missing"
        )
        order = None if _is_grouped(codes) else np.argsort(codes, kind="stable")
        single = all(column.dtype == np.float32 for column in columns)
        points = np.empty((len(df), len(columns)), np.float32 if single else np.float64)
        for k, column in enumerate(columns):
            points[:, k] = column if order is None else column[order]
        if weight is None:
            weights = None
        else:
            weights = weight_values if order is None else weight_values[order]
        if metadata is not None:
            first = np.unique(codes, return_index=True)[1]
            values = {name: df[name].to_numpy() for name in metadata}
            for name in metadata:
                _check_constant(values[name], codes, first, name, ids)
            metadata = pd.DataFrame(
                {name: column[first] for name, column in values.items()},
                index=pd.Index(ids, name=bag),
            )
        return cls(
            points,
            np.concatenate([[0], np.cumsum(np.bincount(codes))]),
            weights=weights,
            ids=ids,
            metadata=metadata,
            features=features,
        )

    @classmethod
    def from_parquet(cls, path, bag, features=None, weight=None, metadata=None):
        """Bags from a Parquet file or folder; arguments as in `from_dataframe`.

        Reads only the columns it needs. Needs pyarrow.
        """
        try:
            import pyarrow.parquet as pq
        except ImportError:
            raise ImportError(
                "reading Parquet needs pyarrow: pip install 'bdr-stan[parquet]'"
            ) from None
        _check_exists(path)
        dataset = pq.ParquetDataset(path)
        # pandas keeps the index of its rows in columns of such names.
        columns = [c for c in dataset.schema.names if not c.startswith("__index_level_")]
        named = _named_columns(columns, bag, features, weight, metadata)
        table = dataset.read(columns=columns if features is None else named)
        return cls.from_dataframe(table, bag, features, weight, metadata)

    @classmethod
    def from_csv(cls, path, bag, features=None, weight=None, metadata=None, **options):
        """Bags from a CSV file; arguments as in `from_dataframe`.

        `options` go to `pandas.read_csv`: ``dtype={"county": str}`` keeps leading zeros of ids.
        """
        import pandas as pd

        _check_exists(path)
        header = pd.read_csv(path, **options | {"nrows": 0}).columns
        named = _named_columns(list(header), bag, features, weight, metadata)
        if features is not None:
            options = {"usecols": named} | options
        return cls.from_dataframe(pd.read_csv(path, **options), bag, features, weight, metadata)

    def __len__(self):
        return len(self.offsets) - 1

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key):
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            i = range(len(self))[key]
            return self.read(self.offsets[i], self.offsets[i + 1])
        if isinstance(key, tuple):
            raise TypeError("bags have one index: select columns before making the bags")
        if isinstance(key, slice):
            return self.take(np.arange(len(self))[key])
        key = np.asarray(key)
        if key.dtype == bool:
            if key.shape != (len(self),):
                raise IndexError(f"the mask has shape {key.shape}, expected ({len(self)},)")
            key = np.flatnonzero(key)
        return self.take(key)

    @property
    def iloc(self):
        """The bags themselves: scikit-learn's splitters select through ``iloc`` and `take`."""
        return self

    loc = iloc  # scikit-learn passes boolean masks here

    def take(self, indices, axis=0):
        """Bags at `indices`, in that order; copies the points of the chosen bags only.

        Consecutive indices share the points of these bags instead.
        """
        if axis != 0:
            raise ValueError(f"bags have one axis, 0; found axis={axis}")
        indices = np.asarray(indices)
        if indices.size == 0:
            indices = indices.astype(np.int64)
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise IndexError("bags are selected by a 1-D array of integers or booleans")
        indices = np.arange(len(self))[indices]  # negative ones resolved, range checked
        sizes = self.sizes[indices]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        starts = self.offsets[indices]
        if len(indices) and np.all(np.diff(indices) == 1):
            rows = slice(starts[0], starts[0] + offsets[-1])
            points = self.points[rows]
        else:
            rows = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
            points = self.read_rows(rows)
        chosen = object.__new__(Bags)
        chosen.points, chosen.offsets = points, offsets
        chosen.weights = None if self.weights is None else self.weights[rows]
        chosen.ids = None if self.ids is None else self.ids[indices]
        chosen.metadata = None if self.metadata is None else self.metadata.iloc[indices]
        chosen.features = self.features
        return chosen

    @property
    def sizes(self):
        """Number of points of each bag, int64, shape (n,)."""
        return np.diff(self.offsets)

    @property
    def effective_sizes(self):
        """Number of points, or with weights Kish's (sum w)^2 / sum w^2; float, shape (n,)."""
        if self.weights is None:
            return self.sizes.astype(np.float64)
        starts = self.offsets[:-1]
        # Relative to the bag's largest weight, so that squares cannot over- or underflow.
        scaled = self.weights / np.repeat(np.maximum.reduceat(self.weights, starts), self.sizes)
        return np.add.reduceat(scaled, starts) ** 2 / np.add.reduceat(scaled**2, starts)

    @property
    def n_features(self):
        """Dimension p of a point."""
        return self.points.shape[1]

    @property
    def is_memory_map(self):
        """Whether the points lie in a memory-mapped file."""
        return _memory_map(self.points) is not None

    def name(self, i):
        """What messages call bag i: its position and, where it has one, its id."""
        return _describe(i, self.ids)

    def read(self, start, stop):
        """Points start to stop of the stack as floats (a view where they are stored so)."""
        rows = self.points[start:stop]
        return rows if rows.dtype.kind == "f" else rows.astype(np.float64)

    def read_checked(self, start, stop):
        """As `read`; the values of a memory map are checked as they are read."""
        points = self.read(start, stop)
        if self.is_memory_map and not values_are_usable(points):
            self.check_values()
        return points

    def read_rows(self, rows):
        """Copy of the points at `rows` of the stack; those of a memory map are checked."""
        if not self.is_memory_map:
            return self.points[rows]
        out = np.empty((len(rows), self.n_features), self.read(0, 0).dtype)
        for start in range(0, len(rows), 1000):
            out[start : start + 1000] = self.points[rows[start : start + 1000]]
            self.release()
        if not values_are_usable(out):
            self.check_values()
        return out

    def sample_points(self, n, rng):
        """At most n points, float64, drawn by `rng` without replacement from all bags' points."""
        total = len(self.points)
        rows = np.arange(total) if total <= n else np.sort(rng.choice(total, n, replace=False))
        return self.read_rows(rows).astype(np.float64)

    def release(self):
        """Let the pages read from a memory map leave this process's memory; the file has them."""
        mapped = _memory_map(self.points)
        # A private map ("c") would forget what was written to it.
        if getattr(mapped, "mode", "c") != "c":
            mapped.base.madvise(mmap.MADV_DONTNEED)

    def check_values(self):
        """Raise ValueError if a value is NaN, infinite or a nodata marker (beyond 1e30).

        Names the first offending bag, point and column, and counts them all. Runs when bags are
        made, except on a memory map, where `embed` runs it on the chunks it reads.
        """
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

    def _bad_value(self, row, column, value, count):
        i = np.searchsorted(self.offsets, row, side="right") - 1
        named = "" if self.features is None else f" ({self.features[column]!r})"
        where = f"{self.name(i)}, point {row - self.offsets[i]}, column {column}{named}"
        if np.isfinite(value):
            what = f"value {value:.3g} looks like a nodata marker"
        else:
            what = f"value is {value}"
        return f"{where}: {what} ({count} such in all): drop these points or fill them in"

    def __repr__(self):
        kind = ", memory map" if self.is_memory_map else ""
        weighted = ", weighted" if self.weights is not None else ""
        if len(self) == 0:
            return f"Bags(0 bags, {self.n_features} features)"
        sizes = self.sizes
        return (
            f"Bags({len(self)} bags, {len(self.points)} points, {self.n_features} features, "
            f"sizes {sizes.min()} / {np.median(sizes):g} / {sizes.max()} (min / median / max), "
            f"{self.points.dtype}{weighted}{kind})"
        )


def as_bags(X):
    """`X` as `Bags`: bags as they are, a list of 2-D arrays, or a 3-D array of equal bags.

    Raises
    ------
    TypeError : X is a single table or 2-D array, where the bags cannot be told apart.
    """
    if isinstance(X, Bags):
        if len(X) == 0:
            raise ValueError("there are no bags: pass at least one bag of points")
        return X
    if isinstance(X, np.ndarray) and X.dtype != object:
        if X.ndim != 3:
            raise TypeError(
                f"X is a single array of shape {X.shape}, not bags: pass a list of 2-D arrays, "
                "one a bag, or Bags.from_points(points, bag=...)"
            )
        n, size, p = X.shape
        return Bags(X.reshape(n * size, p), np.arange(n + 1) * size)
    if isinstance(X, (list, tuple, np.ndarray)):
        return Bags.from_list(X)
    if hasattr(X, "columns"):
        raise TypeError("X is a table, not bags: use Bags.from_dataframe(df, bag=...)")
    raise TypeError(f"X is a {type(X).__name__}, not bags: pass a list of 2-D arrays, one a bag")


def check_labels(bags, y):
    """Labels of `bags` as float64, shape (n,).

    Raises
    ------
    ValueError : wrong length or shape, NaN or infinite (the bag is named), or all equal.
    TypeError : not numbers.
    """
    try:
        labels = np.asarray(y)
        if labels.dtype.kind not in "fiubO":
            raise TypeError
        labels = labels.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError("the labels y are not numbers: pass one number a bag") from None
    check_one_a_bag(labels, len(bags))
    bad = np.flatnonzero(~np.isfinite(labels))
    if len(bad):
        ids = bags.ids if isinstance(bags, Bags) else None
        raise ValueError(
            f"the label of {_describe(bad[0], ids)} is {labels[bad[0]]} ({len(bad)} such in all): "
            "leave these bags out"
        )
    if np.all(labels == labels[0]):
        raise ValueError(f"all {len(y)} labels equal {labels[0]:g}: there is nothing to learn from them")
    return labels


def check_classes(bags, y):
    """Labels of `bags` of two classes as an array, shape (n,).

    Raises
    ------
    ValueError : wrong length or shape, a missing label (the bag is named), or other than two
        classes.
    TypeError : labels of several kinds, which have no order.
    """
    import pandas as pd

    labels = np.asarray(y)
    check_one_a_bag(labels, len(bags))
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        ids = bags.ids if isinstance(bags, Bags) else None
        raise ValueError(
            f"the label of {_describe(missing[0], ids)} is missing ({len(missing)} such in all): "
            "leave these bags out"
        )
    labels = np.asarray(labels.tolist())  # strings held as objects become strings
    if labels.dtype.kind not in "biufU":
        raise TypeError("the labels y must all be numbers, all strings or all true or false")
    classes = np.unique(labels)
    if len(classes) != 2:
        shown = ", ".join(repr(_plain(c)) for c in classes[:5])
        more = "" if len(classes) == 1 else ": for more use sklearn.multiclass.OneVsRestClassifier"
        raise ValueError(
            f"y has {len(classes)} class{'es' * (len(classes) > 1)} ({shown}"
            f"{', ...' * (len(classes) > 5)}), but a classifier needs two{more}"
        )
    return labels


def check_one_a_bag(labels, n):
    if labels.shape == (n, 1):
        raise ValueError(f"y has shape ({n}, 1), expected ({n},): pass y.ravel()")
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}, expected ({n},): one label a bag")
    if len(labels) != n:
        raise ValueError(f"y has {len(labels)} labels, but there are {n} bags: one label a bag")


def values_are_usable(block):
    """Whether every value is finite and not a nodata marker; two quick passes, no temporaries."""
    return block.size == 0 or bool(
        block.min() >= -LARGEST_VALUE and block.max() <= LARGEST_VALUE  # NaN fails both
    )


def _describe(i, ids):
    return f"bag {i}" if ids is None or i >= len(ids) else f"bag {i} (id {_plain(ids[i])!r})"


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def _memory_map(array):
    """The array right on the memory-mapped file that `array` is a view of, or None."""
    while isinstance(array, np.ndarray):
        if isinstance(array.base, mmap.mmap):
            return array
        array = array.base
    return None


def _as_points(points):
    if not isinstance(points, np.ndarray):
        points = np.asarray(points)
    if points.ndim == 1:
        raise ValueError(
            f"points is 1-D with shape {points.shape}, expected (N_points, p): "
            "pass points.reshape(-1, 1) for one feature"
        )
    if points.ndim != 2 or points.shape[1] == 0:
        raise ValueError(f"points has shape {points.shape}, expected (N_points, p) with p >= 1")
    if _memory_map(points) is not None:
        if points.dtype.kind not in "fiub":
            raise TypeError(f"the memory map holds {points.dtype}, not numbers")
        return points
    return np.ascontiguousarray(_as_floats(points, "points"))


def _as_bag(array, name):
    try:
        array = np.asarray(array)
    except ValueError:
        raise ValueError(f"{name} is ragged: give all its points the same features") from None
    if array.ndim == 1 and array.size:
        raise ValueError(
            f"{name} is 1-D with shape {array.shape}, expected (n_points, p): "
            "pass array.reshape(-1, 1) for one feature"
        )
    if array.size == 0:
        raise ValueError(f"{name} has no points: leave it out, with its label")
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {array.shape}, expected (n_points, p)")
    return _as_floats(array, name)


def _as_floats(array, name):
    if array.dtype == np.float32 or array.dtype == np.float64:
        return array
    try:
        if array.dtype.kind not in "fiubO":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} holds {array.dtype}, not numbers: encode or leave out such columns"
        ) from None


def _as_vector(values, n, name, unit):
    values = np.asarray(values)
    if values.shape != (n,):
        raise ValueError(f"{name} has shape {values.shape}, expected ({n},): one a {unit}")
    return values


def _as_offsets(offsets, n_points):
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or len(offsets) == 0 or offsets.dtype.kind not in "iu":
        raise TypeError("offsets must be a 1-D array of integers, one more than there are bags")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != n_points or np.any(np.diff(offsets) < 0):
        raise ValueError(
            f"offsets must rise from 0 to the number of points, {n_points}; "
            f"found {offsets[0]} to {offsets[-1]}"
        )
    return offsets


def _as_sizes(sizes, n_points):
    sizes = np.asarray(sizes)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu":
        raise TypeError("sizes must be a 1-D array of integers, one a bag")
    sizes = sizes.astype(np.int64)
    if np.any(sizes < 0):
        raise ValueError(f"the size of bag {np.argmax(sizes < 0)} is negative")
    if sizes.sum() != n_points:
        raise ValueError(
            f"sizes sum to {sizes.sum()}, but there are {n_points} points: "
            "pass the number of points of each bag, in order"
        )
    return sizes


def _as_ids(ids, n):
    ids = _as_vector(ids, n, "ids", "bag")
    position = {}
    for i, value in enumerate(ids.tolist()):
        if position.setdefault(value, i) != i:
            raise ValueError(
                f"bags {position[value]} and {i} have the same id {value!r}: "
                "give each bag its own id"
            )
    return ids


def _as_features(features, p):
    features = [str(name) for name in features]
    if len(features) != p:
        raise ValueError(f"features names {len(features)} columns, but points have {p}")
    return features


def _as_metadata(metadata, n):
    import pandas as pd

    metadata = pd.DataFrame(metadata)
    if len(metadata) != n:
        raise ValueError(f"metadata has {len(metadata)} rows, but there are {n} bags: one a bag")
    return metadata


def _as_weights(weights, bags):
    weights = _as_vector(weights, len(bags.points), "weights", "point")
    weights = np.asarray(_as_floats(weights, "weights"), np.float64)
    bad = np.flatnonzero(~(weights >= 0) | np.isinf(weights))
    if len(bad):
        i = np.searchsorted(bags.offsets, bad[0], side="right") - 1
        raise ValueError(
            f"{bags.name(i)}, point {bad[0] - bags.offsets[i]}: weight is {weights[bad[0]]:g} "
            f"({len(bad)} such in all): weights must be finite and >= 0"
        )
    weightless = np.flatnonzero(np.maximum.reduceat(weights, bags.offsets[:-1]) == 0)
    if len(weightless):
        raise ValueError(
            f"all weights of {bags.name(weightless[0])} are zero ({len(weightless)} such bags in "
            "all): leave it out, with its label"
        )
    return weights


def _stack_weights(weights, arrays, names):
    if len(weights) != len(arrays):
        raise ValueError(f"weights has {len(weights)} arrays, but there are {len(arrays)} bags")
    weights = [np.asarray(w) for w in weights]
    for w, array, name in zip(weights, arrays, names):
        if w.shape != (len(array),):
            raise ValueError(
                f"the weights of {name} have shape {w.shape}, expected ({len(array)},): one a point"
            )
    return np.concatenate(weights) if weights else np.empty(0)


def _bag_codes(bag, message):
    """Number of each point's bag, in order of first appearance, and the bags' ids."""
    import pandas as pd

    codes, ids = pd.factorize(bag)
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise ValueError(
            f"{message.format(missing[0])} ({len(missing)} such in all): "
            "fill it in or leave these points out"
        )
    return codes, ids


def _is_grouped(codes):
    return bool(np.all(codes[1:] >= codes[:-1]))


def _group(bag, n_points):
    """Sizes, ids and the order that brings each bag's points together (None: they are)."""
    bag = _as_vector(bag, n_points, "bag", "point")
    codes, ids = _bag_codes(bag, "point {} has no bag")
    order = None if _is_grouped(codes) else np.argsort(codes, kind="stable")
    return np.bincount(codes), ids, order


def _named_columns(columns, bag, features, weight, metadata):
    """The columns named by the arguments, each once; ValueError where one is missing."""
    for argument, names in (("features", features), ("metadata", metadata)):
        if isinstance(names, str):
            raise TypeError(f"{argument} must be a list of column names: pass [{names!r}]")
    features, metadata = list(features or []), list(metadata or [])
    named = [bag, *features, *([] if weight is None else [weight]), *metadata]
    for name in named:
        if name not in columns:
            near = get_close_matches(str(name), [str(c) for c in columns], n=3, cutoff=0.5)
            hint = (
                f"did you mean {' or '.join(map(repr, near))}?"
                if near
                else (f"it has {', '.join(map(repr, columns))}")
            )
            raise ValueError(f"the table has no column {name!r}: {hint}")
    return list(dict.fromkeys(named))


def _numeric_column(series, name):
    import narwhals as nw

    if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        raise TypeError(
            f"column {name!r} holds {series.dtype}, not numbers: encode it or leave it out"
        )
    dtype = nw.Float32 if series.dtype == nw.Float32 else nw.Float64
    return series.cast(dtype).to_numpy()


def _check_constant(values, codes, first, name, ids):
    import pandas as pd

    kinds = pd.factorize(values)[0]
    changed = np.flatnonzero(kinds != kinds[first][codes])
    if len(changed):
        i = codes[changed[0]]
        raise ValueError(
            f"column {name!r} is not constant in {_describe(i, ids)}: "
            f"{_plain(values[first[i]])!r} and {_plain(values[changed[0]])!r}; it must have one "
            "value for each bag"
        )


def _check_exists(path):
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
