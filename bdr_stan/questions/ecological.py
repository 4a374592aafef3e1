"""Ecological inference: rates of subsets of points, their bounds and assumptions.

Totals do not identify how the rates of people with the same columns differ between districts: the
ecological assumption is that they differ only as in the model.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from bdr_stan.aggregate.likelihoods import likelihood_named
from bdr_stan.bags import Bags, BagsLike
from bdr_stan.bags.checks import check_each
from bdr_stan.predictive.distributions import interval_ends, table_of_bags
from bdr_stan.questions.protocol import Fit
from bdr_stan.types import Array, ArrayLike, DataFrame, is_number, numbers_or_nan

_ROUNDING = 1e-9  # relative, of weights and totals
_OF_MODE = 1000  # draws of rates given the totals, with parameters at their mode


class SubsetRates(NamedTuple):
    """Rates of subsets of the points of districts, and data of the districts."""

    subset: Bags
    rates: Array  # of the subsets under each draw, shape (S, m)
    # Of normal rates given the totals: standard deviation under each draw, and `rates` their means.
    sd: Array | None
    totals: Array  # observed, of the districts that the subsets are of, shape (m,)
    weights: Array  # of these districts, shape (m,)
    names: list[str]  # of these districts, in messages


class EcologicalInference(Fit):
    """Rates of subsets of the points of bags, of a model of totals."""

    def bounds(
        self: Any,
        bags: BagsLike,
        y: ArrayLike | str,
        subset: BagsLike,
        *,
        highest_rate: float | None = None,
        trials: ArrayLike | str | None = None,
        level: float = 0.95,
    ) -> DataFrame:
        """Rate of a subset of each bag's points, and the bounds implied by the totals only.

        Let y_a be the total of bag a, P_S the weight of the subset and P_rest the weight of its
        other points. If the rates of all points are between 0 and r, the subset's rate is between
        max(0, (y_a - r P_rest) / P_S) and min(r, y_a / P_S), whatever the model. Estimates between
        the bounds rest on the model: rates depend on the columns of a point and not on the district
        around it, except for the district's effect.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
            Training or new bags. Training bags have their effects, if the model has effects.
        subset : Bags
            Some of their points in bags of the same ids, for example ``bags.where(urban=1)``.
        highest_rate : float, optional
            r, in units of y per weight: 1 if no one is counted twice. Default none; 1 for the
            binomial likelihood.
        trials : as for `predict`

        Returns
        -------
        pandas DataFrame with a row for each bag of the subset
            lowest, highest: the bounds; mean, lower, upper: posterior of the subset's rate, in
            units of y per weight; inside: posterior probability of a rate between the bounds.

        Raises
        ------
        ValueError
            A total needs rates above `highest_rate`, or the subset has none of the bags' points.

        Notes
        -----
        The bounds apply to rates with the sum y_a, for example of counted events. The posterior is
        of expected rates, which differ from realised rates by chance: with small counts part of the
        posterior may exceed the bounds, and for a survey (binomial) y_a / trials is an estimate.
        With large counts, a posterior outside the bounds, with `inside` near 0, contradicts the
        data. Source: Duncan and Davis (1953), "An alternative to ecological correlation".
        """
        ends = interval_ends(level)
        subsets, lowest, highest, inside = bounded_rates(
            self, bags, y, subset, highest_rate, trials=trials
        )
        lower, upper = np.quantile(subsets.rates, ends, axis=0)
        columns = {"lowest": lowest, "highest": highest, "mean": subsets.rates.mean(axis=0)}
        columns |= {"lower": lower, "upper": upper, "inside": inside}
        return table_of_bags(subsets.subset, columns)

    def context(
        self: Any,
        bags: BagsLike,
        y: ArrayLike | str,
        subset: BagsLike,
        *,
        shares: ArrayLike = (0.0, 0.25, 0.5),
        trials: ArrayLike | str | None = None,
        level: float = 0.95,
    ) -> DataFrame:
        """Rate of a subset of each bag's points if rates depend on the district as well.

        The rate of a point is (1 - k) times the model's rate plus k times the rate of its whole
        bag: from the model (k = 0) to the neighbourhood model (k = 1), where all points of a bag
        have one rate. All k fit the totals equally well, so the totals do not identify k: it is
        assumed.

        Parameters
        ----------
        bags, y, subset : as for `bounds`
        shares : array, shape (K,), default (0, 0.25, 0.5)
            The shares k, from 0 to 1.
        trials : as for `predict`

        Returns
        -------
        pandas DataFrame with a row for each bag of the subset and each share
            mean, lower, upper: posterior of the subset's rate, in units of y per weight.

        Raises
        ------
        ValueError
            A share is outside 0 to 1, or the subset has none of the bags' points.
        """
        import pandas as pd

        ends = interval_ends(level)
        shares = _shares(shares)
        subsets = _subset_rates(self, bags, y, subset, trials=trials)
        if subsets.sd is not None:
            noise = np.random.default_rng(0).standard_normal(subsets.rates.shape)
            subsets = subsets._replace(rates=subsets.rates + subsets.sd * noise)
        tables = {}
        for share in shares:
            rates = (1 - share) * subsets.rates + share * subsets.totals / subsets.weights
            lower, upper = np.quantile(rates, ends, axis=0)
            columns = {"mean": rates.mean(axis=0), "lower": lower, "upper": upper}
            tables[share] = table_of_bags(subsets.subset, columns)
        table = pd.concat(tables, names=["share"]).swaplevel()
        return table.loc[[(name, share) for name in subsets.subset.index for share in shares]]

    def check_context(self: Any, *, level: float = 0.95) -> DataFrame:
        """Whether the effects of the districts go with the means of their columns (Mundlak).

        Rates that depend on the district around a point, beyond what the totals' own dependence on
        the columns absorbs, cause effects of districts that correlate with the districts' means. A
        slope with an interval that excludes 0 contradicts the model; slopes near 0 are weak
        evidence for it, as totals hardly identify such effects.

        Returns
        -------
        pandas DataFrame with a row for each column of the points
            mean, sd, lower, upper: slope of the effect, on the log rate (with "logit" the log
            odds), per standard deviation of the bags' means of the column, all in one regression.

        Raises
        ------
        ValueError
            The model has no effects, or the bags are fewer than the columns.

        Notes
        -----
        Source: Mundlak (1978), "On the pooling of time series and cross section data".
        """
        import pandas as pd

        check_is_fitted(self, "result_")
        interval_ends(level)
        training, columns = self.training_effects, self.effect_columns_
        if training.effects is None or training.mean_points is None:
            raise ValueError(
                "the check needs effects of the training bags, which this fit does not have: use "
                "likelihood='negative_binomial' or bag_effects=True, with bags in memory"
            )
        n, p = training.mean_points.shape
        if n < p + 3:
            raise ValueError(f"{n} bags are too few for slopes in {p} columns: at least {p + 3}")
        effects = training.effects
        if columns is not None:  # of the bags' average rates
            effects = np.einsum("snk,nk->sn", effects, columns(training.mean_points))
        slope, sd = slopes_of_effects(effects, training.mean_points)
        z = ndtri((1 + level) / 2)
        names = self.result_.settings.get("feature_names") or [f"x{k}" for k in range(p)]
        index = pd.Index(names, name="column")
        columns = {"mean": slope, "sd": sd, "lower": slope - z * sd, "upper": slope + z * sd}
        return pd.DataFrame(columns, index=index)


def bounded_rates(
    model: Any,
    bags: BagsLike,
    y: ArrayLike | str,
    subset: BagsLike,
    highest_rate: float | None,
    **label_data: ArrayLike | str | None,
) -> tuple[SubsetRates, Array, Array, Array]:
    """Rates of subsets under each draw, their bounds, and probability between them, (m,)."""
    subsets = _subset_rates(model, bags, y, subset, **label_data)
    highest_rate = _highest_rate(model, highest_rate)
    too_many = np.flatnonzero(subsets.totals > highest_rate * subsets.weights * (1 + _ROUNDING))
    if len(too_many):
        i = too_many[0]
        raise ValueError(
            f"{subsets.names[i]} has a rate of {subsets.totals[i] / subsets.weights[i]:.4g} "
            f"({len(too_many)} in total), above highest_rate={highest_rate:g}: raise it, or "
            "check the weights of the points"
        )
    part = subsets.subset.totals
    lowest, highest = deterministic_bounds(subsets.totals, subsets.weights, part, highest_rate)
    if subsets.sd is None:
        inside = np.mean((subsets.rates >= lowest) & (subsets.rates <= highest), axis=0)
        return subsets, lowest, highest, inside
    rates, inside = _between(lowest, highest, subsets.rates, subsets.sd)
    return subsets._replace(rates=rates), lowest, highest, inside


def _subset_rates(model, bags, y, subset, **label_data):
    """Rates of subsets under each draw, given their districts' effects, or totals if normal."""
    bags, subset = model.like_training(bags), model.like_training(subset)
    if not (isinstance(bags, Bags) and isinstance(subset, Bags)):
        raise TypeError(
            "bounds need points in memory, but these are in partitions: use bags.load()"
        )
    if {"label_sd", "relative_label_sd"} & set(model.result_.constants):
        raise ValueError(
            "rates of subsets follow from totals without errors, but the fit has totals with "
            "known errors, label_sd: use predict of the subset"
        )
    labels = model.labels_of_new(bags, **label_data)
    totals = model.label_model.read(bags, y, trials=labels.trials).y
    if labels.trials is not None:
        totals = bags.totals * totals / labels.trials
    rule = "rates between 0 and highest_rate have no negative sums"
    check_each(bags, totals, totals >= 0, "total", rule)
    rows = _rows_of_districts(bags, subset)
    weights = bags.totals[rows]
    if np.any(subset.totals > weights * (1 + _ROUNDING)):
        i = np.argmax(subset.totals / weights)
        raise ValueError(
            f"the subset of {bags.name(rows[i])} has the weight {subset.totals[i]:.4g}, but "
            f"all its points {weights[i]:.4g}: take it from the same bags, as bags.where(...)"
        )
    names = [bags.name(row) for row in rows]
    if model.effect_columns_ is not None:
        whole = bags.take(rows)
        mean, sd = model.subsets_given_totals(subset, whole, totals[rows])
        if len(mean) == 1:
            mean, sd = (np.repeat(a, _OF_MODE, axis=0) for a in (mean, sd))
        rates = mean / subset.totals
        return SubsetRates(subset, rates, sd / subset.totals, totals[rows], weights, names)
    training = model.training_effects
    number = training.districts(bags, True)[0][rows]
    effects = training.of_bags(subset, number, number >= 0, model.draws().get("tau"))
    rates = model.mean_totals(subset, effects)
    if labels.trials is None:
        rates = rates / subset.totals
    return SubsetRates(subset, rates, None, totals[rows], weights, names)


