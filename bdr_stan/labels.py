"""Labels of bags with all that belongs to them: one object on the way from `fit` to Stan's data."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bdr_stan.types import Array, ArrayLike

OF_NEW_BAGS = ("trials", "exposure", "offset")  # arguments that predictions also need
OF_TIMES = ("event", "entry")
WITH_LABELS = (*OF_NEW_BAGS, *OF_TIMES)  # arguments that may be given with labels
_PER_BAG = ("y", "label_sd", *WITH_LABELS)


@dataclass(frozen=True)
class Labels:
    """Labels of n bags; of bags to predict, what their labels need, without `y`."""

    y: Any = None  # numbers, or codes 0, 1, ... of `classes`, shape (n,)
    classes: Any = None  # array, shape (C,), if labels are classes
    label_sd: Array | None = None  # known standard errors, units of y, shape (n,)
    trials: Array | None = None  # of counts, shape (n,)
    exposure: Array | None = None  # quantity to which the mean is proportional, shape (n,)
    offset: Array | None = None  # known part of the linear predictor, shape (n,)
    event: Array | None = None  # 0 if a time is censored, NaN if unknown, shape (n,)
    entry: Array | None = None  # time from which a bag was under observation, shape (n,)
    name: str | None = None
    # Data of a user's own program: of each bag, shape (n, ...), and others.
    program_data: Mapping[str, Array] = field(default_factory=dict)
    shared_data: Mapping[str, Array] = field(default_factory=dict)
    # Columns of the metadata that trials, exposure, offset and data of the program were read from.
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of the labels."""
        return len(self.y)

    @property
    def mean(self) -> float:
        """Average of the labels, units of y."""
        return float(np.mean(self.y))

    @property
    def sd(self) -> float:
        """Standard deviation of the labels, units of y."""
        return float(np.std(self.y))

    @property
    def given(self) -> dict[str, Array]:
        """Trials, exposure, offset, event and entry, by name, if there are any."""
        values = {name: getattr(self, name) for name in WITH_LABELS}
        return {name: array for name, array in values.items() if array is not None}

    @property
    def parameters(self) -> dict[str, Array]:
        """Parameters of the labels' distribution that belong to bags: trials, event and entry."""
        return {name: v for name, v in self.given.items() if name in ("trials", *OF_TIMES)}

    @property
    def constants(self) -> dict[str, tuple[Array, list[str]]]:
        """What came with the labels, for the result: name -> (values, dimensions)."""
        errors = {} if self.label_sd is None else {"label_sd": self.label_sd}
        return {name: (array, ["bag"]) for name, array in (errors | self.given).items()}

    @property
    def offsets(self) -> Array | None:
        """Offset plus log exposure of each bag, shape (n,); None if there is neither."""
        if self.exposure is None:
            return self.offset
        return np.log(self.exposure) + (0.0 if self.offset is None else self.offset)

    @property
    def error_variance(self) -> Array | float:
        """Variance of the known error of each label, units of y squared, shape (n,), or 0."""
        return 0.0 if self.label_sd is None else self.label_sd**2

    def take(self, bags: ArrayLike) -> Self:
        """Labels of the bags with these indices."""
        arrays = {name: getattr(self, name) for name in _PER_BAG}
        taken = {name: array[bags] for name, array in arrays.items() if array is not None}
        data = {name: array[bags] for name, array in self.program_data.items()}
        return replace(self, **taken, program_data=data)


@dataclass(frozen=True)
class SummedLabels(Labels):
    """Labels of which only their number, mean and standard deviation are left."""

    y: Any = field(default_factory=lambda: np.empty(0))
    n: int = 0  # type: ignore[assignment]
    mean: float = 0.0  # type: ignore[assignment]
    sd: float = 0.0  # type: ignore[assignment]
