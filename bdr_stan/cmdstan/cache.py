"""The folder of built things: CmdStan homes and compiled programs.

Whatever stands in it under its final name is whole: it is built under another
name, under a lock, and renamed at the end.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs


class ToolchainError(RuntimeError):
    """Stan cannot be set up, or a program cannot be compiled; the text says how to mend it."""


def cache_directory() -> Path:
    """Folder of built things: BDR_STAN_CACHE if set, else the user's cache folder."""
    own = os.environ.get("BDR_STAN_CACHE")
    folder = Path(own).expanduser() if own else Path(platformdirs.user_cache_dir("bdr_stan"))
    return folder.absolute()


@contextmanager
def writing() -> Iterator[None]:
    """Turn a full or read-only cache folder into one clear sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            trouble = "the disk is full"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            trouble = f"it cannot be written to ({error.strerror})"
        else:
            raise
        raise ToolchainError(
            f"cannot build in the cache folder {cache_directory()}: {trouble}; "
            "set the environment variable BDR_STAN_CACHE to a folder with room"
        ) from error


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock called `name`, after waiting for whoever holds it.

    The kernel lifts the lock when the process ends, however it ends.
    """
    path = cache_directory() / "locks" / f"{name}.lock"
    with writing():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with path.open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def built_whole(target: Path) -> Iterator[Path]:
    """Give an empty folder to build in, which becomes `target` when the block ends well.

    Call it under a lock of its own. What a killed process left behind is cleared first; its
    compilers may still run, so no two processes build under the same name.
    """
    building = target.with_name(f"{target.name}.building-{os.getpid()}")
    with writing():
        for stale in target.parent.glob(f"{target.name}.building-*"):
            shutil.rmtree(stale, ignore_errors=True)
        building.mkdir(parents=True)
    try:
        yield building
        with writing():
            shutil.rmtree(target, ignore_errors=True)
            building.rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
