"""The state of a fitted estimator: groups of arrays, and settings."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any, Self

from bdr_stan import __version__
from bdr_stan.bags.record import BagsRecord
from bdr_stan.labels import OF_NEW_BAGS, Labels
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import Texts, log_prior
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.results.arviz_groups import named_groups
from bdr_stan.results.inference_data import Groups
from bdr_stan.types import Array, ArrayLike

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

    @classmethod
    def of_fit(
        cls,
        model: Model,
        posterior: Posterior,
        record: BagsRecord,
        labels: Labels,
        settings: SamplerSettings,
        *,
        constants: Mapping[str, tuple[ArrayLike, Sequence[str]]],
        coordinates: Mapping[str, Sequence[str]],
        prior_texts: Texts,
        groups: Groups,
        **kept: Any,
    ) -> Self:
        """Result of Bayesian inference; `groups` are of training bags, `kept` are more settings."""
        draws, attrs = posterior.draws, posterior.attrs
        of_fit = named_groups(
            draws,
            posterior.stats,
            attrs,
            {**model.constants, **constants},
            record.index,
            labels.y,
            coordinates=coordinates,
            log_prior=log_prior(model.priors, prior_texts, draws) if prior_texts else {},
        )
        run = run_settings(settings, attrs.get("engine"))
        named = {
            "classes": labels.classes,
            "label_name": labels.name,
            "label_columns": {n: c for n, c in labels.columns.items() if n in OF_NEW_BAGS} or None,
        }
        kept |= {name: value for name, value in named.items() if value is not None}
        return cls(of_fit | groups, {**record.settings, "priors": model.priors, "run": run, **kept})

    @cached_property
    def constants(self) -> dict[str, Array]:
        """Arrays of the group constant_data; scalars as numbers."""
        return {str(n): v.values[()] for n, v in self._with_arrays.groups["constant_data"].items()}

    @property
    def samples(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings of each sample of the bags by its name; all, without a name, if there is one."""
        return self.settings.get("samples", {"": self.settings})

    @property
    def labels(self) -> Array:
        """Labels of the training bags, in the model's form."""
        return self._with_arrays.groups["observed_data"]["y"].values

    @property
    def _with_arrays(self):
        """The result; of an average, which has no groups, the first of its members."""
        return self if self.groups else self.members[0].result_

    @property
    def n_bags(self) -> int:
        """Number of the training bags."""
        return self.settings.get("n_bags", len(self.labels))

    def has_draws(self, name: str) -> bool:
        """Whether there are draws of a parameter."""
        return name in self.groups["posterior"]

    def draws(self, name: str, group: str = "posterior") -> Array:
        """Draws of a parameter, or of what a group has for each, all chains in one, (S, ...)."""
        values = self.groups[group][name].values
        return values.reshape(-1, *values.shape[2:])


def run_settings(settings: SamplerSettings, engine: str | None = None) -> dict[str, Any]:
    """Arguments of `fit` that are numbers or text; versions of libraries and of an `engine`."""
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
