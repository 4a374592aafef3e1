"""The command line, in process and as a program, and a table for it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import CliRunner

from bdr_stan import cli

PROGRAM = Path(sys.executable).with_name("bdr-stan")

FIT = ["--bag", "town", "--label", "y", "--landmarks", "5", "--seed", "1"]


def points(n_bags=40, seed=3):
    """A row a point: bags of 1 to 6 points around their label in the first of two features."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"0{i}", label, x, rng.normal(), 1.0 + rng.uniform())
        for i, label in enumerate(rng.normal(size=n_bags))
        for x in rng.normal(label, 0.5, rng.integers(1, 7))
    ]
    return pd.DataFrame(rows, columns=["town", "y", "income", "age", "people"])


def run(*arguments, **options):
    return CliRunner().invoke(cli.main, [str(a) for a in arguments], **options)


def fails(text, *arguments, code=1):
    """The command ends with `code` and one message that has `text`, without a traceback."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert text in result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1 or code == 2
    return result


TOTALS = ["--bag", "district", "--features", "lon,lat", "--model", "aggregate", "--landmarks", "5"]


def program(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], check=False, capture_output=True, text=True, **options
    )
