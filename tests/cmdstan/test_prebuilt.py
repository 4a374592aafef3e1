"""Prebuilt programs: found by all they are made of, passed over where they do not fit."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from bdr_stan import BLR, cmdstan
from bdr_stan.cmdstan import ToolchainError, home, prebuilt
from bdr_stan.cmdstan.programs import (
    compile_program,
    eject,
    program_names,
    program_path,
    stock_key,
)

ABOUT = {"inputs": {"N": {"type": "int", "dimensions": 0}}, "parameters": {"w": {}}}
RUNS = "#!/bin/sh\necho stan_version_major = 2\n"


def put(folder, *names, text=RUNS):
    """A folder with programs that do no more than to tell what they are."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    prebuilt.write_manifest(folder, {name: (stock_key(name), ABOUT) for name in names})
    return folder / names[0]


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")


@pytest.fixture
def blr(no_cmdstan, tmp_path, monkeypatch):
    """The one program that came with the package; the cache is empty."""
    folder = tmp_path / "my package (copy)"
    monkeypatch.setattr(prebuilt, "prebuilt_directory", lambda: folder)
    return put(folder, "blr")


# ------------------------------------------------------------------ what fits is used


def test_a_stock_program_needs_no_compiler_and_no_cmdstan(blr, no_cmdstan, no_compiler):
    import cmdstanpy

    model = compile_program("blr", progress=False)
    assert model.exe_file == str(blr)
    assert model.src_info() == ABOUT
    assert model.code() == program_path("blr").read_text()
    assert cmdstanpy.utils.cmdstan_version() == (2, 35)
    assert compile_program("blr", progress=False).exe_file == str(blr)  # what it set is no other's
    assert cmdstan.setup(programs=["blr"], progress=False) == blr.parent
    assert not no_cmdstan.exists()


def test_a_copy_of_the_program_is_the_same_program(blr, no_compiler, tmp_path):
    shutil.copytree(program_path("blr").parent, tmp_path / "mine")
    copy = tmp_path / "mine" / "blr.stan"
    assert compile_program(copy, progress=False).exe_file == str(blr)


@pytest.mark.filterwarnings("ignore::UserWarning")  # short chains
def test_a_fit_runs_on_a_prebuilt_program(tmp_path, monkeypatch, request):
    """With nothing else of CmdStan's."""
    compiled = compile_program("blr", progress=False)
    about, home = compiled.src_info(), cmdstan.setup(progress=False)
    if not cmdstan.is_own(home):
        pytest.skip("another CmdStan is installed and used")
    request.getfixturevalue("no_cmdstan")
    request.getfixturevalue("no_compiler")
    (tmp_path / "prebuilt").mkdir()
    shutil.copy2(compiled.exe_file, tmp_path / "prebuilt" / "blr")
    prebuilt.write_manifest(tmp_path / "prebuilt", {"blr": (stock_key("blr"), about)})
    recorded = (tmp_path / "prebuilt" / "programs.json").read_text()
    assert about["included_files"]  # paths of this machine, by which wheels would differ
    assert not any(path in recorded for path in about["included_files"])
    monkeypatch.setattr(prebuilt, "prebuilt_directory", lambda: tmp_path / "prebuilt")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(home / "lib"))
    points = np.random.default_rng(1).normal(size=(20, 5, 1))
    y = points.mean(axis=(1, 2))
    model = BLR(n_landmarks=3, method="nuts")
    model.fit(list(points), y, chains=2, warmup=100, draws=200, seed=1)
    assert model.idata.posterior.sizes["draw"] == 200
    assert not (tmp_path / "cache" / "programs").exists()


# ------------------------------------------------------------------ what does not is passed over


def edited(tmp_path):
    (program, *_) = eject("blr", tmp_path / "mine")
    program.write_text(program.read_text() + "// edited\n")
    return compile_program(program, progress=False)


def with_edited_function(tmp_path):
    program, include, *_ = eject("blr", tmp_path / "mine")
    include.write_text(include.read_text() + "// edited\n")
    return compile_program(program, progress=False)


