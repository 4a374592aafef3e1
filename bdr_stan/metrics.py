"""Scores of predictions overall, by bag size and by point: error, density, calibration.

A *predictive* is any object with ``mean`` and ``sd``, shape (n,), ``interval(level)``, the lower
and upper ends of the central intervals, ``cdf(y)``, the probability of a label below each of y,
and ``log_prob(y)``, the log predictive density of each label. A *class predictive*, of a
classifier, has ``classes``, the two labels, and ``mean``, the probability of the second.

All functions raise ValueError or TypeError for arrays of different lengths, NaN, values that are
not numbers, and levels outside (0, 1); the message names the argument and the bag.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from scipy.special import gammaln, xlogy

from bdr_stan.bags.checks import as_real_numbers
from bdr_stan.bags.matching import labels_in_order
from bdr_stan.predictive.classes import class_codes
from bdr_stan.predictive.distributions import (
    check_level,
    distance_to,
    distance_within,
    even_quantiles,
)
from bdr_stan.types import Array, ArrayLike, DataFrame, is_number

FEW_SIZES = 6  # at most this many distinct sizes are a class each
DEFAULT_EDGES = (1, 5, 20, 100)
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class HasCDF(Protocol):
    """Interface of predictives that calibration requires.

    Examples
    --------
    >>> from scipy import stats
    >>> from bdr_stan.metrics import calibration
    >>> calibration([0.1, 0.3, 0.5, 0.9], stats.uniform(), levels=[0.5])["coverage"].to_list()
    [0.5]
    """

    def cdf(self, y: ArrayLike, /) -> Array:
        """Probability of a label below each of `y`, shape (n,)."""


class HasQuantiles(Protocol):
    """Interface of predictives that the CRPS requires.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.metrics import crps
    >>> class Uniform:  # predicts labels uniform on (0, 1)
    ...     def quantile(self, q):
    ...         return np.asarray(q)[:, None] * np.ones(2)
    ...
    >>> round(crps([0.5, 1.0], Uniform()), 3)
    0.208
    """

    def quantile(self, q: ArrayLike, /) -> Array:
        """Quantiles at levels `q`, shape (k,), of each bag: shape (k, n)."""


class HasDensity(Protocol):
    """Interface of predictives that errors, densities and intervals require.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from bdr_stan.metrics import table_by_size
    >>> class Normal:  # of your own model
    ...     def __init__(self, mean, sd):
    ...         self.mean, self.law = np.asarray(mean), stats.norm(mean, sd)
    ...     def interval(self, level):
    ...         return self.law.interval(level)
    ...     def log_prob(self, y):
    ...         return self.law.logpdf(y)
    ...
    >>> table_by_size([1.0, 2.0, 3.0], Normal([1.5, 2.0, 3.5], 1.0), sizes=[5, 5, 20]).round(3)
          n_bags    mse    nll  coverage  width
    size
    5          2  0.125  0.981       1.0   3.92
    20         1  0.250  1.044       1.0   3.92
    all        3  0.167  1.002       1.0   3.92
    """

    mean: Array

    def interval(self, level: float, /) -> tuple[Array, Array]:
        """Lower and upper ends, shape (n,), of central intervals of probability `level`."""

    def log_prob(self, y: ArrayLike, /) -> Array:
        """Log predictive density of the label `y` of each bag, shape (n,)."""


class HasClasses(Protocol):
    """Interface of class predictives that scores require.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.metrics import classes_by_size
    >>> class Coins:  # of your own model
    ...     classes = np.array(["sick", "well"])
    ...     mean = np.array([0.2, 0.9, 0.6])
    ...     def log_prob(self, y):
    ...         return np.log(np.where(np.asarray(y) == "well", self.mean, 1 - self.mean))
    ...
    >>> classes_by_size(["sick", "well", "sick"], Coins(), sizes=[5, 5, 20])["accuracy"].round(3)
    size
    5      1.000
    20     0.000
    all    0.667
    Name: accuracy, dtype: float64
    """

    mean: Array
    classes: Array

    def log_prob(self, y: ArrayLike, /) -> Array:
        """Log probability of the class `y` of each bag, shape (n,)."""


def mse(y: ArrayLike, mean: ArrayLike) -> float:
    """Mean squared error, in squared units of y.

    Parameters
    ----------
    y, mean : arrays, shape (n,), labels and predictions

    Examples
    --------
    >>> from bdr_stan.metrics import mse
    >>> mse([1.0, 2.0, 3.0], [1.0, 2.0, 6.0])
    3.0
    """
    y, mean = _same_length(y=y, mean=mean)
    return float(np.mean((y - mean) ** 2))


def coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Share of labels inside their intervals, ends included, from 0 to 1.

    Parameters
    ----------
    y, lower, upper : arrays, shape (n,), labels and ends of their intervals

    Examples
    --------
    >>> from bdr_stan.metrics import coverage
    >>> coverage([1.0, 2.0, 3.0, 9.0], lower=[0.0, 2.0, 2.0, 3.0], upper=[2.0, 4.0, 4.0, 5.0])
    0.75
    """
    y, lower, upper = _same_length(y=y, lower=lower, upper=upper)
    return float(np.mean((lower <= y) & (y <= upper)))


