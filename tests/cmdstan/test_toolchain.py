"""A CmdStan home from PyPI packages: built whole, found again, mended, diagnosed."""

import errno
import importlib.metadata
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bdr_stan.cmdstan import toolchain
from bdr_stan.cmdstan.toolchain import ToolchainError, cache, home
from bdr_stan.cmdstan.toolchain.compiler import run_make
from bdr_stan.cmdstan.toolchain.progress import status


@pytest.fixture
def no_cmdstan(monkeypatch, tmp_path):
    """No CmdStan of the user's, and an empty cache."""
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def assembled(no_cmdstan):
    """A home of ours in an empty cache, without its driver object."""
    home.assemble()
    return home.home_directory()


# ------------------------------------------------------------------ setup and find


def test_setup_gives_cmdstanpy_a_home_and_is_quick_when_done():
    import cmdstanpy

    path = toolchain.setup(progress=False)
    assert cmdstanpy.cmdstan_path() == str(path)
    assert toolchain.find() == path
    stamps = {p: p.stat().st_mtime_ns for p in path.iterdir()}
    assert toolchain.setup(progress=False) == path
    assert {p: p.stat().st_mtime_ns for p in path.iterdir()} == stamps


def test_find_builds_nothing(no_cmdstan):
    assert toolchain.find() is None
    assert not no_cmdstan.exists()


def test_a_home_is_ready_only_with_its_driver(assembled):
    assert toolchain.find() is None
    assert home.faults(assembled) == ["the driver is not compiled"]
    (assembled / "driver_1.o").touch()
    assert toolchain.find() == assembled


def test_a_cmdstan_that_cmdstanpy_finds_is_used(no_cmdstan, monkeypatch, tmp_path):
    official = tmp_path / "cmdstan-2.36.0"
    (official / "bin").mkdir(parents=True)
    (official / "bin" / "stanc").touch(mode=0o755)
    (official / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    monkeypatch.setenv("CMDSTAN", str(official))
    assert toolchain.find() == official
    assert toolchain.setup(progress=False) == official
    assert not no_cmdstan.exists()


def test_cmdstanpy_accepts_the_assembled_home(assembled, monkeypatch):
    import cmdstanpy

    monkeypatch.setenv("CMDSTAN", str(assembled))
    assert cmdstanpy.cmdstan_path() == str(assembled)
    assert cmdstanpy.utils.cmdstan_version() == (2, 35)


def test_unknown_source_or_program():
    with pytest.raises(ValueError, match='"auto", "pypi" or "github", found .conda.'):
        toolchain.setup("conda")
    with pytest.raises(ValueError, match="no Stan program called 'nope'; there are: "):
        toolchain.setup(programs=["nope"])


# ------------------------------------------------------------------ mending


def test_headers_that_moved_are_linked_anew(assembled):
    wheel = home.find_wheel()
    assert (assembled / "include").readlink() == wheel / "include"
    (assembled / "include").unlink()
    (assembled / "include").symlink_to("/nowhere")
    assert "Stan's headers are gone" in home.faults(assembled)[0]
    (assembled / "driver_1.o").touch()
    home.assemble()
    assert (assembled / "include").readlink() == wheel / "include"
    assert (assembled / "driver_1.o").exists()  # the costly part is kept


def test_libraries_and_stanc_are_copies(assembled):
    for name in ("bin/stanc", "lib/libtbb.so.2", "lib/libsundials_cvodes.a"):
        assert (assembled / name).is_file()
        assert not (assembled / name).is_symlink()


def test_what_a_killed_process_left_is_cleared(no_cmdstan):
    stale = no_cmdstan / f"{home.home_directory().name}.building-1"
    stale.mkdir(parents=True)
    home.assemble()
    assert home.faults(home.home_directory()) == ["the driver is not compiled"]
    assert not stale.exists()


# ------------------------------------------------------------------ the makefile


def recipe(path, *arguments):
    """What make would run for a program."""
    program = path.parent / "coin"
    program.with_suffix(".stan").touch()
    code, said = run_make(path, "-n", *arguments, str(program))
    assert code == 0, said
    return said


def test_make_builds_as_cmdstanpy_asks(assembled):
    said = recipe(assembled, "STANCFLAGS+=--filename-in-msg=coin.stan", "STANCFLAGS+=--O1", "O=0")
    assert "bin/stanc --filename-in-msg=coin.stan --O1 --o=" in said
    assert " -O0 " in said
    program = str(assembled.parent / "coin")
    link = next(line for line in said.splitlines() if f"{assembled}/lib" in line)
    assert link.index(f"{program}.o") < link.index("driver_")  # the model's object comes first
    assert "-Wl,--disable-new-dtags" in link


def test_every_combination_of_flags_has_its_own_driver(assembled):
    def driver(*flags):
        return run_make(assembled, "-s", *flags, "driver-object")[1].split()[-1]

    combinations = [
        (), ("STAN_THREADS=True",), ("STAN_NO_RANGE_CHECKS=1",), ("CXXFLAGS=-march=native",),
    ]
    assert len({driver(*flags) for flags in combinations}) == len(combinations)
    assert driver("O=1") == driver()
    assert "-DSTAN_THREADS" in recipe(assembled, "STAN_THREADS=False")  # set is set
    assert " -I include " in recipe(assembled, "CXXFLAGS=-g")


def test_user_header(assembled):
    said = recipe(assembled, "STANCFLAGS+=--allow-undefined", "USER_HEADER=/a/b.hpp")
    assert "-include /a/b.hpp" in said
    said = recipe(assembled, "STANCFLAGS+=--allow-undefined")
    assert f"-include {assembled.parent}/user_header.hpp" in said


def test_opencl_is_refused(assembled):
    code, said = run_make(assembled, "STAN_OPENCL=1", "build")
    assert code != 0
    assert "STAN_OPENCL and STAN_MPI need the official CmdStan" in said


# ------------------------------------------------------------------ what may be missing


def test_no_httpstan(monkeypatch, no_cmdstan):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ToolchainError, match=r"pip install 'bdr-stan\[stan\]'"):
        toolchain.setup(progress=False)
    assert not no_cmdstan.exists()


