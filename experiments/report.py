"""What the scripts share of reporting: arguments, Markdown tables, files, figures, memory."""

import argparse
import resource
from pathlib import Path


def arguments(description, *, quick, output, folder=None):
    """Parser of a script's command line with its two common options.

    Parameters
    ----------
    description : str, the script's docstring
    quick, output : str, help on ``--quick`` and ``--output``
    folder : str, optional
        Where output goes if the command does not say; default nowhere.

    Returns
    -------
    argparse.ArgumentParser
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=folder and Path(folder), help=output)
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def row(cells):
    """A row of a Markdown table, of texts or what prints as one."""
    return f"| {' | '.join(map(str, cells))} |"


def rows(heads, lines, *, right=slice(0)):
    """A Markdown table of rows of texts; the columns of the slice `right` are set to the right."""
    rules = ["---"] * len(heads)
    rules[right] = ["---:"] * len(rules[right])
    return "\n".join([row(heads), row(rules), *map(row, lines)])


def markdown(table, text=None, *, digits=3):
    """A DataFrame as a Markdown table, its index in the first column.

    Parameters
    ----------
    table : pandas.DataFrame
    text : function of a value, its text, optional
        By default numbers have `digits` digits after the point, and what is missing is empty.
    digits : int, default 3

    Returns
    -------
    str
    """
    import pandas as pd

    def rounded(value):
        if isinstance(value, str):
            return value
        return "" if pd.isna(value) else f"{value:.{digits}f}"

    text = text or rounded
    values = table.astype(object).itertuples(name=None)
    return rows(
        [table.index.name or "", *table.columns],
        [[name, *map(text, of_row)] for name, *of_row in values],
    )


def write(folder, name, text):
    """Write a page to a folder, made if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def pyplot():
    """matplotlib.pyplot, without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def peak_memory():
    """Peak memory in GB so far: of this process, and of the largest of its children."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return tuple(resource.getrusage(who).ru_maxrss / 2**20 for who in kinds)