def interval_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """Mean width of intervals, in units of y.

    Parameters
    ----------
    lower, upper : arrays, shape (n,), ends of the intervals

    Examples
    --------
    >>> from bdr_stan.metrics import interval_width
    >>> interval_width(lower=[0.0, 2.0], upper=[2.0, 6.0])
    3.0
    """
    lower, upper = _same_length(lower=lower, upper=upper)
    return float(np.mean(upper - lower))


def interval_score(
    y: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, level: float = 0.95
) -> float:
    """Mean interval score of central intervals, in units of y; lower is better.

    The width, and 2 / (1 - level) times the distance of the label if it is outside. In expectation
    it is lowest for the true quantiles.

    Parameters
    ----------
    y, lower, upper : see `coverage`
    level : float in (0, 1), default 0.95, probability of the intervals

    Notes
    -----
    Source: Gneiting and Raftery (2007), "Strictly proper scoring rules, prediction, and
    estimation", eq. 43.

    Examples
    --------
    >>> from bdr_stan.metrics import interval_score
    >>> interval_score([1.0, 5.0], lower=[0.0, 2.0], upper=[2.0, 4.0], level=0.5)
    4.0
    """
    check_level(level)
    y, lower, upper = _same_length(y=y, lower=lower, upper=upper)
    outside = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return float(np.mean(upper - lower + 2 / (1 - level) * outside))


def crps(y: ArrayLike, predictive: HasQuantiles) -> float:
    """Mean continuous ranked probability score, in units of y; lower is better.

    E|Y - y| - E|Y - Y'| / 2, with Y and Y' independent and distributed as predicted: the absolute
    error of a prediction without uncertainty. 200 even quantiles represent each distribution, which
    changes the score of a normal distribution by less than 0.002 of its standard deviation.

    Parameters
    ----------
    y : array, shape (n,)
        Labels; a Series is matched to the predictive's ids.
    predictive : object with ``quantile(q)``
        As from `predictive` of regressors, also of counts.

    Notes
    -----
    Source: Gneiting and Raftery (2007), "Strictly proper scoring rules, prediction, and
    estimation", section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive
    >>> from bdr_stan.metrics import crps
    >>> standard = Predictive(lambda i: (np.zeros((1, len(i))), np.ones((1, len(i)))), 2, 1)
    >>> round(crps([0.0, 3.0], standard), 2)
    1.34
    """
    y = labels_in_order(y, predictive)
    quantiles = even_quantiles(predictive)
    y, _ = _same_length(y=y, predictions=quantiles[0])
    return float(np.mean(distance_to(y, quantiles) - distance_within(quantiles) / 2))