def deterministic_bounds(
    totals: Array, weights: Array, subset: Array, highest_rate: float
) -> tuple[Array, Array]:
    """Least and largest rate that totals of districts allow subsets of weights > 0, (n,)."""
    others = np.maximum(weights - subset, 0.0)
    most_of_others = np.multiply(highest_rate, others, out=np.zeros_like(others), where=others > 0)
    lowest = np.maximum(0.0, (totals - most_of_others) / subset)
    return lowest, np.minimum(highest_rate, totals / subset)


def slopes_of_effects(effects: Array, means: Array) -> tuple[Array, Array]:
    """Mean and sd of the slopes of effects, (S, n), in the bags' scaled means, (n, p), each (p,).

    Least squares; the variance is between draws plus, as the effects of n bags are a sample, of the
    slopes given the effects. Columns without variance have the slopes of least norm.
    """
    centred = means - means.mean(axis=0)
    sd = centred.std(axis=0)
    varies = sd > 1e-12 * np.abs(means).max(axis=0, initial=0.0)
    scaled = np.divide(centred, sd, out=np.zeros_like(centred), where=varies)
    inverse = np.linalg.pinv(scaled, rcond=1e-8)
    deviations = (effects - effects.mean(axis=1, keepdims=True)).T
    slopes = inverse @ deviations
    left = deviations - scaled @ slopes
    degrees = len(means) - 1 - np.linalg.matrix_rank(scaled, tol=1e-8 * np.sqrt(len(means)))
    noise = np.mean(np.sum(left**2, axis=0)) / degrees * np.sum(inverse**2, axis=1)
    return slopes.mean(axis=1), np.sqrt(slopes.var(axis=1) + noise)


