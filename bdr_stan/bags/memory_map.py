"""Arrays in a memory-mapped file."""

import mmap
import sys
from typing import Any

import numpy as np

from bdr_stan.types import Array


def memory_map(array: object) -> Array | None:
    """The array directly on the memory-mapped file if `array` is a view of one, or None."""
    while isinstance(array, np.ndarray):
        if isinstance(array.base, mmap.mmap):
            return array
        array = array.base
    return None


def release(array: Array) -> None:
    """Release the pages read from a memory map, except on Windows; the file keeps the data."""
    mapped: Any = memory_map(array)
    # A private map ("c") would lose its changes.
    if getattr(mapped, "mode", "c") != "c" and sys.platform != "win32":
        mapped.base.madvise(mmap.MADV_DONTNEED)


def share_memory(array: Array, values: Any) -> bool:
    """Whether an array may be a view of the values it was made from."""
    return not isinstance(values, (list, tuple)) and np.may_share_memory(array, values)
