"""The command line as a program: help, errors, pipes, completion, and the commands for Stan."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from builders.shell import FIT, PROGRAM, fails, program, run

import bdr_stan
from bdr_stan import cli
from bdr_stan.cmdstan import Finding
from bdr_stan.posterior.settings import WARMUP, WARMUP_OF_VARIANTS


def test_the_traceback_is_shown_on_demand(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        run("--debug", "summary", tmp_path / "no.nc", catch_exceptions=False)
    monkeypatch.setenv("BDR_STAN_DEBUG", "1")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        run("summary", tmp_path / "no.nc", catch_exceptions=False)


def test_an_unexpected_error_is_not_hidden(monkeypatch):
    monkeypatch.setattr("bdr_stan.cmdstan.doctor", lambda: {}["nothing"])
    assert isinstance(run("doctor").exception, KeyError)


def test_doctor_says_how_to_fix_it_and_exits_with_1(monkeypatch):
    good = Finding("make", True, "/usr/bin/make")
    bad = Finding("C++ compiler", False, "g++ not\nfound", "sudo apt-get install g++")
    monkeypatch.setattr("bdr_stan.cmdstan.doctor", lambda: [good])
    result = run("doctor")
    assert (result.exit_code, result.output) == (0, "ok     make: /usr/bin/make\n")
    monkeypatch.setattr("bdr_stan.cmdstan.doctor", lambda: [good, bad])
    result = run("doctor")
    assert result.exit_code == 1
    assert result.output.splitlines()[1:] == [
        "WRONG  C++ compiler: g++ not found",
        "       fix it with: sudo apt-get install g++",
    ]


def test_setup_compiles_the_programs_or_says_what_to_do(monkeypatch, tmp_path):
    result = run("setup")
    assert result.output.endswith("Stan is ready, with blr and bdr compiled\n")
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "cache"))
    fails("needs CmdStan, and there is none: run install_cmdstan", "setup")


def test_eject_writes_a_program_that_compile_takes(tmp_path):
    target = tmp_path / "mine.stan"
    result = run("eject", "blr", target)
    assert result.exit_code == 0, result.output
    assert "y_new" in target.read_text() and "log_lik" in target.read_text()
    assert run("eject", "blr", tmp_path / "fast", "--fast").exit_code == 0
    assert (tmp_path / "fast" / "functions" / "compressed_normal.stanfunctions").is_file()
    listed = run("models").output
    assert "  blr: " in listed and "  bdr_glm: " in listed
    target.write_text(target.read_text() + "\n")
    fails("exists already", "eject", "blr", target)
    assert run("eject", "blr", target, "--force").exit_code == 0
    fails("no plain Stan program called 'ridge'; there are: ", "eject", "ridge", tmp_path)


def test_compile_names_the_executable():
    result = run("compile", "blr")
    assert result.exit_code == 0, result.output
    name, executable = result.stdout.strip().split(": ")
    assert name == "blr" and os.access(executable, os.X_OK)
    fails("no accelerated Stan program called 'ridge'", "compile", "ridge")
    fails("no Stan program", "compile", "/nowhere/my.stan")


def test_help_and_version_are_quick_and_import_nothing_heavy():
    assert program("--version").stdout == f"bdr-stan, version {bdr_stan.__version__}\n"
    begun = time.monotonic()
    said = program("--help").stdout
    assert time.monotonic() - begun < 2  # a tenth of a second on an idle machine
    for command in cli.main.commands:
        assert f"  {command} " in said
    code = "import bdr_stan.cli, sys, json; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert not {"arviz", "cmdstanpy", "sklearn", "pandas", "matplotlib", "numpy"} & set(loaded)


def test_help_of_fit_has_the_default_warmup():
    said = " ".join(program("fit", "--help").stdout.split())
    assert f"[default: {WARMUP}; {WARMUP_OF_VARIANTS} for bdr-classifier and with" in said


def test_away_from_a_terminal_there_are_no_escape_codes(folder):
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "TERM": "xterm-256color"}
    done = program("summary", folder / "fit.nc", env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "sigma" in done.stdout


def test_a_closed_pipe_is_no_error(folder):
    command = f"{PROGRAM} summary --all {folder / 'fit.nc'} | head -n 1"
    done = subprocess.run(
        [shutil.which("bash"), "-c", command], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("BDR (nuts)")
    assert "\x1b" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "Broken" not in done.stderr


def test_an_error_is_one_line_on_stderr(tmp_path):
    done = program("summary", tmp_path / "no.nc")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: there is no file {tmp_path / 'no.nc'}\n"


@pytest.mark.parametrize("command", cli.main.commands)
def test_each_command_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output and "Error" not in result.output
    assert f"\n  Example:\n    bdr-stan {command}" in result.output


def test_shells_complete_commands_and_options():
    assert "_BDR_STAN_COMPLETE=bash_source bdr-stan" in run("--help").output
    script = program(env=os.environ | {"_BDR_STAN_COMPLETE": "zsh_source"}).stdout
    assert "compdef" in script
    asked = {"_BDR_STAN_COMPLETE": "bash_complete", "COMP_WORDS": "bdr-stan re", "COMP_CWORD": "1"}
    assert program(env=os.environ | asked).stdout == "plain,report\n"


@pytest.mark.parametrize("command", ["fit", "predict", "summary", "report"])
def test_a_missing_file_is_told_before_anything_is_imported(command, tmp_path):
    labelled = [*FIT, "-o", "never"] if command == "fit" else []
    outputs = {"predict": ["new.csv", "-o", "p.csv"], "report": ["-o", "p.html"]}
    code = (
        "import atexit, sys\n"
        "from bdr_stan.cli import main\n"
        "atexit.register(lambda: print('sklearn' in sys.modules))\n"
        f"main({[command, 'no.file', *labelled, *outputs.get(command, [])]!r})"
    )
    asked = [sys.executable, "-c", code]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: there is no file no.file\n"
    assert done.stdout == "False\n"


def test_python_m_is_the_program():
    ran = subprocess.check_output([sys.executable, "-m", "bdr_stan", "--help"], text=True)
    assert ran == program("--help").stdout.replace("bdr_stan", "bdr-stan")


def test_a_closed_or_full_output_is_no_traceback(folder):
    fit = [str(PROGRAM), "summary", str(folder / "fit.nc")]
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *fit], stderr=-1, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [PROGRAM, "models"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ran.returncode, ran.stderr) == (1, "Error: No space left on device\n")
