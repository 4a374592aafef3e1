"""How to draw from a posterior: method, chains and iterations, seed, options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bdr_stan.arguments import near
from bdr_stan.types import PathName, is_integer, is_number

METHODS = ("nuts", "optimize", "laplace")
ENGINES = ("cmdstan", "stanli")
# Enough for whitened programs that start near the mode: benchmarks/warmup.py compares lengths.
WARMUP = 300
WARMUP_OF_VARIANTS = 1000  # Stan's own default


@dataclass(frozen=True)
class SamplerSettings:
    """Settings of one run of a sampler."""

    method: str = "nuts"  # one of `METHODS`, or an estimator's own
    chains: int = 4
    warmup: int = WARMUP  # iterations of each chain, like `draws`
    draws: int = 1000  # Laplace's method returns all in one chain
    seed: int | None = None  # of NumPy and Stan
    progress: bool | None = None  # None reports steps of more than 10 s, True of 1 s, False nothing
    stan_file: PathName | None = None  # a variant of the model's program
    engine: str | None = None  # one of `ENGINES`; None: CmdStan, or stanli if it is not ready
    # Further arguments of the cmdstanpy method, see `OPTIONS`.
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def iterations(self) -> dict[str, int]:
        """The numbers of chains, warmup and draws by their names."""
        return {"chains": self.chains, "warmup": self.warmup, "draws": self.draws}


def _is_inits(value):
    several = value if isinstance(value, list) else [value]
    return len(several) > 0 and all(isinstance(init, Mapping) for init in several)


# Option of cmdstanpy -> its valid values, in words and as a test.
_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        ("max_treedepth", "thin", "parallel_chains", "threads_per_chain", "iter", "history_size"),
        ("an integer >= 1", lambda v: is_integer(v) and v >= 1),
    ),
    **dict.fromkeys(
        ("adapt_engaged", "jacobian"),
        ("True or False", lambda v: isinstance(v, (bool, np.bool_))),
    ),
    "step_size": ("a positive number", lambda v: is_number(v) and 0 < v < np.inf),
    "adapt_delta": ("a number between 0 and 1", lambda v: is_number(v) and 0 < v < 1),
    "metric": (
        "'diag_e', 'dense_e' or 'unit_e'",
        lambda v: isinstance(v, str) and v in ("diag_e", "dense_e", "unit_e"),
    ),
    "inv_metric": ("what CmdStanPy takes", lambda _: True),
    "inits": ("a dict or a list of dicts", _is_inits),
}
# Those that both engines have.
OPTIONS: dict[str, tuple[str, ...]] = {
    "nuts": (
        *("adapt_delta", "max_treedepth", "step_size", "thin", "metric", "inv_metric"),
        *("adapt_engaged", "inits", "parallel_chains", "threads_per_chain"),
    ),
    "optimize": ("iter", "jacobian", "history_size", "inits"),
    "laplace": (),
}
_OF_FIT = ("chains", "warmup", "draws", "seed", "progress", "label_sd")
# Arguments of CmdStanPy that have another name in `fit`.
_INSTEAD = {
    "iter_warmup": "use warmup",
    "iter_sampling": "use draws",
    "show_progress": "use progress",
}


def check_options(method: str, options: Mapping[str, Any], *, warmup: int = 1) -> None:
    """Raise TypeError or ValueError unless a method supports these options of cmdstanpy."""
    for name, value in options.items():
        if name in _INSTEAD:
            raise ValueError(f"{method} takes no {name}: {_INSTEAD[name]}; leave it out")
        if name not in OPTIONS.get(method, ()):
            possible = (*_OF_FIT, *OPTIONS.get(method, ()))
            if meant := near(name, possible):
                raise TypeError(f"fit takes no {name}: did you mean {meant[0]!r}?")
            if method not in OPTIONS:
                raise ValueError(f"method={method!r} runs no Stan program: leave {name} out")
            raise TypeError(
                f"method={method!r} takes no {name}; its options are {', '.join(possible)}"
            )
        words, is_valid = _RULES[name]
        if not is_valid(value):
            raise ValueError(f"{name} must be {words}, found {value!r}")
    if method == "nuts" and warmup == 0 and options.get("adapt_engaged", True):
        raise ValueError(
            "warmup=0 leaves NUTS no iterations to adapt in: give warmup >= 1, or "
            "adapt_engaged=False"
        )
