"""Predictions that several estimators share: functions that their classes carry as methods.

They need no more of an estimator than its `predictive` and, for classes, its `classes_`.
"""

from typing import Any

import numpy as np

from bdr_stan.bags import BagsLike
from bdr_stan.types import Array


def predict_mean(
    self: Any, bags: BagsLike, return_std: bool = False
) -> Array | tuple[Array, Array]:
    """Posterior predictive mean of each bag's label.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)
    return_std : bool, default False
        Also return the predictive standard deviation.

    Returns
    -------
    mean : array, shape (n,), units of y
    sd : array, shape (n,), if `return_std`
    """
    predictive = self.predictive(bags)
    return (predictive.mean, predictive.sd) if return_std else predictive.mean


def predict_class(self: Any, bags: BagsLike) -> Array:
    """More probable class of each bag.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)

    Returns
    -------
    array, shape (n,), labels out of `classes_`
    """
    most = np.argmax(self.predictive(bags).probabilities, axis=1)
    return self.classes_[most]


def predict_proba(self: Any, bags: BagsLike) -> Array:
    """Posterior predictive probability of each class.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)

    Returns
    -------
    array, shape (n, C), columns in the order of `classes_`
    """
    return self.predictive(bags).probabilities
