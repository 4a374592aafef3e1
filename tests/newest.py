#!/usr/bin/env python3
"""Run tests on the newest Python here, 3.12 or newer, with today's newest packages.

    python tests/newest.py [pytest arguments]

Without arguments: the fast tests of what touches other libraries that are in `DEFAULT`; packages
that only other tests import are not installed. Finds Python also where pyenv has it but does not
offer it, keeps its environment in .venv-newest and ends with pytest's exit code; 0 where there is
no such Python, which it says.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-newest"
SUMMARIES = "tools/cmdstan/tests/test_summaries.py"
CONTRACT = "tests/estimators/test_contract.py"
SAVED = "BDR, nuts", "BLRClassifier", "InverseBDR, optimize", "AggregateRegressor, vb", "MERR"
SEARCHED = "BDR, laplace", "BLRClassifier", "AggregateRegressor, vb", "MERR"
FROM_THE_SHELL = (
    "fit_reports_parameters_diagnostics_and_file",
    "predictions_are_those_of_the_model",
    "three_classes_are_fitted_and_predicted",
    "summary_shows_scalars_priors_and_with_all_every_weight",
    "separators_decimals_and_encodings_of_tables",
    "a_folder_of_parquet_files_is_read_part_by_part",
)
DEFAULT = [
    *("-m", "not slow", "--deselect", f"{SUMMARIES}::test_cmdstanpy_rebuilds_the_home"),
    "tests/bags",  # pandas, Polars, Arrow, Dask, AnnData, GeoPandas
    *(f"tests/results/test_{name}.py" for name in ("arviz_groups", "files", "inference_data")),
    *(f"tests/results/test_{name}.py" for name in ("draws", "leave_one_out", "result")),
    "tests/plots",
    "tests/report/test_document.py::test_each_section_and_figure_is_there",
    "tests/report/test_document.py::test_a_page_needs_nothing_but_itself",
    "tests/report/test_pictures.py",
    "tests/cli/test_refusals.py",
    *(f"tests/cli/test_fitting_and_predicting.py::test_{name}" for name in FROM_THE_SHELL),
    *(f"{CONTRACT}::test_file_and_pickle_keep_the_fit[{name}]" for name in SAVED),
    *(f"{CONTRACT}::test_scikit_learn_searches[{name}]" for name in SEARCHED),
    SUMMARIES,
    "tests/posterior/test_log_prior.py",  # stanli
]
INSTALL = ("-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")
# What these tests import; httpstan, which builds a CmdStan, has as many files as all others.
PACKAGES = ("-e", f"{ROOT}[all,stanli]", "polars", "pytest")
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
    # Processes that the tests start would each compile what they import.
    keeping = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    code = subprocess.run(command, cwd=ROOT, env=keeping, check=False).returncode
    print(f"{versions}: {'tests pass' if code == 0 else 'TESTS FAIL'}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
