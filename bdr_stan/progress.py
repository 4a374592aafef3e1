"""A status line for long tasks: live on a terminal and in a notebook, otherwise plain lines."""

import importlib.util
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

    A live line on a terminal, and in a notebook with ipywidgets; otherwise a plain line once the
    block has run for a while, then at least one every ten seconds, and one at the end. Nothing is
    shown for the first `after` seconds; ``detail()`` returns a short text on progress.
    """
    if not show:
        yield
        return
    lines = _LiveLines(text) if _shows_live_lines() else _PlainLines(text)
    start = time.monotonic()
    done = threading.Event()

    def update():
        wait = after
        while not done.wait(wait):
            lines.show(time.monotonic() - start, detail())
            wait = lines.every

    thread = threading.Thread(target=update, daemon=True)
    thread.start()
    seconds = None  # of a block that raises no error
    try:
        yield
        seconds = time.monotonic() - start
    finally:
        done.set()
        thread.join()
        lines.end(seconds)


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


def _shows_live_lines():
    """Whether stderr can show changing lines: a terminal, or a notebook with ipywidgets."""
    return sys.stderr.isatty() or (
        _in_notebook() and importlib.util.find_spec("ipywidgets") is not None
    )


def _in_notebook():
    """Whether this is a Jupyter kernel; asks IPython only if it is loaded."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class _PlainLines:
    every = _SECONDS_BETWEEN_LINES

    def __init__(self, text):
        self.text, self.shown = text, False

    def show(self, seconds, detail):
        line = f"{self.text}: {seconds:.0f} s" if self.shown else f"{self.text} ..."
        self.shown = True
        print(line + (f", {detail}" if detail else ""), file=sys.stderr, flush=True)

    def end(self, seconds):
        if self.shown and seconds is not None:
            print(f"{self.text}: done in {seconds:.0f} s", file=sys.stderr, flush=True)


class _LiveLines:
    every = 1.0

    def __init__(self, text):
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.line = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.text = text
        self.task = self.line.add_task(text, total=None)  # its time begins here

    def show(self, seconds, detail):
        self.line.start()
        self.line.update(self.task, description=self.text + (f", {detail}" if detail else ""))

    def end(self, seconds):
        self.line.stop()
