"""Arrays that lie in a memory-mapped file."""

import mmap
from typing import Any

import numpy as np

from bdr_stan.types import Array

__all__ = ["memory_map", "release"]


def memory_map(array: object) -> Array | None:
    """The array right on the memory-mapped file that `array` is a view of, or None."""
    while isinstance(array, np.ndarray):
        if isinstance(array.base, mmap.mmap):
            return array
        array = array.base
    return None


def release(array: Array) -> None:
    """Let the pages read from a memory map leave this process's memory; the file has them."""
    mapped: Any = memory_map(array)
    # A private map ("c") would forget what was written to it.
    if getattr(mapped, "mode", "c") != "c":
        mapped.base.madvise(mmap.MADV_DONTNEED)
