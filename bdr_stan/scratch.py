"""Temporary folders for files of Stan during a fit and of compilers during a build.

They are in one folder per process, with a file next to it that the process locks. A killed process
leaves both, and perhaps chains or compilers that still write there: the next process ends them and
removes the folder.
"""

import atexit
import errno
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from bdr_stan.extras import ToolchainError, in_main_thread

if TYPE_CHECKING:
    import psutil

_PREFIX = "bdr_stan-fit-"
_MIN_FREE_BYTES = 1 << 20  # with less, chains have most likely failed for lack of space


@contextmanager
def scratch_folder(what: str = "the fit") -> Iterator[str]:
    """An empty folder for `what`; on an error, processes that still run in it are ended."""
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
                f"the disk is full, {what} stopped in {tempfile.gettempdir()}; make room, or "
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
    """On an interrupt, end processes in the folder before raising it.

    CmdStanPy, interrupted while it starts chains, would wait for those already started. Custom
    handlers of interrupts are left in place.
    """
    raises = signal.default_int_handler
    if not in_main_thread() or signal.getsignal(signal.SIGINT) is not raises:
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
    lock.acquire()  # before there is a folder that others could consider stale
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


def belongs_to_user(state: os.stat_result) -> bool:
    """Whether the user of this process owns a file; Windows, without such ids, has folders each."""
    return not hasattr(os, "getuid") or state.st_uid == os.getuid()


# ------------------------------------------------------------------ processes


def working_in(folder: Path) -> "list[psutil.Process]":
    """Processes of this user that write to a folder (file=...) or have temporary files there."""
    import psutil

    writes = [f"file={name}{os.sep}" for name in {folder, folder.resolve()}]
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # ended meanwhile, or another user's
            command = process.cmdline()
            works = any(text in argument for argument in command for text in writes)
            works = works or process.environ().get("TMPDIR") == str(folder)
            if works and process.pid != os.getpid():
                processes.append(process)
    return processes


def end_all_in(folder: Path) -> None:
    """End every process that works in a folder, and those that they start meanwhile.

    Repeats until none is found twice: a new process shows its command only a moment after it
    starts.
    """
    import psutil

    deadline, quiet = time.monotonic() + 10, 0
    while quiet < 2 and time.monotonic() < deadline:
        processes = working_in(folder)
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        quiet = 0 if processes else quiet + 1
        time.sleep(0.02)
