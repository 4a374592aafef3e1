"""The state of a fitted estimator: groups of arrays, and settings."""

import platform
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

from bdr_stan import __version__
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.results.inference_data import Groups
from bdr_stan.types import Array

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "cmdstanpy")  # with versions in a report


@dataclass(frozen=True)
class Result:
    """The state of a fitted estimator, which files and pickles contain."""

    # posterior, sample_stats, observed_data, constant_data, ..., which become `idata`.
    groups: Groups
    # Data other than arrays of the groups: numbers, text, None, kernels, data frames, arrays, and
    # lists, tuples and dicts of them.
    settings: dict[str, Any] = field(default_factory=dict)
    members: tuple = ()  # fitted estimators of an average

    @cached_property
    def constants(self) -> dict[str, Array]:
        """Arrays of the group constant_data; scalars as numbers."""
        return {str(name): v.values[()] for name, v in self.groups["constant_data"].items()}

    @property
    def labels(self) -> Array:
        """Labels of the training bags, in the model's form; for an average its members'."""
        if self.members and "observed_data" not in self.groups:
            return self.members[0].result_.labels
        return self.groups["observed_data"]["y"].values

    def has_draws(self, name: str) -> bool:
        """Whether there are draws of a parameter."""
        return name in self.groups["posterior"]

    def draws(self, name: str) -> Array:
        """Draws of a parameter, all chains in one, shape (S, ...)."""
        values = self.groups["posterior"][name].values
        return values.reshape(-1, *values.shape[2:])


def run_settings(settings: SamplerSettings, engine: str | None = None) -> dict[str, Any]:
    """Arguments of `fit` that are numbers or text, and versions of the libraries.

    Also name and version of an `engine` that replaced CmdStan.
    """
    arguments = {**settings.iterations, "seed": settings.seed, **settings.options}
    return {
        "arguments": {n: v for n, v in arguments.items() if isinstance(v, (bool, int, float, str))},
        "versions": {
            "bdr_stan": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
            **({"engine": engine} if engine else {}),
        },
    }
