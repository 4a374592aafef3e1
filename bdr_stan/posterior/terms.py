"""Effects of groups and smooth functions: their priors, Stan data and coordinates.

With r = [w; gamma; intercept] and the effects of earlier terms a term has, given the labels,

    effect ~ N(A^-1 (linear_term + cross r), A^-1),     A = information + diag(sd)^-2
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.terms import Terms
from bdr_stan.kernels.shapes import Matern32
from bdr_stan.posterior.mode import Mode
from bdr_stan.posterior.priors import FIXED_LOG_SD, held_at
from bdr_stan.types import Array

_LENGTH_MEDIAN, _LENGTH_LOG_SD = 0.7, 0.5  # in units of half the range of a column


def term_priors(terms: Terms, spread: float) -> dict[str, float]:
    """Default priors of the terms' scales, for predictors of this spread between bags."""
    lengths = {"term_length_median": _LENGTH_MEDIAN, "term_length_log_sd": _LENGTH_LOG_SD}
    return {
        **({"term_sd_scale": spread} if terms.names else {}),
        **(lengths if terms.smooths else {}),
    }


def term_arrays(terms: Terms) -> dict[str, list[str]]:
    """Arrays of the program's scales of terms -> names of their entries."""
    return {
        "term_sd": [f"term_sd[{k + 1}]" for k in range(len(terms.names))],
        "term_length": [f"term_length[{k + 1}]" for k in range(len(terms.length_names))],
    }


def term_scales(terms: Terms) -> list[str]:
    """Names of the scales of all terms."""
    return [name for names in term_arrays(terms).values() for name in names]


def effect_amplitudes(terms: Terms, scales: Mapping[str, float]) -> Array:
    """Prior standard deviations of effects in terms of standard deviation 1, shape (U,)."""
    lengths = [scales[name] for name in term_arrays(terms)["term_length"]]
    blocks = []
    for smooth in terms.smooths:
        k = len(smooth.columns)
        length, lengths = np.array(lengths[:k]), lengths[k:]
        squares = np.sum((smooth.frequency * length) ** 2, axis=1)
        blocks.append(np.sqrt(np.prod(length) * Matern32(1.0).spectral_density(squares, k)))
    return np.concatenate([*blocks, np.ones(sum(map(len, terms.groups.values())))])


def effect_sds(terms: Terms, scales: Mapping[str, float]) -> Array:
    """Prior standard deviations of all effects, shape (U,)."""
    sds = [scales[name] for name in term_arrays(terms)["term_sd"]]
    return np.repeat(sds, terms.n_effects) * effect_amplitudes(terms, scales)


def term_data(terms: Terms, v: Array, priors: Mapping[str, float]) -> dict[str, Any]:
    """Data of a program on its terms, except for coordinates of the effects; `v` is (rows, U)."""
    n_terms, n_lengths = len(terms.names), len(terms.length_names)
    squares = [np.zeros((n, 2)) for n in terms.n_effects]
    for block, smooth in zip(squares, terms.smooths, strict=False):
        block[:, : len(smooth.columns)] = smooth.frequency**2
    return {
        "B": n_terms,
        "U": v.shape[1],
        "L": n_lengths,
        "n_effects": terms.n_effects,
        "n_columns": terms.n_columns,
        "squared_frequency": np.vstack([np.empty((0, 2)), *squares]),
        "term_columns": v,
        "term_sd_location": np.zeros(n_terms),
        "term_sd_scale": np.full(n_terms, priors.get("term_sd_scale", 1.0)),
        "term_length_median": np.full(n_lengths, priors.get("term_length_median", 1.0)),
        "term_length_log_sd": np.full(n_lengths, priors.get("term_length_log_sd", 1.0)),
    }


def split_columns(rows: Array, terms: Terms) -> tuple[Array, Array]:
    """Rows [z, x, 1, y], and the columns v of terms, shape (n, U), from rows [z, x, v, 1, y]."""
    base, effects = split_effects(rows[0, :-1], sum(terms.n_effects))
    return rows[:, [*base, -1]], rows[:, effects]


