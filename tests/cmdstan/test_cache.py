"""cache: whole or absent, one builder at a time, trouble in one sentence."""

import errno
import signal
import subprocess
import sys

import pytest

from bdr_stan.cmdstan import ToolchainError, cache


def test_a_full_disk_is_one_sentence():
    with (
        pytest.raises(ToolchainError, match="the disk is full; set the environment variable"),
        cache.writing(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError), cache.writing():
        raise FileNotFoundError(errno.ENOENT, "other trouble stays as it is")


def test_a_cache_below_a_file_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "file" / "x"))
    with (
        pytest.raises(
            ToolchainError, match="file/x: .*Not a directory.*BDR_STAN_CACHE to a folder"
        ),
        cache.locked("x"),
    ):
        pass


def test_a_failed_build_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="half way"), cache.built_whole(tmp_path / "x") as folder:
        (folder / "part").touch()
        raise RuntimeError("half way")
    assert list(tmp_path.iterdir()) == []


def test_the_lock_ends_with_the_process(no_cmdstan):
    code = (
        "import time\nfrom bdr_stan.cmdstan.cache import locked\n"
        "with locked('x'):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with cache.locked("x"):
        pass
