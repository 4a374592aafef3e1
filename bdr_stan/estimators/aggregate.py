"""Rates at points, learned from totals of bags (Law et al. 2018, aggregate outputs)."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.aggregate.bag_effects import TrainingEffects
from bdr_stan.aggregate.effect_columns import (
    EffectColumns,
    covariances,
    effect_variance,
    effects_given_totals,
    subsets_given_totals,
)
from bdr_stan.aggregate.labels import checked_trials
from bdr_stan.aggregate.likelihoods import Likelihood, likelihood_named
from bdr_stan.aggregate.likelihoods.base import with_errors
from bdr_stan.aggregate.links import IDENTITY, Link, link_of
from bdr_stan.aggregate.outside_basis import warn_beyond_box, warn_of_omitted_totals
from bdr_stan.aggregate.rows import AggregateRows, mean_points, noise_factor
from bdr_stan.aggregate.thinning import thinning_error
from bdr_stan.aggregate.training import AggregateFeatures, training_features
from bdr_stan.bags import (
    Bags,
    BagsLike,
    PartitionedBags,
    as_bags,
    label_sd_values,
    values_of_bags,
)
from bdr_stan.bags.matching import label_name
from bdr_stan.estimators.base import scored
from bdr_stan.estimators.doubts_of_totals import DoubtedRates
from bdr_stan.estimators.ecological import EcologicalInference
from bdr_stan.estimators.own_program import check_stock, is_plain, own_data_of_bags
from bdr_stan.estimators.own_totals import ProgramOfTotals, check_in_memory
from bdr_stan.estimators.parameters import estimator
from bdr_stan.estimators.points import as_points, district_of_points, evenly_spaced
from bdr_stan.estimators.prediction import ProbabilisticRegressor
from bdr_stan.estimators.ranking import Ranking
from bdr_stan.estimators.validation import (
    LANDMARKS,
    check_bag_effects,
    check_counts,
    check_landmarks,
    labels_of_training,
)
from bdr_stan.kernels import FieldFeatures, Kernel, check_kernel, field_names
from bdr_stan.models.aggregate import aggregate_model, variational_fit
from bdr_stan.models.label_errors import spread_of_true_labels
from bdr_stan.models.overdispersion import (
    WIDER_TOTALS,
    Overdispersion,
    likelihood_text,
    overdispersion,
)
from bdr_stan.models.plain import StanData, data_of_points, data_of_training_bags
from bdr_stan.models.totals import totals_predictive, totals_with_effects
from bdr_stan.posterior.priors import RATES
from bdr_stan.posterior.sampling import sample_posterior
from bdr_stan.posterior.settings import METHODS
from bdr_stan.predictive import (
    AggregatePredictive,
    Contrast,
    PointPredictive,
    Predictive,
    ProgramPredictive,
)
from bdr_stan.progress import status
from bdr_stan.results.arviz_groups import few_enough, training_groups
from bdr_stan.results.result import Result
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array, ArrayLike, check_flags
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    pass

_THINNING_DRAWS = 20
_WARNED_THINNING_ERROR = 0.02  # on average over draws and bags
_POINTS_CHECKED = 100
_MAX_SHARE_BEYOND = 0.05  # of the points, above which a warning is given


@estimator
class AggregateRegressor(
    Ranking, EcologicalInference, DoubtedRates, ProbabilisticRegressor, ProgramOfTotals
):
    """Rates at points from totals of bags: malaria at a pixel from counts of districts.

    The function f = f0 + (a Gaussian process, by Nystrom features at landmarks) gives the rate at
    a point through the link. A bag's label y_a has the mean lambda_a = sum_j p_j rate(x_aj), p_j
    the weights of the bag's points (populations; 1 if the bags have none).

    Parameters
    ----------
    likelihood : {"negative binomial", "poisson", "normal", "gamma", "exponential", "binomial"}
        "negative binomial" (default): counts of mean lambda and variance
        lambda + dispersion^2 lambda^2. "poisson": counts of mean and variance lambda; real counts
        seldom are, and a fit warns if they are not. "gamma": positive totals of mean lambda and
        standard deviation dispersion lambda, "exponential": the same at dispersion 1. "binomial":
        counts out of `trials`, of probability lambda / sum_j p_j. "normal": totals of individual
        outcomes N(f_j, sigma^2), y_a ~ N(lambda_a, sigma^2 sum_j p_j^2); weights 1/N_a make them
        means.
    link : {"square", "exp", "logit", "identity"}, optional
        The rate is f^2, exp(f), logistic(f) or f. "square" (default) and "exp" for counts
        and positive totals; "logit" for binomial, "identity" for normal. With "square" and
        "identity" the points are compressed without loss; "exp" and "logit" cost Stan all points
        (see `thin`).
    n_landmarks : int, default 60
        For each field; at most 10 for a field of one column. Ignored if `landmarks` is an array or
        "one per bag".
    kernel : str or Kernel, default "rbf"
        A name of `bdr_stan.kernels.KERNELS`, or a kernel with columns, sums and products:
        ``RBF("ard", columns=[...]) + Matern32(columns=["lon", "lat"])``. Each summand is a field
        with its own features: landmarks in its columns, sines (`HilbertSpace`, or a product of two,
        for example of space and time), or the columns themselves (`LinearEffects`). `map_kernel`
        makes one for maps. A name begins with the median rule on columns divided by their standard
        deviations.
    learn_kernel : bool, default True
        Maximise the evidence (with Laplace's method) over bandwidths and variances of summands,
        with at most about 10,000 weighted points representing all. A kernel by name has a length
        for each column (the columns of a category share one), long if a column does not matter; a
        given kernel keeps its lengths: ``RBF()`` one for all. False uses the given ones or the
        median rule.
    landmarks : {"kmeans", "random", "one per bag"} or array, shape (d, p), default "kmeans"
        k-means on columns divided by their standard deviations.
    bag_effects : bool or list of columns, default False
        Whether each bag has an i.i.d. normal effect on the log rate or the log odds, with NUTS. The
        negative binomial likelihood has gamma effects without it: see `district` of
        `predict_points`. For the normal likelihood the effect is on the rate, and columns (names or
        numbers) have coefficients that differ between bags too, with learned standard deviations
        and correlations, like ``(1 + columns | bag)`` in a multilevel model. A bag's label then
        updates the rates inside it; with the share of a group as a column's weights and `bounds`
        this is ecological inference.
    thin : int, optional
        "exp" and "logit" only: represent each bag by at most this many weighted points;
        `thinning_error_` reports the error. With "exp" thinned totals are too low and rates are too
        high by as much, as the rate at an average is below the average rate; a fit warns of more
        than 2%.
    method : {"nuts", "vb", "laplace", "optimize"}, default "nuts"
        "optimize" is the mode (the paper's Nystrom MAP), "vb" the variational posterior VBAgg, for
        models without bag_effects. All but NUTS fix rho and the dispersion at their marginal modes
        ("vb": rho at the mode of the bound).
    stan_file : path, optional
        Your edited ``totals_square.stan``, ``totals_exp.stan``, ``totals_identity.stan`` or a
        variant, from ``bdr-stan eject``. It uses all points of a bag, without `thin`, and with the
        normal likelihood no `bag_effects`. Predictions are its `y_new` for new bags and `rate_new`
        for new points, with the stock model's kernel and landmarks. Variants of the accelerated
        programs give draws, but no predictions.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept (f0), w (component), rho in units of f; beta (landmark) if one field
        has all landmarks; sigma, dispersion, tau and effect (bag), or effect_sd (effect_column),
        effect_correlation and effect (bag, effect_column), if the model has them.
    kernel_ : Kernel
        With the parameters that were learned.
    landmarks_ : array, shape (d, p)
        With several fields, NaN in columns on which a landmark's field does not depend.
    feature_map_ : FieldFeatures
        psi, with f(x) = intercept + psi(x)' w.
    bound_ : float
        With "vb": the evidence lower bound (with the Taylor term of the square link: nearly).
    log_evidence_ : float
        Except with "vb" and `stan_file`: log density of the labels at the most probable scales, the
        weights integrated out with Laplace's method.
    thinning_error_ : array, shape (about 20, n)
        With `thin`: relative errors of the training bags' means, a row for each of some draws.

    Notes
    -----
    The headers of the programs in ``stan/`` state the models. A point may be in several bags. Under
    the square link, f and -f have the same likelihood: the prior of the intercept decides, and NUTS
    starts at the mode above zero. If rates come near zero f may cross it, and the sign of each
    region is then not identified: NUTS warns, and "exp" has no such modes. scikit-learn's searches
    and folds split `trials` with the bags if it is a column of their metadata; an array needs
    metadata routing (`set_fit_request`, `set_predict_request`, `set_score_request`), and
    `cross_val_predict` passes nothing to `predict`. Source: Law, Sejdinovic, Cameron, Lucas,
    Flaxman, Battle, Fukumizu (2018), "Variational learning on aggregate outputs with Gaussian
    processes".

    Examples
    --------
    Cases are counted by district, and the rate at each point is wanted.

    >>> import numpy as np
    >>> from bdr_stan import AggregateRegressor, Bags
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.uniform(size=(1000, 1))
    >>> districts = Bags.from_points(rain, bag=(rain[:, 0] * 20).astype(int))
    >>> cases = rng.poisson(districts.sums(5 * districts.points[:, 0]))  # the rate is 5 x rain
    >>> model = AggregateRegressor(n_landmarks=6, method="laplace")
    >>> model = model.fit(districts, cases, draws=200, seed=1)
    >>> rate = model.predict_points([[0.2], [0.8]])
    >>> bool(np.abs(rate.mean - [1, 4]).max() < 0.5)
    True
    >>> model.predict(districts).shape
    (20,)
    >>> sorted(model.ranking(districts, top=3).index[:3].tolist())
    [17, 18, 19]
    >>> slopes = model.check_context()
    >>> bool(slopes.loc["x0", "lower"] < 0 < slopes.loc["x0", "upper"])
    True
    """

    likelihood: str = "negative binomial"
    link: str | None = None
    n_landmarks: int | None = 60
    kernel: str | Kernel = "rbf"
    _: KW_ONLY
    learn_kernel: bool = True
    landmarks: str | ArrayLike = "kmeans"
    bag_effects: bool | Sequence[str | int] = False
    thin: int | None = None

    takes_label_sd = True
    methods: ClassVar[tuple[str, ...]] = (*METHODS, "vb")
    closed_form: ClassVar[tuple[str, ...]] = ("vb",)
    _training_kind: ClassVar[type[AggregateFeatures]] = AggregateFeatures

    def fit(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        trials: ArrayLike | str | None = None,
        label_sd: ArrayLike | str | None = None,
        chains: int = 4,
        warmup: int | None = None,
        draws: int = 1000,
        seed: int | None = None,
        progress: bool | None = None,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
        **cmdstan_options: Any,
    ) -> Self:
        """Fit to bags and their totals.

        Parameters
        ----------
        trials : array, shape (n,), or str, optional
            For the binomial likelihood: people asked in each bag, or the column of the bags'
            metadata with them, which predictions then also use.
        label_sd : array, shape (n,), or str, optional
            Known standard error of each label, units of y, or the column of the bags' metadata with
            them, for example of totals that a survey estimates (a 90% margin of error divided by
            1.645). For the normal, negative binomial and gamma likelihoods. For the latter two the
            error is relative; it is 1 if a label is below its `label_sd`. Predicted totals exclude
            this error.
        """
        bags, totals, known, own = self._checked(bags, y, trials, label_sd, stan_data)
        column = trials if isinstance(trials, str) else None
        settings = self._settings(chains, warmup, draws, seed, progress, **cmdstan_options)
        kept = {"label_name": label_name(y), "trials_column": column}
        return self._fit_totals(bags, totals, settings, known, (stan_data or {}, *own), **kept)

    def stan_data(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        trials: ArrayLike | str | None = None,
        label_sd: ArrayLike | str | None = None,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
    ) -> StanData:
        """Data of the plain Stan program of this model, for CmdStan, R or Julia.

        Its new bags are the training bags: the program then draws their y_new, log_lik and
        rate_new.

        Parameters
        ----------
        bags, y, trials, label_sd, stan_data
            As for `fit`.

        Returns
        -------
        StanData
            As of `BDR.stan_data`.

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters, and options that plain programs do not have.
        """
        self._check_program_options("a plain program")
        bags, totals, known, own = self._checked(bags, y, trials, label_sd, stan_data)
        check_in_memory("a plain program", bags)
        training = self.training_features(bags, totals, **known)
        training = replace(training, plain_data=data_of_points(bags, training.feature_map))
        with limited_blas():
            stock = self._model(training, totals)
        model = self._plain_model(training, totals, stock, *own)
        return data_of_training_bags(model)

    def _checked(self, bags: Any, y: Any, trials: Any, label_sd: Any, stan_data: Any) -> tuple:
        """Bags, totals, their known trials or errors, and the user's data, all checked."""
        bags = as_bags(bags, in_parts=self.takes_parts)
        self.check_parameters()
        self._check_parts(bags)
        totals = self.check_labels(bags, y, trials)
        trials = None if trials is None else values_of_bags(bags, trials, "trials")
        self._check_program(self._needed_data(label_sd), stan_data)
        own = own_data_of_bags(self.stan_file, bags, stan_data)
        return bags, totals, {"trials": trials, "label_sd": label_sd}, own

    def _fit_totals(self, bags, totals, settings, known, own=({}, {}, {}), **kept):
        """Fit to bags with checked totals, and to their `known` trials or errors.

        `own` are data of the user's program: as given, of the bags, and other data.
        """
        visible = settings.progress is not False
        with status("Choosing the kernel, compressing the points", visible, after=10):
            training = self.training_features(bags, totals, **known, seed=settings.seed)
        self._fit_features(training, totals, settings, own)
        self._keep_too(
            **kept,
            **self._thinning(bags, training.rows),
            **self._overdispersion(training, totals),
        )
        if self._link.name == "exp" and self.stan_file is None:
            counts = totals if self._family.is_count else None
            warn_of_omitted_totals(bags, counts, self.feature_map_, self._draws())
        return self

    def training_features(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        trials: ArrayLike | None = None,
        label_sd: ArrayLike | str | None = None,
        seed: int | None = None,
    ) -> AggregateFeatures:
        """Landmarks, the kernel and its parameters, and the bags' rows: all that a fit needs.

        Parameters
        ----------
        bags, y, trials, label_sd : as for `fit`

        Returns
        -------
        AggregateFeatures
            For `fit_features`.
        """
        bags = as_bags(bags, in_parts=self.takes_parts)
        self._check_parts(bags)
        y = self.check_labels(bags, y, trials)
        trials = None if trials is None else np.asarray(trials, float)
        label_sd = self._checked_label_sd(bags, y, label_sd)
        found = training_features(
            bags,
            y,
            self._family,
            self._link,
            kernel=self.kernel,
            learn=self.learn_kernel,
            n_landmarks=self.n_landmarks,
            landmarks=self.landmarks,
            trials=trials,
            prior=self.prior,
            bag_effects=self.bag_effects,
            known_variance=0.0 if label_sd is None else self._error_variance(y, label_sd),
            thin=self.thin,
            seed=self._seed(seed),
        )
        if not is_plain(self.stan_file):
            return found
        return replace(found, plain_data=data_of_points(bags, found.feature_map))

    def fit_features(
        self,
        training: AggregateFeatures,
        y: ArrayLike,
        **sampling: Any,
    ) -> Self:
        """Fit to `training`, from `training_features`; `y` and `sampling` as in `fit`.

        Returns
        -------
        self
        """
        self.check_parameters()
        y = labels_of_training(training, self._training_kind, y).astype(float)
        return self._fit_features(training, y, self._settings(**sampling))

    def _fit_features(self, training, y, settings, own=({}, {}, {})):
        """Fit to the rows of bags with checked totals; `own` as for `_fit_totals`."""
        self._forget()
        features, family = training.feature_map, (self._family, self._link)
        # Matrices this small gain nothing from BLAS's threads, and lose much on a busy machine.
        with limited_blas():
            model = self._model(training, y)
        given, of_bags, others = own
        if is_plain(self.stan_file):
            model = self._plain_model(training, y, model, of_bags, others)
        if self.method == "vb":
            posterior = variational_fit(
                model, training.rows, y, *family, draws=settings.draws, seed=settings.seed
            )
        else:
            posterior = sample_posterior(model, settings)
        constants = {"landmarks": (features.landmarks, ["landmark", "feature"])}
        if training.mean_points is not None:
            constants["mean_point"] = (training.mean_points, ["bag", "feature"])
        if np.any(training.rows.known_variance):
            constants[self._name_of_errors] = np.sqrt(training.rows.known_variance), ["bag"]
        columns, names = training.effect_columns, {}
        if columns is not None:
            names = dict.fromkeys(("effect_column", "other_column"), columns.names)
            for part in ("index", "centre", "scale"):
                constants[f"effect_{part}"] = getattr(columns, part), ["effect_column"]
        self._keep_posterior(
            model,
            posterior,
            training.record,
            y,
            settings,
            constants=constants,
            coordinates=names,
            kernel=features.kernel,
            stan_data=given,
        )
        if not self.by_program:
            self._keep_training_predictions(training, posterior, y, settings.seed)
        else:
            self._keep_predictions_of_program(training, posterior, y, of_bags, settings.seed)
        self._warn_of_trouble()
        return self

    def _model(self, training, y, likelihood=None):
        """The model of these rows, with Stan's data; by default of the estimator's likelihood."""
        given = {"prior": self.prior, "weight_basis": training.feature_map.projection}
        columns = training.effect_columns
        if columns is not None:
            sums = columns.sums(training.mean_points, training.rows.total)
            return totals_with_effects(training.rows, y, sums, columns.names, **given)
        return aggregate_model(
            training.rows,
            y,
            likelihood or self._family,
            self._link,
            trials=training.trials,
            bag_effects=bool(self.bag_effects),
            **given,
        )

    def _keep_training_predictions(self, training, posterior, y, seed):
        """Add predictions, likelihood and effects of the training bags, unless too large."""
        drawn, rows, ids = posterior.flat(), training.rows, training.record.index
        columns = training.effect_columns
        has_effects = self._family.has_effects or columns is not None
        if not few_enough(len(drawn["w"]), len(y)):
            if has_effects:
                warn(
                    "the effects of the bags are not kept, as draws x bags are too many: "
                    "predictions of training bags are those of new ones; ask for fewer draws"
                )
            return
        means = self._link.means(rows, _thetas(drawn), drawn.get("effect"), rho=drawn["rho"])
        sums = None if columns is None else columns.sums(training.mean_points, rows.total)
        seen = dict(drawn)
        if np.any(rows.known_variance) and not self._link.is_linear:
            seen["dispersion"] = with_errors(drawn["dispersion"][:, None], rows.known_variance)
        predictive = self._predictive(
            means, rows.noise_factor, seen, training.trials, sums, rows.known_variance
        )
        groups = training_groups(predictive, posterior.draws, y, ids, seed=seed)
        if sums is not None:
            noise = np.multiply.outer(drawn["sigma"], rows.noise_factor) ** 2 + rows.known_variance
            effects = effects_given_totals(y - means, sums, noise, _covariances(drawn), seed)
            dims = (*groups["posterior_predictive"]["y"].dims, "effect_column")
            shape = (*groups["posterior_predictive"]["y"].shape, -1)
            groups["posterior_predictive"]["effect"] = dims, effects.reshape(shape)
        elif has_effects:
            known = {"error_variance": rows.known_variance}
            effects = self._family.draw_effects(y, means, seed, **known, **self._scales(drawn))
            labels = groups["posterior_predictive"]["y"]
            groups["posterior_predictive"]["effect"] = labels.dims, effects.reshape(labels.shape)
            expected = np.mean(means * np.exp(effects), axis=0)
            constants = self.result_.groups["constant_data"]
            groups["constant_data"] = constants.assign(expected_total=("bag", expected))
        self._keep_too(groups)

    def report(self) -> str:
        """As for other estimators, and the likelihood, with the dispersion of the counts; a str.

        For Poisson and binomial counts it states whether they scatter more than such numbers do.
        """
        return f"{super().report()}\nLikelihood: {self.likelihood_text()}"

    def likelihood_text(self) -> str:
        """The likelihood and the link in words, with the fitted overdispersion of counts."""
        check_is_fitted(self, "result_")
        if self.by_program:
            return f"that of {self.stan_file}"
        found = self.result_.settings.get("overdispersion")
        scales, units = self._scales(self._draws()), self._family.scales
        return likelihood_text(
            self.likelihood,
            self._link.name,
            {name: draws for name, draws in scales.items() if units[name].unit == "none"},
            None if found is None else Overdispersion(**found),
            fixed=self.method != "nuts",
        )

    # ------------------------------------------------------------ prediction

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
        from sklearn.metrics import r2_score

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
        bags = self._like_training(bags)
        self._check_effects_in_parts(bags)
        if self.by_program:
            self._check_asks_for_new(district)
            data = self._data_of_new(bags, trials, stan_data)
            return self._program_predictive(data).with_ids_of(bags)
        self._check_stan_data(stan_data)
        training = self._training_effects
        number, itself = training.districts(bags, district)
        if self.effect_columns_ is not None:
            return self._predictive_with_effects(bags, number).with_ids_of(bags)
        effects = training.of_bags(bags, number, itself, self._draws().get("tau"))
        return self._predictive_of(bags, trials, effects, number, itself).with_ids_of(bags)

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
        first, second = self._two_versions(bags_a, bags_b)
        self._check_effects_in_parts(first)
        # A changed version of a training bag has the effect of that bag.
        training = self._training_effects
        number = np.maximum(*(training.districts(bags, True)[0] for bags in (first, second)))
        known = number >= 0
        if self.effect_columns_ is not None:
            versions = self._with_same_effects(first, second, number)
            return Contrast.between(*versions).with_ids_of(first)
        effects = training.of_bags(first, number, known, self._draws().get("tau"))
        return Contrast.between(
            self._predictive_of(first, trials, effects, number, known),
            self._predictive_of(second, trials, effects, number, known),
        ).with_ids_of(first)

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
                f"totals are those of bags in memory, but points are a {type(points).__name__}"
            )
        bags = self._like_training(as_points(self, points), need_weights=totals is not None)
        if self.by_program:
            in_bags = isinstance(points, (Bags, PartitionedBags))
            return self._program_rates(bags, in_bags, district, totals, n_draws, stan_data)
        self._check_stan_data(stan_data)
        drawn, training, effects, bag = self._draws(), self._training_effects, None, None
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
            evenly_spaced(_thetas(drawn), n_draws),
            self._link,
            rho=evenly_spaced(drawn["rho"], n_draws),
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
        bags = self._like_training(as_points(self, points), need_weights=False)
        drawn, features = self._draws(), self.feature_map_
        rho = evenly_spaced(drawn["rho"], n_draws)
        w = evenly_spaced(drawn["w"], n_draws)
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

    # ------------------------------------------------------------ the ecological assumption

    # ------------------------------------------------------------ parts of a fit

    def check_labels(
        self, bags: Bags, y: ArrayLike, trials: ArrayLike | str | None = None
    ) -> Array:
        """Labels as an array, checked together with `trials`; see `fit`."""
        if self._family.has_trials and trials is None:
            raise ValueError(
                f"the {self.likelihood} likelihood needs trials, the people asked in each bag: "
                "pass numbers, or the name of a column of the bags' metadata"
            )
        if trials is not None:
            trials = values_of_bags(bags, trials, "trials")
        return self._family.check_labels(bags, y, trials)

    @property
    def _training_effects(self) -> TrainingEffects:
        """Effects of the training bags under each draw, if the model has and keeps them."""
        check_stock(self)
        groups, effects = self.result_.groups, None
        for name in ("posterior_predictive", "posterior"):
            if name in groups and "effect" in groups[name]:
                values = groups[name]["effect"].values
                effects = values.reshape(-1, *values.shape[2:])
        ids = groups["observed_data"]["bag"].values
        return TrainingEffects(effects, ids, self.result_.constants.get("mean_point"))

    def _like_training(self, bags: BagsLike, *, need_weights: bool = True) -> Any:
        """As for all estimators; warns of points beyond the basis functions."""
        like = super()._like_training(bags, need_weights=need_weights)
        warn_beyond_box(like, self.kernel_)
        return like

    def _predictive_of(self, bags, trials, effects, number, itself):
        trials, drawn = self._trials_of(bags, trials), self._draws()
        means = self._mean_totals(bags, effects)
        if self._family.has_effects and np.any(number >= 0):
            share = np.ones(len(bags))
            inside = number >= 0
            share[inside] = means[:, inside].mean(axis=0)
            share[inside] /= self.result_.constants["expected_total"][number[inside]]
            drawn |= self._family.scales_of_parts(share, itself, **self._scales(drawn))
        return self._predictive(means, noise_factor(bags), drawn, trials)

    def _predictive_with_effects(self, bags: Bags, number: Array) -> Predictive:
        """Totals of bags in the training bags of these numbers (-1: none), and of new ones."""
        drawn, sums = self._draws(), self._effect_sums(bags)
        means = self._mean_totals(bags, None)
        variance = effect_variance(sums, _covariances(drawn))
        known, effects = np.flatnonzero(number >= 0), self._training_effects.effects
        if effects is not None and len(known):
            of_known = effects[:, number[known]]
            means[:, known] += np.einsum("nk,snk->sn", sums[known], of_known)
            variance[:, known] = 0.0
        return totals_predictive(means, noise_factor(bags), variance, sigma=drawn["sigma"])

    def _with_same_effects(self, first, second, number):
        """Predictive distributions of two versions of bags with the same effects, drawn if new."""
        drawn = self._draws()
        S, K = drawn["effect_sd"].shape
        known, training = number >= 0, self._training_effects.effects
        noise = np.random.default_rng(0).standard_normal((S, len(first), K))
        factor = np.linalg.cholesky(drawn["effect_correlation"])
        effects = np.einsum("snk,slk,sl->snl", noise, factor, drawn["effect_sd"])
        if training is not None and np.any(known):
            effects[:, known] = training[:, number[known]]
        for bags in (first, second):
            shift = np.einsum("nk,snk->sn", self._effect_sums(bags), effects)
            means = self._mean_totals(bags, None) + shift
            yield totals_predictive(means, noise_factor(bags), sigma=drawn["sigma"])

    def _effect_sums(self, bags: Bags) -> Array:
        """sum_j p_j g_j of the columns with coefficients per bag, shape (n, K)."""
        columns = self.effect_columns_
        assert columns is not None
        return columns.sums(mean_points(bags).points, bags.totals)

    def _subsets_given_totals(self, subset: Bags, bags: Bags, totals: Array) -> tuple[Array, Array]:
        """Mean and sd of the totals of subsets of the bags' points given the bags', (S, m)."""
        drawn = self._draws()
        of_subset, of_bags = (
            np.multiply.outer(drawn["sigma"], noise_factor(each)) ** 2 for each in (subset, bags)
        )
        return subsets_given_totals(
            self._mean_totals(subset, None),
            totals - self._mean_totals(bags, None),
            self._effect_sums(subset),
            self._effect_sums(bags),
            of_subset,
            of_bags,
            _covariances(drawn),
        )

    def _effects_of_totals(self, bags: Bags, totals: Any, n_draws: int) -> Array:
        """Effects of bags, under some of the draws, that make their rates add up to totals."""
        if self._link.name == "logit":
            raise ValueError(
                "totals cannot be imposed on probabilities, which link 'logit' keeps below 1: "
                "leave them out"
            )
        y = self.check_labels(bags, values_of_bags(bags, totals, "totals"))
        drawn = {name: evenly_spaced(draws, n_draws) for name, draws in self._draws().items()}
        means = self._link.means_of_bags(
            bags, self.feature_map_, _thetas(drawn), None, rho=drawn["rho"]
        )
        if not self._link.is_linear:
            with np.errstate(divide="ignore"):  # a total of 0 has rates of 0
                return np.log(y) - np.log(means)
        if self.effect_columns_ is None:
            return (y - means) / bags.totals
        sums = self._effect_sums(bags)
        return effects_given_totals(y - means, sums, np.zeros_like(means), _covariances(drawn), 0)

    def _mean_totals(self, bags: Bags, effects: Array | None) -> Array:
        """Mean of each bag's label under each draw, shape (S, n), given its effects, (S, n).

        Under the binomial likelihood: the probability.
        """
        drawn = self._draws()
        return self._link.means_of_bags(
            bags, self.feature_map_, _thetas(drawn), effects, rho=drawn["rho"]
        )

    @property
    def _family(self) -> Likelihood:
        return likelihood_named(self.likelihood)

    @property
    def _link(self) -> Link:
        return link_of(self._family, self.link)

    def _check_parts(self, bags):
        """Raise if a fit needs points in memory, or would ignore replicates of weights."""
        if bags.replicate_weights is not None:
            raise ValueError(
                "AggregateRegressor takes the points of a bag as all that are there, not as a "
                "sample with replicate weights: leave replicate_weights out of the bags"
            )
        if not isinstance(bags, PartitionedBags):
            return
        if is_plain(self.stan_file):
            check_in_memory(self.stan_file, bags)
        if self._link.can_thin:
            raise TypeError(
                f"link {self._link.name!r} needs all points in memory, but those of the bags lie "
                "in partitions: pass bags.load(), or use the link 'square' or 'identity'"
            )
        if self.learn_kernel:
            raise TypeError(
                "learn_kernel=True needs points in memory, but those of the bags lie in "
                "partitions: fit to some of them, as bags[:500].load(), then to all with the "
                "kernel_ of that fit and learn_kernel=False"
            )
        self._check_effects_in_parts(bags)

    def _check_effects_in_parts(self, bags):
        if self.bag_effects and isinstance(bags, PartitionedBags):
            raise TypeError(
                "bag_effects need the points of each bag in memory, but those of the bags lie in "
                "partitions: pass bags.load()"
            )

    def _checked_label_sd(self, bags: Bags, y: Array, label_sd: Any) -> Array | None:
        """Known standard errors of the labels, shape (n,), once they leave something to learn."""
        if label_sd is None:
            return None
        if not self._family.takes_errors:
            raise TypeError(
                f"the {self.likelihood} likelihood has no scale that label_sd could add to: leave "
                "them out, or use 'negative binomial' for counts, 'gamma' or 'normal' for totals"
            )
        if self.method == "vb" and not self._link.is_linear:
            raise TypeError("method='vb' takes label_sd with link 'identity' alone: use 'laplace'")
        found = label_sd_values(bags, label_sd)
        spread_of_true_labels(y / bags.totals, (found / bags.totals) ** 2)
        return found

    def _error_variance(self, y, label_sd):
        """Variances of the labels' errors, (n,): of totals, else relative to the labels, at most 1.

        The error of a count of 0 or near it is taken as one of a label as large as the error.
        """
        if self._link.is_linear:
            return label_sd**2
        return (label_sd / np.maximum(y, label_sd)) ** 2

    def check_parameters(self) -> None:
        likelihood, link = self._family, self._link
        super().check_parameters()
        check_kernel(self.kernel)
        check_landmarks(self.landmarks, self.n_landmarks, (*LANDMARKS, "one per bag"))
        check_flags(learn_kernel=self.learn_kernel)
        check_bag_effects(self.bag_effects, link.is_linear)
        if self.bag_effects and likelihood.bag_effects_error is not None:
            raise ValueError(f"the {likelihood.name} likelihood {likelihood.bag_effects_error}")
        if self.bag_effects and self.method == "vb":
            raise ValueError("method='vb' takes no bag_effects: use 'nuts' or 'laplace'")
        if self.bag_effects and self.method != "nuts" and not link.is_linear:
            raise ValueError(
                f"method={self.method!r} takes no bag_effects, whose joint mode is at no scatter: "
                "use method='nuts', or the negative binomial likelihood"
            )
        if self.method == "vb" and not (link.is_linear or link.name in likelihood.expected_terms):
            raise ValueError(
                f"method='vb' has no bound for the {likelihood.name} likelihood: use another method"
            )
        if self.thin is not None:
            if not link.can_thin:
                raise ValueError(
                    f"link {link.name!r} needs no thinning: it is compressed without loss"
                )
            check_counts(thin=self.thin)
        if is_plain(self.stan_file):
            self._check_program_options(self.stan_file)

    def _predictive(self, means, noise, drawn, trials, effect_sums=None, known_variance=0.0):
        scales = self._scales(drawn)
        if self._link.is_linear:
            variance = known_variance
            if effect_sums is not None:
                variance = variance + effect_variance(effect_sums, _covariances(drawn))
            return totals_predictive(means, noise, variance, **scales)
        S, n = means.shape
        return AggregatePredictive(
            lambda i: means[:, i], n, S, self._family, trials=trials, **scales
        )

    def _thinning(self, bags: Bags, rows: AggregateRows) -> dict[str, Any]:
        """What thinning changes at some of the draws, as a setting of the result."""
        if self.thin is None or self.stan_file is not None:
            return {}
        theta = _thetas(self._draws())
        some = theta[:: max(1, len(theta) // _THINNING_DRAWS)]
        error = thinning_error(bags, self.feature_map_, rows, some, self._link.rate)
        if abs(error.mean()) > _WARNED_THINNING_ERROR:
            warn(
                f"thin={self.thin} changes the totals of bags by {error.mean():+.1%} on average, "
                "and rates by about as much in the other direction: raise thin"
            )
        return {"thinning_error": error}

    def _overdispersion(self, training: AggregateFeatures, y: Array) -> dict[str, Any]:
        """Whether counts scatter more, as a setting of the result; warns if they do."""
        wider = WIDER_TOTALS.get(self._family.name)
        if wider is None or self.bag_effects or self.stan_file is not None:
            return {}
        effects = {"narrow": "binomial", "remedy": 'bag_effects=True with method="nuts"'}
        found = overdispersion(
            self._model(training, y, wider),
            lambda: self._model(training, y),
            getattr(self, "log_evidence_", None),
            {"rho": float(np.median(self.result_.draws("rho")))},
            **(effects if self._family.has_trials else {}),
        )
        if found.is_clear:
            warn(found.text[0].upper() + found.text[1:])
        return {"overdispersion": asdict(found)}

    @property
    def prior_texts(self) -> dict[str, tuple[str, str, str]]:  # type: ignore[override]
        scales = {
            name: (f"half-normal(0, {{{name}_scale:.4g}})", scale.meaning, scale.unit)
            for name, scale in self._family.scales.items()
        }
        of_effects = {name: RATES[name] for name in ("tau", "effect_sd", "effect_correlation")}
        return {"intercept": RATES["intercept"], "rho": RATES["rho"], **scales, **of_effects}

    @property
    def needs_trials(self) -> bool:
        """Whether predictions need `trials`, as the fit took them from no column of the bags."""
        return self._family.has_trials and not self.columns_of_bags

    @property
    def columns_of_bags(self) -> list[str]:
        check_is_fitted(self, "result_")
        column = self.result_.settings.get("trials_column")
        return [] if column is None else [column]

    def _trials_of(self, bags: Bags, trials: ArrayLike | str | None) -> Array | None:
        """Trials of bags to predict: one number each, or one for all."""
        if trials is None:
            trials = self.result_.settings.get("trials_column")
        if trials is None:
            if self._family.has_trials:
                raise ValueError(
                    f"the {self.likelihood} likelihood needs trials to predict a bag's label: pass "
                    "trials=; for scikit-learn's searches and folds fit with the name of a column "
                    "of the bags' metadata, or switch on routing by "
                    "sklearn.set_config(enable_metadata_routing=True) and set_fit_request, "
                    "set_predict_request and set_score_request(trials=True)"
                )
            return None
        if not self._family.has_trials:
            raise ValueError(f"the {self.likelihood} likelihood takes no trials: leave them out")
        trials = values_of_bags(bags, trials, "trials")
        if np.ndim(trials) == 0:
            trials = np.full(len(bags), trials)
        return checked_trials(bags, trials)

    # ------------------------------------------------------------ state

    def _scales(self, drawn: Mapping[str, Array]) -> dict[str, Array]:
        """Scales of the likelihood among draws."""
        return {name: drawn[name] for name in self._family.scales}

    def _draws(self) -> dict[str, Array]:
        """Draws that predictions need, all chains in one.

        Raises ValueError for a user's program, which may use other formulas.
        """
        check_stock(self)
        of_effects = ("tau", "effect_sd", "effect_correlation")
        names = ("w", "intercept", "rho", *of_effects, *self._family.scales)
        return {name: self.result_.draws(name) for name in names if self.result_.has_draws(name)}

    def _set_fitted(self, result: Result) -> None:
        self.landmarks_ = result.constants["landmarks"]
        self.kernel_ = result.settings["kernel"]
        self.feature_map_ = FieldFeatures(self.kernel_, self.landmarks_)
        self.effect_columns_ = _effect_columns(result)
        bound = result.groups["posterior"].attrs.get("bound")
        if bound is not None:
            self.bound_ = float(bound)
        if "thinning_error" in result.settings:
            self.thinning_error_ = result.settings["thinning_error"]
        log_evidence = result.groups["posterior"].attrs.get("log_evidence")
        if log_evidence is not None:
            self.log_evidence_ = float(log_evidence)


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


def _effect_columns(result: Result) -> EffectColumns | None:
    """Columns with coefficients per bag, from the constants of a fit."""
    if "effect_index" not in result.constants:
        return None
    names = result.groups["constant_data"]["effect_column"].values
    parts = (result.constants[f"effect_{part}"] for part in ("index", "centre", "scale"))
    return EffectColumns([str(name) for name in names], *parts)


def _covariances(drawn: Mapping[str, Array]) -> Array:
    """Covariances of the bags' coefficients under each draw, shape (S, K, K)."""
    return covariances(drawn["effect_sd"], drawn["effect_correlation"])


def _thetas(drawn: Mapping[str, Array]) -> Array:
    """theta = [w; intercept] of each draw, shape (S, d + 1)."""
    return np.column_stack([drawn["w"], drawn["intercept"]])
