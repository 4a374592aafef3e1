"""Simulated bags, and their tables for the command line."""

from pathlib import Path

import click
import numpy as np

FORMATS = (".parquet", ".csv", ".npz")


def check_output(path, force):
    """Refuse, before any work, a file that cannot or must not be written.

    Parameters
    ----------
    path : str or Path, ending in .parquet, .csv or .npz
    force : bool, whether an existing file may be replaced

    Returns
    -------
    Path

    Raises
    ------
    click.ClickException : another ending, no such folder, or an existing file without `force`.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise click.ClickException(f"{path} must end in one of {', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise click.ClickException(f"the folder {path.parent} does not exist: create it first")
    if path.exists() and not force:
        raise click.ClickException(f"{path} exists: pass --force to replace it")
    return path


def write_table(path, bags, y):
    """Write bags as one long table, a row a point: columns bag, label, x1, x2, ...

    An .npz holds the arrays bag, shape (N_points,), label, shape (N_points,), and
    points, shape (N_points, p), instead of columns.

    Parameters
    ----------
    path : Path, ending in .parquet (needs pyarrow), .csv or .npz
    bags : Bags, n of them
    y : array, shape (n,), label of each bag
    """
    import pandas as pd

    bag = np.repeat(np.arange(len(bags)), bags.sizes)
    label = np.asarray(y)[bag]
    # The file appears under its name when it is complete.
    partial = path.with_name(f".partial-{path.name}")
    try:
        if path.suffix == ".npz":
            np.savez_compressed(partial, bag=bag, label=label, points=bags.points)
        else:
            table = pd.DataFrame(bags.points, columns=feature_names(bags.points.shape[1]))
            table.insert(0, "label", label)
            table.insert(0, "bag", bag)
            if path.suffix == ".csv":
                table.to_csv(partial, index=False)
            else:
                table.to_parquet(partial, index=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def feature_names(p):
    """Column names x1 .. xp."""
    return [f"x{k}" for k in range(1, p + 1)]
