"""A self-contained HTML page of sections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bdr_stan.extras import require
from bdr_stan.results.files import checked_output, written_whole
from bdr_stan.types import DataFrame, PathName


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
    """A figure made by `bdr_stan.report.pictures.picture`."""

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
