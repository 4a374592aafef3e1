"""Fits of `AggregateRegressor` by a plain Stan program of the user's own, and its predictions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bdr_stan.aggregate.likelihoods import Likelihood, likelihood_named
from bdr_stan.aggregate.links import Link, link_of
from bdr_stan.bags import PartitionedBags
from bdr_stan.estimators.label_models import TotalLabels
from bdr_stan.estimators.own_program import (
    FEWEST_DRAWS,
    MOST_NUMBERS,
    check_has_data,
    draws_of_program,
    is_plain,
    program_to_run,
)
from bdr_stan.estimators.posterior import PosteriorEstimator
from bdr_stan.labels import Labels
from bdr_stan.models.plain import (
    DATA_OF_TOTALS,
    data_of_points,
    data_of_totals,
    plain_totals_model,
    without_bags,
)
from bdr_stan.predictive.program import ProgramRates
from bdr_stan.questions.points import evenly_spaced
from bdr_stan.questions.protocol import check_stock
from bdr_stan.results.arviz_groups import training_groups

# Data of an option, and advice if a program declares them without it.
_OPTIONS = {
    "tau_scale": "fit with bag_effects=True, or leave effects of bags out of the program",
    "dispersion_scale": "fit with likelihood='negative_binomial', or leave it out of the program",
    "sigma_scale": "fit with likelihood='normal', or leave it out of the program",
}


class ProgramOfTotals(PosteriorEstimator):
    """What a model of totals does with a plain program of the user's own."""

    likelihood: str
    link: str | None

    program_data = DATA_OF_TOTALS

    def _plain_training(self, bags, labels):
        """Training features with the points, as a plain program takes them."""
        self._check_program_options("a plain program")
        check_in_memory("a plain program", bags)
        training = self._training_features(bags, labels, self.checked_seed(None))
        return replace(training, plain_data=data_of_points(bags, training.feature_map))

    def _check_program_options(self, program):
        """Raise ValueError for parameters that a plain program cannot follow."""
        if self.thin is not None:
            raise ValueError(f"{program} takes all points of a bag: leave thin out")
        if self.bag_effects and self._link.is_linear:
            raise ValueError(
                "bag_effects of the normal likelihood belong to the stock program: leave them "
                f"out, and write effects of bags into {program}"
            )

    def _needed_data(self, labels):
        """Names of data that a plain program must declare -> this fit's data of these names."""
        return {
            self._name_of_errors: "label_sd" * (labels.label_sd is not None),
            "trials": "trials" * self._family.has_trials,
            "tau_scale": "bag_effects" * bool(self.bag_effects),
        }

    def _plain_model(self, stock, training, labels):
        """The model of the plain program in the place of a stock model, with the user's data."""
        data = self._data_of_training(training, labels)
        plain = plain_totals_model(stock, data, labels.shared_data)
        if is_plain(self.stan_file):
            check_has_data(self.stan_file, plain.data, _OPTIONS)
        return plain

    def _groups_of_program(self, posterior, training, labels, seed, program):
        """The program's predictions of the training bags, as if they were new."""
        if program is None or not program.generates("y_new"):
            return {}
        data = self._data_of_training(training, labels)
        step = self.program_step(posterior.n_draws, data)
        draws = posterior.flat(step)
        return training_groups(
            program.predictive(draws, data, is_count=self._family.is_count),
            posterior.draws,
            labels.y,
            training.record.index,
            has_likelihood=program.generates("log_lik"),
            thinning=step,
            seed=seed,
        )

    def _data_of_training(self, training, labels):
        y = labels.y.astype(int) if self._family.is_count else labels.y
        errors = np.sqrt(np.broadcast_to(training.rows.known_variance, len(y)))
        labels = replace(labels, y=y, label_sd=errors)
        return data_of_totals(training.plain_data, labels, relative_errors=not self._link.is_linear)

    @property
    def _name_of_errors(self):
        """Name of known errors of labels; for counts they are relative errors."""
        return "label_sd" if self._link.is_linear else "relative_label_sd"

    # ------------------------------------------------------------ predictions

    def _predictive_of_program(self, bags, labels):
        """Predictive distribution of bags by the user's own program."""
        data = self._data_of_new(bags, labels)
        draws = draws_of_program(self, self.program_step(self._n_draws, data))
        return program_to_run(self).predictive(draws, data, is_count=self._family.is_count)

    def _program_rates(self, bags, in_bags, district, totals, n_draws, stan_data):
        """Rates at the points of `bags` by the program; without `in_bags` they belong to none."""
        self._check_asks_for_new(district, totals)
        program = program_to_run(self)
        if in_bags:
            trials = np.ones(len(bags)) if self.needs_trials else None  # no rate depends on them
            labels = self.labels_of_new(bags, trials=trials, stan_data=stan_data)
            data = self._data_of_new(bags, labels)
        elif stan_data is not None:
            raise ValueError("stan_data are of bags, but the points are in none: pass Bags")
        else:
            columns = {name: program.data[name][:1] for name in program.columns}
            points = data_of_points(bags, self.feature_map_)
            labels = Labels(self._any_labels(program, 1), program_data=columns)
            data = without_bags(data_of_totals(points, labels))
        draws = draws_of_program(self, 1)
        draws = {name: evenly_spaced(values, n_draws) for name, values in draws.items()}
        return ProgramRates(program.rates(draws, data))

    def _check_asks_for_new(self, district, totals=None):
        """Raise ValueError if the program would need effects of training bags."""
        if totals is not None or not isinstance(district, bool):
            check_stock(self)

    def _data_of_new(self, bags, labels):
        check_in_memory(self.stan_file, bags)
        points = data_of_points(bags, self.feature_map_)
        y = self._any_labels(self.own_program, len(bags))
        return data_of_totals(points, replace(labels, y=y))

    def _any_labels(self, program, n):
        """Labels that n bags may have, of the program's type."""
        y = program.data["y"]
        return np.full(n, 0 if self._family.is_count else y.min(), y.dtype)

    def program_step(self, n_draws: int, data: Mapping[str, Any]) -> int:
        """k, if a program's predictions use every k-th draw of each chain."""
        return -(-n_draws // max(MOST_NUMBERS // (data["N"] + data["P"]), FEWEST_DRAWS))

    @property
    def label_model(self) -> TotalLabels:
        """The kind of the totals."""
        return TotalLabels(self._family, self._link, bound=self.method == "vb")

    @property
    def _family(self) -> Likelihood:
        return likelihood_named(self.likelihood)

    @property
    def _link(self) -> Link:
        return link_of(self._family, self.link)


def check_in_memory(program, bags):
    """Raise TypeError for bags with points in partitions."""
    if isinstance(bags, PartitionedBags):
        raise TypeError(
            f"{program} takes all points in memory, but these bags are in "
            "partitions: pass bags.load()"
        )
