"""What all distribution regressors share: embedding, running Stan, predicting, files."""

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bdr_stan import __version__, sampling
from bdr_stan import inference_data as ida
from bdr_stan.bags import as_bags, check_labels
from bdr_stan.embedding import Embedding, embed
from bdr_stan.evidence import maximise_evidence, whitened_coordinates
from bdr_stan.kernels import check_bandwidth, median_bandwidth
from bdr_stan.landmarks import choose_landmarks
from bdr_stan.likelihoods import normal_likelihood
from bdr_stan.models import priors as prior_numbers
from bdr_stan.models.groups import named_groups, pointwise_groups
from bdr_stan.moments import shrinkage_factors
from bdr_stan.predictive import Predictive

# Prior sd of log(rho) where rho is held at its marginal mode: but for rho's own prior, its joint
# density with the weights grows without bound as both go to zero, so a joint mode says nothing.
_HELD = 1e-3


@dataclass(frozen=True)
class TrainingFeatures:
    """Landmarks, bandwidth and the training bags' embedding: all that a fit needs of the bags."""

    landmarks: np.ndarray
    bandwidth: float
    embedding: Embedding
    ids: np.ndarray
    names: list[str] | None = None  # of the points' columns


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


class DistributionRegressor(RegressorMixin, BaseEstimator):
    """Base of the estimators; see `BDR`, `Shrinkage` and `BLR`."""

    _methods = sampling.METHODS
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
        y = check_labels(bags, y)
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
        bandwidth = float(bandwidth) * self.bandwidth_scale
        given = not isinstance(self.landmarks, str)
        landmarks = choose_landmarks(
            bags, None if given else self.n_landmarks, method=self.landmarks, seed=seed
        )
        embedding = embed(
            bags,
            landmarks,
            bandwidth,
            covariance=self._covariance(),
            tau=getattr(self, "tau", 1.0),
        )
        ids = np.arange(len(bags)) if bags.ids is None else np.asarray(bags.ids)
        return TrainingFeatures(landmarks, bandwidth, embedding, ids, bags.features)

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
        vars(self).pop("_groups", None)  # an attempt that fails leaves no fit behind
        y = np.asarray(y, float)
        mean, sizes = features.embedding.mean, features.embedding.sizes
        self.landmarks_, self.bandwidth_ = features.landmarks, features.bandwidth
        self.n_features_in_ = features.landmarks.shape[1]
        self._set_feature_names(features.names)
        self.coordinates_ = at = self._coordinates(features)
        z = (mean - at.m0) @ at.basis
        self.priors_ = prior_numbers.with_user_values(
            self._default_priors(features, z, y), self.prior
        )
        rows = self._compressed(z, y, sizes)
        scales, mode = self._scales_and_mode(rows)
        if self.method == "exact":
            draws_, stats, attrs = self._exact_draws(mode, scales, draws, seed)
        else:
            priors = self.priors_
            if self.method != "nuts":
                priors = {**priors, "rho_median": scales["rho"], "rho_log_sd": _HELD}
            whitened = whitened_coordinates(mode, at.prior_factor, scales["rho"])
            draws_, stats, attrs = sampling.run(
                self.stan_file or self._program,
                self._stan_data(rows, whitened, priors),
                self._inits(scales, chains, seed),
                method=self.method,
                chains=chains,
                warmup=warmup,
                draws=draws,
                seed=seed,
                progress=progress,
                options=cmdstan_options,
                reader=self._read_fit,
            )
        own = {name: draws_.pop(name) for name in ("log_lik", "y_rep") if name in draws_}
        draws_["beta"] = draws_["w"] @ at.basis.T
        self._idata = None
        self._groups = named_groups(
            draws_,
            stats,
            attrs,
            {**self._constants(mode), "bag_size": (sizes, ["bag"])},
            features.ids,
            y,
        )
        training = DistributionRegressor._mixture(self, z, sizes)
        shape = draws_["sigma"].shape
        self._groups |= pointwise_groups(training, y, features.ids, shape, **own, seed=seed)
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
        Predictive
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `log_prob(y)`, `sample(size)`.

        Notes
        -----
        Closed form given each draw: normal with the mean and the variance of the model's header
        in ``stan/``, averaged over the draws. With `stan_file` the program's intercept, w, sigma
        and eta are used the same way, that is with normal noise of standard deviation sigma.
        """
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
        embedding = embed(bags, self.landmarks_, self.bandwidth_)
        return self.predictive_features(embedding)

    def predictive_features(self, embedding):
        """Posterior predictive distribution of embedded bags, from `embed`."""
        at = self.coordinates_
        return self._mixture((embedding.mean - at.m0) @ at.basis, embedding.sizes)

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

    def _mixture(self, z, sizes):
        draws = self._posterior_draws()

        def components(i):
            mean, sd = np.empty((2, len(draws["sigma"]), len(i)))
            for size in np.unique(sizes[i]):
                of = np.flatnonzero(sizes[i] == size)
                mean[:, of], sd[:, of] = self._normal(z[i[of]], size, **draws)
            return mean, sd

        return Predictive(components, len(z), len(draws["sigma"]))

    @staticmethod
    def _normal(z, size, *, intercept, w, sigma, eta, lam):
        """Mean (S, m) and sd (S, 1) of the labels of m bags of equal size, draw by draw."""
        s = shrinkage_factors(size * eta, lam, 1.0)  # eta / (eta + lam / size), one row a draw
        variance = eta * np.sum(w**2 * (1 - s), axis=1) + sigma**2
        return intercept[:, None] + (w * s) @ z.T, np.sqrt(variance)[:, None]

    def _posterior_draws(self):
        posterior = self._groups["posterior"]

        def flat(name):
            values = posterior[name].values
            return values.reshape(-1, *values.shape[2:])

        eta = flat("eta") if "eta" in posterior else np.ones(len(flat("sigma")))
        return {
            "intercept": flat("intercept"),
            "w": flat("w"),
            "sigma": flat("sigma"),
            "eta": eta,
            "lam": self.coordinates_.lam,
        }

    # ------------------------------------------------------------ inspection and files

    @property
    def idata(self):
        """The fit as an ArviZ object: InferenceData (ArviZ 0.x) or DataTree (1.x).

        Groups: posterior, sample_stats, observed_data, constant_data and, while draws x bags
        stay below 20 million, log_likelihood and posterior_predictive.
        """
        check_is_fitted(self, "_groups")
        if getattr(self, "_idata", None) is None:
            self._idata = ida.build(self._groups)
        return self._idata

    def summary(self, var_names=None):
        """Posterior mean, sd, central 95% interval and, after NUTS, ESS and R-hat: a DataFrame."""
        return ida.summary(self.idata, var_names)

    def diagnostics(self):
        """How well NUTS explored the posterior: divergences, R-hat, ESS, E-BFMI; a dict."""
        return ida.diagnostics(self.idata)

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
        params = self.get_params(deep=False)
        if not isinstance(self.landmarks, str):
            params["landmarks"] = "given"  # the array itself is in constant_data
        if self.stan_file is not None:
            params["stan_file"] = str(self.stan_file)
        config = {
            "bdr_stan": __version__,
            "estimator": type(self).__name__,
            "params": params,
            "bandwidth": self.bandwidth_,
            "priors": self.priors_,
            "feature_names": getattr(self, "feature_names_in_", None),
            "notes": notes or {},
        }
        ida.save(self.idata, path, config)

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

    def _restore(self, idata, config):
        self._groups = ida.groups_of(idata)
        self._idata = idata
        constant = self._groups["constant_data"]
        self.landmarks_ = constant["landmarks"].values
        self.n_features_in_ = self.landmarks_.shape[1]
        self.bandwidth_ = config["bandwidth"]
        self.priors_ = config["priors"]
        self._set_feature_names(config.get("feature_names"))
        self.notes_ = config.get("notes", {})
        self.coordinates_ = Coordinates(
            *(constant[name].values for name in ("m0", "basis", "lambda", "prior_factor"))
        )
        if not isinstance(self.landmarks, str) or self.landmarks == "given":
            self.landmarks = self.landmarks_
        return self

    def _set_feature_names(self, names):
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def __getstate__(self):
        # The ArviZ object is rebuilt from the groups: it does not pickle in every version.
        state = dict(super().__getstate__())
        if state.pop("_idata", None) is not None:
            state["_groups"] = ida.groups_of(self._idata)
        return state

    # ------------------------------------------------------------ parts of a fit

    def _check_parameters(self):
        if self.method not in self._methods:
            raise ValueError(
                f"{type(self).__name__} has no method {self.method!r}; "
                f"there are: {', '.join(self._methods)}"
            )
        if self.kernel != "rbf":
            raise ValueError(f"kernel must be 'rbf', found {self.kernel!r}")
        if self.bandwidth != "median":
            if isinstance(self.bandwidth, str):
                raise ValueError(
                    f"bandwidth must be 'median' or a positive number, found {self.bandwidth!r}"
                )
            check_bandwidth(self.bandwidth)
        check_bandwidth(self.bandwidth_scale, "bandwidth_scale")
        if self.stan_file is not None and self.method == "exact":
            raise ValueError("method='exact' runs no Stan program: leave stan_file out")

    def _scales_and_mode(self, rows):
        """Scales to start from or to hold, and the mode and curvature of the weights there."""
        priors = self.priors_
        start = {"sigma": priors["sigma_scale"] / 2, "rho": priors["rho_median"]}
        if "eta_median" in priors:
            start["eta"] = priors["eta_median"]
        return maximise_evidence(
            partial(normal_likelihood, rows, self.coordinates_.lam),
            self.coordinates_.prior_factor,
            (priors["intercept_location"], priors["intercept_scale"]),
            start,
            log_prior=None
            if self.method == "exact"
            else prior_numbers.log_prior_of_scales(priors),
        )

    def _inits(self, scales, chains, seed):
        """Starting points spread wider than the posterior; the mode itself for other methods."""
        d = len(self.coordinates_.lam)
        if self.method != "nuts":
            return [{"t": np.zeros(d + 1), **scales}]
        rng = np.random.default_rng(seed)
        return [
            {
                "t": rng.uniform(-2, 2, d + 1),
                **{name: value * rng.uniform(0.7, 1.4) for name, value in scales.items()},
            }
            for _ in range(chains)
        ]

    def _read_fit(self, fit):
        """Draws, sampler statistics and attributes of a CmdStanPy fit."""
        draws = ida.stan_draws(fit)
        missing = [name for name in ("w", "intercept", "sigma") if name not in draws]
        if missing:
            raise ValueError(
                f"{self.stan_file} has no variable {missing[0]!r}: predictions need w, intercept "
                "and sigma (and eta for BDR), so keep these names"
            )
        for name in self._whitened:  # w and intercept say the same
            draws.pop(name, None)
        return draws, ida.sample_stats(fit), ida.fit_attrs(fit)

    def _exact_draws(self, mode, scales, draws, seed):
        """Independent draws from the closed-form posterior at the scales of highest evidence."""
        rng = np.random.default_rng(seed)
        d = len(mode.theta) - 1
        theta = mode.theta + rng.standard_normal((1, draws, d + 1)) @ mode.whitening.T
        held = {name: np.full((1, draws), scales[name]) for name in ("sigma", "rho")}
        drawn = {"w": theta[..., :d], "intercept": theta[..., d], **held}
        return drawn, {}, {"inference_method": "exact"}

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

    def _warn(self):
        if self._groups["posterior"].attrs["inference_method"] == "nuts":
            for trouble in ida.sampling_warnings(self.diagnostics()):
                warnings.warn(trouble, stacklevel=4)


def load(path):
    """Read a fit of any estimator, written by its `save`.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    BLR, Shrinkage or BDR

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file holds no fit of this package.
    """
    from bdr_stan import models

    idata, config = ida.load(path)
    try:
        model = getattr(models, config["estimator"])(**config["params"])
    except (AttributeError, KeyError, TypeError):
        raise ValueError(
            f"{path} holds a fit of {config.get('estimator')} by bdr_stan "
            f"{config.get('bdr_stan')}, which version {__version__} cannot read: use that version"
        ) from None
    return model._restore(idata, config)


def _check_counts(**counts):
    for name, value in counts.items():
        least = 0 if name == "warmup" else 1
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, found {value!r}")
