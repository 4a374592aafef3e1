"""Conformal regions of the labels of new bags."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.predictive import (
    ClassPredictive,
    ConformalClasses,
    ConformalIntervals,
    MulticlassPredictive,
)
from bdr_stan.predictive.conformal import (
    POSITIVE,
    REAL,
    SHARES,
    Labels,
    TrainingLabels,
    conformal_classes,
    conformal_intervals,
)
from bdr_stan.predictive.distributions import check_level
from bdr_stan.predictive.size_classes import Compared, SizeClasses
from bdr_stan.results.leave_one_out import GOOD_K
from bdr_stan.types import Array, ArrayLike, is_integer
from bdr_stan.user_warnings import warn

# Draws, evenly spaced: more change regions little; densities of families are integrals, and Stan
# computes a user's.
_MOST_DRAWS, _MOST_COSTLY_DRAWS = 1000, 125
_BY_BOUNDS = {(-np.inf, np.inf): REAL, (0.0, np.inf): POSITIVE, (0.0, 1.0): SHARES}


def _check_conformal(model: Any, level: float, by_size: bool | int) -> None:
    """Raise if a fit has no conformal regions, or an argument cannot be used."""
    check_level(level)
    if not isinstance(by_size, (bool, np.bool_)) and not (is_integer(by_size) and by_size >= 1):
        raise ValueError(
            f"by_size must be True, False or a number of size classes >= 1, found {by_size!r}"
        )
    name, groups = type(model).__name__, model.result_.groups
    if "label_sd" in model.result_.constants:
        raise ValueError(
            "conformal regions need new labels that are like the training labels, but these have "
            "known errors, label_sd, and predictions are of labels without: fit without label_sd"
        )
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


class Conformal(BagEstimator):
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
        given = {"trials": trials, "exposure": exposure, "offset": offset}
        embedding, bags = self.embed_for_labels(bags, given, stan_data=stan_data)
        if not self.by_program:
            self.warn_of_other_bags(embedding)
        groups, classes = self.result_.groups, getattr(self, "classes_", None)
        if self.by_program:
            every = groups["log_likelihood"]["y"].values
            step = -(-every.shape[0] * every.shape[1] // _MOST_COSTLY_DRAWS)
            log_likelihood = every[:, ::step].reshape(-1, every.shape[-1])
            step *= self.program_step(every.shape[-1])
            predictive = self.program_predictive(embedding, classes, step=step)
        else:
            draws = self.draws()
            most = _MOST_DRAWS if self._family is None else _MOST_COSTLY_DRAWS
            step = -(-len(next(iter(draws.values()))) // most)
            thinned = {name: values[::step] for name, values in draws.items()}
            predictive = self.predictive_of_draws(embedding, thinned, classes)
            if self.has_likelihood:
                log_likelihood = _flat(groups["log_likelihood"])[::step]
            else:
                log_likelihood = self.held_out_[None]
        training = TrainingLabels(
            log_likelihood,
            _flat(groups["posterior_predictive"]),
            _points(self.result_.constants["bag_size"]),
        )
        as_many_as_fit = isinstance(by_size, (bool, np.bool_)) and by_size
        n_classes = None if as_many_as_fit else max(int(by_size), 1)
        compared = Compared(
            SizeClasses(training.sizes, level, n_classes), _points(embedding.sizes), bags
        )
        if isinstance(predictive, (ClassPredictive, MulticlassPredictive)):
            regions: Any = conformal_classes(predictive, training, compared)
        else:
            labels = _labels(self, predictive)
            regions = conformal_intervals(predictive, training, compared, labels)
        high = regions.pareto_k > GOOD_K
        if high.any():
            warn(
                f"regions of {np.sum(high)} of {len(high)} bags are unreliable, because each of "
                "these bags would change the fit much (Pareto k-hat of the weights that add it up "
                f"to {np.nanmax(regions.pareto_k):.2f}, {GOOD_K} is good): ask fit for more draws; "
                "where that does not help, the bag is unlike those of the fit"
            )
        return regions


def _labels(model, predictive):
    """Which numbers are labels of a model."""
    family = model._family
    if family is None:
        return POSITIVE if getattr(model, "family", "normal") == "lognormal" else REAL
    if family.likelihood.is_count:
        return Labels(is_count=True, trials=predictive.trials)
    return _BY_BOUNDS[family.bounds]


def _flat(group):
    """Values of each training label under each draw, all chains in one, shape (S, n)."""
    values = group["y"].values
    return values.reshape(-1, values.shape[-1])


def _points(sizes: Array) -> Array:
    """Effective sizes of bags, of all samples together, shape (n,)."""
    return sizes if sizes.ndim == 1 else sizes.sum(axis=1)
