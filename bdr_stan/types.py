"""Names for the types that signatures of the whole package share."""

from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "ArrayLike", "PathName", "Seed"]

if TYPE_CHECKING:
    # NumPy's own union admits none of what is done with an argument before it is an array.
    ArrayLike: TypeAlias = Any
else:
    from numpy.typing import ArrayLike

Array: TypeAlias = NDArray[Any]
PathName: TypeAlias = str | PathLike[str]
Seed: TypeAlias = int | np.random.Generator | None