def size_classes(sizes: ArrayLike, edges: ArrayLike | None = None) -> dict[str, Array]:
    """Classes of bag sizes, from small to large.

    Parameters
    ----------
    sizes : array, shape (n,), number of points of each bag
    edges : increasing numbers, the largest size of each class but the last; None (default) for the
        distinct sizes if there are at most six, else (1, 5, 20, 100)

    Returns
    -------
    dict, name ("1", "2-5", ..., ">100") -> boolean array, shape (n,); empty classes are omitted

    Raises
    ------
    ValueError : `edges` do not increase.

    Examples
    --------
    >>> from bdr_stan.metrics import size_classes
    >>> sizes = [1, 3, 3, 70, 400]
    >>> {name: bags.sum().item() for name, bags in size_classes(sizes, edges=[1, 10, 100]).items()}
    {'1': 1, '2-10': 2, '11-100': 1, '>100': 1}
    >>> list(size_classes(sizes))
    ['1', '3', '70', '400']
    """
    sizes = np.asarray(sizes)
    distinct = np.unique(sizes)
    if edges is None and len(distinct) <= FEW_SIZES:
        return {f"{size:g}": sizes == size for size in distinct}
    edges = np.asarray(DEFAULT_EDGES if edges is None else edges)
    if _numbers(edges, "edges").ndim != 1 or len(edges) == 0 or (np.diff(edges) <= 0).any():
        raise ValueError(f"edges of size classes must increase, found {edges.tolist()}")
    number = np.searchsorted(edges, sizes)  # size <= edges[number]
    starts = [min(1, edges[0]), *(edges[:-1] + 1)]
    names = [f"{a:g}" if a == b else f"{a:g}-{b:g}" for a, b in zip(starts, edges)]
    names.append(f">{edges[-1]:g}")
    return {name: number == k for k, name in enumerate(names) if (number == k).any()}


def table_by_size(
    y: ArrayLike,
    predictive: HasDensity,
    sizes: ArrayLike,
    *,
    edges: ArrayLike | None = None,
    level: float = 0.95,
) -> "DataFrame":
    """Error, density and coverage by bag size, and over all bags.

    Parameters
    ----------
    y : array, shape (n,), labels
    predictive : `HasDensity`, e.g. `Predictive`
    sizes : array, shape (n,), number of points of each bag
    edges : see `size_classes`
    level : float in (0, 1), default 0.95, probability of the central intervals

    Returns
    -------
    pandas.DataFrame, index "size" with a last row "all"; columns n_bags; mse, in squared units
    of y; nll, the mean negative log predictive density; coverage and width (units of y) of the
    intervals

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive
    >>> from bdr_stan.metrics import table_by_size
    >>> mean, sd = np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[1.0, 1.0, 0.2, 0.2]])
    >>> predictive = Predictive(lambda i: (mean[:, i], sd[:, i]), n_bags=4, n_draws=1)
    >>> table_by_size([1.5, 1.0, 3.1, 4.5], predictive, sizes=[1, 1, 50, 50]).round(2)
          n_bags   mse   nll  coverage  width
    size
    1          2  0.62  1.23      1.00   3.92
    50         2  0.13  0.93      0.50   0.78
    all        4  0.38  1.08      0.75   2.35
    """

    check_level(level)
    y = labels_in_order(y, predictive)
    lower, upper = predictive.interval(level)
    y, mean, lower, upper, log_prob, sizes = _same_length(
        y=y,
        mean=predictive.mean,
        lower=lower,
        upper=upper,
        log_prob=predictive.log_prob(y),
        sizes=sizes,
    )

    def scores(bags):
        return {
            "mse": mse(y[bags], mean[bags]),
            "nll": float(-log_prob[bags].mean()),
            "coverage": coverage(y[bags], lower[bags], upper[bags]),
            "width": interval_width(lower[bags], upper[bags]),
        }

    return _scores_by_size(scores, sizes, edges)


