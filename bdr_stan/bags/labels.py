"""Checks of labels; their messages name the bag."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bdr_stan.bags.checks import (
    LARGEST_VALUE,
    as_vector,
    check_each,
    checked_numbers,
    describe,
    plain,
)
from bdr_stan.bags.column_values import as_values
from bdr_stan.bags.container import Bags, BagsLike
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.bags.missing_codes import CODES_OF_BAGS, codes_in, ends_of, has_form, warn_of_codes
from bdr_stan.types import Array, ArrayLike

if TYPE_CHECKING:
    import pandas as pd


def check_labels(bags: BagsLike, y: ArrayLike) -> Array:
    """Labels of bags as finite numbers, not all equal; float64, (n,); `y` as `values_of_bags`."""
    labels = check_finite_labels(bags, y)
    if np.all(labels == labels[0]):
        raise ValueError(
            f"all {len(labels)} labels equal {labels[0]:g}: there is nothing to learn from them"
        )
    return labels


def check_finite_labels(bags: BagsLike, y: ArrayLike) -> Array:
    """The same of labels that may be equal."""
    labels = check_known_labels(bags, y)
    check_plausible(bags, labels)
    return labels


def check_known_labels(bags: BagsLike, y: ArrayLike) -> Array:
    """The same of labels that may be implausible."""
    y = values_of_bags(bags, y, "y")
    labels = np.ma.filled(np.ma.asarray(y, float), np.nan) if np.ma.isMaskedArray(y) else y
    labels = checked_numbers(labels, "label", getattr(bags, "ids", None))
    check_one_per_bag(labels, len(bags))
    check_each(bags, labels, np.isfinite(labels), "label", "leave these bags out")
    return labels


def check_outputs(
    bags: BagsLike,
    y: ArrayLike,
    outputs: list,
    check: Callable[[BagsLike, ArrayLike], Array] = check_labels,
) -> Array:
    """Labels by `check`, or one column of them for each of several `outputs`, (n, k).

    `outputs` are the `output_names` of the training labels; messages name the output.
    """
    check_same_outputs(y, outputs)
    if len(outputs) < 2:  # a single column is an error
        return check(bags, y)
    values = values_of_bags(bags, y, "y")
    table = values if np.ma.isMaskedArray(values) else np.asarray(values, object)
    labels = []
    for name, column in zip(outputs, table.T, strict=True):
        try:
            labels.append(check(bags, column))
        except (TypeError, ValueError) as error:
            raise type(error)(f"output {name!r}: {error}") from None
    return np.column_stack(labels)


def output_names(y: Any) -> list:
    """Names of the columns of labels, (n, k), 0, 1, ... if they have none; empty for (n,)."""
    values = y if hasattr(y, "ndim") else np.asarray(y, object)
    if values.ndim != 2:
        return []
    return [str(name) for name in getattr(y, "columns", range(values.shape[1]))]


def check_same_outputs(y: Any, outputs: list) -> None:
    """Raise ValueError unless labels have these outputs, or as many where one has no names."""
    names = output_names(y)
    unnamed = [str(place) for place in range(len(names))]
    if names == outputs or (len(names) == len(outputs) and unnamed in (names, outputs)):
        return
    raise ValueError(
        f"y has the columns {names}, but the model was fitted to {outputs}: pass these, in order"
    )


def check_plausible(bags: BagsLike, labels: Array) -> None:
    """Raise ValueError for labels beyond 1e30 or in the form of a code; warn of other codes."""
    rule = "it looks like a nodata marker, so leave these bags out"
    check_each(bags, labels, np.abs(labels) <= LARGEST_VALUE, "label", rule)
    ends = ends_of(labels)
    codes = [value for value in codes_in(ends) if has_form(value)]
    if not codes:
        warn_of_codes({"y": ends}, "bags", CODES_OF_BAGS)
        return
    bad = np.flatnonzero(np.isin(labels, codes))
    value = neighbour = labels[bad[0]]
    while has_form(neighbour):
        neighbour += np.sign(value) * np.ceil(abs(value) / 1e3)
    raise ValueError(
        f"the label of {_name(bags, bad[0])} is {value:.10g} ({len(bad)} in total), far from all "
        "others, as codes of missing values are: leave these bags out, or, if it was measured, "
        f"pass a label near it, such as {neighbour:.10g}"
    )


def check_within(bags: BagsLike, y: Array, bounds: Sequence[float | None]) -> None:
    """Raise ValueError for labels outside inclusive bounds (lower, upper); None is unbounded."""
    lower, upper = (np.inf * sign if end is None else end for sign, end in zip((-1, 1), bounds))
    for end, inside in ((lower, y >= lower), (upper, y <= upper)):
        rule = f"it is beyond the bound {end:g}; widen the bounds, or leave these bags out"
        check_each(bags, y, inside, "label", rule)


def check_classes(bags: BagsLike, y: ArrayLike, *, several: bool = False) -> Array:
    """Labels of two classes, with `several` of more, (n,); `y` as for `values_of_bags`."""
    labels = class_labels(bags, y)
    classes = np.unique(labels)
    if len(classes) < 2 or (len(classes) > 2 and not several):
        shown = ", ".join(repr(plain(c)) for c in classes[:5])
        more = "" if len(classes) == 1 else ": for more use sklearn.multiclass.OneVsRestClassifier"
        raise ValueError(
            f"y has {len(classes)} class{'es' * (len(classes) > 1)} ({shown}"
            f"{', ...' * (len(classes) > 5)}), but a classifier needs two{more}"
        )
    if several and len(classes) == len(labels):
        raise ValueError(
            f"each of the {len(labels)} bags has its own class, so nothing can be learned about a "
            "class: give several bags per class"
        )
    return labels


def class_labels(bags: BagsLike, y: ArrayLike) -> Array:
    """Labels of bags, (n,), none missing: all numbers, all strings or all true or false."""
    import pandas as pd

    y = values_of_bags(bags, y, "y")
    labels = np.asarray(y)
    check_one_per_bag(labels, len(bags))
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        raise ValueError(
            f"the label of {_name(bags, missing[0])} is missing ({len(missing)} in total): "
            "leave these bags out"
        )
    values = y if isinstance(y, (list, tuple)) else labels.tolist()
    labels = np.asarray(values)  # strings held as objects become strings
    # A list of text and numbers has become text.
    mixed = labels.dtype.kind == "U" and not all(isinstance(label, str) for label in values)
    if mixed or labels.dtype.kind not in "biufU":
        raise TypeError("the labels y must all be numbers, all strings or all true or false")
    return labels


def ordered_categories(y: Any) -> "pd.Categorical | None":
    """Ordered categories of pandas, polars or pyarrow as a pandas Categorical; else None."""
    import narwhals as nw

    values = getattr(y, "array", y)
    if hasattr(y, "__arrow_c_stream__") and not hasattr(y, "array") and not hasattr(y, "columns"):
        values = as_values(nw.from_native(y, series_only=True))
    return values if getattr(getattr(values, "dtype", None), "ordered", False) else None


def classes_and_codes(labels: Any) -> tuple[Array, Array]:
    """Classes, shape (C,), sorted or in the order of categories, and codes 0, 1, ... of labels."""
    if ordered_categories(labels) is None:
        return np.unique(labels, return_inverse=True)
    return np.array(labels.categories.tolist()), labels.codes.astype(int)


def label_sd_values(bags: Bags, label_sd: ArrayLike | str) -> Array:
    """Standard errors of labels, float64, (n,), from numbers or a column of the bags' metadata."""
    values = as_vector(values_of_bags(bags, label_sd, "label_sd"), len(bags), "label_sd", "bag")
    if values.dtype == bool:
        raise TypeError("label_sd is true or false: pass one number per bag")
    values = checked_numbers(values, "label_sd", bags.ids)
    rule = "a standard error is positive, so correct it, or leave these bags out"
    check_each(bags, values, (values > 0) & (values < LARGEST_VALUE), "label_sd", rule)
    warn_of_codes({"label_sd": ends_of(values)}, "bags", CODES_OF_BAGS)
    return values


