"""Data of the sections of a report: a fit, and its bags if they were passed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bdr_stan.aggregate.bag_effects import have_mean_points
from bdr_stan.bags import Bags, PartitionedBags
from bdr_stan.bags.base import BagsBase
from bdr_stan.embedding.replicates import effective_sizes
from bdr_stan.labels import OF_TIMES
from bdr_stan.metrics import size_classes
from bdr_stan.questions.protocol import check_has_bags
from bdr_stan.results.leave_one_out import LeaveOneOut, class_predictive
from bdr_stan.types import Array, DataFrame

_DRAWS = 1000  # of labels, if a fit has no name


@dataclass(frozen=True)
class FitSummary:
    """A fit with a posterior, its bags in the order of the fit (or None), and the labels' name."""

    model: Any
    bags: BagsBase | None
    label: str

    @cached_property
    def samples(self) -> "dict[str, FitSummary]":
        """The same for each sample of the bags by its name; of one sample it has no name."""
        parts = {}
        for name in self.model.result_.samples:
            bags = None if self.bags is None else self.bags.of_sample(name)
            parts[name] = replace(self, model=self.model.fit_of_sample(name), bags=bags)
        return parts

    @property
    def name(self) -> str:
        """Class name of the estimator."""
        return type(self.model).__name__

    @property
    def constants(self) -> dict[str, Any]:
        """Constant data of the fit."""
        return self.model.result_.constants

    @property
    def columns(self) -> list[str]:
        """Columns of the table of the points, or of the points."""
        columns = self.model.columns_
        if columns is not None and columns.transformer is None:
            return list(columns.names)
        if hasattr(self.model, "feature_names_in_"):
            return list(map(str, self.model.feature_names_in_))
        return [f"column {k}" for k in range(self.model.n_features_in_)]

    @cached_property
    def ids(self) -> Array:
        """Ids of the bags, shape (n,)."""
        return self.model.result_.groups["observed_data"]["bag"].values

    @property
    def file(self) -> str | None:
        """Path of the bags' file."""
        return self.model.result_.settings.get("file") or getattr(self.bags, "file", None)

    @property
    def id_name(self) -> str:
        """What the ids name."""
        columns = self.model.columns_
        return "bag" if columns is None or columns.bag is None else str(columns.bag)

    @property
    def sizes(self) -> Array | None:
        """Points per bag in all samples, effective if weights count, shape (n,); or None."""
        kept = self.constants.get("bag_size")
        if kept is not None:
            return kept.reshape(len(kept), -1).sum(axis=1)
        return None if self.bags is None else self.bags.sizes

    @property
    def design_effects(self) -> Array | None:
        """Points over effective points per bag, (n,); None if all are 1, or without the bags."""
        if self.bags is None or self.sizes is None or np.allclose(self.bags.sizes, self.sizes):
            return None
        return self.bags.sizes / self.sizes

    @property
    def classes(self) -> Array | None:
        """Classes of the labels, or None for numbers."""
        return getattr(self.model, "classes_", None)

    @cached_property
    def label_data(self) -> dict[str, Array]:
        """Trials or exposure of the labels, shape (n,), by name; none for most fits."""
        names = ("trials", "exposure")
        return {name: self.constants[name] for name in names if name in self.constants}

    @property
    def per(self) -> str | None:
        """What labels are divided by in the report: the trials or the exposure, by their column."""
        columns = self.model.result_.settings.get("label_columns", {})
        return next((columns.get(name, name) for name in self.label_data), None)

    @cached_property
    def labels(self) -> Array:
        """Label of each bag, shape (n,), per trial or unit of exposure."""
        kept = self.model.result_.labels
        if self.classes is not None:
            return self.classes[kept.astype(int)]
        return kept / next(iter(self.label_data.values()), 1.0)

    @cached_property
    def loo(self) -> LeaveOneOut | None:
        """Leave-one-out predictions of the labels, or None if the fit has no draws for them."""
        loo = self.loo_of_counts
        divisors = list(self.label_data.values())
        return loo.divided_by(divisors[0]) if divisors and loo else loo

    @cached_property
    def loo_of_counts(self) -> LeaveOneOut | None:
        """The same of labels that are not divided by trials or exposures."""
        return LeaveOneOut.from_groups(self.model.result_.groups)

    @property
    def are_times(self) -> bool:
        """Whether labels are times to events that may be censored or left-truncated."""
        return not set(OF_TIMES).isdisjoint(self.model.result_.constants)

    @cached_property
    def predictive(self) -> Any:
        """Predictions of the bags, or None without draws of labels and bags, and of times."""
        import pandas as pd

        if self.are_times:
            return None
        if self.loo is not None:
            if self.classes is None:
                return self.loo
            return class_predictive(self.classes, self.loo.class_probabilities(len(self.classes)))
        if self.bags is None or self.needs_trials:
            return None
        if self.label_data or getattr(self.model, "counts_labels", False):
            by_id = {name: pd.Series(v, self.bags.index) for name, v in self.label_data.items()}
            draws = self.model.predictive(self.bags, **by_id).sample(_DRAWS, seed=0)
            divisor = next(iter(self.label_data.values()), 1.0)
            return LeaveOneOut(draws / divisor, self.labels)
        if hasattr(self.model, "predict_points"):
            # As new bags: the fitted bag effects depend on the labels.
            return self.model.predictive(self.bags, district=False)
        return self.model.predictive(self.bags)

    def table_by_size(self, row: Callable[[Array], dict[str, Any]]) -> "DataFrame":
        """Table of `row(mask)` per class of bag sizes and, last, for all bags."""
        import pandas as pd

        classes = {} if self.sizes is None else size_classes(self.sizes)
        classes |= {"all": np.ones(len(self.labels), bool)}
        rows = {name: {"bags": int(mask.sum()), **row(mask)} for name, mask in classes.items()}
        table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("points in a bag")
        return table.astype({"bags": int})

    @property
    def needs_trials(self) -> bool:
        """Whether predictions need trials that neither the fit nor its bags include."""
        return not self.label_data and getattr(self.model, "needs_trials", False)


