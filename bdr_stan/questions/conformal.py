"""Conformal regions of the labels of new bags."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike
from bdr_stan.bags.checks import as_vector
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.labels import OF_TIMES
from bdr_stan.predictive.classes import ClassPredictive, MulticlassPredictive, class_codes
from bdr_stan.predictive.distributions import check_level, table_of_bags
from bdr_stan.predictive.mixture import label_numbers
from bdr_stan.questions.conformal_bayes import (
    POSITIVE,
    REAL,
    SHARES,
    Compared,
    LabelScale,
    SizeClasses,
    TrainingLabels,
    kept_classes,
    kept_pieces,
)
from bdr_stan.questions.protocol import Fit, check_has_bags
from bdr_stan.results.leave_one_out import GOOD_K
from bdr_stan.types import Array, ArrayLike, DataFrame, is_integer
from bdr_stan.user_warnings import warn

# Draws, evenly spaced: more change regions little; densities of families are integrals, and Stan
# computes a user's.
_MOST_DRAWS, _MOST_COSTLY_DRAWS = 1000, 125
_BY_BOUNDS = {(-np.inf, np.inf): REAL, (0.0, np.inf): POSITIVE, (0.0, 1.0): SHARES}


@dataclass(frozen=True, repr=False)
class ConformalRegions:
    """Base: regions of the labels of n bags; for the attributes see its subclasses."""

    _columns: ClassVar[Callable[[Any], dict[str, Any]]]  # of the table
    _contain: ClassVar[Callable[[Any, Array], Array]]

    level: float
    size_class: Array
    n_like: Array
    sizes_like: Array
    pareto_k: Array
    ids: Array | None
    id_name: str

    def __len__(self) -> int:
        return len(self.size_class)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self)} bags, level {self.level:g}, "
            f"{len(np.unique(self.size_class))} size classes; to_dataframe(), contains(y))"
        )

    def to_dataframe(self) -> DataFrame:
        """The regions in a table with one row per bag.

        Returns
        -------
        pandas DataFrame of n rows, indexed by the bags' ids
            For numbers lower, upper and the number of pieces, for classes labels; size_class; sizes
            of the training bags in this class; n_like; pareto_k.
        """
        columns = {
            **self._columns(),
            "size_class": self.size_class,
            "sizes": [f"{low:.4g} to {high:.4g}" for low, high in self.sizes_like],
            "n_like": self.n_like,
            "pareto_k": self.pareto_k,
        }
        return table_of_bags(self, columns)

    def contains(self, y: ArrayLike) -> Array:
        """Whether each label is in its bag's region.

        Parameters
        ----------
        y : array, shape (n,), or Series, which is matched to the ids of the bags

        Returns
        -------
        array of bool, shape (n,)

        Raises
        ------
        ValueError : another number of labels than bags, or a label that is not a class.
        """
        return self._contain(as_vector(match_to_ids(y, self.ids), len(self), "y", "bag"))


@dataclass(frozen=True, repr=False)
class ConformalIntervals(ConformalRegions):
    """Regions of labels that are numbers: an interval per bag, or a union of intervals.

    Attributes
    ----------
    level : float
        Coverage, at least, if bags are exchangeable within their size classes.
    size_class : array, shape (n,)
        Class of sizes of each bag; 1 has the smallest bags.
    n_like, sizes_like : arrays, shapes (n,) and (n, 2)
        Number, and smallest and largest size, of the training bags in this class.
    pareto_k : array, shape (n,)
        Pareto k-hat of the weights that add a bag to the fit, the larger one of both ends of its
        region. Above 0.7 the region is unreliable. NaN if there are no weights.
    ids, id_name : array, shape (n,), or None, and str
        Ids of the bags.
    pieces : list of n arrays, shapes (r, 2)
        Ends of the intervals that form the region. It may be empty (no intervals) if even the best
        label of a bag agrees less with the model than most training labels.
    lower, upper : arrays, shape (n,), units of y
        Ends of the region; NaN if it is empty.

    Examples
    --------
    >>> from bdr_stan import BLR
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(60, seed=1)
    >>> model = BLR(5, method="exact").fit(bags[:40], y[:40], seed=1)
    >>> regions = model.conformal(bags[40:], level=0.9)
    >>> regions
    ConformalIntervals(20 bags, level 0.9, 1 size classes; to_dataframe(), contains(y))
    >>> bool(regions.contains(y[40:]).mean() > 0.7)
    True
    """

    pieces: list[Array]

    @property
    def lower(self) -> Array:
        """Lower end of each region."""
        return np.array([p[0, 0] if len(p) else np.nan for p in self.pieces])

    @property
    def upper(self) -> Array:
        """Upper end of each region."""
        return np.array([p[-1, 1] if len(p) else np.nan for p in self.pieces])

    def _columns(self):
        pieces = np.array([len(ends) for ends in self.pieces], dtype=int)
        return {"lower": self.lower, "upper": self.upper, "pieces": pieces}

    def _contain(self, y):
        y = label_numbers(y)
        within = [(p[:, 0] <= v) & (v <= p[:, 1]) for p, v in zip(self.pieces, y, strict=True)]
        return np.array([bool(in_pieces.any()) for in_pieces in within])


@dataclass(frozen=True, repr=False)
class ConformalClasses(ConformalRegions):
    """Regions of classes or ordered categories: a set of labels per bag.

    Attributes
    ----------
    level, size_class, n_like, sizes_like, pareto_k, ids, id_name
        As for `ConformalIntervals`; k-hat is the largest over the classes in or nearly in the
        region.
    classes : array, shape (C,)
        All classes.
    is_in : array of bool, shape (n, C)
        Whether each class is in the region of a bag; an empty set is possible.
    labels : list of n arrays
        The classes of each region.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLRClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["sick", "well"] * 30)
    >>> bags = [rng.normal(0.5 if label == "well" else -0.5, size=(2, 1)) for label in y]
    >>> model = BLRClassifier(n_landmarks=6, method="laplace").fit(bags, y, seed=1)
    >>> regions = model.conformal([np.full((2, 1), -1.5), np.full((2, 1), 0.0)], level=0.9)
    >>> regions.labels
    [array(['sick'], dtype='<U4'), array(['sick', 'well'], dtype='<U4')]
    """

    classes: Array
    is_in: Array

    @property
    def labels(self) -> list[Array]:
        """Classes in each region."""
        return [self.classes[is_in] for is_in in self.is_in]

    def _columns(self):
        return {"labels": [labels.tolist() for labels in self.labels]}

    def _contain(self, y):
        return self.is_in[np.arange(len(self)), class_codes(self.classes, y)]


def _check_conformal(model: Any, level: float, by_size: bool | int) -> None:
    """Raise if a fit has no conformal regions, or an argument cannot be used."""
    check_level(level)
    if not isinstance(by_size, (bool, np.bool_)) and not (is_integer(by_size) and by_size >= 1):
        raise ValueError(
            f"by_size must be True, False or a number of size classes >= 1, found {by_size!r}"
        )
    name, groups = type(model).__name__, model.result_.groups
    check_has_bags(model, "conformal")
    if "label_sd" in model.result_.constants:
        raise ValueError(
            "conformal regions need new labels that are like the training labels, but these have "
            "known errors, label_sd, and predictions are of labels without: fit without label_sd"
        )
    if not set(OF_TIMES).isdisjoint(model.result_.constants):
        raise ValueError("conformal regions need labels that are known, not censored or truncated")
    if groups["posterior"].sizes["chain"] * groups["posterior"].sizes["draw"] == 1:
        raise ValueError(
            f"{name}(method={model.method!r}) has one draw, and conformal regions weight draws "
            "from the posterior: fit with method='nuts' or 'laplace'"
        )
    if "log_likelihood" not in groups and model.has_likelihood:
        raise ValueError(
            "the fit keeps no log_likelihood of its training bags, as draws x bags are too many, "
            "or the bags in partitions: ask fit for fewer draws, or fit to bags in memory"
        )
    if not model.has_likelihood and model.stan_file is not None:
        raise ValueError(
            f"conformal regions of {name} compare with densities of held-out labels, which a fit "
            f"of {model.stan_file} has not: fit without stan_file"
        )
    if not model.has_likelihood and not np.isfinite(model.held_out_).all():
        raise ValueError(
            f"{name} could not hold out every training bag, and conformal regions compare with "
            "densities of held-out labels: give more bags, and several of each class"
        )


class Conformal(Fit):
    """Regions that cover labels even if the model is wrong."""

    def conformal(
        self: Any,
        bags: BagsLike,
        level: float = 0.95,
        *,
        by_size: bool | int = True,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
    ) -> ConformalIntervals | ConformalClasses:
        """Regions that cover labels of new bags at their level even if the model is wrong.

        Conformal Bayes: a label belongs to the region unless it agrees less with the posterior
        than the labels of nearly all training bags of similar size.

        Parameters
        ----------
        level : float, 0 < level < 1, default 0.95
            Smallest share of new bags with their label in the region.
        by_size : bool or int, default True
            Classes of bag sizes, with coverage at the level in each class: at most this number,
            bounded by quantiles of the sizes; True for up to 4, of at least 4 / (1 - level)
            training bags each; False for one of all bags. If bags have several samples, their
            points are added up.

        Returns
        -------
        ConformalIntervals, or ConformalClasses for classes and ordered categories
            With `lower`, `upper` and `pieces`, as regions may be unions of intervals, or `labels`;
            `size_class`, `pareto_k`, `contains(y)` and `to_dataframe()`.

        Raises
        ------
        ValueError
            Too few training bags for the level and the size classes; a fit by optimisation, which
            has one draw, with `label_sd`, or without log_likelihood.

        Warns
        -----
        UserWarning
            The weights of the draws are unreliable for some bags, see `pareto_k`.

        Notes
        -----
        The guarantee: if training bags and a new bag are exchangeable, the region contains its
        label with a probability of at least `level` in each class of sizes, whatever the
        distribution of labels and however wrong the model. It fails for out-of-distribution or
        later bags, and it is an average over a class: it does not apply to each single bag.

        The regions refit the model to the training bags and the new bag with each candidate label,
        which importance weights of the draws approximate (Fong and Holmes 2021): closely if one
        more bag changes the posterior little, less so in NUTS fits to few bags; `pareto_k` shows
        it. Kernel, landmarks, and, if `method` fixes them, the scales of the priors are not
        refitted. Labels are compared by their predictive density times the spread of their
        predictive distribution. At most 1,000 draws are used; 125 for families other than normal
        and lognormal, as their densities are integrals. The posterior of `InverseBDR` is not
        conditioned on labels: it compares with the densities of held-out labels instead, an
        approximation without weights.
        """
        check_is_fitted(self, "result_")
        _check_conformal(self, level, by_size)
        label_data = {"trials": trials, "exposure": exposure, "offset": offset}
        bags = self.like_training(bags)
        labels = self.labels_of_new(bags, stan_data=stan_data, **label_data)
        embedding, groups = self.embedding_of(bags), self.result_.groups
        if self.by_program:
            every = groups["log_likelihood"]["y"].values
            step = -(-every.shape[0] * every.shape[1] // _MOST_COSTLY_DRAWS)
            log_likelihood = every[:, ::step].reshape(-1, every.shape[-1])
            step *= self.program_step(every.shape[-1])
            predictive = self.program_predictive(embedding, labels, step)
        else:
            self.warn_of_other_bags(embedding)
            draws = self.draws()
            integrated = self.label_model.distribution is not None
            most = _MOST_COSTLY_DRAWS if integrated else _MOST_DRAWS
            step = -(-len(next(iter(draws.values()))) // most)
            thinned = {name: values[::step] for name, values in draws.items()}
            predictive = self.predictive_of_draws(self.coordinates_, embedding, labels, thinned)
            if self.has_likelihood:
                log_likelihood = self.result_.draws("y", "log_likelihood")[::step]
            else:
                log_likelihood = self.held_out_[None]
        training = TrainingLabels(
            log_likelihood,
            self.result_.draws("y", "posterior_predictive"),
            _points(self.result_.constants["bag_size"]),
        )
        as_many_as_fit = isinstance(by_size, (bool, np.bool_)) and by_size
        n_classes = None if as_many_as_fit else max(int(by_size), 1)
        compared = Compared(
            SizeClasses(training.sizes, level, n_classes), _points(embedding.sizes), bags
        )
        if isinstance(predictive, (ClassPredictive, MulticlassPredictive)):
            is_in, pareto_k = kept_classes(predictive, training, compared)
            regions: Any = ConformalClasses(
                **compared.described,
                pareto_k=pareto_k,
                classes=predictive.classes,
                is_in=is_in,
            )
        else:
            possible = _possible_labels(self.label_model, predictive)
            pieces, pareto_k = kept_pieces(predictive, training, compared, possible)
            regions = ConformalIntervals(**compared.described, pareto_k=pareto_k, pieces=pieces)
        high = regions.pareto_k > GOOD_K
        if high.any():
            warn(
                f"regions of {np.sum(high)} of {len(high)} bags are unreliable, because each of "
                "these bags would change the fit much (Pareto k-hat of the weights that add it up "
                f"to {np.nanmax(regions.pareto_k):.2f}, {GOOD_K} is good): ask fit for more draws; "
                "if that does not help, the bag is unlike the training bags"
            )
        return regions


def _possible_labels(kind, predictive):
    """Which numbers are labels of a kind, a `LabelModel`."""
    family = kind.distribution
    if family is None:
        return POSITIVE if kind.logarithms else REAL
    if family.likelihood.is_count:
        return LabelScale(is_count=True, trials=predictive.labels.trials)
    return _BY_BOUNDS[family.bounds]


def _points(sizes: Array) -> Array:
    """Effective sizes of bags, of all samples together, shape (n,)."""
    return sizes.reshape(len(sizes), -1).sum(axis=1)