def _between(lowest, highest, mean, sd):
    """Draws of normal numbers between bounds, shape (S, m), and their mean probability there."""
    sd = np.maximum(sd, 1e-9 * np.abs(mean).max())
    below, above = (lowest - mean) / sd, (highest - mean) / sd
    flipped = below + above > 0  # probabilities near 0 keep their digits, those near 1 lose them
    first, last = np.where(flipped, -above, below), np.where(flipped, -below, above)
    start, probability = ndtr(first), ndtr(last) - ndtr(first)
    share = np.random.default_rng(0).uniform(size=mean.shape)
    z = np.clip(ndtri(start + share * probability), first, last)
    return mean + sd * np.where(flipped, -z, z), probability.mean(axis=0)


def _rows_of_districts(bags, subset):
    """Row among the bags of the district that each subset is of."""
    import pandas as pd

    if bags.ids is not None and subset.ids is not None:
        rows = pd.Index(bags.ids).get_indexer(pd.Index(subset.ids))
        if np.any(rows < 0):
            i = np.flatnonzero(rows < 0)[0]
            raise ValueError(
                f"the subset has {subset.name(i)}, which is none of the bags "
                f"({np.sum(rows < 0)} in total): take it from the same bags, as bags.where(...)"
            )
        return rows
    if len(bags) != len(subset):
        raise ValueError(
            f"there are {len(bags)} bags and {len(subset)} subsets, without ids to match: give the "
            "bags ids"
        )
    return np.arange(len(bags))


def _highest_rate(model, rate):
    if rate is None:
        return 1.0 if likelihood_named(model.likelihood).has_trials else np.inf
    if not is_number(rate) or not 0 < rate < np.inf:
        raise ValueError(f"highest_rate must be a positive number, found {rate!r}")
    return float(rate)


def _shares(shares):
    values = numbers_or_nan(shares)
    if values.ndim != 1 or not len(values) or not np.all((values >= 0) & (values <= 1)):
        raise ValueError(f"shares must be numbers from 0 to 1, such as [0, 0.5], found {shares!r}")
    return np.unique(values)
