"""The cache folder of compiled programs.

Everything is built under a temporary name, under a lock, and renamed at the end, so that what has
its final name is complete. A manifest records the files, so that later damage is detected.
"""

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from bdr_stan.cmdstan.processes import end_all_in

_MANIFEST = "manifest.json"
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


class ToolchainError(RuntimeError):
    """There is no CmdStan, or a program cannot be compiled; the message says how to fix it.

    Examples
    --------
    >>> from bdr_stan.cmdstan import ToolchainError
    >>> from bdr_stan.cmdstan.programs import compile_program
    >>> try:
    ...     model = compile_program("blr", progress=False)
    ... except ToolchainError as error:
    ...     print(error)  # how to fix it
    ...
    """


def cache_directory() -> Path:
    """Cache folder: BDR_STAN_CACHE if set, else in the user's cache folder.

    Examples
    --------
    >>> import os
    >>> from unittest.mock import patch
    >>> from bdr_stan.cmdstan import cache_directory
    >>> with patch.dict(os.environ, BDR_STAN_CACHE="/data/stan"):
    ...     print(cache_directory())
    ...
    /data/stan
    """
    folder = os.environ.get("BDR_STAN_CACHE") or platformdirs.user_cache_dir("bdr_stan")
    return Path(folder).expanduser().absolute()


def programs_directory() -> Path:
    """Folder of the compiled programs in the cache."""
    return cache_directory() / "compiled"


def check_trusted() -> None:
    """Raise ToolchainError where other users could write programs into the user's cache folder.

    A folder named by BDR_STAN_CACHE, for example one that a group shares, is trusted.
    """
    folder = cache_directory()
    if os.environ.get("BDR_STAN_CACHE") or not folder.exists():
        return
    state = folder.stat()
    if not (belongs_to_user(state) or state.st_uid == 0):
        problem = f"belongs to the user {state.st_uid}"
    elif state.st_mode & stat.S_IWOTH:
        problem = "can be written to by all users"
    else:
        return
    raise ToolchainError(
        f"the cache folder {folder} {problem}, so programs in it are not run: set the environment "
        "variable BDR_STAN_CACHE to a folder of your own, or to this one if you trust it"
    )


def belongs_to_user(state: os.stat_result) -> bool:
    """Whether the user of this process owns a file; Windows, without such ids, has folders each."""
    return not hasattr(os, "getuid") or state.st_uid == os.getuid()


@contextmanager
def writing() -> Iterator[None]:
    """Raise ToolchainError with advice where the cache folder is full or read-only."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = "the disk is full"
        elif error.errno in _NOT_WRITABLE or not cache_directory().is_dir():
            problem = f"it cannot be written to ({error.strerror})"
        else:
            raise
        raise ToolchainError(
            f"cannot build in the cache folder {cache_directory()}: {problem}; "
            "set the environment variable BDR_STAN_CACHE to a folder with room"
        ) from error


# ------------------------------------------------------------------ one builder at a time


def lock(name: str) -> FileLock:
    """The lock called `name` in the cache folder, not acquired yet.

    The system releases it when the process ends, however it ends.
    """
    folder = cache_directory() / "locks"
    with writing():
        folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{name}.lock")


@contextmanager
def built_whole(target: Path) -> Iterator[Path]:
    """An empty folder that becomes `target` when the block ends without an error.

    Call it under the lock of the target. First it removes what a killed process left behind, and
    ends compilers that still run there.
    """
    folder = target.with_name(f"{target.name}.building-{os.getpid()}")
    with writing():
        for stale in target.parent.glob(f"{target.name}.building-*"):
            _clear(stale)
        folder.mkdir(parents=True)
    try:
        yield folder
        with writing():
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove what killed processes left in the cache, unless a process works there."""
    for stale in programs_directory().glob("*.building-*"):
        try:
            with lock(stale.name.partition(".building-")[0]).acquire(timeout=0):
                _clear(stale)
        except Timeout:  # a process works there
            continue
        except (ToolchainError, OSError):  # a cache that cannot be written to
            return


def _clear(folder):
    end_all_in(folder)
    shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------ manifests


def seal(folder: Path, about: dict[str, Any]) -> None:
    """Write a manifest of the files of a folder, for `damage` to compare, with what it is about."""
    sealed = [path for path in sorted(folder.iterdir()) if path.name != _MANIFEST]
    files = {path.name: _state(path) for path in sealed}
    with writing():
        (folder / _MANIFEST).write_text(json.dumps({"files": files, "about": about}, indent=1))


def damage(folder: Path) -> list[str]:
    """Differences from the folder's manifest, each as a short text; empty if there are none."""
    try:
        files = json.loads((folder / _MANIFEST).read_text())["files"].items()
        return [f"{name} is damaged" for name, state in files if _state(folder / name) != state]
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return [f"{_MANIFEST} is missing or damaged"]


def about(folder: Path) -> dict[str, Any]:
    """What was sealed with a folder about it."""
    return dict(json.loads((folder / _MANIFEST).read_text())["about"])


def _state(path):
    """Digest of a file, and whether it is executable."""
    return [digest(path), os.access(path, os.X_OK)]


def digest(path: Path) -> str:
    """SHA-256 of a file, "" where it cannot be read; computed once unless the file changes."""
    try:
        state = path.stat()
        return _digest(path, state.st_ino, state.st_size, state.st_mtime_ns)
    except OSError:
        return ""


@lru_cache(4096)
def _digest(path, *state):
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
