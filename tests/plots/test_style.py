"""style: what is said where matplotlib is missing, and colours that stand out."""

import sys

import numpy as np
import pytest

from bdr_stan import plots
from bdr_stan.plots.style import shades


def test_missing_matplotlib_is_said(case, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (plots.calibration, plots.prediction):
        with pytest.raises(ImportError, match=r"plots need matplotlib.*pip install 'bdr-stan\[pl"):
            draw(*case)


def luminance(colours):
    """Of the WCAG."""
    linear = np.where(colours <= 0.03928, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_shades_stand_out_on_white_and_inverted_on_the_dark_page_of_a_report(n):
    colours = shades(n)[:, :3]
    assert len(np.unique(colours, axis=0)) == n
    assert np.all(1.05 / (luminance(colours) + 0.05) >= 2.99)
    grey = np.array([0.213, 0.715, 0.072])
    hue_rotated = np.tile(2 * grey, (3, 1)) - np.eye(3)  # CSS's hue-rotate(180deg)
    inverted = np.clip((1 - colours) @ hue_rotated.T, 0, 1)
    page = luminance(np.array([0x14, 0x17, 0x1A]) / 255)
    assert np.all((luminance(inverted) + 0.05) / (page + 0.05) >= 3)
