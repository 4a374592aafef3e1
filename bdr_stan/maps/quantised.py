"""Rasters as 16-bit codes, compressed as text for a page; missing pixels have code 0."""

import base64
import zlib
from typing import NamedTuple

import numpy as np

from bdr_stan.types import Array

_STEPS = 2**16 - 2  # between the codes 1, of the lowest value, and 65535, of the highest


class Scale(NamedTuple):
    """Values from `low` to `high` as positions from 0 to 1, by their logarithms if `log`."""

    low: float
    high: float
    log: bool = False

    def positions(self, values: Array) -> Array:
        """Positions of values on the scale; 0 if the scale is one value."""
        low, high, values = self.low, self.high, np.asarray(values, float)
        if self.log:
            low, high, values = np.log(low), np.log(high), np.log(values)
        return (values - low) / (high - low) if high > low else 0 * values

    def codes(self, values: Array) -> Array:
        """Values as uint16; 0 for NaN."""
        return np.nan_to_num(1 + np.rint(_STEPS * self.positions(values)), nan=0).astype(np.uint16)

    @property
    def rounding(self) -> float:
        """Largest rounding error of a value by its code; relative to the value if `log`."""
        span = np.log(self.high / self.low) if self.log else self.high - self.low
        return np.expm1(span / _STEPS / 2) if self.log else span / _STEPS / 2


def compressed(codes: Array) -> str:
    """A raster of codes, shape (rows, columns), as base64 text.

    zlib compresses the high bytes, then the low bytes, of the differences along rows, modulo 2^16:
    maps are smooth, so high bytes are mostly 0.
    """
    steps = np.diff(codes, axis=1, prepend=np.uint16(0))
    planes = (steps >> 8).astype(np.uint8).tobytes() + steps.astype(np.uint8).tobytes()
    return base64.b64encode(zlib.compress(planes)).decode("ascii")
