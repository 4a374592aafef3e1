"""Base of the papers' systems that are fitted to bags: what new bags must agree with."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import Bags, BagsLike, as_bags, values_of_bags
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.bags.record import BagsRecord
from bdr_stan.types import ArrayLike, Seed, check_seed

Validation = tuple[BagsLike, ArrayLike] | None  # bags and their labels


class OnBags(BaseEstimator):
    """Base of the papers' systems; a fit is the attributes that end in an underscore."""

    record_: BagsRecord
    n_features_in_: int
    feature_names_in_: np.ndarray

    def keep_record(self, bags: Bags) -> None:
        """Keep the columns of the training bags, and whether these have weights."""
        self.record_ = BagsRecord.from_bags(bags)
        self.n_features_in_ = bags.n_features
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if bags.features is not None:
            self.feature_names_in_ = np.asarray(bags.features, object)

    def like_training(self, bags: BagsLike, *, need_weights: bool = True) -> Bags:
        """New bags; raises unless they have the columns and weights of the training bags."""
        check_is_fitted(self, "record_")
        record = self.record_
        bags = as_bags(bags).like(record.columns)
        bags.check_like(record.n_features, record.features, record.columns)
        check_weights(bags, need_weights and record.weighted)
        return bags

    def seed_of(self, seed: Seed) -> Any:
        """Seed of a fit, else the parameter `random_state`."""
        default = self.get_params(deep=False)["random_state"]
        for name, value in (("seed", seed), ("random_state", default)):
            if not isinstance(value, np.random.Generator):
                check_seed(value, name)
        return default if seed is None else seed


class RegressorOnBags(RegressorMixin, OnBags):
    """Base of those with numeric labels."""

    def score(
        self, bags: BagsLike, y: ArrayLike | str, sample_weight: ArrayLike | None = None
    ) -> float:
        """R^2 of the predicted labels; labels and weights are matched to the ids of bags."""
        return super().score(*scored(self, bags, y, sample_weight))


def scored(model: OnBags, bags: BagsLike, y: ArrayLike | str, sample_weight: Any) -> Any:
    """Bags, labels and weights for a score, matched to the ids of the bags."""
    bags = model.like_training(bags)
    weights = match_to_ids(sample_weight, bags.ids, "sample_weight")
    return bags, values_of_bags(bags, y, "y"), weights


def check_weights(bags: Bags, needed: bool) -> None:
    """Raise ValueError where bags have no weights, but those of the fit had."""
    if needed and not bags.weighted:
        raise ValueError(
            "the bags have no weights, but the training bags had: give the points their weights, "
            "of 1 if all count equally"
        )