PASSED_OVER = {
    "an edited program": edited,
    "an edited function": with_edited_function,
    "another flag": lambda _: compile_program("blr", progress=False, cpp_options={"O": 0}),
    "threads": lambda _: compile_program("blr", progress=False, threads=True),
    "another program": lambda _: compile_program("bdr", progress=False),
}
HARM = {
    "gone": lambda path: path.unlink(),
    "half": lambda path: path.write_text(RUNS[:10]),
    "not executable": lambda path: path.chmod(0o644),
    "for another processor": lambda path: put(path.parent, path.name, text="\x7fELF garbage"),
    "for a newer system": lambda path: put(path.parent, path.name, text="#!/bin/sh\nexit 1\n"),
    "no manifest": lambda path: (path.parent / "programs.json").unlink(),
    "half a manifest": lambda path: (path.parent / "programs.json").write_text('{"blr": {"key'),
    "a list for a manifest": lambda path: (path.parent / "programs.json").write_text("[]"),
}


@pytest.mark.parametrize("what", PASSED_OVER)
def test_what_is_made_of_other_things_is_compiled(blr, quick_make, tmp_path, what):
    found = Path(PASSED_OVER[what](tmp_path).exe_file)
    assert found.parent.parent == cmdstan.cache_directory() / "programs"


@pytest.mark.parametrize("harm", HARM)
def test_what_does_not_run_is_compiled(blr, quick_make, harm):
    HARM[harm](blr)
    found = Path(compile_program("blr", progress=False).exe_file)
    assert found.parent.parent == cmdstan.cache_directory() / "programs"


@pytest.mark.parametrize("harm", HARM)
def test_without_a_compiler_one_sentence_names_both_ways_out(blr, no_cmdstan, no_compiler, harm):
    HARM[harm](blr)
    with pytest.raises(ToolchainError, match=r"pip install 'bdr-stan\[compiler\]'; or .* g\+\+"):
        compile_program("blr", progress=False)


def test_an_edited_program_without_a_compiler(blr, no_compiler, tmp_path):
    with pytest.raises(ToolchainError, match=r"pip install 'bdr-stan\[compiler\]'; or .* g\+\+"):
        edited(tmp_path)


def test_settings_of_the_environment_are_other_flags(blr, quick_make, monkeypatch):
    monkeypatch.setenv("CXXFLAGS", "-ffast-math")
    assert compile_program("blr", progress=False).exe_file != str(blr)


# ------------------------------------------------------------------ another CmdStan, doctor


def test_another_cmdstan_compiles_its_own_unless_it_cannot(blr, monkeypatch, tmp_path):
    official = tmp_path / "cmdstan-2.36.0"
    (official / "bin").mkdir(parents=True)
    (official / "bin" / "stanc").write_text("#!/bin/sh\necho of the official one >&2; exit 1\n")
    (official / "bin" / "stanc").chmod(0o755)
    (official / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    monkeypatch.setenv("CMDSTAN", str(official))
    monkeypatch.setenv("CXX", "sh")  # there, if no compiler
    with pytest.raises(ToolchainError, match="of the official one"):
        compile_program("blr", progress=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compile_program("blr", progress=False).exe_file == str(blr)
    assert os.environ["CMDSTAN"] == str(official)
    with pytest.raises(ToolchainError, match="needs no-such-compiler, not found .*PATH: on Debian"):
        compile_program("bdr", progress=False)


def test_doctor_asks_for_nothing_where_all_programs_are_prebuilt(blr, no_compiler):
    put(blr.parent, "blr", *(set(program_names()) - {"blr"}))
    findings = {finding.what: finding for finding in cmdstan.doctor()}
    assert all(finding.ok for finding in findings.values())
    assert "all run" in findings["prebuilt programs"].detail
    assert "bdr-stan[compiler]" in findings["C++ compiler"].detail
    blr.unlink()
    findings = {finding.what: finding for finding in cmdstan.doctor()}
    assert findings["prebuilt programs"].detail.startswith("blr in ")
    assert not findings["C++ compiler"].ok


def test_the_manifest_tells_each_program_by_its_digests(blr):
    entry = json.loads((blr.parent / "programs.json").read_text())["blr"]
    assert entry["key"] == stock_key("blr")
    assert prebuilt.find_prebuilt("blr", entry["key"]) == (blr, ABOUT)
    assert prebuilt.find_prebuilt("blr", "another key") is None
    assert prebuilt.find_prebuilt("bdr", entry["key"]) is None


def test_the_package_is_a_cmdstan_to_run_programs_with(no_cmdstan):
    """Until there is a home."""
    package = home.path_to_run(home.home_directory())
    assert home.is_own(package)
    assert f"CMDSTAN_VERSION := {home.STAN_VERSION}\n" in (package / "makefile").read_text()
    home.assemble()
    assert home.path_to_run(home.home_directory()) == home.home_directory()
