"""Processes that work in a folder: find them, and end them."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


def working_in(folder: Path) -> "list[psutil.Process]":
    """Processes of this user that write to a folder (file=...) or have temporary files there."""
    import psutil

    writes = [f"file={name}{os.sep}" for name in {folder, folder.resolve()}]
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # ended meanwhile, or another user's
            command, environment = process.cmdline(), process.environ()
            works = environment.get("TMPDIR") == str(folder) or any(
                text in argument for argument in command for text in writes
            )
            if works and process.pid != os.getpid():
                found.append(process)
    return found


def end_all_in(folder: Path) -> None:
    """End every process that works in a folder, and those that they start meanwhile.

    Repeats until none is found twice: a new process shows its command only a moment after it
    starts.
    """
    import psutil

    deadline, quiet = time.monotonic() + 10, 0
    while quiet < 2 and time.monotonic() < deadline:
        found = working_in(folder)
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        quiet = 0 if found else quiet + 1
        time.sleep(0.02)
