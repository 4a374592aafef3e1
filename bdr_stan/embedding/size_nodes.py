"""Groups of bags of many sizes replaced by groups at a few nodes, with the same likelihood.

The log likelihood of a bag is interpolated in log N and log v, N its size and v the known variance
of its label, at Chebyshev nodes, see ``docs/explanation/computation.md``. Polynomials are
negative for some bags, so each node has a difference of two Gram matrices of rows [z, x, 1, y].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander

from bdr_stan.embedding.compression import Rows, equal_runs
from bdr_stan.types import Array

# The geometric rate to the power of the number of nodes. Relative errors of log likelihoods are
# some 50 times smaller.
_INTERPOLATION_ERROR = 1e-10
# At most this number of the smallest and of the largest sizes keep their own groups: many bags of
# one small size need no more rows than a node, and a few huge bags would widen the interval.
_MOST_OWN_GROUPS = 50
# A gradient of the Stan programs costs as much for one more group as for this number of rows.
_ROWS_OF_GROUP = 20
_N_PANELS = 16  # of equal length in log N, if there are enough rows for panels first

_Interval = tuple[float, float]


@dataclass(frozen=True)
class SizeNodes:
    """Chebyshev nodes of log N and log v, and the bags that move to them: those in between."""

    log_sizes: _Interval
    log_variances: _Interval | None  # None for labels without known errors
    error: float = _INTERPOLATION_ERROR

    def of(self, rows: Rows) -> Array:
        """Which groups move, (G,) booleans."""
        low, high = self.log_sizes
        u, has_error = np.log(rows.bag_size), rows.known_variance > 0
        return (low <= u) & (u <= high) & (has_error == (self.log_variances is not None))


def at_size_nodes(rows: Rows) -> Rows:
    """These rows, or, if a gradient is faster, rows at nodes of size and known variance."""
    nodes = _cheapest(rows.bag_size, rows.known_variance, rows.length, rows.rows.shape[1])
    return with_fewest_rows(at_nodes(rows, nodes))


def cheapest_nodes(sizes: Array, known_variance: Array, n_columns: int) -> list[SizeNodes]:
    """Nodes with the fastest gradient, for bags with rows of these columns."""
    order, first = equal_runs(known_variance, sizes)
    length = np.minimum(np.diff(np.append(first, len(order))), n_columns)
    group = order[first]
    return _cheapest(sizes[group], known_variance[group], length, n_columns)


def at_nodes(rows: Rows, nodes: Sequence[SizeNodes]) -> Rows:
    """Groups at their nodes, one of each sign, after those that stay; `merged` joins parts."""
    inside = [size_nodes.of(rows) for size_nodes in nodes]
    stay = ~np.any(inside, axis=0) if nodes else np.ones(len(rows.length), bool)
    parts = [rows.subset(stay)]
    for size_nodes, moves in zip(nodes, inside, strict=True):
        if moves.any():
            parts += _interpolated(rows.subset(moves), size_nodes)
    return Rows.stacked(parts)


def with_fewest_rows(rows: Rows) -> Rows:
    """Both groups of a node with at most as many rows as columns together, after single groups."""
    order, first = equal_runs(rows.known_variance, rows.bag_size)
    runs = np.split(order, first[1:])
    single = np.zeros(len(order), bool)
    single[[run[0] for run in runs if len(run) == 1]] = True
    return Rows.stacked([rows.subset(single), *(_fewest(rows, r) for r in runs if len(r) == 2)])


def _cheapest(
    bag_size: Array, known_variance: Array, length: Array, n_columns: int
) -> list[SizeNodes]:
    """Nodes with the cheapest gradient, for groups with these numbers of rows."""
    nodes = []
    for has_error in (False, True):
        part = (known_variance > 0) == has_error
        if part.any():
            log_variances = _range(np.log(known_variance[part])) if has_error else None
            n = 1 if log_variances is None else _n_nodes(log_variances[1] - log_variances[0])
            # A node has a group of each sign.
            per_node = n * (n_columns + 2 * _ROWS_OF_GROUP)
            cost = length[part] + _ROWS_OF_GROUP
            log_sizes = _cheapest_interval(np.log(bag_size[part]), cost, per_node)
            nodes += [] if log_sizes is None else [SizeNodes(log_sizes, log_variances)]
    return nodes


def _cheapest_interval(log_size: Array, cost: Array, per_node: int) -> _Interval | None:
    """The log sizes to interpolate between, given the cost of each group; None for none."""
    log_sizes, size_of = np.unique(log_size, return_inverse=True)
    cost_before = np.append(0, np.cumsum(np.bincount(size_of, cost)))
    least, interval = cost_before[-1], None
    for first in range(min(len(log_sizes), _MOST_OWN_GROUPS)):
        last = np.arange(max(first, len(log_sizes) - _MOST_OWN_GROUPS), len(log_sizes))
        outside = cost_before[first] + cost_before[-1] - cost_before[last + 1]
        costs = outside + per_node * _n_nodes(log_sizes[last] - log_sizes[first])
        best = np.argmin(costs)
        if costs[best] < least:
            least, interval = costs[best], (log_sizes[first], log_sizes[last[best]])
    return interval


def _n_nodes(length, error=_INTERPOLATION_ERROR):
    """Chebyshev nodes on an interval of log N or log v of this length, also an array."""
    # The largest ellipse with foci at the interval's ends in the strip of imaginary parts below pi.
    half_axis = 2 * np.pi / np.maximum(length, 1e-9)
    rate = half_axis + np.sqrt(1 + half_axis**2)
    return np.ceil(-np.log(error) / np.log(rate)).astype(int)


def _range(x: Array) -> _Interval:
    return float(x.min()), float(x.max())


def _interpolated(rows: Rows, nodes: SizeNodes) -> list[Rows]:
    """The groups at the nodes; first, if this is faster, at nodes of short panels."""
    u, (low, high) = np.log(rows.bag_size), nodes.log_sizes
    between = nodes.log_variances
    n_variances = 1 if between is None else _n_nodes(between[1] - between[0], nodes.error)
    n_panel_nodes = _n_nodes((high - low) / _N_PANELS, nodes.error) * n_variances
    if len(rows.rows) > 2 * _N_PANELS * n_panel_nodes * rows.rows.shape[1]:
        panel = ((u - low) / (high - low) * (_N_PANELS - 1e-9)).astype(int)
        parts = [panel == k for k in np.unique(panel)]
        of_panels = [_at_nodes(rows.subset(p), nodes, _range(u[p])) for p in parts]
        rows = Rows.stacked([with_fewest_rows(Rows.stacked(list(panel))) for panel in of_panels])
    return list(_at_nodes(rows, nodes, nodes.log_sizes))


def _at_nodes(rows: Rows, nodes: SizeNodes, log_sizes: _Interval) -> Iterator[Rows]:
    """The groups of each sign at each node of these sizes, at most as many rows as columns."""
    u, of_size = _lagrange(np.log(rows.bag_size), log_sizes, nodes.error)
    variances, of_variance = np.zeros(1), np.ones((len(of_size), 1))
    if nodes.log_variances is not None:
        v, of_variance = _lagrange(np.log(rows.known_variance), nodes.log_variances, nodes.error)
        variances = np.exp(v)
    for j, size in enumerate(np.exp(u)):
        for k, variance in enumerate(variances):
            weight = rows.sign * of_size[:, j] * of_variance[:, k]
            for sign in (1, -1):
                part = sign * weight > 0
                if part.any():
                    some, root = rows.subset(part), np.sqrt(np.abs(weight[part]))
                    # QR unlike normal equations does not square the condition number.
                    R: Any = np.linalg.qr(some.rows * root[some.group][:, None], mode="r")
                    n_bags = np.abs(weight[part]) @ some.n_bags
                    values = (len(R), n_bags, size, variance, sign)
                    yield Rows(R, *(np.array([value]) for value in values))


def _lagrange(x: Array, interval: _Interval, error: float) -> tuple[Array, Array]:
    """Chebyshev nodes of the interval, shape (m,), and Lagrange polynomials at x, (n, m)."""
    low, high = interval
    if low == high:
        return np.array([low]), np.ones((len(x), 1))
    nodes = chebpts1(_n_nodes(high - low, error))
    m = len(nodes)
    # Chebyshev polynomials are orthogonal over the nodes: L_j = 1/m + 2/m sum_k T_k(x_j) T_k.
    inverse = chebvander(nodes, m - 1).T * (2 / m)
    inverse[0] /= 2
    polynomials = chebvander(2 * (x - low) / (high - low) - 1, m - 1) @ inverse
    return low + (high - low) * (nodes + 1) / 2, polynomials


def _fewest(rows: Rows, pair: Array) -> Rows:
    """The groups of a node, indices of its groups of sign 1 and of sign -1, in fewest rows."""
    blocks = [rows.rows[rows.start[g] : rows.start[g] + rows.length[g]] for g in pair]
    # They are Q_1 R and Q_2 R with Q_1'Q_1 + Q_2'Q_2 = I, so one basis makes both diagonal.
    Q, R = np.linalg.qr(np.vstack(blocks))
    values, axes = np.linalg.eigh((Q.T * np.repeat(rows.sign[pair], rows.length[pair])) @ Q)
    factor = (np.sqrt(np.abs(values)) * axes).T @ R
    sign, length = np.unique(np.where(values < 0, -1, 1), return_counts=True)
    n_bags = np.maximum(sign * (rows.sign[pair] @ rows.n_bags[pair]), 0)
    size, variance = (v[pair[: len(sign)]] for v in (rows.bag_size, rows.known_variance))
    return Rows(factor, length, n_bags, size, variance, sign)
