"""Mode and curvature of any log density that comes with its gradient."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from bdr_stan.types import Array

__all__ = ["Density", "hessian", "mode_of_density"]

Density = Callable[[Array], tuple[float, Array]]  # RuntimeError where it cannot be evaluated

_TOO_FAR = 1e3  # value, in those of the start, of points without a density
_PROMISED = 1e-6  # squared slope at a mode, relative to the log density
_STEP = 1e-4  # of central differences of the gradient; error of order step^2


def mode_of_density(
    density: Density, start: Array, *, iterations: int = 10_000, history_size: int = 20
) -> Array:
    """Mode by L-BFGS from a point of shape (n,); RuntimeError where none is found."""
    at_start = density(start)[0]

    def negative(q):
        try:
            value, slope = density(q)
        except RuntimeError:  # such as where a scale overflows
            value, slope = -np.inf, q
        if not np.isfinite([value, *slope]).all():  # a step too far: the search takes a shorter one
            return _TOO_FAR * (1 + abs(at_start)), np.zeros_like(q)
        return -value, -slope

    found = minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": iterations,
            "maxfun": 20 * iterations,
            "maxcor": history_size,
            "ftol": 1e-15,
            "gtol": 1e-7,
        },
    )
    if found.status == 1:
        raise RuntimeError(f"no mode was found in {found.nit} iterations: set iter to more")
    # Where rounding ends the search, what a step along the gradient promises is next to nothing.
    if np.max(np.abs(found.jac), initial=0.0) ** 2 > _PROMISED * (1 + abs(found.fun)):
        raise RuntimeError(
            "the search for the mode came to a halt on a slope, as at a kink or step of the "
            "density: use method='nuts', which needs no mode"
        )
    return found.x


def hessian(density: Density, point: Array) -> Array:
    """Second derivatives by central differences of the gradient, shape (n, n)."""
    steps = _STEP * np.eye(len(point))
    rows = [density(point + h)[1] - density(point - h)[1] for h in steps]
    half = np.array(rows).reshape(len(point), len(point)) / (4 * _STEP)
    return half + half.T
