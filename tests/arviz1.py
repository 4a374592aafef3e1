#!/usr/bin/env python3
"""Run tests under ArviZ 1.x, which needs Python 3.12 or newer.

    python tests/arviz1.py [pytest arguments]

Without arguments: the fast tests of what works on ArviZ objects, the files in `DEFAULT`. Finds a
new enough Python, also one that pyenv has but does not offer, keeps its environment in
.venv-arviz1 and ends with pytest's exit code; 0 where there is no such Python, which it says.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-arviz1"
# What a file of tests says of other things than ArviZ objects runs under one version alone.
OF_OBJECTS = (
    "(results or stacked or idata or arviz or summary or report)"
    " and not (searches or full_disk or r_hat_may_be)"
)
DEFAULT = [
    *("-m", "not slow", "-k", OF_OBJECTS),
    "tests/results",
    "tests/estimators/test_contract.py::test_file_and_pickle_keep_the_fit",
    "tests/estimators/test_estimators.py",
    "tests/estimators/test_stacked.py",
    "tests/posterior/test_log_prior.py",
]
# What those tests use; the libraries of tables, maps and clusters would take a minute to install.
NEEDED = ["-e", f"{ROOT}[stan,plots]", "pytest"]
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
            print("no Python 3.12 or newer on this machine: ArviZ 1.x not tested")
            return 0
        subprocess.run([str(base), "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *NEEDED]
    if subprocess.run(install, check=False).returncode:
        print(f"cannot install the package into {ENVIRONMENT}: ArviZ 1.x not tested")
        return 1
    version = answers(python, "import arviz; print(arviz.__version__)")
    if version is None:
        print(f"ArviZ does not import in {ENVIRONMENT}: ArviZ 1.x not tested")
        return 1
    print(f"ArviZ {version} in {ENVIRONMENT}", flush=True)
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *(arguments or DEFAULT)]
    tests = subprocess.run(command, cwd=ROOT, check=False)
    code = tests.returncode
    print(f"ArviZ {version}: {'tests pass' if code == 0 else 'TESTS FAIL'}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
