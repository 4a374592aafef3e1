"""Groups of bags of many sizes replaced by groups at a few nodes, with the same likelihood.

Given the parameters, the log likelihood of a bag depends on its size N and on the known variance v
of its label through functions that are analytic in log N and log v wherever the imaginary parts
are below pi: shrinkage factors are logistic in log N, and the variance of a label is a positive
combination of 1 / (1 + N / c), 1 / N, v and 1, whose sum has no zero there. Interpolation at
Chebyshev nodes therefore converges geometrically, for all parameters at once, and the rows
r_i = [z, x, 1, y] enter only by the matrices

    S_j = sum over bags i of L_j(log N_i) r_i r_i'

with L_j the Lagrange polynomial of node j. It is negative for some bags, so S_j is a difference of
two Gram matrices.
"""

from collections.abc import Iterator

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander

from bdr_stan.embedding.compression import Rows
from bdr_stan.types import Array

# The geometric rate to the power of the number of nodes. Relative errors of log likelihoods are
# some 50 times smaller.
_TOLERANCE = 1e-10
# Of the smallest and of the largest sizes so many may keep groups of their own: many bags of one
# small size need no more rows than a node, and a few huge bags would widen the interval.
_MOST_KEPT = 50
# A gradient of the Stan programs takes as long for one more group as for so many rows.
_ROWS_OF_GROUP = 20
_N_PANELS = 16  # of equal length in log N, where rows are so many that panels come first


def at_size_nodes(rows: Rows) -> Rows:
    """These rows, or, where a gradient is quicker, rows at nodes of size and known variance."""
    known = rows.known_variance > 0  # whose logarithms can be interpolated
    parts = [_cheapest(rows.of_groups(part)) for part in (~known, known) if part.any()]
    return Rows.stacked([part for some in parts for part in some])


def _cheapest(rows: Rows) -> list[Rows]:
    """Groups that stay as they are, and those at nodes, so that a gradient costs least."""
    log_sizes, size_of = np.unique(np.log(rows.bag_size), return_inverse=True)
    cost = np.bincount(size_of, rows.length + _ROWS_OF_GROUP)
    cost_before = np.append(0, np.cumsum(cost))
    # A node has a group of each sign.
    per_node = (rows.rows.shape[1] + 2 * _ROWS_OF_GROUP) * _n_nodes(np.ptp(_log_variance(rows)))
    least, inside = cost_before[-1], np.zeros(len(size_of), bool)
    for first in range(min(len(log_sizes), _MOST_KEPT)):
        last = np.arange(max(first, len(log_sizes) - _MOST_KEPT), len(log_sizes))
        kept = cost_before[first] + cost_before[-1] - cost_before[last + 1]
        costs = kept + per_node * _n_nodes(log_sizes[last] - log_sizes[first])
        best = np.argmin(costs)
        if costs[best] < least:
            least, inside = costs[best], (size_of >= first) & (size_of <= last[best])
    if not inside.any():
        return [rows]
    kept = [rows.of_groups(~inside)] if not inside.all() else []
    return [*kept, _interpolated(rows.of_groups(inside))]


def _n_nodes(length):
    """Chebyshev nodes on an interval of log N or log v of this length, also an array."""
    # The largest ellipse with foci at the interval's ends in the strip of imaginary parts below pi.
    half_axis = 2 * np.pi / np.maximum(length, 1e-9)
    rate = half_axis + np.sqrt(1 + half_axis**2)
    return np.ceil(-np.log(_TOLERANCE) / np.log(rate)).astype(int)


def _log_variance(rows):
    return np.log(np.where(rows.known_variance > 0, rows.known_variance, 1))


def _interpolated(rows: Rows) -> Rows:
    """The groups at nodes of all sizes; first, where this is faster, at those of short panels."""
    u = np.log(rows.bag_size)
    n_panel_nodes = _n_nodes(np.ptp(u) / _N_PANELS) * _n_nodes(np.ptp(_log_variance(rows)))
    if len(rows.rows) > 2 * _N_PANELS * n_panel_nodes * rows.rows.shape[1]:
        panel = ((u - u.min()) / np.ptp(u) * (_N_PANELS - 1e-9)).astype(int)
        of_panels = (_at_nodes(rows.of_groups(panel == k)) for k in np.unique(panel))
        rows = Rows.stacked([node for nodes in of_panels for node in nodes])
    return Rows.stacked(list(_at_nodes(rows)))


def _at_nodes(rows: Rows) -> Iterator[Rows]:
    """The groups at each node: rows with sign -1 and with sign 1, of one size and variance."""
    log_sizes, of_size = _lagrange(np.log(rows.bag_size))
    log_variances, of_variance = _lagrange(_log_variance(rows))
    variances = np.exp(log_variances) * (rows.known_variance[0] > 0)
    for j, size in enumerate(np.exp(log_sizes)):
        for k, variance in enumerate(variances):
            weight = rows.sign * of_size[:, j] * of_variance[:, k]
            signs, factor = _signed_factor(rows.rows, weight[rows.group])
            sign, length = np.unique(signs, return_counts=True)
            n_bags = np.maximum(sign * (weight @ rows.n_bags), 0)
            of_node = np.ones(len(sign))
            yield Rows(factor, length, n_bags, size * of_node, variance * of_node, sign)


def _lagrange(x: Array) -> tuple[Array, Array]:
    """Chebyshev nodes, shape (m,), on the range of x, and Lagrange polynomials at x, (n, m)."""
    low, high = x.min(), x.max()
    if low == high:
        return np.array([low]), np.ones((len(x), 1))
    nodes = chebpts1(_n_nodes(high - low))
    m = len(nodes)
    # Chebyshev polynomials are orthogonal over the nodes: L_j = 1/m + 2/m sum_k T_k(x_j) T_k.
    inverse = chebvander(nodes, m - 1).T * (2 / m)
    inverse[0] /= 2
    polynomials = chebvander(2 * (x - low) / (high - low) - 1, m - 1) @ inverse
    return low + (high - low) * (nodes + 1) / 2, polynomials


def _signed_factor(rows: Array, weight: Array) -> tuple[Array, Array]:
    """Signs s and at most as many rows F as columns, with F' diag(s) F = rows' diag(weight) rows.

    Rows with sign -1 come first. The Gram matrices of positive and negative weights enter by QR
    decompositions, which unlike normal equations do not square the condition number.
    """
    blocks = [
        np.linalg.qr(rows[part] * np.sqrt(np.abs(weight[part]))[:, None], mode="r")
        for part in (weight > 0, weight < 0)
    ]
    # They are Q_1 R and Q_2 R with Q_1'Q_1 + Q_2'Q_2 = I, so that one basis makes both diagonal.
    Q, R = np.linalg.qr(np.vstack(blocks))
    signs = np.repeat([1.0, -1.0], [len(block) for block in blocks])
    values, axes = np.linalg.eigh((Q.T * signs) @ Q)
    return np.where(values < 0, -1, 1), (np.sqrt(np.abs(values)) * axes).T @ R
