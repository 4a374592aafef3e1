"""Reading the stack of all points: in chunks, and from a memory-mapped file."""

import itertools
import mmap
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Whole bags, or a piece of one bag that is larger than a chunk: few enough points at once."""

    start: int  # its points are the rows start to stop - 1 of the stack
    stop: int
    first: int  # its bags are first to last - 1
    last: int
    cuts: Array  # starts of its bags in the chunk, from 0 to stop - start; int64

    @property
    def bag(self) -> Array:
        """Index of each point's bag among all bags; int64, shape (stop - start,)."""
        return np.repeat(np.arange(self.first, self.last), np.diff(self.cuts))


def cut_chunks(offsets: Array, n_points: int) -> list[Chunk]:
    """Whole bags in chunks of at most `n_points`, in order; larger bags in pieces of equal size."""
    if n_points < 1:
        raise ValueError(f"a chunk must have at least one point, found n_points={n_points!r}")
    chunks = []
    first, n = 0, len(offsets) - 1
    while first < n:
        start = offsets[first]
        last = int(np.searchsorted(offsets, start + n_points, side="right")) - 1
        if last > first:
            cuts = offsets[first : last + 1] - start
            chunks.append(Chunk(int(start), int(offsets[last]), first, last, cuts))
        else:
            last = first + 1
            n_pieces = -(-(offsets[last] - start) // n_points)
            ends = np.linspace(start, offsets[last], n_pieces + 1).astype(np.int64)
            for a, b in itertools.pairwise(ends.tolist()):
                chunks.append(Chunk(a, b, first, last, np.array([0, b - a])))
        first = last
    return chunks


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
