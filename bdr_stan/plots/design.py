"""The trade-off between bags and points of a survey."""

from bdr_stan.plots.style import MISSES, names_as_written, one_axes, shades
from bdr_stan.types import Axes, DataFrame

_MOST_COST = 3  # times the lowest


@names_as_written
def design(*studies: DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Bags against points per bag, up to three times the cost of the cheapest study, a dot.

    Parameters
    ----------
    *studies : tables of `BDR.design` or `design_from_variances`, one per width, with a line each
    ax : matplotlib Axes, which are returned; None for a new figure

    Examples
    --------
    >>> from bdr_stan import design_from_variances, plots
    >>> costs = {"cost_of_bag": 20, "cost_of_point": 1}
    >>> studies = design_from_variances(2.5, between=1, within=4, noise=0.25, **costs)
    >>> plots.design(studies).get_xlabel()
    'points per bag'
    """
    ax = one_axes((5.4, 4.2)) if ax is None else ax
    for table, colour in zip(studies, shades(len(studies)), strict=True):
        best = table.iloc[0]
        line = table[table["cost"] <= _MOST_COST * best["cost"]].sort_values("points")
        width = float(f"{table['width'].max():.3g}")  # of 25,000 all zeros
        text = f"width {width:g}: {best['bags']:g} x {best['points']:g}"
        ax.plot(line["points"], line["bags"], color=colour, label=text)
        ax.plot(best["points"], best["bags"], "o", color=MISSES)
    ax.set(xlabel="points per bag", ylabel="bags")
    ax.legend(frameon=False, fontsize="small", title="cheapest study: bags x points")
    return ax