def test_another_httpstan(monkeypatch, no_cmdstan):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.14.0")
    with pytest.raises(ToolchainError, match="httpstan 4.14.0 is installed, but .* needs httpstan"):
        toolchain.setup(progress=False)


def test_another_system(monkeypatch, no_cmdstan):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ToolchainError, match="on Linux only; use bdr-stan setup --from github"):
        toolchain.setup(progress=False)


def test_no_compiler(monkeypatch, no_cmdstan):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolchainError, match="needs no-such-compiler, .* apt-get install g[+][+]"):
        toolchain.setup(progress=False)


def test_cache_that_cannot_be_written(monkeypatch, no_cmdstan, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match="cannot build in the cache folder .* BDR_STAN_CACHE"):
        toolchain.setup(progress=False)


# ------------------------------------------------------------------ the cache


def test_a_full_disk_is_one_sentence():
    with (
        pytest.raises(ToolchainError, match="the disk is full; set the environment variable"),
        cache.writing(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError), cache.writing():
        raise FileNotFoundError(errno.ENOENT, "other trouble stays as it is")


def test_a_failed_build_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="half way"), cache.built_whole(tmp_path / "x") as folder:
        (folder / "part").touch()
        raise RuntimeError("half way")
    assert list(tmp_path.iterdir()) == []


def test_the_lock_ends_with_the_process(no_cmdstan):
    code = (
        "import time\nfrom bdr_stan.cmdstan.toolchain.cache import locked\n"
        "with locked('x'):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with cache.locked("x"):
        pass


# ------------------------------------------------------------------ progress and doctor


def test_progress_is_two_plain_lines_off_the_terminal(capsys):
    with status("Building"):
        time.sleep(1.2)
    assert capsys.readouterr().err.splitlines() == ["Building ...", "Building: done in 1 s"]
    with status("Looking"):
        pass
    assert capsys.readouterr().err == ""
    with status("Building", show=False):
        pass
    assert capsys.readouterr().err == ""


def test_doctor_is_content_after_setup():
    toolchain.setup(progress=False)
    assert [finding for finding in toolchain.doctor() if not finding.ok] == []


def test_doctor_says_how_to_mend(monkeypatch, no_cmdstan):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0")
    bad = {finding.what: finding for finding in toolchain.doctor() if not finding.ok}
    assert set(bad) == {"C++ compiler", "httpstan package", "CmdStan"}
    assert bad["C++ compiler"].mend == "sudo apt-get install g++"
    assert bad["httpstan package"].mend == "pip install 'httpstan==4.13.0'"
    assert bad["CmdStan"].mend == "bdr-stan setup"
    assert "it has not been built" in bad["CmdStan"].detail


def test_doctor_sees_headers_that_are_gone(assembled):
    (assembled / "include").unlink()
    stan = next(f for f in toolchain.doctor() if f.what == "CmdStan")
    assert not stan.ok
    assert "Stan's headers are gone" in stan.detail


def test_doctor_sees_a_cache_that_cannot_be_written(monkeypatch, no_cmdstan, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "file"))
    folder = next(f for f in toolchain.doctor() if f.what == "cache folder")
    assert not folder.ok
    assert folder.mend.startswith("export BDR_STAN_CACHE=")


@pytest.mark.slow
def test_a_virtual_environment_may_go_after_the_build(tmp_path):
    """Executables run on the copies in the home."""
    from bdr_stan.cmdstan.programs import compile_program

    own = toolchain.setup("pypi", progress=False)
    coin = compile_program(Path(__file__).parents[1] / "stan" / "driver_coin.stan", progress=False)
    needed = subprocess.run(["ldd", coin.exe_file], capture_output=True, text=True, check=True)
    tbb = next(line for line in needed.stdout.splitlines() if "libtbb" in line)
    assert os.path.samefile(tbb.split()[2], own / "lib" / "libtbb.so.2")
    assert "site-packages" not in needed.stdout
