"""Checks of labels; their messages name the bag."""

from collections.abc import Sequence

import numpy as np

from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.checks import LARGEST_VALUE, as_real_numbers, describe, plain
from bdr_stan.bags.container import Bags, BagsLike
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.types import Array, ArrayLike


def check_labels(bags: BagsLike, y: ArrayLike) -> Array:
    """Labels of bags as numbers, float64, shape (n,).

    Parameters
    ----------
    bags : Bags, or list of n arrays
    y : array, shape (n,), or str
        As for `values_of_bags`.

    Raises
    ------
    ValueError
        Wrong shape, NaN, infinite or a nodata marker (the message names the bag), or all equal; a
        Series whose index does not match the ids.
    TypeError
        Not numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.bags import check_labels
    >>> bags = [np.zeros((2, 1)), np.ones((3, 1))]
    >>> check_labels(bags, [1, 2])
    array([1., 2.])
    >>> check_labels(bags, [1, None])
    Traceback (most recent call last):
        ...
    ValueError: the label of bag 1 is nan (1 in all): leave these bags out
    """
    y = values_of_bags(bags, y, "y")
    try:
        labels = np.ma.filled(np.ma.asarray(y, float), np.nan) if np.ma.isMaskedArray(y) else y
        labels = as_real_numbers(labels)
    except (TypeError, ValueError):
        raise TypeError("the labels y are not numbers: pass one number per bag") from None
    check_one_per_bag(labels, len(bags))
    bad = np.flatnonzero(~np.isfinite(labels))
    if len(bad):
        raise ValueError(
            f"the label of {_name(bags, bad[0])} is {labels[bad[0]]} ({len(bad)} in all): "
            "leave these bags out"
        )
    nodata = np.flatnonzero(np.abs(labels) > LARGEST_VALUE)
    if len(nodata):
        raise ValueError(
            f"the label of {_name(bags, nodata[0])} is {labels[nodata[0]]:.3g} ({len(nodata)} "
            "in all), which looks like a nodata marker: leave these bags out"
        )
    if np.all(labels == labels[0]):
        raise ValueError(
            f"all {len(labels)} labels equal {labels[0]:g}: there is nothing to learn from them"
        )
    return labels


def check_within(bags: BagsLike, y: Array, bounds: Sequence[float | None]) -> None:
    """Raise ValueError, naming the first bag, for labels outside bounds (lower, upper).

    Parameters
    ----------
    bags : Bags, or list of n arrays
    y : array, shape (n,)
    bounds : pair (lower, upper), units of y
        Inclusive; None for no bound.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.bags import check_within
    >>> bags = [np.zeros((2, 1)), np.ones((3, 1))]
    >>> check_within(bags, np.array([0.5, 7.0]), (0, None))
    >>> check_within(bags, np.array([0.5, 7.0]), (0, 5))
    Traceback (most recent call last):
        ...
    ValueError: the label of bag 1 is 7, beyond the bound 5 (1 in all): widen the bounds, ...
    """
    lower, upper = bounds
    for end, outside in (
        (lower, lower is not None and y < lower),
        (upper, upper is not None and y > upper),
    ):
        bad = np.flatnonzero(outside)
        if len(bad):
            raise ValueError(
                f"the label of {_name(bags, bad[0])} is {y[bad[0]]:g}, beyond the bound {end:g} "
                f"({len(bad)} in all): widen the bounds, or leave these bags out"
            )


def check_classes(bags: BagsLike, y: ArrayLike, *, several: bool = False) -> Array:
    """Labels of bags of two classes, or of two or more; shape (n,), of the labels' own type.

    Parameters
    ----------
    bags : Bags, or list of n arrays
    y : array, shape (n,), or str
        All numbers, all strings or all true or false; or as for `values_of_bags`.
    several : bool, default False
        Whether there may be more than two classes.

    Raises
    ------
    ValueError
        Wrong shape, a missing label (the message names the bag), other than two classes, or, with
        `several`, as many classes as bags.
    TypeError
        Labels of several types, which have no order.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.bags import check_classes
    >>> bags = [np.zeros((2, 1)), np.ones((3, 1)), np.ones((1, 1))]
    >>> check_classes(bags, ["sick", "well", "sick"])
    array(['sick', 'well', 'sick'], dtype='<U4')
    >>> check_classes(bags, ["sick", "well", None])
    Traceback (most recent call last):
        ...
    ValueError: the label of bag 2 is missing (1 in all): leave these bags out
    """
    import pandas as pd

    y = values_of_bags(bags, y, "y")
    labels = np.asarray(y)
    check_one_per_bag(labels, len(bags))
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        raise ValueError(
            f"the label of {_name(bags, missing[0])} is missing ({len(missing)} in all): "
            "leave these bags out"
        )
    labels = np.asarray(labels.tolist())  # strings held as objects become strings
    # A list of text and numbers has become text.
    mixed = labels.dtype.kind == "U" and not all(isinstance(label, str) for label in y)
    if mixed or labels.dtype.kind not in "biufU":
        raise TypeError("the labels y must all be numbers, all strings or all true or false")
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


