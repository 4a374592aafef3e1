"""Estimators that are linear in the embedding: a label is the average of a function of points."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike
from bdr_stan.bags.samples import by_sample, check_one_sample
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.embedding.terms import NO_TERMS, smooth_columns
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.estimators.base import ProbabilisticClassifier, RegressorOfFamilies
from bdr_stan.estimators.embedding import EmbeddingEstimator
from bdr_stan.estimators.label_models import ClassLabels, LabelModel, labels_of_family
from bdr_stan.estimators.validation import check_choice
from bdr_stan.families import NormalNumbers
from bdr_stan.labels import OF_TIMES, Labels
from bdr_stan.models.bdr import BLRModel
from bdr_stan.models.bdr_glm import FamilyModel, samples_model, without_deviations
from bdr_stan.models.embedding_model import penalised_evidence
from bdr_stan.models.label_errors import LABEL_NOISE
from bdr_stan.models.latent import contributions
from bdr_stan.models.overdispersion import overdispersion
from bdr_stan.parameters import estimator
from bdr_stan.posterior.laplace import laplace_posterior
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.predictive import Contrast
from bdr_stan.questions.contrast import Contrasts
from bdr_stan.questions.design import Design
from bdr_stan.questions.influence import Influence
from bdr_stan.questions.population import Population
from bdr_stan.questions.prior_predictive import PriorPredictive
from bdr_stan.questions.protocol import check_stock
from bdr_stan.questions.sensitivity import Sensitivity
from bdr_stan.results.result import Result
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array, ArrayLike, check_counts, check_flags
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    import pandas as pd

_MOST_COMPARED = 200  # bags of counts needed to detect overdispersion


@estimator
class LinearEstimator(
    PriorPredictive, Population, Sensitivity, Contrasts, Influence, EmbeddingEstimator
):
    """Base of the estimators that are linear in the embedding.

    Parameters
    ----------
    covariates : list of str, optional
        Columns of `bags.metadata` with a linear effect in addition to the embedding: numbers, or
        text, categories and booleans with a weight per level. New bags also need these columns.
    """

    _: KW_ONLY
    covariates: Sequence[str] | None = None

    def _model_by(self, model: Any, training: Any, *arguments: Any, **options: Any) -> Any:
        """The model of this class of exact embeddings; `arguments` and `options` are its own."""
        return model(training.embedding, *arguments, terms=training.terms, **options)

    def quick_contrast(self, after: Any, before: Any, y: ArrayLike, seed: int) -> Array:
        """Draws, (1000,), of the average contrast from a fit to `before` with Laplace's method."""
        training = self.training_features(before, seed=seed, progress=False)
        with limited_blas():
            model = self._model(training, self.read_labels(training.record, y))
            w = laplace_posterior(model, draws=1000, seed=seed).flat()["w"]
        moved = embed(after, training.feature_map).mean - training.embedding.mean
        return w @ (moved.mean(axis=0) @ self._coordinates_of(model).basis)

    def log_evidence(
        self,
        training: TrainingFeatures,
        y: ArrayLike,
        *,
        scales: Mapping[str, float] | None = None,
        **label_data: Any,
    ) -> tuple[float, dict[str, float]]:
        """Log evidence of labels given sigma, rho, eta, ..., by default the most probable; these.

        The log prior density of the scales is added, without its constant. The evidence is exact
        for `BLR` with normal labels, else an approximation (`laplace_log_evidence`). `training` is
        from `training_features`, labels and their data are as in `fit`.
        """
        labels = self.read_labels(training.record, y, **label_data)
        with limited_blas():
            model = self._model(training, labels)
            if scales is None:
                scales, mode, _ = most_probable_scales(model)
            else:
                mode = model.mode_at(scales)
        return penalised_evidence(model, scales, mode), dict(scales)


