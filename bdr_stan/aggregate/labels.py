"""Labels of aggregate outputs: what a bag's total may be under each likelihood."""

import numpy as np

from bdr_stan.bags import check_one_a_bag, as_bags

LIKELIHOODS = ("poisson", "normal", "exponential", "negative binomial", "binomial")
_COUNTS = ("poisson", "negative binomial", "binomial")
LARGEST_COUNT = 2**31 - 1  # Stan holds counts as 32-bit integers


def check_aggregate_labels(bags, y, likelihood, *, trials=None):
    """Labels of `bags`, each the total of its points, as float64, shape (n,).

    Labels may all be equal, unlike those of `bags.check_labels`: bags of different size or points
    still tell rates apart. That every bag has points, and weights >= 0 that are not all zero, is
    checked where bags are made.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)
    y : array, shape (n,)
        "poisson", "negative binomial", "binomial": counts 0, 1, .. 2^31 - 1, not all zero;
        "exponential": > 0; "normal": any finite number.
    likelihood : one of `LIKELIHOODS`
    trials : array, shape (n,), optional
        Of the binomial likelihood: people asked in each bag, whole numbers from 1, none below the
        bag's count.

    Raises
    ------
    ValueError
        Unknown likelihood, wrong length or shape, or a label or number of trials that the
        likelihood cannot have; the first such bag is named.
    TypeError
        Labels or trials are not numbers.
    """
    if likelihood not in LIKELIHOODS:
        names = ", ".join(map(repr, LIKELIHOODS))
        raise ValueError(f"likelihood must be one of {names}, found {likelihood!r}")
    if trials is not None and likelihood != "binomial":
        raise ValueError(f"trials belong to the binomial likelihood, not to {likelihood!r}")
    bags = as_bags(bags)
    y = _as_numbers(y, "labels y")
    check_one_a_bag(y, len(bags))
    _check_each(bags, y, np.isfinite(y), "label", "leave these bags out")
    if likelihood == "exponential":
        _check_each(bags, y, y > 0, "label", "the exponential likelihood needs labels > 0")
    if likelihood not in _COUNTS:
        return y
    rule = f"the {likelihood} likelihood needs counts"
    _check_counts(bags, y, "label", f"{rule} 0, 1, 2, ..")
    if not np.any(y):
        raise ValueError(f"all {len(y)} labels are 0: there is no rate to learn from them")
    if trials is not None:
        _check_trials(bags, y, trials)
    return y


def _check_trials(bags, y, trials):
    trials = _as_numbers(trials, "trials")
    if trials.shape != y.shape:
        raise ValueError(f"trials has shape {trials.shape}, expected {y.shape}: one number a bag")
    _check_counts(bags, trials, "number of trials", "trials are whole numbers from 1")
    _check_each(bags, trials, trials >= 1, "number of trials", "trials are whole numbers from 1")
    above = np.flatnonzero(y > trials)
    if len(above):
        i = above[0]
        raise ValueError(
            f"the label of {bags.name(i)} is {y[i]:.0f}, above its {trials[i]:.0f} trials "
            f"({len(above)} such in all): a binomial count is at most its trials"
        )


def _check_counts(bags, values, what, rule):
    whole = (values >= 0) & (values == np.floor(values))
    _check_each(bags, values, whole, what, rule)
    _check_each(
        bags, values, values <= LARGEST_COUNT, what, f"Stan counts up to {LARGEST_COUNT}: rescale"
    )


def _check_each(bags, values, good, what, rule):
    """Raise ValueError naming the first bag whose value is not good."""
    bad = np.flatnonzero(~good)
    if len(bad):
        raise ValueError(
            f"the {what} of {bags.name(bad[0])} is {values[bad[0]]:.15g} ({len(bad)} such in all): "
            f"{rule}"
        )


def _as_numbers(values, name):
    try:
        values = np.asarray(values)
        if values.dtype.kind not in "fiubO":
            raise TypeError
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"the {name} are not numbers: pass one number a bag") from None
