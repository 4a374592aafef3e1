"""Files that the texts name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "method.md"]
# Paths in code spans, of the checkout or of the package; links to files of the checkout.
PATHS = re.compile(r"`((?:[\w-]+/)+[\w*-]*(?:\.(?:py|stan|stanfunctions|md))?)`")
LINKS = re.compile(r"\]\(((?!https?:|#)[^)#]+)\)")


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_files_that_a_text_names_are_there(text):
    said = text.read_text()
    paths, links = set(PATHS.findall(said)), set(LINKS.findall(said))
    assert paths or links
    within = (ROOT, ROOT / "bdr_stan", ROOT / "bdr_stan" / "aggregate")
    missing = [p for p in paths if not any(list(folder.glob(p.rstrip("/"))) for folder in within)]
    missing += [link for link in links if not (text.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize(
    "program", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name
)
def test_commands_that_a_page_names_are_there(program):
    for script in re.findall(
        r"python ((?:experiments|examples|benchmarks)/\w+\.py)", program.read_text()
    ):
        assert (ROOT / script).is_file()
