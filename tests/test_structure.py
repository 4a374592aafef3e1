"""How files of the package may use each other."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import cmdstanpy
import pytest

from bdr_stan.questions.protocol import FOR_MODULES

ROOT = Path(__file__).parents[1]


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted((ROOT / "bdr_stan").rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}
MATHEMATICS = (
    *("aggregate", "bags", "embedding", "families", "kernel_means", "kernels", "models"),
    *("posterior", "predictive", "results"),
)
# Folders that a folder may not import from.
HIGHER = {folder: {"questions", "estimators"} for folder in MATHEMATICS}
HIGHER |= {"questions": {"estimators"}}
# Packages whose `__getattr__` loads names of higher files on first use.
FACES = {"bdr_stan", "bdr_stan.predictive"}
# Private names of objects of other files: of Python's, and of a class with parts in several files.
PRIVATE_ELSEWHERE = {
    "bdr_stan.bags.container": {"_made"},  # of Bags, whose readers have a file
    "bdr_stan.bags.readers": {"_read_from"},
    "bdr_stan.estimators.linear": {"_model"},  # of other fits of the same class
    "bdr_stan.maps.page_data": {"_asdict"},  # a namedtuple's, as is _replace
    "bdr_stan.questions.contrast": {"_replace"},
    "bdr_stan.questions.ecological": {"_replace"},
    "bdr_stan.user_warnings": {"_getframe"},
}
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


def loaded(tree):
    """What a file imports by `import_module`: of f-strings the part before what is filled in."""
    for node in ast.walk(tree):
        function = getattr(node, "func", None)
        name = getattr(function, "attr", getattr(function, "id", ""))
        if name in ("import_module", "__import__"):
            first = node.args[0].values[0] if hasattr(node.args[0], "values") else node.args[0]
            yield first.value.rstrip(".") if isinstance(first, ast.Constant) else None


def modules_of(name):
    """Modules that a file imports, or loads; of a face without those that it loads."""
    return {module for module, _ in imported(TREES[name])} | (
        set() if name in FACES else set(loaded(TREES[name]))
    )


def test_imports_make_no_circle():
    packages = {name for name, path in FILES.items() if path.name == "__init__.py"}
    graph = {name: modules_of(name) - {None} for name in TREES}
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
        if isinstance(node, ast.ClassDef):
            targets = (
                getattr(each, "targets", [getattr(each, "target", None)]) for each in node.body
            )
            yield from (target.id for each in targets for target in each if hasattr(target, "id"))
        set_here = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if set_here and getattr(node.value, "id", "") == "self":
            yield node.attr


def private_attributes(tree):
    """Objects, as text, and names of their private attributes, also of those by `getattr`."""
    for node in ast.walk(tree):
        owner, name = None, ""
        if isinstance(node, ast.Attribute):
            owner, name = node.value, node.attr
        elif getattr(getattr(node, "func", None), "id", "") in ("getattr", "hasattr", "setattr"):
            owner, name = node.args[0], str(getattr(node.args[1], "value", ""))
        if name.startswith("_") and not name.startswith("__"):
            yield ast.unparse(owner), name


@pytest.mark.parametrize("name", TREES)
def test_private_attributes_are_of_objects_of_their_file(name):
    """Or of the object itself, which has them from its bases, unless it is a question."""
    known = {*own_attributes(TREES[name]), *PRIVATE_ELSEWHERE.get(name, ())}
    itself = () if name.startswith("bdr_stan.questions") else ("self", "cls", "super()")
    for owner, attribute in private_attributes(TREES[name]):
        assert attribute in known or owner in itself, f"{owner}.{attribute}"


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


def test_mathematics_know_no_question_and_questions_no_estimator():
    for name in TREES:
        _, folder, *_ = f"{name}.".split(".")
        modules = modules_of(name) if folder in HIGHER else set()
        assert None not in modules, f"{name} does not say what it imports"
        folders = {
            f"{module}.".split(".")[1] for module in modules if module.startswith("bdr_stan.")
        }
        assert not folders & HIGHER.get(folder, set()), name


def test_names_for_questions_are_of_estimators():
    folders = ("bdr_stan.estimators.", "bdr_stan.questions.")
    trees = [tree for name, tree in TREES.items() if name.startswith(folders)]
    assert {name for tree in trees for name in own_attributes(tree)} >= FOR_MODULES


def questions_of_type(tree):
    """What a file asks objects for: types, or names of attributes, as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", "")
            if name in ("isinstance", "issubclass", "hasattr", "getattr"):
                yield ast.unparse(node.args[1])
        elif isinstance(node, ast.Compare):
            yield from (ast.unparse(each) for each in [node.left, *node.comparators])
        elif isinstance(node, ast.MatchClass):
            yield ast.unparse(node.cls)


def questions_of_samples(name):
    """Of these the ones that tell bags with several samples from others."""
    texts = questions_of_type(TREES[name])
    return [text for text in texts if "Samples" in text or text == "'samples'"]


@pytest.mark.parametrize("name", TREES)
def test_only_bags_ask_whether_there_are_several_samples(name):
    """Elsewhere bags with one sample are bags with samples, see CONTRIBUTING.md."""
    questions = questions_of_samples(name)
    assert not questions or name.startswith("bdr_stan.bags."), questions


def test_few_questions_tell_bags_with_several_samples_from_others():
    assert sum(len(questions_of_samples(name)) for name in TREES) <= 4


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
