"""Estimators whose posterior Stan samples: fitting, posterior prediction, diagnostics."""

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import log_ndtr
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from bdr_stan import inference_data as ida
from bdr_stan import sampling
from bdr_stan.bags import as_bags, check_classes, check_labels
from bdr_stan.compression import compress
from bdr_stan.evidence import maximise_evidence, whitened_coordinates
from bdr_stan.kernels import check_kernel
from bdr_stan.likelihoods import normal_likelihood
from bdr_stan.models import priors as prior_numbers
from bdr_stan.models.base import DistributionModel
from bdr_stan.models.groups import named_groups, pointwise_groups
from bdr_stan.moments import shrinkage_factors
from bdr_stan.predictive import ClassPredictive, Predictive, class_codes

# Prior sd of log(rho) where rho is held at its marginal mode: but for rho's own prior, its joint
# density with the weights grows without bound as both go to zero, so a joint mode says nothing.
_HELD = 1e-3
# Chains start up to twice this far from the most probable scales, on the log scale.
_WIDEST_START = 0.25


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


class BayesianModel(DistributionModel):
    """Base of the Bayesian estimators, regressors and classifiers."""

    _methods = sampling.METHODS
    _scales = ("sigma", "rho", "eta")  # of the program
    _whitened = ("t", "precision")  # variables of the program that only serve the sampler

    def fit(
        self,
        bags,
        y,
        *,
        chains=4,
        warmup=1000,
        draws=1000,
        seed=None,
        progress=None,
        **cmdstan_options,
    ):
        """Fit to bags and their labels.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        y : array, shape (n,)
            Label of each bag.
        chains, warmup, draws : int, default 4, 1000, 1000
            Chains, and iterations of each before and after warmup. Laplace, Pathfinder and the
            exact method give one chain of `draws`; optimisation one draw.
        seed : int, optional
            Seed of landmarks, bandwidth and Stan; default `random_state`.
        progress : bool, optional
            Show on stderr what takes time: by default compiling, which happens once; True shows
            the chains as well, False nothing.
        **cmdstan_options
            Arguments of the cmdstanpy method, such as ``adapt_delta=0.95``.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters; raised before any work starts.
        RuntimeError
            Stan's message if it fails.

        Warns
        -----
        UserWarning
            Trouble of the sampler, with the measured value and what to do.
        """
        bags = as_bags(bags)
        y = self.check_labels(bags, y)
        self._check_parameters()
        _check_counts(chains=chains, warmup=warmup, draws=draws)
        seed = self.random_state if seed is None else seed
        features = self.training_features(bags, seed=seed)
        return self.fit_features(
            features,
            y,
            chains=chains,
            warmup=warmup,
            draws=draws,
            seed=seed,
            progress=progress,
            **cmdstan_options,
        )

    def fit_features(
        self,
        features,
        y,
        *,
        chains=4,
        warmup=1000,
        draws=1000,
        seed=None,
        progress=None,
        **cmdstan_options,
    ):
        """Fit to embedded bags, from `training_features`; the other arguments are those of `fit`.

        Returns
        -------
        self
        """
        self._adopt(features)
        y = self._coded(y)
        sizes = features.embedding.sizes
        # Matrices this small gain nothing from BLAS's threads, and lose much on a busy machine.
        with threadpool_limits(1, user_api="blas"):
            z, rows, scales, mode, log_sds = self._prepare(features, y)
        if self.method == "exact":
            draws_, stats, attrs = self._exact_draws(mode, scales, draws, seed)
        else:
            priors = self.priors_
            if self.method != "nuts":
                priors = {**priors, "rho_median": scales["rho"], "rho_log_sd": _HELD}
            draws_, stats, attrs = sampling.run(
                self.stan_file or self._program,
                self._stan_data(rows, self._whitening(rows, scales, mode), priors),
                self._inits(scales, log_sds, chains, seed),
                method=self.method,
                chains=chains,
                warmup=warmup,
                draws=draws,
                seed=seed,
                progress=progress,
                options=cmdstan_options,
                unit=log_sds,
                reader=self._read_fit,
            )
        own = {
            name: self._in_order_of_bags(draws_.pop(name), sizes)
            for name in ("log_lik", "y_rep")
            if name in draws_
        }
        draws_["beta"] = draws_["w"] @ self.coordinates_.basis.T
        self._groups = named_groups(
            draws_,
            stats,
            attrs,
            {**self._constants(mode), "bag_size": (sizes, ["bag"])},
            features.ids,
            y,
        )
        shape = draws_["intercept"].shape
        self._groups |= pointwise_groups(
            self._training(z, sizes), y, features.ids, shape, **own, seed=seed
        )
        self._warn()
        return self

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
        at = self.coordinates_
        return self._mixture((embedding.mean - at.m0) @ at.basis, embedding.sizes)

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

    def _flat(self, name):
        """Draws of a parameter, all chains in one, shape (S, ...)."""
        values = self._groups["posterior"][name].values
        return values.reshape(-1, *values.shape[2:])

    # ------------------------------------------------------------ inspection

    def summary(self, var_names=None):
        """Posterior mean, sd, central 95% interval and, after NUTS, ESS and R-hat: a DataFrame."""
        return ida.summary(self.idata, var_names)

    def diagnostics(self):
        """How well the posterior was explored, as a dict.

        NUTS: divergences, R-hat, ESS, E-BFMI, tree depth; Laplace and Pathfinder: Pareto k-hat.
        """
        return ida.diagnostics(self.idata)

    def report(self):
        """What `diagnostics` measured, what is good, and where it is not, what to do; a str."""
        return ida.report(self.diagnostics())

    def priors(self, as_table=True):
        """The priors of this fit, in the units of y.

        Parameters
        ----------
        as_table : bool, default True
            A pandas DataFrame to read; False gives the numbers by name, as the parameter
            `prior` takes them.
        """
        check_is_fitted(self, "_groups")
        return prior_numbers.table(self.priors_) if as_table else dict(self.priors_)

    def _config(self):
        config = {**super()._config(), "priors": self.priors_}
        if self.stan_file is not None:
            config["params"]["stan_file"] = str(self.stan_file)
        return config

    def _restore(self, groups, config):
        super()._restore(groups, config)
        self.priors_ = config["priors"]
        constant = self._groups["constant_data"]
        self.coordinates_ = Coordinates(
            *(constant[name].values for name in ("m0", "basis", "lambda", "prior_factor"))
        )
        return self

    # ------------------------------------------------------------ parts of a fit

    def _check_parameters(self):
        if self.method not in self._methods:
            raise ValueError(
                f"{type(self).__name__} has no method {self.method!r}; "
                f"there are: {', '.join(self._methods)}"
            )
        check_kernel(self.kernel)
        super()._check_parameters()
        if self.stan_file is not None and self.method == "exact":
            raise ValueError("method='exact' runs no Stan program: leave stan_file out")

    def _prepare(self, features, y):
        """Coordinates, priors and rows of a fit; where its scales are most probable."""
        self.coordinates_ = at = self._coordinates(features)
        z = (features.embedding.mean - at.m0) @ at.basis
        self.priors_ = prior_numbers.with_user_values(
            self._default_priors(features, z, y), self.prior
        )
        rows = self._compressed(z, y, features.embedding.sizes)
        return z, rows, *self._scales_and_mode(rows)

    def _scales_and_mode(self, rows):
        """Scales to start from or to hold, the weights' mode there, the scales' log sds."""
        priors = self.priors_
        start = {
            name: priors["sigma_scale"] / 2 if name == "sigma" else priors[f"{name}_median"]
            for name in self._scales
        }
        exact = self.method == "exact"
        return maximise_evidence(
            partial(self._likelihood, rows),
            self.coordinates_.prior_factor,
            (priors["intercept_location"], priors["intercept_scale"]),
            start,
            log_prior=None if exact else prior_numbers.log_prior_of_scales(priors),
        )

    def _whitening(self, rows, scales, mode):
        """Data of the program in whose coordinates the posterior is nearly standard normal."""
        return whitened_coordinates(mode, self.coordinates_.prior_factor, scales["rho"])

    def _inits(self, scales, log_sds, chains, seed):
        """Starting points spread wider than the posterior; the mode where that is looked for.

        Pathfinder learns the curvature on its way to the mode, so it must not start there.
        """
        d = len(self.coordinates_.lam)
        if self.method in ("optimize", "laplace"):
            return [{"t": np.zeros(d + 1), **scales}]
        rng = np.random.default_rng(seed)
        return [
            {
                "t": rng.uniform(-2, 2, d + 1),
                **{
                    name: scale * np.exp(rng.uniform(-2, 2) * min(log_sds[name], _WIDEST_START))
                    for name, scale in scales.items()
                },
            }
            for _ in range(chains)
        ]

    def _read_fit(self, fit):
        """Draws, sampler statistics and attributes of a CmdStanPy fit."""
        draws = ida.stan_draws(fit)
        needed = ("w", "intercept", *(name for name in self._scales if name != "rho"))
        missing = [name for name in needed if name not in draws]
        if missing:
            raise ValueError(
                f"{self.stan_file} has no variable {missing[0]!r}: predictions need "
                f"{', '.join(needed)}, so keep these names"
            )
        for name in self._whitened:  # w and intercept say the same
            draws.pop(name, None)
        return draws, ida.sample_stats(fit), ida.fit_attrs(fit)

    def _constants(self, mode):
        """What prediction needs besides the draws: name -> (values, dimensions)."""
        at = self.coordinates_
        return {
            "landmarks": (self.landmarks_, ["landmark", "feature"]),
            "m0": (at.m0, ["landmark"]),
            "basis": (at.basis, ["landmark", "component"]),
            "lambda": (at.lam, ["component"]),
            "prior_factor": (at.prior_factor, ["component_row", "component"]),
        }

    def _training(self, z, sizes):
        """Predictive distribution of the coded training labels, draw by draw."""
        return self._mixture(z, sizes)

    def _in_order_of_bags(self, values, sizes):
        """What a user's program wrote for each of its rows, in the order of the bags."""
        return values

    def _warn(self):
        for trouble in ida.sampling_warnings(self.diagnostics()):
            warnings.warn(trouble, stacklevel=4)


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

    def _coded(self, y):
        return np.asarray(y, float)

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

    def _training(self, z, sizes):
        return self._mixture(z, sizes, classes=np.arange(2))

    def _config(self):
        return {**super()._config(), "classes": self.classes_}

    def _restore(self, groups, config):
        self.classes_ = np.array(config["classes"])
        return super()._restore(groups, config)


def _check_counts(**counts):
    for name, value in counts.items():
        least = 0 if name == "warmup" else 1
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, found {value!r}")
