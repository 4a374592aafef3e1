"""Processes that work in a folder: find them, and end them."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def working_in(folder: Path) -> list[int]:
    """Processes of this user that write to a folder (file=...) or have temporary files there."""
    writes = [os.fsencode(f"file={name}/") for name in {folder, folder.resolve()}]
    keeps = os.fsencode(f"TMPDIR={folder}")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # ended meanwhile, or another user's
            continue
        works = keeps in environment or any(text in command for text in writes)
        if works and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def end_all_in(folder: Path) -> None:
    """End every process that works in a folder, and those that they start meanwhile.

    Repeats until none is found twice: a new process shows its command only a moment after it
    starts.
    """
    deadline, quiet = time.monotonic() + 10, 0
    while quiet < 2 and time.monotonic() < deadline:
        found = working_in(folder)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        time.sleep(0.02)
