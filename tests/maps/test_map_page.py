"""The page of a map: what its file contains, and what it does in a browser."""

import json
import re
import sys
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
import shapely
from builders.browser import (
    WIDTHS,
    axe_script,
    check_accessible,
    framed,
    needs_browser,
    visit,
)
from builders.map_files import LEFT, SIDE, TOP
from builders.map_pages import page_data, page_values

from bdr_stan.maps import write_map_page

# ---------------------------------------------------------------- the file


def test_values_in_the_page_are_those_of_the_maps(months, table, tmp_path):
    for log in (False, True):
        data = page_data(write_map_page(tmp_path / "map.html", months, table, log=log))
        assert data["times"] == ["May <1>", "June"]
        assert [layer["log"] for layer in data["layers"]] == [log] * 4 + [False, log]
        found = page_values(data)
        row, col = (round((TOP - data["y"]) / SIDE), round((data["x"] - LEFT) / SIDE))
        window = slice(row, row + data["rows"]), slice(col, col + data["columns"])
        for k, month in enumerate(months.values()):
            for j, name in enumerate(month):
                expected = month[name].to_numpy()
                outside = np.ones(expected.shape, bool)
                outside[window] = False
                assert np.isnan(expected[outside]).all()
                spread = data["layers"][j]["high"] - data["layers"][j]["low"]
                near = {"rtol": 2e-4, "atol": 0} if data["layers"][j]["log"] else {
                    "rtol": 0, "atol": spread / 65534 / 2 * (1 + 1e-6)}  # fmt: skip
                np.testing.assert_allclose(found[k, j], expected[window], **near)


def test_one_map_without_districts_has_no_slider(months, tmp_path):
    path = write_map_page(tmp_path / "map.html", months["June"], title="<b>", label="cases & $")
    html = path.read_text()
    assert 'type="range"' not in html and '<h2 id="districts' not in html
    assert "<title>&lt;b&gt;</title>" in html and "Map of cases &amp; $" in html
    assert page_data(path)["label"] == "cases & $"


