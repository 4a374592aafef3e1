"""Arguments of `fit` and library versions, for the report of a fit."""

import platform
from importlib.metadata import version
from typing import Any

from bdr_stan import __version__
from bdr_stan.posterior.settings import SamplerSettings

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "cmdstanpy")


def run_settings(settings: SamplerSettings, engine: str | None = None) -> dict[str, Any]:
    """Arguments of `fit` that are numbers or text, and versions of the libraries.

    Of an `engine` that took the place of CmdStan its name and version, too.
    """
    given = {**settings.iterations, "seed": settings.seed, **settings.options}
    return {
        "arguments": {n: v for n, v in given.items() if isinstance(v, (bool, int, float, str))},
        "versions": {
            "bdr_stan": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
            **({"engine": engine} if engine else {}),
        },
    }
