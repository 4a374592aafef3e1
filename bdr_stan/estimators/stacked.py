"""Model averaging: fits stacked by their leave-one-out predictive densities."""

import warnings
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.bags.record import RECORDED
from bdr_stan.bags.samples import check_one_sample
from bdr_stan.estimators.base import BagEstimator, ProbabilisticClassifier, RegressorOfFamilies
from bdr_stan.estimators.bdr import BDR
from bdr_stan.estimators.classifiers import BDRClassifier
from bdr_stan.estimators.embedding import EmbeddingEstimator
from bdr_stan.estimators.inverse import InverseBDR, InverseBDRClassifier
from bdr_stan.estimators.label_models import LabelModel
from bdr_stan.labels import WITH_LABELS
from bdr_stan.parameters import estimator
from bdr_stan.predictive import mix
from bdr_stan.results.inference_data import InferenceData
from bdr_stan.results.leave_one_out import stack
from bdr_stan.results.result import Result
from bdr_stan.types import ArrayLike

_MAX_ADDITIVE_COLUMNS = 20  # columns; with more, each has fewer than three landmarks


@estimator
class Stack(BagEstimator):
    """Base of `Stacked` and `StackedClassifier`.

    Parameters
    ----------
    models : list of BLR, Shrinkage, BDR or InverseBDR, or of their classifiers, optional
        Not fitted; with a method that draws from the posterior. Default: BDR, InverseBDR and, for
        points of at most 20 columns, additive InverseBDR, both with Laplace's approximation. Their
        weights use held-out densities, so their k-hat raises no warning.

    Attributes
    ----------
    models_ : list of fitted estimators
        Each with its `idata`.
    weights_ : array, shape (len(models),), of sum 1
    comparison_ : pandas.DataFrame
        One row per model: elpd (expected log predictive density), its se, p (effective number of
        parameters), max_pareto_k (above 0.7 do not trust the elpd) and weight.
    """

    models: list[EmbeddingEstimator] | None = None

    kind: ClassVar[str]  # of estimators that are stacked
    default_types: ClassVar[tuple[type[EmbeddingEstimator], type[EmbeddingEstimator]]]
    # Arguments that scikit-learn can route to `fit`, which accepts the models' options.
    __metadata_request__fit: ClassVar[dict[str, None]] = dict.fromkeys(
        ("label_sd", *WITH_LABELS, "chains", "warmup", "draws", "seed", "progress")
    )

    def fit(self, bags: BagsLike, y: ArrayLike, **options: Any) -> Self:
        """Fit each model to bags and their labels, and weigh the fits.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
            Or several samples per bag, as a dict or `Samples`, if all `models` support them.
        **options
            Options of the models' `fit`, for example chains, draws and seed.

        Raises
        ------
        ValueError, TypeError
            Models that cannot be stacked, and all that the models raise.
        """
        self.check_parameters()
        bags = as_bags(bags, samples=all(model.takes_samples for model in self.models or []))
        if self.models is None:
            advice = "give models=[...] of BDR, BLR and Shrinkage"
            message = f"the default models are for bags with one sample: {advice}"
            check_one_sample(bags, message, TypeError)
        models = self._candidates(bags.n_features)
        for model in models:
            model.check_parameters()
            model.check_samples(bags, None)
            model.label_model.read(bags, y, **{name: options.get(name) for name in WITH_LABELS})
        with self._without_k_hat():
            fitted = [clone(model).fit(bags, y, **options) for model in models]
        return self._weigh(fitted)

    def predictive(self, bags: BagsLike, **label_data: Any) -> Any:
        """Predictive distribution of the labels of new bags: the weighted mixture of the models'.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        **label_data
            trials, exposure, offset, event, entry and groups, as for the models' `predictive`.

        Returns
        -------
        Predictive or ClassPredictive, or Blend if one of the models is an InverseBDR
        """
        bags = self.like_training(bags)
        used = np.flatnonzero(self.weights_)
        predictives = [self.models_[k].predictive(bags, **label_data) for k in used]
        return mix(predictives, self.weights_[used])

    @property
    def idata(self) -> InferenceData:
        """A stack has no posterior: raises an AttributeError with the place of one."""
        check_is_fitted(self, "result_")
        raise AttributeError(
            f"{type(self).__name__} has no posterior of its own: see models_[0].idata and so on"
        )

    @property
    def label_model(self) -> LabelModel:
        """The kind of the labels, which the models share."""
        return self.models_[0].label_model

    @property
    def covariates(self) -> list[str]:
        """Columns of the bags' metadata that the models use."""
        named = [model.columns_of_bags for model in self.models or []]
        return list(dict.fromkeys(name for names in named for name in names))

    @property
    def columns_of_bags(self) -> list[str]:
        """Columns of the bags' metadata that predictions need."""
        fitted = (name for model in vars(self).get("models_", []) for name in model.columns_of_bags)
        return list(dict.fromkeys([*self.covariates, *fitted]))

    def _candidates(self, n_columns):
        """The models, not fitted, for points of some number of columns."""
        if self.models is not None:
            return self.models
        direct, inverse = self.default_types
        models = [direct(), inverse(method="laplace")]
        if n_columns <= _MAX_ADDITIVE_COLUMNS:
            models.append(inverse(kernel="additive", method="laplace"))
        return models

    @contextmanager
    def _without_k_hat(self):
        """No warning about the Laplace approximations of the default models."""
        with warnings.catch_warnings():
            if self.models is None:
                warnings.filterwarnings("ignore", message="Pareto k-hat of the laplace")
            yield

    def check_parameters(self) -> None:
        models = self._candidates(1)
        if not isinstance(models, (list, tuple)) or len(models) < 2:
            raise ValueError(
                f"{type(self).__name__} needs a list of at least two models, such as "
                "[BDR(), InverseBDR()]"
            )
        fits = is_classifier if self.kind == "classifier" else is_regressor
        for model in models:
            if not (isinstance(model, EmbeddingEstimator) and fits(model)):
                is_model = isinstance(model, EmbeddingEstimator)
                other = ", which StackedClassifier does" * (is_model and is_classifier(model))
                name = model if isinstance(model, str) else type(model).__name__
                raise TypeError(
                    f"{type(self).__name__} cannot stack {name}{other}: give "
                    f"models that are Bayesian {self.kind}s of this package, such as BDR()"
                )
            if model.method == "optimize":
                raise ValueError(
                    f"{type(model).__name__}(method='optimize') has no posterior draws to weigh it "
                    "by: use method='nuts' or 'laplace'"
                )
            if not model.has_likelihood and model.stan_file is not None:
                raise ValueError(
                    f"{type(model).__name__}(stan_file=...) has no densities of held-out labels to "
                    "weigh it by: leave stan_file out"
                )
        if len({model.label_model.is_ordered for model in models}) > 1:
            raise ValueError(
                f"{type(self).__name__} cannot weigh ordered categories by classes without an "
                "order: give all models family='ordinal', or none of them"
            )
        if len({model.counts_labels for model in models}) > 1:
            raise ValueError(
                f"{type(self).__name__} cannot weigh probabilities of counts by densities: give "
                "all models a family of counts, such as 'negative_binomial', or none of them"
            )

    def _weigh(self, models):
        names = [f"{k} {type(model).__name__}" for k, model in enumerate(models)]
        held_out = {
            n: m.held_out_ for n, m in zip(names, models, strict=True) if not m.has_likelihood
        }
        few = [name for name, density in held_out.items() if not np.isfinite(density).all()]
        if few:
            raise ValueError(
                f"{few[0]} could not hold out every bag, so nothing weighs it: give more bags, and "
                "several of each class"
            )
        for model in models:
            groups, name = model.result_.groups, type(model).__name__
            if model.has_likelihood and "log_likelihood" not in groups:
                if groups["posterior"].sizes["draw"] == 1:
                    raise ValueError(f"{name} has one draw, which cannot weigh it: ask for more")
                raise ValueError(
                    f"{name} kept no log_likelihood, as draws x bags are too many: ask for fewer"
                )
        idatas = {name: model.idata for name, model in zip(names, models, strict=True)}
        comparison = stack(idatas, held_out)
        first = models[0].result_.settings
        record = {n: first[n] for n in (*RECORDED, "samples", "label_name") if n in first}
        return self._keep(Result({}, {"comparison": comparison, **record}, tuple(models)))

    def _set_fitted(self, result: Result) -> None:
        self.models_, self.comparison_ = list(result.members), result.settings["comparison"]
        self.weights_ = self.comparison_["weight"].to_numpy()


