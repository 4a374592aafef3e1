"""A self-contained HTML page of sections; figures of matplotlib are inline SVG."""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bdr_stan.extras import require
from bdr_stan.plots.style import pyplot
from bdr_stan.results.files import checked_output, written_whole
from bdr_stan.types import DataFrame, PathName

_STYLE = {
    "svg.fonttype": "none",  # text stays text, for screen readers, search and zoom
    "svg.hashsalt": "bdr_stan",
    "text.parse_math": False,  # a dollar sign in a column name does not start a formula
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_MAX_VECTOR_MARKS = 3000  # more marks are rasterised, which keeps the page small
_PIXELS_PER_INCH = 96  # of CSS


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Code:
    """Preformatted lines, for example a call."""

    kind: ClassVar[str] = "code"
    text: str
    name: str


@dataclass(frozen=True)
class Table:
    """A data frame; its index is the header of the rows."""

    kind: ClassVar[str] = "table"
    caption: str
    frame: "DataFrame"
    sortable: bool = False

    @classmethod
    def of(
        cls, caption: str, columns: Mapping[str, Sequence[Any]], rows: Sequence[str], name: str
    ) -> "Table":
        """A table of columns; `name` is the title of its row headers."""
        import pandas as pd

        return cls(caption, pd.DataFrame(columns, index=pd.Index(rows, name=name)))

    @property
    def head(self) -> list[str]:
        """Column headers, the index's first."""
        return [str(self.frame.index.name or ""), *map(str, self.frame.columns)]

    @property
    def rows(self) -> list[list[str]]:
        """Cells as text, row headers first."""
        columns = [[cell_text(v, name) for v in column] for name, column in self.frame.items()]
        heads = [str(name) for name in self.frame.index]
        return [list(row) for row in zip(heads, *columns)]

    @property
    def is_number(self) -> list[bool]:
        """Which columns, without the index, are numeric."""
        return [column.dtype.kind in "iuf" for _, column in self.frame.items()]


@dataclass(frozen=True)
class Picture:
    """A figure made by `picture`."""

    kind: ClassVar[str] = "picture"
    svg: str
    caption: str
    on_card: bool = False


@dataclass(frozen=True)
class Folded:
    """Collapsible blocks."""

    kind: ClassVar[str] = "folded"
    title: str
    blocks: Sequence[Any]


@dataclass(frozen=True)
class Section:
    """A section of the page; `name` is its anchor."""

    name: str
    title: str
    blocks: Sequence[Any] = field(default_factory=list)


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


def write_page(
    path: PathName,
    title: str,
    lead: str,
    sections: Sequence[Section],
    template: str = "report/page.html",
    **more: Any,
) -> Path:
    """Write a page, only if complete; `lead` is below its title, `more` for its template."""
    path = checked_output(path)
    html = page_template(template).render(title=title, lead=lead, sections=sections, **more)
    with written_whole(path) as partial:
        partial.write_text(html, encoding="utf-8", errors="replace")
    return path


def page_template(name: str = "report/page.html") -> Any:
    """A template of the package, which escapes all text; ImportError if Jinja2 is not installed."""
    require("reports need Jinja2, which is not installed: pip install 'bdr-stan[report]'", "jinja2")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bdr_stan", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def cell_text(value: Any, column: str) -> str:
    """A value as text; numbers with four digits."""
    if not isinstance(value, (float, np.floating)):
        return str(value)
    if np.isnan(value):
        return "-"
    if str(column).startswith("ess"):
        return f"{value:.0f}"
    if column == "r_hat":
        return f"{value:.3f}"
    if value == 0 or not 1e-4 <= abs(float(value)) < 1e7:
        return f"{value:.4g}"
    return np.format_float_positional(value, 4, unique=False, fractional=False, trim="-")
