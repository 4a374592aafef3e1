"""Plots of predictions against labels, by bag size."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from bdr_stan import metrics
from bdr_stan.bags.matching import labels_in_order
from bdr_stan.plots.style import (
    COVERS,
    MISSES,
    diagonal,
    names_as_written,
    of_each_model,
    panels,
    size_title,
    titled_classes,
)
from bdr_stan.types import ArrayLike, Figure

BARS_PER_PANEL = 80  # more would overlap


@names_as_written
def compare_by_size(
    predictives: Mapping[str, metrics.Prediction],
    y: ArrayLike,
    sizes: ArrayLike,
    edges: ArrayLike | None = None,
    *,
    level: float = 0.95,
    label: str = "label",
) -> "Figure":
    """Figure of predictive intervals of several models against true labels, one row per model.

    Points are predicted labels. Vertical bars are central intervals; orange intervals miss the true
    label and do not cross the diagonal. Each panel shows its coverage, in orange if it differs from
    `level` by more than three standard errors. A panel draws at most 80 bags, evenly spaced over
    the labels; its coverage is over all its bags.

    Parameters
    ----------
    predictives : dict, name of a model -> predictive, see `bdr_stan.metrics`
    y, sizes, edges, level, label : see `plots.prediction`

    Raises
    ------
    TypeError : predictives that are not a dict.
    ValueError : no model, arrays of different lengths, or NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive, plots
    >>> y, sizes = np.arange(6.0), np.array([2, 2, 2, 50, 50, 50])
    >>> def of_sd(sd):
    ...     return Predictive(lambda i: (y[None, i] + 0.5, np.full((1, len(i)), sd)), 6, 1)
    ...
    >>> figure = plots.compare_by_size({"wide": of_sd(1.0), "too sure": of_sd(0.1)}, y, sizes)
    >>> figure.savefig("models.png")
    """
    score = partial(metrics.table_by_size, y, sizes=sizes, edges=edges, level=level)
    tables = of_each_model(predictives, score)
    classes = metrics.size_classes(sizes, edges)
    y = np.asarray(labels_in_order(y, next(iter(predictives.values()))))
    intervals = {name: np.asarray(p.interval(level)) for name, p in predictives.items()}
    axes = panels(len(predictives), len(classes))
    shown = {name: _spread_over(y, mask) for name, mask in classes.items()}
    x_limits = _limits(y)
    y_limits = _limits(*(ends[:, i] for ends in intervals.values() for i in shown.values()))
    for row, (model, (lower, upper)) in zip(axes, intervals.items()):
        mean = np.asarray(predictives[model].mean)
        for ax, (name, i) in zip(row, shown.items()):
            missed = (y[i] < lower[i]) | (upper[i] < y[i])
            for bags, colour, strength in ((i[~missed], COVERS, 0.3), (i[missed], MISSES, 1.0)):
                ax.vlines(y[bags], lower[bags], upper[bags], colour, lw=1.5, alpha=strength)
                ax.plot(y[bags], mean[bags], "o", ms=3, color=colour)
            ax.plot(x_limits, x_limits, color="black", lw=1)
            ax.set(xlim=x_limits, ylim=y_limits)
            share, n = tables[model].loc[name, "coverage"], tables[model].loc[name, "n_bags"]
            off = abs(share - level) > 3 * np.sqrt(level * (1 - level) / n)
            _note(ax, f"{share:.0%} contain the truth", MISSES if off else COVERS, weight="bold")
        row[0].set_ylabel(f"predicted {label}")
        _name_row(row[0], model)
    for ax, (name, mask) in zip(axes[0], classes.items()):
        ax.set_title(size_title(name, mask.sum()))
    for ax in axes[-1]:
        ax.set_xlabel(f"true {label}")
    figure = axes[0, 0].figure
    key = [
        f"interval contains the truth;\npercentage within 3 standard errors of {level:.0%}",
        f"interval misses the truth;\npercentage further from {level:.0%}",
    ]
    bars = axes[0, 0].collections
    figure.legend(bars, key, loc="outside lower center", ncols=min(2, len(classes)))
    return figure


@names_as_written
def prediction(
    y: ArrayLike,
    predictive: metrics.Prediction,
    sizes: ArrayLike | None = None,
    edges: ArrayLike | None = None,
    *,
    level: float = 0.95,
    label: str = "label",
) -> "Figure":
    """Figure of predictive intervals against observed labels, one panel per class of bag sizes.

    Vertical bars are central intervals; orange intervals miss the label and do not cross the
    diagonal. Both axes are logarithmic if all values are positive and labels span a factor of
    100. A panel draws at most 80 bags, evenly spaced over the labels; its coverage is over all its
    bags.

    Parameters
    ----------
    y : array, shape (n,), labels
    predictive : see `bdr_stan.metrics`; needs no log_prob
    sizes : array, shape (n,), number of points of each bag; None for one panel of all bags
    edges : see `metrics.size_classes`
    level : float in (0, 1), default 0.95, probability of the intervals
    label : str, default "label", name and unit of the labels, e.g. "age, years"

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive, plots
    >>> y = np.arange(1.0, 7.0)
    >>> mean, sd = y[None] + 0.5, np.ones((1, 6))
    >>> predictive = Predictive(lambda i: (mean[:, i], sd[:, i]), 6, 1)
    >>> figure = plots.prediction(y, predictive, sizes=[2, 2, 2, 50, 50, 50], label="age, years")
    >>> len(figure.axes)
    2
    """
    y = np.asarray(labels_in_order(y, predictive), float)
    mean = np.asarray(predictive.mean)
    lower, upper = predictive.interval(level)
    metrics.coverage(y, lower, upper)
    classes = titled_classes(sizes, edges, len(y))
    missed = (y < lower) | (upper < y)
    axes = panels(1, len(classes))[0]
    limits = _limits(y)
    if min(y.min(), lower.min()) > 0 and y.max() > 100 * y.min():
        limits = y.min() / 1.3, y.max() * 1.3
        axes[0].set(xscale="log", yscale="log")  # shared by all
    for ax, (title, mask) in zip(axes, classes.items()):
        diagonal(ax, limits)
        i = _spread_over(y, mask)
        for bags, colour in ((i[~missed[i]], COVERS), (i[missed[i]], MISSES)):
            ax.vlines(y[bags], lower[bags], upper[bags], color=colour, lw=1.2, alpha=0.6)
            ax.plot(y[bags], mean[bags], "o", ms=3, color=colour)
        ax.set(title=title, xlim=limits)
        ax.set_xlabel(f"observed {label}")
        _note(ax, f"{1 - missed[mask].mean():.0%} in their {level:.0%} interval")
    if axes[0].get_xscale() == "log":
        for axis in (axes[0].xaxis, axes[0].yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
    axes[0].set_ylabel(f"predicted {label}")
    return axes[0].figure


def _limits(*values):
    """Smallest and largest value, with a margin."""
    low, high = min(np.min(v) for v in values), max(np.max(v) for v in values)
    margin = 0.04 * (high - low) or 1
    return low - margin, high + margin


def _spread_over(y, mask):
    """Indices of at most `BARS_PER_PANEL` bags of a class, evenly spaced in the order of y."""
    i = np.flatnonzero(mask)
    i = i[np.argsort(y[i], kind="stable")]
    return i[np.unique(np.linspace(0, len(i) - 1, BARS_PER_PANEL).round().astype(int))]


def _name_row(ax, text):
    """Write bold text to the left of the label of the vertical axis."""
    ax.annotate(
        text,
        (0, 0.5),
        (-4, 0),
        xycoords=(ax.yaxis.label, "axes fraction"),
        textcoords="offset points",
        rotation=90,
        ha="right",
        va="center",
        weight="bold",
    )


def _note(ax, text, colour="black", weight="normal"):
    ax.text(
        0.03,
        0.97,
        text,
        transform=ax.transAxes,
        va="top",
        color=colour,
        weight=weight,
        fontsize="small",
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5},
    )
