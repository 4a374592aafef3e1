"""Fits of `AggregateRegressor` by a plain Stan program of the user's own, and its predictions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bdr_stan.aggregate.training import AggregateFeatures
from bdr_stan.bags import PartitionedBags
from bdr_stan.estimators.own_program import (
    FEWEST_DRAWS,
    MOST_NUMBERS,
    check_has_data,
    check_stock,
    draws_of_program,
    is_plain,
    own_data_of_new_bags,
    program_to_run,
)
from bdr_stan.estimators.points import evenly_spaced
from bdr_stan.models.plain import PlainModel
from bdr_stan.models.plain_totals import (
    data_of_points,
    data_of_totals,
    plain_totals_model,
    without_bags,
)
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.predictive import ProgramPredictive
from bdr_stan.predictive.program import ProgramRates
from bdr_stan.results.groups import training_groups
from bdr_stan.results.inference_data import Groups
from bdr_stan.types import Array, ArrayLike, PathName

# Data that come with an option, and what to do where a program reads them without it.
_OPTIONS = {
    "tau_scale": "fit with bag_effects=True, or leave effects of bags out of the program",
    "dispersion_scale": "fit with likelihood='negative binomial', or leave it out of the program",
    "sigma_scale": "fit with likelihood='normal', or leave it out of the program",
}

# ---------------------------------------------------------------- fits


def check_options(model: Any, program: PathName | None) -> None:
    """Raise ValueError for parameters that a plain program cannot follow."""
    if model.thin is not None:
        raise ValueError(f"{program} takes all points of a bag: leave thin out")
    if model.bag_effects and model._link.is_linear:
        raise ValueError(
            "bag_effects of the normal likelihood are those of the stock program: leave them out, "
            f"and write effects of bags into {program}"
        )


def needed_data(model: Any, label_sd: Any) -> dict[str, str]:
    """Names of data that a plain program must declare -> what this fit would pass by them."""
    return {
        _name_of_errors(model): "label_sd" * (label_sd is not None),
        "trials": "trials" * model._family.has_trials,
        "tau_scale": "bag_effects" * bool(model.bag_effects),
    }


def check_in_memory(program: PathName | None, bags: Any) -> None:
    """Raise TypeError for bags whose points lie in partitions."""
    if isinstance(bags, PartitionedBags):
        raise TypeError(
            f"{program} takes all points in memory, but those of the bags lie in "
            "partitions: pass bags.load()"
        )


def plain_model(
    model: Any,
    stock: LatentGaussianModel,
    training: AggregateFeatures,
    y: Array,
    of_bags: Mapping[str, Any],
    others: Mapping[str, Any],
) -> PlainModel:
    """The model of the user's plain program, in place of a stock one, with data of the user's."""
    found = plain_totals_model(stock, _data_of_training(model, training, y, of_bags), others)
    if is_plain(model.stan_file):
        check_has_data(model.stan_file, found.data, _OPTIONS)
    return found


def groups_of_training(
    model: Any,
    training: AggregateFeatures,
    posterior: Posterior,
    y: Array,
    of_bags: Mapping[str, Any],
    seed: int | None,
) -> Groups:
    """What the program predicts of the training bags, as if these were new; {} if nothing."""
    program = model._program
    if program is None or not program.generates("y_new"):
        return {}
    data = _data_of_training(model, training, y, of_bags)
    return training_groups(
        _predictive(model, data, repeated=1),
        posterior.draws,
        y,
        training.record.index,
        has_likelihood=program.generates("log_lik"),
        thinning=_step(model, data),
        seed=seed,
    )


def _data_of_training(model, training, y, of_bags):
    labels = y.astype(int) if model._family.is_count else y
    errors = np.sqrt(np.broadcast_to(training.rows.known_variance, len(y)))
    known = {"trials": training.trials, _name_of_errors(model): errors}
    return {**data_of_totals(training.plain_data, labels, **known), **of_bags}


def _name_of_errors(model):
    """Name of known errors of labels, of which those of counts are relative to these."""
    return "label_sd" if model._link.is_linear else "relative_label_sd"


# ---------------------------------------------------------------- predictions


def predictive(
    model: Any,
    bags: Any,
    trials: ArrayLike | str | None,
    district: Any,
    stan_data: Mapping[str, ArrayLike | str] | None,
) -> ProgramPredictive:
    """Predictive distribution of new bags by the user's program, as of `AggregateRegressor`."""
    _check_asks_for_new(model, district)
    return _predictive(model, _data_of_new(model, bags, trials, stan_data)).with_ids_of(bags)


def rates(
    model: Any,
    bags: Any,
    in_bags: bool,
    district: Any,
    totals: Any,
    n_draws: int,
    stan_data: Mapping[str, ArrayLike | str] | None,
) -> ProgramRates:
    """Rates at the points of `bags` by the user's program; without `in_bags` they lie in none."""
    _check_asks_for_new(model, district, totals)
    program = program_to_run(model)
    if in_bags:
        trials = np.ones(len(bags)) if model.needs_trials else None  # which no rate depends on
        data = _data_of_new(model, bags, trials, stan_data)
    elif stan_data is not None:
        raise ValueError("stan_data are of bags, but the points are in none: pass Bags")
    else:
        own = {name: program.data[name][:1] for name in program.columns}
        points = data_of_points(bags, model.feature_map_)
        data = without_bags({**data_of_totals(points, _any_labels(model, program, 1)), **own})
    drawn = draws_of_program(model, 1)
    drawn = {name: evenly_spaced(values, n_draws) for name, values in drawn.items()}
    return ProgramRates(program.rates(drawn, data, seed=_seed(model), engine=model.engine))


def _check_asks_for_new(model, district, totals=None):
    """Raise ValueError where the program would have to know effects of training bags."""
    if totals is not None or not isinstance(district, bool):
        check_stock(model)


def _data_of_new(model, bags, trials, stan_data):
    program = program_to_run(model)
    check_in_memory(model.stan_file, bags)
    model._check_stan_data(stan_data)
    own = own_data_of_new_bags(program.columns, bags, stan_data)
    trials = model._trials_of(bags, trials)
    points = data_of_points(bags, model.feature_map_)
    labels = _any_labels(model, program, len(bags))
    return {**data_of_totals(points, labels, trials=trials), **own}


def _any_labels(model, program, n):
    """Labels that n bags may have, of the type that the program takes."""
    y = program.data["y"]
    return np.full(n, 0 if model._family.is_count else y.min(), y.dtype)


def _predictive(model, data, repeated=None):
    """Predictive distribution of the bags with these data by the program."""
    return program_to_run(model).predictive(
        draws_of_program(model, _step(model, data), repeated),
        data,
        seed=_seed(model),
        engine=model.engine,
        is_count=model._family.is_count,
    )


def _step(model, data):
    """Predictions of a program use every so manyth draw of a chain."""
    return model._step_to(max(MOST_NUMBERS // (data["N"] + data["P"]), FEWEST_DRAWS))


def _seed(model):
    return model.result_.settings["run"]["arguments"]["seed"]
