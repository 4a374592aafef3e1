"""Decisions of support vector machines from their dual coefficients, as libsvm's layout has them.

A machine of k classes is k (k - 1) / 2 machines of two. The support vectors lie class after class.
For the pair of classes i < j, the coefficients of those of class i are in row j - 1, of those of
class j in row i.
"""

import itertools

import numpy as np

from bdr_stan.types import Array


def pair_decisions(gram: Array, dual: Array, intercept: Array, n_support: Array) -> Array:
    """Decision of each pair of classes, positive for the first of the pair.

    From the kernel between points and support vectors, (m, n_sv), dual coefficients (k - 1, n_sv),
    intercepts (k (k - 1) / 2,) and the support vectors per class, (k,). Shape (m, k (k - 1) / 2),
    pairs (0, 1), (0, 2), .., (1, 2), ... Source: Chang and Lin (2011), "LIBSVM: a library for
    support vector machines", section 7.
    """
    ends = np.cumsum(n_support)
    rows = [slice(end - n, end) for n, end in zip(n_support, ends, strict=True)]
    pairs = itertools.combinations(range(len(n_support)), 2)
    decisions = [
        gram[:, rows[i]] @ dual[j - 1, rows[i]] + gram[:, rows[j]] @ dual[i, rows[j]]
        for i, j in pairs
    ]
    return np.column_stack(decisions) + intercept


def class_decisions(decisions: Array, n_classes: int) -> tuple[Array, Array]:
    """Votes for each class, (m, k), and a score that breaks their ties, (m, k).

    From `pair_decisions`, (m, k (k - 1) / 2): a vote is a pair that the class wins; the score adds
    the sum of the decisions for the class, scaled to less than 1/3.
    """
    votes, sums = np.zeros((2, len(decisions), n_classes))
    for (i, j), decision in zip(
        itertools.combinations(range(n_classes), 2), decisions.T, strict=True
    ):
        votes[:, i] += decision >= 0
        votes[:, j] += decision < 0
        sums[:, i] += decision
        sums[:, j] -= decision
    return votes, votes + sums / (3 * (np.abs(sums) + 1))
