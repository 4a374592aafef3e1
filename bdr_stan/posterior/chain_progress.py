"""How far the chains of NUTS are, from the lines that CmdStan prints while they run."""

import re
import time

from bdr_stan.progress import time_left

__all__ = ["ChainProgress"]

_LINE = re.compile(
    r"(?:Chain \[(?P<chain>\d+)\] )?"
    r"(?:Iteration: +(?P<iteration>\d+) /|Gradient evaluation took (?P<seconds>\S+) seconds)"
)
_LEAPFROG_STEPS = 15  # leapfrog steps of an iteration, before any is known
_MIN_SHARE = 0.02  # share of all iterations from which the time of the others is estimated
_LONG_SECONDS = 120.0  # seconds
_QUICKER_METHOD = '; method="laplace" takes seconds'


class ChainProgress:
    """Iterations of `chains` chains, of which `side_by_side` run at a time."""

    def __init__(self, chains: int, warmup: int, draws: int, side_by_side: int):
        self.chains, self.warmup, self.iterations = chains, warmup, warmup + draws
        self.side_by_side = side_by_side
        self.iteration: dict[int, int] = {}  # of the chains that have begun
        self.gradient_seconds = 0.0
        self.start = time.monotonic()

    def read(self, line: str, process: int) -> None:
        """Take in a line that a process printed: of one chain, or of those that it names."""
        found = _LINE.match(line)
        if not found:
            return
        if found["seconds"]:
            self.gradient_seconds = float(found["seconds"])
        else:
            self.iteration[int(found["chain"] or process + 1)] = int(found["iteration"])

    def text(self) -> str:
        """Such as "iterations 34 and 320 of 2000 (warm-up), about 4 min left"; at first ""."""
        if not self.iteration:
            return ""
        reached = [self.iteration[chain] for chain in sorted(self.iteration)]
        text = f"iteration{'s' * (len(reached) > 1)} {_listed(reached)} of {self.iterations}"
        if max(reached) < self.warmup:
            text += " (warm-up)"
        waiting = self.chains - len(reached)
        if waiting:
            text += f", {waiting} chain{'s' * (waiting > 1)} waiting"
        seconds = self.seconds_left()
        hint = _QUICKER_METHOD if seconds > _LONG_SECONDS and max(reached) < self.warmup else ""
        return text + time_left(seconds) + hint

    def seconds_left(self) -> float:
        """Seconds until all chains have ended; a rough estimate, 0 where nothing is known."""
        elapsed = time.monotonic() - self.start
        done = sum(self.iteration.values()) / (self.chains * self.iterations)
        if done >= _MIN_SHARE:
            return elapsed * (1 - done) / done
        rounds = -(-self.chains // self.side_by_side)
        whole = self.gradient_seconds * _LEAPFROG_STEPS * self.iterations * rounds
        return max(0.0, whole - elapsed)


def _listed(numbers):
    """Such as "3", "3 and 4", "3, 4 and 5"."""
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last
