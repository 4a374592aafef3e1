"""Shared checks of labels of totals of bags: errors describe the first invalid bag."""

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.bags.checks import as_vector, checked_numbers
from bdr_stan.bags.checks import check_each as check_each
from bdr_stan.bags.missing_codes import CODES_OF_BAGS, ends_of, warn_of_codes
from bdr_stan.types import Array, ArrayLike

LARGEST_COUNT = 2**31 - 1  # Stan holds counts as 32-bit integers


def check_counts(bags: Bags, values: Array, what: str, rule: str) -> None:
    """Raise ValueError unless values are whole numbers from 0 that Stan can hold."""
    whole = (values >= 0) & (values == np.floor(values))
    check_each(bags, values, whole, what, rule)
    check_each(
        bags, values, values <= LARGEST_COUNT, what, f"Stan counts up to {LARGEST_COUNT}: rescale"
    )


def check_count_labels(bags: Bags, labels: Array, rule: str) -> None:
    """Raise ValueError unless labels are counts, of which some are above 0."""
    check_counts(bags, labels, "label", rule)
    if not labels.any():
        raise ValueError(f"all {len(labels)} labels are 0: there is no rate to learn from them")


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
