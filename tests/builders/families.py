"""Families of labels: for each one cases with densities by SciPy, a simulator, and its variance."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import stats
from scipy.special import betaln, expit, log_expit, log_ndtr, ndtri_exp

from bdr_stan.families import FAMILIES as WITHOUT_LABELS
from bdr_stan.families import TIMES, Ordinal

FAMILIES = {**WITHOUT_LABELS, "ordinal": Ordinal(4), **TIMES}

COUNTS = [0, 1, 7, 1_000, 1_000_000]
OUT_OF = [(0, 1), (1, 1), (3, 30), (0, 1_000), (1_000_000, 1_000_000), (370_000, 1_000_000)]


@dataclass(frozen=True, kw_only=True)
class Example:
    """Labels of a family; its functions are written apart from the package.

    Each takes the trials, where the family has such, and the scales by name.
    """

    cases: list  # (label, trials, scales)
    draw: Callable  # (rng, linear predictors, trials, **scales) -> labels
    variance: Callable | None = None  # (means, trials, **scales) -> variances, of numbers
    scales: dict = field(default_factory=dict)  # of labels for fits
    impossible: tuple = (-1.0, 0.5, 1e-9, -3.0)  # four labels that it cannot have, if any


# ---------------------------------------------------------------- simulators


def draw_poisson(rng, h, trials):
    return rng.poisson(np.exp(h))


def draw_gamma(rng, h, trials, dispersion):
    shape = dispersion**-2
    return np.exp(h) * np.maximum(rng.gamma(shape, 1 / shape, len(h)), 1e-300)


def draw_negative_binomial(rng, h, trials, dispersion):
    return rng.poisson(draw_gamma(rng, h, trials, dispersion))


def draw_binomial(rng, h, trials):
    return rng.binomial(trials, expit(h))


def draw_beta(rng, h, trials, dispersion):
    p, precision = expit(h), dispersion**-2
    return np.clip(rng.beta(p * precision, (1 - p) * precision), 1e-12, 1 - 1e-12)


def draw_beta_binomial(rng, h, trials, dispersion):
    return rng.binomial(trials, draw_beta(rng, h, trials, dispersion))


def draw_student_t(rng, h, trials, sigma, df_above_2):
    return h + sigma * rng.standard_t(2 + df_above_2, len(h))


def draw_weibull(rng, h, trials, sigma):
    return np.exp(h + sigma * np.log(rng.exponential(size=len(h))))


def draw_lognormal(rng, h, trials, sigma):
    return np.exp(rng.normal(h, sigma))


def draw_after(rng, name, h, entry, sigma):
    """Times after an entry: their log tails are exponential, beyond the log tail of the entry."""
    z, more = (np.log(entry) - h) / sigma, rng.exponential(size=len(h))
    if name == "weibull":
        times = np.exp(h + sigma * np.logaddexp(z, np.log(more)))
    else:
        times = np.exp(h - sigma * ndtri_exp(log_ndtr(-z) - more))
    return np.maximum(times, entry * (1 + 1e-9))  # not equal because of rounding


def draw_ordinal(rng, h, trials, gap_2, gap_3):
    return np.searchsorted(np.cumsum([0.0, gap_2, gap_3]), h + rng.logistic(size=len(h)))


# ---------------------------------------------------------------- families

EXAMPLES = {
    "poisson": Example(
        cases=[(y, None, {}) for y in COUNTS],
        draw=draw_poisson,
        variance=lambda mean, trials: mean,
    ),
    "negative_binomial": Example(
        cases=[(y, None, {"dispersion": d}) for y, d in zip(COUNTS, [0.5, 2.0, 0.01, 0.3, 0.1])],
        draw=draw_negative_binomial,
        variance=lambda mean, trials, dispersion: mean + dispersion**2 * mean**2,
        scales={"dispersion": 0.5},
    ),
    "binomial": Example(
        cases=[(y, n, {}) for y, n in OUT_OF],
        draw=draw_binomial,
        variance=lambda mean, trials: mean * (1 - mean / trials),
    ),
    "beta_binomial": Example(
        cases=[
            (y, n, {"dispersion": d}) for (y, n), d in zip(OUT_OF, [1.0, 0.3, 0.05, 0.5, 0.3, 0.1])
        ],
        draw=draw_beta_binomial,
        variance=lambda mean, trials, dispersion: (
            mean * (1 - mean / trials) * (1 + (trials - 1) * dispersion**2 / (1 + dispersion**2))
        ),
        scales={"dispersion": 20**-0.5},
    ),
    "beta": Example(
        cases=[(0.001, None, {"dispersion": 0.7}), (0.4, None, {"dispersion": 0.1})],
        draw=draw_beta,
        variance=lambda mean, trials, dispersion: (
            mean * (1 - mean) * dispersion**2 / (1 + dispersion**2)
        ),
        scales={"dispersion": 20**-0.5},
        impossible=(0.0, 1.0, -1.0, 2.0),
    ),
    "gamma": Example(
        cases=[(0.01, None, {"dispersion": 1.5}), (3e4, None, {"dispersion": 0.05})],
        draw=draw_gamma,
        variance=lambda mean, trials, dispersion: dispersion**2 * mean**2,
        scales={"dispersion": 1 / 3},
        impossible=(0.0, -1.0, -0.5, -1e-9),
    ),
    "student_t": Example(
        cases=[
            (0.3, None, {"sigma": 0.5, "df_above_2": 0.5}),
            (9.0, None, {"sigma": 2.0, "df_above_2": 30.0}),
        ],
        draw=draw_student_t,
        variance=lambda mean, trials, sigma, df_above_2: (
            sigma**2 * (2 + df_above_2) / df_above_2 * np.ones_like(mean)
        ),
        scales={"sigma": 0.3, "df_above_2": 1.0},
        impossible=(),
    ),
    "weibull": Example(
        cases=[(0.01, None, {"sigma": 1.5}), (3e4, None, {"sigma": 0.05})],
        draw=draw_weibull,
        scales={"sigma": 0.5},
        impossible=(0.0, -1.0, -0.5, -1e-9),
    ),
    "lognormal": Example(
        cases=[(0.01, None, {"sigma": 1.5}), (3e4, None, {"sigma": 0.05})],
        draw=draw_lognormal,
        scales={"sigma": 0.5},
        impossible=(0.0, -1.0, -0.5, -1e-9),
    ),
    "ordinal": Example(
        cases=[
            (0, None, {"gap_2": 0.5, "gap_3": 2.0}),
            (1, None, {"gap_2": 1e-4, "gap_3": 3.0}),
            (2, None, {"gap_2": 1.5, "gap_3": 0.3}),
            (3, None, {"gap_2": 0.2, "gap_3": 9.0}),
            (1, None, {"gap_2": 30.0, "gap_3": 0.1}),
        ],
        draw=draw_ordinal,
        scales={"gap_2": 1.0, "gap_3": 1.0},
    ),
}


# ---------------------------------------------------------------- densities


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


def log_density_of_time(name, y, h, event, entry, sigma):
    """Of a time that may be censored or truncated, by SciPy's distributions of its logarithm."""
    of_logs = {"weibull": stats.gumbel_l, "lognormal": stats.norm}[name](h, sigma)
    value = of_logs.logpdf(np.log(y)) - np.log(y) if event else of_logs.logsf(np.log(y))
    return value - of_logs.logsf(np.log(entry)) if entry > 0 else value


def _by_beta_functions(y, a, b, trials):
    with np.errstate(all="ignore"):
        if trials is None:
            return (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - betaln(a, b)
        choose = -np.log(trials + 1.0) - betaln(trials - y + 1, y + 1)
        return choose + betaln(y + a, trials - y + b) - betaln(a, b)
