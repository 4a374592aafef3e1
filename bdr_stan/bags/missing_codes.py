"""Codes of missing values, detected by position among the values and by form.

Sources write -9999, 99, 9996 to 9999, -666666666, 65535 or 1e20 for "missing", "refused" or "not
asked". No list defines the codes. A code is beyond all values, and it has the form of a code, or is
repeated unlike any value, or both.

Let v_1 < ... < v_k be the different values of a column. Set aside some of the lowest and some of
the highest, at most 6 at each end and no more than are left; s is the spread of those left, v_j -
v_i. A number that is set aside

- has the *form* of a code if it is a repeated digit (77, -99; 6s from three digits on, 1s to 5s
  from four), 9s before a last digit of 6 to 9 (96 to 99, 9996), 9s around a decimal point (99.9),
  an end of the integers of 8, 16, 32 or 64 bits (65535, -32768, -32767), a power of ten from 10^10
  on, or -7 to -9. So have 7 to 9, twice or more, next to two neighbouring whole numbers (1 yes, 2
  no, 9).
- is *repeated* if values rarely are. With h the least difference of those left that are kept (see
  below), two values at random in the gap g between it and those left are equal with probability
  h / g, and m are with (h / g)^(m - 1), which must be below .001. Also, m - 1 must exceed the
  repeats of all that are left and kept, five or more. 0 is not repeated: most zeros are true.

It is a code if it has the form and is repeated; or has one of both and is farther than s from all
numbers with neither, if each end that is set aside is farther than s from the rest, or has the
form; or if it has the form and is negative but the rest is not, for -7 to -9 twice or more. A
single number from 0 to 255, a usual count, must be farther than 3 s. All ways of setting aside are
tried, so 9996, 9998 and 9999 do not hide each other, nor an outlier a code.

A code needs eight other values, with repeats. Only the 8 lowest and the 8 highest different values
and their counts enter, and parts can be merged: columns in parts need one pass.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bdr_stan.bags.checks import LARGEST_VALUE
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

_MOST = 6  # codes at each end
_KEPT = _MOST + 2  # different values at each end
_FEWEST_OTHERS = 8
_FEWEST_LEVELS = 5  # of the rest, for codes that are only repeated
_CHANCE = 1e-3
_USUAL, _SINGLE_FAR = 255, 3  # up to this a number is a usual count: a code is 3 s away
_SINGLE = 6e-8  # relative error of a number in single precision
_IN_RANGE = np.full(2, _FEWEST_OTHERS)  # as often count the ends of a range of other values
_SAMPLE = 4096
_SHOWN = 5  # columns in a message
_INTEGER_ENDS = [
    end
    for bits in (8, 16, 32, 64)
    for end in (2**bits - 1, 2 ** (bits - 1) - 1, 1 - 2 ** (bits - 1), -(2 ** (bits - 1)))
]
CODES_OF_BAGS = "leave these bags out, with their labels"


class Ends(NamedTuple):
    """The lowest and highest different values of a column, in order, and how often each occurs."""

    values: Array
    counts: Array
    n: int  # values of the column, with repeats


def ends_of(column: Array) -> Ends:
    """The ends of a column of numbers without NaN; sorts only its tails."""
    tails = column
    if len(column) > 8 * _SAMPLE:
        sample = np.unique(column[:: len(column) // _SAMPLE])
        if len(sample) >= 2 * _KEPT:
            tails = column[(column <= sample[_KEPT - 1]) | (column >= sample[-_KEPT])]
    values, counts = np.unique(tails, return_counts=True)
    return _kept(values, counts, len(column))


def joined(parts: Sequence[Ends]) -> Ends:
    """The ends of a column in parts from the parts' ends."""
    values, place = np.unique(np.concatenate([p.values for p in parts]), return_inverse=True)
    counts = np.bincount(place, np.concatenate([p.counts for p in parts])).astype(int)
    return _kept(values, counts, sum(p.n for p in parts))


def _kept(values, counts, n):
    keep = np.r_[:_KEPT, -_KEPT:0] if len(values) > 2 * _KEPT else slice(None)
    return Ends(values[keep].astype(float), counts[keep], n)


