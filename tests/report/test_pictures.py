"""pictures: drawings of matplotlib as parts of a page."""

import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from bdr_stan.report.page import picture


@pytest.fixture(autouse=True)
def without_screen():
    mpl.use("Agg")


def line(title="t"):
    _, ax = plt.subplots()
    ax.plot([1, 2], [3, 4])
    ax.set_title(title)
    return ax


def test_a_drawing_has_a_name_for_who_does_not_see_it_and_ids_of_its_own():
    drawn = picture("one", 'a "line" <b>', "caption", line)
    assert drawn.svg.startswith("<svg ") and drawn.svg.endswith("</svg>")
    assert 'role="img" aria-label="a &quot;line&quot; &lt;b&gt;"' in drawn.svg
    ids = re.findall(r' id="([^"]*)"', drawn.svg)
    assert ids and all(each.startswith("one-") for each in ids)
    used = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', drawn.svg)
    assert used and {a or b for a, b in used} <= set(ids)
    assert "<metadata" not in drawn.svg and "http" not in drawn.svg.replace("http://www.w3.org", "")


def test_a_drawing_is_closed_and_letters_stay_letters():
    open_before = plt.get_fignums()
    drawn = picture("one", "", "", lambda: line("<b>$x^$</b>"))
    assert plt.get_fignums() == open_before
    assert "&lt;b&gt;$x^$&lt;/b&gt;" in drawn.svg
    assert mpl.rcParams["text.parse_math"] and mpl.rcParams["svg.fonttype"] == "path"


def test_the_same_drawing_is_the_same_text():
    assert picture("one", "", "", line) == picture("one", "", "", line)


def test_many_marks_become_pixels():
    def many():
        _, ax = plt.subplots()
        ax.scatter(range(5000), range(5000))
        return ax

    svg = picture("one", "", "", many).svg
    assert "data:image/png" in svg and len(svg) < 200_000
