#!/usr/bin/env python3
"""Run tests on the newest Python here, 3.12 or newer, with today's newest packages.

    python tests/newest.py [pytest arguments]

Without arguments: the fast tests of what touches other libraries, those in `DEFAULT`. Finds Python
also where pyenv has it but does not offer it, keeps its environment in .venv-newest and ends with
pytest's exit code; 0 where there is no such Python, which it says.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-newest"
DEFAULT = [
    *("-m", "not slow", "--ignore=tests/cli/test_program.py"),
    "tests/bags",
    "tests/results",
    "tests/plots",
    "tests/report",
    "tests/cli",
    "tests/estimators/test_contract.py::test_file_and_pickle_keep_the_fit",
    "tests/estimators/test_contract.py::test_scikit_learn_searches",
    "tools/cmdstan/tests/test_summaries.py",
    "tests/posterior/test_log_density.py",
    "tests/test_portability.py",
]
INSTALL = ("-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")
PACKAGES = ("-e", f"{ROOT}[test]", "-e", f"{ROOT}/tools/cmdstan")
NEWEST = ("--upgrade", "--upgrade-strategy", "eager", *PACKAGES)
VERSIONS = """
from importlib.metadata import version
from platform import python_version
packages = ("numpy", "scipy", "pandas", "scikit-learn", "arviz", "anndata")
print(", ".join([f"Python {python_version()}", *(f"{p} {version(p)}" for p in packages)]))
"""
MINORS = (14, 13, 12)


def answers(command, code):
    """What a Python prints for a line of code, or None if it does not run."""
    try:
        done = subprocess.run(
            [str(command), "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def pyenv_versions():
    """Folders that may hold pyenv's versions: of the root named, of those its commands lie in."""
    found = [os.environ["PYENV_ROOT"]] if "PYENV_ROOT" in os.environ else []
    for name in ["pyenv", *(f"python3.{minor}" for minor in MINORS)]:
        command = shutil.which(name)
        if command:  # ROOT/shims/python3.x, ROOT/bin/pyenv
            found.append(Path(command).parents[1])
    return [Path(root) / "versions" for root in found]


def candidates():
    """Commands that may be a Python 3.12 or newer, newest first.

    A shim of pyenv answers only for the versions it is told to offer, so the versions'
    own executables follow the ones on the path.
    """
    for minor in MINORS:
        name = f"python3.{minor}"
        if shutil.which(name):
            yield shutil.which(name)
        for versions in dict.fromkeys(pyenv_versions()):
            yield from sorted(versions.glob(f"3.{minor}.*/bin/{name}"))
    yield sys.executable


def find_python():
    """A Python of at least 3.12 that runs, or None."""
    for command in candidates():
        version = answers(command, "import sys; print(sys.version_info >= (3, 12))")
        if version == "True":
            return command
    return None


def main(arguments):
    python = ENVIRONMENT / "bin" / "python"
    if answers(python, "print(1)") is None:
        base = find_python()
        if base is None:
            print("no Python 3.12 or newer on this machine: the newest packages are not tested")
            return 0
        subprocess.run([str(base), "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
    if subprocess.run([str(python), *INSTALL, *NEWEST], check=False).returncode:
        print(f"cannot install the package into {ENVIRONMENT}: the newest packages are not tested")
        return 1
    versions = answers(python, VERSIONS)
    print(versions, flush=True)
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *(arguments or DEFAULT)]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    print(f"{versions}: {'tests pass' if code == 0 else 'TESTS FAIL'}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
