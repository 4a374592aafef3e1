"""Shared checks of labels of totals of bags: errors describe the first invalid bag."""

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.bags.checks import as_vector, checked_numbers
from bdr_stan.bags.missing_codes import CODES_OF_BAGS, ends_of, warn_of_codes
from bdr_stan.types import Array, ArrayLike

LARGEST_COUNT = 2**31 - 1  # Stan holds counts as 32-bit integers


def check_each(bags: Bags, values: Array, good: Array, what: str, rule: str) -> None:
    """Raise ValueError naming the first of n bags with an invalid value, and the rule."""
    bad = np.flatnonzero(~good)
    if len(bad):
        raise ValueError(
            f"the {what} of {bags.name(bad[0])} is {values[bad[0]]:.15g} ({len(bad)} in total): "
            f"{rule}"
        )


def check_counts(bags: Bags, values: Array, what: str, rule: str) -> None:
    """Raise ValueError unless values are whole numbers from 0 that Stan can hold."""
    whole = (values >= 0) & (values == np.floor(values))
    check_each(bags, values, whole, what, rule)
    check_each(
        bags, values, values <= LARGEST_COUNT, what, f"Stan counts up to {LARGEST_COUNT}: rescale"
    )


def checked_trials(bags: Bags, values: ArrayLike, y: Array | None = None) -> Array:
    """Numbers of trials of bags, shape (n,): whole, from 1, not below counts y; else an error."""
    trials = checked_numbers(values, "number of trials", bags.ids)
    trials = as_vector(trials, len(bags), "trials", "bag")
    rule = "trials are whole numbers from 1: leave bags without any out"
    check_counts(bags, trials, "number of trials", rule)
    check_each(bags, trials, trials >= 1, "number of trials", rule)
    warn_of_codes({"trials": ends_of(trials)}, "bags", CODES_OF_BAGS)
    counts = np.zeros(len(bags)) if y is None else y
    above = np.flatnonzero(counts > trials)
    if len(above):
        i = above[0]
        raise ValueError(
            f"the label of {bags.name(i)} is {counts[i]:.0f}, above its {trials[i]:.0f} trials "
            f"({len(above)} in total): a binomial count is at most its trials"
        )
    return trials
