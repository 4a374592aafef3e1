"""Models of weights with a normal prior: their most probable scales, mode and Stan's coordinates.

Given its scales (rho, and sigma, eta, ...), a model has weights w ~ N(0, rho^2 (P'P)^-1), weights
gamma of Q covariates, effects of terms, if any, an intercept, and a likelihood of theta = [w;
gamma; effects; intercept]. The weights of several samples per bag are blocks with a rho each.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bdr_stan.embedding.terms import NO_TERMS, Terms
from bdr_stan.posterior.mode import LogLikelihood, Mode, blas_threads, find_mode
from bdr_stan.posterior.model import Draws, Model, StanInput, without_arrays
from bdr_stan.posterior.priors import (
    FIXED_LOG_SD,
    log_prior_of_scales,
    prior_centres,
    with_user_values,
)
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
from bdr_stan.types import Array, ArrayLike

# Chains start up to twice this far from the most probable scales, on the log scale: with wide
# posteriors some chains would start outside the range of the whitened coordinates.
WIDEST_START_LOG_SD = 0.25

# Scales of terms are almost fixed, so the density is narrow in many directions: L-BFGS, with its
# default memory of 5 steps, does not come near the mode in 2000 steps.
_MODE_OF_TERMS = {"history_size": 50, "iter": 20_000}


class Role(Enum):
    """What a variable of a program is to a fit."""

    SCALE = auto()  # a scale, which has a prior of its own
    SPLIT = auto()  # an array of scales, which draws have under their own names
    ARRAY = auto()  # an array of scales, which draws keep
    PREDICTION = auto()  # predictions need it
    SAMPLER = auto()  # of the sampler alone: draws do not keep it


class Variable(NamedTuple):
    """The role of a variable of a program, and the names of the scales in an array."""

    role: Role
    entries: Sequence[str] = ()


SCALE, PREDICTION, SAMPLER = (Variable(r) for r in (Role.SCALE, Role.PREDICTION, Role.SAMPLER))
Variables = dict[str, Variable]  # by their names in the program; scales in the order of the search

# Of programs with terms: coordinates, and steps to the effects.
_OF_TERMS = dict.fromkeys(("theta", "t_effect", "by_theta", "effect_sd", "found", "share"), SAMPLER)
_OF_PRIOR_ALONE = ("rho", "term_length")  # scales that predictions do not need


@dataclass(kw_only=True)
class LatentGaussianModel(Model):
    """A model of normal weights with its data: subclasses define the abstract members."""

    prior: Mapping[str, float] | None = None  # the user's numbers
    terms: Terms = NO_TERMS  # of a program that has terms
    # Constants of the prior that were chosen by evidence.
    chosen: Mapping[str, tuple[ArrayLike, Sequence[str]]] = field(default_factory=dict)
    # Where searches for scales and weights begin; the weights have the shape (D,).
    start_scales: Mapping[str, float] = field(default_factory=dict)
    start_weights: Array | None = None

    # V of the landmark weights beta = V w, (d, d), if all features are of landmarks.
    weight_basis: Array | None = None

    has_terms: ClassVar[bool] = False  # whether the program has terms, be they none
    prior_factor: Array = field(init=False)  # P of the prior w ~ N(0, rho^2 (P'P)^-1), (d, d)
    # The average label, if labels have a location; else 0. Modes and stock programs subtract it
    # from labels and intercept, so labels far from zero lose no digits.
    level: float = field(default=0.0, init=False)
    rho_in_likelihood: bool = field(default=False, init=False)  # whether that needs rho, too
    blocks: tuple[int, ...] = field(default=(), init=False)  # numbers of weights of each sample
    # Initial values of parameters that are neither coordinates of theta nor scales.
    initial: Mapping[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.priors = with_user_values(self.default_priors(), self.prior)
        self.data = self.program_data()
        self.constants = {**self.prediction_constants(), **self.chosen}
        of_terms: Variables = {}
        if self.has_terms:
            arrays = term_arrays(self.terms).items()
            of_terms = {name: Variable(Role.ARRAY, entries) for name, entries in arrays}
            of_terms |= _OF_TERMS | ({"term_effect": PREDICTION} if self.terms.names else {})
        self.all_variables = {
            "w": PREDICTION,
            **({"gamma": PREDICTION} if self.n_covariates else {}),
            "intercept": PREDICTION,
            **self.variables(),
            **of_terms,
            **dict.fromkeys(("t", "precision"), SAMPLER),
        }

    # ------------------------------------------------------------ what a model is

    @abstractmethod
    def default_priors(self) -> dict[str, float]:
        """Numbers of the priors by their names, for these data."""

    @abstractmethod
    def variables(self) -> Variables:
        """The program's variables, except for weights and terms, and what each is."""

    @abstractmethod
    def likelihood(self, *, level: float = 0.0, **scales: float) -> LogLikelihood:
        """The likelihood as a function of theta, given the scales that it needs.

        The intercept in theta counts from `level`.
        """

    @abstractmethod
    def program_data(self) -> dict[str, Any]:
        """Data of the program, except for `whitening`."""

    @abstractmethod
    def prediction_constants(self) -> dict[str, tuple[ArrayLike, list[str]]]:
        """Inputs of predictions other than draws: name -> values, names of dimensions."""

    # ------------------------------------------------------------ what some models change

    def gamma_scales(self, scales: Mapping[str, float]) -> Array:
        """Prior standard deviations of covariates' weights and effects, shape (Q + U,)."""
        of_covariates = [self.priors["gamma_scale"] for _ in range(self.n_covariates)]
        return np.append(of_covariates, effect_sds(self.terms, scales))

    def whitening(self, scales: Mapping[str, float], mode: Mode) -> dict[str, Any]:
        """Data of the program for coordinates with a nearly standard normal posterior."""
        base, of_effects = without_effects(mode, self.terms, scales)
        whitened = whitened_coordinates(base, self.prior_factor, self.rho_of(scales), self.blocks)
        return {**whitened, **(of_effects if self.has_terms else {})}

    def fixed(self, scales: Mapping[str, float]) -> dict[str, Any]:
        """Data that hold rho, and scales of terms, at these values: for all methods but NUTS."""
        rho = np.array([scales[name] for name in self.rho_names])
        rho = rho if np.ndim(self.data["rho_median"]) else rho[0]  # as the program declares it
        of_terms = fixed_terms(self.terms, scales) if self.terms.names else {}
        return {"rho_median": rho, "rho_log_sd": FIXED_LOG_SD, **of_terms}

    # ------------------------------------------------------------ what follows

    @property
    def scales(self) -> tuple[str, ...]:
        """Names of the scales, "rho" among them, or "rho[houses]" of samples."""
        table = self.all_variables.items()
        names = [[name] if v.role is Role.SCALE else v.entries for name, v in table]
        return tuple(scale for of_variable in names for scale in of_variable)

    def arrays(self, *roles: Role) -> dict[str, Sequence[str]]:
        """Arrays of the program -> names of their entries."""
        return {name: v.entries for name, v in self.all_variables.items() if v.role in roles}

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

    def mode_at(self, scales: Mapping[str, float], **search: Any) -> Mode:
        """The mode of theta, above the level; `search` are arguments of `find_mode`."""
        of_prior = [*([] if self.rho_in_likelihood else self.rho_names), *term_scales(self.terms)]
        of_labels = {name: value for name, value in scales.items() if name not in of_prior}
        return find_mode(
            self.likelihood(level=self.level, **of_labels),
            self.prior_factor,
            self.prior_above_level,
            rho=self.rho_of(scales),
            gamma_scales=self.gamma_scales(scales),
            **search,
        )

    def stan_input(self, settings: SamplerSettings) -> StanInput:
        """Whitened coordinates at the mode, and chains that start near the most probable scales.

        All methods but NUTS fix rho at its marginal mode. A user's own program uses the raw labels;
        for stock programs the log evidence of the most probable scales is available.
        """
        scales, mode, log_sds = self.searched(settings)
        data = self.data | self.whitening(scales, mode)
        if settings.method != "nuts":
            data |= self.fixed(scales)
        starts = _starts(scales, mode, log_sds, settings, sum(self.terms.n_effects))
        stock = settings.stan_file is None
        return StanInput(
            data=_less(self.level, data) if stock and self.level else data,
            inits=[{**self._with_arrays(start), **self.initial} for start in starts],
            log_sds=self._with_arrays(log_sds),
            mode_options=_MODE_OF_TERMS if self.terms.names else {},
            attrs={"log_evidence": mode.log_evidence} if stock else {},
        )

    def searched(
        self, settings: SamplerSettings
    ) -> tuple[dict[str, float], Mode, dict[str, float]]:
        """Most probable scales, the mode there, and standard deviations of the scales' logs."""
        searching = f"Looking for the most probable scales of {self.program}"
        with status(searching, settings.progress is not False, after=10):
            scales, mode, covariance = most_probable_scales(self)
            sds = np.sqrt(np.diag(covariance())).tolist()
        return scales, mode, dict(zip(scales, sds, strict=True))

    def read(self, draws: Draws, settings: SamplerSettings) -> Draws:
        """Draws with the weights of the landmarks, the intercept at the level of the labels.

        ValueError if the user's program lacks a variable that predictions need.
        """
        draws = without_arrays(draws, self.arrays(Role.SPLIT))
        needed = [
            name
            for variable, (role, entries) in self.all_variables.items()
            for name in (entries if role is Role.SPLIT else [variable])
            if role in (Role.SCALE, Role.PREDICTION) or entries
            if name not in _OF_PRIOR_ALONE
        ]
        missing = [name for name in needed if name not in draws]
        if missing:
            raise ValueError(
                f"{settings.stan_file} has no variable {missing[0]!r}: predictions need "
                f"{', '.join(needed)}, so keep these names"
            )
        of_sampler = self.arrays(Role.SAMPLER)
        draws = {name: v for name, v in draws.items() if name not in of_sampler and v.size}
        if settings.stan_file is None:
            draws["intercept"] = draws["intercept"] + self.level
        return self.with_landmark_weights(draws)

    def with_landmark_weights(self, draws: Draws) -> Draws:
        """The draws with beta, the weights of the landmarks, if features are landmarks."""
        if self.weight_basis is None:
            return draws
        return {**draws, "beta": draws["w"] @ self.weight_basis.T}

    def _with_arrays(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values of the scales, and their arrays in the program."""
        arrays = {
            array: [values[name] for name in names]
            for array, names in self.arrays(Role.SPLIT, Role.ARRAY).items()
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
    with _searching(model):
        scales, mode, covariance = maximise_evidence(
            model.mode_at,
            prior_centres(model.priors, model.scales) | dict(start or model.start_scales),
            log_prior=log_prior_of_scales(model.priors) if with_priors else None,
            start_weights=model.start_weights,
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
                name: scale * np.exp(rng.uniform(-2, 2) * min(log_sds[name], WIDEST_START_LOG_SD))
                for name, scale in scales.items()
            },
        }
        for _ in range(settings.chains)
    ]
