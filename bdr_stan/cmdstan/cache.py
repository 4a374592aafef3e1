"""The cache folder of compiled programs.

A program is put there under a temporary name, under a lock, and renamed at the end, so any file
with its final name is complete. A manifest of the files detects later damage.
"""

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from bdr_stan.extras import ToolchainError
from bdr_stan.scratch import belongs_to_user

_MANIFEST = "manifest.json"
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


def cache_directory() -> Path:
    """Cache folder: BDR_STAN_CACHE if set, else in the user's cache folder."""
    folder = os.environ.get("BDR_STAN_CACHE") or platformdirs.user_cache_dir("bdr_stan")
    return Path(folder).expanduser().absolute()


def programs_directory() -> Path:
    """Folder of the compiled programs in the cache."""
    return cache_directory() / "compiled"


def check_trusted() -> None:
    """Raise ToolchainError if other users could write programs into the user's cache folder."""
    folder = cache_directory()
    # A folder that the variable names, for example one that a group shares, is trusted.
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


@contextmanager
def writing() -> Iterator[None]:
    """Raise ToolchainError with advice if the cache folder is full or read-only."""
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
    """The lock called `name` in the cache folder, not acquired yet; it ends with the process."""
    folder = cache_directory() / "locks"
    with writing():
        folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{name}.lock")


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """An empty folder that becomes `target` at the end of the block; lock the target before."""
    new = target.with_name(f"{target.name}.new")
    try:
        with writing():
            shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
            new.mkdir(parents=True)
            yield new
            shutil.rmtree(target, ignore_errors=True)
            new.rename(target)
    finally:
        shutil.rmtree(new, ignore_errors=True)


# ------------------------------------------------------------------ manifests


def seal(folder: Path, about: dict[str, Any]) -> None:
    """Write a manifest of the files of a folder, for `damage` to compare, with its subject."""
    sealed = [path for path in sorted(folder.iterdir()) if path.name != _MANIFEST]
    files = {path.name: _state(path) for path in sealed}
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
    """Digest of a file, "" if it is unreadable, and whether it is executable."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        digest = ""
    return [digest, os.access(path, os.X_OK)]
