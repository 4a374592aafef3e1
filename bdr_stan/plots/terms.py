"""Plots of effects of groups and of smooth functions."""

from typing import Any

import numpy as np

from bdr_stan.plots.style import COVERS, GUIDE, names_as_written, pyplot
from bdr_stan.predictive.distributions import interval_ends
from bdr_stan.types import Axes

_GRID = 2500  # points of a function of two columns
_MOST_LEVELS = 40  # with names that fit below one another; else the extremes are drawn


@names_as_written
def terms(model: Any, *, level: float = 0.9) -> "list[Axes]":
    """Posterior of each term: a bar per level of groups, a band or a map of a smooth function.

    Parameters
    ----------
    model : fitted BLR, BDR or Shrinkage with groups or smooths
    level : float, 0 < level < 1, default 0.9
        Probability of the bars and bands. For a function of two columns the mean is drawn.

    Returns
    -------
    list of matplotlib Axes, one per term, smooth functions first

    Raises
    ------
    TypeError : a model without terms.
    ValueError : a fit without groups and smooths; the level is not between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from bdr_stan import Bags, Shrinkage, plots
    >>> rng = np.random.default_rng(0)
    >>> year, y = rng.uniform(1990, 2020, size=60), rng.normal(size=60)
    >>> bags = Bags.from_list(
    ...     [rng.normal(mean, size=(50, 1)) for mean in y], metadata=pd.DataFrame({"year": year})
    ... )
    >>> model = Shrinkage(5, smooths=["year"]).fit(bags, y + (year - 2000) / 10, seed=1)
    >>> (ax,) = plots.terms(model)
    >>> along = ax.lines[-1].get_ydata()
    >>> bool(along[-1] > along[0])
    True
    """
    if not hasattr(model, "term_along"):
        raise TypeError(
            f"{type(model).__name__} has no terms to draw: pass a fitted BLR, BDR or Shrinkage"
        )
    ends = interval_ends(level)
    named = model.result_.groups["posterior"].coords.get("term")
    if named is None:
        raise ValueError("the fit has no terms to draw: fit with groups= or smooths=")
    names = named.values.tolist()
    _, axes = pyplot().subplots(
        1, len(names), figsize=(4.5 * len(names), 4), squeeze=False, layout="constrained"
    )
    for ax, name in zip(axes[0], names, strict=True):
        values, effect = model.term_along(name, n_points=_GRID if ", " in name else 100)
        if np.ndim(values) == 2:
            _draw_map(ax, name, values, effect)
        elif name in (model.groups or ()):
            _draw_levels(ax, name, values, effect, ends)
        else:
            _draw_curve(ax, name, values, effect, ends)
    return list(axes[0])


def _draw_levels(ax, name, values, effect, ends):
    """A dot with a bar per level, in the order of the means."""
    order, shown = np.argsort(effect.mean), f"{name}"
    if len(order) > _MOST_LEVELS:
        half = _MOST_LEVELS // 2
        order, shown = np.r_[order[:half], order[-half:]], f"{name}: lowest and highest {half}"
    lower, upper = effect.quantile(ends)
    at = np.arange(len(order))
    ax.axvline(0, ls="--", lw=1, color=GUIDE, zorder=0)
    ax.hlines(at, lower[order], upper[order], color=COVERS, lw=2)
    ax.plot(effect.mean[order], at, "o", color=COVERS, ms=4)
    ax.set_yticks(at, [str(values[k]) for k in order], fontsize="small" if len(at) < 15 else 6)
    ax.set(xlabel="effect on the linear predictor", ylabel=shown)


def _draw_curve(ax, name, values, effect, ends):
    lower, upper = effect.quantile(ends)
    ax.axhline(0, ls="--", lw=1, color=GUIDE, zorder=0)
    ax.fill_between(values, lower, upper, color=COVERS, alpha=0.25, lw=0)
    ax.plot(values, effect.mean, color=COVERS)
    ax.locator_params(axis="x", nbins=6)
    ax.set(xlabel=name, ylabel="effect on the linear predictor")


def _draw_map(ax, name, values, effect):
    """The posterior mean over a grid of two columns."""
    side = round(len(values) ** 0.5)
    x, y = values[::side, 0], values[:side, 1]
    bound = np.abs(effect.mean).max()
    drawn = ax.pcolormesh(
        x, y, effect.mean.reshape(side, side).T, cmap="RdBu_r", vmin=-bound, vmax=bound
    )
    ax.figure.colorbar(drawn, ax=ax, label="effect on the linear predictor, mean")
    first, second = name.split(", ", 1)
    ax.set(xlabel=first, ylabel=second)
