"""Names for the types that signatures of the whole package share, and what counts as a number."""

from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "ArrayLike", "PathName", "Seed", "is_integer", "is_number"]

if TYPE_CHECKING:
    # NumPy's own union admits none of what is done with an argument before it is an array.
    ArrayLike: TypeAlias = Any
else:
    from numpy.typing import ArrayLike

Array: TypeAlias = NDArray[Any]
PathName: TypeAlias = str | PathLike[str]
Seed: TypeAlias = int | np.random.Generator | None


def is_number(value: Any) -> bool:
    """Whether this is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def is_integer(value: Any) -> bool:
    """Whether this is an integer; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)
