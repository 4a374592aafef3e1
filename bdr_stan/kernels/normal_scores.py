"""A kernel on the normal scores of one column, for columns that are skewed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from bdr_stan.bags import Bags, BagsLike, as_bags
from bdr_stan.kernels.kernel import ColumnKernel, Kernel, store_arrays
from bdr_stan.kernels.shapes import RBF
from bdr_stan.types import Array, ArrayLike, Seed

_POINTS_FOR_QUANTILES = 20_000
_KNOTS = 101  # quantiles; scores are interpolated between them


@dataclass(frozen=True, eq=False, repr=False)
class NormalScores(ColumnKernel):
    """k(z(x), z(y)), z(x) the normal score of a column: a quantile of N(0, 1) of the same rank.

    Distances, incomes and hours of travel have long tails, and most of their effect is at small
    values: on the scale of ranks one length is enough.

    Parameters
    ----------
    base : Kernel, default RBF(1.0)
        Kernel of the scores, without columns.
    columns : sequence of one name or index
        The column.
    variance : float, > 0, default 1
        Factor on the values.
    knots : array of shape (2, q), optional
        Values of the column, ascending, and their scores, between which scores are interpolated;
        estimators set them to quantiles of the points. Beyond the ends scores are constant.

    Raises
    ------
    TypeError, ValueError : a base that is not a kernel or has columns, none or several columns, or
        a variance that is not positive; at evaluation, a column that is constant.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.kernels import RBF, NormalScores
    >>> hours = np.random.default_rng(0).lognormal(sigma=2, size=(2000, 1))
    >>> kernel = NormalScores(RBF(1.0), columns=[0]).resolved([hours])
    >>> quartiles = np.quantile(hours, [0.25, 0.5, 0.75])[:, None]
    >>> kernel.scores(quartiles).ravel().round(2)
    array([-0.67,  0.  ,  0.68])
    >>> kernel(quartiles, quartiles).round(2)
    array([[1. , 0.8, 0.4],
           [0.8, 1. , 0.8],
           [0.4, 0.8, 1. ]])
    """

    base: Kernel = field(default_factory=lambda: RBF(1.0))
    columns: Sequence[str | int] | None = None
    variance: float = 1.0
    knots: ArrayLike | None = field(default=None, repr=False)

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.base, Kernel):
            raise TypeError(f"base of NormalScores must be a Kernel, found {self.base!r}")
        if getattr(self.base, "columns", None) is not None:
            raise ValueError(
                "the base of NormalScores gets only scores: name the column as "
                f"NormalScores(base, columns=[{self.base.columns[0]!r}])"
            )
        if self.columns is None or len(self.columns) != 1:
            raise ValueError(
                f"NormalScores takes one column, found columns={self.columns!r}: name one"
            )
        store_arrays(self, "knots")

    def on(self, names: Sequence[str] | None, n_columns: int) -> Self:
        if names and self.columns is not None and self.columns[0] not in names:
            category = f"{self.columns[0]}="
            if any(name.startswith(category) for name in names):
                raise ValueError(
                    f"NormalScores takes one column of numbers, but {self.columns[0]!r} is a "
                    "category: give it to LinearEffects or another kernel"
                )
        return super().on(names, n_columns)

    def scores(self, points: Array) -> Array:
        """Normal scores of points, shape (n, p) to (n, 1)."""
        values, scores = self._knots
        return np.interp(self.select(np.asarray(points))[:, 0], values, scores)[:, None]

    @property
    def _knots(self):
        if self.knots is None:
            raise ValueError("NormalScores has no numbers yet: call resolved(bags)")
        return np.asarray(self.knots)

    def spaced(self, n: int) -> Array:
        """At most n values of the column with evenly spaced scores, ascending."""
        scores = self._knots[1]
        return np.unique(self.values(np.linspace(scores[0], scores[-1], n)))

    def values(self, scores: Array) -> Array:
        """Values of the column with these scores: the inverse of `scores`, same shape."""
        return np.interp(scores, *self._knots[::-1])

    def resolved(self, bags: BagsLike, *, seed: Seed = None) -> Self:
        if self.knots is not None:
            return self
        points = as_bags(bags, in_parts=True).sample_points(
            _POINTS_FOR_QUANTILES, np.random.default_rng(seed)
        )
        changed = replace(self, knots=_quantiles(self.select(points)[:, 0], self.columns))
        scores = Bags(changed.scores(points), [0, len(points)], copy=False)
        return replace(changed, base=self.base.resolved(scores, seed=seed))

    def prepare(self, landmarks: ArrayLike) -> Any:
        return self.base.prepare(self.scores(np.asarray(landmarks)))

    def fill(self, points: Array, prepared: Any, out: Array) -> None:
        self.base.evaluate(self.scores(points), prepared, out)

    def diagonal(self, x: ArrayLike) -> Array:
        return self.variance * self.base.diagonal(self.scores(np.asarray(x)))


def tail_ratios(points: Array) -> Array:
    """Length of the tails of columns, from points (n, p) to (p,); 0 if it is undefined.

    The distance from the median to the 1% or 99% quantile, relative to the distance to the quartile
    on the same side: 3.4 for a normal distribution, 5.6 for an exponential, 5.9 for Student's t
    with 3 degrees of freedom, 8.5 for a lognormal with log standard deviation 0.9.
    """
    low, left, median, right, high = np.quantile(points, [0.01, 0.25, 0.5, 0.75, 0.99], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.maximum((high - median) / (right - median), (median - low) / (median - left))
    return np.where(np.isfinite(ratios), ratios, 0.0)


class LongTails(NamedTuple):
    """What makes a column a measurement with a long tail, whose scores a kernel should compare."""

    tail_ratio: float  # above which a tail is long, see `tail_ratios`
    n_points: int  # with fewer, the 1% and 99% quantiles are too uncertain
    n_values: int  # distinct ones of a measurement; fewer are a code or a small count

    def columns(self, points: Array) -> list[int]:
        """Indices of such columns of points, shape (n, p)."""
        if len(points) < self.n_points:
            return []
        long = np.flatnonzero(tail_ratios(points) > self.tail_ratio).tolist()
        return [k for k in long if len(np.unique(points[:, k])) >= self.n_values]


def _quantiles(values, columns):
    """Quantiles of values, and their normal scores; equal quantiles share their mean score."""
    levels = (np.arange(_KNOTS) + 0.5) / _KNOTS
    quantiles = np.quantile(values, levels)
    knots, which = np.unique(quantiles, return_inverse=True)
    if len(knots) == 1:
        raise ValueError(f"column {columns[0]} is constant: leave it out of NormalScores")
    scores = np.bincount(which, ndtri(levels)) / np.bincount(which)
    return np.vstack([knots, scores])
