"""Scores of predictions overall, by bag size and by point: error, density, calibration.

A *predictive* is any object with ``mean`` and ``sd``, shape (n,), ``interval(level)``, the lower
and upper ends, shape (n,), of the central intervals, ``quantile(q)``, shape (k, n) for k levels,
``cdf(y)``, the probability of a label below each of y, and ``log_prob(y)``, the log predictive
density of each label, shape (n,); each score names what it needs. A *class predictive*, of a
classifier, has ``classes``, the two labels, ``mean``, the probability of the second, and
``log_prob(y)``, the log probability of each label.

All functions raise ValueError or TypeError for arrays of different lengths, NaN, values that are
not numbers, and levels outside (0, 1); the message names the argument and the bag.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from bdr_stan.bags.checks import as_real_numbers
from bdr_stan.bags.matching import labels_in_order
from bdr_stan.predictive.classes import class_codes
from bdr_stan.predictive.distributions import (
    check_level,
    distance_to,
    distance_within,
    even_quantiles,
)
from bdr_stan.types import Array, ArrayLike, DataFrame, check_counts

FEW_SIZES = 6  # at most this many distinct sizes are a class each
DEFAULT_EDGES = (1, 5, 20, 100)
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
Prediction: TypeAlias = Any  # a predictive, or a class predictive


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


def crps(y: ArrayLike, predictive: Prediction) -> float:
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


def concordance(time: ArrayLike, event: ArrayLike, risk: ArrayLike) -> float:
    """Harrell's C: share of comparable pairs whose earlier event has the higher risk, ties half.

    Two times are comparable if the earlier one is of an event, or, of equal times, just one.

    Parameters
    ----------
    time, event : arrays, shape (n,), times, and 1 if of an event or 0 if censored
    risk : array, shape (n,), high if the event is expected early: ``-model.predict(bags)``

    Raises
    ------
    ValueError : no times are comparable, or an event is neither 0 nor 1.

    Examples
    --------
    >>> from bdr_stan.metrics import concordance
    >>> concordance([1, 2, 3, 4], event=[1, 1, 0, 1], risk=[9, 5, 7, 0])
    0.8
    """
    time, event, risk = _same_length(time=time, event=event, risk=risk)
    if not np.isin(event, (0, 1)).all():
        raise ValueError("events must be 1, or 0 if a time is censored")
    in_order, pairs = 0.0, 0
    for i in np.flatnonzero(event):
        others = risk[(time > time[i]) | ((time == time[i]) & (event == 0))]
        pairs += len(others)
        in_order += np.sum(others < risk[i]) + np.sum(others == risk[i]) / 2
    if not pairs:
        raise ValueError("no two times can be compared: no event is before another time")
    return float(in_order / pairs)


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
    predictive: Prediction,
    sizes: ArrayLike,
    *,
    edges: ArrayLike | None = None,
    level: float = 0.95,
) -> "DataFrame":
    """Error, density and coverage, or scores of classes, by bag size and over all bags.

    Parameters
    ----------
    y : array, shape (n,), labels; of classes among ``predictive.classes``
    predictive : e.g. `Predictive`, or an object with mean, interval and log_prob; or a class
        predictive, e.g. `ClassPredictive`
    sizes : array, shape (n,), number of points of each bag
    edges : see `size_classes`
    level : float in (0, 1), default 0.95, probability of the central intervals

    Returns
    -------
    pandas.DataFrame, index "size" with a last row "all"; columns n_bags, and
        of numbers mse, in squared units of y; nll, the mean negative log predictive density;
        coverage and width (units of y) of the intervals; of classes log_loss, the mean negative
        log probability of the label; brier, the mean squared distance of the probability of the
        second class from 0 or 1; accuracy, the share of labels that are the more probable class

    Raises
    ------
    ValueError : a label that is not a class.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive
    >>> from bdr_stan.metrics import table_by_size
    >>> mean, sd = np.array([[1.5, 2.0, 3.5]]), np.ones((1, 3))
    >>> predictive = Predictive(lambda i: (mean[:, i], sd[:, i]), 3, 1)
    >>> table_by_size([1.0, 2.0, 3.0], predictive, sizes=[5, 5, 20]).round(3)
          n_bags    mse    nll  coverage  width
    size
    5          2  0.125  0.981       1.0   3.92
    20         1  0.250  1.044       1.0   3.92
    all        3  0.167  1.002       1.0   3.92
    """
    import pandas as pd

    check_level(level)
    y = labels_in_order(y, predictive)
    if hasattr(predictive, "classes"):
        second, p, sizes = _same_length(y=_codes(predictive, y), mean=predictive.mean, sizes=sizes)
        scores = {"log_loss": -np.asarray(predictive.log_prob(y))}
        scores |= {"brier": (second - p) ** 2, "accuracy": second == (p > 0.5)}
    else:
        lower, upper = predictive.interval(level)
        y, mean, lower, upper, log_prob, sizes = _same_length(
            y=y,
            mean=predictive.mean,
            lower=lower,
            upper=upper,
            log_prob=predictive.log_prob(y),
            sizes=sizes,
        )
        scores = {"mse": (y - mean) ** 2, "nll": -log_prob}
        scores |= {"coverage": (lower <= y) & (y <= upper), "width": upper - lower}
    rows = {
        name: {"n_bags": int(mask.sum())}
        | {score: float(np.mean(values[mask])) for score, values in scores.items()}
        for name, mask in _classes_and_all(sizes, edges, len(sizes)).items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").astype({"n_bags": int}).rename_axis("size")


def calibration(
    y: ArrayLike,
    predictive: Prediction,
    levels: Sequence[float] = LEVELS,
    *,
    sizes: ArrayLike | None = None,
    edges: ArrayLike | None = None,
) -> "DataFrame":
    """Coverage of central intervals against their nominal probability.

    Parameters
    ----------
    y, sizes, edges : see `table_by_size`; `sizes` None for all bags together
    predictive : e.g. `Predictive`; or an object with ``cdf(y)``. With a `PointPredictive`, y are
        the true rates of points, known if data are simulated.
    levels : numbers in (0, 1), default 0.1, 0.2, ..., 0.9 and 0.95

    Returns
    -------
    pandas.DataFrame, one row per class of sizes and level; columns size (the name of the class,
    last "all"), level, coverage, and se, the standard error of the coverage of the same number
    of independent, calibrated intervals; errors of neighbouring points are not independent

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
    if len(levels) == 0:
        raise ValueError("levels is empty: give at least one probability")
    for level in levels:
        check_level(level)
    _, cdf = _same_length(y=y, cdf=predictive.cdf(y))
    smallest_level = np.abs(2 * cdf - 1)  # of the intervals that contain the label
    rows = []
    for level in levels:
        for name, mask in classes.items():
            share = float(np.mean(smallest_level[mask] <= level))
            rows.append((name, level, share, np.sqrt(level * (1 - level) / mask.sum())))
    return pd.DataFrame(rows, columns=["size", "level", "coverage", "se"])