@estimator
class LinearRegressor(Design, RegressorOfFamilies, LinearEstimator):
    """Base of the estimators of numbers: labels given a linear function of the embedding.

    Parameters
    ----------
    family : str, default "normal"
        Distribution of a label given its linear predictor h. "normal": mean h. "student_t": the
        same with heavy tails, of 2 + df_above_2 degrees of freedom. "lognormal": log y is normal of
        mean h; with an `event` or `entry` in `fit` it is a family of times. "weibull": times of the
        survival function exp(-(y / exp(h))^(1 / sigma)). "gamma": positive, mean exp(h), standard
        deviation dispersion exp(h). "poisson": counts of mean exp(h). "negative_binomial": of
        variance mean + dispersion^2 mean^2. "binomial": counts out of `trials`, of probability
        1 / (1 + exp(-h)). "beta_binomial": the same with probabilities that vary like a beta
        distribution of precision dispersion^-2.
        "beta": shares between 0 and 1, of that precision. "ordinal": 3 to 20 ordered categories, at
        most the kth with probability 1 / (1 + exp(h - c_k)); numbers, or a pandas Categorical with
        an order. All but "normal" and "lognormal" are in `bdr_stan.families.FAMILIES` and run
        ``bdr_glm.stan``, with one row per bag.
    groups : list of str, optional
        Columns of `bags.metadata` that group the bags, such as ["state"]: each level has an effect
        normal(0, term_sd), partially pooled. Effects of levels that no training bag has are drawn
        from this distribution.
    smooths : list of str and of pairs of str, optional
        Columns of numbers, or pairs of them, with smooth functions: ["year", ["lon", "lat"]].
        Gaussian processes, Matern 3/2 with standard deviation and length scales learned.
    label_noise : {"constant", "size"}, default "constant"
        "size" adds sigma_point^2 / N_i to the variance sigma^2 of the noise: for labels that are
        averages over the N_i points of their bags, so small bags have noisier labels. Bags of
        several sizes identify the two scales. For normal labels.
    compress : bool, default True
        False passes one row per bag to the program: for likelihoods that are not normal.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept, sigma, rho (units of y), w (component), beta (landmark), for `BDR`
        eta; with label_noise "size" sigma_point (units of y); with covariates gamma (covariate):
        units of y per unit of a number as given, and the difference of a level from the average
        bag; with groups or smooths term_sd (term) and term_effect (effect), the effects of levels
        and weights of the functions' sines, and term_length (smooth_column), in units of half the
        column's range. With a `family` other than "normal" all except eta are on the scale of the
        linear predictor, and the family's own scales replace sigma: for "ordinal" the gaps between
        its thresholds c_k, the first at 0; labels are then 0, 1, ...
    classes_ : array, shape (C,)
        For family "ordinal" the categories, from the lowest to the highest.
    """

    _: KW_ONLY
    groups: Sequence[str] | None = None
    smooths: Sequence[str | Sequence[str]] | None = None
    family: str = "normal"
    label_noise: str = "constant"
    compress: bool = True

    takes_label_sd = True
    takes_samples = True
    normal_model: ClassVar[type[BLRModel]] = BLRModel  # of normal labels

    def __sklearn_tags__(self):
        """Tags of a classifier if labels are categories: folds are stratified, for example."""
        tags = super().__sklearn_tags__()
        if self.label_model.has_classes:
            tags.estimator_type, tags.regressor_tags = "classifier", None
            tags.classifier_tags = ClassifierTags()
        return tags

    @property
    def label_model(self) -> LabelModel:
        """The kind of the labels, by `family` and what the fit was given with them."""
        fitted = vars(self).get("result_")
        return self._kind(vars(self).get("_given", ()) if fitted is None else fitted.constants)

    def _kind(self, given: Iterable[str]) -> LabelModel:
        """The kind of labels with which arguments of these names were given."""
        classes, times = vars(self).get("classes_"), not set(OF_TIMES).isdisjoint(given)
        return labels_of_family(self.family, None if classes is None else len(classes), times)

    @property
    def takes(self) -> tuple[str, ...]:
        """What `fit` accepts in addition to each label: an offset, trials, an exposure, events."""
        return self.label_model.takes

    @property
    def noise_by_size(self) -> bool:
        return self.label_noise == "size" or self.normal_model.uncertain

    @property
    def columns_of_bags(self) -> list[str]:
        smooth = [name for columns in smooth_columns(self.smooths or ()) for name in columns]
        return [*super().columns_of_bags, *(self.groups or ()), *smooth]

    def predict_terms(self, bags: BagsLike, *, level: float = 0.95) -> "pd.DataFrame":
        """What each term adds to the linear predictor of each bag, with its interval.

        Returns
        -------
        pandas DataFrame of n rows, indexed by the bags' ids
            For "embedding", or each sample by its name, and each column of covariates, smooths and
            groups the columns mean, sd, lower and upper, on the scale of the linear predictor
            (units of y if labels are normal).
            Their sum is the predictor minus the intercept. Smooth functions, covariates and, except
            for shrinkage, the embedding average 0 over the training bags.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from bdr_stan import Bags, Shrinkage
        >>> rng = np.random.default_rng(0)
        >>> state, y = np.repeat(["north", "south"], 20), rng.normal(size=40)
        >>> bags = Bags.from_list(
        ...     [rng.normal(mean, size=(50, 1)) for mean in y],
        ...     metadata=pd.DataFrame({"state": state}),
        ... )
        >>> model = Shrinkage(5, groups=["state"]).fit(bags, y + (state == "north"), seed=1)
        >>> terms = model.predict_terms(bags)
        >>> terms.columns.levels[0].tolist()
        ['embedding', 'state']
        """
        import pandas as pd

        bags = self.like_training(bags)
        slices = {} if self.covariates_ is None else self.covariates_.slices
        embedding = self.embed(bags)
        samples = self.result_.samples
        parts = contributions(self.coordinates_, embedding, slices, self.draws(), samples)
        tables = {name: p.with_ids_of(bags).to_dataframe(level) for name, p in parts.items()}
        return pd.concat(tables, axis=1)

    def term_along(self, name: str, *, n_points: int = 100) -> tuple[Array, Contrast]:
        """Posterior of the effects of groups, or of a smooth function along its columns.

        Parameters
        ----------
        name : str
            A column of `groups`, or of `smooths`: of a pair "lon, lat".
        n_points : int, default 100
            Points of a smooth function of one column; of a pair the grid has n_points^(1/2) by
            as many.

        Returns
        -------
        values : array, shape (m,), or (m, 2) of a pair
            Levels of the groups, or points of the training range in units of the columns.
        effect : Contrast, of m values
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, on the scale of the linear
            predictor. The values of a smooth function count from its average over the training
            bags.

        Raises
        ------
        ValueError
            The fit has no such term.
        """
        check_is_fitted(self, "result_")
        check_counts(n_points=n_points)
        check_stock(self)
        terms = NO_TERMS if self.covariates_ is None else self.covariates_.terms
        values, columns = terms.along(name, n_points)
        effects = self.result_.draws("term_effect")[:, terms.slices[terms.names.index(name)]]
        draws = effects @ columns.T
        return values, Contrast(lambda i: draws[:, i], len(values), len(draws))

    def check_samples(self, bags: Any, label_sd: Any) -> None:
        for parameter, value in self._by_sample.items():
            if set(value) != set(bags.samples):
                check_one_sample(
                    bags,
                    f"{parameter} is given for {', '.join(value)}, but the samples of the bags are "
                    f"{', '.join(bags.samples)}: pass one for each sample, or one for all",
                )
        for_one_sample = {
            "stan_file": self.stan_file is not None,
            "label_sd": label_sd is not None,
            "label_noise='size'": self.label_noise == "size",
            "method='exact'": self.method == "exact",
        }
        for name in (name for name, is_given in for_one_sample.items() if is_given):
            check_one_sample(bags, f"{name} is for bags with one sample: leave it out")
        self._check_complete(bags, bags.samples)

    def _check_complete(self, bags: Any, names: Iterable[str]) -> None:
        """Raise ValueError if a bag lacks a sample, but embeddings are taken as exact."""
        for name in names if not self.normal_model.uncertain else ():
            lacking = np.flatnonzero(~bags.has(name))
            if len(lacking):
                raise ValueError(
                    f"{bags.name(lacking[0])} has no {name!r} ({len(lacking)} in total), but "
                    f"{type(self).__name__} takes embeddings as exact: use BDR or Shrinkage"
                )

    def like_training(self, bags: BagsLike, *, need_weights: bool = True) -> Any:
        like = super().like_training(bags, need_weights=need_weights)
        self._check_complete(like, self.result_.samples)
        return like

    def _model(self, training: TrainingFeatures, labels: Labels) -> Any:
        """The model of one sample, or from one model for each."""
        self._given = tuple(labels.given)  # until the fit has its result

        def alone(name, features):
            part = labels.take(training.record.has(name))
            if name and (len(part.y) < 2 or np.ptp(part.y) == 0):
                raise ValueError(
                    f"the {len(part.y)} bags with {name!r} do not have different labels: leave "
                    "this sample out"
                )
            return self._model_alone(features, part, None if name else self.prior)

        def joined(models):
            kind = self._kind(labels.given)
            family, of_model = kind.distribution or NormalNumbers(), kind.of_model(labels)
            return samples_model(training, of_model, family, models, prior=self.prior)

        return by_sample(training.samples, alone, joined)

    def _model_alone(self, training: TrainingFeatures, labels: Labels, prior: Any) -> Any:
        """The model of bags with one sample."""
        kind = self._kind(labels.given)
        if kind.distribution is not None:
            return self._model_by(FamilyModel, training, labels, kind.distribution, prior=prior)
        options = {"lossless": self.compress, "label_noise": self.label_noise, "prior": prior}
        return self._model_by(self.normal_model, training, kind.of_model(labels), **options)

    def fit_of_sample(self, sample: Any) -> Any:
        check_is_fitted(self, "result_")
        result, samples = self.result_, self.result_.samples
        if "" in samples:
            return super().fit_of_sample(sample)
        if sample not in samples:
            raise ValueError(
                f"sample must be one of {', '.join(map(repr, samples))}, found {sample!r}"
            )
        m = list(samples).index(sample)
        columns = np.flatnonzero(self.coordinates_.is_of_sample(m))
        has = np.flatnonzero(result.constants["bag_size"][:, m])
        where: dict[str, Any] = dict.fromkeys(("landmark", "component", "component_row"), columns)
        where |= {"sample": m, "bag": has}
        names = ("posterior", "constant_data", "observed_data")
        groups = {name: result.groups[name].isel(where, missing_dims="ignore") for name in names}
        one: Any = self.with_result(Result(groups, dict(samples[sample])))
        one.coordinates_ = self.coordinates_.of_sample(m)
        one.kernel_, one.landmarks_ = self.kernel_[sample], self.landmarks_[sample]
        one.feature_map_, one.covariates_ = self.feature_map_[sample], None
        for role in self._columns():
            setattr(one, role, None)
        return one

    def check_parameters(self) -> None:
        kind = self.label_model
        check_choice(self.label_noise, "label_noise", LABEL_NOISE)
        check_flags(compress=self.compress)
        if self.label_noise != "constant" and not kind.is_linear:
            raise ValueError(
                f"label_noise={self.label_noise!r} is for normal labels, not for "
                f"family={self.family!r}: leave it out"
            )
        super().check_parameters()

    def read_labels(self, bags: Any, y: ArrayLike, **label_data: Any) -> Labels:
        labels = super().read_labels(bags, y, **label_data)
        if self.stan_file is not None and self._without_deviations(len(labels.y)):
            raise ValueError(
                f"method='laplace' of a program of your own takes too long for {len(labels.y)} "
                "bags: use 'optimize' or 'nuts'"
            )
        return labels

    def _without_deviations(self, n_bags: int) -> bool:
        uncertain = self.label_model.distribution is not None and self.normal_model.uncertain
        return uncertain and without_deviations(self.method, n_bags)

    def _sample(
        self, model: LatentGaussianModel, settings: SamplerSettings
    ) -> tuple[Posterior, dict[str, Any]]:
        if self._without_deviations(len(model.data.get("y", ()))):
            return laplace_posterior(model, draws=settings.draws, seed=settings.seed), {}
        return super()._sample(model, settings)

    def _findings(
        self, model: Any, posterior: Posterior, training: TrainingFeatures, labels: Labels
    ) -> dict[str, Any]:
        """Whether counts scatter more than the family allows."""
        family = self.label_model.distribution
        wider = None if family is None else family.wider
        if wider is None or self.stan_file is not None:
            return {}
        evidence, n = posterior.attrs["log_evidence"], len(labels.y)
        if n > _MOST_COMPARED:
            some = np.random.default_rng(0).choice(n, _MOST_COMPARED, replace=False)
            training, labels, evidence = training.take(some), labels.take(some), None
        wide = copy(self)
        wide.family = wider
        result = overdispersion(
            wide._model(training, labels),
            lambda: self._model(training, labels),
            evidence,
            narrow=self.family,
            remedy=f"family={wider!r}",
        )
        if result.is_clear:
            warn(result.text[0].upper() + result.text[1:])
        return {"overdispersion": asdict(result)}

    def _compressible(self, labels: Labels | None) -> Labels | None:
        if labels is None or not self.compress or not self._kind(labels.given).is_normal:
            return None
        return self._kind(labels.given).of_model(labels)


class LinearClassifier(ProbabilisticClassifier, LinearEstimator):
    """Base of the estimators of two classes.

    Attributes
    ----------
    classes_ : array, shape (2,)
        The two labels, sorted; the model is of the probability of the second.
    idata : InferenceData or DataTree
        posterior: intercept, rho, w (component), beta (landmark), with covariates gamma (covariate,
        see `BDR`), in units of the latent function: log odds for `BLRClassifier`, standard
        deviations of the latent noise for `BDRClassifier`, with eta; observed labels as 0 and 1.
    """

    _log_cdf: ClassVar[Callable[[Array], Array]]  # of the latent noise

    @property
    def label_model(self) -> LabelModel:
        """Two classes."""
        return ClassLabels(type(self).__name__, type(self)._log_cdf)
