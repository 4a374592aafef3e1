"""The trade-off between bags and points of a survey."""

from typing import Any

from bdr_stan.plots.style import MISSES, names_as_written, one_axes, shades
from bdr_stan.types import Axes


@names_as_written
def design(*studies: Any, ax: "Axes | None" = None) -> "Axes":
    """Numbers of bags and points of studies of one width, or of several, the cheapest marked.

    Parameters
    ----------
    *studies : tables of `BDR.design` or `design_from_variances`, one per width
    ax : matplotlib Axes, which are returned; None for a new figure

    Examples
    --------
    >>> from bdr_stan import design_from_variances, plots
    >>> variances = {"between": 1.0, "within": 4.0, "noise": 0.25}
    >>> costs = {"cost_of_bag": 50, "cost_of_point": 1}
    >>> studies = (design_from_variances(w, **variances, **costs) for w in (2.5, 3.0))
    >>> plots.design(*studies).get_xlabel()
    'points per bag'
    """
    ax = one_axes((5.4, 4.2)) if ax is None else ax
    for table, colour in zip(studies, shades(len(studies)), strict=True):
        best, line = table.iloc[0], table.sort_values("points")
        text = f"width {table['width'].max():.3g}: {best['bags']:g} bags of {best['points']:g}"
        ax.plot(line["points"], line["bags"], color=colour, label=text)
        ax.plot(best["points"], best["bags"], "o", color=MISSES, zorder=3)

    ax.set(xscale="log", yscale="log", xlabel="points per bag", ylabel="bags")
    ax.legend(frameon=False, fontsize="small", title="the cheapest study of each width")
    return ax
