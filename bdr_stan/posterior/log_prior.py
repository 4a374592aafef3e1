"""Log density of the priors at draws, as the group log_prior of ArviZ."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy import stats

from bdr_stan.types import Array


def _lkj(correlation, numbers):
    """Of correlation matrices, shape (..., K, K), without the constant; shape (...)."""
    return (numbers["shape"] - 1) * np.linalg.slogdet(correlation)[1]


# Distribution in the text of a prior -> log density at values given the prior's numbers.
_LOG_DENSITIES: dict[str, Callable[[Array, Mapping[str, Array]], Array]] = {
    "normal": lambda x, p: stats.norm.logpdf(x, p.get("location", 0.0), p["scale"]),
    "half-normal": lambda x, p: stats.halfnorm.logpdf(x, scale=p["scale"]),
    "lognormal": lambda x, p: stats.lognorm.logpdf(x, p["log_sd"], scale=p["median"]),
    "rayleigh": lambda x, p: stats.rayleigh.logpdf(x, scale=p["scale"]),
    "LKJ": _lkj,
}
_NUMBERS = ("location", "scale", "median", "log_sd", "shape")


def log_prior(
    priors: Mapping[str, float],
    texts: Mapping[str, tuple[str, str, str]],
    draws: Mapping[str, Array],
) -> dict[str, Array]:
    """Log prior density of each parameter that has a row in `priors.table`, at its draws.

    `draws` are as the priors measure them, shape (chain, draw, ...); the result has their shapes,
    but that of correlation matrices is (chain, draw).
    """
    found = {}
    for name, (text, _, _) in texts.items():
        numbers = {kind: _numbers(priors, f"{name}_{kind}") for kind in _NUMBERS}
        numbers = {kind: values for kind, values in numbers.items() if len(values)}
        values = draws.get(name)
        if values is None or not numbers or values.size == 0:
            continue
        alike = {kind: v if len(v) > 1 else v[0] for kind, v in numbers.items()}
        found[name] = _LOG_DENSITIES[text.partition("(")[0]](values, alike)
    return found


def _numbers(priors, key):
    """One number, or those of the samples, "rho_median[1]", in their order."""
    return np.array([value for name, value in priors.items() if name.split("[")[0] == key])
