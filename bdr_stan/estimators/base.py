"""What all estimators share: landmarks, embedding of bags, files."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bdr_stan import __version__
from bdr_stan.results import files
from bdr_stan.results.inference_data import build, groups_of
from bdr_stan.bags import as_bags
from bdr_stan.embedding.mean_embedding import Embedding, embed
from bdr_stan.kernels import check_bandwidth, median_bandwidth
from bdr_stan.embedding.landmarks import choose_landmarks


@dataclass(frozen=True)
class TrainingFeatures:
    """Landmarks, bandwidth and the training bags' embedding: all that a fit needs of the bags."""

    landmarks: np.ndarray
    bandwidth: float | np.ndarray
    embedding: Embedding
    ids: np.ndarray
    names: list[str] | None = None  # of the points' columns

    def take(self, bags):
        """Features of the bags with these indices; the covariance stays that of all."""
        return replace(self, embedding=self.embedding.take(bags), ids=self.ids[bags])


class BagEstimator(BaseEstimator):
    """Base of what scikit-learn sees: an estimator on bags, kept in and read from one file."""

    @classmethod
    def load(cls, path):
        """Read a fit written by `save`.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        ValueError
            The file holds no fit, or that of another estimator.
        """
        model = load(path)
        if type(model) is not cls:
            raise ValueError(
                f"{path} holds a fit of {type(model).__name__}, not of {cls.__name__}: "
                f"use {type(model).__name__}.load or bdr_stan.load"
            )
        return model

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    # ------------------------------------------------------------ inspection and files

    @property
    def idata(self):
        """The fit as an ArviZ object: InferenceData (ArviZ 0.x) or DataTree (1.x).

        Groups: posterior, sample_stats, observed_data, constant_data and, while draws x bags
        stay below 20 million, log_likelihood and posterior_predictive.
        """
        check_is_fitted(self, "_groups")
        if getattr(self, "_idata", None) is None:
            self._idata = build(self._groups)
        return self._idata

    def save(self, path, *, notes=None):
        """Write the fit to one NetCDF file with all that is needed to predict.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete.
        notes : dict, optional
            What you want kept beside it, as JSON can hold; `load` gives it back as `notes_`.
        """
        check_is_fitted(self, "_groups")
        files.write(path, groups_of(self.idata), {**self._config(), "notes": notes or {}})

    def _config(self):
        """What a file keeps of the estimator besides its groups; JSON can hold it."""
        return {
            "bdr_stan": __version__,
            "estimator": type(self).__name__,
            "params": self.get_params(deep=False),
            "feature_names": getattr(self, "feature_names_in_", None),
        }

    @classmethod
    def _from_file(cls, groups, config):
        return cls(**config["params"])._restore(groups, config)

    def _restore(self, groups, config):
        """Take the state of a fit from what `save` kept."""
        self._groups = groups
        self._set_feature_names(config.get("feature_names"))
        self.notes_ = config.get("notes", {})
        return self

    def _like_training(self, bags):
        """New bags, once they are known to have the columns of those of the fit."""
        check_is_fitted(self, "_groups")
        bags = as_bags(bags)
        if bags.n_features != self.n_features_in_:
            raise ValueError(
                f"the bags have {bags.n_features} features a point, but the model was fitted to "
                f"{self.n_features_in_}: pass the same columns in the same order"
            )
        known = getattr(self, "feature_names_in_", None)
        if bags.features is not None and known is not None and list(known) != bags.features:
            k = next(k for k, name in enumerate(known) if name != bags.features[k])
            raise ValueError(
                f"column {k} of the bags is {bags.features[k]!r}, but the model was fitted to "
                f"{known[k]!r} there: pass the same columns in the same order"
            )
        return bags

    def _check_parameters(self):
        """Raise where a parameter is of no use."""

    def _set_feature_names(self, names):
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_

    def __getstate__(self):
        # The ArviZ object is rebuilt from the groups: it does not pickle in every version.
        state = dict(super().__getstate__())
        if state.pop("_idata", None) is not None:
            state["_groups"] = groups_of(self._idata)
        return state


