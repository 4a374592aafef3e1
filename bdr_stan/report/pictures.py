"""matplotlib figures as inline SVG."""

import io
import re
import warnings
from collections.abc import Callable
from html import escape
from typing import Any

from bdr_stan.plots.style import pyplot
from bdr_stan.report.page import Picture

_STYLE = {
    "svg.fonttype": "none",  # text stays text, for screen readers, search and zoom
    "svg.hashsalt": "bdr_stan",
    "text.parse_math": False,  # a dollar sign in a column name does not start a formula
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_MAX_VECTOR_MARKS = 3000  # more marks are rasterised, which keeps the page small
_PIXELS_PER_INCH = 96  # of CSS


def picture(
    name: str,
    alt: str,
    caption: str,
    draw: Callable[[], Any],
    *,
    on_card: bool = False,
) -> Picture:
    """The Figure (or Axes) that `draw()` returns, as inline SVG with ids that start with `name`.

    `alt` is the text for screen readers; `on_card` keeps the colours on dark pages, on a light
    card, for maps.
    """
    plt = pyplot()
    with plt.rc_context(_STYLE), plt.ioff(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # missing glyphs
        figure = draw().figure
        try:
            for ax in figure.axes:
                for marks in ax.collections:
                    # Cells of a colour bar would show seams.
                    seams = hasattr(marks, "get_coordinates")
                    marks.set_rasterized(seams or len(marks.get_offsets()) > _MAX_VECTOR_MARKS)
            width = figure.get_size_inches()[0] * _PIXELS_PER_INCH
            svg = io.StringIO()
            figure.savefig(svg, format="svg", transparent=True, dpi=150)
        finally:
            plt.close(figure)
    return Picture(_inline(svg.getvalue(), name, alt, width), caption, on_card)


def _inline(svg, name, alt, width):
    """An SVG file as an HTML element; ids get the prefix `name`, to be unique on the page."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    view = re.search(r'viewBox="[^"]*"', svg).group()
    # Shrink to three quarters at most, to keep text legible; beyond that the figure scrolls.
    sized = f'style="width: {width:.0f}px; min-width: {min(300, width):.0f}px"'
    if width > 450:
        sized = f'style="width: {width:.0f}px; min-width: {0.75 * width:.0f}px"'
    head = f'<svg {view} {sized} role="img" aria-label="{escape(alt)}">'
    return head + svg[svg.index(">") + 1 :]
