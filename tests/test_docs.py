"""Texts and pages: what they name is there, their Python is ours, no public name lacks a page."""

import ast
import inspect
import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from builders.messages import messages
from builders.public_names import names_in_modules, public_objects

import bdr_stan
from bdr_stan.cli import main
from bdr_stan.cmdstan.programs import program_names, program_path
from bdr_stan.models.plain import DATA, DATA_OF_TOTALS, INVERSE_DATA
from bdr_stan.posterior.declarations import declared

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = (DOCS / "_build", DOCS / "api" / "generated")
PAGES = [p for p in sorted(DOCS.rglob("*.md")) if not any(b in p.parents for b in BUILT)]
EDITS = ROOT / "examples" / "edits" / "README.md"
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", EDITS, *PAGES]
# Paths in code spans, of the checkout or of the package; links to files of the checkout.
PATHS = re.compile(r"`((?:[\w-]+/)+[\w*-]*(?:\.(?:py|stan|stanfunctions|md))?)`")
LINKS = re.compile(r"\]\(((?!https?:|#)[^)#]+)[^)]*\)")
BLOCKS = re.compile(r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def of_checkout(path):
    return str(path.relative_to(ROOT))


def resolve(name):
    """What a dotted name stands for: a module, or what a module or class has."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        parent, _, last = name.rpartition(".")
        return getattr(resolve(parent), last)


def module_of(path):
    """A script as a module."""
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("text", TEXTS, ids=of_checkout)
def test_files_that_a_text_names_are_there(text):
    said = text.read_text()
    paths, links = set(PATHS.findall(said)), set(LINKS.findall(said))
    within = (ROOT, ROOT / "bdr_stan", ROOT / "bdr_stan" / "aggregate")
    missing = [p for p in paths if not any(list(folder.glob(p.rstrip("/"))) for folder in within)]
    missing += [link for link in links if not (text.parent / link).exists()]
    assert not missing


def test_pictures_are_small_and_those_of_examples_are_in_the_gallery(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "pictures")
    common, gallery = (import_module(name) for name in ("common", "of_examples"))
    assert not [p.name for p in common.all_pictures() if p.stat().st_size > common.LARGEST]
    shown = set(LINKS.findall((DOCS / "tutorials" / "index.md").read_text()))
    assert {f"../{name}.png" for name in gallery.EXAMPLES} <= shown
    drawing = {p.name for p in (ROOT / "examples").glob("*.py") if ".png" in p.read_text()}
    drawn = {Path(argument).name for _, argument, _ in gallery.EXAMPLES.values()}
    assert drawing == drawn - {"demo"}  # that of digits.py is the command's


def test_drawn_pictures_are_on_a_page(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "pictures")
    drawn = import_module("catalogue").PICTURES
    directive = re.compile(r"^```\{image\} (\S+)$", re.MULTILINE)
    shown = set()
    for text in TEXTS:
        said = text.read_text()
        links = LINKS.findall(said) + directive.findall(said)
        shown |= {(text.parent / link).resolve() for link in links}
    assert not [name for name in drawn if DOCS / f"{name}.png" not in shown]


def test_tests_that_the_page_of_standards_names_are_there():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/dev/standards.md").read_text())
    assert len(named) > 20
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), name


@pytest.mark.parametrize("page", PAGES, ids=of_checkout)
def test_commands_that_a_page_names_are_there(page):
    for script in re.findall(
        r"python ((?:experiments|examples|benchmarks)/\w+\.py)", page.read_text()
    ):
        assert (ROOT / script).is_file()


# ---------------------------------------------------------------- Python on the pages


WITH_PYTHON = [text for text in TEXTS if BLOCKS.search(text.read_text())]


def names_of_ours(tree):
    """Names that a block imports from this project -> what they are."""
    for node in ast.walk(tree):
        ours = ("bdr_stan", "data_gen", "experiments")
        if isinstance(node, ast.ImportFrom) and node.module.startswith(ours):
            for alias in node.names:
                yield alias.asname or alias.name, resolve(f"{node.module}.{alias.name}")


def called(node, ours):
    """The function or class of ours that a call is of, if it is plain to see."""
    if isinstance(node, ast.Name):
        return ours.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = ours.get(node.value.id)
        return None if owner is None else getattr(owner, node.attr)  # a stale name raises
    return None


def mistakes_of(tree):
    """What a page hands to its function `said`, which shows the errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "said":
            yield from ast.walk(node)


@pytest.mark.parametrize("text", WITH_PYTHON, ids=of_checkout)
def test_python_on_a_page_calls_what_there_is(text):
    ours = {}
    for block in BLOCKS.findall(text.read_text()):
        tree = ast.parse(re.sub(r"^:.*\n", "", block, flags=re.MULTILINE))  # without tags of cells
        ours |= dict(names_of_ours(tree))
        wrong = set(mistakes_of(tree))
        for node in ast.walk(tree):
            if node in wrong:
                continue
            if isinstance(node, ast.Call) and callable(called(node.func, ours)):
                parameters = inspect.signature(called(node.func, ours)).parameters.values()
                if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                    given = {keyword.arg for keyword in node.keywords} - {None}
                    assert given <= {p.name for p in parameters}, ast.unparse(node)


@pytest.mark.slow
def test_the_python_of_the_entry_pages_runs(tmp_path, monkeypatch):
    """The site's first page has the program of README.md without the line on diagnostics."""
    monkeypatch.chdir(tmp_path)
    pages = [page.read_text() for page in (ROOT / "README.md", DOCS / "index.md")]
    (block,), (on_site,) = (BLOCKS.findall(page) for page in pages)
    lines = block.splitlines()
    assert [line for line in lines if "report()" not in line] == on_site.splitlines()
    found = {}
    exec(block, found)
    table, y_test = found["table"], found["test"].metadata["vote"]
    held = (table["lower"] <= y_test) & (y_test <= table["upper"])
    assert len(y_test) == 100 and held.mean() > 0.85
    loaded = bdr_stan.load("fit.nc").predict(found["test"])
    np.testing.assert_allclose(loaded, table["mean"])
    # The output on the page: its draws are of another processor.
    for page in pages:
        rows = re.findall(r"^    (c\d+) +(\d+) +(\d.+)$", page, re.MULTILINE)
        assert len(rows) == 3
        for (county, n_points, numbers), shown in zip(rows, table.itertuples()):
            assert (county, int(n_points)) == (shown.Index, shown.n_points)
            expected = [shown.mean, shown.sd, shown.lower, shown.upper]
            np.testing.assert_allclose(np.array(numbers.split(), float), expected, atol=0.02)


# ---------------------------------------------------------------- every public name has a page


def named_on(page):
    return re.findall(r"^(?:   ~?|\| `)(bdr_stan(?:\.\w+)+)`?", page.read_text(), re.MULTILINE)


FIRST_TIER = named_on(DOCS / "api" / "index.md")
LISTED = {
    name for page in (DOCS / "api").glob("*.md") if page.stem != "index" for name in named_on(page)
}


def test_every_public_name_is_in_the_reference():
    public = public_objects()
    twice = {id(value) for value in public.values()}
    names = {name for name in public if not name.startswith("bdr_stan._")}
    names |= {name for name in names_in_modules() if id(resolve(name)) not in twice}
    without_page = sorted(names - LISTED)
    assert not without_page, "name them on a page in docs/api"


def test_the_reference_begins_with_the_names_that_most_programs_use():
    pages = {page.stem for page in (DOCS / "api").glob("*.md")} - {"index"}
    index = (DOCS / "api" / "index.md").read_text()
    assert pages == set(re.findall(r"^(\w+)$", index, re.MULTILINE))
    assert 40 <= len(FIRST_TIER) <= 60
    owners = {name if name in LISTED else name.rpartition(".")[0] for name in FIRST_TIER}
    assert owners <= LISTED


@pytest.mark.parametrize("name", sorted(LISTED | set(FIRST_TIER)))
def test_names_of_the_reference_are_there(name):
    resolve(name)


# ---------------------------------------------------------------- errors, by message


def test_messages_of_the_page_are_those_of_the_code():
    page = (DOCS / "errors.md").read_text()
    shown = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    known = messages(ROOT / "bdr_stan")
    assert len(shown) > 50
    assert not [message for message in shown if message not in known]


# ---------------------------------------------------------------- the command line


def test_the_page_of_the_command_line_has_every_command_and_no_other_option():
    page = (DOCS / "cli.md").read_text()
    listed = re.findall(r"^\| \[`bdr-stan ([\w-]+)`\]\(#[\w-]+\) \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(main.commands)
    assert not [name for name in main.commands if f"    bdr-stan {name}" not in page]
    known = {option for c in (main, *main.commands.values()) for p in c.params for option in p.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", page)) - {"--help"} <= known


# ---------------------------------------------------------------- Stan programs


def test_data_of_plain_programs_are_those_of_their_page():
    page = (DOCS / "programs.md").read_text()
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (?:\(|number)", page, re.MULTILINE)
    described = {name.removesuffix("_new") for cell in cells for name in re.findall(r"\w+", cell)}
    read = {
        name.removesuffix("_new")
        for program in program_names(fast=False)
        for name in declared(program_path(program, fast=False), "data")
    }
    assert described == set(DATA) | set(DATA_OF_TOTALS) | set(INVERSE_DATA)
    assert read <= described
    pages = page + (DOCS / "families.md").read_text()
    for program in program_names(fast=False):
        assert f"../stan/{program}.stan" in pages, program


# ---------------------------------------------------------------- how to cite it


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    keys = dict(re.findall(r"^([\w-]+): *(.*)$", text, re.MULTILINE))
    assert {"cff-version", "message", "title", "authors"} <= set(keys)  # what the format requires
    assert keys["version"] == bdr_stan.__version__
    assert keys["license"] == "BSD-3-Clause"


# ---------------------------------------------------------------- links of the built pages


def test_broken_links_of_built_pages_are_found(tmp_path):
    check_links = module_of(DOCS / "check_links.py")
    (tmp_path / "a b.html").write_text('<p id="here"><a href="b.html#there">b</a><a href="#here">')
    (tmp_path / "b.html").write_text(
        '<a href="a%20b.html#here"></a><a href="https://elsewhere"></a>'
        '<a href="a%20b.html#gone"></a><img src="none.png">'
    )
    broken = set(check_links.broken_links(tmp_path))
    assert broken == {
        ("a b.html", "b.html#there"),
        ("b.html", "a%20b.html#gone"),
        ("b.html", "none.png"),
    }
