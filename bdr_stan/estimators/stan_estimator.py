"""Estimators whose posterior Stan samples: fitting and inspection."""

import warnings
from functools import partial

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from bdr_stan.results import advice, diagnostics
from bdr_stan.results.draws import fit_attrs, sample_stats, stan_draws
from bdr_stan.posterior import sampling
from bdr_stan.bags import as_bags
from bdr_stan.posterior.evidence import maximise_evidence, whitened_coordinates
from bdr_stan.posterior import priors as prior_numbers
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.results.groups import named_groups, pointwise_groups

# Prior sd of log(rho) where rho is held at its marginal mode: but for rho's own prior, its joint
# density with the weights grows without bound as both go to zero, so a joint mode says nothing.
_HELD = 1e-3
# Chains start up to twice this far from the most probable scales, on the log scale.
_WIDEST_START = 0.25


class StanEstimator(BagEstimator):
    """Base of the estimators that a Stan program fits.

    Weights w ~ N(0, rho^2 (P'P)^-1) and an intercept, given scales; a subclass says what the bags'
    features are (`training_features`), how labels depend on them (`_prepare`, `_likelihood`,
    `_stan_data`) and what is predicted (`_training`).
    """

    _methods = sampling.METHODS
    _own_methods = ()  # those of them that run no Stan program
    _scales = ("sigma", "rho", "eta")  # of the program
    _whitened = ("t", "precision")  # variables of the program that only serve the sampler
    _prior_texts = prior_numbers.REGRESSION

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
        check_counts(chains=chains, warmup=warmup, draws=draws)
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
        # Matrices this small gain nothing from BLAS's threads, and lose much on a busy machine.
        with threadpool_limits(1, user_api="blas"):
            rows, scales, mode, log_sds = self._prepare(features, y)
        if self.method in self._own_methods:
            draws_, stats, attrs = self._own_draws(rows, mode, scales, draws, seed)
        else:
            priors = self.priors_
            if self.method != "nuts":
                priors = {**priors, "rho_median": scales["rho"], "rho_log_sd": _HELD}
            draws_, stats, attrs = sampling.run(
                self.stan_file or self._program,
                self._stan_data(rows, self._whitening(rows, scales, mode), priors),
                self._inits(rows, scales, log_sds, chains, seed),
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
            name: self._in_order_of_bags(draws_.pop(name), features)
            for name in ("log_lik", "y_rep")
            if name in draws_
        }
        draws_["beta"] = draws_["w"] @ self._basis.T
        self._groups = named_groups(
            draws_, stats, attrs, self._constants(features, mode), features.ids, y
        )
        shape = draws_["intercept"].shape
        self._groups |= pointwise_groups(
            self._training(features), y, features.ids, shape, **own, seed=seed
        )
        self._warn()
        return self

    # ------------------------------------------------------------ inspection

    def _flat(self, name):
        """Draws of a parameter, all chains in one, shape (S, ...)."""
        values = self._groups["posterior"][name].values
        return values.reshape(-1, *values.shape[2:])

    # ------------------------------------------------------------ inspection

    def summary(self, var_names=None):
        """Posterior mean, sd, central 95% interval and, after NUTS, ESS and R-hat: a DataFrame."""
        return diagnostics.summary(self.idata, var_names)

    def diagnostics(self):
        """How well the posterior was explored, as a dict.

        NUTS: divergences, R-hat, ESS, E-BFMI, tree depth; Laplace and Pathfinder: Pareto k-hat.
        """
        return diagnostics.diagnostics(self.idata)

    def report(self):
        """What `diagnostics` measured, what is good, and where it is not, what to do; a str."""
        return advice.report(self.diagnostics())

    def priors(self, as_table=True):
        """The priors of this fit, in the units of y.

        Parameters
        ----------
        as_table : bool, default True
            A pandas DataFrame to read; False gives the numbers by name, as the parameter
            `prior` takes them.
        """
        check_is_fitted(self, "_groups")
        return prior_numbers.table(self.priors_, self._prior_texts) if as_table else dict(self.priors_)

    def _config(self):
        config = {**super()._config(), "priors": self.priors_}
        if self.stan_file is not None:
            config["params"]["stan_file"] = str(self.stan_file)
        return config

    def _restore(self, groups, config):
        super()._restore(groups, config)
        self.priors_ = config["priors"]
        return self

    # ------------------------------------------------------------ parts of a fit

    def _check_parameters(self):
        if self.method not in self._methods:
            raise ValueError(
                f"{type(self).__name__} has no method {self.method!r}; "
                f"there are: {', '.join(self._methods)}"
            )
        super()._check_parameters()
        if self.stan_file is not None and self.method in self._own_methods:
            raise ValueError(
                f"method={self.method!r} runs no Stan program: leave stan_file out"
            )

    def _scales_and_mode(self, rows):
        """Scales to start from or to hold, the weights' mode there, the scales' log sds."""
        priors = self.priors_
        exact = self.method == "exact"
        return maximise_evidence(
            partial(self._likelihood, rows),
            self._prior_factor,
            (priors["intercept_location"], priors["intercept_scale"]),
            prior_numbers.middle_of_scales(priors, self._scales),
            log_prior=None if exact else prior_numbers.log_prior_of_scales(priors),
        )

    def _whitening(self, rows, scales, mode):
        """Data of the program in whose coordinates the posterior is nearly standard normal."""
        return whitened_coordinates(mode, self._prior_factor, scales["rho"])

    def _inits(self, rows, scales, log_sds, chains, seed):
        """Starting points spread wider than the posterior; the mode where that is looked for.

        Pathfinder learns the curvature on its way to the mode, so it must not start there.
        """
        d = len(self._prior_factor)
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
        draws = stan_draws(fit)
        needed = ("w", "intercept", *(name for name in self._scales if name != "rho"))
        missing = [name for name in needed if name not in draws]
        if missing:
            raise ValueError(
                f"{self.stan_file} has no variable {missing[0]!r}: predictions need "
                f"{', '.join(needed)}, so keep these names"
            )
        for name in self._whitened:  # w and intercept say the same
            draws.pop(name, None)
        return draws, sample_stats(fit), fit_attrs(fit)

    def _in_order_of_bags(self, values, features):
        """What a user's program wrote for each of its rows, in the order of the bags."""
        return values

    def _coded(self, y):
        """Labels as the program takes them."""
        return np.asarray(y, float)

    def _warn(self):
        for trouble in advice.sampling_warnings(self.diagnostics()):
            warnings.warn(trouble, stacklevel=4)


def check_counts(**counts):
    for name, value in counts.items():
        least = 0 if name == "warmup" else 1
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, found {value!r}")
