"""What the sections of a report are written from: a fit, and its bags where they are given."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bdr_stan.aggregate.bag_effects import have_mean_points
from bdr_stan.bags import Bags, PartitionedBags
from bdr_stan.results.leave_one_out import LeftOut, LeftOutClasses
from bdr_stan.types import Array


@dataclass(frozen=True)
class Told:
    """A fit with a posterior, and what is known of its bags.

    Attributes
    ----------
    model : fitted estimator
    bags : Bags of the fit, in its order, or None
    label : str, what the labels are
    """

    model: Any
    bags: Bags | PartitionedBags | None
    label: str

    @property
    def name(self) -> str:
        """Class of the estimator."""
        return type(self.model).__name__

    @property
    def constants(self) -> dict[str, Any]:
        """What the fit keeps beside its draws."""
        return self.model.result_.constants

    @property
    def columns(self) -> list[str]:
        """Columns of the table that points were made of, else of the points."""
        columns = self.model.columns_
        if columns is not None and columns.transformer is None:
            return list(columns.names)
        if hasattr(self.model, "feature_names_in_"):
            return list(map(str, self.model.feature_names_in_))
        return [f"column {k}" for k in range(self.model.n_features_in_)]

    @cached_property
    def ids(self) -> Array:
        """What names each bag, shape (n,)."""
        return self.model.result_.groups["observed_data"]["bag"].values

    @property
    def sizes(self) -> Array | None:
        """Number of points of each bag, shape (n,), or None if it is not known.

        Where the model takes large bags for surer than small ones, the effective number that
        points with weights make.
        """
        kept = self.constants.get("bag_size")
        return self.bags.sizes if kept is None and self.bags is not None else kept

    @property
    def classes(self) -> Array | None:
        """Classes of the labels, or None of numbers."""
        return getattr(self.model, "classes_", None)

    @cached_property
    def labels(self) -> Array:
        """Label of each bag, shape (n,)."""
        kept = self.model.result_.labels
        return kept if self.classes is None else self.classes[kept.astype(int)]

    @cached_property
    def left_out(self) -> LeftOut | None:
        """Draws of each bag's label without what the fit knows of it, where these are kept."""
        return LeftOut.of(self.model.result_.groups)

    @cached_property
    def predictive(self) -> Any:
        """Predictions of the bags, or None where neither draws nor bags are there for them."""
        if self.left_out is not None:
            if self.classes is None:
                return self.left_out
            return LeftOutClasses(
                self.classes, self.left_out.class_probabilities(len(self.classes))
            )
        if self.bags is None or self.needs_trials:
            return None
        if hasattr(self.model, "predict_points"):
            # As new bags: their effects are those of their labels.
            return self.model.predictive(self.bags, district=False)
        return self.model.predictive(self.bags)

    @property
    def needs_trials(self) -> bool:
        """Whether predictions need numbers that neither the fit nor its bags have."""
        return getattr(self.model, "needs_trials", False)


def told_of(model: Any, bags: Bags | PartitionedBags | None, label: str) -> Told:
    """What a report tells of, with the bags in the order of the fit.

    Parameters
    ----------
    model : fitted estimator
    bags : Bags, those of the fit and perhaps others, or None
    label : str

    Raises
    ------
    ValueError : a bag of the fit is missing or of another size; more bags without ids.
    """
    if bags is not None:
        ids = model.result_.groups["observed_data"]["bag"].values
        bags = _in_order(bags, [str(each) for each in ids])
        if "bag_size" in model.result_.constants:
            _check_same_sizes(bags, model.result_.constants["bag_size"])
        if isinstance(bags, Bags) and not _same_points(model, bags):
            raise ValueError(
                "the bags have the ids of those of the fit, but other points: pass the bags that "
                "the model was fitted to"
            )
    return Told(model, bags, label)


def _in_order(bags: Bags | PartitionedBags, ids: Sequence[str]) -> Bags | PartitionedBags:
    place = {str(name): i for i, name in enumerate(bags.index)}
    missing = [name for name in ids if name not in place]
    if missing or (bags.ids is None and len(bags) != len(ids)):
        what = f"without bag {missing[0]!r}" if missing else "which have no ids"
        raise ValueError(
            f"the report is of a fit to {len(ids)} bags, but there are {len(bags)}, {what}: pass "
            "the bags that the model was fitted to"
        )
    order = np.array([place[name] for name in ids])
    return bags if np.array_equal(order, np.arange(len(bags))) else bags.take(order)


def _check_same_sizes(bags: Bags | PartitionedBags, sizes: Array) -> None:
    """Raise ValueError where bags have other numbers of points than those of the fit."""
    other = np.flatnonzero(~np.isclose(bags.effective_sizes, sizes))
    if len(other):
        i = other[0]
        raise ValueError(
            f"{bags.name(i)} has {bags.effective_sizes[i]:g} points, but {sizes[i]:g} in the fit "
            f"({len(other)} such in all): pass the bags that the model was fitted to"
        )


def _same_points(model: Any, bags: Bags) -> bool:
    """Whether bags have the mean points, or the average embedding, that the fit kept."""
    kept = model.result_.constants
    if "mean_point" in kept:
        points = kept["mean_point"]
        return bool(have_mean_points(bags, points, np.abs(points).max(axis=0)).all())
    if not hasattr(model, "coordinates_"):
        return True
    mean, m0 = model.embed(bags).mean.mean(axis=0), model.coordinates_.m0
    return bool(np.allclose(mean, m0, rtol=1e-5, atol=1e-6 * np.abs(m0).max()))
