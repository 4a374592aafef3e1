"""What questions and other modules use of an estimator, besides what users do."""

import inspect
from collections.abc import Callable
from typing import Any

from bdr_stan.arguments import answered
from bdr_stan.parameters import describe


class Fit:
    """A fit as questions see it; completions of a user's prompt omit these names.

    Each question is a class on this one, from which estimators inherit its public method. They
    define what applies to them, and describe it there. S is the number of draws.
    """

    def __init_subclass__(cls, **options: Any):
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and name[0] != "_":
                describe(method, cls.__mro__[1:])
                setattr(cls, name, answered(method))
        super().__init_subclass__(**options)

    # (bags, need_weights=True): bags with the columns and weights of the bags of the fit.
    like_training: Callable[..., Any]
    checked_seed: Callable[..., Any]  # (seed): the seed of a call, else `random_state`
    keep_too: Callable[..., Any]  # (groups, **settings): add these to the result
    with_result: Callable[..., Any]  # (result): a copy with another result
    fit_of_sample: Callable[..., Any]  # (sample): of several samples, this fit as one to a single
    check_samples: Callable[..., Any]  # (bags, label_sd): raise unless the samples suit the fit

    # Of fits to mean embeddings.
    covariates_: Any  # `Covariates`, or None
    draws: Callable[..., Any]  # (): name -> draws that predictions use, (S, ...), chains in one
    embed_for_labels: Callable[..., Any]  # (bags, trials etc.): `Embedding`, and bags like training
    predictive_of_draws: Callable[..., Any]  # (embedding, draws, classes): of n labels
    familiarity_columns: Callable[..., Any]  # (embedding): name -> p-values, shape (n,)
    warn_of_other_bags: Callable[..., Any]  # (embedding)

    # Of a user's program.
    program_ran_here: bool = False  # whether in this session, so that it may run again
    program_predictive: Callable[..., Any]  # (embedding, classes): of n labels
    program_step: Callable[..., Any]  # (n_bags): k, for every k-th draw of each chain

    # Of fits to totals.
    trials_of: Callable[..., Any]  # (bags, trials): one number per bag, (n,), or None
    mean_totals: Callable[..., Any]  # (bags, effects): mean labels under each draw, (S, n)
    subsets_given_totals: Callable[..., Any]  # (subset, bags, totals): mean and sd, each (S, m)
    bounded_rates: Callable[..., Any]  # (bags, y, subset, highest_rate, trials): see `bounds`

    @property
    def own_program(self) -> Any:
        """The user's Stan program as the fit ran it, or None."""

    @property
    def training_distances(self) -> Any:
        """Distances of the training bags from their average, if the fit keeps them."""

    @property
    def training_effects(self) -> Any:
        """Effects of the training bags under each draw, if the fit has them."""


FOR_MODULES = {name for name in (*Fit.__annotations__, *vars(Fit)) if not name.startswith("_")}


def check_stock(model: Any) -> None:
    """Raise ValueError for a fit of a user's program: formulas of the stock program do not hold."""
    if model.by_program:
        raise ValueError(
            "this is a formula of the stock program, which need not hold for the program of the "
            "fit: use predict, predictive, predict_table or conformal, which run your program, or "
            "the draws in idata"
        )
