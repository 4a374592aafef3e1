"""A fit as one NetCDF file: its groups, and its configuration as JSON."""

import glob
import io
import json
import math
import os
import platform
import secrets
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.extras import in_main_thread
from bdr_stan.results.inference_data import Groups, dataset
from bdr_stan.types import Array, PathName, as_path, saving_to

_ARRAYS = "bdr_stan_arrays"  # group of the arrays of the configuration
CONFIG_ATTRIBUTE = "bdr_stan_config"
CONTENTS_ATTRIBUTE = "bdr_stan_contents"  # variables of each group, to detect missing ones
_MOST_BYTES_PER_BYTE = 1100  # of arrays per byte of a file; zlib compresses zeros to 1 / 1032
# Errors of HDF5, NetCDF and JSON for corrupt files.
_UNREADABLE = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError)


def write(path: PathName, groups: Groups, config: dict[str, Any]) -> None:
    """Write groups and configuration to one NetCDF file, replacing it only when complete."""
    path = checked_output(path)
    attributes = {
        CONFIG_ATTRIBUTE: json.dumps(config, default=_as_json),
        CONTENTS_ATTRIBUTE: json.dumps({name: list(group) for name, group in groups.items()}),
    }
    with written_whole(path) as partial:
        # In memory first: HDF5 ends the process if the disk fills while it writes.
        partial.write_bytes(_in_memory(groups, attributes))


def _in_memory(groups: Groups, attributes: dict[str, str]) -> memoryview:
    """The bytes of a NetCDF file with these groups and attributes."""
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
    """Delay Ctrl-C until the block ends: HDF5 can hang if its callbacks are interrupted."""
    before = signal.getsignal(signal.SIGINT)
    if not in_main_thread() or not callable(before):
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
    """Path of a file to write; an OSError or TypeError if it cannot be written there."""
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
    """Temporary path of a file that is renamed to `path` when the block ends without an error."""
    partial = None
    try:
        with saving_to(path):
            _remove_stale(path)
            partial = _new_partial(path)
            yield partial
            partial.replace(path)
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _new_partial(path):
    """A new temporary file; made only if there is none, so no link redirects the output."""
    partial = path.with_name(f"{_prefix(path)}{os.getpid()}-{secrets.token_hex(4)}.partial")
    partial.touch(exist_ok=False)
    return partial


def _prefix(path):
    """Prefix of this machine's temporary files for `path`."""
    return f".{path.name}.{platform.node()}-"


def _remove_stale(path):
    """Remove the temporary files of killed processes of this machine."""
    import psutil

    prefix = _prefix(path)
    for stale in path.parent.glob(f"{glob.escape(prefix)}[0-9]*.partial"):
        pid = stale.name.removeprefix(prefix).removesuffix(".partial").partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            stale.unlink(missing_ok=True)


def _as_json(value: Any) -> Any:
    """NumPy numbers and arrays as JSON numbers and lists."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(
        f"the configuration contains a {type(value).__name__}, which JSON does not support: use "
        "text, numbers, lists and dicts in notes"
    )


def with_arrays(
    groups: Groups, config: Mapping[str, Any], arrays: Mapping[str, Array]
) -> tuple[Groups, dict[str, Any]]:
    """Groups and configuration with the arrays of the configuration, to write.

    All numbers of a type are one vector, and the configuration has the type and shape of each
    array: a file with a variable for each of many small arrays is slow to write and to read.
    """
    parts: dict[str, list[Array]] = {}
    for array in arrays.values():
        parts.setdefault(array.dtype.name, []).append(array.ravel())
    vectors = {dtype: np.concatenate(of_type) for dtype, of_type in parts.items()}
    group = dataset(vectors, {dtype: [f"{dtype}_row"] for dtype in vectors}, sample=False)
    shapes = {name: [a.dtype.name, list(a.shape)] for name, a in arrays.items()}
    return {**groups, _ARRAYS: group}, {**config, "arrays": shapes}


def arrays_of(groups: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays of a file's configuration, which leave the groups."""
    vectors = {str(dtype): vector.values for dtype, vector in groups.pop(_ARRAYS).items()}
    arrays = {}
    for name, (dtype, shape) in config["arrays"].items():
        array, vectors[dtype] = np.split(vectors[dtype], [math.prod(shape)])
        arrays[name] = array.reshape(shape)
    return arrays


def read(path: PathName) -> tuple[dict[str, Any], dict[str, Any]]:
    """Groups and configuration of a file of `write`; ValueError for damaged or foreign files."""
    import h5netcdf
    import h5py
    import xarray as xr
    from xarray.backends import H5NetCDFStore

    path = as_path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the file of a fit")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with h5py.File(path, "r") as file:
            text, contents = (file.attrs.get(n) for n in (CONFIG_ATTRIBUTE, CONTENTS_ATTRIBUTE))
            names = [name for name in file if file.get(name, getclass=True) is h5py.Group]
            foreign = _foreign_part(file, _MOST_BYTES_PER_BYTE * path.stat().st_size)
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} is not a fit saved by bdr_stan: not a NetCDF file, or one that is cut short"
        ) from error
    if foreign is not None:
        raise ValueError(
            f"{path} is not a fit saved by bdr_stan: {foreign}; do not load files of unknown origin"
        )
    if text is None:
        raise ValueError(
            f"{path} is not a fit saved by bdr_stan: it has no attribute {CONFIG_ATTRIBUTE!r}"
        )
    try:
        with h5netcdf.File(path, "r", decode_vlen_strings=True) as file:
            groups = {name: xr.open_dataset(H5NetCDFStore(file[name])).load() for name in names}
        for group in groups.values():
            group.set_close(None)  # the file is closed, and groups that close it do not pickle
        config, contents = json.loads(text), json.loads(contents or "{}")
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} is damaged, part of it cannot be read: copy it again, or save the fit again"
        ) from error
    for group, variables in contents.items():
        for variable in variables:
            if group not in groups or variable not in groups[group]:
                raise ValueError(
                    f"{path} is damaged, {group} has no {variable}: copy it again, or save the "
                    "fit again"
                )
    return groups, config


def _foreign_part(group, most_bytes):
    """Description of foreign content, or None: links, and arrays of more bytes than this."""
    import h5py

    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            return f"{group.name}/{name} is a link"
        item = group[name]
        if isinstance(item, h5py.Group):
            within = _foreign_part(item, most_bytes)
            if within is not None:
                return within
        elif item.external or item.is_virtual:
            return f"{item.name} lies in another file"
        elif item.nbytes > most_bytes:
            return f"{item.name} has {item.nbytes:.1e} bytes, more than its file can hold"
    return None