def _classes_and_all(sizes: ArrayLike | None, edges: ArrayLike | None, n: int) -> dict[str, Array]:
    """Masks of n bags by class of sizes, none without sizes, and a last one of all bags."""
    everything = np.ones(n, dtype=bool)
    if sizes is None:
        return {"all": everything}
    sizes, _ = _same_length(sizes=sizes, y=everything)
    return size_classes(sizes, edges) | {"all": everything}


def reliability(
    y: ArrayLike,
    predictive: Prediction,
    n_bins: int = 10,
    *,
    sizes: ArrayLike | None = None,
    edges: ArrayLike | None = None,
) -> "DataFrame":
    """Share of the second class among bags with similar predicted probability.

    Parameters
    ----------
    y, sizes, edges : see `table_by_size`; `sizes` None for all bags together
    predictive : class predictive, e.g. `ClassPredictive`
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
    >>> from bdr_stan.predictive import ClassPredictive
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

    check_counts(n_bins=n_bins)
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


def _numbers(values: ArrayLike, name: str) -> Array:
    """Values as floats; TypeError if they are not numbers."""
    try:
        return as_real_numbers(values)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers: pass a numeric array") from None


def _codes(predictive, y):
    """Codes of labels among the classes of a class predictive."""
    if not hasattr(predictive, "classes"):
        raise TypeError(
            f"a {type(predictive).__name__} has no classes: pass the predictive distribution of a "
            "classifier"
        )
    return class_codes(predictive.classes, np.asarray(y))


def _same_length(**arrays: ArrayLike) -> tuple[Array, ...]:
    """Numeric arrays in the given order, checked for equal length and NaN."""
    arrays = {name: _numbers(values, name) for name, values in arrays.items()}
    (first, reference), *_ = arrays.items()
    for name, values in arrays.items():
        if values.ndim != 1 or len(values) != len(reference):
            raise ValueError(
                f"{name} has shape {values.shape} and {first} has shape {reference.shape}: "
                "both must have one value for each bag"
            )
        if np.isnan(values).any():
            raise ValueError(f"{name} is NaN at bag {int(np.isnan(values).argmax())}")
    if len(reference) == 0:
        raise ValueError("there are no bags to score")
    return tuple(arrays.values())
