"""Bayesian estimators on mean embeddings: posterior prediction of labels and classes."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr
from sklearn.base import ClassifierMixin, RegressorMixin

from bdr_stan.bags import check_classes, check_labels
from bdr_stan.embedding.compression import compress
from bdr_stan.kernels import check_kernel
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior import priors as prior_numbers
from bdr_stan.estimators.base import DistributionModel
from bdr_stan.estimators.stan_estimator import StanEstimator
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.predictive.mixtures import ClassPredictive, Predictive, class_codes


@dataclass(frozen=True)
class Coordinates:
    """Basis in which a model computes, from landmark coordinates.

    m0 : array, shape (d,), embedding taken as origin
    basis : array, shape (d, d), columns V: z = (mu - m0) V, landmark weights beta = V w
    lam : array, shape (d,), within-bag variance of each coordinate
    prior_factor : array, shape (d, d), P of the prior w ~ N(0, rho^2 (P'P)^-1)
    """

    m0: np.ndarray
    basis: np.ndarray
    lam: np.ndarray
    prior_factor: np.ndarray


class BayesianModel(StanEstimator, DistributionModel):
    """Base of the Bayesian estimators on mean embeddings, regressors and classifiers."""

    # ------------------------------------------------------------ prediction

    def predictive(self, bags):
        """Posterior predictive distribution of the labels of new bags.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        Predictive or ClassPredictive
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `log_prob(y)`, `sample(size)`.

        Notes
        -----
        Closed form given each draw: the distribution in the model's header in ``stan/``,
        averaged over the draws. With `stan_file` the program's intercept, w, sigma and eta are
        used the same way, that is with normal noise of standard deviation sigma.
        """
        return self.predictive_features(self._embedding(bags))

    def predictive_features(self, embedding):
        """Posterior predictive distribution of embedded bags, from `embed`."""
        return self._mixture(self._coordinates_of(embedding), embedding.sizes)

    def _latent(self, z, sizes):
        """Function of bag indices: mean and variance of the regression function, draw by draw."""
        intercept, w, lam = self._flat("intercept"), self._flat("w"), self.coordinates_.lam
        eta = self._flat("eta") if "eta" in self._groups["posterior"] else np.ones(len(w))

        def moments(i):
            mean, variance = np.empty((2, len(w), len(i)))
            for size in np.unique(sizes[i]):
                of = np.flatnonzero(sizes[i] == size)
                s = shrinkage_factors(size * eta, lam, 1.0)  # eta / (eta + lam / size)
                mean[:, of] = intercept[:, None] + (w * s) @ z[i[of]].T
                variance[:, of] = eta[:, None] * np.sum(w**2 * (1 - s), axis=1, keepdims=True)
            return mean, variance

        return moments

    def _restore(self, groups, config):
        super()._restore(groups, config)
        constant = self._groups["constant_data"]
        self.coordinates_ = Coordinates(
            *(constant[name].values for name in ("m0", "basis", "lambda", "prior_factor"))
        )
        return self

    # ------------------------------------------------------------ parts of a fit

    def _check_parameters(self):
        check_kernel(self.kernel)
        super()._check_parameters()

    @property
    def _basis(self):
        return self.coordinates_.basis

    @property
    def _prior_factor(self):
        return self.coordinates_.prior_factor

    def _coordinates_of(self, embedding):
        return (embedding.mean - self.coordinates_.m0) @ self.coordinates_.basis

    def _prepare(self, features, y):
        """Coordinates, priors and rows of a fit; where its scales are most probable."""
        self.coordinates_ = self._coordinates(features)
        z = self._coordinates_of(features.embedding)
        self.priors_ = prior_numbers.with_user_values(
            self._default_priors(features, z, y), self.prior
        )
        rows = self._compressed(z, y, features.embedding.sizes)
        return rows, *self._scales_and_mode(rows)

    def _constants(self, features, mode):
        """What prediction needs besides the draws: name -> (values, dimensions)."""
        at = self.coordinates_
        return {
            "landmarks": (self.landmarks_, ["landmark", "feature"]),
            "m0": (at.m0, ["landmark"]),
            "basis": (at.basis, ["landmark", "component"]),
            "lambda": (at.lam, ["component"]),
            "prior_factor": (at.prior_factor, ["component_row", "component"]),
            "bag_size": (features.embedding.sizes, ["bag"]),
        }

    def _training(self, features):
        """Predictive distribution of the coded training labels, draw by draw."""
        return self._mixture(self._coordinates_of(features.embedding), features.embedding.sizes)



class DistributionRegressor(RegressorMixin, BayesianModel):
    """Base of the regressors; see `BDR`, `Shrinkage` and `BLR`."""

    def predict(self, bags, return_std=False):
        """Posterior predictive mean of each bag's label.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        return_std : bool, default False
            Also return the predictive standard deviation.

        Returns
        -------
        mean : array, shape (n,), units of y
        sd : array, shape (n,), if `return_std`
        """
        predictive = self.predictive(bags)
        return (predictive.mean, predictive.sd) if return_std else predictive.mean

    def check_labels(self, bags, y):
        """Labels as an array, once they are known to be of use; see `bags.check_labels`."""
        return check_labels(bags, y)

    def _compressed(self, z, y, sizes):
        return compress(z, y, sizes, lossless=self.compress)

    def _likelihood(self, rows, **scales):
        return normal_likelihood(rows, self.coordinates_.lam, **scales)

    def _mixture(self, z, sizes):
        latent, sigma = self._latent(z, sizes), self._flat("sigma")

        def components(i):
            mean, variance = latent(i)
            return mean, np.sqrt(variance + sigma[:, None] ** 2)

        return Predictive(components, len(z), len(sigma))


class DistributionClassifier(ClassifierMixin, BayesianModel):
    """Base of the classifiers of two classes; see `BDRClassifier` and `BLRClassifier`."""

    _prior_texts = prior_numbers.CLASSES
    _log_cdf = staticmethod(log_ndtr)  # of the link: probit unless a class has another

    def predict_proba(self, bags):
        """Posterior predictive probability of each class.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        array, shape (n, 2), columns in the order of `classes_`
        """
        p = self.predictive(bags).mean
        return np.column_stack([1 - p, p])

    def predict(self, bags):
        """More probable class of each bag.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        array, shape (n,), labels out of `classes_`
        """
        second = self.predictive(bags).mean > 0.5
        return self.classes_[second.astype(int)]

    def check_labels(self, bags, y):
        """Labels as an array, once they are known to be of use; see `bags.check_classes`."""
        return check_classes(bags, y)

    def _coded(self, y):
        self.classes_ = np.unique(y)
        return class_codes(self.classes_, y)

    def _mixture(self, z, sizes, classes=None):
        latent = self._latent(z, sizes)

        def log_probabilities(i):
            mean, variance = latent(i)
            h = mean / np.sqrt(1 + variance)  # no variance where embeddings count as exact
            return self._log_cdf(-h), self._log_cdf(h)

        classes = self.classes_ if classes is None else classes
        return ClassPredictive(log_probabilities, len(z), len(self._flat("w")), classes)

    def _training(self, features):
        z, sizes = self._coordinates_of(features.embedding), features.embedding.sizes
        return self._mixture(z, sizes, classes=np.arange(2))

    def _config(self):
        return {**super()._config(), "classes": self.classes_}

    def _restore(self, groups, config):
        self.classes_ = np.array(config["classes"])
        return super()._restore(groups, config)


