"""Functions of the label, along which mean embeddings move: smooth, or contrasts of classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import eigh, helmert

from bdr_stan.types import Array, ArrayLike

_KNOTS = 6
_DIGITS = 3  # of knots; nearer ones, as beside an outlier, would be one to rounding
_BAGS_PER_KNOT = 3  # so that something is left about the curves to learn from
_STEPS = 400  # of the sum that stands for the integral of squared curvature


@dataclass(frozen=True)
class LabelFunctions:
    """Functions B(y) of a label: 1, straight ones, and ones that bend.

    Of numbers: 1, the label in standard deviations from its average, and natural cubic splines,
    the smoothest first, all orthonormal over the training labels; beyond these they stay. Of
    classes, given as codes 0, 1, ..: 1 and the contrasts of Helmert.

    Attributes
    ----------
    centre, unit : float
        Average and standard deviation of the training labels; 0 and 1 of classes.
    knots : array, shape (m,), in units of the label so moved; the codes of classes
    transform : array, shape (m, J - 1 or J - 2)
        The values at the knots of contrasts, or of the functions that bend.
    n_straight : int
        How many functions after the first do not bend.
    smooth : array, shape (J,)
        Prior standard deviation of each function's coefficients, relative to others of its kind.
    """

    centre: float
    unit: float
    knots: Array
    transform: Array
    n_straight: int
    smooth: Array

    def __call__(self, y: ArrayLike) -> Array:
        """Values of the functions at labels, shape (n,) -> (n, J)."""
        y = np.asarray(y, float)
        one = np.ones(len(y))
        if self.of_classes:
            return np.column_stack([one, self.transform[y.astype(int)]])
        # Beyond the labels seen no curve goes on: an odd small bag must not be taken for more than
        # any label there was.
        u = np.clip((y - self.centre) / self.unit, self.knots[0], self.knots[-1])
        spline = CubicSpline(self.knots, self.transform, bc_type="natural")
        return np.column_stack([one, u, spline(u)])

    @property
    def of_classes(self) -> bool:
        """Whether labels are codes of classes."""
        return self.transform.shape[1] == len(self.smooth) - 1

    def constants(self) -> dict[str, tuple[ArrayLike, list[str]]]:
        """The arrays under the names and dimensions by which a fit keeps them."""
        return {
            "label_centre": (self.centre, []),
            "label_unit": (self.unit, []),
            "label_knots": (self.knots, ["knot"]),
            "label_transform": (self.transform, ["knot", "spline"]),
            "n_straight": (self.n_straight, []),
            "smooth": (self.smooth, ["function"]),
        }

    @classmethod
    def of_constants(cls, constants: Mapping[str, Array]) -> Self:
        """The functions from the arrays that a fit keeps."""
        return cls(
            float(constants["label_centre"]),
            float(constants["label_unit"]),
            constants["label_knots"],
            constants["label_transform"],
            int(constants["n_straight"]),
            constants["smooth"],
        )


def functions_of_numbers(y: Array) -> LabelFunctions:
    """Smooth functions of labels that are numbers.

    Splines have knots at six labels, evenly spaced quantiles, at fewer where labels coincide or
    are few.
    Of the functions that bend, the mean squared curvature is one over the squared prior sd
    (Demmler and Reinsch 1975), so that the curves are smoothing splines.

    Parameters
    ----------
    y : array, shape (n,), not all equal
    """
    centre, unit = float(np.mean(y)), float(np.std(y))
    u = (y - centre) / unit
    # Knots are labels: a function that is 0 at all labels would bend as it likes between them.
    n_knots = int(np.clip(len(u) // _BAGS_PER_KNOT, 2, _KNOTS))
    quantiles = np.quantile(u, np.linspace(0, 1, n_knots), method="nearest")
    knots = np.unique(np.round(quantiles, _DIGITS))
    spline = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    steps = np.linspace(knots[0], knots[-1], _STEPS)
    bends = spline(steps, 2)
    values = spline(u)
    gram = values.T @ values / len(u) + 1e-10 * np.eye(len(knots))
    curvature, transform = eigh(bends.T @ bends / len(steps), gram)
    # The first two have no curvature: they span 1 and the label itself.
    curvature, transform = curvature[2:], transform[:, 2:]
    relative = np.sqrt(curvature[:1] / curvature)
    return LabelFunctions(centre, unit, knots, transform, 1, np.r_[1.0, 1.0, relative])


def functions_of_classes(n_classes: int) -> LabelFunctions:
    """Contrasts of classes, which are given as codes 0, 1, .. ."""
    contrasts = np.sqrt(n_classes) * helmert(n_classes).T
    codes = np.arange(float(n_classes))
    return LabelFunctions(0.0, 1.0, codes, contrasts, n_classes - 1, np.ones(n_classes))
