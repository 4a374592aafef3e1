"""HTML pages in headless Chromium, in frames of given widths, and axe-core from npm."""

import json
import re
import shutil
import subprocess
import tarfile
import threading
import time
from html import escape, unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome",
                                               "google-chrome"))), None)  # fmt: skip
WIDTHS = (1400, 390)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium to look at pages with: apt-get install chromium"
)

_FRAME = '<iframe width="{width}" height="900" title="{name}" srcdoc="{page}"></iframe>'
# axe-core in each frame, one after the other.
_ASSESS = """
<script>
addEventListener("load", async () => {
  const found = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, script = page.createElement("script");
    page.querySelectorAll("details").forEach(each => each.open = true);
    script.textContent = AXE;
    page.head.append(script);
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
    """One page with all pages, name -> path, in frames of these widths."""
    frames = [
        _FRAME.format(width=width, name=name, page=escape(path.read_text()))
        for name, path in pages.items()
        for width in widths
    ]
    scheme = "dark" if dark else "light"
    return f'<!DOCTYPE html><meta name="color-scheme" content="{scheme}"><body>{"".join(frames)}'


def browse(page, folder, *, dark, milliseconds=5000):
    """What the page's script has found, and what the browser wrote to its console."""
    path = folder / "pages.html"
    path.write_text(page)
    done = subprocess.run(
        [
            *_command(folder, dark=dark),
            f"--virtual-time-budget={milliseconds}",
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


def visit(page, folder, *, seconds=60):
    """What the page's script sends by POST, and what the browser wrote to its console.

    In real time: frames are drawn one by one, which virtual time does not wait for.
    """
    answers, log = [], folder / "console.txt"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def do_POST(self):
            answers.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, log.open("w") as console:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        # A port for debugging keeps the browser running.
        command = [*_command(folder), "--remote-debugging-port=0", address]
        with subprocess.Popen(command, stderr=console) as process:
            end = time.monotonic() + seconds
            while not answers and time.monotonic() < end:
                time.sleep(0.05)
            process.terminate()
        server.shutdown()
    lines = [line for line in log.read_text().splitlines() if "CONSOLE" in line]
    assert answers, lines
    return answers[0], lines


def _command(folder, *, dark=False):
    """Chromium with a profile of its own, without the address."""
    return [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-extensions",
        "--no-first-run",
        "--window-size=1900,1000",
        f"--user-data-dir={folder / 'profile'}",
        "--enable-logging=stderr",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
    ]


def axe_script(folder):
    """The script of axe-core, from npm by way of a folder; skips the test where npm has it not."""
    npm = shutil.which("npm")
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


def check_accessible(pages, axe, folder, *, dark):
    """axe-core finds no serious violation in the pages, as wide as a phone."""
    source = json.dumps(axe).replace("</", "<\\/")
    page = framed(pages, WIDTHS[1:], dark) + f"<script>const AXE = {source};</script>" + _ASSESS
    found, _ = browse(page, folder, dark=dark, milliseconds=60_000)
    assert [page["name"] for page in found] == list(pages)
    for page in found:
        assert page["rules"] > 10, page
        assert not [each for each in page["violations"] if each[0] in ("serious", "critical")], page