def rows_with_terms_last(rows: Rows, terms: Terms) -> Array:
    """Rows with only columns of terms last in the triangular groups, same shape."""
    base, effects = split_effects(rows.rows[0, :-1], sum(terms.n_effects))
    order = np.r_[base, effects, rows.rows.shape[1] - 1]
    values = rows.rows[:, order]
    for a, m in zip(rows.start, rows.length, strict=True):
        if len(effects) and m == len(order):
            values[a : a + m] = np.linalg.qr(values[a : a + m], mode="r")
    return values[:, np.argsort(order)]


def fixed_terms(terms: Terms, scales: Mapping[str, float]) -> dict[str, Any]:
    """Data that fix the scales of the terms."""
    arrays = term_arrays(terms)
    sds = np.array([scales[name] for name in arrays["term_sd"]])
    lengths = np.array([scales[name] for name in arrays["term_length"]])
    return {
        **held_at("term_sd_location", "term_sd_scale", sds),
        "term_length_median": lengths,
        "term_length_log_sd": np.full(len(lengths), FIXED_LOG_SD),
    }


def split_effects(theta: Array, n_effects: int) -> tuple[Array, Array]:
    """Indices of [w; gamma; intercept] and of the effects in theta = [w; gamma; effects; a]."""
    last = len(theta) - 1
    effects = np.arange(last - n_effects, last)
    return np.r_[: last - n_effects, last], effects


def without_effects(
    mode: Mode, terms: Terms, scales: Mapping[str, float]
) -> tuple[Mode, dict[str, Array]]:
    """The mode of [w; gamma; intercept], effects integrated out, and the effects' coordinates."""
    base, effects = split_effects(mode.theta, sum(terms.n_effects))
    order = np.append(base, effects)
    H, m, P, U = mode.precision[np.ix_(order, order)], mode.theta[order], len(base), len(effects)
    prior = effect_sds(terms, scales) ** -2.0
    # Variance of the intercept given [w; gamma], and its growth with term_sd^2.
    variances = np.linalg.inv(H[P - 1 :, P - 1 :])[0]
    growth = variances[1:] ** 2 * prior
    sds = [scales[name] for name in term_arrays(terms)["term_sd"]]
    by_term = [growth[term].sum() / sd**2 for term, sd in zip(terms.slices, sds, strict=True)]
    by_term = np.array(by_term) / variances[0]
    share = max(1 - by_term @ np.square(sds), 1 / (variances[0] * H[P - 1, P - 1]))
    information, linear_term, cross = np.zeros((U, U)), np.empty(U), np.zeros((U, P + U))
    for term, n_columns in reversed(list(zip(terms.slices, terms.n_columns, strict=True))):
        start = P + term.start
        H, block, cross_precision = integrated_out(H, start)
        if n_columns == 0:
            block = np.diag(np.diag(block))
        information[term, term] = _positive(block - np.diag(prior[term]))
        linear_term[term] = block @ m[start : P + term.stop] + cross_precision @ m[:start]
        cross[term, :start] = -cross_precision
    return replace(mode, theta=mode.theta[base], precision=H), {
        "effect_information": information,
        "effect_linear_term": linear_term,
        "cross_theta": cross[:, :P],
        "effect_cross": cross[:, P:],
        "intercept_share": share,
        "intercept_by_term": by_term,
    }


def integrated_out(precision: Array, start: int) -> tuple[Array, Array, Array]:
    """A precision without its block from `start` on, this block, and its cross precision."""
    block, cross_precision = precision[start:, start:], precision[start:, :start]
    rest = precision[:start, :start] - cross_precision.T @ np.linalg.solve(block, cross_precision)
    return rest, block, cross_precision


def _positive(matrix):
    """A symmetric matrix without its negative eigenvalues from rounding."""
    values, vectors = eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 0)) @ vectors.T
