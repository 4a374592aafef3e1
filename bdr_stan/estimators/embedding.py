"""Base of the Bayesian estimators on mean embeddings: fit, embed, predict."""

import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import (
    Bags,
    BagsLike,
    Samples,
    as_bags,
    check_classes,
    check_label_sd,
    check_labels,
    label_sd_values,
)
from bdr_stan.bags.labels import classes_and_codes
from bdr_stan.bags.matching import label_name, match_to_ids
from bdr_stan.embedding.compressed_embedding import Labels
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.covariates import Covariates, check_columns, learn_covariates
from bdr_stan.embedding.familiarity import Familiarity
from bdr_stan.embedding.mean_embedding import Embedding, embed
from bdr_stan.embedding.samples import SamplesFeatures, embed_samples, samples_features
from bdr_stan.embedding.training import TrainingFeatures, training_features
from bdr_stan.estimators.conformal import Conformal
from bdr_stan.estimators.doubts import DoubtedPredictions
from bdr_stan.estimators.familiarity import Familiar
from bdr_stan.estimators.own_program import (
    FEWEST_DRAWS,
    MOST_NUMBERS,
    at_labels,
    check_stock,
    draws_of_program,
    is_plain,
    own_data_of_bags,
    own_data_of_new_bags,
    program_to_run,
)
from bdr_stan.estimators.parameters import estimator
from bdr_stan.estimators.posterior import PosteriorEstimator
from bdr_stan.estimators.trials_and_exposure import known_of_labels
from bdr_stan.estimators.validation import (
    LANDMARKS,
    check_landmarks,
    check_positive,
    labels_of_training,
)
from bdr_stan.families import KNOWN
from bdr_stan.kernels import Kernel, check_kernel_and_bandwidth, landmark_features
from bdr_stan.kernels.names import AUTO, name_for
from bdr_stan.kernels.summands import single_bandwidth
from bdr_stan.models.overdispersion import Overdispersion, label_advice
from bdr_stan.models.plain import (
    DATA,
    StanData,
    data_of_bags,
    data_of_training_bags,
    plain_model,
)
from bdr_stan.posterior.sampling import Posterior, sample_posterior
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.predictive import ClassPredictive, Predictive
from bdr_stan.results.arviz_groups import few_enough, training_groups
from bdr_stan.results.result import Result
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array, ArrayLike
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    pass

_OF_SAMPLES = ("kernel", "bandwidth", "n_landmarks", "landmarks")  # may be dicts, one for each


