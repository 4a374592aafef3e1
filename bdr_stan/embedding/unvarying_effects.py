"""Leaves out the effects of columns whose distribution is the same in all bags."""

from functools import reduce
from operator import add

import numpy as np
from scipy.stats import f

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.kernels import Kernel
from bdr_stan.kernels.summands import rank, summands
from bdr_stan.types import Array

_LEVEL = 0.1  # p-value above which an effect is dropped; no labels are used


def can_be_tested(sizes: Array) -> bool:
    """Whether bags of these sizes, two points on average, show the variance within bags."""
    return bool(np.sum(sizes - 1) >= len(sizes))


def varying_effects(kernel: Kernel, landmarks: Array, embedding: Embedding) -> tuple[Kernel, Array]:
    """The kernel without effects that do not differ between bags; which landmarks are kept, (d,).

    An effect is dropped if the bags' means of its features differ no more than those of samples
    of one population, by an F test (one-way analysis of variance of several features).
    """
    p = landmarks.shape[1]
    looked_at, parts = np.isfinite(landmarks), summands(kernel, p)
    kept = np.ones(len(landmarks), bool)
    for columns, part in list(parts.items()):
        of_part = (looked_at == np.isin(np.arange(p), columns)).all(axis=1)
        if rank(part, p) is not None and p_value(embedding, of_part) > _LEVEL:
            del parts[columns]
            kept[of_part] = False
    return reduce(add, parts.values()), kept


def p_value(embedding: Embedding, features: Array) -> float:
    """P-value of equal means of these features, (d,) booleans, in all bags."""
    embedding, sizes = embedding.columns(features), embedding.sizes
    assert embedding.covariance is not None
    values, axes = np.linalg.eigh(embedding.covariance)
    known = values > 1e-9 * values[-1]  # levels of a category sum to 1
    between = np.diag(axes.T @ embedding.scatter @ axes)[known] / values[known]
    degrees = known.sum() * (len(sizes) - 1)
    return float(f.sf(between.sum() / degrees, degrees, np.sum(sizes - 1)))
