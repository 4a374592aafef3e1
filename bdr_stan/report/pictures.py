"""Drawings of matplotlib inside a page."""

import io
import re
import warnings
from collections.abc import Callable
from html import escape
from typing import Any

from bdr_stan.plots.style import pyplot
from bdr_stan.report.page import Picture

_STYLE = {
    "svg.fonttype": "none",  # letters stay letters: for readers aloud, search and zoom
    "svg.hashsalt": "bdr_stan",
    "text.parse_math": False,  # a dollar in the name of a column is a dollar
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_MOST_MARKS = 3000  # of a drawing as shapes; more become pixels
_PIXELS_AN_INCH = 96  # of a page


def picture(
    name: str, alt: str, caption: str, draw: Callable[[], Any], *, on_white: bool = False
) -> Picture:
    """What a function of `bdr_stan.plots` draws, as part of a page.

    Parameters
    ----------
    name : str, different for each picture of a page
    alt : str, what is to be seen, for who does not see it
    caption : str
    draw : callable, gives the Figure, or Axes of it
    on_white : bool, whether it keeps its white ground, and its colours, on dark pages: a map

    Raises
    ------
    ImportError : matplotlib is not installed.
    """
    plt = pyplot()
    with plt.rc_context(_STYLE), plt.ioff(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that a font lacks
        figure = _figure_of(draw())
        try:
            for ax in figure.axes:
                for marks in ax.collections:
                    # Cells of a colour bar would show seams.
                    seams = hasattr(marks, "get_coordinates")
                    marks.set_rasterized(seams or len(marks.get_offsets()) > _MOST_MARKS)
            width = figure.get_size_inches()[0] * _PIXELS_AN_INCH
            svg = io.StringIO()
            figure.savefig(svg, format="svg", transparent=True, dpi=150)
        finally:
            plt.close(figure)
    return Picture(_inline(svg.getvalue(), name, alt, width), caption, on_white)


def _figure_of(drawn):
    """The figure of what a function of `bdr_stan.plots` gives: itself, or axes of it."""
    return drawn if hasattr(drawn, "savefig") else drawn.figure


def _inline(svg, name, alt, width):
    """An SVG file as an element of a page, with ids of its own."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    view = re.search(r'viewBox="[^"]*"', svg).group()
    # Not below three quarters of its size, where letters would be too small: then it scrolls.
    sized = f'style="width: {width:.0f}px; min-width: {min(300, width):.0f}px"'
    if width > 450:
        sized = f'style="width: {width:.0f}px; min-width: {0.75 * width:.0f}px"'
    head = f'<svg {view} {sized} role="img" aria-label="{escape(alt)}">'
    return head + svg[svg.index(">") + 1 :]
