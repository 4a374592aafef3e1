"""Names for the types that signatures of the whole package share."""

from os import PathLike
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Array", "ArrayLike", "PathName", "Seed"]

Array: TypeAlias = NDArray
PathName: TypeAlias = str | PathLike[str]
Seed: TypeAlias = int | np.random.Generator | None
