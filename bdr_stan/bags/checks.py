"""Checks of the arrays that make bags.

Each check returns its array in the form that `Bags` keeps, or raises an error with the bag, point,
column and a correction.
"""

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from bdr_stan.arguments import near
from bdr_stan.bags.chunks import memory_map
from bdr_stan.types import Array, ArrayLike

# Rasters mark missing cells by values such as -3.4e38; no measurement is as large.
LARGEST_VALUE = 1e30
_ROUNDING = 1e-9  # of a sum of positive and negative weights
_NEAR_ONE = 0.1  # mean of replicates that are factors of the weights, less 1
_MAX_NAMES = 20  # listed in a message
_SEARCHED = 1_000  # values of an array that are searched for an example in a message


def values_are_usable(block: Array) -> bool:
    """Whether every value of floats is finite and not a nodata marker (beyond `LARGEST_VALUE`)."""
    return block.size == 0 or bool(
        block.min() >= -LARGEST_VALUE and block.max() <= LARGEST_VALUE  # NaN fails both
    )


def as_real_numbers(values: ArrayLike) -> Array:
    """Numbers or booleans as float64; TypeError for text, even of digits, and complex numbers."""
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "fiubO":
        raise TypeError
    if numbers.dtype.kind == "O":
        kinds = {type(value) for value in numbers.ravel().tolist()}
        if any(issubclass(kind, (str, bytes, complex)) for kind in kinds):
            raise TypeError
    return numbers.astype(np.float64)


def checked_numbers(
    values: ArrayLike, what: str, ids: Sequence[object] | Array | None = None, unit: str = "bag"
) -> Array:
    """One number per bag as float64; TypeError names the first bag without a number as `what`."""
    try:
        return as_real_numbers(values)
    except (TypeError, ValueError):
        objects = np.asarray(values, object).ravel()
    as_numbers = [number_or_none(value) for value in objects]
    texts = [isinstance(value, (str, bytes)) for value in objects]
    if None not in as_numbers:
        bad, advice = texts, "convert all, for example with pd.to_numeric"
    else:
        bad = [value is None for value in as_numbers]
        advice = f"give such {unit}s a number, or leave them out"
        if what == "label" and all(bad) and all(texts):
            advice = "labels that are classes are for a classifier, such as BDRClassifier"
    i = bad.index(True) if any(bad) else 0
    name = describe(i, ids).replace("bag", unit, 1)
    raise TypeError(
        f"the {what} of {name} is {plain(objects[i])!r}, not a number ({sum(bad)} in total): "
        f"{advice}"
    )


