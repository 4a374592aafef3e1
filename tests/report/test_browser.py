"""Reports in a real browser: no message on its console, figures drawn, nothing wider than a phone,
nothing that axe-core, from npm, holds against them.

Structure, addresses and escaping are tested without one, in test_document.
"""

import pytest
from builders.browser import WIDTHS, axe_script, browse, check_accessible, framed, needs_browser

# A script that measures the pages once they are drawn.
MEASURE = """
<script>
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument;
    page.querySelectorAll("details").forEach(each => each.open = true);
    const drawn = [...page.querySelectorAll("figure svg")].map(svg => svg.getBoundingClientRect());
    return {
      name: frame.title,
      wider: page.documentElement.scrollWidth - page.documentElement.clientWidth,
      figures: drawn.length,
      smallest: Math.min(...drawn.map(box => Math.min(box.width, box.height))),
      letters: parseFloat(frame.contentWindow.getComputedStyle(page.body).fontSize),
      dark: frame.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches,
      ground: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
    };
  });
  document.body.dataset.found = JSON.stringify(found);
});
</script>
"""

pytestmark = needs_browser


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_reports_are_drawn_on_wide_and_narrow_pages(pages, tmp_path, dark):
    page = framed(pages, WIDTHS, dark) + MEASURE
    found, said = browse(page, tmp_path, dark=dark)
    assert "CONSOLE" not in said, said
    assert [page["name"] for page in found] == [name for name in pages for _ in WIDTHS]
    for page in found:
        assert page["wider"] <= 0, page
        assert page["figures"] >= 4 and page["smallest"] > 100, page
        assert page["letters"] >= 16, page
        assert page["dark"] == dark and (page["ground"] == "rgb(255, 255, 255)") != dark, page


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    return axe_script(tmp_path_factory.mktemp("axe"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_serious_violation(pages, axe, tmp_path, dark):
    check_accessible(pages, axe, tmp_path, dark=dark)
