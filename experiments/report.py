"""Reporting shared by the scripts: arguments, Markdown tables, files, figures, memory."""

import argparse
import resource
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np


def arguments(description, *, quick, output, folder=None):
    """Command-line parser with the two options that all scripts share.

    Parameters
    ----------
    description : str, the script's docstring
    quick, output : str, help texts of ``--quick`` and ``--output``
    folder : str, optional
        Default of ``--output``; without it nothing is written.

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
    """A row of a Markdown table; cells are converted to text."""
    return f"| {' | '.join(map(str, cells))} |"


def rows(heads, lines, *, right=slice(0)):
    """A Markdown table; the columns of the slice `right` are right-aligned."""
    rules = ["---"] * len(heads)
    rules[right] = ["---:"] * len(rules[right])
    return "\n".join([row(heads), row(rules), *map(row, lines)])


def markdown(table, text=None, *, digits=3):
    """A DataFrame as a Markdown table, with its index in the first column.

    Parameters
    ----------
    table : pandas.DataFrame
    text : callable, optional
        Formats a value. By default numbers have `digits` decimals and missing values are empty.
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


def standard_error(values):
    """Standard error of the mean of independent values, such as repetitions."""
    return np.std(values, ddof=1) / np.sqrt(len(values))


def mean_and_error(values, digits=3):
    """Mean of a series and its standard error as text; empty if all values are missing."""
    if values.isna().all():
        return ""
    return f"{values.mean():.{digits}f} ± {values.sem():.{digits}f}"


def write(folder, name, text):
    """Write a page to a folder, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def pyplot():
    """matplotlib.pyplot with a backend that needs no screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def map_array(maps, row, column):
    """Values of pixels by the names of their maps as an xarray.DataArray (map, row, column)."""
    import pandas as pd

    cells = pd.MultiIndex.from_arrays([row, column], names=["row", "column"])
    return pd.DataFrame(maps, index=cells).to_xarray().to_array("map")


def results_of(function, items, jobs):
    """List of function(item), computed in `jobs` processes, or in this one if it is 1."""
    if jobs == 1:
        return list(map(function, items))
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(function, items))


def peak_memory():
    """Peak memory in GB so far, of this process and of its largest child."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return tuple(resource.getrusage(who).ru_maxrss / 2**20 for who in kinds)
