"""A contrast against the strengths of an omitted cause."""

import numpy as np

from bdr_stan.plots.style import COVERS, GUIDE, MISSES, names_as_written, one_axes
from bdr_stan.predictive.robustness import Robustness
from bdr_stan.types import Axes, is_number

_SIZE = (5.4, 4.4)  # inches
_GRID = 201  # strengths along each axis
_ROOM = 1.4  # of the axes beyond the largest strength of interest


@names_as_written
def robustness(
    found: Robustness, *, largest: float | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Contours of the mean contrast that remains after adjusting for an omitted cause.

    The axes are the strengths c_d and c_y of the omitted cause. On the thick line the mean contrast
    can be 0, on the dashed line the interval can reach 0; points are the strengths of covariates
    and terms of the fit (`Robustness.benchmarks`). On the diagonal the lines are at the robustness
    values.

    Parameters
    ----------
    found : Robustness, from `Contrast.robustness`
    largest : float, 0 < largest < 1, end of both axes; default 1.4 times the largest strength of
        robustness value and covariates
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    TypeError : `found` is not a Robustness.
    ValueError : `largest` is not between 0 and 1.

    Examples
    --------
    >>> from bdr_stan import plots
    >>> from bdr_stan.predictive import Robustness
    >>> robust = Robustness(mean=0.5, sd=0.1, lower=0.3, upper=0.7, level=0.95, n_residual=97)
    >>> plots.robustness(robust).get_xlabel()
    "c_d: share of the contrast's precision"
    """
    if not isinstance(found, Robustness):
        raise TypeError(
            f"found must be a Robustness, from contrast.robustness(), found {type(found).__name__}"
        )
    if largest is None:
        strengths = [found.value, *np.ravel(list(found.strengths.values()))]
        largest = min(_ROOM * max(strengths), 0.99)
    elif not is_number(largest) or not 0 < largest < 1:
        raise ValueError(f"largest must be a share between 0 and 1, found {largest!r}")
    c = np.linspace(0, largest, _GRID)
    c_d, c_y = np.meshgrid(c, c)
    sign, root = np.sign(found.mean), np.sqrt(c_y * c_d / (1 - c_d) * found.n_residual)
    remaining = found.mean - sign * root * found.sd
    nearest = found.lower if sign > 0 else found.upper
    end = remaining + np.sqrt((1 - c_y) / (1 - c_d)) * (nearest - found.mean)

    ax = one_axes(_SIZE) if ax is None else ax
    lines = ax.contour(c_d, c_y, remaining, 8, colors=GUIDE, linewidths=0.8, linestyles="solid")
    ax.clabel(lines, fmt="%.3g", fontsize="small")
    ax.contour(c_d, c_y, remaining, [0.0], colors=MISSES, linewidths=2)
    ax.contour(c_d, c_y, end, [0.0], colors=MISSES, linewidths=1.5, linestyles="dashed")
    ax.plot([], [], color=MISSES, lw=2, label="the mean can be 0")
    interval = f"the {found.level:.0%} interval can reach 0"
    ax.plot([], [], color=MISSES, lw=1.5, ls="--", label=interval)
    for name, (of_labels, of_contrast) in found.strengths.items():
        ax.plot(of_contrast, of_labels, "o", color=COVERS)
        ax.annotate(
            name, (of_contrast, of_labels), (5, 3), textcoords="offset points", fontsize="small"
        )
    ax.set(
        xlabel="c_d: share of the contrast's precision",
        ylabel="c_y: share of the labels' residual variance",
        xlim=(0, largest),
        ylim=(0, largest),
        title=f"contrast {found.mean:.3g} without an omitted cause",
    )
    ax.legend(framealpha=1, edgecolor="none", fontsize="small", loc="upper right")
    return ax
