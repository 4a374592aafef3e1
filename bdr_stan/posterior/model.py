"""What sampling needs of a statistical model."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.types import Array, ArrayLike

Draws = dict[str, Array]  # name -> values, shape (chain, draw, ...)


@dataclass(frozen=True)
class StanInput:
    """What one run of a Stan program begins with."""

    data: dict[str, Any]  # the program's
    # Initial values, one per chain; optimize and laplace take the first.
    inits: list[dict[str, Any]]
    # Parameter -> approximate width of its posterior on the unconstrained scale, a float or a list
    # of its entries; 1 if it is missing: the start of NUTS's metric.
    log_sds: Mapping[str, Any] = field(default_factory=dict)
    # of the cmdstanpy method; the user's come after
    options: Mapping[str, Any] = field(default_factory=dict)
    mode_options: Mapping[str, Any] = field(default_factory=dict)  # of the search for the mode
    attrs: Mapping[str, Any] = field(default_factory=dict)  # of the posterior, known before the run

    def first_metric(self, names: Sequence[str]) -> Array | None:
        """Initial variances of all unconstrained parameters; None if one has no initial value."""
        init = self.inits[0]
        if not set(names) <= set(init):
            return None
        sds = [np.full(np.size(init[name]), self.log_sds.get(name, 1.0)) for name in names]
        return np.square(np.concatenate(sds))


class Model(ABC):
    """A statistical model with its data; the functions in `bdr_stan.models` make such values."""

    program: str  # name of the stock Stan program
    priors: dict[str, float]  # numbers of the priors by their names
    data: dict[str, Any]  # the program's, complete except for the choices of `stan_input`
    # Name -> (values, names of dimensions): inputs of predictions other than the draws; a fit saves
    # them.
    constants: Mapping[str, tuple[ArrayLike, Sequence[str]]]

    @abstractmethod
    def stan_input(self, settings: SamplerSettings) -> StanInput:
        """Data, initial values and scales for a run of the program, or of the user's variant."""

    @abstractmethod
    def read(self, draws: Draws, settings: SamplerSettings) -> Draws:
        """Draws in the users' form, from the program's; ValueError if one is missing."""


def without_arrays(draws: Draws, arrays: Mapping[str, Sequence[str]]) -> Draws:
    """The program's draws, with the entries of some of its arrays under their own names."""
    draws = dict(draws)
    for array, names in arrays.items():
        if names and array in draws:
            entries = draws.pop(array)
            entries = entries.reshape(*entries.shape[:2], -1)
            draws |= zip(names, np.moveaxis(entries, -1, 0), strict=True)
    return draws
