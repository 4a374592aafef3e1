"""How files of the package may use each other."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import cmdstanpy
import pytest

ROOT = Path(__file__).parents[1]


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted((ROOT / "bdr_stan").rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}
SCRIPTS = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text())
    for folder in ("examples", "experiments")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def imported(tree):
    """Modules of the package that a file imports, also inside its functions, and names of each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bdr_stan"):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield (module, None) if module in FILES else (node.module, alias.name)
        elif isinstance(node, ast.Import):
            yield from ((a.name, None) for a in node.names if a.name in FILES)


def test_imports_make_no_circle():
    packages = {name for name, path in FILES.items() if path.name == "__init__.py"}
    graph = {name: {module for module, _ in imported(tree)} for name, tree in TREES.items()}
    # A package gathers what its files define: they do not import it, and it is no step of a circle.
    for name, modules in graph.items():
        assert not {p for p in modules & packages - {"bdr_stan"} if name.startswith(f"{p}.")}, name
    graph.pop("bdr_stan")
    tuple(TopologicalSorter(graph).static_order())  # raises where there is one


@pytest.mark.parametrize("name", [*TREES, *SCRIPTS])
def test_private_names_stay_in_their_file(name):
    tree = TREES.get(name) or SCRIPTS[name]
    for module, what in imported(tree):
        assert what in (None, "__version__") or not what.startswith("_"), (module, what)


def own_attributes(tree):
    """Names of functions and methods that a file defines, and of attributes of its objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        set_here = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if set_here and getattr(node.value, "id", "") == "self":
            yield node.attr


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_use_public_attributes_and_their_own(name):
    own = set(own_attributes(SCRIPTS[name]))
    for node in ast.walk(SCRIPTS[name]):
        if isinstance(node, ast.Attribute) and node.attr not in own:
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            assert not private, f"line {node.lineno}: .{node.attr}"


@pytest.mark.parametrize("name", TREES)
def test_the_package_imports_no_experiment(name):
    for node in ast.walk(TREES[name]):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [m for m in modules if m.split(".")[0] in ("experiments", "data_gen")]


def test_models_and_mathematics_know_no_estimator():
    for name, tree in TREES.items():
        package = name.split(".")[1] if "." in name else name
        if package in ("bags", "kernels", "embedding", "models", "posterior", "aggregate"):
            used = {module for module, _ in imported(tree)}
            assert not {m for m in used if m.startswith("bdr_stan.estimators")}, name


def used_of_cmdstanpy(tree):
    """Names that a file takes from CmdStanPy, and every attribute: types are not known here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cmdstanpy"):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "cmdstanpy":
            yield f"cmdstanpy.{node.attr}"
            yield node.attr
        elif isinstance(node, ast.Attribute):
            yield node.attr


def test_cmdstanpy_is_used_by_its_public_names():
    """And without what version 2 removes; CONTRIBUTING.md lists the rest."""
    kinds = [kind for name, kind in vars(cmdstanpy).items() if name.startswith("CmdStan")]
    names = set(vars(cmdstanpy)).union(*map(dir, kinds))
    forbidden = {name for name in names if name.startswith("_") and not name.endswith("__")}
    assert {"_TMPDIR", "_run_cmdstan"} <= forbidden
    forbidden |= {"runset", "cmdstanpy.from_csv"}
    for path in [*FILES.values(), *(ROOT / "tests").rglob("*.py")]:
        found = forbidden.intersection(used_of_cmdstanpy(ast.parse(path.read_text())))
        assert not found, path
