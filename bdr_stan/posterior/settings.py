"""How to draw from a posterior: method, chains and iterations, seed, options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bdr_stan.types import PathName

METHODS = ("nuts", "optimize", "laplace", "pathfinder")
# Enough for whitened programs that start near the mode: benchmarks/warmup.py compares lengths.
WARMUP = 300
WARMUP_OF_VARIANTS = 1000  # Stan's own default


@dataclass(frozen=True)
class SamplerSettings:
    """Settings of one run of a sampler.

    method : one of `METHODS`, or a method of an estimator's own
    chains, warmup, draws : chains, and iterations of each before and after warmup; Laplace and
        Pathfinder give `draws` in one chain
    seed : of NumPy and Stan
    progress : None reports on stderr steps that take longer than ten seconds, True those longer
        than a second, False nothing
    stan_file : a variant of the model's program
    options : further arguments of the cmdstanpy method; for NUTS also `client`, a Dask client
        whose workers run the chains
    """

    method: str = "nuts"
    chains: int = 4
    warmup: int = WARMUP
    draws: int = 1000
    seed: int | None = None
    progress: bool | None = None
    stan_file: PathName | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def iterations(self) -> dict[str, int]:
        """The numbers of chains, warmup and draws by their names."""
        return {"chains": self.chains, "warmup": self.warmup, "draws": self.draws}
