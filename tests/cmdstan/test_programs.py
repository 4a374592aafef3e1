"""Stan programs: found, compiled once, cached by all they depend on, ejected."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from bdr_stan import cmdstan, scratch
from bdr_stan.cmdstan import ToolchainError, programs
from bdr_stan.cmdstan.programs import ProgramError, compile_program, eject, runs_at_once

COIN = Path(__file__).with_name("coin.stan")
SHIFT = "real shift(real x) {\n  return x + 1;\n}\n"
USES_SHIFT = """functions {
#include functions/shift.stanfunctions
}
parameters {
  real x;
}
model {
  x ~ normal(shift(1), 1);
}
"""


@pytest.fixture
def user(tmp_path):
    """A user's program with an include of its own."""
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "shift.stanfunctions").write_text(SHIFT)
    (tmp_path / "mine.stan").write_text(USES_SHIFT)
    return tmp_path / "mine.stan"


NAMES = [
    "my project (copy)",
    "O'Brien",
    "a&b",
    "a;touch hacked",
    "$(touch hacked)",
    "`touch hacked`",
    "$HOME",
    'say "hi"',
    "a,b",
    "a:b",
    "#1 100%",
    "x=y|z>hacked",
    "Übung 数",
    "tab\tand\nline",
]


@pytest.fixture
def entry(monkeypatch):
    """Name of the folder in the cache that `compile_program` would build for some arguments."""

    class Stopped(Exception):
        pass

    def stop(folder, *ingredients):
        raise Stopped(folder.name)

    def name_of(program):
        with monkeypatch.context() as patch, pytest.raises(Stopped) as stopped:
            patch.setattr(programs, "_build", stop)
            compile_program(program, progress=False)
        return str(stopped.value)

    return name_of


# ------------------------------------------------------------------ stock programs


def test_stock_programs_are_found_by_name():
    assert {"blr", "bdr"} <= set(programs.program_names())
    path = programs.program_path("bdr")
    assert path.name == "bdr.stan"
    assert path.parent == programs.fast_directory()
    plain = programs.program_path("bdr", fast=False)
    assert plain.parent == programs.stan_directory() and plain.is_file()
    assert path.is_file()


def test_an_unknown_name_lists_the_names():
    with pytest.raises(
        ValueError, match="no accelerated Stan program called 'bdrr'; there are: .*bdr, .*blr"
    ):
        programs.program_path("bdrr")
    with pytest.raises(
        ValueError, match="no plain Stan program called 'bdr_glm'; there are: bdr, "
    ):
        programs.program_path("bdr_glm", fast=False)
    with pytest.raises(FileNotFoundError, match="no Stan program .*nowhere/mine.stan"):
        compile_program("nowhere/mine.stan")