@estimator
class Stacked(RegressorOfFamilies, Stack):
    """Average of regressors, weighted by how well each predicts labels it has not seen.

    The models may differ in kind, landmarks, bandwidth or prior. The weights maximise the
    leave-one-out predictive density of the training labels under the mixture (stacking), which
    Pareto-smoothed importance sampling estimates from each fit: no model is fitted twice. A weak
    prior, worth one label, favours equal weights.

    Try `Stacked()` first if you do not know which model suits your data: BDR for labels that are
    linear in the embedding, InverseBDR for labels that are bounded, skewed or on few values.

    Notes
    -----
    Source: Yao, Vehtari, Simpson, Gelman (2018), "Using stacking to average Bayesian predictive
    distributions".

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BDR, BLR, Stacked
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(n, 1)) for mean, n in zip(y, [2, 60] * 20)]
    >>> models = [BLR(n_landmarks=6), BDR(kernel="rbf", n_landmarks=6)]
    >>> model = Stacked(models).fit(bags, y, chains=2, seed=1)
    >>> bool(model.weights_[1] > model.weights_[0])
    True
    """

    kind = "regressor"
    default_types = BDR, InverseBDR


@estimator
class StackedClassifier(ProbabilisticClassifier, Stack):
    """Average of classifiers of two classes, as `Stacked` is of regressors.

    Parameters
    ----------
    models : list of BLRClassifier, ShrinkageClassifier, BDRClassifier or \
            InverseBDRClassifier, optional
        Default: BDRClassifier, InverseBDRClassifier and, for points of at most 20 columns, additive
        InverseBDRClassifier, both with Laplace's approximation.

    Attributes
    ----------
    classes_ : array, shape (2,)

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BDRClassifier, BLRClassifier, StackedClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["sick", "well"] * 20)
    >>> bags = [rng.normal(0.5 if label == "well" else -0.5, size=(10, 1)) for label in y]
    >>> model = StackedClassifier([BLRClassifier(n_landmarks=6), BDRClassifier(n_landmarks=6)])
    >>> model = model.fit(bags, y, chains=2, seed=1)
    >>> model.predict([np.full((30, 1), -1.0), np.full((30, 1), 1.0)])
    array(['sick', 'well'], dtype='<U4')
    """

    kind = "classifier"
    default_types = BDRClassifier, InverseBDRClassifier

    def _set_fitted(self, result: Result) -> None:
        super()._set_fitted(result)
        self.classes_ = self.models_[0].classes_
