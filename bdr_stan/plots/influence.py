"""Partial dependence on one column of the points."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from bdr_stan.bags import as_bags
from bdr_stan.plots.style import COVERS, GUIDE, names_as_written, one_axes
from bdr_stan.predictive.distributions import interval_ends
from bdr_stan.predictive.influence import rates_along
from bdr_stan.types import Axes

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from bdr_stan.bags import BagsLike

_OF_RATES = {"n_points": 100, "n_draws": 200}  # rates of all points at each value take longer


@names_as_written
def influence(
    model: "BaseEstimator",
    column: str | int,
    bags: "BagsLike | None" = None,
    *,
    sample: str | None = None,
    level: float = 0.9,
    n_points: int | None = None,
    n_draws: int | None = None,
    seed: int = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Partial dependence of the label, or of the rate, on one column of the points.

    The posterior mean (`influence_along`; of models of rates, the average rate) with a band of the
    given probability: a line for numeric columns, a dot per value for categories and columns with
    two values. Zero is the average over the training bags; rates have no zero.

    Parameters
    ----------
    model : fitted BLR, BDR, Shrinkage or classifier on mean embeddings, or AggregateRegressor
    column : str or int
        Column of the table that the bags were made of, or of the points, by name or number.
    bags : Bags, or list of arrays, to sample points from; None for the landmarks instead, which a
        model of rates does not allow
    sample : str, for bags with several samples the one that has the column
    level : float, 0 < level < 1, default 0.9, probability of the band
    n_points : int, points of the sample; None for 500, or for rates 100
    n_draws : int, posterior draws; None for 1000, or for rates 200
    seed : int, default 0, of the sample
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    TypeError : a model without an influence of points.
    ValueError : an unknown column, a level not between 0 and 1, or no bags for rates.

    Examples
    --------
    >>> from bdr_stan import BLR, Bags, plots
    >>> from bdr_stan.datasets import county_table
    >>> people = county_table(60)
    >>> bags = Bags.from_dataframe(people, "county", ["age", "income"], metadata=["vote"])
    >>> model = BLR(8, method="exact").fit(bags, "vote", seed=1)
    >>> plots.influence(model, "age", bags).get_ylabel()
    'added to the label'
    """
    numbers = {"n_points": n_points, "n_draws": n_draws}
    options: dict[str, Any] = {name: n for name, n in numbers.items() if n is not None}
    ends = interval_ends(level)
    if hasattr(model, "predict_points"):
        if bags is None:
            name = type(model).__name__
            raise ValueError(f"the rate of {name} is averaged over points: pass bags of them")
        options = _OF_RATES | options
        bags = as_bags(bags, in_parts=True)
        values, rates = rates_along(model, bags, column, seed=seed, **options)
        mean, band, what = rates.mean(axis=1), np.quantile(rates, ends, axis=1), "average rate"
    elif hasattr(model, "influence_along"):
        if sample is not None:
            options["sample"] = sample
        values, along = model.influence_along(column, bags, seed=seed, **options)
        mean, band, what = along.mean, along.quantile(ends), f"added to the {_what(model)}"
    else:
        raise TypeError(
            f"{type(model).__name__} has no influence of points to draw: pass a fitted BLR, BDR, "
            "Shrinkage or classifier on mean embeddings"
        )
    ax = one_axes((5.0, 3.6)) if ax is None else ax
    if what != "average rate":
        ax.axhline(0, ls="--", lw=1, color=GUIDE, zorder=0)
    _draw_band(ax, values, mean, band, level)
    ax.set(xlabel=f"column {column}" if isinstance(column, int) else column, ylabel=what)
    return ax


def _what(model):
    """What a column adds to."""
    if getattr(model, "family", "normal") not in ("normal", "student_t"):
        return "linear predictor"
    return "latent function" if is_classifier(model) else "label"


def _draw_band(ax, values, mean, interval, level):
    """Draw a line with a band for a numeric column, else a dot with a bar per value."""
    lower, upper = interval
    band = f"{level:.0%} of the posterior"
    if values.dtype.kind == "f" and len(values) > 2:
        ax.fill_between(values, lower, upper, color=COVERS, alpha=0.25, lw=0, label=band)
        ax.plot(values, mean, color=COVERS, label="posterior mean")
        ax.locator_params(axis="x", nbins=6)  # numbers of six digits do not overlap
    else:
        names = [value if isinstance(value, str) else f"{value:g}" for value in values.tolist()]
        ax.vlines(names, lower, upper, color=COVERS, lw=2, label=band)
        ax.plot(names, mean, "o", color=COVERS, label="posterior mean")
        ax.margins(x=0.15)
    ax.legend(frameon=False, fontsize="small")
