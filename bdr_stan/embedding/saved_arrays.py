"""Numbers and arrays of an object that saved fits keep by their names."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from bdr_stan.types import Array, ArrayLike


class SavedArrays:
    """Base of dataclasses with fields that saved fits keep, except for None."""

    saved: ClassVar[Mapping[str, tuple[str, ...]]]  # field -> its name there, then its dimensions

    def constants(self) -> dict[str, tuple[ArrayLike, list[str]]]:
        """Values by their names in saved fits, with their dimensions."""
        values = {name: (getattr(self, f), list(axes)) for f, (name, *axes) in self.saved.items()}
        return {name: pair for name, pair in values.items() if pair[0] is not None}

    @classmethod
    def from_constants(cls, constants: Mapping[str, Array], **others: Any) -> Any:
        """The object from the arrays that a fit keeps, and its other fields."""
        values = {
            field: constants[name] if axes else np.asarray(constants[name]).item()
            for field, (name, *axes) in cls.saved.items()
            if name in constants
        }
        return cls(**values, **others)