def calibration(
    y: ArrayLike,
    predictive: HasCDF,
    levels: Sequence[float] = LEVELS,
    *,
    sizes: ArrayLike | None = None,
    edges: ArrayLike | None = None,
) -> "DataFrame":
    """Coverage of central intervals against their nominal probability.

    Parameters
    ----------
    y, sizes, edges : see `table_by_size`; `sizes` None for all bags together
    predictive : `HasCDF`, e.g. `Predictive`
    levels : numbers in (0, 1), default 0.1, 0.2, ..., 0.9 and 0.95

    Returns
    -------
    pandas.DataFrame, one row per class of sizes and level; columns size (the name of the class,
    last "all"), level, coverage, and se, the standard error of the coverage of the same number
    of independent, calibrated intervals

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive
    >>> from bdr_stan.metrics import calibration
    >>> y = np.random.default_rng(0).normal(size=2000)
    >>> too_wide = Predictive(lambda i: (np.zeros((1, len(i))), np.full((1, len(i)), 2.0)), 2000, 1)
    >>> calibration(y, too_wide, levels=[0.5, 0.9]).round(1)
      size  level  coverage   se
    0  all    0.5       0.8  0.0
    1  all    0.9       1.0  0.0
    """
    import pandas as pd

    y = labels_in_order(y, predictive)
    classes = _classes_and_all(sizes, edges, len(y))
    _check_levels(levels)
    smallest_level = _smallest_levels(y=y, cdf=predictive.cdf(y))
    rows = []
    for level in levels:
        for name, mask in classes.items():
            share = float(np.mean(smallest_level[mask] <= level))
            rows.append((name, level, share, np.sqrt(level * (1 - level) / mask.sum())))
    return pd.DataFrame(rows, columns=["size", "level", "coverage", "se"])


def classes_by_size(
    y: ArrayLike, predictive: HasClasses, sizes: ArrayLike, *, edges: ArrayLike | None = None
) -> "DataFrame":
    """Log loss, Brier score and accuracy of a classifier by bag size, and over all bags.

    Parameters
    ----------
    y : array, shape (n,), labels among ``predictive.classes``
    predictive : `HasClasses`, e.g. `ClassPredictive`
    sizes, edges : see `table_by_size`

    Returns
    -------
    pandas.DataFrame, index "size" with a last row "all"; columns n_bags; log_loss, the mean
    negative log probability of the label; brier, the mean squared distance of the probability
    of the second class from 0 or 1; accuracy, the share of labels that are the more probable class

    Raises
    ------
    ValueError : a label that is not a class.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import ClassPredictive
    >>> from bdr_stan.metrics import classes_by_size
    >>> p = np.array([[0.2, 0.9, 0.6, 0.99]])
    >>> predictive = ClassPredictive(
    ...     lambda i: (np.log(1 - p[:, i]), np.log(p[:, i])), 4, 1, np.array(["sick", "well"])
    ... )
    >>> y = ["sick", "well", "sick", "well"]
    >>> classes_by_size(y, predictive, sizes=[1, 1, 1, 50]).round(3)
          n_bags  log_loss  brier  accuracy
    size
    1          3     0.415  0.137     0.667
    50         1     0.010  0.000     1.000
    all        4     0.314  0.103     0.750
    """

    y = labels_in_order(y, predictive)
    second, p, sizes = _same_length(y=_codes(predictive, y), mean=predictive.mean, sizes=sizes)
    log_prob = predictive.log_prob(y)

    def scores(bags):
        return {
            "log_loss": float(-log_prob[bags].mean()),
            "brier": mse(second[bags], p[bags]),
            "accuracy": float(np.mean(second[bags] == (p[bags] > 0.5))),
        }

    return _scores_by_size(scores, sizes, edges)


