"""Tables as text for a terminal."""

import math
import sys
from numbers import Real
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd


def show_table(table: "pd.DataFrame", text: Literal["left", "right"] = "left") -> None:
    """Print a DataFrame with a named index: four digits, no truncation; `text` aligns strings."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column(table.index.name, overflow="fold")
    for column in table.columns:
        number = table[column].dtype.kind == "f"
        shown.add_column(column, justify="right" if number else text, overflow="fold")
    for name, row in zip(table.index, table.itertuples(index=False)):
        shown.add_row(name, *map(_cell, table.columns, row))
    # Files and pipes have no width.
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 160).print(shown)


def _cell(column, value):
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    if math.isnan(value):
        return "-"
    if column.startswith("ess"):
        return f"{value:.0f}"
    return f"{value:.3f}" if column == "r_hat" else f"{value:.4g}"