class DistributionModel(BagEstimator):
    """Base of the estimators: embeds bags at landmarks, keeps and restores fits."""

    def training_features(self, bags, *, seed=None):
        """Choose landmarks and bandwidth, and embed training bags in one pass over their points.

        Parameters
        ----------
        bags : Bags, or list of arrays
        seed : int, optional

        Returns
        -------
        TrainingFeatures
            For `fit_features`; several models may share it.
        """
        bags = as_bags(bags)
        bandwidth = self.bandwidth
        if isinstance(bandwidth, str):
            bandwidth = median_bandwidth(bags, seed=seed)
        elif not np.isscalar(bandwidth):
            bandwidth = np.asarray(bandwidth, float)
        bandwidth = bandwidth * self.bandwidth_scale
        landmarks = self._choose_landmarks(bags, seed)
        embedding = self._embed(
            bags,
            landmarks,
            bandwidth,
            covariance=self._covariance(),
            tau=getattr(self, "tau", 1.0),
        )
        ids = np.arange(len(bags)) if bags.ids is None else np.asarray(bags.ids)
        return TrainingFeatures(landmarks, bandwidth, embedding, ids, bags.features)

    def _embedding(self, bags):
        """Embedding of new bags, once they are known to be like those of the fit."""
        return self._embed(self._like_training(bags), self.landmarks_, self.bandwidth_)

    # ------------------------------------------------------------ files

    def _config(self):
        config = {**super()._config(), "bandwidth": self.bandwidth_}
        if not isinstance(self.landmarks, str):
            config["params"]["landmarks"] = "given"  # the array itself is in constant_data
        return config

    def _restore(self, groups, config):
        super()._restore(groups, config)
        self.landmarks_ = self._groups["constant_data"]["landmarks"].values
        self.n_features_in_ = self.landmarks_.shape[1]
        self.bandwidth_ = _number_or_array(config["bandwidth"])
        if not isinstance(self.landmarks, str) or self.landmarks == "given":
            self.landmarks = self.landmarks_
        self.bandwidth = _number_or_array(self.bandwidth)
        return self

    def _adopt(self, features):
        """Take over landmarks, bandwidth and names of the training features."""
        vars(self).pop("_groups", None)  # an attempt that fails leaves no fit behind
        self._idata = None
        self.landmarks_, self.bandwidth_ = features.landmarks, features.bandwidth
        self.n_features_in_ = features.landmarks.shape[1]
        self._set_feature_names(features.names)

    # ------------------------------------------------------------ parts of a fit

    def _choose_landmarks(self, bags, seed):
        given = not isinstance(self.landmarks, str)
        return choose_landmarks(
            bags, None if given else self.n_landmarks, method=self.landmarks, seed=seed
        )

    def _embed(self, bags, landmarks, bandwidth, **options):
        """Embedding of bags, of training or new, as the model uses it; options as for `embed`."""
        return embed(bags, landmarks, bandwidth, kernel=self.kernel, **options)

    def _covariance(self):
        """Within-bag covariance that the model needs of `embed`; None for none."""

    def _check_parameters(self):
        if not isinstance(self.bandwidth, str):
            check_bandwidth(self.bandwidth)
        elif self.bandwidth != "median":
            raise ValueError(
                f"bandwidth must be 'median' or a positive number, found {self.bandwidth!r}"
            )
        check_bandwidth(self.bandwidth_scale, "bandwidth_scale")


def load(path):
    """Read a fit of any estimator, written by its `save`.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    estimator
        Of the class that was saved.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file holds no fit of this package.
    """
    return restored(*files.read(path), path)


def restored(groups, config, path):
    """Estimator of the groups and the configuration in a file."""
    from bdr_stan import estimators

    try:
        return getattr(estimators, config["estimator"])._from_file(groups, config)
    except (AttributeError, KeyError, TypeError):
        raise ValueError(
            f"{path} holds a fit of {config.get('estimator')} by bdr_stan "
            f"{config.get('bdr_stan')}, which version {__version__} cannot read: use that version"
        ) from None


def _number_or_array(value):
    """A bandwidth as JSON keeps it: length scales come back as an array."""
    return np.array(value) if isinstance(value, list) else value
