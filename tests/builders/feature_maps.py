"""Feature maps beside the plain functions that give the features of one point."""

import numpy as np

from bdr_stan.kernels import (
    ConcatenatedFeatures,
    LandmarkFeatures,
    NystromFeatures,
)
from builders.kernels import gram, kernel_and_definition


def at_landmarks(name, u):
    """Values at landmarks of a kernel of `builders.kernels.DEFINITIONS`."""
    kernel, definition = kernel_and_definition(name)
    return LandmarkFeatures(kernel, u), lambda x: np.array([definition(x, v) for v in u])


def nystrom(name, u):
    """Their Nystrom features."""
    kernel, definition = kernel_and_definition(name)
    K = gram(definition, u, u).astype(float)
    L = np.linalg.cholesky(K + 1e-6 * np.trace(K) / len(u) * np.eye(len(u)))
    inverse = np.linalg.inv(L)
    return NystromFeatures(kernel, u), lambda x: inverse @ [definition(x, v) for v in u]


def side_by_side(*pairs):
    maps, rows = zip(*pairs)
    return ConcatenatedFeatures(maps), lambda x: np.concatenate([row(x) for row in rows])


# From landmarks, shape (d, 3), a map and the features of one point.
FEATURE_MAPS = {
    "landmarks": lambda u: at_landmarks("rbf", u),
    "landmarks, a length a column": lambda u: at_landmarks("rbf, a length a column", u),
    "landmarks of a sum": lambda u: at_landmarks("sum", u),
    "nystrom": lambda u: nystrom("rbf", u),
    "nystrom of a product": lambda u: nystrom("product", u),
    "one alone": lambda u: side_by_side(at_landmarks("matern32", u)),
    "several side by side": lambda u: side_by_side(
        at_landmarks("rbf", u),
        at_landmarks("cauchy", u[:2]),
        nystrom("columns", u),
        at_landmarks("sum", u),
    ),
    "side by side in side by side": lambda u: side_by_side(
        nystrom("rbf", u), side_by_side(at_landmarks("cauchy", u[:1]), nystrom("product", u))
    ),
}
