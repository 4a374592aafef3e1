"""cache: whole or absent, one builder at a time, trouble in one sentence."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from bdr_stan.cmdstan import ToolchainError, cache
from bdr_stan.cmdstan.programs import compile_program


def test_a_full_disk_is_one_sentence():
    with (
        pytest.raises(ToolchainError, match="the disk is full; set the environment variable"),
        cache.writing(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError), cache.writing():
        raise FileNotFoundError(errno.ENOENT, "other trouble stays as it is")


def test_a_cache_that_cannot_be_made_is_named(monkeypatch):
    monkeypatch.setenv("BDR_STAN_CACHE", "/proc/none")  # where nobody makes folders
    expected = pytest.raises(ToolchainError, match="cache folder /proc/none: it cannot be writ")
    with expected, cache.lock("x"):
        pass


def test_a_cache_below_a_file_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "file" / "x"))
    with (
        pytest.raises(
            ToolchainError, match="file/x: .*Not a directory.*BDR_STAN_CACHE to a folder"
        ),
        cache.lock("x"),
    ):
        pass


def test_what_fails_leaves_nothing_and_what_is_done_is_whole(tmp_path):
    target = tmp_path / "x"
    (tmp_path / "x.new").mkdir()  # of a process that was killed
    (tmp_path / "x.new" / "half").touch()
    with cache.whole(target) as folder:
        (folder / "part").write_text("first")
    with pytest.raises(RuntimeError, match="half way"), cache.whole(target) as folder:
        (folder / "part").write_text("half")
        raise RuntimeError("half way")
    assert [path.name for path in tmp_path.rglob("*")] == ["x", "part"]
    assert (target / "part").read_text() == "first"


def test_the_lock_ends_with_the_process(no_cmdstan):
    code = (
        "import time\nfrom bdr_stan.cmdstan.cache import lock\n"
        "with lock('x'):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with cache.lock("x"):
        pass


def test_a_folder_that_others_can_write_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("BDR_STAN_CACHE", raising=False)
    monkeypatch.setattr(cache.platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    cache.check_trusted()  # it is not there yet
    folder = tmp_path / "bdr_stan"
    folder.mkdir(mode=0o755)
    cache.check_trusted()
    folder.chmod(0o777)
    with pytest.raises(ToolchainError, match="bdr_stan can be written to by all users, so"):
        compile_program("blr")
    monkeypatch.setenv("BDR_STAN_CACHE", str(folder))
    cache.check_trusted()
    monkeypatch.delenv("BDR_STAN_CACHE")
    folder.chmod(0o755)
    me = os.getuid()
    if me == 0:  # root trusts itself, and may give the folder away
        os.chown(folder, 4321, -1)
    monkeypatch.setattr(cache.os, "getuid", lambda: me + 1)
    with pytest.raises(ToolchainError, match=r"belongs to the user \d+, so programs"):
        cache.check_trusted()
