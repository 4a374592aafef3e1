"""progress: plain lines where there is no terminal, a live one where there is."""

import io
import sys
import time

import numpy as np
import pytest

from bdr_stan import BLR, progress, tuning
from bdr_stan.posterior import latent_gaussian, sampling
from bdr_stan.progress import Share, status, time_left


def test_progress_is_plain_lines_off_the_terminal(capsys):
    with status("Building"):
        time.sleep(1.2)
    assert capsys.readouterr().err.splitlines() == ["Building ...", "Building: done in 1 s"]
    with status("Looking"):
        pass
    assert capsys.readouterr().err == ""
    with status("Building", show=False, after=0.0):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_line_at_least_every_ten_seconds(capsys, monkeypatch):
    assert progress._SECONDS_BETWEEN_LINES <= 10
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.1)
    with status("Running", after=0.1, detail=lambda: "chains at 10%"):
        time.sleep(0.65)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Running ..., chains at 10%"
    assert lines[1] == "Running: 0 s, chains at 10%"
    assert len(lines) >= 5
    assert lines[-1] == "Running: done in 1 s"


def test_what_fails_is_not_said_to_be_done(capsys):
    with pytest.raises(KeyError), status("Running", after=0.01):
        time.sleep(0.2)
        raise KeyError
    assert capsys.readouterr().err.splitlines() == ["Running ..."]


def test_a_live_line_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with status("Building", after=0.05, detail=lambda: "half"):
        time.sleep(0.5)
    assert sys.stderr.getvalue() == "\r\x1b[KBuilding ..., half\r\x1b[K"


@pytest.mark.parametrize(
    "seconds, text",
    [(1, ""), (40, "40 s"), (89, "89 s"), (100, "2 min"), (5000, "83 min"), (9000, "2 h")],
)
def test_time_left_is_rounded(seconds, text):
    assert time_left(seconds) == (f", about {text} left" if text else "")


def test_a_share_of_a_task(monkeypatch):
    now = iter([100.0, 130.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    share = Share()
    assert share.text() == ""
    share.update(25, 100)
    assert share.text() == "25%, about 2 min left"


@pytest.fixture
def no_wait(monkeypatch):
    """Lines that come after ten seconds, and every ten seconds, come at once and often."""
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.02)
    real = progress.status

    def at_once(text, show=True, *, after=1.0, detail=lambda: ""):
        return real(text, show, after=0.0 if after == 10 else after, detail=detail)

    for module in (latent_gaussian, sampling, tuning):
        monkeypatch.setattr(module, "status", at_once)


def bags_and_labels():
    rng = np.random.default_rng(1)
    y = rng.normal(size=20)
    return [rng.normal(label, 0.5, (6, 1)) for label in y], y


@pytest.mark.parametrize("show", [None, False])
def test_tune_says_where_it_is(no_wait, capsys, show):
    bags, y = bags_and_labels()
    tuning.tune(bags, y, models=[BLR()], cv=2, n_landmarks=[3], method="exact", progress=show)
    said = capsys.readouterr().err
    for line in ("Tuning ...", "BLR, 3 landmarks, bandwidth x"):
        assert (line in said) == (show is None)


@pytest.mark.parametrize("show", [None, False])
def test_the_search_for_scales_is_told(no_wait, capsys, monkeypatch, show):
    def begun(*arguments, **options):
        raise KeyError("Stan is begun")

    monkeypatch.setattr(sampling, "run", begun)
    with pytest.raises(KeyError, match="Stan is begun"):
        BLR(3).fit(*bags_and_labels(), progress=show)
    said = capsys.readouterr().err
    assert ("Looking for the most probable scales of blr" in said) == (show is None)
