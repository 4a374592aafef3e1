"""What `tune` and its two kinds of tasks exchange: settings of the grid, and scored candidates."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

from bdr_stan.kernels import Kernel

# Kernel, None for the model's, number of landmarks and bandwidth scale.
Settings: TypeAlias = tuple[str | Kernel | None, int, float]
Grid: TypeAlias = tuple[Sequence[str | Kernel | None], Sequence[int], Sequence[float]]
# From the text of a candidate to a context that reports progress.
Reporting: TypeAlias = Callable[[str], AbstractContextManager[None]]


class Candidate(NamedTuple):
    """A model with settings, and its scores."""

    name: str  # of the model
    kernel: str | Kernel | None  # in the table; None where `tune` got no kernels
    estimator: Any  # not fitted
    columns: Mapping[str, Any]  # of the table: settings and scores
    training: Any = None  # training features, for a model on embeddings
    refined: bool = False
