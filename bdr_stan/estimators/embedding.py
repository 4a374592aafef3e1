"""Base of the Bayesian estimators on mean embeddings: fit, embed, predict."""

import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import Bags, BagsLike, as_bags
from bdr_stan.bags.samples import by_name, by_sample, check_one_sample, like_samples
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.covariates import Covariates, check_columns, learn_covariates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import (
    TrainingFeatures,
    embedded,
    features_by_sample,
    training_features,
)
from bdr_stan.estimators.own_program import (
    FEWEST_DRAWS,
    MOST_NUMBERS,
    at_labels,
    draws_of_program,
    is_plain,
    program_to_run,
)
from bdr_stan.estimators.posterior import PosteriorEstimator
from bdr_stan.estimators.sums import FromSums, Summary
from bdr_stan.estimators.validation import (
    LANDMARKS,
    check_landmarks,
    check_positive,
    labels_of_training,
)
from bdr_stan.kernels import Kernel, check_kernel_and_bandwidth, landmark_features
from bdr_stan.kernels.names import AUTO, name_for
from bdr_stan.kernels.summands import single_bandwidth
from bdr_stan.labels import OF_TIMES, WITH_LABELS, Labels
from bdr_stan.models.overdispersion import Overdispersion, label_advice
from bdr_stan.models.plain import DATA, data_of_bags, plain_model
from bdr_stan.parameters import estimator
from bdr_stan.posterior.sampling import Posterior, sample_posterior
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.predictive import ClassPredictive, Predictive
from bdr_stan.questions.conformal import Conformal
from bdr_stan.questions.doubts import DoubtedPredictions
from bdr_stan.questions.familiarity import Familiar, Familiarity
from bdr_stan.questions.protocol import check_stock
from bdr_stan.results.arviz_groups import few_enough, training_groups
from bdr_stan.results.result import Result
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array, ArrayLike
from bdr_stan.user_warnings import warn

_OF_SAMPLES = ("kernel", "bandwidth", "n_landmarks", "landmarks")  # may be dicts, one for each


