"""The page of formulas names files, functions and tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "validation" / "formulas.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| formula |")
]
PLACE = re.compile(r"`([\w/]+\.(?:py|stan))`(?:: `(\w+)`)?")


def exists(cell):
    """Whether a cell names a Stan program, or a file and a function or class in it."""
    file, name = PLACE.fullmatch(cell).groups()
    path = ROOT / file
    if not path.is_file() or path.suffix == ".stan":
        return path.is_file()
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return name in {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_each_row_is_a_formula_with_its_place_code_and_test():
    assert len(ROWS) > 40
    assert {len(row) for row in ROWS} == {4}


def test_code_and_tests_exist():
    assert [cell for _, _, *cells in ROWS for cell in cells if not exists(cell)] == []
