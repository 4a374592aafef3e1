"""Rates at points, learned from totals of bags (Law et al. 2018, aggregate outputs)."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import RegressorMixin

from bdr_stan.aggregate.labels import check_aggregate_labels
from bdr_stan.aggregate.densities import LINKS, aggregate_likelihood
from bdr_stan.aggregate.rows import (
    AggregateRows,
    Nystrom,
    bag_means,
    nystrom,
    point_rows,
    square_factors,
    weighted_sums,
)
from bdr_stan.bags import Bags, as_bags
from bdr_stan.embedding.compression import compress
from bdr_stan.aggregate.kernel_learning import learn_kernel
from bdr_stan.kernels import Kernel, kernel_config, kernel_named, kernel_of_config
from bdr_stan.embedding.landmarks import choose_landmarks
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior import priors as prior_numbers
from bdr_stan.estimators.blr import blr_data
from bdr_stan.estimators.stan_estimator import StanEstimator, check_counts
from bdr_stan.predictive.points import PointPredictive
from bdr_stan.predictive.mixtures import AggregatePredictive, Predictive
from bdr_stan.posterior.sampling import METHODS
from bdr_stan.aggregate.thinning import thinned_bags, thinned_point_rows, thinning_error
from bdr_stan.aggregate.variational import variational_posterior

# Parameters of the kernel are learned from about so many points, at least so many a bag.
_LEARNING_POINTS = 10_000
_LEARNING_POINTS_A_BAG = 10
# Bags are cut to about so many slices, for threads to share.
_SLICES = 16
_THINNING_DRAWS = 20
_CODES = {"poisson": 1, "negative binomial": 2, "exponential": 3}


@dataclass(frozen=True)
class AggregateFeatures:
    """What a fit needs of the bags: features of a kernel, and the bags' rows in them.

    rows : AggregateRows
        Factors for the square link, points for "exp" and "logit", weighted sums for "identity".
    trials : array, shape (n,), or None
    """

    features: Nystrom
    rows: AggregateRows
    trials: np.ndarray | None
    ids: np.ndarray
    names: list[str] | None


def aggregate_data(rows, y, whitened, priors, *, has_effects=False, use_likelihood=True):
    """Data that the programs ``stan/aggregate_*.stan`` share.

    Parameters
    ----------
    rows : AggregateRows
        Factors, from `square_factors`, for ``aggregate_square.stan``; else points.
    y : array, shape (n,)
    whitened : dict
        From `whitened_coordinates`.
    priors : dict
        Numbers of the priors by their names in the program.
    has_effects : bool, default False
        Whether each bag has an effect of its own.
    use_likelihood : bool, default True
        False samples the prior.

    Returns
    -------
    dict
    """
    data = {
        "A": len(y),
        "D": rows.rows.shape[1] - 1,
        "y": y,
        "has_effects": int(has_effects),
        **whitened,
        "dispersion_scale": 1.0,  # where there is none
        "tau_scale": 1.0,
        **priors,
        "use_likelihood": int(use_likelihood),
    }
    if rows.packs:
        packed = rows.packed()
        empty = np.empty((0, rows.rows.shape[1]))
        return {**data, "P": packed.shape[1], "packed": packed, "T": 0, "rows": empty,
                "start": [], "length": []}  # fmt: skip
    data |= {
        "T": len(rows.rows),
        "rows": rows.rows,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
    }
    if rows.weights is None:
        return {**data, "P": 0, "packed": np.empty((0, 0))}
    return {**data, "weight": rows.weights, "grainsize": max(1, len(y) // _SLICES)}


class AggregateRegressor(RegressorMixin, StanEstimator):
    """Rates at points from totals of bags: malaria at a pixel from counts of districts.

    The function f = f0 + (a Gaussian process, by Nystrom features at landmarks) gives the rate at
    a point through the link. A bag's label y_a has the mean lambda_a = sum_j p_j rate(x_aj), p_j the
    weights of the bag's points (populations; 1 if the bags have none).

    Parameters
    ----------
    likelihood : {"poisson", "normal", "exponential", "negative binomial", "binomial"}
        "poisson": counts of mean lambda. "negative binomial": counts of mean lambda and variance
        lambda + dispersion^2 lambda^2. "exponential": positive totals of mean lambda. "binomial":
        counts out of `trials`, of probability lambda / sum_j p_j. "normal": totals of individual
        outcomes N(f_j, sigma^2), y_a ~ N(lambda_a, sigma^2 sum_j p_j^2); weights 1/N_a make them
        means.
    link : {"square", "exp", "logit", "identity"}, optional
        The rate is f^2, exp(f), logistic(f) or f. "square" (default) and "exp" for poisson,
        negative binomial and exponential; "logit" for binomial, "identity" for normal. With
        "square" and "identity" the points are compressed without loss; "exp" and "logit" cost
        Stan all points (see `thin`).
    n_landmarks : int, default 60
    kernel : str or Kernel, default "rbf"
        A name of `bdr_stan.kernels.KERNELS`, or a kernel with columns, sums and products:
        ``RBF("ard", columns=[...]) + Matern32(columns=["lon", "lat"])``.
    learn_kernel : bool, default True
        Bandwidths and the variances of summands are those of highest evidence (by Laplace's
        method), with at most about 10,000 weighted points standing for all; False takes them as
        given or by the median rule.
    landmarks : {"kmeans", "random", "one per bag"} or array, shape (d, p), default "kmeans"
        k-means on columns divided by their standard deviations.
    bag_effects : bool, default False
        Whether each bag has an i.i.d. normal effect on the log rate or the log odds, with NUTS.
        Rates at points leave it out.
    thin : int, optional
        "exp" and "logit" only: at most so many weighted points a bag stand for all; the error
        that makes is in `thinning_error_`.
    method : {"nuts", "vb", "laplace", "pathfinder", "optimize"}, default "nuts"
        "optimize" is the mode (the paper's Nystrom MAP), "vb" the variational posterior VBAgg.
        All but NUTS hold rho at its marginal mode ("vb": at that of the bound).
    prior : dict, optional
        Numbers that replace the data-scaled defaults; `priors()` shows them after a fit.
    stan_file : path, optional
        Your variant of ``aggregate_square.stan``, ``aggregate_exp.stan``,
        ``aggregate_binomial.stan`` or ``blr.stan``, whichever the link is fitted by.
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept (f0), w (component), beta (landmark), rho in units of f; sigma,
        dispersion, tau and effect (bag) where the model has them.
    kernel_ : Kernel
        With the parameters that were learned.
    landmarks_ : array, shape (d, p)
    bound_ : float
        With "vb": the evidence lower bound (with the Taylor term of the square link: nearly).
    thinning_error_ : array, shape (about 20, n)
        With `thin`: relative errors of the training bags' means, a row for each of some draws.

    Notes
    -----
    The models stand at the heads of the programs in ``stan/``. A point may lie in several bags.
    With the square link -f is as good as f: the prior of the intercept decides, and NUTS starts
    at the mode above zero. Where rates come near zero f may cross it, and each region's sign is
    then open: NUTS warns of it, and "exp" has no such modes. scikit-learn's searches and folds cannot hand on `trials`. Source: Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu
    (2018), "Variational learning on aggregate outputs with Gaussian processes".
    """

    _methods = (*METHODS, "vb")
    _own_methods = ("vb",)
    _prior_texts = prior_numbers.RATES

    def __init__(
        self,
        likelihood="poisson",
        link=None,
        n_landmarks=60,
        kernel="rbf",
        *,
        learn_kernel=True,
        landmarks="kmeans",
        bag_effects=False,
        thin=None,
        method="nuts",
        prior=None,
        stan_file=None,
        random_state=None,
    ):
        self.likelihood = likelihood
        self.link = link
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.learn_kernel = learn_kernel
        self.landmarks = landmarks
        self.bag_effects = bag_effects
        self.thin = thin
        self.method = method
        self.prior = prior
        self.stan_file = stan_file
        self.random_state = random_state

    def fit(
        self,
        bags,
        y,
        *,
        trials=None,
        chains=4,
        warmup=1000,
        draws=1000,
        seed=None,
        progress=None,
        **cmdstan_options,
    ):
        """Fit to bags and their totals.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        y : array, shape (n,)
            Label of each bag.
        trials : array, shape (n,), optional
            Of the binomial likelihood: people asked in each bag.
        chains, warmup, draws : int, default 4, 1000, 1000
            Chains, and iterations of each before and after warmup. Laplace, Pathfinder and "vb"
            give one chain of `draws`; optimisation one draw.
        seed : int, optional
            Seed of landmarks, kernel and Stan; default `random_state`.
        progress : bool, optional
            As for `BDR.fit`.
        **cmdstan_options
            Arguments of the cmdstanpy method, such as ``adapt_delta=0.95``, and
            ``threads_per_chain=2`` for the links "exp" and "logit".

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
        self._check_parameters()
        y = check_aggregate_labels(bags, y, self.likelihood, trials=trials)
        check_counts(chains=chains, warmup=warmup, draws=draws)
        seed = self.random_state if seed is None else seed
        features = self.training_features(bags, y, trials=trials, seed=seed)
        self.fit_features(
            features,
            y,
            chains=chains,
            warmup=warmup,
            draws=draws,
            seed=seed,
            progress=progress,
            **cmdstan_options,
        )
        if self.thin is not None:
            theta = self._theta()
            some = theta[:: max(1, len(theta) // _THINNING_DRAWS)]
            self.thinning_error_ = thinning_error(
                bags, self.features_, features.rows, some, self._link
            )
        return self

    def training_features(self, bags, y, *, trials=None, seed=None):
        """Landmarks, the kernel and its parameters, and the bags' rows: all that a fit needs.

        Parameters
        ----------
        bags : Bags, or list of arrays
        y : array, shape (n,)
        trials : array, shape (n,), optional
        seed : int, optional

        Returns
        -------
        AggregateFeatures
            For `fit_features`.
        """
        bags = as_bags(bags)
        if self.likelihood == "binomial" and trials is None:
            raise ValueError("the binomial likelihood needs trials, the people asked in each bag")
        trials = None if trials is None else np.asarray(trials, float)
        kernel = self.kernel
        if isinstance(kernel, str):
            kernel = kernel_named(kernel, "median")
        kernel = kernel.on(bags.features, bags.n_features).at_median(bags, seed=seed)
        spread = bags.sample_points(2000, np.random.default_rng(seed)).std(axis=0)
        given = not isinstance(self.landmarks, str)
        landmarks = choose_landmarks(
            bags,
            None if given else self.n_landmarks,
            method=self.landmarks,
            scale=np.where(spread > 0, spread, 1.0),
            seed=seed,
        )
        if self.learn_kernel and len(kernel.log_parameters):
            kernel = self._learned_kernel(kernel, landmarks, bags, y, trials)
        features = nystrom(kernel, landmarks)
        rows = self._rows(bags, features)
        ids = np.arange(len(bags)) if bags.ids is None else np.asarray(bags.ids)
        return AggregateFeatures(features, rows, trials, ids, bags.features)

    # ------------------------------------------------------------ prediction

    def predict(self, bags, *, trials=None, return_std=False):
        """Posterior predictive mean of each bag's label.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        trials : array, shape (n,)
            Of the binomial likelihood, which needs it.
        return_std : bool, default False
            Also return the predictive standard deviation.

        Returns
        -------
        mean : array, shape (n,), units of y
        sd : array, shape (n,), if `return_std`
        """
        predictive = self.predictive(bags, trials=trials)
        return (predictive.mean, predictive.sd) if return_std else predictive.mean

    def predictive(self, bags, *, trials=None):
        """Posterior predictive distribution of the labels of new bags.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        trials : array, shape (n,)
            Of the binomial likelihood, which needs it.

        Returns
        -------
        AggregatePredictive, or Predictive for the normal likelihood
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `log_prob(y)`, `sample(size)`.
            Holds draws x bags numbers in memory.
        """
        bags = self._like_training(bags)
        if self.likelihood == "binomial":
            if trials is None:
                raise ValueError("the binomial likelihood needs trials to predict a bag's label")
            trials = np.asarray(trials, float)
            if trials.shape not in ((), (len(bags),)):
                raise ValueError(f"trials has shape {trials.shape}, but there are {len(bags)} bags")
            trials = np.broadcast_to(trials, len(bags))
        link = self._link
        effects = None
        if self.bag_effects:  # of bags that were not in the fit
            noise = np.random.default_rng(0).standard_normal((len(self._theta()), len(bags)))
            effects = self._flat("tau")[:, None] * noise
        if link == "exp":  # points are many, and their rows need not be kept
            means = bag_means(bags, self.features_, self._theta(), link)
            return self._mixture(means if effects is None else means * np.exp(effects), None, trials)
        rows = point_rows(bags, self.features_) if link == "logit" else self._rows(bags, self.features_)
        return self._mixture(self._means(rows, effects), rows.noise_factor, trials)

    def predict_points(self, points, *, n_draws=1000):
        """Posterior of the rate at points, of training bags or new.

        Parameters
        ----------
        points : array, shape (n, p), Bags, or DataFrame with the columns of the fit
            A memory map is read chunk by chunk.
        n_draws : int, default 1000
            Draws of the posterior that are used, evenly spaced.

        Returns
        -------
        PointPredictive
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `exceedance(threshold)`, each of
            shape (n,), in units of y per weight; computed in chunks when asked for.
        """
        check_counts(n_draws=n_draws)
        known = getattr(self, "feature_names_in_", None)
        if hasattr(points, "columns") and known is not None:
            missing = [name for name in known if name not in points.columns]
            if missing:
                raise ValueError(
                    f"the table has no column {missing[0]!r}, which the model was fitted to; it has "
                    f"{', '.join(map(str, points.columns))}"
                )
            points = points[list(known)]
        if not isinstance(points, Bags):
            points = np.asanyarray(points)
            points = Bags(points, [0, len(points)])
        bags = self._like_training(points)
        theta = self._theta()
        theta = theta[np.linspace(0, len(theta) - 1, min(n_draws, len(theta))).round().astype(int)]
        return PointPredictive(bags.read_checked, len(bags.points), self.features_, theta, self._link)

    def _theta(self):
        return np.column_stack([self._flat("w"), self._flat("intercept")])

    def _means(self, rows, effects):
        """Means of the bags' labels (binomial: probabilities) under each draw, shape (S, n)."""
        if self._link == "logit":
            return rows.means(self._theta(), "logit", effects) / rows.total
        means = rows.means(self._theta(), self._link)
        return means if effects is None else means * np.exp(effects)

    def _mixture(self, means, noise_factor, trials):
        n_draws, n = means.shape
        if self.likelihood == "normal":
            sigma = self._flat("sigma")[:, None]
            return Predictive(lambda i: (means[:, i], sigma * noise_factor[i]), n, n_draws)
        return AggregatePredictive(
            lambda i: means[:, i],
            n,
            n_draws,
            self.likelihood,
            dispersion=self._flat("dispersion") if "dispersion" in self._scales else None,
            trials=trials,
        )

    def _training(self, features):
        effects = self._flat("effect") if self.bag_effects else None
        means = self._means(features.rows, effects)
        return self._mixture(means, features.rows.noise_factor, features.trials)

    # ------------------------------------------------------------ parts of a fit

    @property
    def _link(self):
        return LINKS[self.likelihood][0] if self.link is None else self.link

    @property
    def _program(self):
        return {"identity": "blr", "logit": "aggregate_binomial"}.get(
            self._link, f"aggregate_{self._link}"
        )

    @property
    def _scales(self):
        if self.likelihood == "normal":
            return ("sigma", "rho")
        if self.likelihood == "poisson" and self.bag_effects:
            return ("rho", "tau")
        return ("rho", "dispersion") if self.likelihood == "negative binomial" else ("rho",)

    def _check_parameters(self):
        if self.likelihood not in LINKS:
            raise ValueError(
                f"likelihood must be one of {', '.join(map(repr, LINKS))}, found {self.likelihood!r}"
            )
        links = LINKS[self.likelihood]
        if self._link not in links:
            raise ValueError(
                f"the {self.likelihood} likelihood takes the link {' or '.join(map(repr, links))}, "
                f"found {self.link!r}"
            )
        if isinstance(self.kernel, str):
            kernel_named(self.kernel, "median")
        elif not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel must be a name or a Kernel, found {self.kernel!r}")
        super()._check_parameters()
        if self.bag_effects and self.likelihood == "normal":
            raise ValueError("bag_effects go with counts and exponential totals, not with normal ones")
        if self.bag_effects and self.method != "nuts":
            raise ValueError(
                f"method={self.method!r} knows no bag_effects, whose joint mode is at no scatter: "
                "use method='nuts', or the negative binomial likelihood"
            )
        if self.method == "vb" and self.likelihood == "binomial":
            raise ValueError("method='vb' has no bound for the binomial likelihood: use another method")
        if self.thin is not None:
            if self._link not in ("exp", "logit"):
                raise ValueError(
                    f"link {self._link!r} needs no thinning: it is compressed without loss"
                )
            if not isinstance(self.thin, (int, np.integer)) or self.thin < 1:
                raise ValueError(f"thin must be an integer >= 1, found {self.thin!r}")

    def _rows(self, bags, features):
        if self._link == "square":
            return square_factors(bags, features)
        if self._link == "identity":
            return weighted_sums(bags, features)
        if self.thin is not None:
            return thinned_point_rows(bags, features, self.thin)
        return point_rows(bags, features)

    def _learned_kernel(self, kernel, landmarks, bags, y, trials):
        """The kernel with the parameters of highest evidence, on fewer points where they are many."""
        rows_of = weighted_sums if self._link == "identity" else point_rows
        if self._link != "identity" and len(bags.points) > _LEARNING_POINTS:
            bags = thinned_bags(bags, max(_LEARNING_POINTS // len(bags), _LEARNING_POINTS_A_BAG))

        def rows_at(kernel):
            return rows_of(bags, nystrom(kernel, landmarks))

        priors = self._default_priors(rows_at(kernel), y, trials)
        priors = prior_numbers.with_user_values(priors, self.prior)
        return learn_kernel(
            kernel,
            rows_at,
            y,
            self.likelihood,
            self._link,
            trials=trials,
            intercept_prior=(priors["intercept_location"], priors["intercept_scale"]),
            scales=prior_numbers.middle_of_scales(priors, [n for n in self._scales if n != "tau"]),
            log_prior=prior_numbers.log_prior_of_scales(priors),
        )

    def _default_priors(self, rows, y, trials):
        if self.likelihood == "normal":
            return prior_numbers.total_priors(rows, y)
        priors = prior_numbers.rate_priors(rows, y, self._link, trials)
        if self.likelihood == "negative binomial":
            priors["dispersion_scale"] = 1.0
        if self.bag_effects:
            priors["tau_scale"] = 1.0
        return priors

    def _model_rows(self, rows, y, trials):
        """Rows and labels as the likelihood takes them; normal labels compress with the rows."""
        if self.likelihood != "normal":
            return rows, y, trials
        # In units of a bag's own noise all labels have the same.
        z = rows.rows / rows.noise_factor[:, None]
        return compress(z[:, :-1], y / rows.noise_factor, np.ones(len(y)), ones=z[:, -1])

    def _likelihood(self, rows, **scales):
        if self.likelihood == "normal":
            return normal_likelihood(rows, np.zeros(rows.rows.shape[1] - 2), **scales)
        rows, y, trials = rows
        if "tau" in scales:  # gamma effects of the same spread can be summed over
            scales["dispersion"] = scales.pop("tau")
        return aggregate_likelihood(
            rows, y, self.likelihood, self._link, trials=trials, **scales
        )

    def _adopt(self, features):
        for name in ("_groups", "bound_", "thinning_error_"):
            vars(self).pop(name, None)  # an attempt that fails leaves no fit behind
        self._idata = None
        self.features_, self.kernel_ = features.features, features.features.kernel
        self.landmarks_ = features.features.landmarks
        self.n_features_in_ = self.landmarks_.shape[1]
        self._set_feature_names(features.names)

    @property
    def _basis(self):
        return self.features_.projection

    @property
    def _prior_factor(self):
        return np.eye(len(self.landmarks_))

    def _prepare(self, features, y):
        self.priors_ = prior_numbers.with_user_values(
            self._default_priors(features.rows, y, features.trials), self.prior
        )
        rows = self._model_rows(features.rows, y, features.trials)
        return rows, *self._scales_and_mode(rows)

    def _stan_data(self, rows, whitened, priors):
        if self.likelihood == "normal":
            return blr_data(rows, whitened, priors)
        rows, y, trials = rows
        data = aggregate_data(rows, y, whitened, priors, has_effects=self.bag_effects)
        if self.likelihood == "binomial":
            return {**data, "y": y.astype(int), "trials": trials.astype(int)}
        return {**data, "likelihood": _CODES[self.likelihood]}

    def _inits(self, rows, scales, log_sds, chains, seed):
        inits = super()._inits(rows, scales, log_sds, chains, seed)
        if self.likelihood == "normal":
            return inits
        n = len(rows[1])
        for init in inits:
            init["dispersion"] = [init["dispersion"]] if "dispersion" in init else []
            init["tau"] = [init.get("tau", 0.1)] if self.bag_effects else []
            init["effect_raw"] = np.zeros(n if self.bag_effects else 0)
        return inits

    def _read_fit(self, fit):
        draws, stats, attrs = super()._read_fit(fit)
        for name in ("dispersion", "tau"):
            if name in draws:
                draws[name] = draws[name][..., 0]
        raw = draws.pop("effect_raw", None)
        if self.bag_effects and raw is not None:
            draws["effect"] = draws["tau"][..., None] * raw
        return draws, stats, attrs

    def _own_draws(self, rows, mode, scales, draws, seed):
        """Independent draws from the variational posterior, exact for normal totals."""
        held = dict(scales)
        if self.likelihood == "normal":
            mean, factor, self.bound_ = mode.theta, mode.whitening, mode.log_evidence
        else:
            rows, y, _ = rows
            rho = held.pop("rho")
            found = variational_posterior(
                rows, y, self.likelihood, self._link, priors=self.priors_, rho=rho, mode=mode, **held
            )
            mean, factor, self.bound_ = found.mean, found.factor, found.bound
            held["rho"] = found.rho
        noise = np.random.default_rng(seed).standard_normal((1, draws, len(mean)))
        theta = mean + noise @ factor.T
        drawn = {name: np.full((1, draws), value) for name, value in held.items()}
        drawn |= {"w": theta[..., :-1], "intercept": theta[..., -1]}
        return drawn, {}, {"inference_method": "vb", "bound": self.bound_}

    def _constants(self, features, mode):
        return {
            "landmarks": (self.landmarks_, ["landmark", "feature"]),
            "total_weight": (features.rows.total, ["bag"]),
        }

    # ------------------------------------------------------------ files

    def _config(self):
        config = {**super()._config(), "kernel": kernel_config(self.kernel_)}
        params = config["params"]
        if isinstance(self.kernel, Kernel):
            params["kernel"] = kernel_config(self.kernel)
        if not isinstance(self.landmarks, str):
            params["landmarks"] = "given"  # the array itself is in constant_data
        return config

    def _restore(self, groups, config):
        super()._restore(groups, config)
        if self.method == "vb":
            self.bound_ = self._groups["posterior"].attrs["bound"]
        self.landmarks_ = self._groups["constant_data"]["landmarks"].values
        self.n_features_in_ = self.landmarks_.shape[1]
        if isinstance(self.kernel, dict):
            self.kernel = kernel_of_config(self.kernel)
        if self.landmarks == "given":
            self.landmarks = self.landmarks_
        self.kernel_ = kernel_of_config(config["kernel"])
        self.features_ = nystrom(self.kernel_, self.landmarks_)
        return self
