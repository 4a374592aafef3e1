"""Results that a page quotes are on the page of the experiment that it links to."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = DOCS / "validation"
APART = ("_build", "api", "dev", "validation")
PAGES = [
    ROOT / "README.md",
    *(p for p in sorted(DOCS.rglob("*.md")) if p.relative_to(DOCS).parts[0] not in APART),
    RESULTS / "index.md",
]
BLOCK = re.compile(r"^(`{3,}).*?^\1", re.DOTALL | re.MULTILINE)
# Code, formulas, pictures and links to other sites, whose texts may be numbers of papers.
NO_PROSE = re.compile(
    r"\$\$.*?\$\$|\$[^$\n]+\$|`[^`]*`|!\[[^]]*\]\([^)]*\)|\[[^]]*\]\(http[^)]*\)", re.DOTALL
)
LINK = re.compile(r"\]\(([^)#\s]+\.md)[^)]*\)")
LEVEL = re.compile(r"\b\d+(?:\.\d+)?%(?:\s[\w-]+){0,2}\s(?:interval|region|band)s?\b")
OF_RANGE = re.compile(r"(?<![\w.,])(\d+(?:\.\d+)?)(?=(?:,?\s(?:to|and|or)\s\d+(?:\.\d+)?)+%)")
NUMBER = re.compile(r"(?<![\w.,])(\d+(?:,\d{3})*(?:\.\d+)?)(%?)(?!\w|[.,]\d)")


def paragraphs(text):
    """Paragraphs, items of lists and rows of tables, without blocks of code."""
    for block in re.split(r"\n\s*\n", BLOCK.sub("", text)):
        yield from re.split(r"\n(?=\s*(?:\||[-*]\s|\d+\.\s))", block)


def numbers(text):
    """Each number of a text as it is spelled, and its value; 84 of "84 to 92%" is a percentage."""
    for digits, percent in NUMBER.findall(OF_RANGE.sub(r"\1%", text)):
        value = Decimal(digits.replace(",", ""))
        yield digits + percent, value / 100 if percent else value


def not_on_linked_pages(text, folder):
    """Decimals and percentages of a text that no page linked in the same paragraph has.

    A row of a table without a link of its own has those of the paragraph before the table.
    """
    pages = []
    for paragraph in paragraphs(text):
        links = [(folder / link).resolve() for link in LINK.findall(paragraph)]
        if links or not paragraph.lstrip().startswith("|"):
            pages = [p for p in links if p.parent in (RESULTS, ROOT / "benchmarks")]
        found = {value for page in pages for _, value in numbers(page.read_text())}
        prose = LINK.sub("]", LEVEL.sub("", NO_PROSE.sub("", paragraph)))
        for spelled, value in numbers(prose):
            if pages and value not in found and re.search("[.%]", spelled):
                yield spelled, " ".join(page.name for page in pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_results_that_a_page_quotes_are_on_the_page_that_it_links_to(page):
    wrong = sorted(set(not_on_linked_pages(page.read_text(), page.parent)))
    assert not wrong, "spell numbers as the linked page does, and link the page that has them"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("95% intervals cover 93.5% to 95.8%: [votes](validation/votes.md).", []),
        ("NLL is 5.943 against 65.722\n([votes](validation/votes.md#an-election)).", []),
        (
            "It costs 99.9%.\n\n[Votes](validation/votes.md): `0.123` and $0.123$ are no prose.",
            [],
        ),
        ("Intervals cover 93 to 96%: [votes](validation/votes.md).", ["93%", "96%"]),
        ("- NLL is 5.94: [votes](validation/votes.md)\n- a ratio of 5.94", ["5.94"]),
        ("| 5.94 | [votes](validation/votes.md) |\n\nNLL is 5.95.", ["5.94"]),
        ("In [votes](validation/votes.md):\n\n| NLL | 5.943 |\n| NLL | 5.95 |", ["5.95"]),
    ],
)
def test_only_numbers_that_the_linked_page_lacks_are_found(text, wrong):
    assert [spelled for spelled, _ in not_on_linked_pages(text, DOCS)] == wrong
