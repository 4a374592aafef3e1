"""Points beyond the box of Hilbert-space basis functions, such as months after the horizon."""

from dataclasses import replace

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.record import BagsRecord
from bdr_stan.kernels import HilbertProduct, HilbertSpace, Kernel, fields_of
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

_SAMPLE = 20_000  # of points in partitions
_SLACK = 0.01  # of the half-width: the range is that of a sample of the training points


def record_with_horizon(record: BagsRecord, kernel: Kernel) -> BagsRecord:
    """The record of the training bags, with ranges up to the horizon of the kernel's fields."""
    if record.ranges is None:
        return record
    ranges = record.ranges.copy()
    for part in _hilbert_spaces(kernel):
        if part.horizon:
            (column,) = part.columns_seen(ranges.shape[1])
            ranges[1, column] = np.maximum(ranges[1, column], part.centre[0] + part.reach[0])
    return replace(record, ranges=ranges)


def horizons(kernel: str | Kernel, bags: Bags) -> Array:
    """How far beyond the points of the bags a kernel's fields reach in each column, shape (p,)."""
    found = np.zeros(bags.n_features)
    parts = (
        _hilbert_spaces(kernel.on(bags.features, len(found))) if isinstance(kernel, Kernel) else []
    )
    for part in parts:
        if part.horizon:
            (column,) = part.columns_seen(len(found))
            found[column] = max(found[column], part.horizon)
    return found


def warn_beyond_box(bags: BagsBase, kernel: Kernel) -> None:
    """Warn of points where basis functions lack the prior's variance, which totals then lack."""
    limits = _limits(kernel, bags.n_features)
    if not limits:
        return
    if isinstance(bags, Bags):
        points = bags.points
    else:
        points = bags.sample_points(_SAMPLE, np.random.default_rng(0))
    for column, (low, high) in limits.items():
        values = points[:, column]
        slack = _SLACK * (high - low) / 2
        outside = values[(values < low - slack) | (values > high + slack)]
        if len(outside):
            name = column if bags.features is None else repr(bags.features[column])
            warn(
                f"{len(outside)} points have values of column {name} from {outside.min():.4g} to "
                f"{outside.max():.4g}, but the functions of HilbertSpace have the variance of the "
                f"field from {low:.4g} to {high:.4g} alone: intervals of rates there include the "
                "rest, those of totals do not; fit with a HilbertSpace of that column with "
                "horizon=, or with centre= and reach=, that includes them"
            )


def _limits(kernel, n_columns):
    """Column -> lowest and highest value at which all basis functions have their variance."""
    found = {}
    for part in _hilbert_spaces(kernel):
        for column, low, high in zip(_columns(part, n_columns), *part.limits(), strict=True):
            known = found.get(column, (low, high))
            found[column] = max(low, known[0]), min(high, known[1])
    return found


def _columns(part, n_columns):
    """Columns of a HilbertSpace, in the order of its box."""
    return range(n_columns) if part.base.columns is None else part.base.columns


def _hilbert_spaces(kernel):
    """The HilbertSpace kernels whose sines are features of the fields of a kernel."""
    found = []
    for field in fields_of(kernel):
        parts = (field.first, field.second) if isinstance(field, HilbertProduct) else (field,)
        found += [part for part in parts if isinstance(part, HilbertSpace)]
    return found
