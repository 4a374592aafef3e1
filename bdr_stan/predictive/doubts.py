"""Reasons to doubt a conclusion, as a table."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from textwrap import wrap

from bdr_stan.types import DataFrame

_HEADS = (
    "reason for doubt",
    "what the answer becomes",
    "how strong it must be to change the conclusion",
)
_WIDTHS = (22, 40, 28)  # of the columns in text


@dataclass(frozen=True)
class Doubt:
    """A reason for doubt, the answer under it, and its strength needed to change the answer."""

    reason: str
    answer: str
    limit: str


class Doubts:
    """Reasons to doubt the predictions of some bags, as a table; see `model.doubts`.

    Parameters
    ----------
    conclusion : str
        The statement that the doubts are about.
    rows : list of Doubt

    Examples
    --------
    >>> from bdr_stan.predictive.doubts import Doubt, Doubts
    >>> doubts = Doubts("Kent is above Devon.", [Doubt("Selection", "0.2 to 0.4", "G = 1.6")])
    >>> print(doubts)
    Conclusion: Kent is above Devon.
    <BLANKLINE>
    reason for doubt        what the answer becomes                   how strong it must be to
                                                                      change the conclusion
    ----------------------  ----------------------------------------  ----------------------------
    Selection               0.2 to 0.4                                G = 1.6
    """

    def __init__(self, conclusion: str, rows: Sequence[Doubt]) -> None:
        self.conclusion, self.rows = conclusion, list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        reasons = ", ".join(row.reason for row in self.rows)
        return f"Doubts({len(self)} reasons: {reasons}; print it, or to_dataframe())"

    def __str__(self) -> str:
        rule = "  ".join("-" * width for width in _WIDTHS)
        parts = [_row(_HEADS), rule, "\n\n".join(_row(astuple(row)) for row in self.rows)]
        return "\n".join([f"Conclusion: {self.conclusion}", "", *parts])

    def to_dataframe(self) -> "DataFrame":
        """The table, with a row for each reason.

        Returns
        -------
        pandas DataFrame
            Indexed by the reason for doubt, with two columns of text.
        """
        import pandas as pd

        table = pd.DataFrame([astuple(row) for row in self.rows], columns=list(_HEADS))
        return table.set_index(_HEADS[0])


def _row(cells):
    """Cells side by side, each wrapped to the width of its column."""
    columns = [wrap(cell, width) for cell, width in zip(cells, _WIDTHS, strict=True)]
    lines = [
        "  ".join(
            f"{column[k] if k < len(column) else '':{width}}"
            for column, width in zip(columns, _WIDTHS, strict=True)
        ).rstrip()
        for k in range(max(map(len, columns)))
    ]
    return "\n".join(lines)
