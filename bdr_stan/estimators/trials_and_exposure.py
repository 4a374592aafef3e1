"""Checks of labels of a family, and of trials, exposures and offsets that belong to them."""

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from bdr_stan.aggregate.labels import (
    check_counts,
    check_each,
    check_trials,
    checked_trials,
)
from bdr_stan.bags import Bags, check_labels, values_of_bags
from bdr_stan.bags.checks import checked_numbers, plain
from bdr_stan.bags.labels import (
    check_finite_labels,
    check_plausible,
    class_labels,
    ordered_categories,
)
from bdr_stan.bags.missing_codes import CODES_OF_BAGS, ends_of, warn_of_codes
from bdr_stan.families import FAMILIES, Family
from bdr_stan.families.ordinal import FEWEST_CATEGORIES, MOST_CATEGORIES
from bdr_stan.types import Array, ArrayLike
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    import pandas as pd

# On a log or logit scale: a factor of 5e21; a larger offset must be on another scale.
_LARGEST_OFFSET = 50.0
_OFFSETS = "an offset is finite and on the scale of the linear predictor: a logarithm or log odds"


def check_family_labels(family: Family, bags: Bags, y: ArrayLike) -> Any:
    """Labels as numbers that the family can have, shape (n,); ValueError names the first bag.

    Counts may all be equal: different trials or exposures still determine a rate. Ordered
    categories stay themselves.
    """
    if family.name == "ordinal":
        return check_categories(bags, y)
    if not family.likelihood.is_count:
        labels = check_labels(bags, y)
        low, high = family.bounds
        check_each(bags, labels, (low < labels) & (labels < high), "label", family.needs)
        return labels
    labels = check_finite_labels(bags, y)
    check_counts(bags, labels, "label", family.needs)
    if not labels.any():
        raise ValueError(f"all {len(labels)} labels are 0: there is no rate to learn from them")
    return labels


def check_categories(bags: Bags, y: ArrayLike) -> "pd.Categorical":
    """Labels of ordered categories, shape (n,); numbers are ordered by size.

    Categories that no bag has stay, with a warning: folds of cross-validation may lack some.

    Raises
    ------
    TypeError
        Text without an order, or categories that are neither text nor numbers.
    ValueError
        Missing labels, or too few or too many categories.
    """
    import pandas as pd

    y = values_of_bags(bags, y, "y")
    labels = ordered_categories(y)
    if labels is not None and not all(isinstance(name, str | Number) for name in labels.categories):
        raise TypeError(
            f"categories are text or numbers, found {labels.categories[0]!r}: pass "
            "y.cat.rename_categories(str)"
        )
    given = class_labels(bags, y)
    if labels is None and given.dtype.kind in "iuf":
        check_plausible(bags, given.astype(float))
    if labels is None:
        if given.dtype.kind == "U":
            raise TypeError(
                "family='ordinal' needs the order of labels that are text: pass pd.Categorical(y, "
                "categories=['lowest', .., 'highest'], ordered=True), or a Series of it"
            )
        labels = pd.Categorical(given, ordered=True)
    used, names = np.unique(labels.codes), labels.categories
    if len(used) < FEWEST_CATEGORIES:
        raise ValueError(
            f"family='ordinal' needs labels of at least {FEWEST_CATEGORIES} categories, found "
            f"{len(used)}: use BDRClassifier or BLRClassifier for two"
        )
    if len(names) > MOST_CATEGORIES:
        raise ValueError(
            f"family='ordinal' takes at most {MOST_CATEGORIES} categories, found {len(names)}: "
            "merge some, or use family='normal' for numbers"
        )
    unused = names.delete(used)
    if len(unused):
        warn(
            f"no bag has the label {plain(unused[0])!r} ({len(unused)} such categories): the prior "
            "alone gives it a probability; y.cat.remove_unused_categories() leaves it out"
        )
    return labels


def known_of_labels(
    family: str,
    bags: Bags,
    given: Mapping[str, ArrayLike | str | None],
    labels: Array | None,
    *,
    takes: Sequence[str],
    needed: Sequence[str],
) -> dict[str, Array]:
    """Trials, exposure and offset of bags by name, shape (n,), for a family that `takes` them.

    `labels` are of a fit, none above its trials.

    Raises
    ------
    TypeError
        One is given that the family does not support, or values are not numbers.
    ValueError
        One that is `needed` is missing; a value is out of range, the first such bag is named.
    """
    known = {}
    for name, values in given.items():
        if values is None:
            if name in needed:
                raise ValueError(missing(family, name))
            continue
        if name not in takes and name == "offset":
            change = (
                "divide the labels by its exponential"
                if family == "lognormal"
                else ("subtract it from the labels")
            )
            raise TypeError(f"family={family!r} takes no offset: {change}")
        if name not in takes:
            others = " and ".join(repr(f.name) for f in FAMILIES.values() if name in f.takes)
            raise TypeError(
                f"family={family!r} takes no {name}, which {others} do: leave {name}= out, or "
                "choose one of these families"
            )
        values = values_of_bags(bags, values, name)
        if name == "trials":
            known[name] = checked_trials(bags, values)
            if labels is not None:
                check_trials(bags, labels, known[name])
        elif name == "exposure":
            known[name] = _one_per_bag(bags, values, name)
            good = np.isfinite(known[name]) & (known[name] > 0)
            check_each(
                bags, known[name], good, name, "exposure is finite and > 0: leave others out"
            )
        else:
            known[name] = _one_per_bag(bags, values, name)
            good = np.abs(known[name]) <= (np.inf if family == "student_t" else _LARGEST_OFFSET)
            check_each(bags, known[name], good & np.isfinite(known[name]), name, _OFFSETS)
    ends = {name: ends_of(values) for name, values in known.items() if name != "trials"}
    warn_of_codes(ends, "bags", CODES_OF_BAGS)  # `checked_trials` warns of those
    return known


def missing(family: str, name: str) -> str:
    """Message if trials, exposure or offset of bags are missing."""
    return (
        f"family={family!r} needs {name} of these bags: give {name}=, one number per bag, to fit, "
        "predict, predictive, score or contrast, or give fit the name of a column of the bags' "
        "metadata, which all predictions then use"
    )


def _one_per_bag(bags, values, name):
    numbers = checked_numbers(values, name, bags.ids)
    if numbers.shape != (len(bags),):
        raise ValueError(
            f"{name} has shape {numbers.shape}, but there are {len(bags)} bags: one number per bag"
        )
    return numbers
