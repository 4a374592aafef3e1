"""Plain English: how often each area breaks a countable rule, counts that may only fall.

`language_counts.json` has the counts. python tests/test_language.py RULE prints the places of a
rule; without a rule it lowers the counts of the file to those of the texts.
"""

import ast
import json
import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COUNTS = Path(__file__).with_name("language_counts.json")

# Rule -> the phrase that breaks it. Places and comparisons are fine with "alone" or "that of", so
# only a count of zero is a goal that some areas cannot reach.
RULES = {
    "alone for only": r"\balone\b",
    "fronted Of": r"(?:^|[.:;!?|] )Of (?!course\b)",
    "that of, those of": r"\b(?:that|those) of\b",
    "intervals hold": r"\b(?:interval|region|bound)s?(?: [\w%.]+){0,5} h(?:olds?|eld)\b(?![ -]out)",
    "is no": r"(?<!\b[Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b)",
    ", so that": r", so that\b",
    "as of, as by, as from": r"(?<!same )(?<!well )\bas (?:of|by|from|those|with)\b",
    "but for": r"\bbut for\b|\bnot\b[^.,;:]{0,40}\bbut (?:by|with)\b",
    "final too, also": r"\b(?:too|also)(?=[.,;:)]|$)",
    "by for with": r"\b(?:by|By) (?:NUTS|Laplace|MCMC|k-means|ArviZ|SciPy|TMB|a fit|make it)\b",
    "in all for in total": r"\bin all(?=[.,;:)…]|$| \()",
    "less for minus": r"\bless (?:that|those|the|its|their|an?|one)\b",
    "two dots": r"(?<![./])\.\.(?![./])",
    "decimal without zero": r"(?<![\w.)\]/])\.\d",
    "anew, besides, alike": r"\b(?:anew|besides?|alike|elsewhere)\b",
    "these without noun": r"\b(?:of|for|from|to|by|in|with) (?:these|those)(?=[.,;:)]|$)",
    "written by first": r"^(?:Written|Made) by x\b",
}


def area_of(page):
    """Where the counts of a Markdown file belong."""
    if page.parent.name == "tutorials":
        return "tutorials"
    if page.parent.name == "explanation":
        return "method"
    if page.parent.name == "validation":
        return "experiments"
    if page.parent in (DOCS, DOCS / "api") or page == ROOT / "README.md":
        return "guides"
    return "project pages"


def prose(text):
    """Sentences without code, each paragraph, item of a list or row of a table on one line."""
    text = re.sub(r"^ *(```|~~~).*?^ *\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(`+).+?\1", "x", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"(?<=\S)\n *(?!\s|[-*|#>] |\d+\. )", " ", text)


def docstring_prose(text):
    """The same of a docstring, whose entries begin at another indentation."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(>>>|\.\.\. )", line)]
    text = re.sub(r"(`+).+?\1", "x", "\n".join(lines))
    joined = ""
    for before, line in pairwise(["", *text.splitlines()]):
        continues = before.strip() and indent(before) == indent(line)
        joined += (" " if continues else "\n") + line.strip()
    return joined


def indent(line):
    return len(line) - len(line.lstrip())


def docstrings(tree):
    """Docstrings of a module's public classes, functions and methods."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield ast.get_docstring(node) or ""
            if isinstance(node, ast.ClassDef):
                yield from docstrings(node)


def messages(tree):
    """Texts in what is raised or warned of, with … for what changes in them."""
    for node in ast.walk(tree):
        called = getattr(node, "func", None)
        name = getattr(called, "id", getattr(called, "attr", None))
        if isinstance(node, ast.Raise) or name in ("warn", "require"):
            yield from literals(node)


def literals(node):
    if isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from literals(child)


@cache
def texts():
    """Area -> pairs of a file and its prose."""
    found = {}
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    pages += [ROOT / "benchmarks/README.md", *DOCS.glob("*.md")]
    pages += [*DOCS.glob("[!_]*/*.md")]
    for page in pages:
        found.setdefault(area_of(page), []).append((page, prose(page.read_text())))
    for path in (ROOT / "bdr_stan").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for text in docstrings(tree):
            found.setdefault("docstrings", []).append((path, docstring_prose(text)))
        for text in messages(tree):
            found.setdefault("messages", []).append((path, text))
    return found


def places(rule, area):
    """Files and words around each place of an area that breaks a rule."""
    for path, text in texts()[area]:
        for hit in re.finditer(RULES[rule], text, re.MULTILINE):
            yield path.relative_to(ROOT), text[max(hit.start() - 40, 0) : hit.end() + 40]


def counted(rule):
    return {area: len(list(places(rule, area))) for area in sorted(texts())}


@pytest.mark.parametrize("rule", RULES)
def test_the_count_of_a_rule_only_falls(rule):
    allowed = json.loads(COUNTS.read_text())[rule]
    for area, found in counted(rule).items():
        assert found <= allowed[area], (
            f"{area}: more of '{rule}' ({found}, allowed {allowed[area]}): "
            f"python tests/test_language.py '{rule}' prints the places"
        )
        assert found >= allowed[area], (
            f"{area}: fewer of '{rule}' ({found}, allowed {allowed[area]}): "
            "python tests/test_language.py lowers the allowed counts"
        )


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("fronted Of", "A region is a set. Of counts integers are tried."),
        ("that of, those of", "The noise is that of\nthe labels."),
        ("intervals hold", "95% intervals of the votes of counties hold 93%."),
        ("is no", "A county is no point."),
        (", so that", "Bags are many, so that fits take long."),
        ("final too, also", "It takes `y`, too."),
        ("in all for in total", "There are 12 in all."),
        ("two dots", "Counts 0, 1, 2, .."),
        ("decimal without zero", "A width of .25"),
        ("anew, besides, alike", "Columns that are alike."),
    ],
)
def test_a_rule_finds_what_breaks_it(rule, text):
    assert re.search(RULES[rule], prose(text), re.MULTILINE)


@pytest.mark.parametrize("text", ["`a ..`", "```\nalone\n```", "There is no 0.5 in all bags."])
def test_code_and_plain_sentences_break_no_rule(text):
    assert not [rule for rule in RULES if re.search(RULES[rule], prose(text), re.MULTILINE)]


def lower_the_counts():
    before = json.loads(COUNTS.read_text())
    lowered = {
        rule: {a: min(n, before.get(rule, {}).get(a, n)) for a, n in counted(rule).items()}
        for rule in RULES
    }
    COUNTS.write_text(json.dumps(lowered, indent=2) + "\n")


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        for area in texts():
            for path, words in places(chosen, area):
                print(f"{path}: {words!r}")
    if not sys.argv[1:]:
        lower_the_counts()
