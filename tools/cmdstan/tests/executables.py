"""Runs of executables of compiled programs, and the CSV files that they write."""

import json
import subprocess
from pathlib import Path

import numpy as np

COIN = Path(__file__).with_name("driver_coin.stan")

TOSSES = [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]


class Runner:
    """Runs an executable in a folder of its own and keeps what it printed."""

    def __init__(self, executable, folder):
        self.executable, self.folder = executable, folder

    def __call__(self, line, code=0):
        done = subprocess.run(
            [self.executable, *line.split()],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        self.stdout, self.stderr = done.stdout, done.stderr
        return done.stdout

    def write(self, name, **values):
        (self.folder / name).write_text(json.dumps(values))
        return name

    def read(self, name):
        return (self.folder / name).read_text()

    def files(self):
        return sorted(p.name for p in self.folder.iterdir() if p.suffix in (".csv", ".json"))


def body(text):
    """Everything from the column names on, without the times."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return [line for line in lines[start:] if "seconds" not in line]


def names(text):
    return body(text)[0].split(",")


def rows(text):
    lines = [line for line in body(text)[1:] if not line.startswith("#")]
    return np.array([line.split(",") for line in lines], float)


def column(text, name):
    """The values of a column; their order depends on Stan's version."""
    return rows(text)[:, names(text).index(name)]
