"""Predictions of a model of totals: rates at points, and labels of bags."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from bdr_stan.aggregate.bag_effects import TrainingEffects
from bdr_stan.aggregate.effect_columns import (
    EffectColumns,
    covariances,
    effect_variance,
    effects_given_totals,
    subsets_given_totals,
)
from bdr_stan.aggregate.likelihoods.base import with_errors
from bdr_stan.aggregate.links import IDENTITY
from bdr_stan.aggregate.outside_basis import warn_beyond_box
from bdr_stan.aggregate.rows import mean_points, noise_factor
from bdr_stan.bags import Bags, BagsLike, PartitionedBags, values_of_bags
from bdr_stan.estimators.base import ProbabilisticRegressor, scored
from bdr_stan.estimators.own_program import program_to_run
from bdr_stan.estimators.program_of_totals import ProgramOfTotals
from bdr_stan.kernels import FieldFeatures, field_names
from bdr_stan.models.overdispersion import Overdispersion, likelihood_text
from bdr_stan.models.totals import totals_predictive
from bdr_stan.predictive import (
    AggregatePredictive,
    Contrast,
    PointPredictive,
    Predictive,
    ProgramPredictive,
)
from bdr_stan.questions.contrast import two_versions
from bdr_stan.questions.points import as_points, district_of_points, evenly_spaced
from bdr_stan.questions.protocol import check_stock
from bdr_stan.results.arviz_groups import few_enough, training_groups
from bdr_stan.results.result import Result
from bdr_stan.types import Array, ArrayLike, check_counts
from bdr_stan.user_warnings import warn

_POINTS_CHECKED = 100
_MAX_SHARE_BEYOND = 0.05  # of the points, above which a warning is given


class RatePredictions(ProbabilisticRegressor, ProgramOfTotals):
    """Predictions of bags and points of a fit to totals."""

    feature_map_: FieldFeatures
    effect_columns_: EffectColumns | None

    def predict(  # type: ignore[override]
        self,
        bags: BagsLike,
        *,
        trials: ArrayLike | str | None = None,
        district: ArrayLike | str | bool = True,
        return_std: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Posterior predictive mean of each bag's label.

        Parameters
        ----------
        trials : array, shape (n,), int or str
            Required for the binomial likelihood: a number for each bag or for all, or a column of
            the bags' metadata; by default the column that the fit used.
        district : as for `predictive`
        """
        predictive = self.predictive(bags, trials=trials, district=district)
        return (predictive.mean, predictive.sd) if return_std else predictive.mean

    def score(
        self,
        bags: BagsLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        trials: ArrayLike | str | None = None,
    ) -> float:
        """R^2 of the predicted labels, as in scikit-learn's regressors.

        Parameters
        ----------
        trials : as for `predict`
        """
        bags, y, sample_weight = scored(self, bags, y, sample_weight)
        return float(r2_score(y, self.predict(bags, trials=trials), sample_weight=sample_weight))

    def predictive(
        self,
        bags: BagsLike,
        *,
        trials: ArrayLike | str | None = None,
        district: ArrayLike | str | bool = True,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
    ) -> AggregatePredictive | Predictive | ProgramPredictive:
        """Posterior predictive distribution of the labels of bags, new or of the fit.

        Parameters
        ----------
        trials : as for `predict`
        district : bool, array, shape (n,), or str, default True
            Training bags that supply the effects of the bags: ids, one per bag (None: no training
            bag), or the column of the bags' metadata with the ids. A county in a training region
            has the region's effect and, because counties of a region also differ, a further one of
            mean 1. For negative binomial counts its standard deviation is dispersion / share^(1/4),
            where share is the county's part of the region's expected label: a compromise between
            one effect for all parts and independent effects. True: bags with ids that are training
            bags themselves (the same id and the same points) have their own effects, other bags new
            ones. False, or with `stan_file`: all have new ones.

        Returns
        -------
        AggregatePredictive, Predictive for the normal likelihood, ProgramPredictive with a
        `stan_file`
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `log_prob(y)`, `sample(size)`.
            Holds draws x bags numbers in memory.
        """
        bags = self.like_training(bags)
        self._check_effects_in_parts(bags)
        if self.by_program:
            self._check_asks_for_new(district)
            program_to_run(self)  # raises if it may not
        labels = self.labels_of_new(bags, trials=trials, stan_data=stan_data)
        if self.by_program:
            return self._predictive_of_program(bags, labels).with_ids_of(bags)
        training = self.training_effects
        number, itself = training.districts(bags, district)
        if self.effect_columns_ is not None:
            return self._predictive_with_effects(bags, number).with_ids_of(bags)
        effects = training.of_bags(bags, number, itself, self.draws().get("tau"))
        return self._predictive_of(bags, labels, effects, number, itself).with_ids_of(bags)

    def contrast(
        self, bags_a: BagsLike, bags_b: BagsLike, *, trials: ArrayLike | str | None = None
    ) -> Contrast:
        """Posterior of the difference of each bag's expected label between two versions of it.

        Parameters
        ----------
        bags_a, bags_b : Bags, or lists of n arrays, shapes (n_points, p)
            Two versions of the same n bags: label of `bags_a` minus label of `bags_b`. A bag's own
            effect, if the model has bag effects, is the same in both.
        trials : as for `predict`

        Returns
        -------
        Contrast
            With `mean`, `sd`, `quantile(q)`, `interval(level)` and `draws`.

        Raises
        ------
        ValueError
            The versions have different numbers of bags.
        """
        first, second = two_versions(self, bags_a, bags_b)
        self._check_effects_in_parts(first)
        # A changed version of a training bag has the effect of that bag.
        training = self.training_effects
        number = np.maximum(*(training.districts(bags, True)[0] for bags in (first, second)))
        if self.effect_columns_ is not None:
            versions = self._with_same_effects(first, second, number)
            return Contrast.between(*versions).with_ids_of(first)
        itself = number >= 0
        effects = training.of_bags(first, number, itself, self.draws().get("tau"))
        versions = (
            self._predictive_of(
                bags, self.labels_of_new(bags, trials=trials), effects, number, itself
            )
            for bags in (first, second)
        )
        return Contrast.between(*versions).with_ids_of(first)

    def predict_points(
        self,
        points: Any,
        *,
        district: ArrayLike | str | bool = True,
        totals: ArrayLike | str | None = None,
        n_draws: int = 1000,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
    ) -> PointPredictive:
        """Posterior of the rate at points, of training bags or new.

        Parameters
        ----------
        district : bool, array, or str, default True
            Training bags that supply the effect of the rate, if the model has effects (negative
            binomial counts, or `bag_effects`): the difference of the bag's label from the
            expectation given its points, with its uncertainty. Ids, one per point, or for `Bags`
            one per bag (None: no training bag), or the column of the table or of the bags' metadata
            with the ids. True: points of `Bags` with ids that are training bags themselves (the
            same id and the same points) have their effects. False, and all other points: the rate
            of an average bag. Effects are kept while draws x bags are below 20 million.
        totals : array, shape (n,), or str, optional
            Reported totals of `points`, which must be `Bags`, or the column of their metadata with
            the totals: rates add up to them under each draw, whatever `district` is. The rates of a
            bag are multiplied by one number (for the link "identity" one is added), or the
            coefficients of `bag_effects` are drawn given the total, the only information on the
            bag's effect.
        stan_data : dict, optional
            Data of your own Stan program for bags, as for `predictive`. With `stan_file` rates are
            the rate_new that the program generates, in memory; points that are not `Bags` belong to
            no bag.

        Returns
        -------
        PointPredictive
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `exceedance(threshold)`, each of
            shape (n,), in units of y per weight; computed in chunks when asked for.
        """
        check_counts(n_draws=n_draws)
        if totals is not None and not isinstance(points, Bags):
            raise TypeError(
                f"totals needs bags in memory, but points are a {type(points).__name__}"
            )
        bags = self.like_training(as_points(self, points), need_weights=totals is not None)
        if self.by_program:
            in_bags = isinstance(points, (Bags, PartitionedBags))
            return self._program_rates(bags, in_bags, district, totals, n_draws, stan_data)
        self._check_stan_data(stan_data)
        draws, training, effects, bag = self.draws(), self.training_effects, None, None
        if totals is not None:
            effects = self._effects_of_totals(bags, totals, n_draws)
            bag = np.repeat(np.arange(len(bags)), bags.sizes)
        elif isinstance(points, (Bags, PartitionedBags)):
            bag = np.repeat(training.districts(bags, district)[0], bags.sizes)
        elif not isinstance(district, bool):
            names = district_of_points(points, len(bags.points), district)
            bag = training.numbers(names, "point")
        use_training = totals is None and bag is not None and np.any(bag >= 0)
        if training.effects is not None and use_training:
            effects = evenly_spaced(training.effects, n_draws)
        predictive = PointPredictive(
            bags.read_checked,
            len(bags.points),
            self.feature_map_,
            evenly_spaced(thetas(draws), n_draws),
            self._link,
            rho=evenly_spaced(draws["rho"], n_draws),
            effects=effects,
            bag=bag,
            effect_columns=self.effect_columns_,
        )
        _warn_of_means_beyond_intervals(predictive)
        return predictive

    def predict_fields(self, points: Any, *, n_draws: int = 1000) -> dict[str, PointPredictive]:
        """Posterior of each field of f at points: the contributions of covariates, space and so on.

        Returns
        -------
        dict, name of the field -> PointPredictive
            A field for each summand of the kernel, on the scale of f (log rates with "exp"). f is
            the intercept plus their sum.
        """
        check_counts(n_draws=n_draws)
        bags = self.like_training(as_points(self, points), need_weights=False)
        draws, features = self.draws(), self.feature_map_
        rho = evenly_spaced(draws["rho"], n_draws)
        w = evenly_spaced(draws["w"], n_draws)
        return {
            name: PointPredictive(
                bags.read_checked,
                len(bags.points),
                FieldFeatures(field, features.landmarks),
                np.column_stack([w[:, block], np.zeros(len(w))]),
                IDENTITY,
                rho=rho,
            )
            for name, field, block in zip(
                field_names(features.kernel, bags.features, bags.n_features),
                features.fields,
                features.blocks,
                strict=True,
            )
        }

    def _training_groups(self, posterior, training, labels, seed, program):
        """Predictions, likelihood and effects of the training bags, unless too large; constants."""
        y, ids = labels.y, training.record.index
        if self.stan_file is not None:
            return self._groups_of_program(posterior, training, labels, seed, program), {}
        draws, rows = posterior.flat(), training.rows
        columns = training.effect_columns
        has_effects = self._family.has_effects or columns is not None
        if not few_enough(len(draws["w"]), len(y)):
            if has_effects:
                warn(
                    "the effects of the bags are not kept, as draws x bags are too many: "
                    "training bags are predicted like new bags; ask for fewer draws"
                )
            return {}, {}
        means = self._link.means(rows, thetas(draws), draws.get("effect"), rho=draws["rho"])
        sums = None if columns is None else columns.sums(training.mean_points, rows.total)
        scales = dict(draws)
        if np.any(rows.known_variance) and not self._link.is_linear:
            scales["dispersion"] = with_errors(draws["dispersion"][:, None], rows.known_variance)
        predictive = self._predictive(
            means, rows.noise_factor, scales, labels, sums, rows.known_variance
        )
        groups = training_groups(predictive, posterior.draws, y, ids, seed=seed)
        if not has_effects:
            return groups, {}
        predicted = groups["posterior_predictive"]["y"]
        if sums is not None:
            noise = np.multiply.outer(draws["sigma"], rows.noise_factor) ** 2 + rows.known_variance
            covariance = covariances(draws)
            effects = effects_given_totals(y - means, sums, noise, covariance, seed)
            shape = (*predicted.shape, -1)
            dims = (*predicted.dims, "effect_column")
            groups["posterior_predictive"]["effect"] = dims, effects.reshape(shape)
            return groups, {}
        errors = {"error_variance": rows.known_variance}
        effects = self._family.draw_effects(y, means, seed, **errors, **self._scales(draws))
        groups["posterior_predictive"]["effect"] = predicted.dims, effects.reshape(predicted.shape)
        expected = np.mean(means * np.exp(effects), axis=0)
        return groups, {"expected_total": (expected, ["bag"])}

    def likelihood_text(self) -> str:
        """The likelihood and the link in words, with the fitted overdispersion of counts."""
        check_is_fitted(self, "result_")
        if self.by_program:
            return f"that of {self.stan_file}"
        overdispersion = self.result_.settings.get("overdispersion")
        scales, units = self._scales(self.draws()), self._family.scales
        return likelihood_text(
            self._family.name,
            self._link.name,
            {name: draws for name, draws in scales.items() if units[name].unit == "none"},
            None if overdispersion is None else Overdispersion(**overdispersion),
            fixed=self.method != "nuts",
        )

    @property
    def training_effects(self) -> TrainingEffects:
        """Effects of the training bags under each draw, if the model has and keeps them."""
        check_stock(self)
        groups, effects = self.result_.groups, None
        for name in ("posterior_predictive", "posterior"):
            if name in groups and "effect" in groups[name]:
                values = groups[name]["effect"].values
                effects = values.reshape(-1, *values.shape[2:])
        ids = groups["observed_data"]["bag"].values
        return TrainingEffects(effects, ids, self.result_.constants.get("mean_point"))

    def like_training(self, bags: BagsLike, *, need_weights: bool = True) -> Any:
        """As for all estimators; warns of points beyond the basis functions."""
        like = super().like_training(bags, need_weights=need_weights)
        warn_beyond_box(like, self.kernel_)
        return like

    def _predictive_of(self, bags, labels, effects, number, itself):
        draws = self.draws()
        means = self.mean_totals(bags, effects)
        if self._family.has_effects and np.any(number >= 0):
            share = np.ones(len(bags))
            inside = number >= 0
            share[inside] = means[:, inside].mean(axis=0)
            share[inside] /= self.result_.constants["expected_total"][number[inside]]
            draws |= self._family.scales_of_parts(share, itself, **self._scales(draws))
        return self._predictive(means, noise_factor(bags), draws, labels)

    def _predictive_with_effects(self, bags: Bags, number: Array) -> Predictive:
        """Totals of bags in the training bags of these numbers (-1: none), and of new ones."""
        draws, sums = self.draws(), self._effect_sums(bags)
        means = self.mean_totals(bags, None)
        variance = effect_variance(sums, covariances(draws))
        in_training, effects = np.flatnonzero(number >= 0), self.training_effects.effects
        if effects is not None and len(in_training):
            training_effects = effects[:, number[in_training]]
            means[:, in_training] += np.einsum("nk,snk->sn", sums[in_training], training_effects)
            variance[:, in_training] = 0.0
        return totals_predictive(means, noise_factor(bags), variance, sigma=draws["sigma"])

    def _with_same_effects(self, first, second, number):
        """Predictive distributions of two versions of bags with the same effects, drawn if new."""
        draws = self.draws()
        S, K = draws["effect_sd"].shape
        in_training, training_effects = number >= 0, self.training_effects.effects
        noise = np.random.default_rng(0).standard_normal((S, len(first), K))
        factor = np.linalg.cholesky(draws["effect_correlation"])
        effects = np.einsum("snk,slk,sl->snl", noise, factor, draws["effect_sd"])
        if training_effects is not None and np.any(in_training):
            effects[:, in_training] = training_effects[:, number[in_training]]
        for bags in (first, second):
            shift = np.einsum("nk,snk->sn", self._effect_sums(bags), effects)
            means = self.mean_totals(bags, None) + shift
            yield totals_predictive(means, noise_factor(bags), sigma=draws["sigma"])

    def _effect_sums(self, bags: Bags) -> Array:
        """sum_j p_j g_j of the columns with coefficients per bag, shape (n, K)."""
        columns = self.effect_columns_
        assert columns is not None
        return columns.sums(mean_points(bags).points, bags.totals)

    def subsets_given_totals(self, subset: Bags, bags: Bags, totals: Array) -> tuple[Array, Array]:
        """Mean and sd of the totals of subsets of the bags' points given the bags', (S, m)."""
        draws = self.draws()
        of_subset, of_bags = (
            np.multiply.outer(draws["sigma"], noise_factor(points_of)) ** 2
            for points_of in (subset, bags)
        )
        return subsets_given_totals(
            self.mean_totals(subset, None),
            totals - self.mean_totals(bags, None),
            self._effect_sums(subset),
            self._effect_sums(bags),
            of_subset,
            of_bags,
            covariances(draws),
        )

    def _effects_of_totals(self, bags: Bags, totals: Any, n_draws: int) -> Array:
        """Effects of bags, under some of the draws, that make their rates add up to totals."""
        if self._link.name == "logit":
            raise ValueError(
                "totals cannot be imposed on probabilities, which link 'logit' keeps below 1: "
                "leave them out"
            )
        y = self.label_model.likelihood.check_labels(bags, values_of_bags(bags, totals, "totals"))
        some = {name: evenly_spaced(values, n_draws) for name, values in self.draws().items()}
        means = self._link.means_of_bags(
            bags, self.feature_map_, thetas(some), None, rho=some["rho"]
        )
        if not self._link.is_linear:
            with np.errstate(divide="ignore"):  # a total of 0 has rates of 0
                return np.log(y) - np.log(means)
        if self.effect_columns_ is None:
            return (y - means) / bags.totals
        sums = self._effect_sums(bags)
        return effects_given_totals(y - means, sums, np.zeros_like(means), covariances(some), 0)

    def mean_totals(self, bags: Bags, effects: Array | None) -> Array:
        """Mean label, or probability, of bags under each draw, (S, n), given effects, (S, n)."""
        draws = self.draws()
        return self._link.means_of_bags(
            bags, self.feature_map_, thetas(draws), effects, rho=draws["rho"]
        )

    def _predictive(self, means, noise, draws, labels, effect_sums=None, known_variance=0.0):
        """Predictive distribution of bags of mean labels under each draw, shape (S, n)."""
        scales = self._scales(draws)
        if self._link.is_linear:
            variance = known_variance
            if effect_sums is not None:
                variance = variance + effect_variance(effect_sums, covariances(draws))
            return totals_predictive(means, noise, variance, **scales)
        S, n = means.shape
        return AggregatePredictive(
            lambda i: means[:, i], n, S, self._family, **labels.parameters, **scales
        )

    def _scales(self, draws: Mapping[str, Array]) -> dict[str, Array]:
        """Scales of the likelihood among draws."""
        return {name: draws[name] for name in self._family.scales}

    def draws(self) -> dict[str, Array]:
        """Draws that predictions use, all chains in one; ValueError for a user's program."""
        check_stock(self)
        of_effects = ("tau", "effect_sd", "effect_correlation")
        names = ("w", "intercept", "rho", *of_effects, *self._family.scales)
        return {name: self.result_.draws(name) for name in names if self.result_.has_draws(name)}


