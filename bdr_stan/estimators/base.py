"""Base of all estimators: the result that a fit keeps, and saved fits."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from bdr_stan import __version__
from bdr_stan.arguments import unknown_attribute
from bdr_stan.bags import Bags, BagsLike, TableColumns, as_bags, values_of_bags
from bdr_stan.bags.clusters import INDEPENDENT
from bdr_stan.bags.labels import check_known_labels, check_outputs, output_names
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.bags.record import BagsRecord, warn_of_other_ranges, warn_of_varying
from bdr_stan.bags.samples import like_samples
from bdr_stan.bags.tables import is_table
from bdr_stan.estimators.label_models import LabelModel
from bdr_stan.estimators.validation import StanFileOfFit
from bdr_stan.metrics import concordance
from bdr_stan.questions.prediction_table import PredictionTable
from bdr_stan.questions.protocol import FOR_MODULES, Fit
from bdr_stan.results import files
from bdr_stan.results.encoding import decode, encode
from bdr_stan.results.inference_data import InferenceData, build
from bdr_stan.results.result import Result
from bdr_stan.types import Array, ArrayLike, PathName, Seed, check_seed
from bdr_stan.user_warnings import warn

_OF_FITS = ("result_", "notes_")
_REQUESTS = "_metadata_request"  # place of scikit-learn's requests of set_fit_request etc.
_CLASSES: dict[str, type["BagEstimator"]] = {}


class BagEstimator(PredictionTable, BaseEstimator):
    """Base of estimators on bags, for scikit-learn; a fit is one `Result`.

    A subclass ends `fit` with ``return self._keep(Result(...), bags)`` and sets the public
    attributes of a fit in `_set_fitted(result)`, which runs after a fit, after `load` and after
    unpickling.
    """

    takes_parts: ClassVar[bool] = False  # whether it accepts `PartitionedBags`
    takes_samples: ClassVar[bool] = False  # whether bags may have several samples of points
    takes_outputs: ClassVar[bool] = False  # whether labels may be several numbers per bag, (n, k)
    samples_posterior: ClassVar[bool] = False  # whether the fit is draws from a posterior

    result_: Result
    notes_: dict[str, Any]
    n_features_in_: int
    feature_names_in_: np.ndarray
    columns_: TableColumns | None
    _idata: InferenceData | None

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        _CLASSES[cls.__name__] = cls

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.multi_output = self.takes_outputs
        return tags

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            return unknown_attribute(self, name)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in FOR_MODULES]

    def fit(self, *args: Any, **kwargs: Any) -> Self:
        """Fit to bags and their labels.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters; raised before any work starts.
        """
        raise NotImplementedError

    # ------------------------------------------------------------ inspection

    def __str__(self) -> str:
        if "result_" not in vars(self):
            return repr(self)
        settings = self.result_.settings
        label = settings.get("label_name")
        lines = [
            repr(self),
            f"Fitted to {self.result_.n_bags} bags of {self.n_features_in_} columns"
            + (f" from {Path(settings['file']).name}" if settings.get("file") else "")
            + (f", label {label!r}" if label else "")
            + (f", in {settings['seconds']:.1f} s" if "seconds" in settings else ""),
        ]
        return "\n".join(lines)

    @property
    def idata(self) -> InferenceData:
        """The fit as an ArviZ object: InferenceData (ArviZ 0.x) or DataTree (1.x).

        Groups: constant_data and, if the estimator has them, posterior, sample_stats and
        observed_data. While draws x bags stay below 20 million, posterior_predictive and, for more
        than one draw, log_likelihood (5 million and at most 1,000 draws for a `family` other than
        normal and lognormal); not if bags in partitions have over 20 million numbers in their mean
        embeddings.
        """
        check_is_fitted(self, "result_")
        if self._idata is None:
            self._idata = build(self.result_.groups)
        return self._idata

    @property
    def label_model(self) -> LabelModel:
        """The kind of the labels."""
        return LabelModel(type(self).__name__)

    @property
    def columns_of_bags(self) -> list[str]:
        """Columns of the bags' metadata that predictions need."""
        return list(getattr(self, "covariates", None) or [])

    # ------------------------------------------------------------ files

    def save(self, path: PathName, *, notes: dict[str, Any] | None = None) -> None:
        """Save the fit to one NetCDF file, complete for predictions.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete.
        notes : dict, optional
            Anything to save with it that JSON can represent; `load` restores it as `notes_`.

        Raises
        ------
        FileNotFoundError, NotADirectoryError, IsADirectoryError
            The path is a directory, or its parent does not exist.
        TypeError
            A parameter that a file cannot represent.
        """
        check_is_fitted(self, "result_")
        if notes is not None and not isinstance(notes, dict):
            raise TypeError(f"notes must be a dict, found {notes!r}")
        arrays: dict[str, np.ndarray] = {}
        config, groups = _described(self, arrays)
        config = {"bdr_stan": __version__, **config, "notes": notes or {}}
        files.write(path, *files.with_arrays(groups, config, arrays))

    @classmethod
    def load(cls, path: PathName) -> Self:
        """Read a fit written by `save`.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        FileNotFoundError
            The file does not exist.
        ValueError
            The file contains no fit, or one of another estimator.
        """
        model = load(path)
        if type(model) is not cls:
            raise ValueError(
                f"{path} holds a fit of {type(model).__name__}, not of {cls.__name__}: "
                f"use {type(model).__name__}.load or bdr_stan.load"
            )
        return model

    def __getstate__(self) -> dict[str, Any]:
        # Parameters and the result are complete; ArviZ objects and caches do not always pickle.
        state = self.get_params(deep=False)
        for name in (*_OF_FITS, _REQUESTS):
            if name in vars(self):
                state[name] = vars(self)[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        fit_state = {name: state.pop(name) for name in _OF_FITS if name in state}
        for name, value in state.items():
            setattr(self, name, value)
        if "result_" in fit_state:
            self.set_result(fit_state["result_"], fit_state["notes_"])

    # ------------------------------------------------------------ state

    def _keep(self, result: Result, bags: Bags | None = None) -> Self:
        """Set the result of a fit, with the requirements on new bags."""
        if bags is not None:
            result = replace(
                result, settings={**result.settings, **BagsRecord.from_bags(bags).settings}
            )
        return self.set_result(result, {})

    def set_result(self, result: Result, notes: dict[str, Any] | None = None) -> Self:
        """Set the result of a fit, and the attributes that it determines; `notes` stay if None."""
        self._idata = None
        self.result_, self.notes_ = result, vars(self).get("notes_", {}) if notes is None else notes
        self._set_columns(result.settings)
        self._set_fitted(result)
        return self

    def with_result(self, result: Result) -> Self:
        """A copy with another result; the other attributes stay."""
        other = copy(self)
        other.result_, other._idata = result, None
        other._set_columns(result.settings)
        return other

    def _set_columns(self, settings: Mapping[str, Any]) -> None:
        """Set the names and kinds of the columns of the points."""
        self.n_features_in_ = settings["n_features"]
        self.columns_ = settings.get("columns")
        names = settings.get("feature_names")
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _set_fitted(self, result: Result) -> None:
        """Set the public attributes of the result."""

    def _forget(self) -> None:
        """Drop an earlier fit, to leave none if the next attempt fails."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)

    def like_training(self, bags: BagsLike, *, need_weights: bool = True) -> Any:
        """New bags, or a table of them, with the columns and weights of the bags of the fit."""
        check_is_fitted(self, "result_")
        samples = self.result_.samples

        def like(name, part):
            return self.bags_like(part, name, samples[name], need_weights)

        return like_samples(bags, samples, like)

    def bags_like(
        self, bags: Any, sample: str, settings: Mapping[str, Any], need_weights: bool = True
    ) -> Any:
        """The same for one of their samples; a table needs not have the metadata of another's."""
        columns, names = settings.get("columns"), settings.get("feature_names")
        if columns is not None and is_table(bags):
            frame, bag = cast(Any, bags), cast(str, columns.bag)
            read, roles = Bags.from_dataframe, ("weight", "cluster", "strata")
            if hasattr(frame, "to_delayed"):
                read, roles = Bags.from_dask, ("weight",)
            of_fit = SimpleNamespace(columns_=columns)
            named = [c for c in self.columns_of_bags if not sample or c in frame.columns]
            how = {role: getattr(columns, role) for role in roles}
            bags = read(frame, bag, metadata=named or None, like=of_fit, **how)
        bags = as_bags(bags, in_parts=self.takes_parts).like(columns)
        bags.check_like(settings["n_features"], names, columns)
        if need_weights and settings.get("weighted") and not bags.weighted:
            raise ValueError(
                "the bags have no weights, but the training bags had: give the points their "
                "weights, of 1 if all count equally"
            )
        variances, design = settings.get("cluster_variances"), settings.get("design")
        if need_weights and design is not None and bags.design is None:
            warn(
                f"the bags have no {design}, but the training bags had: their points are taken as "
                "independent, and intervals are too narrow if they are a cluster sample"
            )
        if bags.cluster is not None and design != "cluster":
            warn(
                "the bags have clusters, but the training bags had none, so points are taken as "
                "independent: fit to bags with cluster"
            )
        bags = bags.with_cluster_variances(INDEPENDENT if variances is None else variances)
        warn_of_other_ranges(bags, settings.get("column_ranges"))
        warn_of_varying(bags, settings.get("constant_columns"))
        return bags

    def fit_of_sample(self, sample: Any) -> Any:
        """The fit seen as one to a single sample; of only one, without a name, the fit itself."""
        check_is_fitted(self, "result_")
        if sample:
            raise ValueError(f"the bags have one sample: leave sample={sample!r} out")
        return self

    def check_samples(self, bags: Any, label_sd: Any) -> None:
        """Raise if the parameters do not match the samples of bags, or of their record."""

    def checked_seed(self, seed: Seed) -> Any:
        """Seed of a call, else `random_state`; a generator only if Stan needs no seed."""
        if isinstance(seed, np.random.Generator) and not self.samples_posterior:
            return seed
        check_seed(seed, "seed")
        default = vars(self)["random_state"]
        check_seed(default)
        return default if seed is None else seed

    def check_parameters(self) -> None:
        """Raise ValueError or TypeError for an invalid parameter; the first step of `fit`."""


class _Scored(Fit):
    """Scores of scikit-learn, of labels and weights matched to the order of the bags."""

    def score(
        self, bags: BagsLike, y: ArrayLike | str, sample_weight: ArrayLike | None = None
    ) -> float:
        """R^2 of predicted labels, or accuracy of classes, as in scikit-learn.

        Returns
        -------
        float, at most 1
        """
        bags, y, sample_weight = scored(self, bags, y, sample_weight)
        return super().score(bags, y, sample_weight)  # type: ignore[misc]


class BagRegressor(_Scored, RegressorMixin, BagEstimator):
    """Base of estimators with numeric labels."""

    def predict(self, bags: BagsLike) -> Any:
        """Predicted label of each bag.

        Returns
        -------
        array, shape (n,), or (n, k) like y, units of y
        """
        raise NotImplementedError


class BagClassifier(_Scored, ClassifierMixin, BagEstimator):
    """Base of estimators with classes as labels."""


class ProbabilisticRegressor(BagRegressor):
    """Base of regressors that have `predictive`."""

    predictive: Any

    def predict(self, bags: BagsLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Posterior predictive mean of each bag's label.

        Returns
        -------
        mean : array, shape (n,), units of y
        sd : array, shape (n,), if `return_std`
        """
        predictive = self.predictive(bags)
        return (predictive.mean, predictive.sd) if return_std else predictive.mean


class RegressorOfFamilies(ProbabilisticRegressor):
    """Base of regressors with a `family`, whose labels may have trials, an exposure or events."""

    def predict(
        self,
        bags: BagsLike,
        return_std: bool = False,
        *,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        groups: bool = True,
    ) -> Array | tuple[Array, Array]:
        """Posterior predictive mean of each bag's label; of ordered categories the most probable.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
            For several samples a dict of bags or tables, or `Samples`: the bags of the first sample
            in its order; bags that occur only in later samples come last.

        Returns
        -------
        mean : array, shape (n,), units of y
            For counts out of trials their expected number; for categories labels out of `classes_`.
        sd : array, shape (n,), if `return_std`
        """
        label_data = {"trials": trials, "exposure": exposure, "offset": offset}
        predictive = self.predictive(bags, **label_data, groups=groups)
        if self.label_model.has_classes:
            if return_std:
                raise TypeError(
                    "categories have no standard deviation: predictive(bags) has their "
                    "probabilities and interval(level)"
                )
            return self.classes_[np.argmax(predictive.probabilities, axis=1)]
        return (predictive.mean, predictive.sd) if return_std else predictive.mean

    def score(
        self,
        bags: BagsLike,
        y: ArrayLike | str,
        sample_weight: ArrayLike | None = None,
        *,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        event: ArrayLike | str | None = None,
    ) -> float:
        """R^2 of the predicted labels; for categories accuracy, with `event` the concordance."""
        bags, y, sample_weight = scored(self, bags, y, sample_weight)
        if event is not None or "event" in self.result_.constants:
            if event is None or sample_weight is not None:
                raise TypeError("the score of censored times needs event=, and no sample_weight")
            risk = -self.predictive(bags, offset=offset).mean
            return concordance(y, values_of_bags(bags, event, "event"), risk)
        mean = self.predict(bags, trials=trials, exposure=exposure, offset=offset)
        of_kind = accuracy_score if self.label_model.has_classes else r2_score
        return float(of_kind(np.asarray(y), mean, sample_weight=sample_weight))


class ProbabilisticClassifier(BagClassifier):
    """Base of classifiers that have `predictive`."""

    predictive: Any
    classes_: Array

    def predict(self, bags: BagsLike) -> Array:
        """Most probable class of each bag.

        Returns
        -------
        array, shape (n,), labels out of `classes_`
        """
        most_probable = np.argmax(self.predict_proba(bags), axis=1)
        return self.classes_[most_probable]

    def predict_proba(self, bags: BagsLike) -> Array:
        """Posterior predictive probability of each class.

        Returns
        -------
        array, shape (n, C), columns in the order of `classes_`
        """
        return self.predictive(bags).probabilities


def scored(model, bags, y, sample_weight):
    """Bags, labels and weights for a score, matched to the order of the bags."""
    bags = model.like_training(bags)
    bags.check_order(y=y, sample_weight=sample_weight)
    y = values_of_bags(bags, y, "y")
    if not (isinstance(model, ClassifierMixin) or model.label_model.has_classes):
        outputs = model.result_.settings.get("outputs") or output_names(y)
        y = check_outputs(bags, y, outputs, check_known_labels)
    return bags, y, match_to_ids(sample_weight, bags.ids, "sample_weight")


def load(path: PathName) -> BagEstimator:
    """Read a fit of any estimator, written by its `save`.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    estimator
        Estimator of the saved class.

    Raises
    ------
    FileNotFoundError
        The file does not exist.
    ValueError
        The file contains no fit of this package.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import RBFNetwork, load
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(40, seed=1)
    >>> model = RBFNetwork(n_landmarks=6).fit(bags, y, seed=1)
    >>> model.save("fit.nc")
    >>> again = load("fit.nc")
    >>> again
    RBFNetwork(n_landmarks=6)
    >>> np.allclose(again.predict(bags), model.predict(bags))
    True
    """
    groups, config = files.read(path)
    try:
        arrays = files.arrays_of(groups, config)
        return _restored(groups, config, arrays, config["notes"], str(path))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(_why_not_restored(path, config)) from error


def _why_not_restored(path, config):
    """Message for a file with other content than this version writes."""
    if not isinstance(config, dict) or "estimator" not in config:
        return f"{path} is not a fit saved by bdr_stan: its configuration names no estimator"
    return (
        f"{path} holds a fit of {config['estimator']} by bdr_stan {config.get('bdr_stan')}, which "
        f"version {__version__} cannot read: the file is damaged, or you need to use that version"
    )


def _described(estimator, arrays):
    """Configuration and groups of a fit, including its members."""
    result = estimator.result_
    members = [_described(member, arrays) for member in result.members]
    config = {
        "estimator": type(estimator).__name__,
        "params": {
            name: encode(value, arrays, name)
            for name, value in estimator.get_params(deep=False).items()
        },
        "settings": {n: encode(value, arrays, n) for n, value in result.settings.items()},
        "members": [config for config, _ in members],
    }
    groups = dict(result.groups)
    for k, (_, its_groups) in enumerate(members):
        groups |= {f"member_{k}_{name}": group for name, group in its_groups.items()}
    return config, groups


def estimator_from_file(name: str, params: dict[str, Any], path: str) -> BagEstimator:
    """An unfitted estimator; its `stan_file`, if any, is marked as loaded from a file."""
    if params.get("stan_file") is not None:
        params["stan_file"] = StanFileOfFit(params["stan_file"])
        params["stan_file"].fit = path
    if name not in _CLASSES:  # its module was not imported yet
        getattr(import_module("bdr_stan"), name, None)
    return _CLASSES[name](**params)


def _restored(groups, config, arrays, notes, path):
    """Fitted estimator from its configuration and groups."""

    def decoded(values):
        return {n: decode(v, arrays, made) for n, v in values.items()}

    def made(name, **params):
        return estimator_from_file(name, params, path)

    members = []
    for k, member in enumerate(config["members"]):
        prefix = f"member_{k}_"
        its_groups = {n: g for n, g in groups.items() if n.startswith(prefix)}
        groups = {n: g for n, g in groups.items() if n not in its_groups}
        its_groups = {n.removeprefix(prefix): g for n, g in its_groups.items()}
        members.append(_restored(its_groups, member, arrays, {}, path))
    estimator = made(config["estimator"], **decoded(config["params"]))
    result = Result(groups, decoded(config["settings"]), tuple(members))
    return estimator.set_result(result, notes)