class Addresses(HTMLParser):
    """Attributes of all elements that name something to load, and the policy of the page."""

    def __init__(self, html):
        super().__init__()
        self.found, self.policy = [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.found += [attrs[name] for name in ("src", "href", "srcset", "data") if name in attrs]
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.policy = attrs["content"]


def test_nothing_is_loaded_from_elsewhere(months, table, tmp_path):
    html = write_map_page(tmp_path / "map.html", months, table).read_text()
    page = Addresses(html)
    assert all(address.startswith(("#", "data:")) for address in page.found)
    assert "default-src 'none'" in page.policy
    assert not re.search(r"https?://|@import|url\(", html)


def test_the_tables_are_in_the_page(months, table, tmp_path):
    html = write_map_page(tmp_path / "map.html", months, table, log=True).read_text()
    assert html.count('<th scope="row">Mara') == 8 and "a &lt; b" in html
    assert html.index(f">{table.index[0]}<") < html.index(f">{table.index[1]}<")
    rounding = re.findall(r"<td>([0-9.e-]+%?)</td>", html)
    assert len(rounding) == 6 and [text.endswith("%") for text in rounding] == [True] * 4 + [
        False,
        True,
    ]
    assert "rounded by at most" in html


def test_degrees_are_narrower_away_from_the_equator(tmp_path, months):
    degrees = months["June"].assign_coords(x=30 + 0.5 * np.arange(30), y=60 - 0.25 * np.arange(20))
    degrees = degrees.rio.write_crs("EPSG:4326").rio.write_transform()
    data = page_data(write_map_page(tmp_path / "map.html", degrees))
    latitude = data["y"] - 0.25 * data["rows"] / 2
    assert data["aspect"] == pytest.approx(2 * np.cos(np.radians(latitude)))
    assert data["metres"] == pytest.approx(0.25 * 40_030_000 / 360, rel=1e-3)
    assert data["axes"] == ["longitude", "latitude"]


def test_feet_are_not_metres(tmp_path, months):
    feet = months["June"].rio.write_crs("EPSG:2263")  # US survey feet
    data = page_data(write_map_page(tmp_path / "map.html", feet))
    assert data["metres"] == pytest.approx(SIDE * 0.3048, rel=1e-5)


def test_a_failure_leaves_the_file_as_it_was(months, table, tmp_path, monkeypatch):
    path = tmp_path / "map.html"
    path.write_text("before")
    with pytest.raises(ValueError, match="there are no districts"):
        write_map_page(path, months, table[:0])
    with pytest.raises(FileNotFoundError, match="the folder .* does not exist"):
        write_map_page(tmp_path / "no" / "map.html", months)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'bdr-stan\[maps,report\]'"):
        write_map_page(path, months)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["map.html"]


# ---------------------------------------------------------------- in a browser

# What a visitor does in each frame, and what the page then has.
VISIT = """
<script>
const frameDrawn = () => new Promise(requestAnimationFrame);
async function answered() {  // layers are decoded and drawn
  await new Promise(resolve => setTimeout(resolve, 200));
  await frameDrawn();
  await frameDrawn();
}
async function visit(frame) {
  const page = frame.contentDocument, win = frame.contentWindow;
  const find = id => page.getElementById(id);
  const data = JSON.parse(find("map-data").textContent), canvas = find("map");
  const box = () => canvas.getBoundingClientRect();
  const place = () => {
    const shown = [...find("place").querySelectorAll("h2, p, dt, dd")];
    return shown.map(each => each.textContent);
  };
  const scale = 0.96 * Math.min(
    box().width / (data.columns * data.aspect), box().height / data.rows);
  const offset = {  // of the pixel from the middle of the map
    x: ((PIXEL.col + 0.5) * data.aspect - data.columns * data.aspect / 2) * scale,
    y: (PIXEL.row + 0.5 - data.rows / 2) * scale,
  };
  const press = key =>
    canvas.dispatchEvent(new win.KeyboardEvent("keydown", {key, cancelable: true}));
  const found = {name: frame.title, hint: place()};
  const inside = (dx, dy) => {
    const ratio = win.devicePixelRatio, context = canvas.getContext("2d");
    const at = [canvas.width / 2 + dx * ratio, canvas.height / 2 + dy * ratio];
    return [...context.getImageData(...at.map(Math.floor), 1, 1).data];
  };
  found.colour = inside(offset.x, offset.y);
  const middle = [box().x + box().width / 2, box().y + box().height / 2];
  canvas.dispatchEvent(new win.MouseEvent(
    "click", {clientX: middle[0] + offset.x, clientY: middle[1] + offset.y}));
  await answered();
  found.clicked = place();
  find("time").value = 1;
  find("time").dispatchEvent(new win.Event("input"));
  await answered();
  found.later = place();
  found.time = find("time-label").textContent;
  page.querySelectorAll("input[name=layer]")[4].click();
  await answered();
  found.legend = [find("legend-title").textContent, find("legend-ticks").textContent];
  canvas.focus();
  press("+");
  press("ArrowLeft");
  press("0");
  press("Enter");
  await answered();
  found.entered = place();
  const button = [...page.querySelectorAll("tbody th button")].at(-1);
  button.click();
  await answered();
  found.district = [button.textContent, ...place()];
  found.sorted = [...page.querySelectorAll("#districts thead th button")].map(head => {
    head.click();
    return head.closest("table").tBodies[0].rows[0].cells[0].textContent;
  });
  find("zoom-all").click();
  await answered();
  const scaled = find("scale-bar").textContent;
  find("zoom-in").click();
  find("zoom-in").click();
  await answered();
  found.scales = [scaled, find("scale-bar").textContent];
  canvas.dispatchEvent(new win.WheelEvent("wheel", {deltaY: 100, cancelable: true}));
  const finger = (kind, id, x) => canvas.dispatchEvent(
    new win.PointerEvent(kind, {pointerId: id, clientX: box().x + x, clientY: box().y + 50}));
  canvas.setPointerCapture = () => {};  // there is no finger to capture
  finger("pointerdown", 1, 100);
  finger("pointerdown", 2, 120);
  finger("pointermove", 2, 180);
  finger("pointerup", 1, 100);
  finger("pointerup", 2, 180);
  await answered();
  found.pinched = find("scale-bar").textContent;
  found.wider = page.documentElement.scrollWidth - page.documentElement.clientWidth;
  found.loaded = win.performance.getEntriesByType("resource").length;
  return found;
}
addEventListener("load", async () => {
  const undecoded = frame => !frame.contentDocument.getElementById("legend-title").textContent;
  const frames = [...document.querySelectorAll("iframe")], found = [];
  while (frames.some(undecoded)) await answered();
  await answered();
  for (const frame of frames) found.push(await visit(frame));
  fetch("/", {method: "POST", body: JSON.stringify(found)});
});
</script>
"""


def shown(number):
    """A number as the page shows it: four digits."""
    return f"{float(f'{number:.4g}'):g}" if number < 1e5 else f"{number:.4g}"


@pytest.fixture
def page(months, table, tmp_path):
    return write_map_page(
        tmp_path / "map.html", months, table, title="A map", label="cases per person"
    )


@needs_browser
def test_a_visit(page, table, tmp_path):
    data, values = page_data(page), page_values(page_data(page))
    row, col = np.argwhere(np.isfinite(values).all(axis=(0, 1)))[50]
    script = VISIT.replace("PIXEL", json.dumps({"row": int(row), "col": int(col)}))
    found, console = visit(framed({"map": page}, WIDTHS, dark=False) + script, tmp_path)
    assert not console
    assert len(found) == len(WIDTHS)
    x, y = data["x"] + SIDE * (col + 0.5), data["y"] - SIDE * (row + 0.5)
    (district,) = table.index[table.geometry.buffer(-SIDE / 50).contains(shapely.Point(x, y))]
    for each in found:
        assert each["hint"] == ["Select a place on the map for its values."]
        low, high = data["layers"][0]["low"], data["layers"][0]["high"]
        index = round(255 * (values[0, 0, row, col] - low) / (high - low))
        colour = 255 * np.array(matplotlib.colormaps["viridis"](index))
        np.testing.assert_allclose(each["colour"], colour, atol=2)
        for when, k in (("clicked", 0), ("later", 1)):
            mean, sd, lower, upper, above, height = values[k, :, row, col]
            assert each[when] == [
                "Pixel", f"x {x:.8g}, y {y:.8g}", "cases per person",
                "Mean", shown(mean), "Standard deviation", shown(sd),
                "90% interval", f"{shown(lower)} to {shown(upper)}",
                "Probability above 1.5", f"{100 * above:.1f}%", "elevation", shown(height),
                district, "cases", str(table.loc[district, "cases"]),
                "predicted", f"{table.loc[district, 'predicted']:.4g}", "name", "a < b",
            ]  # fmt: skip
        assert each["time"] == "June"
        assert each["legend"] == ["Probability above 1.5", "0%25%50%75%100%"]
        middle = values[1, 0, data["rows"] // 2, data["columns"] // 2]
        assert each["entered"][:1] == ["Pixel"] and shown(middle) in each["entered"]
        name = table.index[-1]
        assert each["district"][:2] == [name, name] and "Pixel" not in each["district"]
        assert each["sorted"][:2] == ["Mara 0", "Mara 0"]
        assert metres(each["scales"][0]) > metres(each["scales"][1]) > 0
        assert metres(each["pinched"]) < metres(each["scales"][1])
        assert each["wider"] <= 0 and each["loaded"] == 0


def metres(text):
    number, unit = text.split()
    return float(number) * {"m": 1, "km": 1000}[unit]


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_serious_violation(page, tmp_path, dark):
    check_accessible({"map": page}, axe_script(tmp_path), tmp_path, dark=dark)
