"""document: reports of four fits, read with a parser of HTML."""

import re
from html.parser import HTMLParser

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from builders.problems import quiet_fit

import bdr_stan
from bdr_stan import BDR, AggregateRegressor, Bags, load

VOID = {"meta", "link", "br", "img", "input", "hr"}
ALWAYS = {
    "summary",
    "fit",
    "diagnostics",
    "posterior",
    "priors",
    "predictions",
    "calibration",
    "doubts",
    "repeat",
}
SECTIONS = {
    "BDR": ALWAYS | {"influence", "shrinkage"},
    "classifier": ALWAYS | {"influence"},
    "inverse": ALWAYS,
    "aggregate": ALWAYS | {"influence", "rates"},
}
PICTURES = {
    "BDR": {"sizes", "predictions", "pit", "coverage", "influence-0",
            "influence-1", "shrinkage"},
    "classifier": {"sizes", "reliability", "influence-0", "influence-1"},
    "inverse": {"sizes", "predictions", "pit", "coverage"},
    "aggregate": {"sizes", "predictions", "pit", "coverage", "map-0", "map-1", "influence-0",
            "influence-1", "influence-2"},
}  # fmt: skip


class Page(HTMLParser):
    """Elements, ids, addresses and text of a page that opens and closes each element in turn."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def parsed(pages):
    return {name: Page(path.read_text()) for name, path in pages.items()}


@pytest.mark.parametrize("name", SECTIONS)
def test_each_section_and_figure_is_there(parsed, name):
    page = parsed[name]
    assert {attrs["id"] for attrs in page.all("section")} == SECTIONS[name]
    links = {attrs["href"] for attrs in page.all("a")}
    assert {f"#{section}" for section in SECTIONS[name]} <= links
    drawn = page.all("svg")
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in drawn)
    first_ids = {attrs["id"] for attrs in page.all("g") if attrs.get("id", "").endswith("figure_1")}
    assert {each.removesuffix("-figure_1") for each in first_ids} == PICTURES[name]
    assert len(drawn) == len(PICTURES[name]) == len(page.all("figcaption"))


@pytest.mark.parametrize("name", ["BDR", "aggregate"])
def test_bags_in_partitions_give_the_same_report(fits, parsed, rows_of_points, tmp_path, name):
    model, bags = fits[name]
    ddf = dd.from_pandas(rows_of_points, npartitions=3, sort=False)
    lazy = Bags.from_dask(ddf, "town", bags.columns.names, metadata=["y"])
    model.report_html(tmp_path / "fit.html", lazy, label="<em>rent</em>, $")
    page = Page((tmp_path / "fit.html").read_text())
    assert page.text == parsed[name].text
    assert len(page.all("svg")) == len(parsed[name].all("svg"))


@pytest.mark.parametrize("name", SECTIONS)
def test_a_page_needs_nothing_but_itself(parsed, name):
    page, addresses = parsed[name], []
    for tag, attrs in page.elements:
        assert tag not in ("iframe", "object", "embed", "base", "i", "b", "em")
        addresses += [attrs[key] for key in ("src", "href", "xlink:href") if attrs.get(key)]
        addresses += re.findall(r"url\(([^)]*)\)", attrs.get("style") or "")
    assert [attrs for tag, attrs in page.elements if tag == "script"] == [{}]  # the page's own
    assert addresses and all(each.startswith(("#", "data:")) for each in addresses)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    inside = {each[1:] for each in addresses if each.startswith("#")}
    assert inside <= set(ids)


@pytest.mark.parametrize("name", SECTIONS)
def test_tables_have_captions_and_heads(parsed, name):
    page = parsed[name]
    n = len(page.all("table"))
    assert n == len(page.all("caption")) >= 6
    assert all(attrs.get("scope") in ("col", "row") for attrs in page.all("th"))


@pytest.mark.parametrize("name", SECTIONS)
def test_what_is_said_is_what_the_fit_says(parsed, fits, name):
    model, bags = fits[name]
    text = " ".join(parsed[name].text.split())
    assert f"Report of a fit: <em>rent</em>, $ {type(model).__name__} (" in text
    assert "<b>income</b> ($ & more)" in text
    assert f"{len(bags)} bags of points" in text
    for line in model.report().splitlines():
        assert " ".join(line.split()) in text
    for prior in model.priors()["prior"]:
        assert prior in text
    assert "draws=100, seed=1)" in text and repr(model) in text


def test_predictions_leave_labels_out_where_there_is_a_likelihood(parsed):
    for name in ("BDR", "classifier", "aggregate"):
        assert "Each bag is predicted without its own label" in parsed[name].text
    assert "These are in-sample predictions" in parsed["inverse"].text
    assert "<i>3</i>" in parsed["aggregate"].text  # a row of the table of all bags


def test_without_bags_a_report_says_what_is_left_out(fits, tmp_path, bags):
    y = bags.metadata["y"]
    mode = BDR(6, method="optimize").fit(bags, y, seed=1)
    mode.save(tmp_path / "fit.nc")
    load(tmp_path / "fit.nc").report_html(tmp_path / "mode.html")
    text = Page((tmp_path / "mode.html").read_text()).text
    assert "The fit does not include its points: pass its bags" in text
    assert "This fit includes no draws of labels" in text
    assert "Are the predictions calibrated?" not in text
    assert "is shrunk towards the average" in " ".join(text.split())
    assert "landmarks, which represent the points" in text

    fits["aggregate"][0].report_html(tmp_path / "totals.html")
    text = Page((tmp_path / "totals.html").read_text()).text
    assert "The fit does not include the bag sizes" in text
    assert "for maps of their rates" in text


OTHERS = [
    name
    for name in bdr_stan.__all__
    if getattr(getattr(bdr_stan, name), "samples_posterior", False)
    and name not in ("BDR", "BLRClassifier", "InverseBDR", "AggregateRegressor")
]


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_estimator_with_a_posterior_reports_its_mode(name, tmp_path):
    centres = np.linspace(-1, 1, 10)
    points = np.repeat(centres, 3) + np.tile([-0.3, 0.0, 0.4], 10)
    bags = bdr_stan.Bags.from_points(points[:, None], sizes=[3] * 10)
    model = quiet_fit(getattr(bdr_stan, name)(n_landmarks=3, method="optimize"), bags, centres)
    model.report_html(tmp_path / "fit.html", bags)
    page = Page((tmp_path / "fit.html").read_text())
    assert {"fit", "posterior", "predictions"} <= {each["id"] for each in page.all("section")}
    assert "Predictions by bag size" in page.text and "seed=1)" in page.text


def test_estimators_without_a_posterior_have_no_report():
    assert not hasattr(bdr_stan.RBFNetwork(), "report_html")


def test_trials_that_a_fit_does_not_keep(tmp_path, places):
    model = AggregateRegressor("binomial", n_landmarks=4, method="optimize")
    model.fit(places, np.arange(len(places)) % 7, trials=np.full(len(places), 9), seed=1)
    model.report_html(tmp_path / "fit.html", places)
    assert "Predictions need the trials of each bag" in (tmp_path / "fit.html").read_text()


def test_a_table_is_read_as_that_of_the_fit(fits, tmp_path, bags, monkeypatch):
    calls = []
    monkeypatch.setattr("bdr_stan.report.document.write_report", lambda *all: calls.append(all))
    frame = pd.DataFrame(bags.points, columns=bags.features).assign(
        town=np.repeat(bags.ids, bags.sizes)
    )
    frame["kind"] = np.where(frame.pop("kind=b") == 1, "b", "a<")
    frame = frame.drop(columns="kind=a<").sample(frac=1, random_state=1)
    fits["BDR"][0].report_html(tmp_path / "fit.html", frame)
    (_, _, read, label, *_), *_ = calls
    assert (read.features, read.ids.tolist(), label) == (bags.features, bags.ids.tolist(), "label")
    np.testing.assert_allclose(read.sums(read.points), bags.sums(bags.points))


def test_nothing_is_written_on_an_error(fits, tmp_path, bags):
    model, _ = fits["BDR"]
    for words, call in (
        ("without bag", lambda: model.report_html(tmp_path / "a.html", bags[:3])),
        ("label must be a str", lambda: model.report_html(tmp_path / "a.html", label=3)),
        ("the folder .* does not exist", lambda: model.report_html(tmp_path / "no" / "a.html")),
        ("it is a folder", lambda: model.report_html(tmp_path)),
    ):
        with pytest.raises((ValueError, TypeError, OSError), match=words):
            call()
    assert not list(tmp_path.iterdir())


def test_headers_of_long_tables_sort(parsed):
    tables = [attrs.get("class") for tag, attrs in parsed["aggregate"].elements if tag == "table"]
    assert tables.count("sortable") == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_data_file_is_named(rows_of_points, tmp_path, kind):
    path = tmp_path / f"towns.{kind}"
    getattr(rows_of_points, f"to_{kind}")(path, index=False)
    bags = getattr(Bags, f"from_{kind}")(path, "town", ["lon", "lat"], metadata=["y"])
    BDR(4, method="laplace").fit(bags[:20], "y", seed=1).save(tmp_path / "fit.nc")
    model = load(tmp_path / "fit.nc")
    assert " columns from towns." in str(model)
    model.report_html(tmp_path / "fit.html", bags)
    page = Page((tmp_path / "fit.html").read_text())
    assert f"20 bags of points from towns.{kind}." in page.text
    assert f"bags = Bags.from_{kind}({str(path)!r}, 'town'," in page.text
