"""Plots of a fit: partial dependence, terms, contrasts in doubt, shrinkage of embeddings."""

from itertools import cycle
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.plots.style import (
    COVERS,
    GUIDE,
    MARKERS,
    MISSES,
    names_as_written,
    one_axes,
    pyplot,
    shades,
    size_title,
)
from bdr_stan.predictive.distributions import interval_ends
from bdr_stan.predictive.robustness import Robustness
from bdr_stan.questions.influence import rates_along
from bdr_stan.types import ArrayLike, Axes, is_number

_OF_RATES = {"n_points": 100, "n_draws": 200}  # rates of all points at each value take longer
_TERM_POINTS = 2500  # of a function of two columns
_MOST_LEVELS = 40  # with names that fit below one another; else the extremes are drawn
_STRENGTHS = 201  # along each axis, of an omitted cause
_ROOM = 1.4  # of the axes beyond the largest strength of interest


@names_as_written
def influence(
    model: BaseEstimator,
    column: str | int,
    bags: BagsLike | None = None,
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
        mean, band = along.mean, along.quantile(ends)
        what = f"added to the {model.label_model.predictor}"
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
    >>> from bdr_stan import Bags, Shrinkage, plots
    >>> from bdr_stan.datasets import county_table
    >>> people = county_table(40).assign(state=lambda table: table["county"].str[-1])
    >>> bags = Bags.from_dataframe(people, "county", ["age"], metadata=["vote", "state"])
    >>> (ax,) = plots.terms(Shrinkage(5, groups=["state"]).fit(bags, "vote", seed=1))
    >>> ax.get_ylabel()
    'state'
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
        values, effect = model.term_along(name, n_points=_TERM_POINTS if ", " in name else 100)
        if np.ndim(values) == 2:
            _draw_map(ax, name, values, effect)
        elif name in (model.groups or ()):
            _draw_levels(ax, name, values, effect, ends)
        else:
            ax.axhline(0, ls="--", lw=1, color=GUIDE, zorder=0)
            _draw_band(ax, values, effect.mean, effect.quantile(ends), level)
            ax.set(xlabel=name, ylabel="effect on the linear predictor")
    return list(axes[0])


def _draw_levels(ax, name, values, effect, ends):
    """A dot with a bar per level, in the order of the means."""
    order, shown = np.argsort(effect.mean), f"{name}"
    if len(order) > _MOST_LEVELS:
        half = _MOST_LEVELS // 2
        order, shown = np.r_[order[:half], order[-half:]], f"{name}: lowest and highest {half}"
    lower, upper = effect.quantile(ends)
    places = np.arange(len(order))
    ax.axvline(0, ls="--", lw=1, color=GUIDE, zorder=0)
    ax.hlines(places, lower[order], upper[order], color=COVERS, lw=2)
    ax.plot(effect.mean[order], places, "o", color=COVERS, ms=4)
    size = "small" if len(places) < 15 else 6
    ax.set_yticks(places, [str(values[k]) for k in order], fontsize=size)
    ax.set(xlabel="effect on the linear predictor", ylabel=shown)


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


@names_as_written
def robustness(
    result: Robustness, *, largest: float | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Contours of the mean contrast that remains after adjusting for an omitted cause.

    The axes are the strengths c_d and c_y of the omitted cause. On the thick line the mean contrast
    can be 0, on the dashed line the interval can reach 0; points are the strengths of covariates
    and terms of the fit (`Robustness.benchmarks`). On the diagonal the lines are at the robustness
    values.

    Parameters
    ----------
    result : Robustness, from `Contrast.robustness`
    largest : float, 0 < largest < 1, end of both axes; default 1.4 times the largest strength of
        robustness value and covariates
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    TypeError : `result` is not a Robustness.
    ValueError : `largest` is not between 0 and 1.

    Examples
    --------
    >>> from bdr_stan import plots
    >>> from bdr_stan.predictive import Robustness
    >>> robust = Robustness(mean=0.5, sd=0.1, lower=0.3, upper=0.7, level=0.95, n_residual=97)
    >>> plots.robustness(robust).get_xlabel()
    "c_d: share of the contrast's precision"
    """
    if not isinstance(result, Robustness):
        raise TypeError(
            "result must be a Robustness, from contrast.robustness(), found a "
            f"{type(result).__name__}"
        )
    if largest is None:
        strengths = [result.value, *np.ravel(list(result.strengths.values()))]
        largest = min(_ROOM * max(strengths), 0.99)
    elif not is_number(largest) or not 0 < largest < 1:
        raise ValueError(f"largest must be a share between 0 and 1, found {largest!r}")
    c = np.linspace(0, largest, _STRENGTHS)
    c_d, c_y = np.meshgrid(c, c)
    sign, root = np.sign(result.mean), np.sqrt(c_y * c_d / (1 - c_d) * result.n_residual)
    remaining = result.mean - sign * root * result.sd
    nearest = result.lower if sign > 0 else result.upper
    end = remaining + np.sqrt((1 - c_y) / (1 - c_d)) * (nearest - result.mean)

    ax = one_axes((5.4, 4.4)) if ax is None else ax
    lines = ax.contour(c_d, c_y, remaining, 8, colors=GUIDE, linewidths=0.8, linestyles="solid")
    levels = [level for level in lines.levels if level]
    on_diagonal = c[np.abs(np.diag(remaining)[:, None] - levels).argmin(axis=0)]
    places = [(x, x) for x in on_diagonal if 0 < x < 0.7 * largest]  # not at an end or the legend
    ax.clabel(lines, fmt="%.3g", fontsize="small", manual=places)
    ax.contour(c_d, c_y, remaining, [0.0], colors=MISSES, linewidths=2)
    ax.contour(c_d, c_y, end, [0.0], colors=MISSES, linewidths=1.5, linestyles="dashed")
    ax.plot([], [], color=MISSES, lw=2, label="the mean can be 0")
    interval = f"the {result.level:.0%} interval can reach 0"
    ax.plot([], [], color=MISSES, lw=1.5, ls="--", label=interval)
    for name, (of_labels, of_contrast) in result.strengths.items():
        place = of_contrast, of_labels
        ax.plot(*place, "o", color=COVERS)
        ax.annotate(name, place, (5, 3), textcoords="offset points", fontsize="small")
    ax.set(xlim=(0, largest), ylim=(0, largest))
    ax.set_title(f"contrast {result.mean:.3g} without an omitted cause")
    ax.set_xlabel("c_d: share of the contrast's precision")
    ax.set_ylabel("c_y: share of the labels' residual variance")
    ax.legend(framealpha=1, edgecolor="none", fontsize="small", loc="upper right")
    return ax


def shrinkage_spectrum(
    model: Any, sizes: ArrayLike = (1, 5, 20, 100, 1000), *, ax: "Axes | None" = None
) -> "Axes":
    """Share of each coordinate of the embedding that shrinkage keeps, for several bag sizes.

    The eigenvalues eta / (eta + lambda_k / N) of R_eta (R_eta + Sigma / N)^-1, largest first, at
    the posterior median of eta. The legend shows their sum, the effective number of coordinates
    that N points identify.

    Parameters
    ----------
    model : fitted BDR or Shrinkage
    sizes : numbers of points of a bag, default 1, 5, 20, 100 and 1000
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    ValueError : a model without shrinkage, a size below 1.

    Source: Law et al. (2018), Appendix C.

    Examples
    --------
    >>> from bdr_stan import Shrinkage, plots
    >>> from bdr_stan.datasets import digits_bags
    >>> model = Shrinkage(5).fit(*digits_bags(40, seed=1), seed=1)
    >>> len(plots.shrinkage_spectrum(model, sizes=[1, 10]).lines)
    2
    """
    name = type(model).__name__
    if not hasattr(model, "coordinates_"):
        raise ValueError(f"this {name} has no shrinkage to draw: pass a fitted BDR")
    if not model.result_.has_draws("eta"):
        raise ValueError(f"{name} does not shrink embeddings: pass a fitted BDR")
    lam, eta = model.coordinates_.lam, float(np.median(model.result_.draws("eta")))
    sizes = np.atleast_1d(sizes)
    if not (sizes >= 1).all():
        raise ValueError(f"a bag has at least 1 point, found sizes {sizes.tolist()}")
    ax = one_axes((5.5, 4.6)) if ax is None else ax
    every = shrinkage_factors(sizes, np.sort(lam), eta)
    for size, kept, colour, marker in zip(sizes, every, shades(len(sizes)), cycle(MARKERS)):
        label = f"{size_title(f'{size:g}')}: {kept.sum():.1f}"
        rank = np.arange(1, len(lam) + 1)
        ax.plot(rank, kept, marker=marker, ms=3, lw=1, color=colour, label=label)
    ax.set(
        xlabel="coordinate of the embedding, most kept first",
        ylabel="share of the coordinate kept",
        ylim=(-0.02, 1.02),
    )
    ax.locator_params(axis="x", integer=True)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.18),  # below: the lines leave no corner free
        ncols=3,
        frameon=False,
        fontsize="small",
        title=f"points in a bag: effective number of coordinates, of {len(lam)}",
        title_fontsize="small",
    )
    return ax