def _warn_of_means_beyond_intervals(rates: PointPredictive) -> None:
    """Warn if the residual variance of log rates puts means beyond their own intervals."""
    if rates.rho is None or rates.link.name != "exp":
        return
    some = np.unique(np.linspace(0, len(rates) - 1, _POINTS_CHECKED).astype(int))
    draws = rates.draws(some)
    # The mean over the residual has a closed form, and is the rate of f: see `Link.mean_rate`.
    beyond = np.mean(rates.mean_of(some) > np.quantile(draws, 0.975, axis=0))
    if beyond > _MAX_SHARE_BEYOND:
        warn(
            f"the features leave out so much of the log rate that its mean lies above its own 95% "
            f"interval at {beyond:.0%} of the points: raise n_landmarks, and use quantile(0.5) in "
            "place of the mean"
        )


def effect_columns_of(result: Result) -> EffectColumns | None:
    """Columns with coefficients per bag, from the constants of a fit."""
    if "effect_index" not in result.constants:
        return None
    names = result.groups["constant_data"]["effect_column"].values
    parts = (result.constants[f"effect_{part}"] for part in ("index", "centre", "scale"))
    return EffectColumns([str(name) for name in names], *parts)


def thetas(draws: Mapping[str, Array]) -> Array:
    """theta = [w; intercept] of each draw, shape (S, d + 1)."""
    return np.column_stack([draws["w"], draws["intercept"]])
