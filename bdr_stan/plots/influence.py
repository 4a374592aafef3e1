"""Partial dependence on one column of the points."""

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import is_classifier

from bdr_stan.plots.style import COVERS, GUIDE, names_as_written, one_axes
from bdr_stan.predictive.distributions import interval_ends
from bdr_stan.questions.influence import rates_along
from bdr_stan.types import Axes

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from bdr_stan.bags import Bags, BagsLike

_SIZE = (5.0, 3.6)  # inches


@names_as_written
def influence(
    model: "BaseEstimator",
    column: str | int,
    bags: "BagsLike | None" = None,
    *,
    sample: str | None = None,
    level: float = 0.9,
    n_points: int = 500,
    seed: int = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Partial dependence of the label on one column of the points.

    The posterior mean (`influence_along`) with a band of the given probability: a line for
    numeric columns, a dot per value for categories and columns with two values. Zero is the
    average over the training bags.

    Parameters
    ----------
    model : fitted BLR, BDR, Shrinkage or classifier on mean embeddings
    column : str or int
        Column of the table that the bags were made of, or of the points, by name or number.
    bags : Bags, or list of arrays, to sample points from; None for the landmarks instead
    sample : str, for bags with several samples the one that has the column
    level : float, 0 < level < 1, default 0.9, probability of the band
    n_points : int, default 500, points of the sample
    seed : int, default 0, of the sample
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    TypeError : a model without an influence of points.
    ValueError : an unknown column, or a level not between 0 and 1.

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
    if not hasattr(model, "influence_along"):
        raise TypeError(
            f"{type(model).__name__} has no influence of points to draw: pass a fitted BLR, BDR, "
            "Shrinkage or classifier on mean embeddings"
        )
    of_sample = {} if sample is None else {"sample": sample}
    values, along = model.influence_along(column, bags, n_points=n_points, seed=seed, **of_sample)
    ax = one_axes(_SIZE) if ax is None else ax
    ax.axhline(0, ls="--", lw=1, color=GUIDE, zorder=0)
    _draw_band(ax, values, along.mean, along.interval(level), level)
    what = "latent function" if is_classifier(model) else "label"
    if getattr(model, "family", "normal") not in ("normal", "student_t"):
        what = "linear predictor"
    ax.set(xlabel=_column_label(column), ylabel=f"added to the {what}")
    return ax


@names_as_written
def rate_along(
    model: "BaseEstimator",
    column: str | int,
    bags: "Bags",
    *,
    level: float = 0.9,
    n_points: int = 100,
    n_draws: int = 200,
    seed: int = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Partial dependence of the rate on one column of the points.

    As `influence`, for models of rates: the posterior mean with a band of the given probability.

    Parameters
    ----------
    model : fitted AggregateRegressor
    column, level, n_points, seed : see `plots.influence`
    bags : Bags, to sample points from
    n_draws : int, number of posterior draws used
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    TypeError : a model without rates of points.
    ValueError : an unknown column, or a level not between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import AggregateRegressor, Bags, plots
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.uniform(size=(300, 1))
    >>> bags = Bags.from_points(rain, sizes=[10] * 30, features=["rain"])
    >>> cases = rng.poisson(bags.sums(np.exp(2 * rain[:, 0])))
    >>> model = AggregateRegressor(n_landmarks=5, method="vb").fit(bags, cases)
    >>> ax = plots.rate_along(model, "rain", bags)
    >>> along = ax.lines[-1].get_ydata()
    >>> bool(along[-1] > along[0])
    True
    """
    if not hasattr(model, "predict_points"):
        raise TypeError(
            f"{type(model).__name__} has no rates of points to draw: pass a fitted "
            "AggregateRegressor"
        )
    ends = interval_ends(level)
    values, along = rates_along(model, bags, column, n_points=n_points, n_draws=n_draws, seed=seed)
    ax = one_axes(_SIZE) if ax is None else ax
    _draw_band(ax, values, along.mean(axis=1), np.quantile(along, ends, axis=1), level)
    ax.set(xlabel=_column_label(column), ylabel="average rate")
    return ax


def _column_label(column):
    return f"column {column}" if isinstance(column, int) else column


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