def has_form(value: float) -> bool:
    """Whether a number of two or more digits, or negative, is written as codes are."""
    size = abs(value)
    if not 10 <= size < LARGEST_VALUE:
        return value in (-7, -8, -9)
    whole = 10.0 ** (math.floor(math.log10(size)) + 1)  # has one digit more
    digit = int(10 * size / whole)
    forms = [whole - last for last in (1, 2, 3, 4, 0.1, 0.01)]
    if digit > (6 if whole == 100 else 5) or whole > 1e3:
        forms.append(digit * (whole - 1) / 9)
    if whole > 1e10:
        forms.append(whole / 10)
    pairs = [*((size, form) for form in forms), *((value, end) for end in _INTEGER_ENDS)]
    return any(math.isclose(*pair, rel_tol=_SINGLE) for pair in pairs)


def codes_in(ends: Ends) -> dict[float, int]:
    """The codes of missing values in a column, and how often each occurs."""
    codes = set().union(*(_codes_beyond(ends, *cut) for cut in _cuts(ends)))
    with_counts = zip(ends.values.tolist(), ends.counts.tolist())
    return {value: count for value, count in with_counts if value in codes}


def _cuts(ends):
    """First and last + 1 of the values left, for each way of setting others aside."""
    values, counts, n = ends
    k = len(values)
    formed = np.array([has_form(value) for value in values])
    for low in range(min(_MOST, k - 2) + 1):
        for high in range(min(_MOST, k - 2 - low) + 1):
            left = values[low : k - high]
            spread = left[-1] - left[0]
            n_left = n - counts[:low].sum() - counts[k - high :].sum()
            if n_left < _FEWEST_OTHERS or len(left) < low + high:
                continue
            below = low == 0 or left[0] - values[low - 1] > spread or formed[:low].all()
            above = high == 0 or values[k - high] - left[-1] > spread or formed[k - high :].all()
            if below and above:
                yield low, k - high


def _codes_beyond(ends, first, last):
    """The codes among the values beyond those left, of index `first` to `last` - 1."""
    values, counts, _ = ends
    left, repeats = values[first:last], np.sum(counts[first:last] - 1)
    spread, step = left[-1] - left[0], np.diff(left).min()
    yes_no = len(left) == 2 and step == 1 and left[0] == np.floor(left[0])
    formed, repeated = np.zeros((2, len(values)), bool)
    for i in [*range(first), *range(last, len(values))]:
        value, again = values[i], counts[i] - 1
        formed[i] = has_form(value) or (yes_no and value in (7, 8, 9) and again)
        chance = again * math.log(step / max(left[0] - value, value - left[-1]))
        several = len(left) >= _FEWEST_LEVELS and value != 0
        repeated[i] = several and again > repeats and chance < math.log(_CHANCE)
    others = values[~(formed | repeated)]
    codes = set()
    for i in np.flatnonzero(formed | repeated):
        often = _SINGLE_FAR if counts[i] == 1 and 0 < values[i] <= _USUAL else 1
        far = np.abs(others - values[i]).min() > often * spread
        below_0 = values[i] < 0 <= others.min() and (values[i] < -9 or counts[i] > 1)
        if far or below_0 or (formed[i] and repeated[i]):
            codes.add(values[i])
    return codes


def warn_of_codes(
    columns: Mapping[Any, Ends],
    units: str,
    advice: str,
    ranges: Mapping[Any, tuple[float, float]] | None = None,
) -> None:
    """One warning of all codes in columns by name, of one number for each of some `units`.

    ``{codes}`` in the advice becomes a dict of the codes by column. New values are compared with
    `ranges` of columns, for example of training bags.
    """
    texts, listed = [], {}
    for name, ends in columns.items():
        parts = [ends]
        if ranges is not None:
            parts.append(Ends(np.array(ranges[name]), _IN_RANGE, _IN_RANGE.sum()))
        count_of = dict(zip(ends.values.tolist(), ends.counts.tolist()))
        codes = {value: count_of[value] for value in codes_in(joined(parts)) if value in count_of}
        if codes:
            n, values = sum(codes.values()), ", ".join(f"{value:.10g}" for value in codes)
            share = f"{n} of {ends.n} {units} ({100 * n / ends.n:.2g}%)"
            texts.append(f"column {name!r} is {values} in {share}")
            listed[name] = [int(value) if value.is_integer() else value for value in codes]
    if texts:
        warn(
            f"{'; '.join(texts[:_SHOWN])}{'; ..' * (len(texts) > _SHOWN)}, far from all others, "
            f"as codes of missing values are: if it is one, {advice.format(codes=listed)}"
        )
