"""How to draw from a posterior: method, chains and iterations, seed, options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bdr_stan.types import PathName

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
    warmup: int = WARMUP  # iterations of each chain, as `draws`
    draws: int = 1000  # Laplace's method gives all in one chain
    seed: int | None = None  # of NumPy and Stan
    progress: bool | None = None  # None reports steps of more than 10 s, True of 1 s, False nothing
    stan_file: PathName | None = None  # a variant of the model's program
    engine: str | None = None  # one of `ENGINES`; None: CmdStan, or stanli where it is not ready
    # Further arguments of the cmdstanpy method; for NUTS also `client`, a Dask client whose workers
    # run the chains.
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def iterations(self) -> dict[str, int]:
        """The numbers of chains, warmup and draws by their names."""
        return {"chains": self.chains, "warmup": self.warmup, "draws": self.draws}
