"""Reports in a real browser: no message on its console, figures drawn, nothing wider than a phone,
nothing that axe-core, from npm, holds against them.

Structure, addresses and escaping are tested without one, in test_document.
"""

import json
import re
import shutil
import subprocess
import tarfile
from html import escape, unescape

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome",
                                               "google-chrome"))), None)  # fmt: skip
WIDTHS = (1400, 390)

# The pages in frames of these widths, and a script that measures them once they are drawn.
FRAME = '<iframe width="{width}" height="900" title="{name}" srcdoc="{page}"></iframe>'
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
# axe-core in each frame, one after the other.
ASSESS = """
<script>
addEventListener("load", async () => {
  const found = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument;
    page.querySelectorAll("details").forEach(each => each.open = true);
    frame.contentWindow.eval(AXE);
    const said = await frame.contentWindow.axe.run(page);
    found.push({
      name: frame.title,
      rules: said.passes.length,
      violations: said.violations.map(each => [each.impact, each.id, each.nodes.length]),
    });
  }
  document.body.dataset.found = JSON.stringify(found);
});
</script>
"""


def framed(pages, widths, dark):
    """One page with all pages in frames of these widths."""
    frames = [
        FRAME.format(width=width, name=name, page=escape(path.read_text()))
        for name, path in pages.items()
        for width in widths
    ]
    scheme = "dark" if dark else "light"
    return f'<!DOCTYPE html><meta name="color-scheme" content="{scheme}"><body>{"".join(frames)}'


def browse(page, folder, *, dark, milliseconds=5000):
    """What the page's script has found, and what the browser wrote to its console."""
    path = folder / "pages.html"
    path.write_text(page)
    options = ["--blink-settings=preferredColorScheme=0"] if dark else []
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-extensions",
            "--no-first-run",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            f"--virtual-time-budget={milliseconds}",
            *options,
            "--dump-dom",
            path.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found, done.stderr
    return json.loads(unescape(found.group(1))), done.stderr


pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium to look at reports with: apt-get install chromium"
)


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
    """The script of axe-core."""
    folder, npm = tmp_path_factory.mktemp("axe"), shutil.which("npm")
    if npm is None:
        pytest.skip("no npm to get axe-core by: apt-get install npm")
    done = subprocess.run(
        [npm, "pack", "--silent", "axe-core@4"],
        cwd=folder, check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"npm does not get axe-core: {done.stderr.strip()}")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        return packed.extractfile("package/axe.min.js").read().decode()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_serious_violation(pages, axe, tmp_path, dark):
    source = json.dumps(axe).replace("</", "<\\/")
    page = framed(pages, WIDTHS[1:], dark) + f"<script>const AXE = {source};</script>" + ASSESS
    found, _ = browse(page, tmp_path, dark=dark, milliseconds=60_000)
    assert [page["name"] for page in found] == list(pages)
    for page in found:
        assert page["rules"] > 10, page
        assert not [each for each in page["violations"] if each[0] in ("serious", "critical")], page
