"""Tests of what works on ArviZ objects, under ArviZ 1.x, in an environment of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_under_arviz_1():
    apart = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("arviz1.py")],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=apart,
    )
    assert done.returncode == 0, done.stdout
    if "tests pass" not in done.stdout:
        pytest.skip(done.stdout.strip())
