"""Variance not captured by basis functions: of totals, and beyond the box or the horizon."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.record import BagsRecord
from bdr_stan.kernels import FieldFeatures, HilbertProduct, HilbertSpace, Kernel, fields_of
from bdr_stan.kernels.fields import COVERED_COLUMNS
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

_POINTS_OF_PARTS = 20_000  # of bags in partitions
_SLACK = 0.01  # of the half-width: the range is that of a sample of the training points
_EXAMINED_BAGS, _EXAMINED_POINTS = 50, 100  # that are looked at, of the bags and of each


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
    p = bags.n_features
    beyond = np.zeros(p)
    fields = _hilbert_spaces(kernel.on(bags.features, p)) if isinstance(kernel, Kernel) else []
    for part in fields:
        if part.horizon:
            (column,) = part.columns_seen(p)
            beyond[column] = max(beyond[column], part.horizon)
    return beyond


def warn_beyond_box(bags: BagsBase, kernel: Kernel) -> None:
    """Warn of points where basis functions, and so totals, lack the prior's variance."""
    limits = _limits(kernel, bags.n_features)
    if not limits:
        return
    if isinstance(bags, Bags):
        points = bags.points
    else:
        points = bags.sample_points(_POINTS_OF_PARTS, np.random.default_rng(0))
    for column, (low, high) in limits.items():
        values = points[:, column]
        slack = _SLACK * (high - low) / 2
        outside = values[(values < low - slack) | (values > high + slack)]
        if len(outside):
            name = column if bags.features is None else repr(bags.features[column])
            warn(
                f"{len(outside)} points have values of column {name} from {outside.min():.4g} to "
                f"{outside.max():.4g}, but the functions of HilbertSpace have the variance of the "
                f"field only from {low:.4g} to {high:.4g}: intervals of rates there include the "
                "rest, intervals of totals do not; fit with a HilbertSpace of that column with "
                "horizon=, or with centre= and reach=, that includes them"
            )


def _limits(kernel, n_columns):
    """Column -> lowest and highest value with the full variance of the basis functions."""
    limits = {}
    for part in _hilbert_spaces(kernel):
        columns = range(n_columns) if part.base.columns is None else part.base.columns
        for column, low, high in zip(columns, *part.limits(), strict=True):  # in order of the box
            lowest, highest = limits.get(column, (low, high))
            limits[column] = max(low, lowest), min(high, highest)
    return limits


def _hilbert_spaces(kernel):
    """The HilbertSpace kernels with sines as features of a kernel's fields."""
    fields = fields_of(kernel)
    factors = [f.parts.values() if isinstance(f, HilbertProduct) else [f] for f in fields]
    return [part for parts in factors for part in parts if isinstance(part, HilbertSpace)]


def omitted_variance(bags: Bags, features: FieldFeatures) -> Array:
    """s'(K - Psi Psi')s of some bags, s the shares of their points: prior variance at rho = 1.

    It is the variance of the part of a bag's mean of f outside the basis functions, with the
    kernel's dependence between its points. Fields of more than three columns are omitted.
    """
    omitted = []
    for i in np.unique(np.linspace(0, len(bags) - 1, _EXAMINED_BAGS).astype(int)):
        rows = np.arange(bags.offsets[i], bags.offsets[i + 1])
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, _EXAMINED_POINTS).astype(int))]
        points, shares = bags.read_rows(rows), bags.point_weights[rows]
        if not shares.sum():  # the few with weight are among the others
            continue
        shares = shares / shares.sum()
        sums = shares @ features(points)
        total = 0.0
        for field, block in zip(features.fields, features.blocks, strict=True):
            if len(field.columns_seen(features.n_inputs)) <= COVERED_COLUMNS:
                covered = np.square(sums[block]).sum()
                total += max(shares @ field(points, points) @ shares - covered, 0.0)
        omitted.append(total)
    return np.array(omitted)


def warn_of_omitted_totals(
    bags: Bags, counts: Array | None, features: FieldFeatures, draws: Mapping[str, Array]
) -> None:
    """Warn if totals scatter less, given their means, than their logs outside the basis.

    `counts`, shape (n,), are labels with Poisson scatter in addition to the dispersion.
    """
    omitted = np.median(draws["rho"]) * np.sqrt(np.median(omitted_variance(bags, features)))
    of_counts = 0.0 if counts is None else np.median(1 / np.maximum(counts, 1))
    scatter = np.sqrt(np.median(draws.get("dispersion", 0.0)) ** 2 + of_counts)
    if omitted > scatter:
        warn(
            f"the features leave out a standard deviation of {omitted:.2g} of the log of a bag's "
            f"total, more than the labels scatter, {scatter:.2g}: intervals of new bags and of "
            "forecasts are too narrow; raise n_functions, above all of products, or n_landmarks"
        )