def _scores_by_size(
    scores: Callable[[Array], dict[str, float]], sizes: Array, edges: ArrayLike | None
) -> "DataFrame":
    """Table of `scores(mask)` per class of bag sizes, with a last row "all"."""
    import pandas as pd

    classes = _classes_and_all(sizes, edges, len(sizes))
    rows = {name: {"n_bags": int(mask.sum()), **scores(mask)} for name, mask in classes.items()}
    return pd.DataFrame.from_dict(rows, orient="index").astype({"n_bags": int}).rename_axis("size")


def _classes_and_all(sizes: ArrayLike | None, edges: ArrayLike | None, n: int) -> dict[str, Array]:
    """Masks of n bags by class of sizes, none without sizes, and a last one of all bags."""
    everything = np.ones(n, dtype=bool)
    if sizes is None:
        return {"all": everything}
    sizes, _ = _same_length(sizes=sizes, y=everything)
    return size_classes(sizes, edges) | {"all": everything}


def reliability(
    y: ArrayLike,
    predictive: HasClasses,
    n_bins: int = 10,
    *,
    sizes: ArrayLike | None = None,
    edges: ArrayLike | None = None,
) -> "DataFrame":
    """Share of the second class among bags with similar predicted probability.

    Parameters
    ----------
    y, predictive, sizes, edges : see `classes_by_size`; `sizes` None for all bags together
    n_bins : int, >= 1, default 10, bins of equal width of the predicted probability

    Returns
    -------
    pandas.DataFrame, one row per class of sizes and non-empty bin; columns size (the name of the
    class, last "all"), n_bags, predicted (the bin's mean probability), observed (its share of the
    second class), and se, the standard error of the share if each probability is correct

    Raises
    ------
    ValueError : a label that is not a class, or no bin.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import ClassPredictive
    >>> from bdr_stan.metrics import reliability
    >>> p = np.array([[0.1, 0.2, 0.2, 0.8, 0.9, 0.9]])
    >>> predictive = ClassPredictive(
    ...     lambda i: (np.log(1 - p[:, i]), np.log(p[:, i])), 6, 1, np.array(["sick", "well"])
    ... )
    >>> y = ["sick", "well", "sick", "well", "well", "well"]
    >>> reliability(y, predictive, n_bins=2).round(3)
      size  n_bags  predicted  observed     se
    0  all       3      0.167     0.333  0.213
    1  all       3      0.867     1.000  0.194
    """
    import pandas as pd

    if not is_number(n_bins) or not (n_bins >= 1 and n_bins == int(n_bins)):
        raise ValueError(f"n_bins must be a whole number, >= 1, found {n_bins!r}")
    y = labels_in_order(y, predictive)
    second, p = _same_length(y=_codes(predictive, y), mean=predictive.mean)
    bin_number = np.minimum((p * n_bins).astype(int), n_bins - 1)
    rows = []
    for name, mask in _classes_and_all(sizes, edges, len(p)).items():
        for k in np.unique(bin_number[mask]):
            here = mask & (bin_number == k)
            n, variance = here.sum(), np.sum(p[here] * (1 - p[here]))
            rows.append((name, int(n), p[here].mean(), second[here].mean(), np.sqrt(variance) / n))
    return pd.DataFrame(rows, columns=["size", "n_bags", "predicted", "observed", "se"])


def poisson_nll(y: ArrayLike, rate: ArrayLike) -> float:
    """Mean negative log probability of counts under Poisson distributions.

    Parameters
    ----------
    y : array, shape (n,), counts of the individuals (or of the bags)
    rate : array, shape (n,), >= 0, their predicted means

    Returns
    -------
    float, infinite if a count above 0 has rate 0

    Raises
    ------
    ValueError : a label that is not a count, or a negative rate.

    Source: Law et al. (2018), "Variational learning on aggregate outputs", section 4, with
    log y! exact.

    Examples
    --------
    >>> import math
    >>> from bdr_stan.metrics import poisson_nll
    >>> math.isclose(poisson_nll([0, 2], rate=[1.0, 2.0]), (1 + 2 - math.log(2)) / 2)
    True
    >>> poisson_nll([0, 2], rate=[1.0, 0.0])
    inf
    """
    y, rate = _same_length(y=y, rate=rate, unit="individual")
    _check_each("y", y, (y >= 0) & (y == np.floor(y)), "counts are 0, 1, 2, ..")
    _check_each("rate", rate, rate >= 0, "rates are >= 0")
    return float(np.mean(rate - xlogy(y, rate) + gammaln(y + 1)))


