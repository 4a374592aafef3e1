"""Temporary folders for what Stan reads and writes during a fit.

They are in one folder per process, locked by it. A process that is killed leaves its folder, and
perhaps chains that still write there: the next process ends these and removes it.
"""

import atexit
import errno
import fcntl
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from bdr_stan.cmdstan.cache import ToolchainError
from bdr_stan.cmdstan.processes import end_all_in

_PREFIX = "bdr_stan-fits-"
_MIN_FREE_BYTES = 1 << 20  # with less, chains have most likely failed for lack of space
_LOCK, _CMDSTANPY_FOLDER = "lock", "also"  # files: the lock; the path of CmdStanPy's folder


@contextmanager
def scratch_folder() -> Iterator[str]:
    """An empty folder; on an error, processes that still run in it are ended."""
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(dir=_existing_process_folder()))
        with _end_all_on_interrupt(folder):
            yield str(folder)
    except BaseException as error:
        full = isinstance(error, Exception) and _is_disk_full(error)  # before files are removed
        if folder is not None:
            _end(folder)
        if full:
            raise ToolchainError(
                f"the disk is full, the fit stopped in {tempfile.gettempdir()}; make room, or "
                "set the environment variable TMPDIR to another folder"
            ) from error
        raise
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _is_disk_full(error):
    """Whether the disk is full: chains on a full disk write less and report no error."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return shutil.disk_usage(tempfile.gettempdir()).free < _MIN_FREE_BYTES


def _end(folder):
    # Without its folder no waiting chain can start.
    shutil.rmtree(folder, ignore_errors=True)
    end_all_in(folder)


@contextmanager
def _end_all_on_interrupt(folder):
    """On an interrupt, end what runs in the folder before raising it.

    CmdStanPy, interrupted while it starts chains, would wait for those already started. Custom
    handlers of interrupts are left in place.
    """
    raises = signal.default_int_handler
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not raises:
        yield
        return

    def end(number, frame):
        _end(folder)
        raises(number, frame)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, raises)


def _existing_process_folder():
    folder = _process_folder(os.getpid())
    if not folder.is_dir():  # the temporary files were removed
        _process_folder.cache_clear()
        folder = _process_folder(os.getpid())
    return folder


@lru_cache
def _process_folder(pid):
    """The folder of this process, made at its first fit; a forked process has its own."""
    remove_stale_folders()
    # Under another name until it is locked, so that no process takes it for stale.
    fresh = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}new-"))
    handle = (fresh / _LOCK).open("w")
    fcntl.flock(handle, fcntl.LOCK_EX)
    folder = fresh.with_name(fresh.name.replace("new-", ""))
    fresh.rename(folder)
    atexit.register(_remove, folder, handle, pid)
    (folder / _CMDSTANPY_FOLDER).write_text(_folder_of_cmdstanpy(folder))
    return folder


def _folder_of_cmdstanpy(folder):
    """CmdStanPy's folder for files until the process ends; in ours if not loaded yet."""
    usual = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        import cmdstanpy
    finally:
        tempfile.tempdir = usual
    return cmdstanpy._TMPDIR


def _remove(folder, handle, pid):
    if os.getpid() == pid:  # not in a fork of that process
        shutil.rmtree(folder, ignore_errors=True)
        handle.close()


def remove_stale_folders() -> None:
    """End the chains and remove the folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if folder.lstat().st_uid != os.getuid() or not folder.is_dir() or _is_fresh(folder):
                continue
            with (folder / _LOCK).open("a") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _clear(folder)
        except OSError:  # in use, or gone meanwhile
            continue


def _is_fresh(folder):
    """Whether another process may still be making it."""
    return folder.name.startswith(f"{_PREFIX}new-") and time.time() - folder.stat().st_mtime < 60


def _clear(folder):
    for run in folder.iterdir():
        if run.is_dir():
            end_all_in(run)
    path = folder / _CMDSTANPY_FOLDER
    other = Path(path.read_text() or os.devnull) if path.is_file() else None
    # The text may have been written by anybody: only a folder of ours next to this one is removed.
    is_next_to_it = other and other.parent == folder.parent and other.is_dir()
    if is_next_to_it and other.stat().st_uid == os.getuid():
        shutil.rmtree(other, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
