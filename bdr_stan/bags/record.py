"""What a fit keeps of its training bags, and new bags must agree with."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.columns import TableColumns
from bdr_stan.types import Array, ArrayLike

__all__ = ["BagsRecord"]


@dataclass(frozen=True)
class BagsRecord:
    """Ids, columns and weights of training bags.

    index : array, shape (n,)
        Ids of the bags, or 0 to n - 1.
    has_ids : bool
    n_features : int
    features : list of str, or None
        Names of the points' columns.
    columns : TableColumns, or None
        How the points were made of the columns of a table.
    weighted : bool
        Whether points have weights.
    """

    index: Array
    has_ids: bool
    n_features: int
    features: list[str] | None
    columns: TableColumns | None
    weighted: bool

    @classmethod
    def of(cls, bags: BagsBase) -> Self:
        """The record of bags."""
        return cls(
            np.asarray(bags.index),
            bags.ids is not None,
            bags.n_features,
            bags.features,
            bags.columns,
            bags.weighted,
        )

    @property
    def ids(self) -> Array | None:
        """Ids of the bags, shape (n,), or None."""
        return self.index if self.has_ids else None

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the settings of a fit keep of it, by name."""
        return {
            "n_features": self.n_features,
            "feature_names": self.features,
            "columns": self.columns,
            "weighted": self.weighted,
        }

    def take(self, bags: ArrayLike) -> Self:
        """The record of the bags with these indices."""
        return replace(self, index=self.index[bags])
