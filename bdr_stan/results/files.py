"""A fit as one NetCDF file, and back: its groups, and its configuration as JSON."""

import glob
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.results.inference_data import Groups
from bdr_stan.types import PathName

CONFIG_ATTRIBUTE = "bdr_stan_config"


def write(path: PathName, groups: Groups, config: dict[str, Any]) -> None:
    """Write the groups of a fit and its configuration to one NetCDF file.

    The file appears under its name when it is complete; one that was there is replaced.
    Either ArviZ version reads it, with `read` or with `arviz.from_netcdf`.

    Parameters
    ----------
    path : str or Path
    groups : dict, group name -> xarray.Dataset
    config : dict, what JSON can hold (NumPy numbers and arrays become numbers and lists)

    Raises
    ------
    FileNotFoundError : the folder does not exist.
    IsADirectoryError : the path is a folder.
    TypeError : `config` holds what JSON cannot.
    """
    import xarray as xr

    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save to {path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"cannot save to {path}: it is a folder, give a file name")
    text = json.dumps(config, default=_plain)
    with written_whole(path) as partial:
        xr.Dataset(attrs={CONFIG_ATTRIBUTE: text}).to_netcdf(partial, mode="w", engine="h5netcdf")
        for name, group in groups.items():
            encoding = {
                variable: {"zlib": True, "complevel": 1}
                for variable, array in group.variables.items()
                if array.dtype.kind in "biuf" and array.ndim and array.size
            }
            group.to_netcdf(partial, mode="a", group=name, engine="h5netcdf", encoding=encoding)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a path to write to, of a file that appears under its name when the block ends well.

    What processes of this machine wrote of the file before they were killed is removed.
    """
    _clear_what_was_left(path)
    partial = _partial(path, str(os.getpid()))
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _partial(path, pid):
    """Where a process of this machine writes what will be the file, out of others' sight."""
    return path.with_name(f".{path.name}.{platform.node()}-{pid}.partial")


def _clear_what_was_left(path):
    """Remove what processes of this machine that were killed wrote of the file."""
    for left in path.parent.glob(glob.escape(_partial(path, "PID").name).replace("PID", "[0-9]*")):
        pid = left.stem.rpartition("-")[2]
        if pid.isdigit() and not _is_running(int(pid)):
            left.unlink(missing_ok=True)


def _is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def _plain(value: Any) -> Any:
    """NumPy numbers and arrays as JSON's numbers and lists."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"the configuration holds a {type(value).__name__}, which JSON cannot: {value}")


def read(path: PathName) -> tuple[Groups, dict[str, Any]]:
    """Read a file of `write`, wholly into memory.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    groups : dict, group name -> xarray.Dataset
    config : dict

    Raises
    ------
    FileNotFoundError : there is no such file.
    ValueError : the file was not written by `write`.
    """
    import h5netcdf
    import xarray as xr

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with h5netcdf.File(path, "r") as file:
            text = file.attrs.get(CONFIG_ATTRIBUTE)
            names = list(file.groups)
    except OSError as error:
        raise ValueError(f"{path} is no fit saved by bdr_stan: not a NetCDF file") from error
    _check_self_contained(path)
    if text is None:
        raise ValueError(
            f"{path} is no fit saved by bdr_stan: it has no attribute {CONFIG_ATTRIBUTE!r}"
        )
    groups = {name: xr.load_dataset(path, group=name, engine="h5netcdf") for name in names}
    return groups, json.loads(text)


def _check_self_contained(path: Path) -> None:
    """Raise ValueError where a file would read other files: a fit needs none."""
    import h5py

    def check(group):
        for name in group:
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise ValueError(
                    f"{path} is no fit saved by bdr_stan: {group.name}/{name} is a link; do not "
                    "load files of unknown origin"
                )
            held = group[name]
            if isinstance(held, h5py.Group):
                check(held)
            elif held.external or held.is_virtual:
                raise ValueError(
                    f"{path} is no fit saved by bdr_stan: {held.name} lies in another file; do "
                    "not load files of unknown origin"
                )

    with h5py.File(path, "r") as file:
        check(file)
