"""Ranks of districts by their rates."""

from typing import Any

import numpy as np
from scipy.stats import rankdata

from bdr_stan.aggregate.likelihoods import likelihood_named
from bdr_stan.bags import Bags, BagsLike
from bdr_stan.predictive.distributions import interval_ends, table_of_bags
from bdr_stan.questions.protocol import Fit, check_stock
from bdr_stan.types import ArrayLike, DataFrame, check_counts


class Ranking(Fit):
    """Ranks of bags by their rates, of a model of totals."""

    def ranking(
        self: Any,
        bags: BagsLike,
        *,
        top: int | None = None,
        trials: ArrayLike | str | None = None,
        level: float = 0.95,
    ) -> DataFrame:
        """Ranks of bags by their rates, with the uncertainty of both; rank 1 is the highest rate.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
            Training bags, if bags have their own effects.
        top : int, optional
            Add the probability of being among this number of bags of highest rate.
        trials : as for `predict`

        Returns
        -------
        pandas DataFrame with a row for each bag, by rank
            rate: posterior mean of the bag's expected label per weight (of the binomial likelihood
            the probability); rank: posterior mean of its rank; lower, upper: interval of the rank;
            in_top: posterior probability of a rank of at most `top`.

        Raises
        ------
        ValueError
            Bags that have effects but are not the training bags; `top` is not below their number;
            or the fit has one draw.

        Notes
        -----
        The posterior mean of the rank is the estimate of least squared error (Laird and Louis
        1989, "Empirical Bayes ranking methods"). Poorly estimated rates have ranks near the middle
        and wide intervals.
        """
        ends = interval_ends(level)
        check_stock(self)
        bags = self.like_training(bags)
        n, likelihood = len(bags), likelihood_named(self.likelihood)
        if top is not None:
            check_counts(top=top)
            if top >= n:
                raise ValueError(f"top must be below the number of bags, {n}, found {top}")
        if likelihood.has_effects or self.effect_columns_ is not None:
            _check_effects_are_known(self, bags)
        totals = self.predictive(bags, trials=trials).expected(np.arange(n))
        if len(totals) == 1:
            raise ValueError(
                f"method={self.method!r} has one draw, so ranks have no uncertainty: fit with "
                "method='nuts' or 'laplace'"
            )
        labels = self.labels_of_new(bags, trials=trials)
        people = labels.trials if likelihood.has_trials else bags.totals
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
        return table_of_bags(bags, columns).sort_values("rank", kind="stable")


def _check_effects_are_known(model: Any, bags: Bags) -> None:
    training = model.training_effects
    new = np.flatnonzero(training.districts(bags, True)[0] < 0)
    if len(new) or training.effects is None:
        i = new[0] if len(new) else 0
        raise ValueError(
            f"{bags.name(i)} has no effect of its own from the fit ({max(len(new), 1)} in total), "
            "so its rank is not known: rank bags of the fit, with their ids and points"
        )