@estimator
class EmbeddingEstimator(Conformal, DoubtedPredictions, Familiar, FromSums, PosteriorEstimator):
    """Base of the Bayesian estimators on mean embeddings, of labels and of classes.

    Bags become mean embeddings at landmarks (`training_features`), these the data of a model
    (`_model`), draws from its posterior a result. New bags pass the same feature map (`embed`) to
    the predictive distribution (`predictive_of_draws`).

    Parameters
    ----------
    n_landmarks : int, default 60
        At most: k-means finds fewer if the points have fewer different values.

    For bags with several samples `n_landmarks`, `kernel`, `bandwidth` and `landmarks` may be dicts
    with one entry per sample: ``kernel={"residents": "linear + rbf", "houses": "matern32"}``.

    Attributes
    ----------
    landmarks_ : array, shape (d, p), or dict of such
        For bags with several samples, a dict by their names; so are the kernels.
    kernel_ : Kernel, or dict of Kernel
        With its columns as indices and its bandwidths as numbers.
    bandwidth_ : float or array, shape (p,)
        Bandwidth of the kernel, if it has a single one.
    """

    n_landmarks: int = 60
    kernel: str | Kernel = "rbf"
    bandwidth: ArrayLike | str = "scaled"
    _: KW_ONLY
    bandwidth_scale: float = 1.0
    landmarks: str | ArrayLike = "kmeans"

    takes_label_sd: ClassVar[bool] = False  # whether its noise can be split into parts
    has_covariance: ClassVar[bool] = False  # whether it needs the within-bag covariance
    coordinates: ClassVar[Any] = Coordinates  # of its model
    program_data: ClassVar[tuple[str, ...]] = DATA
    # Whether the posterior is conditioned on p(y | bag, draw), as leave-one-out needs.
    has_likelihood: ClassVar[bool] = True

    def fit(
        self,
        bags: BagsLike,
        y: ArrayLike | None = None,
        *,
        label_sd: ArrayLike | str | None = None,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        event: ArrayLike | str | None = None,
        entry: ArrayLike | str | None = None,
        chains: int = 4,
        warmup: int | None = None,
        draws: int = 1000,
        seed: int | None = None,
        progress: bool | None = None,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
        **cmdstan_options: Any,
    ) -> Self:
        """Fit to bags and their labels.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p), or dict of such
            A dict, or `Samples`, has several samples per bag by their names, such as
            ``{"residents": people, "houses": houses}``; a bag may lack some: for BDR, Shrinkage
            and, if no bag lacks any, BLR.
        label_sd : array, shape (n,), or str, optional
            Known standard error of each label, units of y, or the name of a column of the bags'
            metadata: for example for labels that are survey estimates. Its square adds to the noise
            variance; predictions are of labels without this measurement error. For BLR, BDR,
            Shrinkage and InverseBDR. scikit-learn's searches accept it like `fit`; with metadata
            routing they need ``set_fit_request(label_sd=True)``. `tune` does not use it.
        trials : array, shape (n,), or str, optional
            Number of trials of each label, or the name of a column of the bags' metadata, which
            predictions then also use: for the families "binomial" and "beta_binomial".
        exposure : array, shape (n,), or str, optional
            Quantity to which the mean of each label is proportional, for example people or hours;
            or the name of a column, as for `trials`. For the families with a log link.
        offset : array, shape (n,), or str, optional
            Known part of each label's linear predictor, for example the log odds of the last
            election; or the name of a column. For all families except the normal ones.
        event : array, shape (n,), or str, optional
            1 or True if the label is the time of an event, 0 or False if it is censored, so the
            event came later; or the name of a column. For families "weibull" and "lognormal".
        entry : array, shape (n,), or str, optional
            Time from which a bag was under observation (left truncation), or a column's name.
        """
        started = time.monotonic()
        label_data = {"trials": trials, "exposure": exposure, "offset": offset}
        label_data |= {"event": event, "entry": entry}
        if isinstance(bags, Summary):
            self._check_sums(bags, {"y": y, "label_sd": label_sd, **label_data})
            settings = self._settings(chains, warmup, draws, seed, progress, **cmdstan_options)
            return self._fit_sums(bags, settings, started)
        if y is None:
            raise TypeError("fit needs the labels y of the bags; only a Summary contains them")
        bags = as_bags(bags, in_parts=True, samples=self.takes_samples)
        bags.check_order(y=y, label_sd=label_sd, **label_data)
        labels = self.read_labels(bags, y, label_sd=label_sd, stan_data=stan_data, **label_data)
        settings = self._settings(chains, warmup, draws, seed, progress, **cmdstan_options)
        training = self._training_features(bags, settings.seed, progress, labels)
        return self._fit_labels(training, labels, settings, started)

    def _check_bags(self, bags: Any, label_data: Mapping[str, Any]) -> None:
        """Raise if the bags, or the errors of their labels, are none for this estimator."""
        label_sd = label_data.get("label_sd")
        self.check_samples(bags, label_sd)
        if label_sd is not None and not self.takes_label_sd:
            raise TypeError(
                f"{type(self).__name__} takes no label_sd, but BLR, BDR, Shrinkage, "
                "InverseBDR and AggregateRegressor do: leave it out"
            )

    def fit_features(self, training: TrainingFeatures, y: ArrayLike, **options: Any) -> Self:
        """Fit to `training`, from `training_features`; `y` and all `options` as in `fit`.

        Returns
        -------
        self
        """
        started = time.monotonic()
        y = labels_of_training(training, y)
        label_data = {n: options.pop(n) for n in ("label_sd", *WITH_LABELS) if n in options}
        # The record has the ids and names of the bags.
        labels = self.read_labels(training.record, y, **label_data)
        settings = self._settings(**options)
        self._check_same_covariates(training)
        return self._fit_labels(training, labels, settings, started)

    def _fit_labels(self, training, labels, settings, started):
        """Fit to embedded bags with labels that were checked."""
        self._forget()
        if labels.classes is not None:
            self.classes_ = labels.classes
        # Matrices this small gain nothing from BLAS's threads, and lose much on a busy machine.
        with limited_blas():
            model = self._model(training, labels)
            familiarity = Familiarity.from_training(training)
        if is_plain(self.stan_file):
            model = self._plain_model(model, training, labels)
        posterior, constants = self._sample(model, settings)
        program = self._own_program_of(posterior, labels, settings)
        constants = {
            **training.constants,
            **labels.constants,
            **({} if familiarity is None else familiarity.constants()),
            **constants,
        }
        return self._finish(
            model,
            posterior,
            training.record,
            labels,
            settings,
            constants=constants,
            covariates=training.covariates,
            coordinates=training.coordinates,
            program=program,
            groups=self._training_groups(model, posterior, training, labels, settings, program),
            kernel=training.kernel,
            **self._findings(model, posterior, training, labels),
            seconds=time.monotonic() - started,
        )

    def _training_groups(self, model, posterior, training, labels, settings, program):
        """Groups posterior_predictive and log_likelihood, unless they are too large."""
        embedding = training.embedding
        if not isinstance(embedding, Embedding):  # sums over only the bags
            return {}
        coordinates = self._coordinates_of(model)
        codes = None if labels.classes is None else np.arange(len(labels.classes))
        coded = replace(labels, classes=codes)
        has_likelihood, n = self.has_likelihood, len(labels.y)
        if self.stan_file is not None:
            if program is None or not program.generates("y_new"):
                return {}
            step = self.program_step(n, posterior.n_draws)
            draws = posterior.flat(step)
            predictive = self._predictive_of(program, coordinates, embedding, coded, draws)
            has_likelihood &= program.generates("log_lik")
            if self.has_likelihood and not has_likelihood:
                warn(
                    f"{self.stan_file} has no log_lik in its generated quantities, so the fit has "
                    "no log_likelihood, which az.loo, stacking and conformal need"
                )
        else:
            step, draws = self._for_predictions(posterior)
            n_draws = len(next(iter(draws.values())))
            integrated = self.label_model.distribution is not None
            if not few_enough(n_draws, n, integrated=integrated):
                return {}
            predictive = self.predictive_of_draws(coordinates, embedding, coded, draws)
        return training_groups(
            predictive,
            posterior.draws,
            labels.y,
            training.record.index,
            has_likelihood=has_likelihood,
            thinning=step,
            seed=settings.seed,
        )

    def _for_predictions(self, posterior):
        """The step between draws that predictions use, and these draws, all chains in one."""
        step = 1 if self._most_draws is None else -(-posterior.n_draws // self._most_draws)
        draws = posterior.flat(step)
        terms = [draws[name] for name in ("gamma", "term_effect") if name in draws]
        used = {name: draws[name] for name in self.predicts_from if name in draws}
        if terms:
            used["gamma"] = np.ascontiguousarray(np.concatenate(terms, axis=-1))
        return step, used

    def report(self) -> str:
        """Diagnostics, kernel, and labels that the errors of the model do not describe; a str."""
        lines, kind = [super().report()], self.label_model
        if self.result_.has_draws("sigma") and kind.is_linear and len(self.result_.labels):
            lines += label_advice(self.result_.labels, float(self.result_.draws("sigma").mean()))
        overdispersion = self.result_.settings.get("overdispersion")
        if overdispersion is not None:
            lines.append(f"Labels: {Overdispersion(**overdispersion).text}")
        return "\n".join(lines)

    def kernel_for(self, bags: BagsLike) -> str | Kernel:
        """`kernel`, or the name that "auto" means for these bags."""
        return name_for(self._kernel_or_auto(), as_bags(bags, in_parts=True).n_features)

    def _kernel_or_auto(self):
        return "rbf" if self.kernel == AUTO and self._is_tailored() else self.kernel

    def _is_tailored(self):
        """Whether parameters are set that belong to one kernel on all columns."""
        scaled = isinstance(self.bandwidth, str) and self.bandwidth == "scaled"
        return not scaled or not isinstance(self.landmarks, str)

    def training_features(
        self, bags: BagsLike, *, seed: int | None = None, progress: bool | None = None
    ) -> TrainingFeatures:
        """Choose landmarks and bandwidth, and embed training bags in one pass over their points.

        Parameters
        ----------
        bags : Bags, or list of arrays
        progress : bool, optional
            False shows nothing; by default a pass longer than ten seconds is reported on stderr.

        Returns
        -------
        TrainingFeatures
            For `fit_features`; several models may share them.
        """
        bags = as_bags(bags, in_parts=True, samples=self.takes_samples)
        self.check_samples(bags, None)
        return self._training_features(bags, self.checked_seed(seed), progress)

    def _training_features(self, bags, seed, progress, labels=None):
        """Training features, of normal `labels` perhaps sums over only the bags."""
        columns = [names or () for names in self._columns().values()]
        learned = learn_covariates(bags, *columns) if any(columns) else None

        def features_of(name, part):  # of a sample among others without covariates and labels
            one = self._for_sample(name)
            return training_features(
                part,
                kernel=one._kernel_or_auto(),
                bandwidth=one.bandwidth,
                bandwidth_scale=self.bandwidth_scale,
                n_landmarks=one.n_landmarks,
                landmarks=one.landmarks,
                covariance=self.has_covariance,
                covariates=None if name else learned,
                labels=None if name else self._compressible(labels),
                by_size=self.noise_by_size,
                seed=seed,
                progress=progress,
            )

        return features_by_sample(bags, features_of, learned)

    def _for_sample(self, name):
        """An estimator with the parameters of the sample `name`, where they are dicts."""
        of_sample = {p: value.get(name, value) for p, value in self._by_sample.items()}
        return type(self)(**{**self.get_params(deep=False), **of_sample})

    @property
    def _by_sample(self):
        """Parameters that are dicts, with a value for each of several samples."""
        values = {parameter: getattr(self, parameter) for parameter in _OF_SAMPLES}
        return {name: value for name, value in values.items() if isinstance(value, Mapping)}

    def embed(self, bags: BagsLike, training: TrainingFeatures | None = None) -> Embedding:
        """Mean embeddings and covariates of new bags, like a fit's training features.

        Parameters
        ----------
        training : TrainingFeatures, optional
            Default: from this model's fit.

        Returns
        -------
        Embedding
        """
        if training is None:
            bags = self.like_training(bags)
            return self.embedding_of(bags)
        bags = as_bags(bags, in_parts=True, samples=self.takes_samples)
        covariates, samples = training.covariates, training.samples

        def like(name, part):
            return part.with_cluster_variances(samples[name].record.cluster_variances)

        bags = like_samples(bags, samples, like)
        columns = {} if covariates is None else covariates.of_bags(bags)
        return embedded(bags, training.feature_map, columns)

    def predictive(
        self,
        bags: BagsLike,
        *,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        event: ArrayLike | str | None = None,
        entry: ArrayLike | str | None = None,
        groups: bool = True,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
    ) -> Predictive | ClassPredictive:
        """Posterior predictive distribution of the labels of new bags.

        Returns
        -------
        Predictive or ClassPredictive; OutcomePredictive, TimesPredictive, LognormalPredictive or
        OrdinalPredictive of other families than the normal; GridPredictive or MulticlassPredictive
        of inverse models; ProgramPredictive with a `stan_file`
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `log_prob(y)`, `sample(size)`.

        Notes
        -----
        Closed form given each draw: the distribution in the model's header in ``stan/``,
        averaged over the draws. With `stan_file` the program runs again, with data of the new bags:
        its y_new are the draws and its log_lik is the log density. The measurement errors
        `label_sd` of the training labels are excluded.
        """
        bags = self.like_training(bags)
        label_data = {"trials": trials, "exposure": exposure, "offset": offset, "event": event}
        labels = self.labels_of_new(bags, stan_data=stan_data, entry=entry, **label_data)
        embedding = self.embedding_of(bags, groups=groups)
        return self.predictive_features(embedding, labels).with_ids_of(bags)

    @property
    def contrast(self) -> Any:
        """Only of the estimators that are linear in the embedding: raises AttributeError."""
        raise AttributeError(
            f"{type(self).__name__} has no contrast, as it predicts a changed bag as if its points "
            "were another sample: fit BDR, or BDRClassifier, for the effect of a change"
        )

    def embedding_of(self, bags: Any, *, groups: bool = True) -> Embedding:
        """Mean embeddings of bags like the training bags, and their covariates."""
        return embedded(bags, self.feature_map_, self.covariates_of(bags, groups=groups))

    def predictive_features(self, embedding: Embedding, labels: Labels | None = None) -> Any:
        """Posterior predictive distribution of bags, from their `embedding` by `embed`.

        `labels`, from `labels_of_new`, have trials, exposures and offsets, if the fit had any.
        """
        check_is_fitted(self, "result_")
        labels = Labels(classes=getattr(self, "classes_", None)) if labels is None else labels
        for name in self._required:
            self.label_model.check_has(name, getattr(labels, name))
        if labels.event is None and "event" in self.result_.constants:
            labels = replace(labels, event=np.full(len(embedding.mean), np.nan))
        if self.by_program:
            return self.program_predictive(embedding, labels)
        self.warn_of_other_bags(embedding)
        return self.predictive_of_draws(self.coordinates_, embedding, labels, self.draws())

    @property
    def counts_labels(self) -> bool:
        """Whether labels have probabilities as counts, not a density or classes."""
        return self.label_model.is_count

    def check_parameters(self) -> None:
        super().check_parameters()
        check_columns(**self._columns())
        check_positive(bandwidth_scale=self.bandwidth_scale)
        for name in sorted(set().union(*self._by_sample.values())) or [""]:
            one = self._for_sample(name)
            check_kernel_and_bandwidth(one.kernel, one.bandwidth)
            check_landmarks(one.landmarks, one.n_landmarks, LANDMARKS)

    def _columns(self):
        """Columns of the bags' metadata by their roles, as lists."""
        named = {"covariates": getattr(self, "covariates", None)}
        return named | {role: getattr(self, role, None) for role in ("groups", "smooths")}

    def _check_same_covariates(self, training):
        held_out = {} if training.covariates is None else training.covariates.named
        named = {role: names for role, names in self._columns().items() if names}
        if held_out != named:
            raise ValueError(
                f"the model has {_roles(named)}, but the training features have "
                f"{_roles(held_out)}: make these with the model's own training_features"
            )

    # ------------------------------------------------------------ defined by subclasses

    @property
    def predicts_from(self) -> tuple[str, ...]:
        """Variables with draws that predictions use, if there are any."""
        return ("intercept", "w", "eta", "term_sd", *self.label_model.scales)

    @property
    def noise_by_size(self) -> bool:
        """Whether the noise of labels given the embedding depends on the size of the bag."""
        return False

    def _compressible(self, labels: Labels | None) -> Labels | None:
        """Labels in the form of the model if they are normal given the embedding; else None."""
        return None

    def _coordinates_of(self, model: Any) -> Any:
        """Coordinates of the embeddings of a model."""
        return self.coordinates.from_constants({n: v for n, (v, _) in model.constants.items()})

    def predictive_of_draws(
        self, coordinates: Any, embedding: Embedding, labels: Labels, draws: Mapping[str, Array]
    ) -> Any:
        """Predictive distribution of embedded bags given draws of `predicts_from`, and of gamma."""
        return self.label_model.predictive(coordinates, embedding, labels, draws)

    def _findings(
        self, model: Any, posterior: Posterior, training: TrainingFeatures, labels: Labels
    ) -> dict[str, Any]:
        """Further settings of the result, by name."""
        return {}

    def warn_of_other_bags(self, embedding: Embedding) -> None:
        """Warn of out-of-distribution bags that would mislead the model."""

    def _sample(self, model: Any, settings: SamplerSettings) -> tuple[Posterior, dict[str, Any]]:
        """Draws from the posterior, and further constants that predictions need."""
        return sample_posterior(model, settings), {}

    @property
    def _most_draws(self) -> int | None:
        """The most draws that predictions use."""
        return self.label_model.most_draws

    def draws(self) -> dict[str, Array]:
        """Draws that predictions use, all chains in one; ValueError for a user's program."""
        check_stock(self)
        group = self.result_.groups["posterior"]
        of_covariates = () if self.covariates_ is None else ("gamma", "term_effect")
        names = (*self.predicts_from, *of_covariates)
        draws = {name: group[name].values for name in names if name in group}
        if self.covariates_ is not None and "gamma" in draws:
            draws["gamma"] = draws["gamma"] * self.covariates_.scale
        return self._for_predictions(Posterior(draws, {}, {}))[1]

    def covariates_of(self, bags: Bags, *, groups: bool = True) -> dict[str, Array]:
        """Covariates and terms of new bags: fields of `Embedding`; without effects of groups."""
        if not groups and not getattr(self, "groups", None):
            raise ValueError("groups=False leaves out effects of groups, but the fit has none")
        if self.covariates_ is None:
            return {}
        if groups:
            self.covariates_.terms.warn_of_new(bags)
        self.covariates_.warn_of_codes(bags, new=True)
        return self.covariates_.of_bags(bags, groups=groups)

    # ------------------------------------------------------------ plain programs

    def _plain_training(self, bags: Any, labels: Labels) -> TrainingFeatures:
        """Training features for a plain program; ValueError for bags with several samples."""
        check_one_sample(
            bags, "plain programs are for bags with one sample: fit one of the samples"
        )
        return self._training_features(bags, self.checked_seed(None), False)

    def _needed_data(self, labels: Labels) -> dict[str, str]:
        """Names of data that a plain program must declare -> this fit's data of these names."""
        columns = {role: names for role, names in self._columns().items() if names}
        return {
            "x": " and ".join(columns),
            "label_sd": "label_sd" * (labels.label_sd is not None),
            "trials": "trials" * (labels.trials is not None),
            "known_part": " and ".join(n for n in ("exposure", "offset") if n in labels.given),
            **{name: name * (name in labels.given) for name in OF_TIMES},
            "sigma_point_scale": "label_noise='size'"
            * (getattr(self, "label_noise", "constant") == "size"),
        }

    def _plain_model(self, stock: Any, training: TrainingFeatures, labels: Labels) -> Any:
        """The model of the plain program in the place of a stock model."""
        return plain_model(stock, training.embedding, self.label_model.of_program(labels))

    def _program_bags(self, program, coordinates, embedding, labels):
        """Embedded bags as data of the user's program, with any labels, and other labels' data."""
        y, n = program.data["y"], len(embedding.mean)
        possible = np.full(n, 0 if self.counts_labels and labels.classes is None else y.min())
        of_any = replace(labels, y=possible.astype(y.dtype))
        return data_of_bags(coordinates, embedding, of_any), at_labels

    def program_step(self, n_bags: int, n_draws: int | None = None) -> int:
        """k, if predictions use every k-th draw; families and inverse models use fewer."""
        n_draws = self._n_draws if n_draws is None else n_draws
        is_slow = self.label_model.distribution is not None or not self.has_likelihood
        most = FEWEST_DRAWS if is_slow else MOST_NUMBERS // max(n_bags, 1)
        return -(-n_draws // max(most, FEWEST_DRAWS))

    def program_predictive(
        self, embedding: Embedding, labels: Labels, step: int | None = None
    ) -> Any:
        """Predictive distribution by the user's own program, at every k-th draw of each chain."""
        program = program_to_run(self)
        draws = draws_of_program(self, step or self.program_step(len(embedding.mean)))
        return self._predictive_of(program, self.coordinates_, embedding, labels, draws)

    def _predictive_of(self, program, coordinates, embedding, labels, draws):
        """Predictive distribution of embedded bags by the user's own program, at `draws`."""
        bags, data_at = self._program_bags(program, coordinates, embedding, labels)
        kind = self.label_model
        predictive = program.predictive(
            draws, bags, is_count=kind.is_count, logarithms=kind.logarithms, data_at=data_at
        )
        classes = labels.classes
        return predictive if classes is None else predictive.of_classes(classes, kind.first_class)

    # ------------------------------------------------------------ state

    def _set_fitted(self, result: Result) -> None:
        constants, settings = result.constants, result.settings
        self.kernel_ = settings["kernel"]
        self.coordinates_ = self.coordinates.from_constants(constants)
        encoding = settings.get("covariates")
        self.covariates_ = None if encoding is None else Covariates.from_config(encoding)
        if "classes" in settings:
            self.classes_ = settings["classes"]
        kernels = by_name(self.kernel_)
        landmarks = {n: constants[f"landmarks_{n}" if n else "landmarks"] for n in kernels}
        self.landmarks_ = by_sample(landmarks, lambda _, points: points)
        self.feature_map_ = by_sample(
            kernels, lambda name, kernel: landmark_features(kernel, landmarks[name])
        )
        bandwidth = single_bandwidth(kernels[""]) if "" in kernels else None
        if bandwidth is not None:
            self.bandwidth_ = bandwidth
        if "linear_variance" in constants:
            self.linear_variance_ = float(constants["linear_variance"])


def _roles(named):
    roles = [f"{role}={list(names)}" for role, names in named.items()]
    return " and ".join(roles) or "no such columns"
