"""Models of weights with a normal prior: their most probable scales, mode and Stan's coordinates.

Given its scales (rho, and sigma, eta, ...), a model has weights w ~ N(0, rho^2 (P'P)^-1), weights
gamma of Q covariates, effects of terms, if any, an intercept, and a likelihood of theta = [w;
gamma; effects; intercept]. The weights of several samples per bag are blocks with a rho each.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.embedding.terms import NO_TERMS, Terms
from bdr_stan.posterior.mode import LogLikelihood, Mode, blas_threads, find_mode
from bdr_stan.posterior.model import Draws, Model, StanInput, check_variables, without_arrays
from bdr_stan.posterior.priors import FIXED_LOG_SD, log_prior_of_scales, prior_centres
from bdr_stan.posterior.scales import maximise_evidence
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.posterior.terms import (
    effect_sds,
    fixed_terms,
    term_arrays,
    term_scales,
    without_effects,
)
from bdr_stan.posterior.whitening import whitened_coordinates
from bdr_stan.progress import status
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array

# Chains start up to twice this far from the most probable scales, on the log scale: with wide
# posteriors some chains would start outside the range of the whitened coordinates.
_WIDEST_START_LOG_SD = 0.25

# Scales of terms are almost fixed, so the density is narrow in many directions: L-BFGS, with its
# default memory of 5 steps, does not come near the mode in 2000 steps.
_MODE_OF_TERMS = {"history_size": 50, "iter": 20_000}

# Variables of programs with terms that draws do not keep: coordinates, and steps to the effects.
_OF_TERMS = ("theta", "t_effect", "by_theta", "effect_sd", "found", "share")


@dataclass(frozen=True, kw_only=True)
class LatentGaussianModel(Model):
    """A model of normal weights with its data."""

    scales: tuple[str, ...]  # their names, "rho" among them, or "rho[houses]" of samples
    prior_factor: Array  # P of the prior w ~ N(0, rho^2 (P'P)^-1), shape (d, d)
    # V of the landmark weights beta = V w, (d, d), if all features are of landmarks
    weight_basis: Array | None
    # Given the scales except rho as keywords, a function of theta for `find_mode`.
    likelihood: Callable[..., LogLikelihood]
    rho_in_likelihood: bool = False  # whether `likelihood` also needs rho
    # The average label, if labels have a location; else 0. Modes and stock programs subtract it
    # from labels and intercept, so labels far from zero lose no digits; it is then a keyword of
    # `likelihood`.
    level: float = 0.0
    # ``rescaled(whitened, scales, mode)`` changes the whitened coordinates.
    rescaled: Callable[[dict[str, Any], dict[str, float], Mode], dict[str, Any]] | None = None
    # ``fixed(scales)`` returns data that fix some scales for methods that fix rho.
    fixed: Callable[[dict[str, float]], dict[str, Any]] | None = None
    # Array of the program -> names of the scales that are its entries.
    scale_arrays: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # The same of arrays that draws keep as they are.
    kept_arrays: Mapping[str, Sequence[str]] = field(default_factory=dict)
    blocks: tuple[int, ...] = ()  # numbers of weights of each sample, if there are several
    # Initial values of the program's other parameters.
    initial: Mapping[str, Any] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)  # start of the search for scales
    near: Array | None = None  # and of the search for weights, shape (D,)
    terms: Terms = NO_TERMS  # with their scales among `scales`
    predicting: tuple[str, ...] = ()  # for predictions, with weights, intercept and scales
    sampler_only: tuple[str, ...] = ("t", "precision")  # draws do not keep these

    @property
    def intercept_prior(self) -> tuple[float, float]:
        """Mean and standard deviation of the intercept's normal prior."""
        return self.priors["intercept_location"], self.priors["intercept_scale"]

    @property
    def prior_above_level(self) -> tuple[float, float]:
        """Mean and standard deviation of the prior of the intercept minus the level."""
        location, spread = self.intercept_prior
        return location - self.level, spread

    @property
    def n_covariates(self) -> int:
        """Q, which programs of rates do not have."""
        return self.data.get("Q", 0)

    @property
    def rho_names(self) -> list[str]:
        """Names of rho, of several samples one each."""
        return [name for name in self.scales if name.split("[")[0] == "rho"]

    def rho_of(self, scales: Mapping[str, float]) -> float | Array:
        """Rho of the weights, of several samples of each, shape (d,)."""
        if not self.blocks:
            return scales["rho"]
        return np.repeat([scales[name] for name in self.rho_names], self.blocks)

    @property
    def scales_of_prior(self) -> list[str]:
        """Names of the scales that the likelihood does not use."""
        return [*([] if self.rho_in_likelihood else self.rho_names), *term_scales(self.terms)]

    @property
    def kept_in_draws(self) -> dict[str, Sequence[str]]:
        """Arrays of the program that draws keep as they are -> names of their entries."""
        return {**self.kept_arrays, **term_arrays(self.terms)}

    @property
    def all_arrays(self) -> dict[str, Sequence[str]]:
        """Arrays of the program -> names of their entries, including terms."""
        of_terms = term_arrays(self.terms) if "U" in self.data else {}
        return {**self.scale_arrays, **self.kept_arrays, **of_terms}

    def gamma_scales(self, scales: Mapping[str, float]) -> Array:
        """Prior standard deviations of covariates' weights and effects, shape (Q + U,)."""
        of_covariates = [self.priors["gamma_scale"] for _ in range(self.n_covariates)]
        return np.append(of_covariates, effect_sds(self.terms, scales))

    def whitening(self, scales: dict[str, float], mode: Mode) -> dict[str, Any]:
        """Data of the program for coordinates with a nearly standard normal posterior."""
        base, of_effects = without_effects(mode, self.terms, scales)
        whitened = whitened_coordinates(base, self.prior_factor, self.rho_of(scales), self.blocks)
        if self.rescaled:
            whitened = self.rescaled(whitened, scales, mode)
        return {**whitened, **(of_effects if "U" in self.data else {})}

    def stan_input(self, settings: SamplerSettings) -> StanInput:
        """Whitened coordinates at the mode, and chains that start near the most probable scales.

        All methods but NUTS fix rho at its marginal mode. A user's own program uses the raw labels;
        for stock programs the log evidence of the most probable scales is available.
        """
        searching = f"Looking for the most probable scales of {self.program}"
        with status(searching, settings.progress is not False, after=10):
            scales, mode, covariance = most_probable_scales(self)
            log_sds = dict(zip(scales, np.sqrt(np.diag(covariance())).tolist(), strict=True))
        data = self.data | self.whitening(scales, mode)
        if settings.method != "nuts":
            rho = np.array([scales[name] for name in self.rho_names])
            rho = rho if np.ndim(data["rho_median"]) else rho[0]  # as the program declares it
            data |= {"rho_median": rho, "rho_log_sd": FIXED_LOG_SD}
            data |= self.fixed(scales) if self.fixed else {}
            data |= fixed_terms(self.terms, scales) if self.terms.names else {}
        starts = _starts(scales, mode, log_sds, settings, sum(self.terms.n_effects))
        stock = settings.stan_file is None
        return StanInput(
            data=_less(self.level, data) if stock and self.level else data,
            inits=[{**self._with_arrays(start), **self.initial} for start in starts],
            log_sds=self._with_arrays(log_sds),
            mode_options=_MODE_OF_TERMS if self.terms.names else {},
            attrs={"log_evidence": mode.log_evidence} if stock else {},
        )

    def read(self, drawn: Draws, settings: SamplerSettings) -> Draws:
        """Draws with the weights of the landmarks, the intercept at the level of the labels."""
        drawn = without_arrays(drawn, self.scale_arrays)
        gamma = ["gamma"] if self.n_covariates else []
        of_terms = term_scales(self.terms)
        kept = [name for names in self.kept_arrays.values() for name in names]
        scales = [name for name in self.scales if name not in ("rho", *of_terms, *kept)]
        scales += [name for name in self.kept_arrays if name != "rho"]
        terms = ["term_effect", "term_sd"] if of_terms else []
        needed = ["w", *gamma, *terms, "intercept", *scales, *self.predicting]
        check_variables(drawn, needed, settings)
        own = {*self.sampler_only, *(_OF_TERMS if "U" in self.data else ())}
        drawn = {name: v for name, v in drawn.items() if name not in own and v.size}
        if settings.stan_file is None:
            drawn["intercept"] = drawn["intercept"] + self.level
        return self.with_landmark_weights(drawn)

    def with_landmark_weights(self, drawn: Draws) -> Draws:
        """The draws with beta, the weights of the landmarks, if features are landmarks."""
        if self.weight_basis is None:
            return drawn
        return {**drawn, "beta": drawn["w"] @ self.weight_basis.T}

    def _with_arrays(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values of the scales, and their arrays in the program."""
        arrays = {
            array: [values[name] for name in names]
            for array, names in self.all_arrays.items()
            if set(names) <= set(values)
        }
        return {**values, **arrays}


def most_probable_scales(
    model: LatentGaussianModel,
    *,
    with_priors: bool = True,
    start: Mapping[str, float] | None = None,
) -> tuple[dict[str, float], Mode, Callable[[], Array]]:
    """Scales of highest evidence, the mode of the weights there, and their logs' covariance.

    The covariance is computed when called. Without `with_priors` the priors of the scales are
    ignored. The search begins at `start`, by default the model's, else the centres of the priors.
    ValueError if numbers overflow, as priors and data are too far apart.
    """
    likelihood = partial(model.likelihood, level=model.level) if model.level else model.likelihood
    with _searching(model):
        scales, mode, covariance = maximise_evidence(
            likelihood,
            model.prior_factor,
            model.prior_above_level,
            prior_centres(model.priors, model.scales) | dict(start or model.start),
            gamma_scales=model.gamma_scales,
            log_prior=log_prior_of_scales(model.priors) if with_priors else None,
            of_prior=model.scales_of_prior,
            rho_of=model.rho_of,
            near=model.near,
        )
    theta = np.append(mode.theta[:-1], mode.theta[-1] + model.level)
    return scales, replace(mode, theta=theta), _searching(model)(covariance)


@contextmanager
def _searching(model):
    """Few threads of BLAS, and one sentence for numbers that overflow."""
    try:
        with limited_blas(blas_threads(len(model.prior_factor))), np.errstate(all="ignore"):
            yield
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"no most probable {', '.join(model.scales)} can be found, as numbers overflow: "
            "give prior numbers that are nearer the scale of the labels"
        ) from error


def modes_at(
    model: LatentGaussianModel, scales: Sequence[Mapping[str, float]], *, start: Array
) -> Array:
    """Modes of theta at each of several scales near the scales of `start`, shape (m, D)."""
    level = {"level": model.level} if model.level else {}
    below = np.append(start[:-1], start[-1] - model.level)
    found = []
    with limited_blas(blas_threads(len(model.prior_factor))), np.errstate(all="ignore"):
        for each in scales:
            own = {n: value for n, value in each.items() if n not in model.scales_of_prior}
            mode = find_mode(
                model.likelihood(**own, **level),
                model.prior_factor,
                model.prior_above_level,
                rho=model.rho_of(each),
                gamma_scales=model.gamma_scales(each),
                start=below,
            )
            found.append(np.append(mode.theta[:-1], mode.theta[-1] + model.level))
    return np.array(found)


def _less(level, data):
    """The data of a program with rows [z, 1, y], or y, for labels and intercept minus a level."""
    shifted: dict[str, Any] = {
        name: data[name] - level for name in ("intercept_centre", "intercept_location")
    }
    if "rows" in data:
        shifted["rows"] = data["rows"].copy()
        shifted["rows"][:, -1] -= level * data["rows"][:, -2]
    else:
        shifted["y"] = data["y"] - level
    if "cross_theta" in data:  # effects given an intercept that is less by the level
        by_level = level * data["cross_theta"][:, -1]
        shifted["effect_linear_term"] = data["effect_linear_term"] + by_level
    return {**data, **shifted}


def _starts(scales, mode, log_sds, settings, n_effects):
    """Initial values spread wider than the posterior; the mode for methods that search for it."""
    D = len(mode.theta) - n_effects
    if settings.method in ("optimize", "laplace"):
        return [{"t": np.zeros(D), "t_effect": np.zeros(n_effects), **scales}]
    rng = np.random.default_rng(settings.seed)
    return [
        {
            "t": rng.uniform(-2, 2, D),
            "t_effect": rng.uniform(-2, 2, n_effects),
            **{
                name: scale * np.exp(rng.uniform(-2, 2) * min(log_sds[name], _WIDEST_START_LOG_SD))
                for name, scale in scales.items()
            },
        }
        for _ in range(settings.chains)
    ]
