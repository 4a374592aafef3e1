"""How a fit was made: the arguments of `fit` that are plain values, and the versions."""

import platform
from importlib.metadata import version
from typing import Any

from bdr_stan import __version__

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "cmdstanpy")


def run_settings(seed: Any, options: dict[str, Any], **arguments: int) -> dict[str, Any]:
    """What a fit keeps of its own making, to be told by its report.

    Parameters
    ----------
    seed : int or None
    options : dict, further arguments of `fit`; those that are no number or text are left out
    **arguments : chains, warmup, draws

    Returns
    -------
    dict, arguments (name -> value) and versions (name -> str)
    """
    given = {**arguments, "seed": seed, **options}
    return {
        "arguments": {n: v for n, v in given.items() if isinstance(v, (bool, int, float, str))},
        "versions": {
            "bdr_stan": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
    }
