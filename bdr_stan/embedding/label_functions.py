"""Basis functions of the label in models of the embedding: splines, or contrasts of classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import eigh, helmert

from bdr_stan.embedding.coordinates import SavedArrays
from bdr_stan.types import Array, ArrayLike

_MAX_KNOTS = 6  # which make four curved functions
_KNOT_DIGITS = 3  # closer knots, for example next to an outlier, differ only by rounding
_BAGS_PER_KNOT = 3  # leaves residual degrees of freedom for the scatter about the curves
_INTEGRATION_STEPS = 400  # of the integral of squared curvature


@dataclass(frozen=True)
class LabelFunctions(SavedArrays):
    """Basis functions B(y) of a label: 1, linear ones and curved ones.

    For numbers: 1, the standardised label, and natural cubic splines, the smoothest first,
    orthonormal over the training labels and constant outside their range. For classes, given as
    codes 0, 1, ...: 1 and Helmert contrasts.
    """

    saved: ClassVar = {
        "centre": ("label_centre",),
        "unit": ("label_unit",),
        "knots": ("label_knots", "knot"),
        "transform": ("label_transform", "knot", "spline"),
        "n_straight": ("n_straight",),
        "smooth": ("smooth", "function"),
    }

    centre: float  # average of the training labels; 0 for classes
    unit: float  # their standard deviation; 1 for classes
    knots: Array  # in standardised units, shape (m,); the codes of classes
    transform: Array  # contrasts or splines at the knots, shape (m, J - 1 or J - 2)
    n_straight: int  # number of linear functions after the constant
    smooth: Array  # prior sd of coefficients, relative to functions of the same kind; shape (J,)

    def __call__(self, y: ArrayLike) -> Array:
        """Values of the functions at labels, shape (n,) -> (n, J)."""
        y = np.asarray(y, float)
        one = np.ones(len(y))
        if self.has_classes:
            return np.column_stack([one, self.transform[y.astype(int)]])
        # Curves stay constant beyond the training labels: otherwise a small unusual bag could be
        # predicted far outside their range.
        u = np.clip((y - self.centre) / self.unit, self.knots[0], self.knots[-1])
        spline = CubicSpline(self.knots, self.transform, bc_type="natural")
        return np.column_stack([one, u, spline(u)])

    @property
    def has_classes(self) -> bool:
        """Whether labels are codes of classes."""
        return self.transform.shape[1] == len(self.smooth) - 1


def functions_of_numbers(y: Array) -> LabelFunctions:
    """Smoothing-spline basis of numeric labels y, shape (n,), not all equal.

    Knots are at most six labels at evenly spaced quantiles. The prior variance of a curved function
    is one over its mean squared curvature (Demmler and Reinsch 1975).
    """
    centre, unit = float(np.mean(y)), float(np.std(y))
    u = (y - centre) / unit
    # Knots are labels: between labels, a function that is 0 at all knots would be unconstrained.
    n_knots = int(np.clip(len(u) // _BAGS_PER_KNOT, 2, _MAX_KNOTS))
    quantiles = np.quantile(u, np.linspace(0, 1, n_knots), method="nearest")
    knots = np.unique(np.round(quantiles, _KNOT_DIGITS))
    spline = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    steps = np.linspace(knots[0], knots[-1], _INTEGRATION_STEPS)
    second = spline(steps, 2)  # derivatives
    values = spline(u)
    gram = values.T @ values / len(u) + 1e-10 * np.eye(len(knots))
    curvature, transform = eigh(second.T @ second / len(steps), gram)
    # The first two have no curvature: they span 1 and the label itself.
    curvature, transform = curvature[2:], transform[:, 2:]
    relative = np.sqrt(curvature[:1] / curvature)
    return LabelFunctions(centre, unit, knots, transform, 1, np.r_[1.0, 1.0, relative])


def functions_of_classes(n_classes: int) -> LabelFunctions:
    """Contrasts of classes given as codes 0, 1, ..."""
    contrasts = np.sqrt(n_classes) * helmert(n_classes).T
    codes = np.arange(float(n_classes))
    return LabelFunctions(0.0, 1.0, codes, contrasts, n_classes - 1, np.ones(n_classes))
