"""What a posterior needs of a statistical model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bdr_stan.posterior.mode import LogLikelihood, Mode
from bdr_stan.posterior.whitening import whitened_coordinates
from bdr_stan.types import Array, ArrayLike


def _as_it_is(values: dict[str, Any]) -> dict[str, Any]:
    return values


@dataclass(frozen=True)
class Model:
    """A statistical model with its data: what Stan and the search for the mode need of it.

    Given its scales (rho, and sigma, eta, ..), the model has weights w ~ N(0, rho^2 (P'P)^-1),
    weights gamma of Q covariates, an intercept, and a likelihood of theta = [w; gamma; intercept].
    The functions in `bdr_stan.models` make such values.

    Attributes
    ----------
    program : str
        Stock Stan program.
    scales : tuple of str
        The program's scales, "rho" among them.
    scale_arrays : mapping, name -> tuple of str
        Arrays of the program whose entries are scales, and the names of these scales.
    priors : dict
        Numbers of the priors by their names.
    prior_factor : array, shape (d, d)
        P.
    weight_basis : array, shape (d, d), or None
        V of the landmark weights beta = V w, where features are made of landmarks alone.
    likelihood : callable
        Given the scales but rho as keywords, a function of theta, as `find_mode` takes it.
    rho_in_likelihood : bool, default False
        Whether it takes rho as well.
    stan_data : callable
        ``stan_data(whitened, priors)``, the data of the program.
    n_covariates : int, default 0
        Q.
    constants : dict, name -> (values, names of their dimensions)
        What predictions need besides the draws; saved with a fit.
    rescaled : callable, optional
        ``rescaled(whitened, scales, mode)`` changes the whitened coordinates.
    inits : callable, optional
        From t and the scales, a dict, to initial values as the program takes them.
    draws : callable, optional
        From the program's draws, a dict of arrays of shape (chain, draw, ...), to those that users
        see.
    level : float
        The average label, where labels have a location; else 0. Modes and stock programs use
        labels and intercept less this, so that labels far from zero lose no digits; `likelihood`
        then takes it as a keyword.
    predicting : tuple of str
        Variables of the program that predictions need besides weights, intercept and scales.
    sampler_only : tuple of str
        Variables of the program that only serve the sampler; draws do not keep them.
    """

    program: str
    scales: tuple[str, ...]
    priors: dict[str, float]
    prior_factor: Array
    weight_basis: Array | None
    likelihood: Callable[..., LogLikelihood]
    stan_data: Callable[[dict[str, Any], dict[str, float]], dict[str, Any]]
    scale_arrays: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rho_in_likelihood: bool = False
    n_covariates: int = 0
    constants: Mapping[str, tuple[ArrayLike, Sequence[str]]] = field(default_factory=dict)
    rescaled: Callable[[dict[str, Any], dict[str, float], Mode], dict[str, Any]] | None = None
    inits: Callable[[dict[str, Any]], dict[str, Any]] = _as_it_is
    draws: Callable[[dict[str, Array]], dict[str, Array]] = _as_it_is
    level: float = 0.0
    predicting: tuple[str, ...] = ()
    sampler_only: tuple[str, ...] = ("t", "precision")

    @property
    def intercept_prior(self) -> tuple[float, float]:
        """Mean and standard deviation of the intercept's normal prior."""
        return self.priors["intercept_location"], self.priors["intercept_scale"]

    def with_arrays(self, scales: dict[str, Any]) -> dict[str, Any]:
        """Values of the scales, and the program's arrays of them."""
        arrays = {
            array: [scales[name] for name in names] for array, names in self.scale_arrays.items()
        }
        return {**scales, **arrays}

    def without_arrays(self, drawn: dict[str, Array]) -> dict[str, Array]:
        """The program's draws, with the entries of arrays of scales under their own names."""
        drawn = dict(drawn)
        for array, names in self.scale_arrays.items():
            if array in drawn:
                drawn |= zip(names, np.moveaxis(drawn.pop(array), -1, 0), strict=True)
        return drawn

    @property
    def gamma_scales(self) -> Array:
        """Prior standard deviations of the covariates' weights, shape (Q,)."""
        return np.array([self.priors["gamma_scale"] for _ in range(self.n_covariates)])

    @property
    def prior_above_level(self) -> tuple[float, float]:
        """Mean and standard deviation of the prior of the intercept less the level."""
        location, spread = self.intercept_prior
        return location - self.level, spread

    def whitening(self, scales: dict[str, float], mode: Mode) -> dict[str, Any]:
        """Data of the program in whose coordinates the posterior is nearly standard normal."""
        whitened = whitened_coordinates(mode, self.prior_factor, scales["rho"])
        return self.rescaled(whitened, scales, mode) if self.rescaled else whitened
