"""style: what is said where matplotlib is missing."""

import sys

import pytest

from bdr_stan import plots


def test_missing_matplotlib_is_said(case, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (plots.calibration, plots.prediction_by_size):
        with pytest.raises(ImportError, match=r"plots need matplotlib.*pip install 'bdr-stan\[pl"):
            draw(*case)
