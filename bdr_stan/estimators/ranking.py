"""Ranks of districts by their rates; see `AggregateRegressor.ranking`."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from bdr_stan.bags import Bags, BagsLike
from bdr_stan.estimators.own_program import check_stock
from bdr_stan.estimators.validation import check_counts
from bdr_stan.predictive.distributions import interval_ends
from bdr_stan.types import ArrayLike

if TYPE_CHECKING:
    import pandas as pd


def ranking(
    model: Any, bags: BagsLike, top: int | None, trials: ArrayLike | str | None, level: float
) -> "pd.DataFrame":
    """Table of the rates of districts and their ranks, highest rate first."""
    import pandas as pd

    ends = interval_ends(level)
    check_stock(model)
    bags = model._like_training(bags)
    n = len(bags)
    if top is not None:
        check_counts(top=top)
        if top >= n:
            raise ValueError(f"top must be below the number of bags, {n}, found {top}")
    if model._family.has_effects or model.effect_columns_ is not None:
        _check_effects_are_known(model, bags)
    totals = model.predictive(bags, trials=trials).expected(np.arange(n))
    if len(totals) == 1:
        raise ValueError(
            f"method={model.method!r} has one draw, so that ranks have no uncertainty: fit with "
            "method='nuts' or 'laplace'"
        )
    people = model._trials_of(bags, trials) if model._family.has_trials else bags.totals
    rates = totals / people
    ranks = rankdata(-rates, axis=1)
    lower, upper = np.quantile(ranks, ends, axis=0, method="inverted_cdf")
    columns = {
        "rate": rates.mean(axis=0),
        "rank": ranks.mean(axis=0),
        "lower": lower,
        "upper": upper,
    }
    if top is not None:
        columns["in_top"] = np.mean(ranks <= top, axis=0)
    index = pd.Index(bags.index, name=bags.id_name)
    return pd.DataFrame(columns, index=index).sort_values("rank", kind="stable")


def _check_effects_are_known(model: Any, bags: Bags) -> None:
    training = model._training_effects
    new = np.flatnonzero(training.districts(bags, True)[0] < 0)
    if len(new) or training.effects is None:
        i = new[0] if len(new) else 0
        raise ValueError(
            f"{bags.name(i)} has no effect of its own from the fit ({max(len(new), 1)} in all), so "
            "that its rank is not known: rank bags of the fit, with their ids and points"
        )
