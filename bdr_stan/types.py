"""Types in signatures of the whole package, and checks for numbers and paths."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "ArrayLike", "PathName", "Seed"]

if TYPE_CHECKING:
    from geopandas import GeoDataFrame as GeoDataFrame
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from pandas import DataFrame as DataFrame
    from xarray import DataArray as DataArray
    from xarray import Dataset as Dataset

    # NumPy's own union allows no operation on an argument before it is an array.
    ArrayLike: TypeAlias = Any
else:
    from numpy.typing import ArrayLike

    # Types of libraries that are imported late, if they are installed at all.
    Axes = DataArray = DataFrame = Dataset = Figure = GeoDataFrame = Any

Array: TypeAlias = NDArray[Any]
PathName: TypeAlias = str | PathLike[str]
Seed: TypeAlias = int | np.random.Generator | None
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS}


def is_number(value: Any) -> bool:
    """Whether `value` is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def is_integer(value: Any) -> bool:
    """Whether `value` is an integer; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def numbers_or_nan(values: Any) -> Array:
    """Values as an array of at least one dimension; a single NaN if they are not numbers."""
    try:
        return np.atleast_1d(np.asarray(values, float))
    except (TypeError, ValueError):
        return np.array([np.nan])


def check_flags(**flags: Any) -> None:
    """Raise ValueError unless each is True or False."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, found {value!r}")


def check_counts(**counts: Any) -> None:
    """Raise ValueError unless counts are integers >= 1, or for warmup >= 0."""
    for name, value in counts.items():
        least = 0 if name == "warmup" else 1
        if not is_integer(value) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, found {value!r}")


def check_seed(value: Any, name: str = "random_state") -> None:
    """Raise ValueError unless this is None or a valid integer seed for NumPy and Stan."""
    if value is None or (is_integer(value) and 0 <= value < 2**32):
        return
    raise ValueError(f"{name} must be None or an integer from 0 to 2^32 - 1, found {value!r}")


def as_path(path: Any, name: str = "path") -> Path:
    """A path of the user's; TypeError, which calls it `name`, for neither a str nor a `path`."""
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"{name} must be a str or a Path of a file, found {path!r}")
    return Path(path)


@contextmanager
def saving_to(path: Path) -> Iterator[None]:
    """Name the path, the reason and a fix in errors of a full disk or a read-only folder."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise OSError(
                f"cannot save to {path}: the disk is full; make room, or choose another folder"
            ) from error
        if error.errno in _NOT_WRITABLE:
            raise PermissionError(
                f"cannot save to {path}: the folder {path.parent} cannot be written to "
                f"({error.strerror}); choose another"
            ) from error
        raise