def point_calibration(
    truth: ArrayLike, predictive: HasCDF, levels: Sequence[float] = LEVELS
) -> "DataFrame":
    """Share of points with their true rate in central intervals, at several levels.

    Parameters
    ----------
    truth : array, shape (n,), true rates, known if data are simulated
    predictive : object with ``cdf(rate)``, the posterior probability, shape (n,), of a rate of at
        most each value, e.g. `PointPredictive`
    levels : numbers in (0, 1), default 0.1, 0.2, ..., 0.9 and 0.95

    Returns
    -------
    pandas.DataFrame, columns level and coverage, see `calibration`; without a standard error,
    because errors of neighbouring points are correlated

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from bdr_stan.metrics import point_calibration
    >>> rng = np.random.default_rng(0)
    >>> posterior = stats.gamma(rng.uniform(1, 5, 5000))
    >>> point_calibration(posterior.rvs(random_state=rng), posterior, levels=[0.5, 0.9]).round(1)
       level  coverage
    0    0.5       0.5
    1    0.9       0.9
    """
    import pandas as pd

    _check_levels(levels)
    smallest_level = _smallest_levels(truth=truth, cdf=predictive.cdf(truth), unit="point")
    shares = [float(np.mean(smallest_level <= level)) for level in levels]
    return pd.DataFrame({"level": list(levels), "coverage": shares})


def _numbers(values: ArrayLike, name: str) -> Array:
    """Values as floats; TypeError if they are not numbers."""
    try:
        return as_real_numbers(values)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers: pass a numeric array") from None


def _smallest_levels(unit: str = "bag", **values_and_cdf: ArrayLike) -> Array:
    """Smallest levels of central intervals that contain the values: |2 cdf - 1|, shape (n,)."""
    _, cdf = _same_length(unit, **values_and_cdf)
    return np.abs(2 * cdf - 1)


def _check_levels(levels: Sequence[float]) -> None:
    if len(levels) == 0:
        raise ValueError("levels is empty: give at least one probability")
    for level in levels:
        check_level(level)


def _check_each(name: str, values: Array, good: Array, rule: str) -> None:
    """Raise ValueError for the first value that is not `good`."""
    if not good.all():
        i = int(np.argmin(good))
        raise ValueError(f"{name} is {values[i]:.15g} at individual {i}: {rule}")


def _codes(predictive, y):
    """Codes of labels among the classes of a class predictive."""
    if not hasattr(predictive, "classes"):
        raise TypeError(
            f"a {type(predictive).__name__} has no classes: pass the predictive distribution of a "
            "classifier"
        )
    return class_codes(predictive.classes, np.asarray(y))


def _same_length(unit: str = "bag", **arrays: ArrayLike) -> tuple[Array, ...]:
    """Numeric arrays in the given order, checked for equal length and NaN."""
    arrays = {name: _numbers(values, name) for name, values in arrays.items()}
    (first, reference), *_ = arrays.items()
    for name, values in arrays.items():
        if values.ndim != 1 or len(values) != len(reference):
            raise ValueError(
                f"{name} has shape {values.shape} and {first} has shape {reference.shape}: "
                f"both must have one value for each {unit}"
            )
        if np.isnan(values).any():
            raise ValueError(f"{name} is NaN at {unit} {int(np.isnan(values).argmax())}")
    if len(reference) == 0:
        raise ValueError(f"there are no {unit}s to score")
    return tuple(arrays.values())
