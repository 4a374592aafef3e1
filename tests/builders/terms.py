"""Groups of bags and smooth functions of their metadata, from the definitions.

Written from the mathematics, apart from the package: a loop over terms, dense matrices, SciPy's
densities.
"""

from dataclasses import dataclass
from math import gamma, pi

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Term:
    """Indicators of groups, or sines of a smooth function.

    v : array, shape (n, m), columns of the bags
    frequency : array, shape (m, k), of sines of k columns; None of groups
    """

    v: np.ndarray
    frequency: np.ndarray | None = None

    @property
    def n_columns(self):
        return 0 if self.frequency is None else self.frequency.shape[1]


def matern_density(frequency, length):
    """Spectral density of a Matern 3/2 process of variance 1, a length per column, shape (m,)."""
    k, nu = len(length), 1.5
    volume = 2**k * pi ** (k / 2) * gamma(nu + k / 2) * (2 * nu) ** nu / gamma(nu)
    away = 2 * nu + np.sum((frequency * length) ** 2, axis=1)
    return volume * np.prod(length) * away ** -(nu + k / 2)


def matern(x, length):
    """Matern 3/2 values between points x, shape (n, k), a length per column."""
    away = np.sqrt(3) * np.linalg.norm((x[:, None] - x) / length, axis=2)
    return (1 + away) * np.exp(-away)


def effect_sds(terms, sd, length):
    """Prior standard deviation of all effects: a term_sd per term, a term_length per column."""
    found, left = [], list(length)
    for term, each in zip(terms, sd, strict=True):
        own, left = np.array(left[: term.n_columns]), left[term.n_columns :]
        unit = np.ones(term.v.shape[1]) if not len(own) else matern_density(term.frequency, own)
        found.append(each * np.sqrt(unit))
    return np.concatenate([*found, []])


def log_prior(terms, effects, sd, length, priors):
    """Log prior density of effects and of the scales of terms."""
    value = stats.norm.logpdf(effects, 0, effect_sds(terms, sd, length)).sum()
    value += stats.halfnorm.logpdf(sd, scale=priors["term_sd_scale"]).sum()
    scale = priors.get("term_length_median", 1.0)
    return (
        value
        + stats.lognorm.logpdf(length, priors.get("term_length_log_sd", 1.0), scale=scale).sum()
    )


def unwhiten(data, terms, t, theta, sd, length):
    """Effects at t given theta = [w; gamma; intercept], and the log Jacobian of t -> effects."""
    r, first, log_jacobian = list(theta), 0, 0.0
    sds = effect_sds(terms, sd, length)
    for term in terms:
        block = slice(first, first + term.v.shape[1])
        information = data["effect_information"][block, block]
        if term.frequency is None:
            information = np.diag(np.diag(information))
        A = information + np.diag(sds[block] ** -2)
        known = data["cross_theta"][block] @ theta
        known += data["effect_cross"][block, : len(r) - len(theta)] @ r[len(theta) :]
        centre = np.linalg.solve(A, data["effect_linear_term"][block] + known)
        factor = np.linalg.inv(np.linalg.cholesky(A)).T  # F F' = A^-1
        r.extend(centre + factor @ t[block])
        log_jacobian += np.linalg.slogdet(factor)[1]
        first = block.stop
    return np.array(r[len(theta) :]), log_jacobian


def any_coordinates(rng, n_terms, n_effects, n_weights):
    """Coordinates of effects that have nothing to do with the posterior."""
    root = rng.normal(size=(n_effects, n_effects))
    return {
        "effect_information": root @ root.T,
        "effect_linear_term": rng.normal(size=n_effects),
        "cross_theta": rng.normal(size=(n_effects, n_weights)),
        "effect_cross": rng.normal(size=(n_effects, n_effects)),
        "intercept_share": 0.4,
        "intercept_by_term": rng.uniform(0, 2, n_terms),
    }


def no_effects(n_weights):
    """Coordinates where there are no terms."""
    return {
        "effect_information": np.empty((0, 0)),
        "effect_linear_term": np.empty(0),
        "cross_theta": np.empty((0, n_weights)),
        "effect_cross": np.empty((0, 0)),
        "intercept_share": 1.0,
        "intercept_by_term": np.empty(0),
    }
