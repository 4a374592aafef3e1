"""Simulated bags, and their files for the command line."""

from contextlib import contextmanager
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


def check_folder(folder, files, force):
    """Refuse, before any work, a folder that does not exist or has files of these names.

    Parameters
    ----------
    folder : str or Path
    files : names of the files to write
    force : bool, whether existing files may be replaced

    Returns
    -------
    Path

    Raises
    ------
    click.ClickException : no such folder, or an existing file without `force`.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder}: create it first")
    for file in files:
        if (folder / file).exists() and not force:
            raise click.ClickException(f"{folder / file} exists: pass --force to replace it")
    return folder


@contextmanager
def complete_files(paths):
    """Temporary path of each of a dict of paths; files get their names when all are complete."""
    partial = {name: path.with_name(f".partial-{path.name}") for name, path in paths.items()}
    try:
        yield partial
        for name, path in partial.items():
            path.replace(paths[name])
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)


def write_table(path, bags, y):
    """Write bags as one long table, one row per point: columns bag, label, x1, x2, ...

    An .npz has the arrays bag, shape (N_points,), label, shape (N_points,), and
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
    with complete_files({"table": path}) as partial:
        if path.suffix == ".npz":
            np.savez_compressed(partial["table"], bag=bag, label=label, points=bags.points)
            return
        table = pd.DataFrame(bags.points, columns=feature_names(bags.points.shape[1]))
        table.insert(0, "label", label)
        table.insert(0, "bag", bag)
        if path.suffix == ".csv":
            table.to_csv(partial["table"], index=False)
        else:
            table.to_parquet(partial["table"], index=False)


def feature_names(p):
    """Column names x1 .. xp."""
    return [f"x{k}" for k in range(1, p + 1)]
