"""Rates at points from totals of bags and surveys of places: one latent function for both."""

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from bdr_stan.aggregate.densities import Totals
from bdr_stan.aggregate.links import LOGIT
from bdr_stan.aggregate.surveys import (
    JointFeatures,
    checked_surveys,
    percentiles_of_places,
    periods,
    survey_rows,
)
from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.bags.checks import near_names
from bdr_stan.estimators.aggregate import AggregateRegressor
from bdr_stan.estimators.rates import thetas
from bdr_stan.families import FAMILIES
from bdr_stan.models.joint import JointModel, SurveyAgreement, survey_theta
from bdr_stan.parameters import estimator
from bdr_stan.posterior.priors import SURVEYS
from bdr_stan.posterior.settings import METHODS
from bdr_stan.predictive import PointPredictive
from bdr_stan.questions.points import as_points, evenly_spaced
from bdr_stan.results.result import Result
from bdr_stan.types import Array, ArrayLike, check_counts
from bdr_stan.user_warnings import warn

_SURVEY_FAMILY = FAMILIES["beta_binomial"]  # places differ by more than f and by who is examined


@estimator
class JointRegressor(AggregateRegressor):
    """Rates at points from totals of bags and from surveys of places, which share one function.

    The totals follow `AggregateRegressor` with the link "exp": a bag's label has the mean lambda_a
    = sum_j p_j exp(f(x_aj)). At each survey place s some of the examined people are positive, a
    beta-binomial number, with the log odds of a positive at a point

        survey_intercept + survey_slope (f(x) - log of the overall rate of the totals).

    Prevalence is not incidence: both numbers of this line are learned. Several surveys, of other
    ages or with other tests, have a line and a dispersion each. Predictions of bags, points and
    fields are as in `AggregateRegressor`; `predict_prevalence` is for the surveys.

    Parameters
    ----------
    likelihood : {"negative_binomial", "poisson", "gamma", "exponential"}
        Likelihood of the totals, as for `AggregateRegressor`.
    link : {"exp"}
        The surveys depend on the log rate, so no other link is possible.
    bag_effects : bool, default False
        Whether each bag has an i.i.d. normal effect on the log rate, with NUTS. Surveys do not
        have it.
    thin : int, optional
        Represent each bag by at most this many weighted points; `thinning_error_` reports the
        error. The points of survey places are never thinned.
    method : {"nuts", "laplace", "optimize"}, default "nuts"
        All but NUTS hold rho and the dispersions at their marginal modes.

    Attributes
    ----------
    agreement_ : SurveyAgreement, or dict of str -> SurveyAgreement
        The slope's draws, and the percentiles of the places' log rates among the bags' points (of
        the same month, if the kernel is a product of space and time); with `interval`, `disagrees`
        and `p_value`. With several surveys a dict by name.

    Notes
    -----
    The slope has the prior normal(1, 1): it is 1 if few are positive, in proportion to the rate. It
    may have either sign, so surveys that contradict the totals are detected and do not distort the
    map. A fit warns if the slope's 95% interval includes 0 or negative numbers, and `report` states
    this and whether places were surveyed where rates are high. Kernel and landmarks are learned
    from the totals. Source: Lucas, Nandi, Chestnutt et al. (2021), "Mapping malaria by sharing
    spatial information between incidence and prevalence data sets".

    Examples
    --------
    Cases are counted by district, and people are examined at 30 places.

    >>> import numpy as np
    >>> from bdr_stan import Bags, JointRegressor
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.uniform(size=(1000, 1))
    >>> districts = Bags.from_points(rain, bag=(rain[:, 0] * 10).astype(int))
    >>> cases = rng.poisson(districts.sums(0.2 * np.exp(2 * districts.points[:, 0])))
    >>> places = Bags.from_list([point[None] for point in rain[:30]])
    >>> positives = rng.binomial(100, 0.05 * np.exp(2 * rain[:30, 0]))
    >>> model = JointRegressor("poisson", n_landmarks=6, method="laplace").fit(
    ...     districts, cases, surveys=places, positives=positives, examined=[100] * 30, seed=1
    ... )
    >>> model.agreement_.disagrees
    False
    >>> prevalence = model.predict_prevalence([[0.2], [0.8]])
    >>> bool(prevalence.mean[1] > 2 * prevalence.mean[0])
    True
    """

    link: str | None = "exp"

    methods = METHODS
    closed_form = ()
    stan_file: ClassVar[None] = None  # type: ignore[misc]  # no parameter

    def fit(  # type: ignore[override]
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        surveys: BagsLike | Mapping[str, BagsLike],
        positives: ArrayLike | str | Mapping[str, ArrayLike | str],
        examined: ArrayLike | str | Mapping[str, ArrayLike | str],
        label_sd: ArrayLike | str | None = None,
        chains: int = 4,
        warmup: int | None = None,
        draws: int = 1000,
        seed: int | None = None,
        progress: bool | None = None,
        **cmdstan_options: Any,
    ) -> Self:
        """Fit to bags with their totals, and to one or several surveys.

        Parameters
        ----------
        surveys : Bags, or list of m arrays, shapes (n_points, p), or a dict of surveys
            At least 2 places with the columns of `bags`: of one point, or of several weighted
            points if the place is known up to an area. Several surveys are a dict by their names,
            ``{"clusters": places, "schools": others}``; a place may be in several.
        positives : array, shape (m,), or str, or a dict by survey
            How many people were positive at each place, or the column of the places' metadata. A
            Series is matched to the places by their ids. For several surveys a dict by the same
            names, or one column of the metadata of all.
        examined : array, shape (m,), or str, or a dict by survey
            How many people were examined at each place, at least 1.

        Warns
        -----
        UserWarning
            Trouble of the sampler, and a survey that disagrees with the totals.
        """
        started = time.monotonic()
        bags = as_bags(bags, in_parts=True)
        labels = self.read_labels(bags, y, label_sd=label_sd)
        places = checked_surveys(bags, surveys, positives, examined, self.kernel)
        settings = self._settings(chains, warmup, draws, seed, progress, **cmdstan_options)
        return self._fit_bags(bags, labels, settings, started, places=places)

    def _training_features(self, bags, labels, seed, places):
        totals = super()._training_features(bags, labels, seed)
        features = totals.feature_map
        return JointFeatures(
            **vars(totals),
            surveys=survey_rows(places, features),
            periods=periods(features.kernel, bags, places.places),
        )

    def _fit_labels(self, *args):
        super()._fit_labels(*args)
        for name, agreement in self._agreements.items():
            if agreement.disagrees and len(agreement.slope) > 1:
                warn(f"{name}: {agreement.slope_text}")
        return self

    def _constants(self, training, posterior):
        draws = posterior.flat()
        theta = np.append(draws["w"].mean(axis=0), draws["intercept"].mean())
        percentiles = percentiles_of_places(training, theta)
        return super()._constants(training, posterior) | {
            "survey_percentile": (percentiles, ["place"])
        }

    def _coordinates(self, model, training):
        return super()._coordinates(model, training) | {"survey": model.surveys.names}

    @property
    def stan_data(self) -> Any:
        """Joint models have no plain program: raises AttributeError."""
        raise AttributeError(
            "JointRegressor has no stan_data, as there is no plain Stan program of joint models"
        )

    def _model(self, training, labels, likelihood=None):
        return JointModel(
            training.rows,
            Totals(labels, likelihood or self._family, self._link),
            training.surveys,
            _SURVEY_FAMILY,
            prior=self.prior,
            bag_effects=bool(self.bag_effects),
            weight_basis=training.feature_map.projection,
        )

    def predict_prevalence(
        self, points: Any, *, survey: str | None = None, n_draws: int = 1000
    ) -> PointPredictive:
        """Posterior of the probability of a positive at points, as surveys there would find it.

        Parameters
        ----------
        survey : str, optional
            Name of the survey, needed if the fit has several.

        Returns
        -------
        PointPredictive
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `exceedance(threshold)`, each of
            shape (n,): probabilities.

        Raises
        ------
        ValueError
            The fit has no such survey, or several and none is named.
        """
        check_counts(n_draws=n_draws)
        bags = self.like_training(as_points(self, points), need_weights=False)
        scale = np.abs(self._of_survey("survey_slope", survey)) * self.result_.draws("rho")
        return PointPredictive(
            bags.read_checked,
            len(bags.points),
            self.feature_map_,
            evenly_spaced(self._survey_thetas(survey), n_draws),
            LOGIT,
            rho=evenly_spaced(scale, n_draws),
        )

    def report(self) -> str:
        """As for `AggregateRegressor`, and whether the surveys agree with the totals; a str."""
        lines = [
            f"{name}: {agreement.slope_text} The {agreement.places_text}"
            for name, agreement in self._agreements.items()
        ]
        return "\n".join([super().report(), *lines])

    def check_parameters(self) -> None:
        super().check_parameters()
        if self._link.name != "exp":
            raise ValueError(
                "the surveys of JointRegressor read a log rate: use link='exp', found "
                f"{self.link!r}"
            )

    @property
    def prior_texts(self) -> dict[str, tuple[str, str, str]]:
        return {**super().prior_texts, **SURVEYS}

    def _survey_thetas(self, survey: str | None) -> Array:
        """Weights and intercept of a survey's log odds under each draw, shape (S, d + 1)."""
        return survey_theta(
            thetas(self.draws()),
            self._of_survey("survey_intercept", survey),
            self._of_survey("survey_slope", survey),
            float(self.result_.constants["overall"]),
        )

    def _of_survey(self, name: str, survey: str | None) -> Array:
        """Draws of a parameter of a survey, shape (S,); ValueError if it does not exist."""
        draws, names = self.result_.draws(name), _survey_names(self.result_)
        if not names:
            if survey is not None:
                raise ValueError(
                    f"the fit has one survey, which has no name: leave survey={survey!r} out"
                )
            return draws
        if survey is None and len(names) > 1:
            raise ValueError(
                f"the fit has the surveys {', '.join(map(repr, names))}, each with its own line: "
                f"choose one, such as survey={names[0]!r}"
            )
        if survey is not None and survey not in names:
            raise ValueError(f"the fit has no survey {survey!r}; {near_names(survey, names)}")
        return draws[:, 0 if survey is None else names.index(survey)]

    @property
    def _agreements(self) -> dict[str, SurveyAgreement]:
        """Agreement of each survey, by its name in reports."""
        if isinstance(self.agreement_, SurveyAgreement):
            return {"Surveys": self.agreement_}
        return {f"Survey {name!r}": agreement for name, agreement in self.agreement_.items()}

    def _set_fitted(self, result: Result) -> None:
        super()._set_fitted(result)
        slope, percentiles = result.draws("survey_slope"), result.constants["survey_percentile"]
        names, number = _survey_names(result), result.constants["survey_number"]
        self.agreement_ = (
            {
                name: SurveyAgreement(slope[:, k], percentiles[number == k])
                for k, name in enumerate(names)
            }
            if names
            else SurveyAgreement(slope, percentiles)
        )


def _survey_names(result):
    """Names of the surveys of a fit; none of a single survey without a name."""
    coordinates = result.groups["posterior"].coords
    return coordinates["survey"].values.tolist() if "survey" in coordinates else []
