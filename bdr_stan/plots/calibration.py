"""Calibration plots of intervals and class probabilities."""

from collections.abc import Mapping
from functools import partial
from itertools import cycle

import numpy as np
from scipy.stats import binom

from bdr_stan import metrics
from bdr_stan.bags.matching import labels_in_order
from bdr_stan.plots.style import (
    FEW_BAGS,
    GUIDE,
    MARKERS,
    MODELS,
    diagonal,
    names_as_written,
    of_each_model,
    one_axes,
    panels,
    shades,
    size_title,
    titled_classes,
)
from bdr_stan.types import ArrayLike, Axes, Figure

_PIT_BARS = 5
_N_DRAWS, _MOST_BARS = 200, 40  # of a rootogram: draws of predicted counts, bars


def calibration(
    y: ArrayLike,
    predictive: metrics.Prediction,
    sizes: ArrayLike | None = None,
    edges: ArrayLike | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Coverage of central intervals against their nominal probability.

    The shaded band is two standard errors about the diagonal, for calibrated predictions of all
    bags. Classes of fewer than 20 bags have no line, as their coverage is mostly chance; the
    legend lists them.

    Parameters
    ----------
    y, predictive, sizes, edges : see `plots.prediction`; `sizes` draw one more line per class
    ax : matplotlib Axes, which are returned; None for a new figure

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive, plots
    >>> normal = Predictive(lambda i: (np.zeros((1, len(i))), np.ones((1, len(i)))), 200, 1)
    >>> y, sizes = normal.sample(1, seed=0)[0], np.repeat([2, 50], 100)
    >>> ax = plots.calibration(y, normal, sizes)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('probability of the central interval', 'coverage of intervals')
    """
    table = metrics.calibration(y, predictive, sizes=sizes, edges=edges)
    lines = dict(iter(table.groupby("size", sort=False)))
    every = lines.pop("all")
    classes = {} if sizes is None else metrics.size_classes(sizes, edges)
    ax = one_axes() if ax is None else ax
    low, high = (every["level"] + sign * 2 * every["se"] for sign in (-1, 1))
    ax.fill_between(every["level"], low, high, color=GUIDE, alpha=0.25, linewidth=0)
    diagonal(ax, (0, 1))
    for (name, line), colour, marker in zip(lines.items(), shades(len(lines)), cycle(MARKERS)):
        n = classes[name].sum()
        if n < FEW_BAGS:
            ax.plot([], [], " ", label=f"{size_title(name, n)}: too few")
        else:
            label = size_title(name, n)
            ax.plot(line["level"], line["coverage"], marker=marker, ms=4, color=colour, label=label)
    ax.plot(every["level"], every["coverage"], color="black", label=f"all {len(y)} bags")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="probability of the central interval", ylabel="coverage of intervals")
    ax.legend(frameon=False, loc="upper left", fontsize="small")
    return ax


def pit(
    y: ArrayLike,
    predictive: metrics.Prediction,
    sizes: ArrayLike | None = None,
    edges: ArrayLike | None = None,
) -> "Figure":
    """Figure of histograms of the probability integral transform (PIT), by class of bag sizes.

    The PIT is the predicted probability of a label below the observed one. Calibrated predictions
    have bars of equal height, nearly all within the grey band. Bars are high at both ends if
    intervals are too short, high in the middle if they are too long, and high on one side if
    predictions are biased.

    Parameters
    ----------
    y, predictive, sizes, edges : see `plots.prediction`

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive, plots
    >>> normal = Predictive(lambda i: (np.zeros((1, len(i))), np.ones((1, len(i)))), 200, 1)
    >>> len(plots.pit(normal.sample(1, seed=0)[0], normal, sizes=np.repeat([2, 50], 100)).axes)
    2
    """
    below = np.asarray(predictive.cdf(labels_in_order(y, predictive)))
    classes = titled_classes(sizes, edges, len(below))
    axes = panels(1, len(classes))[0]
    for ax, (title, mask) in zip(axes, classes.items()):
        n = int(mask.sum())
        low, high = binom.interval(0.99, n, 1 / _PIT_BARS)
        share = np.histogram(below[mask], _PIT_BARS, (0, 1))[0] / n
        ax.axhspan(_PIT_BARS * low / n, _PIT_BARS * high / n, color=GUIDE, alpha=0.25, lw=0)
        ax.axhline(1, ls="--", lw=1, color=GUIDE)
        ax.stairs(_PIT_BARS * share, np.linspace(0, 1, _PIT_BARS + 1), color=MODELS[1], lw=1.5)
        ax.set(title=title, xlim=(0, 1), ylim=(0, None))
        ax.set_xlabel("PIT value")
    axes[0].set_ylabel("density, 1 if calibrated")
    return axes[0].figure


def rootogram(y: ArrayLike, predictive: metrics.Prediction, *, ax: "Axes | None" = None) -> "Axes":
    """Hanging rootogram of counts: how often each occurs, and how often it is predicted.

    The line is the square root of the predicted number of bags with a count; a bar of the square
    root of the observed number hangs from it. Bars that end above zero show counts that are rarer
    than predicted, bars below zero counts that are more frequent: of zeros, for instance. Large
    counts share bins of equal width.

    Parameters
    ----------
    y : array, shape (n,), counts
    predictive : predictive distribution of counts, with `sample`
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    ValueError : labels that are not counts.

    Notes
    -----
    Source: Kleiber, Zeileis (2016), "Visualizing count data regressions using rootograms".

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import plots
    >>> from bdr_stan.aggregate.likelihoods import LIKELIHOODS
    >>> from bdr_stan.predictive import AggregatePredictive
    >>> threes = np.full((1, 100), 3.0)
    >>> predictive = AggregatePredictive(lambda i: threes[:, i], 100, 1, LIKELIHOODS["poisson"])
    >>> ax = plots.rootogram(predictive.sample(1, seed=0)[0], predictive)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('count', 'square root of the number of bags')
    """
    y = np.asarray(y, float)
    if not np.all((y >= 0) & (y == np.floor(y))):
        raise ValueError("a rootogram is of counts 0, 1, 2, ...: for other labels draw pit")
    draws = predictive.sample(_N_DRAWS, seed=0)
    top = max(y.max(), np.quantile(draws, 0.99))
    width = max(1, int(np.ceil((top + 1) / _MOST_BARS)))
    edges = np.arange(0, top + 1 + width, width)
    observed = np.sqrt(np.histogram(y, edges)[0])
    expected = np.sqrt(np.histogram(draws, edges)[0] / _N_DRAWS)
    middle = edges[:-1] + (width - 1) / 2
    ax = one_axes() if ax is None else ax
    ax.bar(middle, -observed, 0.9 * width, bottom=expected, color=MODELS[0], alpha=0.6)
    ax.plot(middle, expected, "o-", ms=3, color="black", label="predicted")
    ax.axhline(0, lw=1, color=GUIDE)
    ax.set(xlabel="count", ylabel="square root of the number of bags")
    ax.legend()
    return ax


@names_as_written
def reliability(
    predictives: Mapping[str, metrics.Prediction],
    y: ArrayLike,
    sizes: ArrayLike,
    edges: ArrayLike | None = None,
    *,
    n_bins: int = 5,
) -> "Figure":
    """Figure of the share of the second class against its predicted probability, by bag size.

    Calibrated probabilities are on the diagonal, up to chance: bars are two standard errors of the
    share to either side. A curve steeper than the diagonal is underconfident, a flatter one
    overconfident. The area of points grows with their number of bags; lines join points of at least
    20 bags, other points are hollow.

    Parameters
    ----------
    predictives : dict, name of a model -> predictive of classes, see `bdr_stan.metrics`
    y, sizes, edges : see `plots.prediction`
    n_bins : int, default 5, bins of equal width of the predicted probability

    Raises
    ------
    TypeError : predictives that are not a dict.
    ValueError : no model, arrays of different lengths, or an unknown class.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import plots
    >>> from bdr_stan.predictive import ClassPredictive
    >>> p, classes = np.linspace(0.01, 0.99, 200)[None], np.array(["sick", "well"])
    >>> predictive = ClassPredictive(
    ...     lambda i: (np.log(1 - p[:, i]), np.log(p[:, i])), 200, 1, classes
    ... )
    >>> y, sizes = predictive.sample(1, seed=0)[0], np.tile([2, 50], 100)
    >>> [ax.get_title() for ax in plots.reliability({"model": predictive}, y, sizes).axes]
    ['2 points (100 bags)', '50 points (100 bags)']
    """
    score = partial(metrics.reliability, y, n_bins=n_bins, sizes=sizes, edges=edges)
    tables = of_each_model(predictives, score)
    classes = metrics.size_classes(sizes, edges)
    axes = panels(1, len(classes))[0]
    for ax, (name, mask) in zip(axes, classes.items()):
        diagonal(ax, (0, 1))
        for (model, table), colour, marker in zip(tables.items(), cycle(MODELS), cycle(MARKERS)):
            _reliability_curve(ax, table[table["size"] == name], colour, marker, label=model)
        ax.set(title=size_title(name, mask.sum()), xlabel="predicted probability")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes[0].figure.set_layout_engine("compressed")  # for a fixed aspect
    second = next(iter(predictives.values())).classes[1]
    axes[0].set_ylabel(f'observed share of "{second}"')
    axes[0].legend(frameon=False, loc="upper left", fontsize="small")
    return axes[0].figure


def _reliability_curve(ax, bins, colour, marker, label):
    """Draw shares of bins with two standard errors, joined if bins have enough bags."""
    x, share, n = bins["predicted"], bins["observed"], bins["n_bags"]
    many = n >= FEW_BAGS
    ax.plot(x, share.where(many), marker=marker, ms=4, lw=1, color=colour, label=label)
    ax.errorbar(x, share, 2 * bins["se"], fmt="none", elinewidth=1, capsize=2, ecolor=colour)
    faces = np.where(many, colour, "white")
    area = 10 + 90 * n / n.sum()
    ax.scatter(x, share, area, marker=marker, facecolors=faces, edgecolors=colour, zorder=3)
