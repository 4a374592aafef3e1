"""Prebuilt programs: found by all they are made of, passed over where they do not fit."""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from bdr_stan import BLR, cmdstan
from bdr_stan.cmdstan import ToolchainError, programs
from bdr_stan.cmdstan.cache import about, seal
from bdr_stan.cmdstan.programs import (
    compile_program,
    eject,
    program_names,
    program_path,
    recipe,
)

ABOUT = {"inputs": {"N": {"type": "int", "dimensions": 0}}, "parameters": {"w": {}}}
RUNS = "#!/bin/sh\necho stan_version_major = 2\n"


def put(folder, *names, text=RUNS):
    """A folder with programs that do no more than to tell what they are; the first of them."""
    for name in names:
        entry = folder / f"{name}-{recipe(name).key}"
        entry.mkdir(parents=True, exist_ok=True)
        (entry / name).write_text(text)
        (entry / name).chmod(0o755)
        shutil.copyfile(program_path(name), entry / f"{name}.stan")
        seal(entry, ABOUT)
    return folder / f"{names[0]}-{recipe(names[0]).key}" / names[0]


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")


@pytest.fixture
def blr(no_cmdstan, tmp_path, monkeypatch):
    """The one program that came with the package; the cache is empty."""
    folder = tmp_path / "my package (copy)"
    monkeypatch.setattr(programs, "prebuilt_directory", lambda: folder)
    module = sys.modules["bdr_stan.cmdstan.doctor"]
    monkeypatch.setattr(module, "prebuilt_directory", lambda: folder)
    return put(folder, "blr")


# ------------------------------------------------------------------ what fits is used


def test_a_stock_program_needs_no_compiler_and_no_cmdstan(blr, no_cmdstan, no_compiler):
    model = compile_program("blr", progress=False)
    assert model.exe_file == str(blr)
    assert model.src_info() == ABOUT
    assert model.code() == program_path("blr").read_text()
    assert compile_program("blr", progress=False).exe_file == str(blr)
    assert not no_cmdstan.exists()


def test_a_copy_of_the_program_is_the_same_program(blr, no_compiler, tmp_path):
    shutil.copytree(program_path("blr").parent, tmp_path / "mine")
    copy = tmp_path / "mine" / "blr.stan"
    assert compile_program(copy, progress=False).exe_file == str(blr)


@pytest.mark.filterwarnings("ignore::UserWarning")  # short chains
def test_a_fit_runs_on_a_prebuilt_program(tmp_path, monkeypatch, request):
    """With nothing else of CmdStan's."""
    compiled = Path(compile_program("blr", progress=False).exe_file).parent
    request.getfixturevalue("no_cmdstan")
    request.getfixturevalue("no_compiler")
    shutil.copytree(compiled, tmp_path / "prebuilt" / compiled.name.rpartition("-")[0])
    assert "included_files" not in about(compiled)  # paths, by which wheels would differ
    monkeypatch.setattr(programs, "prebuilt_directory", lambda: tmp_path / "prebuilt")
    points = np.random.default_rng(1).normal(size=(20, 5, 1))
    y = points.mean(axis=(1, 2))
    model = BLR(n_landmarks=3, method="nuts")
    model.fit(list(points), y, chains=2, warmup=100, draws=200, seed=1)
    assert model.idata.posterior.sizes["draw"] == 200
    assert not (tmp_path / "cache" / "compiled").exists()


# ------------------------------------------------------------------ what does not is passed over


def edited(tmp_path):
    (program, *_) = eject("blr", tmp_path / "mine")
    program.write_text(program.read_text() + "// edited\n")
    return compile_program(program, progress=False)


def with_edited_function(tmp_path):
    program, include, *_ = eject("blr", tmp_path / "mine", fast=True)
    include.write_text(include.read_text() + "// edited\n")
    return compile_program(program, progress=False)


PASSED_OVER = {
    "an edited program": edited,
    "an edited function": with_edited_function,
    "another program": lambda _: compile_program("bdr", progress=False),
}
HARM = {
    "gone": lambda path: path.unlink(),
    "half": lambda path: path.write_text(RUNS[:10]),
    "not executable": lambda path: path.chmod(0o644),
    "for another processor": lambda path: put(path.parents[1], "blr", text="\x7fELF garbage"),
    "for a newer system": lambda path: put(path.parents[1], "blr", text="#!/bin/sh\nexit 1\n"),
    "no manifest": lambda path: (path.parent / "manifest.json").unlink(),
    "half a manifest": lambda path: (path.parent / "manifest.json").write_text('{"files": {"bl'),
    "a list for a manifest": lambda path: (path.parent / "manifest.json").write_text("[]"),
}


@pytest.mark.parametrize("what", PASSED_OVER)
def test_what_is_made_of_other_things_is_compiled(blr, quick_home, tmp_path, what):
    found = Path(PASSED_OVER[what](tmp_path).exe_file)
    assert found.parent.parent == cmdstan.cache_directory() / "compiled"


@pytest.mark.parametrize("harm", HARM)
def test_what_does_not_run_is_compiled(blr, quick_home, harm):
    HARM[harm](blr)
    found = Path(compile_program("blr", progress=False).exe_file)
    assert found.parent.parent == cmdstan.cache_directory() / "compiled"


@pytest.mark.parametrize("harm", HARM)
def test_without_cmdstan_one_sentence_names_the_ways_out(blr, no_cmdstan, no_compiler, harm):
    HARM[harm](blr)
    with pytest.raises(ToolchainError, match="install_cmdstan, .* make setup; or .*stanli"):
        compile_program("blr", progress=False)


def test_an_edited_program_without_cmdstan(blr, no_compiler, tmp_path):
    with pytest.raises(ToolchainError, match="install_cmdstan, .* make setup; or .*stanli"):
        edited(tmp_path)


def test_settings_of_the_environment_are_other_flags(blr, quick_home, monkeypatch):
    monkeypatch.setenv("CXXFLAGS", "-ffast-math")
    assert compile_program("blr", progress=False).exe_file != str(blr)


# ------------------------------------------------------------------ another CmdStan, doctor


def test_beside_another_cmdstan_it_is_used_too(blr, no_cmdstan, monkeypatch, tmp_path):
    official = tmp_path / "cmdstan-2.36.0"
    (official / "bin").mkdir(parents=True)
    (official / "bin" / "stanc").write_text("#!/bin/sh\necho of the official one >&2; exit 1\n")
    (official / "bin" / "stanc").chmod(0o755)
    (official / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    monkeypatch.setenv("CMDSTAN", str(official))
    monkeypatch.setenv("CXX", "sh")  # there, if no compiler
    assert compile_program("blr", progress=False).exe_file == str(blr)
    assert os.environ["CMDSTAN"] == str(official)
    with pytest.raises(ToolchainError, match="of the official one"):
        edited(tmp_path)


def test_doctor_asks_for_nothing_where_all_programs_are_prebuilt(blr, no_compiler):
    put(blr.parents[1], "blr", *(set(program_names()) - {"blr"}))
    findings = {finding.what: finding for finding in cmdstan.doctor()}
    assert [finding for finding in findings.values() if not finding.ok] == []
    assert "all run" in findings["prebuilt programs"].detail
    assert "needed for edited programs only" in findings["C++ compiler"].detail
    assert "needed for edited programs only" in findings["CmdStan"].detail
    blr.unlink()
    findings = {finding.what: finding for finding in cmdstan.doctor()}
    assert findings["prebuilt programs"].detail.startswith("blr in ")
    assert not findings["C++ compiler"].ok