def number_or_none(value: Any) -> float | None:
    """A value as a number, also from a text; None if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def describe(i: SupportsIndex, ids: Sequence[object] | Array | None) -> str:
    """Name of bag i in messages: its position and, if it has one, its id."""
    i = int(i)
    return f"bag {i}" if ids is None or i >= len(ids) else f"bag {i} (id {plain(ids[i])!r})"


def check_each(bags: Any, values: Array, good: Array, what: str, rule: str) -> None:
    """Raise ValueError naming the first of n bags with an invalid value, and the rule."""
    bad = np.flatnonzero(~good)
    if len(bad):
        name = describe(bad[0], getattr(bags, "ids", None))
        raise ValueError(
            f"the {what} of {name} is {values[bad[0]]:.15g} ({len(bad)} in total): {rule}"
        )


def plain(value: object) -> object:
    """A NumPy scalar as the Python value, which messages show without its type."""
    return value.item() if isinstance(value, np.generic) else value


def near_names(name: object, choices: Iterable[object]) -> str:
    """Advice for an unknown name: the choices that are similar, or else all of them."""
    names = [str(choice) for choice in choices]
    if meant := near(str(name), tuple(names), n=3, cutoff=0.5):
        return f"did you mean {' or '.join(map(repr, meant))}?"
    shown = ", ".join(map(repr, names[:_MAX_NAMES]))
    return f"it has {shown}" + (", .." if len(names) > _MAX_NAMES else "")


def as_points(points: ArrayLike) -> Array:
    """Stacked points as contiguous floats, shape (N_points, p); a memory map unchanged."""
    _check_unmasked(points, "points")
    if not isinstance(points, np.ndarray):
        points = np.asarray(points)
    if points.ndim == 1:
        raise ValueError(
            f"points is 1-D with shape {points.shape}, expected (N_points, p): "
            "pass points.reshape(-1, 1) for one feature"
        )
    if points.ndim != 2 or points.shape[1] == 0:
        raise ValueError(f"points has shape {points.shape}, expected (N_points, p) with p >= 1")
    if memory_map(points) is not None:
        if points.dtype.kind not in "fiub":
            raise TypeError(f"the memory map holds {points.dtype}, not numbers")
        return points
    return np.ascontiguousarray(_as_floats(points, "points"))


def as_bag(array: ArrayLike, name: str) -> Array:
    """Points of one bag as floats, shape (n_points, p); messages call it `name`."""
    _check_unmasked(array, name)
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


def _check_unmasked(values, name):
    """Raise for masked values, which NumPy would otherwise silently unmask."""
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise ValueError(
            f"{name} has {count} masked value{'s' * (count > 1)}: drop these points or fill them in"
        )


def as_vector(values: object, n: int, name: str, unit: str) -> Array:
    """Array of shape (n,); messages call it `name` and its entries values per `unit`."""
    _check_unmasked(values, name)
    values = np.asarray(values)
    if values.shape != (n,):
        raise ValueError(f"{name} has shape {values.shape}, expected ({n},): one per {unit}")
    return values


def as_offsets(offsets: ArrayLike, n_points: int) -> Array:
    """Offsets as int64, increasing from 0 to `n_points`."""
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


def offsets_of_sizes(sizes: ArrayLike) -> Array:
    """Offsets, int64, shape (n + 1,), of bags of these sizes."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def as_sizes(sizes: ArrayLike, n_points: int) -> Array:
    """Sizes of bags as int64, >= 0, with sum `n_points`."""
    sizes = np.asarray(sizes)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu":
        raise TypeError("sizes must be a 1-D array of integers, one per bag")
    sizes = sizes.astype(np.int64)
    if np.any(sizes < 0):
        raise ValueError(f"the size of bag {np.argmax(sizes < 0)} is negative")
    if sizes.sum() != n_points:
        raise ValueError(
            f"sizes sum to {sizes.sum()}, but there are {n_points} points: "
            "pass the number of points of each bag, in order"
        )
    return sizes


def as_ids(ids: ArrayLike, n: int) -> Array:
    """Ids of n bags, shape (n,), all different."""
    ids = as_vector(ids, n, "ids", "bag")
    position: dict[object, int] = {}
    for i, value in enumerate(ids.tolist()):
        if position.setdefault(value, i) != i:
            raise ValueError(
                f"bags {position[value]} and {i} have the same id {value!r}: "
                "give each bag its own id"
            )
    return ids


def as_features(features: Iterable[object], p: int) -> list[str]:
    """Names of p columns."""
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise TypeError(f"features must be a list of names, one per column, found {features!r}")
    names = [str(name) for name in features]
    if len(names) != p:
        raise ValueError(f"features names {len(names)} columns, but points have {p}")
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise ValueError(f"features names the column {twice[0]!r} twice: give each its own name")
    return names


def as_weights(weights: ArrayLike, offsets: Array, ids: Array | None) -> Array:
    """Weights of points as float64, finite and >= 0, with a positive sum in every bag."""
    weights = as_vector(weights, offsets[-1], "weights", "point")
    weights = np.asarray(_as_floats(weights, "weights"), np.float64)
    bad = np.flatnonzero(~(weights >= 0) | np.isinf(weights))
    if len(bad):
        i = np.searchsorted(offsets, bad[0], side="right") - 1
        raise ValueError(
            f"{describe(i, ids)}, point {bad[0] - offsets[i]}: weight is {weights[bad[0]]:g} "
            f"({len(bad)} in total): weights must be finite and >= 0"
        )
    check_bags_have_weight(np.maximum.reduceat(weights, offsets[:-1]), ids)
    return weights


