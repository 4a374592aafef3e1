"""Model averaging: fits stacked by their leave-one-out predictive densities."""

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from bdr_stan import __version__
from bdr_stan.results import files
from bdr_stan.results.inference_data import groups_of
from bdr_stan.results.stacking import stack
from bdr_stan.bags import as_bags
from bdr_stan.estimators.base import BagEstimator, restored
from bdr_stan.estimators.bayesian import DistributionClassifier, DistributionRegressor
from bdr_stan.predictive.mixtures import mix


class _Stack(BagEstimator):
    """What `Stacked` and `StackedClassifier` share."""

    def __init__(self, models):
        self.models = models

    def fit(self, bags, y, **options):
        """Fit each model to bags and their labels, and weigh the fits.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        y : array, shape (n,)
            Label of each bag.
        **options
            Those of the models' `fit`, such as chains, draws and seed.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Models that cannot be stacked, and all that the models raise.
        """
        bags = as_bags(bags)
        self._check_parameters()
        for model in self.models:
            model._check_parameters()
        self.models[0].check_labels(bags, y)
        models = [clone(model).fit(bags, y, **options) for model in self.models]
        return self._weigh(models)

    def fit_features(self, features, y, **options):
        """Fit each model to its embedded bags, a list from their `training_features`.

        Returns
        -------
        self
        """
        self._check_parameters()
        models = [
            clone(model).fit_features(own, y, **options)
            for model, own in zip(self.models, features, strict=True)
        ]
        return self._weigh(models)

    def predictive(self, bags):
        """Predictive distribution of the labels of new bags: the weighted mixture of the models'.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        Predictive or ClassPredictive
        """
        check_is_fitted(self, "models_")
        bags = as_bags(bags)
        used = np.flatnonzero(self.weights_)
        predictives = [self.models_[k].predictive(bags) for k in used]
        return mix(predictives, self.weights_[used])

    def save(self, path, *, notes=None):
        """Write all fits and their weights to one NetCDF file.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete.
        notes : dict, optional
            What you want kept beside it, as JSON can hold; `load` gives it back as `notes_`.
        """
        check_is_fitted(self, "models_")
        config = {
            "bdr_stan": __version__,
            "estimator": type(self).__name__,
            "members": [model._config() for model in self.models_],
            "comparison": self.comparison_.to_dict("list"),
            "names": list(self.comparison_.index),
            "notes": notes or {},
        }
        groups = {
            f"model_{k}_{name}": group
            for k, model in enumerate(self.models_)
            for name, group in groups_of(model.idata).items()
        }
        files.write(path, groups, config)

    @classmethod
    def _from_file(cls, groups, config):
        import pandas as pd

        models = []
        for k, member in enumerate(config["members"]):
            prefix = f"model_{k}_"
            own = {n.removeprefix(prefix): g for n, g in groups.items() if n.startswith(prefix)}
            models.append(restored(own, member, config["names"][k]))
        model = cls([clone(member) for member in models])
        comparison = pd.DataFrame(config["comparison"], index=config["names"])
        return model._adopt(models, comparison, config["notes"])

    def _check_parameters(self):
        base = self._member
        if not isinstance(self.models, (list, tuple)) or len(self.models) < 2:
            raise ValueError(f"{type(self).__name__} needs a list of at least two models")
        for model in self.models:
            if not isinstance(model, base):
                raise TypeError(
                    f"{type(self).__name__} cannot stack {type(model).__name__}: it needs "
                    f"Bayesian {base.__name__.removeprefix('Distribution').lower()}s of this package"
                )
            if model.method == "optimize":
                raise ValueError(
                    f"{type(model).__name__}(method='optimize') has no posterior draws to weigh it "
                    "by: use method='nuts' or 'laplace'"
                )

    def _weigh(self, models):
        missing = [m for m in models if "log_likelihood" not in groups_of(m.idata)]
        if missing:
            raise ValueError(
                f"{type(missing[0]).__name__} kept no log_likelihood, as draws x bags are too "
                "many: ask for fewer draws"
            )
        names = [f"{k} {type(model).__name__}" for k, model in enumerate(models)]
        comparison = stack({n: m.idata for n, m in zip(names, models, strict=True)})
        return self._adopt(models, comparison)

    def _adopt(self, models, comparison, notes=None):
        self.models_, self.comparison_ = models, comparison
        self.weights_ = comparison["weight"].to_numpy()
        self.n_features_in_ = models[0].n_features_in_
        self.notes_ = notes or {}
        return self


class Stacked(RegressorMixin, _Stack):
    """Average of regressors, weighted by how well each predicts labels it has not seen.

    The models may differ in kind, landmarks, bandwidth or prior. The weights maximise the
    leave-one-out predictive density of the training labels under the mixture (stacking), which
    Pareto-smoothed importance sampling estimates from each fit alone: no model is fitted twice.

    Parameters
    ----------
    models : list of BLR, Shrinkage or BDR
        Not fitted; with a method that draws from the posterior.

    Attributes
    ----------
    models_ : list of fitted estimators
        Each with its `idata`.
    weights_ : array, shape (len(models),), of sum 1
    comparison_ : pandas.DataFrame
        One row a model: elpd (expected log predictive density), its se, p (effective number of
        parameters), max_pareto_k (above 0.7 do not trust the elpd) and weight.

    Notes
    -----
    Source: Yao, Vehtari, Simpson, Gelman (2018), "Using stacking to average Bayesian predictive
    distributions".
    """

    _member = DistributionRegressor
    predict = DistributionRegressor.predict


class StackedClassifier(ClassifierMixin, _Stack):
    """Average of classifiers of two classes, as `Stacked` is of regressors.

    Parameters
    ----------
    models : list of BLRClassifier, ShrinkageClassifier or BDRClassifier

    Attributes
    ----------
    models_, weights_, comparison_
        As those of `Stacked`.
    classes_ : array, shape (2,)
    """

    _member = DistributionClassifier
    predict = DistributionClassifier.predict
    predict_proba = DistributionClassifier.predict_proba

    def _adopt(self, models, comparison, notes=None):
        self.classes_ = models[0].classes_
        return super()._adopt(models, comparison, notes)
