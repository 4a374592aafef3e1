"""Labels that normal errors do not describe: on few values, or near a bound."""

import numpy as np

from bdr_stan.types import Array

_HEAP_SHARE = 0.1  # share of equal labels
_NEAR_BOUND_SHARE = 0.1  # share of labels within two standard deviations of the errors of a bound
_MIN_LABELS = 5  # labels that count as a share


def label_advice(y: Array, sigma: float) -> list[str]:
    """A line on misfit of labels (n,) to normal errors of sd sigma; none without misfit."""
    values, counts = np.unique(y, return_counts=True)
    most = counts.max()
    if _MIN_LABELS <= most < len(y) and most >= _HEAP_SHARE * len(y):
        finding = f"{most / len(y):.0%} of the labels are {values[counts.argmax()]:g}"
    else:
        bounds = [0.0, 1.0] if y.min() >= 0 and y.max() <= 1 else [0.0] if y.min() >= 0 else []
        shares = [np.mean(np.abs(y - bound) < 2 * sigma) for bound in bounds]
        if not shares or max(shares) < max(_NEAR_BOUND_SHARE, _MIN_LABELS / len(y)):
            return []
        finding = (
            f"{max(shares):.0%} of the labels are within two sd of the errors of "
            f"{bounds[int(np.argmax(shares))]:g}, and none beyond"
        )
    return [
        f"Labels: {finding}, which normal errors do not describe. Compare with InverseBDR() and "
        f"Stacked().{_families(y)}"
    ]


def _families(y):
    """A sentence on suitable families for the labels."""
    if y.min() < 0:
        return ""
    if np.all(y == np.floor(y)):
        if y.max() == 1:
            return " Two classes, 0 and 1, are predicted by BDRClassifier()."
        return (
            " Counts have families of their own: BDR(family='negative_binomial') or, out of known "
            "numbers of trials, 'beta_binomial'."
        )
    if y.min() > 0 and y.max() < 1:
        return " Shares have a family of their own: BDR(family='beta')."
    return " Labels > 0 have families of their own: BDR(family='gamma')." if y.min() > 0 else ""
