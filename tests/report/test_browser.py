"""Reports in a real browser: no message on its console, figures drawn, nothing wider than a phone.

Structure, addresses and escaping are tested without one, in test_document.
"""

import json
import re
import shutil
import subprocess
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


def browse(path, folder, *options):
    return subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-extensions",
            "--no-first-run",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            *options,
            "--dump-dom",
            path.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.skipif(
    BROWSER is None, reason="no Chromium to look at reports with: apt-get install chromium"
)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_reports_are_drawn_on_wide_and_narrow_pages(pages, tmp_path, dark):
    frames = [
        FRAME.format(width=width, name=name, page=escape(path.read_text()))
        for name, path in pages.items()
        for width in WIDTHS
    ]
    path = tmp_path / "pages.html"
    scheme = "dark" if dark else "light"
    head = f'<!DOCTYPE html><meta name="color-scheme" content="{scheme}">'
    path.write_text(f"{head}<body>{''.join(frames)}{MEASURE}")
    options = ["--blink-settings=preferredColorScheme=0"] if dark else []
    done = browse(path, tmp_path, *options)
    assert "CONSOLE" not in done.stderr, done.stderr
    found = json.loads(unescape(re.search(r'data-found="([^"]*)"', done.stdout).group(1)))
    assert [page["name"] for page in found] == [name for name in pages for _ in WIDTHS]
    for page in found:
        assert page["wider"] <= 0, page
        assert page["figures"] >= 4 and page["smallest"] > 100, page
        assert page["letters"] >= 16, page
        assert page["dark"] == dark and (page["ground"] == "rgb(255, 255, 255)") != dark, page
