"""Estimators that predict a distribution of labels: their means, classes and probabilities."""

from typing import Any

import numpy as np

from bdr_stan.bags import BagsLike
from bdr_stan.estimators.base import BagClassifier, BagRegressor
from bdr_stan.types import Array


class ProbabilisticRegressor(BagRegressor):
    """Base of regressors that have `predictive`."""

    predictive: Any

    def predict(self, bags: BagsLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Posterior predictive mean of each bag's label.

        Returns
        -------
        mean : array, shape (n,), units of y
        sd : array, shape (n,), if `return_std`
        """
        predictive = self.predictive(bags)
        return (predictive.mean, predictive.sd) if return_std else predictive.mean


class ProbabilisticClassifier(BagClassifier):
    """Base of classifiers that have `predictive`."""

    predictive: Any
    classes_: Array

    def predict(self, bags: BagsLike) -> Array:
        """Most probable class of each bag.

        Returns
        -------
        array, shape (n,), labels out of `classes_`
        """
        most_probable = np.argmax(self.predict_proba(bags), axis=1)
        return self.classes_[most_probable]

    def predict_proba(self, bags: BagsLike) -> Array:
        """Posterior predictive probability of each class.

        Returns
        -------
        array, shape (n, C), columns in the order of `classes_`
        """
        return self.predictive(bags).probabilities
