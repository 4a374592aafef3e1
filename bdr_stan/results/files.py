"""A fit as one NetCDF file, and back: its groups, and its configuration as JSON."""

import errno
import glob
import io
import json
import os
import platform
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.results.inference_data import Groups
from bdr_stan.types import PathName, as_path

CONFIG_ATTRIBUTE = "bdr_stan_config"
CONTENTS_ATTRIBUTE = "bdr_stan_contents"  # variables of each group, to tell what has gone
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}
# What the libraries below raise where a file is not what it says.
_UNREADABLE = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError)


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
    FileNotFoundError, NotADirectoryError : the folder does not exist, or is a file.
    IsADirectoryError : the path is a folder.
    TypeError : `config` holds what JSON cannot.
    OSError : the disk is full, or the folder cannot be written to.
    """
    path = checked_output(path)
    attributes = {
        CONFIG_ATTRIBUTE: json.dumps(config, default=_plain),
        CONTENTS_ATTRIBUTE: json.dumps({name: list(group) for name, group in groups.items()}),
    }
    with written_whole(path) as partial:
        # HDF5 ends the process where a disk fills while it writes there.
        partial.write_bytes(_in_memory(groups, attributes))


def _in_memory(groups: Groups, attributes: dict[str, str]) -> memoryview:
    """The bytes of a NetCDF file of groups and attributes of the whole."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    content = io.BytesIO()
    with _interrupts_wait(), h5netcdf.File(content, "w") as file:
        for name, text in attributes.items():
            file.attrs[name] = text
        for name, group in groups.items():
            encoding = {
                variable: {"zlib": True, "complevel": 1}
                for variable, array in group.variables.items()
                if array.dtype.kind in "biuf" and array.ndim and array.size
            }
            group.dump_to_store(H5NetCDFStore(file.create_group(name)), encoding=encoding)
    return content.getbuffer()


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C wait until the block ends.

    HDF5 may never return if one falls into its calls back to Python.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    waiting: list[Any] = []
    signal.signal(signal.SIGINT, lambda *interrupt: waiting.append(interrupt))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            before(*waiting[-1])


def checked_output(path: PathName) -> Path:
    """Path of a file to write, once it is known that it can be there.

    Raises
    ------
    TypeError, FileNotFoundError, NotADirectoryError, IsADirectoryError
    """
    path = as_path(path)
    folder = path.parent
    if not folder.is_dir():
        if folder.exists():
            raise NotADirectoryError(f"cannot save to {path}: {folder} is a file, not a folder")
        raise FileNotFoundError(f"cannot save to {path}: the folder {folder} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"cannot save to {path}: it is a folder, give a file name")
    return path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a path to write to, of a file that appears under its name when the block ends well.

    What processes of this machine wrote of the file before they were killed is removed.

    Raises
    ------
    OSError, PermissionError
        The disk is full, or the folder cannot be written to.
    """
    partial = None
    try:
        _clear_what_was_left(path)
        partial = _new_partial(path)
        yield partial
        partial.replace(path)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise OSError(
                f"cannot save to {path}: the disk is full; make room, or choose another folder"
            ) from error
        if error.errno in _NOT_ALLOWED:
            raise PermissionError(
                f"cannot save to {path}: the folder {path.parent} cannot be written to "
                f"({error.strerror}); choose another"
            ) from error
        raise
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _new_partial(path):
    """A file that was not there before, so that no link leads what is written elsewhere."""
    partial = path.with_name(f"{_prefix(path)}{os.getpid()}-{secrets.token_hex(4)}.partial")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    return partial


def _prefix(path):
    """How the names begin under which this machine writes what will be the file."""
    return f".{path.name}.{platform.node()}-"


def _clear_what_was_left(path):
    """Remove what processes of this machine that were killed wrote of the file."""
    prefix = _prefix(path)
    for left in path.parent.glob(f"{glob.escape(prefix)}[0-9]*.partial"):
        pid = left.name.removeprefix(prefix).removesuffix(".partial").partition("-")[0]
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
    raise TypeError(
        f"the configuration holds a {type(value).__name__}, which JSON cannot: keep notes to text, "
        "numbers, lists and dicts"
    )


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
    FileNotFoundError, IsADirectoryError : there is no such file, or it is a folder.
    ValueError : the file was not written by `write`, or is damaged.
    """
    import h5py
    import xarray as xr

    path = as_path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the file of a fit")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with h5py.File(path, "r") as file:
            text, contents = (file.attrs.get(n) for n in (CONFIG_ATTRIBUTE, CONTENTS_ATTRIBUTE))
            names = [name for name in file if file.get(name, getclass=True) is h5py.Group]
            foreign = _foreign(file)
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} is no fit saved by bdr_stan: not a NetCDF file, or one that is cut short"
        ) from error
    if foreign is not None:
        raise ValueError(
            f"{path} is no fit saved by bdr_stan: {foreign}; do not load files of unknown origin"
        )
    if text is None:
        raise ValueError(
            f"{path} is no fit saved by bdr_stan: it has no attribute {CONFIG_ATTRIBUTE!r}"
        )
    try:
        groups = {name: xr.load_dataset(path, group=name, engine="h5netcdf") for name in names}
        config, contents = json.loads(text), json.loads(contents or "{}")
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} is damaged, part of it cannot be read: copy it anew, or save the fit again"
        ) from error
    for group, variables in contents.items():
        for variable in variables:
            if group not in groups or variable not in groups[group]:
                raise ValueError(
                    f"{path} is damaged, {group} has no {variable}: copy it anew, or save the "
                    "fit again"
                )
    return groups, config


def _foreign(group):
    """What a group would read of other files, as a text, or None: a fit needs none."""
    import h5py

    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            return f"{group.name}/{name} is a link"
        held = group[name]
        if isinstance(held, h5py.Group):
            within = _foreign(held)
            if within is not None:
                return within
        elif held.external or held.is_virtual:
            return f"{held.name} lies in another file"
    return None
