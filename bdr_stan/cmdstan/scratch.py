"""Temporary folders for what Stan reads and writes during a fit.

They are in one folder per process, with a file beside it that the process locks. A process that is
killed leaves both, and perhaps chains that still write there: the next process ends these and
removes it.
"""

import atexit
import errno
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from filelock import FileLock, Timeout

from bdr_stan.cmdstan.cache import ToolchainError, belongs_to_user
from bdr_stan.cmdstan.processes import end_all_in

_PREFIX = "bdr_stan-fit-"
_MIN_FREE_BYTES = 1 << 20  # with less, chains have most likely failed for lack of space


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
    folder = Path(tempfile.gettempdir()) / f"{_PREFIX}{secrets.token_hex(8)}"
    lock = FileLock(_lock_path(folder), thread_local=False)
    lock.acquire()  # before there is a folder that others could take for stale
    folder.mkdir(mode=0o700)
    atexit.register(_remove, folder, lock, pid)
    _import_cmdstanpy(folder)
    return folder


def _lock_path(folder):
    return folder.with_name(f"{folder.name}.lock")


def _import_cmdstanpy(folder):
    """CmdStanPy makes a folder for its files when it is first imported: make it in ours."""
    usual = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        import cmdstanpy  # noqa: F401
    finally:
        tempfile.tempdir = usual


def _remove(folder, lock, pid):
    if os.getpid() == pid:  # not in a fork of that process
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        _lock_path(folder).unlink(missing_ok=True)


def remove_stale_folders() -> None:
    """End the chains and remove the folders of processes that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*.lock"):
        try:
            if belongs_to_user(path.lstat()) and path.is_file():
                with FileLock(path, timeout=0):
                    _clear(path.with_suffix(""))
                path.unlink(missing_ok=True)
        except (OSError, Timeout):  # in use, or gone meanwhile
            continue


def _clear(folder):
    if not folder.is_dir() or not belongs_to_user(folder.lstat()):
        return
    for run in folder.iterdir():
        if run.is_dir():
            end_all_in(run)
    shutil.rmtree(folder, ignore_errors=True)