def test_eject_names_the_folder_that_it_cannot_write(tmp_path, monkeypatch):
    for code, reason in ((errno.ENOSPC, "the disk is full"), (errno.EROFS, "cannot be written to")):

        def refuse(*_, code=code, **__):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(Path, "mkdir", refuse)
        with pytest.raises(OSError, match=f"^cannot save to {tmp_path / 'blr.stan'}: .*{reason}"):
            eject("blr", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_eject_writes_a_program_ready_to_edit(tmp_path):
    plain = eject("bdr", tmp_path / "plain.stan")
    assert plain == [tmp_path / "plain.stan"]
    assert plain[0].read_text() == programs.program_path("bdr", fast=False).read_text()
    written = eject("bdr", tmp_path / "new" / "mine.stan", fast=True)
    assert written[0] == tmp_path / "new" / "mine.stan"
    assert written[0].read_text() == programs.program_path("bdr").read_text()
    includes = programs._includes(written[0], [tmp_path / "new"])
    assert set(includes.values()) == set(written[1:])
    assert eject("blr", tmp_path)[0] == tmp_path / "blr.stan"


def test_eject_does_not_overwrite(tmp_path):
    mine = tmp_path / "bdr.stan"
    mine.write_text("my own work")
    with pytest.raises(FileExistsError, match="bdr.stan exists already; force=True"):
        eject("bdr", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["bdr.stan"]
    assert mine.read_text() == "my own work"
    eject("bdr", tmp_path, force=True)
    assert mine.read_text() == programs.program_path("bdr", fast=False).read_text()


def test_eject_shares_includes_between_programs(tmp_path):
    eject("bdr", tmp_path, fast=True)
    assert eject("bdr", tmp_path, fast=True) == []  # all there, unchanged
    eject("blr", tmp_path, fast=True)
    assert {"bdr.stan", "blr.stan"} <= {p.name for p in tmp_path.iterdir()}


def test_eject_that_fails_leaves_nothing(tmp_path, monkeypatch):
    real, calls = Path.open, []

    def fail_late(path, *arguments, **options):
        calls.append(path)
        if path.suffix == ".partial" and sum(each.suffix == ".partial" for each in calls) == 2:
            raise OSError("no room")
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", fail_late)
    with pytest.raises(OSError, match="no room"):
        eject("bdr", tmp_path, fast=True)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


# ------------------------------------------------------------------ what the cache goes by


def test_includes_are_followed_and_found_beside_the_program_first(user):
    folder = user.parent / "functions"
    (folder / "shift.stanfunctions").write_text('#include "functions/more.stanfunctions"\n' + SHIFT)
    (folder / "more.stanfunctions").write_text("// more\n")
    folders = programs._include_folders(user)
    assert programs._includes(user, folders) == {
        "functions/shift.stanfunctions": folder / "shift.stanfunctions",
        "functions/more.stanfunctions": folder / "more.stanfunctions",
    }
    assert folders[-1] == programs.fast_directory().absolute()


def test_the_key_changes_with_all_that_matters(quick_home, user, entry, monkeypatch):
    flags = {"STAN_THREADS": "1", "O": "0", "CXXFLAGS": "-march=native"}
    for name in flags:
        monkeypatch.delenv(name, raising=False)
    keys = [entry(user)]
    assert entry(user) == keys[0]
    include = user.parent / "functions" / "shift.stanfunctions"
    include.write_text(SHIFT.replace("+ 1", "+ 2"))
    keys.append(entry(user))
    user.write_text(USES_SHIFT + "// edited\n")
    keys.append(entry(user))
    user.write_text("// stanc: --O1\n" + USES_SHIFT)
    keys.append(entry(user))
    for name, value in flags.items():
        monkeypatch.setenv(name, value)
        keys.append(entry(user))
    monkeypatch.setattr(programs, "compiler_version", lambda program: "g++ 99")
    keys.append(entry(user))
    (quick_home / "make").mkdir()
    (quick_home / "make" / "local").write_text("CXXFLAGS += -g\n")
    keys.append(entry(user))
    with (quick_home / "makefile").open("a") as file:
        file.write("# another version\n")
    keys.append(entry(user))
    assert len(set(keys)) == len(keys)
    monkeypatch.setenv("BDR_STAN_CACHE", str(user.parent))
    assert entry(user) == keys[-1]  # a cache can be moved


def test_a_program_declares_options_of_stanc(user):
    user.write_text("// my program\n// stanc: --O1 --use-opencl\n" + USES_SHIFT)
    assert programs.recipe(user).options == ["--O1", "--use-opencl"]
    user.write_text("// stanc: translates this, not --O1\n" + USES_SHIFT)
    assert programs.recipe(user).options == []
    assert programs.recipe("bdr").options == ["--O1"]


def test_a_program_that_calls_reduce_sum_has_threads(user):
    assert programs.recipe(user).flags == []
    include = user.parent / "functions" / "shift.stanfunctions"
    include.write_text("real sum_of(data array[] real x) { return reduce_sum(f, x, 1); }\n")
    assert programs.recipe(user).flags == ["STAN_THREADS=TRUE"]


def test_a_second_call_compiles_nothing(monkeypatch):
    first = compile_program(COIN, progress=False)
    monkeypatch.setattr(programs, "_build", None)
    again = compile_program(COIN, progress=False)
    assert again.exe_file == first.exe_file
    assert Path(again.exe_file).parent.parent == cmdstan.cache_directory() / "compiled"
    assert not COIN.with_suffix(".hpp").exists()
    assert not COIN.with_suffix("").exists()


# ------------------------------------------------------------------ messages


def test_a_syntax_error_names_the_users_file_and_line(user):
    user.write_text("parameters {\n  real x\n}\n")
    with pytest.raises(ProgramError) as caught:
        compile_program(user, progress=False)
    message = str(caught.value)
    assert message.startswith(f"{user} is not a valid Stan program.\n")
    assert f"Syntax error in '{user}', line 3, column 0" in message
    assert "make" not in message


def test_a_syntax_error_in_an_include_names_the_include(user):
    include = user.parent / "functions" / "shift.stanfunctions"
    include.write_text("real shift(real x) {\n  return x + ;\n}\n")
    with pytest.raises(ProgramError) as caught:
        compile_program(user, progress=False)
    message = str(caught.value)
    assert f"Syntax error in '{include}', line 2, column 13, included from" in message
    assert f"'{user}', line 2" in message


def test_a_missing_include(user):
    shutil.rmtree(user.parent / "functions")
    with pytest.raises(ProgramError, match="Could not find include file"):
        compile_program(user, progress=False)


def test_what_the_cpp_compiler_says_is_shown_without_make(quick_cache, quick_compiler, user):
    quick_compiler.write_text(
        '#!/bin/sh\ncase "$*" in -*n) echo 1; exit;; esac\necho "it is compiled"\n'
        'echo "mine.hpp:3: error: of the compiler"; exit 1\n'
    )
    with pytest.raises(ProgramError) as caught:
        compile_program(user, progress=False)
    assert str(caught.value).startswith(
        f"{user} does not compile as C++:\nmine.hpp:3: error: of the compiler"
    )
    assert "make" not in str(caught.value)


def test_an_odd_folder_of_temporary_files(quick_cache, user, monkeypatch):
    odd = user.parent / "a folder; $(id)"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    scratch._process_folder.cache_clear()
    with pytest.raises(ToolchainError, match="blanks or signs in its name.*TMPDIR to another"):
        compile_program(user, progress=False)
    scratch._process_folder.cache_clear()


def test_a_program_that_is_edited_meanwhile_is_not_taken_for_another(
    quick_cache, user, monkeypatch
):
    real = programs._stanc

    def edits(*arguments):
        user.write_text(USES_SHIFT + "// edited\n")
        return real(*arguments)

    monkeypatch.setattr(programs, "_stanc", edits)
    with pytest.raises(ToolchainError, match="mine.stan was changed meanwhile: compile it again"):
        compile_program(user, progress=False)
    assert list(quick_cache.glob("compiled/*")) == []


def test_a_cache_folder_that_cannot_be_written(user, monkeypatch):
    (user.parent / "file").touch()
    monkeypatch.setenv("BDR_STAN_CACHE", str(user.parent / "file"))
    with pytest.raises(ToolchainError, match="cannot build in the cache folder .*BDR_STAN_CACHE"):
        compile_program(user, progress=False)


# ------------------------------------------------------------------ names of folders and files


@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_a_folder_reaches_a_shell(quick_cache, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / name / "sub"
    (folder / "functions").mkdir(parents=True)
    (folder / "functions" / "shift.stanfunctions").write_text(SHIFT)
    (folder.parent / "more.stanfunctions").write_text("// more\n")
    more = '#include "../more.stanfunctions"\n'
    program = folder / f"{name.replace('/', '')}.stan"
    program.write_text(USES_SHIFT.replace("functions {\n", "functions {\n" + more))
    model = compile_program(program, progress=False)
    assert Path(model.exe_file).is_file()
    assert model.code() == program.read_text()
    assert not list(tmp_path.rglob("hacked"))
    assert not list(quick_cache.rglob("hacked"))
    program.write_text("parameters {\n")
    with pytest.raises(ProgramError, match="is not a valid Stan program") as caught:
        compile_program(program, progress=False)
    assert str(program) in str(caught.value)


# ------------------------------------------------------------------ the cache later on


def test_a_cache_that_was_copied_compiles_nothing(quick_cache, user, tmp_path, monkeypatch):
    first = Path(compile_program(user, progress=False).exe_file)
    copy = tmp_path / "moved"
    subprocess.run(["cp", "-r", quick_cache, copy], check=True)  # with new dates
    monkeypatch.setenv("BDR_STAN_CACHE", str(copy))
    monkeypatch.setattr(programs, "_build", None)
    second = Path(compile_program(user, progress=False).exe_file)
    assert second == copy / first.relative_to(quick_cache)


@pytest.mark.parametrize("missing", ["CXX", "CMDSTAN"])
def test_without_compiler_or_cmdstan_what_is_compiled_is_used(
    quick_cache, user, monkeypatch, missing
):
    first = compile_program(user, progress=False).exe_file
    monkeypatch.setenv(missing, "no-such-thing")
    assert compile_program(user, progress=False).exe_file == first
    user.write_text(USES_SHIFT + "// edited\n")
    with pytest.raises(ToolchainError, match="needs (no-such-thing|CmdStan)"):
        compile_program(user, progress=False)


def test_a_program_runs_at_once_where_it_is_compiled_or_can_be(
    quick_cache, quick_home, user, monkeypatch
):
    compiler = os.environ["CXX"]
    monkeypatch.delenv("CMDSTAN")
    assert not runs_at_once(user)
    monkeypatch.setenv("CMDSTAN", str(quick_home))
    compile_program(user, progress=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert runs_at_once(user)
    user.write_text(USES_SHIFT + "// edited\n")
    assert not runs_at_once(user)
    monkeypatch.setenv("CXX", compiler)
    assert runs_at_once(user)


def garbage(path):
    path.write_bytes(b"\x7fELF" + b"garbage" * 100)


HARM = {
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": garbage,
    "not executable": lambda path: path.chmod(0o644),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("file", ["mine", "mine.stan", "manifest.json"])
@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_program_is_seen_and_compiled_again(quick_cache, user, file, harm):
    if harm == "not executable" and file != "mine":
        pytest.skip("only a program is executable")
    executable = Path(compile_program(user, progress=False).exe_file)
    whole = executable.read_bytes()
    HARM[harm](executable.parent / file)
    found = next(f for f in cmdstan.doctor() if f.what == "compiled programs")
    assert not found.ok
    assert f"{executable.parent}: {file} is" in found.detail
    assert compile_program(user, progress=False).exe_file == str(executable)
    assert executable.read_bytes() == whole
    assert next(f for f in cmdstan.doctor() if f.what == "compiled programs").ok


def test_a_program_that_does_not_run_is_compiled_again(quick_cache, user):
    """Sealed as it is, but made for another machine, say."""
    executable = Path(compile_program(user, progress=False).exe_file)
    garbage(executable)
    programs.seal(executable.parent, {})
    compile_program(user, progress=False)
    assert executable.read_text().startswith("#!/bin/sh")


def test_a_compiler_that_makes_rubbish_is_told(quick_cache, quick_compiler, user):
    quick_compiler.write_text(
        quick_compiler.read_text().replace("echo stan_version_major = 2", "exit 3")
    )
    with pytest.raises(ToolchainError, match="mine.stan compiled, but does not run: exit code 3"):
        compile_program(user, progress=False)
    assert os.listdir(quick_cache / "compiled") == []


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "x.s: No space left on device",
            "^the disk is full, compiling mine.stan stopped in .*TMPDIR",
        ),
        ("g++: fatal error: Killed signal terminated program cc1plus", "^the compiler was ended"),
        ("make: *** [mine.o] Error 134", "^the compiler was ended"),
        ("virtual memory exhausted: Cannot allocate memory", "^the compiler was ended .* memory"),
    ],
)
def test_why_the_compiler_stopped(quick_cache, quick_compiler, user, said, message):
    quick_compiler.write_text(
        f'#!/bin/sh\ncase "$*" in -*) echo 1;; esac\necho "{said}" >&2; exit 1\n'
    )
    with pytest.raises(ToolchainError, match=message):
        compile_program(user, progress=False)


def test_temporary_files_of_the_compiler_go(quick_cache, quick_compiler, user, tmp_path):
    quick_compiler.write_text(quick_compiler.read_text() + f'\necho "$TMPDIR" >> {tmp_path}/log\n')
    compile_program(user, progress=False)
    folders = set((tmp_path / "log").read_text().split())
    assert all(folder.startswith(tempfile.gettempdir()) for folder in folders)
    assert not any(os.path.exists(folder) for folder in folders)


# ------------------------------------------------------------------ several at once, killed


def compiling(program):
    """A process that compiles a program."""
    code = (
        "import sys\nfrom bdr_stan.cmdstan.programs import compile_program\n"
        "print(compile_program(sys.argv[1]).exe_file)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(program)],
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def odd(user, tmp_path, monkeypatch):
    """A cache and a program in folders with odd names."""
    cache = tmp_path / "a,b $HOME 'c' ü:d"
    monkeypatch.setenv("BDR_STAN_CACHE", str(cache))
    folder = tmp_path / "x;y '&' (copy)"
    shutil.copytree(user.parent / "functions", folder / "functions")
    return cache, Path(shutil.copy(user, folder / "2 mine.stan"))


@pytest.mark.slow
def test_a_program_in_an_odd_folder_is_compiled_and_runs(odd):
    cache, program = odd
    model = compile_program(program, progress=False)
    folder = Path(model.exe_file).parent
    assert folder.parent == cache / "compiled"
    assert set(os.listdir(folder)) == {"_2_mine", "_2_mine.stan", "manifest.json"}
    fit = model.sample(chains=1, iter_sampling=10, show_progress=False, output_dir=program.parent)
    assert fit.draws().shape[0] == 10


@pytest.mark.slow
def test_killed_compiles_then_two_compile_once(quick_home, odd, temporary, tmp_path, monkeypatch):
    """Killed with its compilers, then without, which leaves them running."""
    cache, program = odd
    monkeypatch.setenv("QUICK_SLEEP", "3")
    for kill in (lambda process: os.killpg(process.pid, signal.SIGKILL), subprocess.Popen.kill):
        process = compiling(program)
        while not list(temporary.glob("bdr_stan-fit-*/*/_2_mine.hpp")):
            assert process.poll() is None, process.communicate()  # until the compiler runs
            time.sleep(0.02)
        kill(process)
        process.communicate()
        assert not list(cache.glob("compiled/*"))
    monkeypatch.setenv("QUICK_SLEEP", "0.5")
    make, log = tmp_path / "make", tmp_path / "log"
    make.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec make "$@"\n')
    make.chmod(0o755)
    monkeypatch.setenv("MAKE", str(make))
    both = [compiling(program), compiling(program)]
    outputs = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    assert len(os.listdir(cache / "compiled")) == 1
    assert list(temporary.glob("bdr_stan-fit-*")) == []
    assert len(log.read_text().splitlines()) == 1
