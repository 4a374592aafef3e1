"""Labels of each family, with trials and scales, and their densities by SciPy."""

import numpy as np
from scipy.special import betaln, expit, log_expit

from bdr_stan.families import FAMILIES as WITHOUT_LABELS
from bdr_stan.families import Ordinal

FAMILIES = {**WITHOUT_LABELS, "ordinal": Ordinal(4)}

COUNTS = [0, 1, 7, 1_000, 1_000_000]
OUT_OF = [(0, 1), (1, 1), (3, 30), (0, 1_000), (1_000_000, 1_000_000), (370_000, 1_000_000)]

# Family -> (label, trials, scales)
CASES = {
    "poisson": [(y, None, {}) for y in COUNTS],
    "negative_binomial": [
        (y, None, {"dispersion": d}) for y, d in zip(COUNTS, [0.5, 2.0, 0.01, 0.3, 0.1])
    ],
    "binomial": [(y, n, {}) for y, n in OUT_OF],
    "beta_binomial": [
        (y, n, {"dispersion": d}) for (y, n), d in zip(OUT_OF, [1.0, 0.3, 0.05, 0.5, 0.3, 0.1])
    ],
    "beta": [(0.001, None, {"dispersion": 0.7}), (0.4, None, {"dispersion": 0.1})],
    "gamma": [(0.01, None, {"dispersion": 1.5}), (3e4, None, {"dispersion": 0.05})],
    "student_t": [
        (0.3, None, {"sigma": 0.5, "df_above_2": 0.5}),
        (9.0, None, {"sigma": 2.0, "df_above_2": 30.0}),
    ],
    "ordinal": [
        (0, None, {"gap_2": 0.5, "gap_3": 2.0}),
        (1, None, {"gap_2": 1e-4, "gap_3": 3.0}),
        (2, None, {"gap_2": 1.5, "gap_3": 0.3}),
        (3, None, {"gap_2": 0.2, "gap_3": 9.0}),
        (1, None, {"gap_2": 30.0, "gap_3": 0.1}),
    ],
}


def label_of(name, y, trials):
    """A linear predictor at which the label is probable."""
    if name == "ordinal":
        return (-1.0, 0.3, 1.0, 2.5)[int(y)]
    half = 0.5 if FAMILIES[name].likelihood.is_count else 0.0
    share = y + half if trials is None else (y + half) / (trials + 1)
    return float(FAMILIES[name].best_predictor(np.float64(share)))


def scipy_log_density(name, y, h, trials, scales):
    """Log density or probability of a label by SciPy's distribution."""
    family = FAMILIES[name]
    if name == "ordinal":
        return log_share_between(y, h, scales.values())
    if name in ("beta", "beta_binomial"):  # SciPy takes 1 - probability, which has no digits
        precision = scales["dispersion"] ** -2.0
        return _by_beta_functions(y, precision * expit(h), precision * expit(-h), trials)
    given = {} if trials is None else {"trials": trials}
    with np.errstate(all="ignore"):
        distribution = family.likelihood.distribution(family.mean(h), **given, **scales)
        return (distribution.logpmf if family.likelihood.is_count else distribution.logpdf)(y)


def log_share_between(y, h, gaps):
    """log of the logistic cdf at the threshold above y less that below, without cancellation."""
    thresholds = np.array([-np.inf, *np.cumsum([0.0, *gaps]), np.inf])
    low, high = thresholds[int(y)] - np.asarray(h), thresholds[int(y) + 1] - np.asarray(h)
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)  # the smaller tails
    with np.errstate(all="ignore"):
        below, above = log_expit(low), log_expit(high)
        return above + np.log1p(-np.exp(below - above))


def _by_beta_functions(y, a, b, trials):
    with np.errstate(all="ignore"):
        if trials is None:
            return (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - betaln(a, b)
        choose = -np.log(trials + 1.0) - betaln(trials - y + 1, y + 1)
        return choose + betaln(y + a, trials - y + b) - betaln(a, b)