def without_points(what: str) -> str:
    """Sentence on the parts that a report lacks, as neither the fit nor its bags have points."""
    return (
        "The fit does not include its points: pass its bags (bags= in Python, the table on the "
        f"command line) for {what}."
    )


def fit_summary(model: Any, bags: BagsBase | None, label: str) -> FitSummary:
    """Summary of a fit; selects the training bags; ValueError unless `bags` include them."""
    check_has_bags(model, "report_html")
    if bags is not None:
        lacking = [name for name in model.result_.samples if name not in bags.samples]
        if lacking:
            raise ValueError(
                f"the bags have no {lacking[0]!r}: pass the bags that the model was fitted to"
            )
        bags = _in_order(bags, model)
        for name in model.result_.samples:
            _check_sample(model.fit_of_sample(name), bags.of_sample(name))
    fit = FitSummary(model, bags, label)
    name = label.partition(",")[0]  # without its unit
    return fit if fit.per is None else replace(fit, label=f"{name} / {fit.per}")


def _check_sample(model, bags):
    """Raise ValueError unless bags with one sample are the training bags of a fit, in order."""
    bags = _in_order(bags, model)
    bags = bags.with_cluster_variances(model.result_.settings.get("cluster_variances"))
    if "bag_size" in model.result_.constants:
        features = getattr(model, "feature_map_", None)
        sizes = bags.effective_sizes if features is None else effective_sizes(bags, features)
        _check_same_sizes(bags, sizes, model.result_.constants["bag_size"])
    if isinstance(bags, Bags) and not _same_points(model, bags):
        raise ValueError(
            "the bags have ids of training bags, but other points: pass the bags that "
            "the model was fitted to"
        )


def _in_order(bags: Any, model: Any) -> Any:
    ids = list(map(str, model.result_.groups["observed_data"]["bag"].values))
    position = {str(name): i for i, name in enumerate(bags.index)}
    missing = [name for name in ids if name not in position]
    if missing or (bags.ids is None and len(bags) != len(ids)):
        what = f"without bag {missing[0]!r}" if missing else "which have no ids"
        raise ValueError(
            f"the report is of a fit to {len(ids)} bags, but there are {len(bags)}, {what}: pass "
            "the bags that the model was fitted to"
        )
    order = np.array([position[name] for name in ids])
    return bags if np.array_equal(order, np.arange(len(bags))) else bags.take(order)


def _check_same_sizes(bags: Bags | PartitionedBags, sizes_now: Array, sizes: Array) -> None:
    """Raise ValueError if a bag has another effective size, in `sizes_now`, than in the fit."""
    other = np.flatnonzero(~np.isclose(sizes_now, sizes))
    if len(other):
        i = other[0]
        raise ValueError(
            f"{bags.name(i)} has {sizes_now[i]:g} points, but {sizes[i]:g} in the fit "
            f"({len(other)} in total): pass the bags that the model was fitted to"
        )


def _same_points(model: Any, bags: Bags) -> bool:
    """Whether the bags have the mean points, or the average embedding, of the fit."""
    constants = model.result_.constants
    if "mean_point" in constants:
        points = constants["mean_point"]
        return bool(have_mean_points(bags, points, np.abs(points).max(axis=0)).all())
    has_average = str(getattr(model, "prior_mean", "average")) == "average"
    if not hasattr(model, "coordinates_") or not has_average:
        return True
    mean, m0 = model.embed(bags).mean.mean(axis=0), model.coordinates_.m0
    return bool(np.allclose(mean, m0, rtol=1e-5, atol=1e-6 * np.abs(m0).max()))
