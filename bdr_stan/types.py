"""Types that signatures of the whole package share, and what counts as a number or a path."""

from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "ArrayLike", "PathName", "Seed", "as_path", "is_integer", "is_number"]

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


def as_path(path: Any, name: str = "path") -> Path:
    """A path of the user's; TypeError calls it `name` where it is none."""
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"{name} must be a str or a Path of a file, found {path!r}")
    return Path(path)