def as_replicates(
    replicates: ArrayLike | None,
    scale: ArrayLike | None,
    weights: Array | None,
    offsets: Array,
    ids: Array | None,
) -> tuple[Array | None, Array | None]:
    """Replicate weights, (N_points, R), and their scales, (R,), as float64; None without."""
    if replicates is None:
        if scale is not None:
            raise ValueError("replicate_scale goes with replicate_weights: leave it out")
        return None, None
    if weights is None:
        raise ValueError("replicate_weights are replicates of the weights: also pass weight")
    _check_unmasked(replicates, "replicate_weights")
    columns = np.asarray(replicates)
    if columns.ndim != 2 or len(columns) != offsets[-1] or columns.shape[1] < 2:
        raise ValueError(
            f"replicate_weights has shape {columns.shape}, expected ({offsets[-1]}, R): one row "
            "per point and one column for each of R >= 2 replicates"
        )
    values = np.array(_as_floats(columns, "replicate_weights"), np.float64)
    n_replicates = values.shape[1]
    if scale is None:
        raise ValueError(
            f"replicate_scale is missing: give 1/{n_replicates} for balanced repeated replication "
            f"and the bootstrap, {n_replicates - 1}/{n_replicates} for the jackknife, or that "
            "which the survey's documentation names"
        )
    scales = np.asarray(scale)
    is_numeric = scales.dtype.kind in "iuf" and scales.shape in ((), (n_replicates,))
    if not is_numeric or not np.all((scales > 0) & (scales < np.inf)):
        raise ValueError(
            f"replicate_scale must be a positive number, or {n_replicates} of them, one for each "
            f"replicate; found {scale!r}"
        )
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, r = bad[0]
        i = np.searchsorted(offsets, row, side="right") - 1
        raise ValueError(
            f"{describe(i, ids)}, point {row - offsets[i]}: replicate weight {r} is "
            f"{values[row, r]:g} ({len(bad)} in total): replicate weights must be finite"
        )
    sums = np.add.reduceat(values, offsets[:-1])
    empty = np.argwhere(sums <= _ROUNDING * np.add.reduceat(np.abs(values), offsets[:-1]))
    if len(empty):
        i, r = empty[0]
        raise ValueError(
            f"the replicate weights {r} of {describe(i, ids)} add up to {sums[i, r]:.4g} "
            f"({len(empty)} pairs of a bag and a replicate in total): such a bag has too few "
            "sampling units for these replicates, so leave it out, or join it with another"
        )
    if _are_factors(values.mean(axis=1), weights):
        raise ValueError(
            "the replicate weights average to 1 at each point, whatever its weight, as factors of "
            "the weights do: multiply them by the weights, for example with "
            "df[names].mul(df[weight], axis=0)"
        )
    return values, np.broadcast_to(scales.astype(float), n_replicates).copy()


def _are_factors(mean, weights):
    """Whether means over replicates, (N_points,), are near 1 and do not rise with the weights."""
    away, relative = mean - mean.mean(), weights / weights.mean() - 1
    squares = relative @ relative
    if squares == 0 or abs(mean.mean() - 1) > _NEAR_ONE:
        return False
    slope = away @ relative / squares  # 1 of weights, 0 of factors
    error = np.linalg.norm(away - slope * relative) / np.sqrt(len(mean) * squares)
    return slope + 3 * error < 0.5


def check_bags_have_weight(largest: Array, ids: Array | None) -> None:
    """Raise ValueError if the largest weight of a bag, shape (n,), is 0."""
    weightless = np.flatnonzero(largest == 0)
    if len(weightless):
        raise ValueError(
            f"all weights of {describe(weightless[0], ids)} are zero ({len(weightless)} bags "
            "in total): leave it out, with its label"
        )


def _as_floats(array: Array, name: str) -> Array:
    if array.dtype == np.float32 or array.dtype == np.float64:
        return array
    try:
        return as_real_numbers(array)
    except (TypeError, ValueError):
        texts = [value for value in array.ravel()[:_SEARCHED].tolist() if isinstance(value, str)]
        what = f"text such as {texts[0]!r}" if texts else str(array.dtype)
        raise TypeError(
            f"{name} holds {what}, not numbers: encode or leave out such columns"
        ) from None
