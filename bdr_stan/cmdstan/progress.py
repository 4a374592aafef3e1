"""One line on stderr that says what takes so long."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def status(text: str, show: bool = True) -> Iterator[None]:
    """Show `text` with the time elapsed while the block runs.

    A live line on a terminal; elsewhere one line after a second, so that what is quick says
    nothing, and one at the end.
    """
    if not show:
        yield
    elif sys.stderr.isatty():
        with _live_line(text):
            yield
    else:
        start = time.monotonic()
        say = threading.Timer(1.0, print, [f"{text} ..."], {"file": sys.stderr, "flush": True})
        say.daemon = True
        say.start()
        try:
            yield
        finally:
            say.cancel()
        seconds = time.monotonic() - start
        if seconds > 1:
            print(f"{text}: done in {seconds:.0f} s", file=sys.stderr, flush=True)


def _live_line(text):
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    line = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    line.add_task(text, total=None)
    return line
