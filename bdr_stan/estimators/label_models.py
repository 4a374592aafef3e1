"""Kinds of labels: how they are read with what belongs to them, and their predictive distribution.

A label model is the only place that differs between families, and between numbers and classes.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdr_stan.aggregate.labels import check_count_labels, checked_trials
from bdr_stan.aggregate.likelihoods import Likelihood
from bdr_stan.aggregate.links import Link
from bdr_stan.bags import Bags, check_classes, check_labels, label_sd_values, values_of_bags
from bdr_stan.bags.checks import as_vector, check_each, checked_numbers, near_names, plain
from bdr_stan.bags.labels import (
    check_finite_labels,
    check_plausible,
    class_labels,
    classes_and_codes,
    ordered_categories,
)
from bdr_stan.bags.matching import label_name
from bdr_stan.bags.missing_codes import CODES_OF_BAGS, ends_of, warn_of_codes
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.families import FAMILIES, TIMES, Family, Ordinal
from bdr_stan.families.ordinal import FEWEST_CATEGORIES, MOST_CATEGORIES
from bdr_stan.labels import OF_TIMES, Labels
from bdr_stan.models.label_errors import spread_of_true_labels
from bdr_stan.models.latent import class_predictive, label_predictive, outcome_predictive
from bdr_stan.posterior.priors import CLASSES, REGRESSION, family_texts
from bdr_stan.predictive import LognormalPredictive, Predictive
from bdr_stan.types import Array, ArrayLike
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    import pandas as pd

# On a log or logit scale: a factor of 5e21; a larger offset must be on another scale.
_LARGEST_OFFSET = 50.0
_OFFSETS = "an offset is finite and on the scale of the linear predictor: a logarithm or log odds"
_POSITIVE = "the lognormal family needs labels > 0: leave these bags out, or use family='normal'"
_EVENTS = "an event is 1 if it was observed at the time, 0 if the time is censored"
_ENTRIES = "an entry is a time from 0, below the label of its bag, when it came under observation"
_MOST_INTEGRATED_DRAWS = 1000  # whose densities are integrals


class LabelModel:
    """Labels of one kind; messages call their estimator, or their family, `owner`."""

    distribution: Family | None = None  # given the linear predictor, if neither normal nor classes
    takes: tuple[str, ...] = ()  # what `fit` accepts with each label, out of `WITH_LABELS`
    scales: tuple[str, ...] = ("sigma", "sigma_point")  # of the likelihood, with draws
    prior_texts: Mapping[str, tuple[str, str, str]] = REGRESSION
    has_classes: ClassVar[bool] = False
    first_class: ClassVar[int] = 0  # number of the first in plain programs
    logarithms: ClassVar[bool] = False  # whether the model is of logarithms of the labels
    most_draws: int | None = None  # that predictions use
    is_ordered: ClassVar[bool] = False  # whether classes are ordered
    predictor: str = "label"  # what functions of the points add to, in words
    facts: Mapping[str, str] = {}  # for the table of a report

    def __init__(self, owner: str):
        self.owner = owner

    @property
    def is_count(self) -> bool:
        """Whether labels have probabilities as counts, not a density or classes."""
        return self.distribution is not None and self.distribution.likelihood.is_count

    @property
    def is_normal(self) -> bool:
        """Whether labels, or their logarithms, are normal given the linear predictor."""
        return self.distribution is None and not self.has_classes

    @property
    def is_linear(self) -> bool:
        """Whether labels themselves are normal given the linear predictor."""
        return self.is_normal and not self.logarithms

    def predictor_meaning(self, classes: Any) -> str:
        """The scale of the linear predictor in words, if labels have another one."""
        return ""

    def checked(self, bags: Bags, y: ArrayLike) -> Any:
        """Labels `y` of `bags` that are valid, shape (n,), in their order."""
        return check_labels(bags, y)

    def checked_errors(self, bags: Bags, y: Array, label_sd: ArrayLike | str) -> Array:
        """Known standard errors of labels `y`, shape (n,)."""
        return label_sd_values(bags, label_sd)

    def coded(self, labels: Any) -> tuple[Array, Array | None]:
        """Labels as numbers, shape (n,), and the classes that they encode, if any."""
        return np.asarray(labels, float), None

    def read(
        self,
        bags: Bags,
        y: ArrayLike,
        *,
        label_sd: ArrayLike | str | None = None,
        **label_data: ArrayLike | str | None,
    ) -> Labels:
        """Labels of training bags and what belongs to them; an error if they do not fit."""
        labels = self.checked(bags, y)
        errors = None if label_sd is None else self.checked_errors(bags, labels, label_sd)
        required = [name for name in self.takes if name == "trials"]
        arrays = self._arrays(bags, dict.fromkeys(required) | label_data, required, labels)
        if "event" in arrays and not arrays["event"].any():
            raise ValueError(f"all {len(labels)} times are censored: give events of 1 as well")
        columns = {name: value for name, value in label_data.items() if isinstance(value, str)}
        values, classes = self.coded(labels)
        return Labels(values, classes, errors, **arrays, name=label_name(y), columns=columns)

    def of_new(
        self, bags: Bags, label_data: Mapping[str, Any], required: Collection[str], classes: Any
    ) -> Labels:
        """What labels of bags to predict need, from arrays or names of columns."""
        return Labels(classes=classes, **self._arrays(bags, label_data, required))

    def of_model(self, labels: Labels) -> Labels:
        """Labels in the form of the model."""
        return replace(labels, y=np.log(labels.y)) if self.logarithms else labels

    def of_program(self, labels: Labels) -> Labels:
        """Labels in the form of plain programs."""
        return replace(labels, y=labels.y.astype(int)) if self.is_count else self.of_model(labels)

    def predictive(
        self,
        coordinates: Coordinates,
        embedding: Embedding,
        labels: Labels,
        draws: Mapping[str, Array],
    ) -> Any:
        """Predictive distribution of embedded bags under draws of intercept, w and scales."""
        return label_predictive(
            coordinates,
            embedding,
            known_variance=labels.error_variance,
            kind=LognormalPredictive if self.logarithms else Predictive,
            **draws,
        )

    def _arrays(self, bags, label_data, required, labels=None):
        """What belongs to the labels of bags, by name, shape (n,), checked, also against them."""
        arrays = {}
        for name, values in label_data.items():
            if name in required:
                self.check_has(name, values)
            if values is None:
                continue
            if name not in self.takes:
                raise TypeError(self._refusal(name))
            values = values_of_bags(bags, values, name)
            if labels is None and np.ndim(values) == 0:  # of bags to predict one number for all
                values = np.full(len(bags), values)
            if name == "trials":
                arrays[name] = checked_trials(bags, values, labels)
                continue
            numbers = as_vector(checked_numbers(values, name, bags.ids), len(bags), name, "bag")
            if name == "exposure":
                good, rule = numbers > 0, "exposure is finite and > 0: leave others out"
            elif name == "event":
                good, rule = np.isin(numbers, (0, 1)), _EVENTS
            elif name == "entry":
                late = np.zeros(len(bags), bool) if labels is None else numbers >= labels
                good, rule = (numbers >= 0) & ~late, _ENTRIES
            else:
                good, rule = np.abs(numbers) <= self._largest_offset, _OFFSETS
            check_each(bags, numbers, np.isfinite(numbers) & good, name, rule)
            arrays[name] = numbers
        ends = {name: ends_of(values) for name, values in arrays.items() if name != "trials"}
        warn_of_codes(ends, "bags", CODES_OF_BAGS)  # `checked_trials` warns of those
        return arrays

    _largest_offset = np.inf

    def check_has(self, name: str, values: Any) -> None:
        """Raise ValueError if trials, exposure or offset of bags are missing."""
        if values is None:
            raise ValueError(
                f"{self.owner} needs {name} of these bags: give {name}=, one number per bag, to "
                "fit, predict, predictive, score or contrast, or give fit the name of a column of "
                "the bags' metadata, which all predictions then use; for an array, scikit-learn's "
                "searches and folds need sklearn.set_config(enable_metadata_routing=True) and "
                f"set_fit_request, set_predict_request and set_score_request({name}=True)"
            )

    def _refusal(self, name):
        """Message if trials, exposure or offset do not go with the labels."""
        return f"{self.owner} takes no {name}: leave it out"


class FamilyLabels(LabelModel):
    """Numbers of a family that is a parameter of the estimator; here the normal family."""

    def __init__(self, family: str):
        super().__init__(f"family={family!r}")
        self.facts = {} if family == "normal" else {"family": family}

    def _refusal(self, name):
        if name == "offset":
            change = (
                "divide the labels by its exponential"
                if self.logarithms
                else "subtract it from the labels"
            )
            return f"{self.owner} takes no offset: {change}"
        families = {**FAMILIES, **TIMES}.values()
        others = " and ".join(repr(f.name) for f in families if name in f.takes)
        if not others:
            return super()._refusal(name)
        return (
            f"{self.owner} takes no {name}, which {others} do: leave {name}= out, or "
            "choose one of these families"
        )


class LognormalLabels(FamilyLabels):
    """Numbers > 0 with normal logarithms; with an event or entry they are `TIMES`."""

    takes = OF_TIMES
    logarithms = True
    predictor = "linear predictor"

    def predictor_meaning(self, classes: Any) -> str:
        return "the logarithm of the expected label"

    def checked(self, bags: Bags, y: ArrayLike) -> Array:
        labels = super().checked(bags, y)
        check_each(bags, labels, labels > 0, "label", _POSITIVE)
        return labels

    def checked_errors(self, bags: Bags, y: Array, label_sd: ArrayLike | str) -> Array:
        raise ValueError(_NO_ERRORS.format(self.owner))


class OutcomeLabels(FamilyLabels):
    """Counts, shares and other numbers with a distribution given the linear predictor."""

    most_draws = _MOST_INTEGRATED_DRAWS

    def __init__(self, distribution: Family):
        super().__init__(distribution.name)
        self.distribution: Family = distribution
        self.takes = distribution.takes
        self.scales = tuple(distribution.likelihood.scales)
        self.prior_texts = family_texts(distribution.likelihood.scales)
        if distribution.link != "identity":
            self._largest_offset, self.predictor = _LARGEST_OFFSET, "linear predictor"

    def predictor_meaning(self, classes: Any) -> str:
        scales = {"log": "the logarithm", "logit": "the log odds"}
        scale = scales.get(self.distribution.link)
        return "" if scale is None else f"{scale} of the expected label"

    checked_errors = LognormalLabels.checked_errors

    def checked(self, bags: Bags, y: ArrayLike) -> Any:
        """Labels that the family can have; counts may be equal, as trials or exposures differ."""
        family = self.distribution
        if not family.likelihood.is_count:
            labels, (low, high) = check_labels(bags, y), family.bounds
            check_each(bags, labels, (low < labels) & (labels < high), "label", family.needs)
            return labels
        labels = check_finite_labels(bags, y)
        check_count_labels(bags, labels, family.needs)
        return labels

    def predictive(self, coordinates, embedding, labels, draws):
        return outcome_predictive(coordinates, embedding, labels, self.distribution, draws)


class OrdinalLabels(OutcomeLabels):
    """Ordered categories."""

    has_classes = True
    is_ordered = True
    first_class = 1

    def checked(self, bags: Bags, y: ArrayLike) -> "pd.Categorical":
        return check_categories(bags, y)

    def predictor_meaning(self, classes: Any) -> str:
        return "which is large where high categories are likely"

    def coded(self, labels: Any) -> tuple[Array, Array | None]:
        classes, codes = classes_and_codes(labels)
        return codes, classes

    def of_program(self, labels: Labels) -> Labels:
        return replace(labels, y=labels.y.astype(int) + self.first_class)


class ClassLabels(LabelModel):
    """Two classes, the second of probability F(predictor), or with `several` more."""

    has_classes = True
    scales = ()
    prior_texts = CLASSES
    predictor = "latent function"

    def __init__(
        self,
        owner: str,
        log_cdf: Callable[[Array], Array] | None = None,  # log F
        *,
        several: bool = False,
    ):
        super().__init__(owner)
        self.log_cdf, self.several = log_cdf, several

    def predictor_meaning(self, classes: Any) -> str:
        return f"which is large where the class {classes[1]!s} is likely"

    def checked(self, bags: Bags, y: ArrayLike) -> Array:
        return check_classes(bags, y, several=self.several)

    coded, of_program = OrdinalLabels.coded, OrdinalLabels.of_program

    def predictive(self, coordinates, embedding, labels, draws):
        return class_predictive(coordinates, embedding, labels.classes, self.log_cdf, **draws)


class TotalLabels(LabelModel):
    """Totals of bags, of a likelihood given the sum of the rates of their points."""

    scales = ()

    def __init__(self, likelihood: Likelihood, link: Link, *, bound: bool = False):
        super().__init__(f"the {likelihood.name} likelihood")
        self.likelihood, self.link = likelihood, link
        self.bound = bound  # whether the fit maximises a variational bound
        self.takes = ("trials",) * likelihood.has_trials

    @property
    def is_count(self) -> bool:
        return self.likelihood.is_count

    def checked(self, bags: Bags, y: ArrayLike) -> Array:
        return self.likelihood.check_labels(bags, y)

    def checked_errors(self, bags: Bags, y: Array, label_sd: ArrayLike | str) -> Array:
        if not self.likelihood.takes_errors:
            raise TypeError(
                f"the {self.likelihood.name} likelihood has no scale that label_sd could add to: "
                "leave them out, or use 'negative_binomial' for counts, 'gamma' or 'normal' for "
                "totals"
            )
        if self.bound and not self.link.is_linear:
            raise TypeError("method='vb' takes label_sd only with link 'identity': use 'laplace'")
        errors = super().checked_errors(bags, y, label_sd)
        spread_of_true_labels(y / bags.totals, (errors / bags.totals) ** 2)
        return errors

    def _refusal(self, name):
        advice = "leave it out" if name == "trials" else "give the points of the bags weights"
        return f"{self.owner} takes no {name}: {advice}"


_NO_ERRORS = "label_sd are errors of normal labels, not of {}: leave them out"


def labels_of_family(family: Any, n_classes: int | None = None, times: bool = False) -> LabelModel:
    """The label model of a parameter `family`, of a fit with its `n_classes`, or `OF_TIMES`."""
    names = ("normal", "lognormal", *FAMILIES)
    if not isinstance(family, str) or (family := family.replace(" ", "_")) not in names:
        raise ValueError(
            f"there is no family {family!r} (classes are for BDRClassifier); "
            f"{near_names(family, names)}"
        )
    if family == "normal":
        return FamilyLabels(family)
    if family == "lognormal" and not times:
        return LognormalLabels(family)
    if family == "ordinal":
        return OrdinalLabels(FAMILIES[family] if n_classes is None else Ordinal(n_classes))
    return OutcomeLabels(TIMES[family] if times else FAMILIES[family])


def check_categories(bags: Bags, y: ArrayLike) -> "pd.Categorical":
    """Labels of ordered categories, shape (n,); numbers are ordered by size.

    Categories that no bag has stay, with a warning: folds of cross-validation may lack some.

    Raises
    ------
    TypeError
        Text without an order, or categories that are neither text nor numbers.
    ValueError
        Missing labels, or too few or too many categories.
    """
    import pandas as pd

    y = values_of_bags(bags, y, "y")
    labels = ordered_categories(y)
    if labels is not None and not all(isinstance(name, str | Number) for name in labels.categories):
        raise TypeError(
            f"categories are text or numbers, found {labels.categories[0]!r}: pass "
            "y.cat.rename_categories(str)"
        )
    values = class_labels(bags, y)
    if labels is None and values.dtype.kind in "iuf":
        check_plausible(bags, values.astype(float))
    if labels is None:
        if values.dtype.kind == "U":
            raise TypeError(
                "family='ordinal' needs the order of labels that are text: pass pd.Categorical(y, "
                "categories=['lowest', ..., 'highest'], ordered=True), or a Series of it"
            )
        labels = pd.Categorical(values, ordered=True)
    used, names = np.unique(labels.codes), labels.categories
    if len(used) < FEWEST_CATEGORIES:
        raise ValueError(
            f"family='ordinal' needs labels of at least {FEWEST_CATEGORIES} categories, found "
            f"{len(used)}: use BDRClassifier or BLRClassifier for two"
        )
    if len(names) > MOST_CATEGORIES:
        raise ValueError(
            f"family='ordinal' takes at most {MOST_CATEGORIES} categories, found {len(names)}: "
            "merge some, or use family='normal' for numbers"
        )
    unused = names.delete(used)
    if len(unused):
        warn(
            f"no bag has the label {plain(unused[0])!r} ({len(unused)} such categories): only the "
            "prior gives it a probability; y.cat.remove_unused_categories() leaves it out"
        )
    return labels
