"""A status line for long tasks: live on a terminal, otherwise plain lines."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN_LINES = 10.0  # plain ones, which stay in logs


@contextmanager
def status(
    text: str,
    show: bool | None = True,
    *,
    after: float = 1.0,
    detail: Callable[[], str] = lambda: "",
) -> Iterator[None]:
    """Show `text` and the elapsed time on stderr while the block runs; nothing unless `show`.

    A live line on a terminal; otherwise a plain line once the block has run for a while, then at
    least one every ten seconds, and one at the end. Nothing is shown for the first `after`
    seconds; ``detail()`` returns a short text on progress.
    """
    if not show:
        yield
        return
    line = _Line(text)
    start = time.monotonic()
    done = threading.Event()

    def update():
        wait = after
        while not done.wait(wait):
            line.show(time.monotonic() - start, detail())
            wait = line.every

    thread = threading.Thread(target=update, daemon=True)
    thread.start()
    seconds = None  # of a block that raises no error
    try:
        yield
        seconds = time.monotonic() - start
    finally:
        done.set()
        thread.join()
        line.end(seconds)


def time_left(seconds: float) -> str:
    """For example ", about 3 min left", to end a detail of `status`; empty below two seconds."""
    if seconds < 2:
        return ""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f", about {seconds / length:.0f} {unit} left"
    return f", about {seconds:.0f} s left"


class Share:
    """The share of a task that is done, as a detail of `status`: "40%, about 3 min left"."""

    def __init__(self) -> None:
        self.start, self.share = time.monotonic(), 0.0

    def update(self, done: float, whole: float) -> None:
        """Note that `done` of `whole` is done."""
        self.share = done / whole

    def text(self) -> str:
        """Percent and the time left; empty before the first `update`."""
        return f"{self.share:.0%}{self.time_left()}" if self.share else ""

    def time_left(self) -> str:
        """For example ", about 3 min left"."""
        if not self.share:
            return ""
        return time_left((time.monotonic() - self.start) * (1 / self.share - 1))


class _Line:
    """A line on stderr: on a terminal rewritten each second, else another every ten seconds."""

    def __init__(self, text):
        self.text, self.shown = text, False
        self.is_live = sys.stderr.isatty()
        self.every = 1.0 if self.is_live else _SECONDS_BETWEEN_LINES

    def show(self, seconds, detail):
        line = f"{self.text}: {seconds:.0f} s" if self.shown else f"{self.text} ..."
        self.shown = True
        self._write(line + (f", {detail}" if detail else ""))

    def end(self, seconds):
        if self.shown and self.is_live:
            self._write("")
        elif self.shown and seconds is not None:
            self._write(f"{self.text}: done in {seconds:.0f} s")

    def _write(self, line):
        if self.is_live:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{line[:width]}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
