"""scratch: folders of a fit, gone after it, and cleared when their process was killed."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from bdr_stan import scratch
from bdr_stan.cmdstan import ToolchainError
from bdr_stan.scratch import working_in

CHAIN = "import time; print('on', flush=True); time.sleep(100)"
HOLD = f"""
import subprocess, sys, time
from bdr_stan.scratch import scratch_folder
with scratch_folder() as folder:
    command = [sys.executable, "-c", {CHAIN!r}, f"file={{folder}}/draws.csv"]
    chain = subprocess.Popen(command, stdout=subprocess.PIPE)
    chain.stdout.readline()
    open(f"{{folder}}/data.json", "w").close()
    print(folder, flush=True)
    time.sleep(100)
"""
STARTS = f"""
import subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
from bdr_stan.scratch import scratch_folder
with scratch_folder() as folder, ThreadPoolExecutor(1) as threads:
    command = [sys.executable, "-c", {CHAIN!r}, f"file={{folder}}/draws.csv"]
    threads.submit(subprocess.run, command)
    time.sleep(100)
"""


@pytest.fixture
def temporary(temporary):
    scratch._process_folder.cache_clear()
    yield temporary
    scratch._process_folder.cache_clear()


def test_a_folder_is_gone_after_its_fit(temporary):
    with scratch.scratch_folder() as first:
        assert os.path.isdir(first)
        with scratch.scratch_folder() as second:
            assert first != second
    assert not os.path.exists(first)
    assert not os.path.exists(second)


def test_a_fit_that_fails_ends_its_chains(temporary):
    with pytest.raises(KeyboardInterrupt), scratch.scratch_folder() as folder:
        chain = subprocess.Popen([sys.executable, "-c", CHAIN, f"file={folder}/draws.csv"])
        raise KeyboardInterrupt
    assert chain.wait(10) == -signal.SIGKILL
    assert not os.path.exists(folder)


def test_an_interrupt_while_chains_start_does_not_wait_for_them(temporary, python):
    """Threads that wait for chains are joined where a block ends badly."""
    process = python(STARTS)
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=50)[1]
    assert os.listdir(temporary) == []


def test_interrupts_are_as_before_after_a_fit(temporary):
    mine = signal.default_int_handler
    before = signal.signal(signal.SIGINT, mine)  # jobs in the background ignore it
    try:
        with scratch.scratch_folder():
            assert signal.getsignal(signal.SIGINT) is not mine
        assert signal.getsignal(signal.SIGINT) is mine
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with scratch.scratch_folder():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_start_clears_what_a_killed_process_left(temporary, python, how):
    process = python(HOLD)
    folder = process.stdout.readline().strip()
    assert len(working_in(scratch.Path(folder))) == 1
    scratch.remove_stale_folders()
    assert os.listdir(folder) == ["data.json"]  # it still lives
    process.send_signal(how)
    process.wait(10)
    deadline = time.monotonic() + 10
    while os.path.exists(folder) and time.monotonic() < deadline:
        scratch.remove_stale_folders()
    assert working_in(scratch.Path(folder)) == []
    assert os.listdir(temporary) == []  # that of cmdstanpy is gone, too


def test_temporary_files_that_somebody_cleared(temporary):
    with scratch.scratch_folder() as folder:
        pass
    os.rename(os.path.dirname(folder), temporary / "elsewhere")
    with scratch.scratch_folder() as folder:
        assert os.path.isdir(folder)


def test_a_full_disk_is_one_sentence(temporary):
    with (
        pytest.raises(ToolchainError, match="^the disk is full, the fit stopped in .*TMPDIR"),
        scratch.scratch_folder(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_trouble_on_a_disk_that_filled_meanwhile_is_the_same_sentence(temporary, monkeypatch):
    nearly_full = shutil._ntuple_diskusage(10**9, 10**9 - 4096, 4096)
    with (
        pytest.raises(ToolchainError, match="^the disk is full, the fit stopped in") as raised,
        scratch.scratch_folder(),
    ):
        monkeypatch.setattr(scratch.shutil, "disk_usage", lambda path: nearly_full)
        raise RuntimeError("no draws found")
    assert isinstance(raised.value.__cause__, RuntimeError)
    monkeypatch.undo()
