"""Headers of the programs lead to the function that fills their data."""

import ast
import re
from pathlib import Path

import pytest

from bdr_stan.cmdstan.programs import program_names, program_path

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", program_names())
def test_header_names_the_function_that_fills_the_data(name):
    header = program_path(name).read_text().partition("functions {")[0]
    assert header.startswith(f"// {name}: ")
    file, function = re.search(
        r"^// Data: (\S+\.py), ([\w.]+)\(\)\.$", header, re.MULTILINE
    ).groups()
    tree = ast.parse((ROOT / file).read_text())
    functions = {part.name for part in tree.body if isinstance(part, ast.FunctionDef)}
    for kind in (part for part in tree.body if isinstance(part, ast.ClassDef)):
        functions |= {f"{kind.name}.{part.name}" for part in kind.body if hasattr(part, "name")}
    assert function in functions