def label_sd_values(bags: Bags, label_sd: ArrayLike | str) -> Array:
    """Known standard errors of labels, from numbers or a column of the bags' metadata.

    Parameters
    ----------
    bags : Bags
    label_sd : array, shape (n,), units of y, or str

    Returns
    -------
    float64 array, shape (n,)

    Raises
    ------
    ValueError, TypeError
        There is no such column, and as for `check_label_sd`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from bdr_stan import Bags
    >>> from bdr_stan.bags import label_sd_values
    >>> survey = pd.DataFrame({"se": [0.5, 0.2]})
    >>> bags = Bags.from_list([np.zeros((2, 1)), np.ones((3, 1))], metadata=survey)
    >>> label_sd_values(bags, "se")
    array([0.5, 0.2])
    >>> label_sd_values(bags, [0.1, 0.3])
    array([0.1, 0.3])
    """
    return check_label_sd(values_of_bags(bags, label_sd, "label_sd"), len(bags), bags.ids)


def values_of_bags(bags: BagsLike, values: ArrayLike | str, name: str) -> ArrayLike:
    """Values of an argument in the order of the bags, or the metadata column that it names.

    Parameters
    ----------
    bags : Bags, or list of n arrays
    values : array, shape (n,), or str
        A pandas Series is matched to the ids by its index, unless that is the default 0, 1, ..;
        everything else is taken by position.
    name : str
        Name of the argument.

    Returns
    -------
    `values`, or a pandas Series, shape (n,)

    Raises
    ------
    ValueError
        There is no such column; the index of a Series does not match the ids.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from bdr_stan import Bags
    >>> from bdr_stan.bags import values_of_bags
    >>> table = pd.DataFrame({"trials": [10, 20]})
    >>> bags = Bags.from_list([np.zeros((2, 1)), np.ones((3, 1))], metadata=table)
    >>> values_of_bags(bags, "trials", "trials").to_list()
    [10, 20]
    >>> values_of_bags(bags, "tests", "trials")
    Traceback (most recent call last):
        ...
    ValueError: trials='tests' is no column of the bags' metadata, which have 'trials': name ...
    """
    if not isinstance(values, str):
        return match_to_ids(values, getattr(bags, "ids", None), name)
    table = getattr(bags, "metadata", None)
    known = [] if table is None else [str(column) for column in table.columns]
    if table is None or values not in known:
        raise ValueError(
            f"{name}={values!r} is no column of the bags' metadata, which have "
            f"{', '.join(map(repr, known)) or 'none'}: name one of these, or pass numbers"
        )
    return table[values]


def check_label_sd(label_sd: ArrayLike, n: int, ids: Array | None = None) -> Array:
    """Known standard errors of the labels of n bags, float64, shape (n,).

    Parameters
    ----------
    label_sd : array, shape (n,), units of y
    n : int
    ids : array, shape (n,), optional
        Ids of the bags, for messages.

    Raises
    ------
    ValueError
        Another shape; a standard error that is missing, infinite or not positive (the message names
        the bag).
    TypeError
        Not numbers.

    Examples
    --------
    >>> from bdr_stan.bags import check_label_sd
    >>> check_label_sd([0.5, 0.2], 2)
    array([0.5, 0.2])
    >>> check_label_sd([0.5, 0.0], 2, ids=["ann", "bob"])
    Traceback (most recent call last):
        ...
    ValueError: label_sd of bag 1 (id 'bob') is 0 (1 in all), but a standard error is ...
    """
    import pandas as pd

    values = np.asarray(label_sd)
    if values.shape != (n,):
        raise ValueError(
            f"label_sd has shape {values.shape}, but there are {n} bags: pass one number per bag"
        )
    try:
        if values.dtype == bool:
            raise TypeError
        values = as_real_numbers(np.where(pd.isna(values), np.nan, values))
    except (TypeError, ValueError):
        raise TypeError(
            "label_sd has values that are not numbers: pass one number per bag"
        ) from None
    bad = np.flatnonzero(~((values > 0) & (values < LARGEST_VALUE)))
    if len(bad):
        raise ValueError(
            f"label_sd of {describe(bad[0], ids)} is {values[bad[0]]:g} ({len(bad)} in all), "
            "but a standard error is positive: correct it, or leave these bags out"
        )
    return values


def check_one_per_bag(labels: Array, n: int) -> None:
    """Raise ValueError unless there is one label per bag, shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.bags import check_one_per_bag
    >>> check_one_per_bag(np.array([1.0, 2.0]), 2)
    >>> check_one_per_bag(np.array([[1.0], [2.0]]), 2)
    Traceback (most recent call last):
        ...
    ValueError: y has shape (2, 1), expected (2,): pass y.ravel()
    """
    if labels.shape == (n, 1):
        raise ValueError(f"y has shape ({n}, 1), expected ({n},): pass y.ravel()")
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}, expected ({n},): one label per bag")
    if len(labels) != n:
        raise ValueError(f"y has {len(labels)} labels, but there are {n} bags: one label per bag")


def _name(bags: BagsLike, i: int) -> str:
    return bags.name(i) if isinstance(bags, BagsBase) else describe(i, None)
