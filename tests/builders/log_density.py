"""The log density of the program that a fit ran, by stanli, on the unconstrained scale."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unittest import mock

from bdr_stan.posterior import stanli
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.results.result import Result


@dataclass(frozen=True)
class LogDensity:
    """With the Jacobian of the transforms, without constants."""

    model: Model
    data: dict[str, Any]  # of the program
    settings: SamplerSettings

    @cached_property
    def program(self):
        return stanli.load(self.model.program, self.data)

    def parameters(self, points):
        """Parameters of the model, name -> shape (S, ...), at points, shape (S, n)."""
        draws, _ = stanli.constrained(self.program, points)
        read = self.model.read(draws, replace(self.settings, method="nuts"))
        return {name: values[0] for name, values in read.items()}


def log_density_of(estimator, *labelled, **sampling):
    """Of a fit to labelled bags, which the estimator keeps."""
    with mock.patch.object(Result, "of_fit", wraps=Result.of_fit) as of_fit:
        estimator.fit(*labelled, **sampling)
    model, posterior, _, _, settings = of_fit.call_args.args
    return LogDensity(model, posterior.program_data, settings)
