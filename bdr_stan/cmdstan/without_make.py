"""The makefile in this folder as Python, for a machine without make.

    python without_make.py [-n] [KEY=VALUE ...] GOAL ...

Run in a home of ours, with the goals and variables of the makefile, which it follows line by line;
-n shows the commands instead of running them, as make does. Does not import the package.
"""

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

FLAGS = (
    *("-std=c++17", "-pthread", "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS", "-Wno-sign-compare"),
    *("-Wno-ignored-attributes", "-Wno-deprecated-declarations"),
)
# Variable, also the macro that it defines, and its suffix in the name of the driver's object.
SWITCHES = (
    ("STAN_THREADS", "_threads"),
    ("STAN_NO_RANGE_CHECKS", "_nochecks"),
    ("STAN_CPP_OPTIMS", "_optims"),
)
LIBRARIES = (
    *("-lsundials_cvodes", "-lsundials_idas", "-lsundials_kinsol", "-lsundials_nvecserial"),
    "-ltbb",
)


def main(arguments):
    """Make the goals; returns the exit code."""
    goals = [word for word in arguments if "=" not in word and not word.startswith("-")]
    values = _variables(word for word in arguments if "=" in word)
    refused = _refused(values)
    if refused:
        print(refused, file=sys.stderr)
        return 2
    if "driver-object" in goals:
        print(_driver(values))
        goals.remove("driver-object")
    for goal in goals:
        for command in _make(goal, values):
            if "-n" in arguments:
                print(shlex.join(command))
                continue
            code = _run(command)
            if code != 0:
                print(f"Error {code if code > 0 else 128 - code}")
                return 2
    return 0


def _variables(assignments):
    """Variables of the environment, overridden by the command line; += appends."""
    values, given = dict(os.environ), {}
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        value = value.replace("$$", "$")
        if name.endswith("+"):
            name = name[:-1]
            value = f"{given.get(name, values.get(name, ''))} {value}"
        given[name] = value
    return {**values, **given}


def _refused(values):
    """Why the goals cannot be made here, "" where they can."""
    for path in (Path("make/local"), Path.home() / ".config" / "stan" / "make.local"):
        if path.is_file():
            return f"{path} changes how Stan is built, and is read by make alone: install make"
    if values.get("STAN_OPENCL") or values.get("STAN_MPI"):
        return "STAN_OPENCL and STAN_MPI need the official CmdStan"
    return ""


def _words(values, *names):
    return [word for name in names for word in shlex.split(values.get(name, ""))]


def _flags(values):
    switches = [f"-D{name}" for name, _ in SWITCHES if values.get(name)]
    return [*FLAGS, *switches, "-I", "include", *_words(values, "CPPFLAGS", "CXXFLAGS")]


def _compiler(values):
    return shlex.split(values.get("CXX") or "g++")


def _driver(values):
    """Name of the driver's object for these flags and this compiler."""
    output = subprocess.run(
        [*_compiler(values), "--version"], check=False, capture_output=True, text=True
    ).stdout
    settings = [output, *_words(values, "CXX", "CPPFLAGS", "CXXFLAGS")]
    switches = "".join(name for variable, name in SWITCHES if values.get(variable))
    return f"driver{switches}_{hashlib.sha256(repr(settings).encode()).hexdigest()[:10]}.o"


def _user_code(values, stem):
    if "allow-undefined" not in values.get("STANCFLAGS", ""):
        return []
    return ["-include", values.get("USER_HEADER") or str(Path(stem).parent / "user_header.hpp")]


def _libraries(values):
    run_path = values.get("RUN_PATH") or f"{Path.cwd()}/lib"
    where = ["-L", "lib", "-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", run_path]
    return [*where, *LIBRARIES, *_words(values, "LDFLAGS", "LDLIBS")]


def _make(goal, values):
    """Commands that make a goal, in order."""
    compile_with, driver = [*_compiler(values), *_flags(values)], _driver(values)
    build_driver = [*compile_with, "-O1", "-c", "src/main.cpp", "-o", driver]
    needs_driver = not Path(driver).exists()
    if goal == "build":
        return [build_driver] if needs_driver else []
    stem = goal.removesuffix(".o")
    code, made, reuse = f"{stem}.hpp", f"{stem}.o", bool(values.get("REUSE"))
    translate = ["bin/stanc", *_words(values, "STANCFLAGS"), f"--o={code}", f"{stem}.stan"]
    level = f"-O{values.get('O') or 3}"
    compile_code = [*compile_with, level, *_user_code(values, stem), *("-x", "c++", "-c", code)]
    commands = [] if reuse and Path(code).exists() else [translate]
    if not (reuse and Path(made).exists()):
        commands.append([*compile_code, "-o", made])
    if goal == made:
        return commands
    if needs_driver:
        commands.append(build_driver)
    # The model's object first: the linker drops libraries that only later objects need.
    commands.append([*compile_with, made, driver, *_libraries(values), "-o", goal])
    return commands if values.get("KEEP_OBJECT") else [*commands, ["rm", "-f", made]]


def _run(command):
    """Run a command whose output, after -o, is written atomically; the exit code."""
    if command[0] == "rm":
        Path(command[-1]).unlink(missing_ok=True)
        return 0
    if "-o" not in command:  # stanc's --o=
        return subprocess.run(command, check=False).returncode
    target = Path(command[-1])
    partial = target.with_name(f"{target.name}.{os.getppid()}.tmp")
    code = subprocess.run([*command[:-1], str(partial)], check=False).returncode
    if code == 0:
        if "src/main.cpp" in command:
            digest = hashlib.sha256(partial.read_bytes()).hexdigest()
            target.with_name(f"{target.name}.sha256").write_text(f"{digest}  -\n")
        partial.replace(target)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