def values_of_bags(bags: BagsLike, values: ArrayLike | str, name: str) -> ArrayLike:
    """Values of the argument `name`, or of the metadata column they name, by `match_to_ids`."""
    is_list = isinstance(values, (list, tuple)) and len(bags) > len(values) == 1
    if is_list and isinstance(values[0], str):
        raise TypeError(f"{name} is a list with one entry, {values[0]!r}: pass it by itself")
    if not isinstance(values, str):
        return match_to_ids(values, getattr(bags, "ids", None), name)
    table = getattr(bags, "metadata", None)
    columns = [] if table is None else [str(column) for column in table.columns]
    if table is None or values not in columns:
        raise ValueError(
            f"{name}={values!r} is not a column of the bags' metadata, which have "
            f"{', '.join(map(repr, columns)) or 'none'}: name one of them, or pass numbers"
        )
    return table[values]


def check_one_per_bag(labels: Array, n: int) -> None:
    """Raise ValueError unless there is one label per bag, shape (n,)."""
    if labels.shape == (n, 1):
        raise ValueError(
            f"y has shape ({n}, 1), expected ({n},): pass y[:, 0], of a table y.iloc[:, 0]"
        )
    if labels.ndim == 2:
        raise ValueError(
            f"y has shape {labels.shape}, expected ({n},): fit a model to each column, or MERR "
            "or RBFNetwork, which take several numbers per bag, to all"
        )
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}, expected ({n},): one label per bag")
    if len(labels) != n:
        raise ValueError(f"y has {len(labels)} labels, but there are {n} bags: one label per bag")


def _name(bags: BagsLike, i: int) -> str:
    return describe(i, getattr(bags, "ids", None))
