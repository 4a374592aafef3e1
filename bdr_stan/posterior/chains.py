"""How far chains of NUTS are, by the CSV files that they write."""

import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from bdr_stan.progress import time_left
from bdr_stan.types import PathName

_MIN_SHARE = 0.02  # share of all iterations needed to estimate the remaining time
_LONG_SECONDS = 120.0  # seconds
_QUICKER_METHOD = '; method="laplace" takes seconds'


class ChainProgress:
    """Iterations of chains; each chain adds a row per `thin` iterations to a file in `folder`."""

    def __init__(self, folder: PathName, chains: int, warmup: int, draws: int, thin: int = 1):
        self.folder, self.chains, self.warmup = Path(folder), chains, warmup
        self.iterations, self.thin = warmup + draws, thin
        self.bytes: dict[Path, int] = defaultdict(int)  # read so far
        self.rows: dict[Path, int] = defaultdict(int)  # that these bytes have
        self.start = time.monotonic()

    def text(self) -> str:
        """For example "iterations 34 and 320 of 2000 (warm-up), about 4 min left"; at first ""."""
        with suppress(OSError):  # an interrupted fit removes the files
            for path in self.folder.glob("*.csv"):
                self._read(path)
        rows = [self.rows[path] for path in sorted(self.rows)]
        reached = [min(self.thin * n, self.iterations) for n in rows]
        if not reached:
            return ""
        text = f"iteration{'s' * (len(reached) > 1)} {_listed(reached)} of {self.iterations}"
        if max(reached) < self.warmup:
            text += " (warm-up)"
        waiting = self.chains - len(reached)
        if waiting:
            text += f", {waiting} chain{'s' * (waiting > 1)} waiting"
        seconds = self._seconds_left(sum(reached) / (self.chains * self.iterations))
        hint = _QUICKER_METHOD if seconds > _LONG_SECONDS and max(reached) < self.warmup else ""
        return text + time_left(seconds) + hint

    def _read(self, path):
        """Count the draws that were written since the last time."""
        with path.open("rb") as file:
            file.seek(self.bytes[path])
            new = file.read()
        new = new[: new.rfind(b"\n") + 1]  # a row may be half written
        self.bytes[path] += len(new)
        self.rows[path] += sum(line[:1] not in (b"#", b"l", b"") for line in new.splitlines())

    def _seconds_left(self, done):
        """Seconds until all chains have ended; a rough estimate, 0 if unknown."""
        elapsed = time.monotonic() - self.start
        return elapsed * (1 - done) / done if done >= _MIN_SHARE else 0.0


def _listed(numbers):
    """For example "3", "3 and 4", "3, 4 and 5"."""
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last