@estimator
class EmbeddingEstimator(Conformal, DoubtedPredictions, Familiar, PosteriorEstimator):
    """Base of the Bayesian estimators on mean embeddings, of labels and of classes.

    Bags become mean embeddings at landmarks (`training_features`), these the data of a model
    (`_model`), draws from its posterior a result. New bags pass the same feature map (`embed`) to
    the predictive distribution (`_predictive`).

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
    takes_samples: ClassVar[bool] = False  # whether bags may have several samples of points
    coordinates: ClassVar[Any] = Coordinates  # of its model
    takes: ClassVar[tuple[str, ...]] = ()  # data of labels that `fit` accepts: trials etc.
    _family: ClassVar[Any] = None  # of its labels, if neither normal nor classes
    # Whether the posterior is conditioned on p(y | bag, draw), as leave-one-out needs.
    has_likelihood: ClassVar[bool] = True
    program_data: ClassVar[tuple[str, ...]] = DATA
    # Variables with draws that predictions use, if there are any.
    predicts_from: ClassVar[tuple[str, ...]] = ("intercept", "w", "sigma", "sigma_point", "eta")

    def fit(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        label_sd: ArrayLike | str | None = None,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
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
        """
        start = time.monotonic()
        given = {"trials": trials, "exposure": exposure, "offset": offset}
        bags, labels, errors, known, others = self._checked(bags, y, label_sd, given, stan_data)
        settings = self._settings(chains, warmup, draws, seed, progress, **cmdstan_options)
        compressible = self._compressible(labels, errors)
        training = self._training_features(bags, settings.seed, progress, compressible)
        training = replace(training, embedding=replace(training.embedding, **known))
        self._fit_features(training, labels, errors, settings, own=(stan_data or {}, others))
        columns = {name: value for name, value in given.items() if isinstance(value, str)}
        kept: dict[str, Any] = {"label_columns": columns} if columns else {}
        kept |= self._overdispersion(training, labels)
        return self._keep_too(label_name=label_name(y), seconds=time.monotonic() - start, **kept)

    def stan_data(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        label_sd: ArrayLike | str | None = None,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
    ) -> StanData:
        """Data of the plain Stan program of this model, for CmdStan, R or Julia.

        Its new bags are the training bags: the program then draws their y_new and log_lik.

        Parameters
        ----------
        bags, y, label_sd, trials, exposure, offset, stan_data
            As for `fit`.

        Returns
        -------
        StanData
            A dict, name -> number or array, as ``docs/programs.md`` describes them; its
            `write_json(path)` writes the data file of every interface to Stan.

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters, and bags with several samples.
        """
        given = {"trials": trials, "exposure": exposure, "offset": offset}
        bags, labels, errors, known, others = self._checked(bags, y, label_sd, given, stan_data)
        if isinstance(bags, Samples):
            raise ValueError("plain programs are for bags with one sample: fit one of these alone")
        training = self._training_features(bags, self._seed(None), False)
        training = replace(training, embedding=replace(training.embedding, **known))
        known_errors = {} if errors is None else {"label_sd": errors}
        y, classes = self._coded(labels)
        own = clone(self)
        if classes:
            own.classes_ = classes["classes"]
        with limited_blas():
            stock = own._model(training, y, **known_errors)
            model = own._plain_model(training, y, stock, label_sd=errors)
        return data_of_training_bags(replace(model, data={**model.data, **others}))

    def _checked(self, bags: Any, y: Any, label_sd: Any, given: Any, stan_data: Any) -> tuple:
        """Bags, labels, their errors, trials or exposure, and other data; all checked."""
        bags = as_bags(bags, in_parts=True, samples=self.takes_samples)
        if isinstance(bags, Samples):
            bags.check_order(y=y, **given)
            self._check_samples(bags, label_sd)
        labels = self.check_labels(bags, y)
        self.check_parameters()
        if label_sd is not None:
            self._check_takes_label_sd()
            label_sd = label_sd_values(bags, label_sd)
            self.check_label_errors(labels, label_sd)
        known = self.check_known(bags, labels, **given)
        self._check_program(self._needed_data(known, label_sd), stan_data)
        of_bags, others = own_data_of_bags(self.stan_file, bags, stan_data)
        return bags, labels, label_sd, known | ({"own_data": of_bags} if of_bags else {}), others

    def fit_features(
        self,
        training: TrainingFeatures,
        y: ArrayLike,
        *,
        label_sd: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        **sampling: Any,
    ) -> Self:
        """Fit to `training`, from `training_features`; `y` and all else, `sampling`, as in `fit`.

        Returns
        -------
        self
        """
        self.check_parameters()
        self._check_program(self._needed_data({}, label_sd))
        if isinstance(training, SamplesFeatures):
            self._check_samples(training, label_sd)
        labels = labels_of_training(training, TrainingFeatures, y)
        record: Any = training.record  # names bags in messages as these do themselves
        if getattr(self, "family", "normal") != "normal":
            labels = self.check_labels(record, labels)
        if label_sd is not None:
            self._check_takes_label_sd()
            label_sd = match_to_ids(label_sd, record.ids, "label_sd")
            label_sd = check_label_sd(label_sd, len(labels), record.index)
            self.check_label_errors(labels, label_sd)
        given: dict[str, Any] = {"trials": trials, "exposure": exposure, "offset": offset}
        embedding = training.embedding
        given |= {name: getattr(embedding, name) for name in self.takes if given[name] is None}
        known = self.check_known(record, labels, **given)
        training = replace(training, embedding=replace(embedding, **known))
        settings = self._settings(**sampling)
        self._check_same_covariates(training)
        return self._fit_features(training, labels, label_sd, settings)

    def _fit_features(self, training, labels, label_sd, settings, own=({}, {})):
        """Fit to embedded bags with labels that were checked; `own` data of the user's program."""
        self._forget()
        y, classes = self._coded(labels)
        if classes:
            self.classes_ = classes["classes"]
        known_errors = {} if label_sd is None else {"label_sd": label_sd}
        # Matrices this small gain nothing from BLAS's threads, and lose much on a busy machine.
        with limited_blas():
            model = self._model(training, y, **known_errors)
            familiarity = Familiarity.from_training(training)
        of_new_bags = {} if familiarity is None else familiarity.constants()
        given, others = own
        if is_plain(self.stan_file):
            model = self._plain_model(training, y, model, **known_errors)
            model = replace(model, data={**model.data, **others})
        posterior, constants = self._sample(model, settings)
        self._keep_posterior(
            model,
            posterior,
            training.record,
            y,
            settings,
            constants=_constants(training, known_errors) | of_new_bags | constants,
            kernel=training.kernel,
            covariates=training.covariates,
            coordinates=training.coordinates,
            stan_data=given,
            **classes,
        )
        self._keep_training_predictions(training, posterior, y, known_errors, settings.seed)
        self._warn_of_trouble()
        return self

    def _coded(self, labels):
        """Labels as numbers, shape (n,), and the classes that they encode, by name, if any."""
        if not is_classifier(self):
            return np.asarray(labels, float), {}
        # The order of categories matters only for the ordinal family.
        ordered = self._family is not None
        classes, y = classes_and_codes(labels if ordered else np.asarray(labels))
        return y, {"classes": classes}

    def _keep_training_predictions(self, training, posterior, y, known_errors, seed):
        """Add the groups posterior_predictive and log_likelihood, unless they are too large."""
        if not isinstance(training.embedding, Embedding):  # sums over only the bags
            return
        codes = np.arange(len(self.classes_)) if is_classifier(self) else None
        if self.by_program:
            program = self._program
            if program is None or not program.generates("y_new"):
                return
            predictive = self._program_predictive(
                training.embedding, codes, **known_errors, repeated=1
            )
            has_likelihood = self.has_likelihood and program.generates("log_lik")
            thinning = self._program_step(len(y))
            if self.has_likelihood and not has_likelihood:
                warn(
                    f"{self.stan_file} has no log_lik in its generated quantities, so the fit has "
                    "no log_likelihood, which az.loo, stacking and conformal need"
                )
        else:
            draws = self._draws()
            n_draws = len(next(iter(draws.values())))
            if not few_enough(n_draws, len(y), integrated=self._family is not None):
                return
            predictive = self._predictive(training.embedding, draws, codes, **known_errors)
            has_likelihood, thinning = self.has_likelihood, self._step
        groups = training_groups(
            predictive,
            posterior.draws,
            y,
            training.record.index,
            has_likelihood=has_likelihood,
            thinning=thinning,
            seed=seed,
        )
        self._keep_too(groups)

    def report(self) -> str:
        """Diagnostics, kernel, and labels that the errors of the model do not describe; a str."""
        lines = [super().report()]
        if self.result_.has_draws("sigma") and getattr(self, "family", "normal") == "normal":
            lines += label_advice(self.result_.labels, float(self.result_.draws("sigma").mean()))
        found = self.result_.settings.get("overdispersion")
        if found is not None:
            lines.append(f"Labels: {Overdispersion(**found).text}")
        return "\n".join(lines)

    def kernel_for(self, bags: BagsLike) -> str | Kernel:
        """`kernel`, or the name that "auto" means for these bags.

        Returns
        -------
        str or Kernel
        """
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
        if isinstance(bags, Samples):
            self._check_samples(bags, None)
        return self._training_features(bags, self._seed(seed), progress)

    def _training_features(self, bags, seed, progress, labels=None):
        """Training features, which may have sums over only the bags if there are `labels`."""
        if isinstance(bags, Samples):

            def features_of(name, own):
                return self.for_sample(name)._training_features(own, seed, progress)

            columns = {role: names or () for role, names in self._columns().items()}
            learned = learn_covariates(bags, *columns.values()) if any(columns.values()) else None
            return samples_features(bags, features_of, learned)
        return training_features(
            bags,
            kernel=self._kernel_or_auto(),
            bandwidth=self.bandwidth,
            bandwidth_scale=self.bandwidth_scale,
            n_landmarks=self.n_landmarks,
            landmarks=self.landmarks,
            covariance=getattr(self, "covariance", None),
            tau=getattr(self, "tau", 1.0),
            **self._columns(),
            labels=labels,
            seed=seed,
            progress=progress,
        )

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
            bags = self._like_training(bags)
            return embedded(bags, self._feature_map, self.known_of_bags(bags, complete=False))
        bags = as_bags(bags, in_parts=True, samples=self.takes_samples)
        covariates = training.covariates
        known = {} if covariates is None else covariates.of_bags(bags)
        return embedded(bags, training.feature_map, known)

    def predictive(
        self,
        bags: BagsLike,
        *,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        groups: bool = True,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
    ) -> Predictive | ClassPredictive:
        """Posterior predictive distribution of the labels of new bags.

        Parameters
        ----------
        groups : bool, default True
            False omits the effects of groups: labels in a group of effect 0.

        Returns
        -------
        Predictive or ClassPredictive; OutcomePredictive, LognormalPredictive or OrdinalPredictive
        of other families than the normal; GridPredictive or MulticlassPredictive of inverse models;
        ProgramPredictive with a `stan_file`
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `log_prob(y)`, `sample(size)`.

        Notes
        -----
        Closed form given each draw: the distribution in the model's header in ``stan/``,
        averaged over the draws. With `stan_file` the program runs again, with data of the new bags:
        its y_new are the draws and its log_lik is the log density. The measurement errors
        `label_sd` of the training labels are excluded.
        """
        given = {"trials": trials, "exposure": exposure, "offset": offset}
        embedding, bags = self._embedded(bags, given, groups, stan_data)
        return self.predictive_features(embedding).with_ids_of(bags)

    @property
    def contrast(self) -> Any:
        """Only of the estimators that are linear in the embedding: raises AttributeError."""
        raise AttributeError(
            f"{type(self).__name__} has no contrast, as it predicts a changed bag as if its points "
            "were another sample: fit BDR, or BDRClassifier, for the effect of a change"
        )

    def _embedded(self, bags, given, groups=True, stan_data=None):
        """New bags embedded with the trials, exposure or offset of their labels, and the bags."""
        bags = self._like_training(bags)
        if isinstance(bags, Samples):
            bags.check_order(**given)
        self._check_stan_data(stan_data)
        known = self.known_of_bags(bags, **given, groups=groups)
        program = self._program
        if program is not None:
            known["own_data"] = own_data_of_new_bags(program.columns, bags, stan_data)
        return embedded(bags, self._feature_map, known), bags

    def predictive_features(self, embedding: Embedding) -> Any:
        """Posterior predictive distribution of bags, from their `embedding` by `embed`."""
        check_is_fitted(self, "result_")
        classes = getattr(self, "classes_", None)
        if self.by_program:
            return self._program_predictive(embedding, classes)
        self._warn_of_other_bags(embedding)
        return self._predictive(embedding, self._draws(), classes)

    def check_labels(self, bags: Bags, y: ArrayLike) -> Array:
        """Labels `y` of `bags` as an array, checked."""
        return check_classes(bags, y) if is_classifier(self) else check_labels(bags, y)

    @property
    def columns_of_bags(self) -> list[str]:
        """Columns of the bags' metadata that predictions need."""
        own = {} if self._program is None else self._program.columns
        return [*super().columns_of_bags, *(column for column in own.values() if column)]

    def check_known(
        self,
        bags: Bags,
        labels: Array | None,
        *,
        complete: bool = True,
        **given: ArrayLike | str | None,
    ) -> dict[str, Array]:
        """`given` trials, exposure and offset of `bags`, by name, each of shape (n,).

        For bags to predict, without `labels`, the default is the columns that the fit named; with
        `complete` it raises ValueError if one that the fit had is missing.
        """
        family = getattr(self, "family", None)
        if family is None:
            for name in (name for name, value in given.items() if value is not None):
                raise TypeError(f"{type(self).__name__} takes no {name}: leave it out")
            return {}
        takes = self.takes
        if labels is None:  # of new bags: from the columns that the fit named
            columns = self.result_.settings.get("label_columns", {})
            named = {name: columns.get(name) for name in takes}
            given = {**named, **{name: v for name, v in given.items() if v is not None}}
            needed = self._needed if complete else []
        else:
            needed = [name for name in takes if name == "trials"]
        return known_of_labels(family, bags, given, labels, takes=takes, needed=needed)

    @property
    def _needed(self):
        """What is known of each training label, and so must be of those to predict."""
        return [name for name in self.takes if name in self.result_.constants]

    @property
    def counts_labels(self) -> bool:
        """Whether labels have probabilities as counts, not a density or classes."""
        return self._family is not None and self._family.likelihood.is_count

    def check_label_errors(self, y: Array, label_sd: Array) -> None:
        """Raise ValueError if errors `label_sd` explain all variation of the labels `y`."""

    def check_parameters(self) -> None:
        super().check_parameters()
        check_columns(**self._columns())
        check_positive(bandwidth_scale=self.bandwidth_scale)
        for name in self._named_samples() or [None]:
            one = self if name is None else self.for_sample(name)
            check_kernel_and_bandwidth(one.kernel, one.bandwidth)
            check_landmarks(one.landmarks, one.n_landmarks, LANDMARKS)

    def _needed_data(self, known: Mapping[str, Any], label_sd: Any) -> dict[str, str]:
        """Names of data that a plain program must declare -> this fit's data of these names."""
        columns = {role: names for role, names in self._columns().items() if names}
        return {
            "x": " and ".join(columns),
            "label_sd": "label_sd" * (label_sd is not None),
            "trials": "trials" * ("trials" in known),
            "known_part": " and ".join(n for n in ("exposure", "offset") if n in known),
            "sigma_point_scale": "label_noise='size'"
            * (getattr(self, "label_noise", "constant") == "size"),
        }

    def _named_samples(self):
        """Names of samples in parameters that are dicts."""
        given = (getattr(self, parameter) for parameter in _OF_SAMPLES)
        return sorted({name for value in given if isinstance(value, Mapping) for name in value})

    def for_sample(self, name: str) -> Self:
        """An estimator of only the sample `name` of bags, without covariates and terms."""
        named = {parameter: getattr(self, parameter) for parameter in _OF_SAMPLES}
        others = {"prior": None, "stan_file": None, **dict.fromkeys(self._columns())}
        own = {p: value[name] for p, value in named.items() if isinstance(value, Mapping)}
        params = self.get_params(deep=False)
        one = type(self)(**{**params, **{k: v for k, v in others.items() if k in params}, **own})
        if "classes_" in vars(self):
            one.classes_ = self.classes_
        return one

    def _check_samples(self, bags: Samples | SamplesFeatures, label_sd: Any) -> None:
        """Raise if the parameters do not match the samples of the bags."""
        if self.stan_file is not None:
            raise ValueError("stan_file is for bags with one sample: leave it out")
        for parameter in _OF_SAMPLES:
            value = getattr(self, parameter)
            if isinstance(value, Mapping) and set(value) != set(bags.samples):
                raise ValueError(
                    f"{parameter} is given for {', '.join(value)}, but the samples of the bags are "
                    f"{', '.join(bags.samples)}: give one for each of these, or one for all"
                )

    def _columns(self):
        """Columns of the bags' metadata by their roles, as lists."""
        named = {"covariates": getattr(self, "covariates", None)}
        return named | {role: getattr(self, role, None) for role in ("groups", "smooths")}

    def _check_takes_label_sd(self):
        if not self.takes_label_sd:
            raise TypeError(
                f"{type(self).__name__} takes no label_sd, but BLR, BDR, Shrinkage, "
                "InverseBDR and AggregateRegressor do: leave it out"
            )

    def _check_same_covariates(self, training):
        held_out = {} if training.covariates is None else training.covariates.named
        named = {role: names for role, names in self._columns().items() if names}
        if held_out != named:
            raise ValueError(
                f"the model has {_roles(named)}, but the training features have "
                f"{_roles(held_out)}: make these with the model's own training_features"
            )

    # ------------------------------------------------------------ programs of users

    def _plain_model(self, training: Any, y: Array, stock: Any, *, label_sd: Any = None) -> Any:
        """The model of the plain program in the place of a stock model."""
        return plain_model(stock, training.embedding, self._program_labels(y), label_sd)

    def _program_bags(self, program, embedding, label_sd):
        """Embedded bags as data of the user's program, with any labels, and other labels' data."""
        y, n = program.data["y"], len(embedding.mean)
        labels = np.full(n, 0 if self.counts_labels and not is_classifier(self) else y.min())
        bags = data_of_bags(self.coordinates_, embedding, labels.astype(y.dtype), label_sd)
        return bags, at_labels

    def _program_labels(self, y: Array) -> Array:
        """Labels in the form for plain programs, shape (n,)."""
        if is_classifier(self):
            return y.astype(int) + (self._family is not None)  # categories from 1
        if getattr(self, "family", "normal") == "lognormal":
            return np.log(y)
        return y.astype(int) if self.counts_labels else y

    def _program_step(self, n_bags: int) -> int:
        """k, if a program's predictions use every k-th draw of each chain; families use fewer."""
        most = FEWEST_DRAWS if self._family is not None else MOST_NUMBERS // max(n_bags, 1)
        return self._step_to(max(most, FEWEST_DRAWS))

    def _program_predictive(self, embedding, classes, *, label_sd=None, step=None, repeated=None):
        """Predictive distribution of embedded bags by the user's own program.

        A single draw, of an optimisation, is repeated.
        """
        program = program_to_run(self)
        n = len(embedding.mean)
        step = self._program_step(n) if step is None else step
        bags, data_at = self._program_bags(program, embedding, label_sd)
        predictive = program.predictive(
            draws_of_program(self, step, repeated),
            bags,
            is_count=self.counts_labels,
            logarithms=getattr(self, "family", "normal") == "lognormal",
            data_at=data_at,
        )
        first = int(self._family is not None)  # categories from 1
        return predictive if classes is None else predictive.of_classes(classes, first)

    # ------------------------------------------------------------ defined by subclasses

    def _compressible(self, y: Array, label_sd: Array | None) -> Labels | None:
        """Labels that are normal given the embedding, as `Labels`; else None."""
        return None

    def _model(self, training: TrainingFeatures, y: Array) -> Any:
        """The statistical model with its data, priors and constants."""
        raise NotImplementedError

    def _predictive(
        self, embedding: Embedding, draws: dict[str, Array], classes: Array | None
    ) -> Predictive | ClassPredictive:
        """Predictive distribution of embedded bags given draws of `predicts_from`, and of gamma."""
        raise NotImplementedError

    def _overdispersion(self, training: TrainingFeatures, y: Any) -> dict[str, Any]:
        """Whether counts scatter more than the family allows, as a setting of the result."""
        return {}

    def _warn_of_other_bags(self, embedding: Embedding) -> None:
        """Warn of out-of-distribution bags that would mislead the model."""

    def _sample(self, model: Any, settings: SamplerSettings) -> tuple[Posterior, dict[str, Any]]:
        """Draws from the posterior, and further constants that predictions need."""
        return sample_posterior(model, settings), {}

    @property
    def _step(self) -> int:
        """k, if predictions use every k-th draw of each chain."""
        return 1

    def _draws(self) -> dict[str, Array]:
        """Draws that predictions use, all chains in one, with gamma for scaled covariates.

        Raises ValueError for a user's program, which may use other formulas.
        """
        check_stock(self)
        kept = self.result_.groups["posterior"]
        drawn = {name: kept[name].values for name in self.predicts_from if name in kept}
        if self._covariates is not None:
            parts = [kept["gamma"].values * self._covariates.scale] if "gamma" in kept else []
            parts += [kept["term_effect"].values] if "term_effect" in kept else []
            drawn["gamma"] = np.concatenate(parts, axis=-1)
        return Posterior({n: v[:, :: self._step] for n, v in drawn.items()}, {}, {}).flat()

    def known_of_bags(
        self,
        bags: Bags,
        *,
        groups: bool = True,
        complete: bool = True,
        **given: ArrayLike | str | None,
    ) -> dict[str, Array]:
        """Inputs of predictions other than the mean embeddings of bags: fields of `Embedding`.

        `complete` and `given` are as for `check_known`; without `groups` effects of groups are
        omitted.
        """
        known = self.check_known(bags, None, complete=complete, **given)
        if not groups and not getattr(self, "groups", None):
            raise ValueError("groups=False leaves out effects of groups, but the fit has none")
        if self._covariates is not None:
            if groups:
                self._covariates.terms.warn_of_new(bags)
            known |= self._covariates.of_bags(bags, groups=groups)
            self._covariates.warn_of_codes(bags, new=True)
        return known

    # ------------------------------------------------------------ state

    def _set_fitted(self, result: Result) -> None:
        constants, settings = result.constants, result.settings
        self.kernel_ = settings["kernel"]
        self.coordinates_ = self.coordinates.from_constants(constants)
        encoding = settings.get("covariates")
        self._covariates = None if encoding is None else Covariates.from_config(encoding)
        self._familiarity = Familiarity.from_constants(constants)
        if "classes" in settings:
            self.classes_ = settings["classes"]
        if isinstance(self.kernel_, Mapping):
            self.landmarks_: Any = {name: constants[f"landmarks_{name}"] for name in self.kernel_}
            self._feature_map: Any = {
                name: landmark_features(kernel, self.landmarks_[name])
                for name, kernel in self.kernel_.items()
            }
            return
        self.landmarks_ = constants["landmarks"]
        self._feature_map = landmark_features(self.kernel_, self.landmarks_)
        bandwidth = single_bandwidth(self.kernel_)
        if bandwidth is not None:
            self.bandwidth_ = bandwidth
        for name in ("measure_scale", "linear_variance"):
            if name in constants:
                setattr(self, f"{name}_", float(constants[name]))


def _roles(named):
    given = [f"{role}={list(names)}" for role, names in named.items()]
    return " and ".join(given) or "no such columns"


def embedded(bags: Any, feature_map: Any, known: Mapping[str, Array]) -> Embedding:
    """Mean embeddings of bags with their `known` data, checked before the pass."""
    found = embed_samples if isinstance(bags, Samples) else embed
    return replace(found(bags, feature_map), **known)


def _constants(training, known_errors):
    """What predictions need of the training bags: name -> (values, dimensions)."""
    numbers = {name: getattr(training.embedding, name, None) for name in KNOWN}
    known = {name: values for name, values in numbers.items() if values is not None}
    landmarks, sizes = training.landmarks, training.embedding.sizes
    if isinstance(landmarks, Mapping):
        of_points = {
            f"landmarks_{name}": (values, [f"landmark_{name}", f"feature_{name}"])
            for name, values in landmarks.items()
        }
    else:
        of_points = {"landmarks": (landmarks, ["landmark", "feature"])}
    return {
        **of_points,
        "bag_size": (sizes, ["bag", "sample"][: sizes.ndim]),
        **{name: (values, ["bag"]) for name, values in (known_errors | known).items()},
    }
