"""All that a fit leaves: groups of arrays under named dimensions, and its settings."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bdr_stan.results.inference_data import Groups
from bdr_stan.types import Array


@dataclass(frozen=True)
class Result:
    """All that a fitted estimator keeps; files and pickles hold nothing else of the fit.

    Attributes
    ----------
    groups : dict, group name -> xarray.Dataset
        posterior, sample_stats, observed_data, constant_data, ...: they become `idata`.
    settings : dict, name -> value
        What is no array of the groups: numbers, text, None, lists, tuples and dicts of such,
        arrays, kernels, data frames.
    members : tuple
        Fitted estimators of an average.
    """

    groups: Groups
    settings: dict[str, Any] = field(default_factory=dict)
    members: tuple = ()

    @cached_property
    def constants(self) -> dict[str, Array]:
        """The arrays of the group constant_data; those without a dimension as numbers."""
        return {str(name): v.values[()] for name, v in self.groups["constant_data"].items()}

    @property
    def labels(self) -> Array:
        """Labels of the training bags, as the model takes them."""
        return self.groups["observed_data"]["y"].values

    def has_draws(self, name: str) -> bool:
        """Whether there are draws of a parameter."""
        return name in self.groups["posterior"]

    def draws(self, name: str) -> Array:
        """Draws of a parameter, all chains in one, shape (S, ...)."""
        values = self.groups["posterior"][name].values
        return values.reshape(-1, *values.shape[2:])
