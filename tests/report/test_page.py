"""page: blocks as HTML, escaped; a file that is there whole or not at all."""

import sys

import numpy as np
import pandas as pd
import pytest

from bdr_stan.report.page import Code, Folded, Picture, Section, Table, Text, write_page


def written(tmp_path, *blocks):
    path = write_page(tmp_path / "page.html", "<Title>", "lead", [Section("a", "A", blocks)])
    return path.read_text()


def test_all_text_is_escaped(tmp_path):
    bad = "<script>alert('x')</script>"
    frame = pd.DataFrame({bad: [bad]}, index=pd.Index([bad], name=bad))
    html = written(tmp_path, Text(bad), Code(bad, bad), Table(bad, frame), Folded(bad, [Text(bad)]))
    assert "<script>alert" not in html and html.count("&lt;script&gt;") == 11
    assert "<title>&lt;Title&gt;</title>" in html


def test_numbers_have_four_digits_and_tables_heads(tmp_path):
    frame = pd.DataFrame(
        {
            "x": [1234567.8, 0.000012345, np.nan],
            "ess_bulk": [123.4, 1.0, 2.0],
            "r_hat": [1.0, 1.01, 1.0],
            "n": [3, 4, 5],
            "word": ["a", "b", "c"],
        },
        index=pd.Index(["first", "second", "third"], name="row"),
    )
    table = Table("what", frame)
    assert table.head == ["row", "x", "ess_bulk", "r_hat", "n", "word"]
    assert table.rows == [
        ["first", "1235000", "123", "1.000", "3", "a"],
        ["second", "1.234e-05", "1", "1.010", "4", "b"],
        ["third", "-", "2", "1.000", "5", "c"],
    ]
    assert table.is_number == [True, True, True, True, False]
    html = written(tmp_path, table)
    assert html.count('scope="col"') == 6 and html.count('scope="row"') == 3
    assert "<caption>what</caption>" in html


def test_a_drawing_stands_as_it_is(tmp_path):
    assert "<svg>here</svg>" in written(tmp_path, Picture("<svg>here</svg>", "what"))


def test_a_page_is_there_whole_or_not_at_all(tmp_path):
    class Broken:
        kind = "text"

        @property
        def text(self):
            raise RuntimeError("half way")

    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(RuntimeError, match="half way"):
        written(tmp_path, Broken())
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match="the folder .* does not exist"):
        write_page(tmp_path / "no" / "page.html", "", "", [])


def test_letters_that_no_file_can_hold_are_replaced(tmp_path):
    assert "town ?" in written(tmp_path, Text("town \ud800"))


def test_without_jinja_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'bdr-stan\[report\]'"):
        written(tmp_path, Text("x"))
    assert not list(tmp_path.iterdir())
