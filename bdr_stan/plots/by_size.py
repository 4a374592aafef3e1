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
    titled_classes,
)
from bdr_stan.types import ArrayLike, Figure

BARS_PER_PANEL = 80  # more would overlap


@names_as_written
def prediction(
    y: ArrayLike,
    predictive: metrics.Prediction | Mapping[str, metrics.Prediction],
    sizes: ArrayLike | None = None,
    edges: ArrayLike | None = None,
    *,
    level: float = 0.95,
    label: str = "label",
) -> "Figure":
    """Figure of predictive intervals against observed labels, one panel per class of bag sizes.

    Vertical bars are central intervals; orange intervals miss the label and do not cross the
    diagonal. Each panel shows its coverage, in orange if it differs from `level` by more than three
    standard errors. Both axes are logarithmic if all values are positive and labels span a factor
    of 100. A panel draws at most 80 bags, evenly spaced over the labels; its coverage is over all
    its bags.

    Parameters
    ----------
    y : array, shape (n,), labels
    predictive : see `bdr_stan.metrics`, needs no log_prob; or a dict from the names of several
        models, which have a row each
    sizes : array, shape (n,), number of points of each bag; None for one panel of all bags
    edges : see `metrics.size_classes`
    level : float in (0, 1), default 0.95, probability of the intervals
    label : str, default "label", name and unit of the labels, e.g. "age, years"

    Raises
    ------
    ValueError : no model, arrays of different lengths, or NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive, plots
    >>> y, sizes = np.arange(6.0), np.array([2, 2, 2, 50, 50, 50])
    >>> def of_sd(sd):
    ...     return Predictive(lambda i: (y[None, i] + 0.5, np.full((1, len(i)), sd)), 6, 1)
    ...
    >>> len(plots.prediction(y, of_sd(1.0), sizes, label="age, years").axes)
    2
    >>> figure = plots.prediction(y, {"wide": of_sd(1.0), "too sure": of_sd(0.1)}, sizes)
    >>> figure.savefig("models.png")
    """
    several = isinstance(predictive, Mapping)
    models = predictive if isinstance(predictive, Mapping) else {"": predictive}
    orders = of_each_model(models, partial(labels_in_order, y))
    y = np.asarray(next(iter(orders.values())), float)
    intervals = {name: np.asarray(p.interval(level)) for name, p in models.items()}
    for lower, upper in intervals.values():
        metrics.coverage(y, lower, upper)
    classes = titled_classes(sizes, edges, len(y))
    axes = panels(len(models), len(classes))
    limits = _limits(y)
    if min(y.min(), *(lower.min() for lower, _ in intervals.values())) > 0 and (
        y.max() > 100 * y.min()
    ):
        limits = y.min() / 1.3, y.max() * 1.3
        axes[0, 0].set(xscale="log", yscale="log")  # shared by all
    for row, (name, (lower, upper)) in zip(axes, intervals.items()):
        mean, missed = np.asarray(models[name].mean), (y < lower) | (upper < y)
        for ax, mask in zip(row, classes.values()):
            diagonal(ax, limits)
            i = _spread_over(y, mask)
            for bags, colour in ((i[~missed[i]], COVERS), (i[missed[i]], MISSES)):
                ax.vlines(y[bags], lower[bags], upper[bags], color=colour, lw=1.2, alpha=0.6)
                ax.plot(y[bags], mean[bags], "o", ms=3, color=colour)
            ax.set(xlim=limits)
            share = 1 - missed[mask].mean()
            off = abs(share - level) > 3 * np.sqrt(level * (1 - level) / mask.sum())
            _note(ax, f"{share:.0%} in their {level:.0%} interval", MISSES if off else COVERS)
        row[0].set_ylabel(f"predicted {label}")
        if several:
            _name_row(row[0], name)
    for ax, title in zip(axes[0], classes):
        ax.set_title(title)
    for ax in axes[-1]:
        ax.set_xlabel(f"observed {label}")
    first = axes[0, 0]
    if first.get_xscale() == "log":
        for axis in (first.xaxis, first.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
    if several:
        key = [
            f"interval contains the label;\npercentage within 3 standard errors of {level:.0%}",
            f"interval misses the label;\npercentage further from {level:.0%}",
        ]
        columns = min(2, len(classes))
        first.figure.legend(first.collections, key, loc="outside lower center", ncols=columns)
    return first.figure


def _limits(values):
    """Smallest and largest value, with a margin."""
    low, high = values.min(), values.max()
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


def _note(ax, text, colour):
    ax.text(
        0.03,
        0.97,
        text,
        transform=ax.transAxes,
        va="top",
        color=colour,
        weight="bold",
        fontsize="small",
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5},
    )
