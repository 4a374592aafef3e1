"""What touches other libraries, on the newest Python here, in an environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_on_the_newest_python():
    apart = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("newest.py")],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=apart,
    )
    assert done.returncode == 0, done.stdout
    if "tests pass" not in done.stdout:
        pytest.skip(done.stdout.strip())
