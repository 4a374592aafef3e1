"""Mutation sample: do the tests notice small changes of the code?

pip install pytest-cov
python benchmarks/mutants.py --work FOLDER                 1,000 mutants: an hour or two
python benchmarks/mutants.py --work FOLDER --again FILES   survivors against test files of now
python benchmarks/mutants.py --work FOLDER --output docs/dev   the page of the results, mutants.md

A mutant is the package with one change: another arithmetic, comparison or Boolean operator, a
number one larger or smaller, a condition or sign reversed, a call without its effect. It is killed
if a test that passes without the change fails, or takes more than ten times as long. FOLDER has the
copy of the checkout that is changed, the lines that each test runs, and the results so far: the
command goes on where it was stopped. Linux only.

The sample is that of mutants_sample.txt, with others at random for mutants of code that is gone.
Without its lines a fresh one is drawn.
"""

import argparse
import ast
import contextlib
import faulthandler
import gc
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from experiments import report

ROOT = Path(__file__).parents[1]
FOLDERS = ("embedding", "models", "predictive", "aggregate", "posterior")
EXPLAINED = Path(__file__).with_name("mutants_explained.json")
SAMPLE = Path(__file__).with_name("mutants_sample.txt")
N_MUTANTS, SEED = 1000, 20261126
# Seconds of tests, by their usual times: for all mutants, and then for those that survived them.
FIRST, MORE = 4, 20
SIDE_BY_SIDE = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder")
MEMORY = 8 * 2**30
NOT_RUN = 70
EQUIVALENT = "= "  # before the reason why a mutant survives
# What takes long to import and is not changed: mutants are forks of a process that has it. Without
# CmdStanPy, which makes a folder at import and removes it at the end of the process.
WARM = """
    arviz h5netcdf hypothesis joblib narwhals numpy pandas pytest scipy.integrate
    scipy.interpolate scipy.linalg scipy.optimize scipy.sparse scipy.spatial scipy.special
    scipy.stats sklearn.cluster sklearn.ensemble sklearn.linear_model sklearn.model_selection
    sklearn.pipeline sklearn.utils.estimator_checks xarray xml.etree.ElementTree
"""

OTHER_OPERATOR = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# The bound moved by one case, and the opposite.
OTHER_COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
# Texts for people, and what only type checkers read.
NOT_CHANGED = (ast.Raise, ast.JoinedStr, ast.Assert)
TEXT_METHODS = {"__repr__", "__str__", "_repr_html_"}

INTRODUCTION = """
# Mutation sample

Written by `python benchmarks/mutants.py --work FOLDER --output docs/dev`, after the runs that its
docstring names.

Coverage counts the lines that tests run. A mutation sample asks whether tests notice an error in
them: the package is changed in one place, and one of the tests that run this place should fail. The
changes are: `+` and `-`, `*` and `/`, `**`, `//`, `%`, `@`, `&` and `|` replaced by another
operator; bounds of comparisons moved or reversed; `and` and `or` exchanged; `not`, `-` or `~`
dropped; a number one larger or smaller; `True` and `False` exchanged; a condition reversed; `break`
and `continue` exchanged; a call whose value is not used dropped. Docstrings, annotations,
decorators, messages of errors and warnings and methods such as `__repr__` are not changed.

Of {every:,} possible changes of these folders, {covered:,} are on lines that fast tests run; {n:,}
of them were drawn at random, most of them before tests were written for those that survived. A test
fails as well if it takes more than ten times as long as usual. Slow tests were not run.

Of the {n:,} mutants {survive} survive ({survive_share:.1%}). {explained} of these are explained
below: by reading the code, the change has no effect on results, or none that a test should demand.
{open} are neither killed nor explained ({open_share:.1%}). {equivalent} of the explained are
equivalent to the code: memory and time apart, nothing that users see depends on the change. No test
can kill these, so that the usual score leaves them out: of the other {others}, {score:.1%} are
killed and {others_survive:.1%} survive.

{numbers} of the mutants move a number by one, which more often than not is the size of a sample, a
grid or a chunk: {numbers_survive} of these survive ({numbers_share:.1%}), {rest_survive} of the
other {rest} ({rest_share:.1%}).

A mutant met about {FIRST} seconds of the tests that run its line, the likeliest to fail first; if
it survived these, about {MORE} seconds of others. As no mutant met all tests, the shares are lower
bounds.
"""
SURVIVORS = """
## Survivors

A change that is not explained may be noticed by tests that were not run. "=" stands before the
explanations of equivalent ones.
"""

# ------------------------------------------------------------------------------ mutants


class Mutant(NamedTuple):
    """Bytes start:end of a file become `new`; `function` is "" outside of functions."""

    path: str
    function: str
    line: int
    last: int
    start: int
    end: int
    old: str
    new: str
    nth: int = 1  # of the mutants of the function with these texts

    @property
    def key(self):
        """A name that changes elsewhere in the file leave as it is."""
        return f"{self.path} {self.function}: {self.old} -> {self.new} ({self.nth})"

    def applied_to(self, source):
        """Source bytes with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def changed(node):
    """Pairs of a node in `node` and the text in its place."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OTHER_OPERATOR:
            if not any(isinstance(n, ast.JoinedStr) or is_text(n) for n in (left, right)):
                yield node, expression(ast.BinOp(left, OTHER_OPERATOR[type(op)](), right))
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in OTHER_OPERATOR:
            yield node, ast.unparse(ast.AugAssign(target, OTHER_OPERATOR[type(op)](), value))
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield node, expression(ast.BoolOp(other, values))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for i, op in enumerate(ops):
                for other in OTHER_COMPARISONS[type(op)]:
                    those = [*ops[:i], other(), *ops[i + 1 :]]
                    yield node, expression(ast.Compare(left, those, comparators))
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield node, expression(operand)
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() | float() as value):
            yield from ((node, expression(ast.Constant(value + step))) for step in (1, -1))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield from negated(test)
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield from negated(test)
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"
        case ast.Expr(value=ast.Call()):
            yield node, "pass"


def negated(test):
    """A condition reversed, unless that is what another operator of it does."""
    if not isinstance(test, ast.Compare | ast.UnaryOp | ast.Constant):
        yield test, expression(ast.UnaryOp(ast.Not(), test))


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def expression(node):
    return f"({ast.unparse(node)})"


def parts(node):
    """Child nodes whose changes can change a result."""
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns", "decorator_list"}:
            children = value if isinstance(value, list) else [value]
            yield from (child for child in children if isinstance(child, ast.AST))


def mutants_of(folder, path):
    """All mutants of a file in a folder, in the order of its lines."""
    source = (folder / path).read_bytes()
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))

    def visit(node, function):
        if isinstance(node, NOT_CHANGED) or getattr(node, "name", None) in TEXT_METHODS:
            return
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        for old, new in changed(node):
            start = begins[old.lineno - 1] + old.col_offset
            end = begins[old.end_lineno - 1] + old.end_col_offset
            text = " ".join(source[start:end].decode().split())
            yield Mutant(path, function, old.lineno, old.end_lineno, start, end, text, new)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn"):
            return
        inside = isinstance(node, ast.FunctionDef)
        for part in parts(node):
            # Defaults of arguments are computed where the function is defined.
            here = node.name if inside and not isinstance(part, ast.arguments) else function
            yield from visit(part, here)

    of_texts = Counter()
    found = []
    for mutant in visit(ast.parse(source), ""):
        texts = mutant.function, mutant.old, mutant.new
        of_texts[texts] += 1
        found.append(mutant._replace(nth=of_texts[texts]))
    return found


# ---------------------------------------------------------------------------- which tests


def pytest_of_copy(work, arguments, **options):
    """pytest in the copy of the checkout, as a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow"]
    environment = {**os.environ, "PYTHONPATH": str(work / "checkout"), "OMP_NUM_THREADS": "1"}
    environment.update(options)
    subprocess.run([*command, *arguments], cwd=work / "checkout", env=environment, check=False)


def record(work, name, tests):
    """Run tests once, keeping the lines that each runs, its time and whether it passes."""
    folder = work / "contexts"
    folder.mkdir(exist_ok=True)
    cover = ["--cov=bdr_stan", "--cov-context=test", "--cov-report="]
    written = f"--junitxml={folder / name}.xml"
    pytest_of_copy(work, [*tests, *cover, written], COVERAGE_FILE=str(folder / f"{name}.coverage"))


def usual_seconds(work):
    """Test -> seconds it takes at best, of tests that pass."""
    seconds = {}
    for file in (work / "contexts").glob("*.xml"):
        for case in ElementTree.parse(file).iter("testcase"):
            if len(case) == 0 or all(child.tag == "system-out" for child in case):
                test = f"{case.get('classname').replace('.', '/')}.py::{case.get('name')}"
                seconds[test] = min(seconds.get(test, np.inf), float(case.get("time")))
    return seconds


def tests_by_line(work):
    """Path in the package -> line -> set of tests that run it."""
    from coverage import CoverageData

    lines = defaultdict(lambda: defaultdict(set))
    for file in (work / "contexts").glob("*.coverage"):
        data = CoverageData(file)
        data.read()
        for measured in data.measured_files():
            path = "bdr_stan/" + measured.rpartition("/bdr_stan/")[2]
            for line, contexts in data.contexts_by_lineno(measured).items():
                lines[path][line].update(c.partition("|")[0] for c in contexts if c)
    return lines


def file_of(test):
    return test.partition("::")[0]


class Plan:
    """Which tests a mutant must survive, the likeliest to fail first."""

    def __init__(self, work):
        self.seconds = usual_seconds(work)
        self.lines = tests_by_line(work)
        self.passes_alone = set()
        self.slowest = defaultdict(float)  # of a file, whose first test makes its fixtures
        for test, seconds in self.seconds.items():
            self.slowest[file_of(test)] = max(self.slowest[file_of(test)], seconds)

    def limit(self, test):
        """Seconds after which a test counts as failed."""
        return 10 * self.slowest[file_of(test)] + 10

    def covering(self, mutant):
        """Tests that run the mutant's lines; of what runs at import, all tests of the file."""
        lines = self.lines[mutant.path]
        if mutant.function:
            tests = set().union(*(lines[n] for n in range(mutant.line, mutant.last + 1)))
        else:
            tests = set().union(*lines.values())
        return tests & self.seconds.keys()

    def of_same_files(self, covering):
        """All tests of the same files: a fixture or cache ran the line in the first of them."""
        files = {file_of(test) for test in covering}
        return {test for test in self.seconds if file_of(test) in files}

    def chosen(self, mutant, budget, leave_out=()):
        """The file's own tests first, then those of its folder, each the fastest first."""
        folder, _, name = mutant.path.replace("/likelihoods/", "/").rpartition("/")
        folder = folder.replace("bdr_stan/", "tests/")
        own = f"{folder}/test_{name}"
        covering = self.covering(mutant)

        def order(test):
            of_folder = test.startswith(f"{folder}/")
            return (
                test not in covering,
                file_of(test) != own,
                not of_folder,
                self.seconds[test],
                test,
            )

        tests, files, spent = [], set(), 0.0
        for test in sorted(self.of_same_files(covering) - set(leave_out), key=order):
            cost = self.seconds[test] + 0.01
            if file_of(test) not in {own, *files}:
                cost = max(cost, self.slowest[file_of(test)])
            if not tests or spent + cost <= budget:
                tests.append(test)
                files.add(file_of(test))
                spent += cost
        return tests


# ------------------------------------------------------------------------------ running


class Watch:
    """pytest plugin: tests in the given order, a limit to each, and which one failed."""

    def __init__(self, tests, limit, pipe):
        self.position = {test: i for i, test in enumerate(tests)}
        self.limit, self.pipe = limit, pipe

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid in self.position]
        items.sort(key=lambda item: self.position[item.nodeid])

    def pytest_runtest_logstart(self, nodeid):
        os.write(self.pipe, f"\n{nodeid}".encode())
        faulthandler.dump_traceback_later(self.limit(nodeid), exit=True)

    def pytest_sessionfinish(self):
        faulthandler.cancel_dump_traceback_later()


def run(work, tests, limit):
    """Exit code of pytest in a fork, and the test that ran last."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with contextlib.suppress(BaseException):
            os._exit(_run_here(work, tests, limit, write))
        os._exit(NOT_RUN)
    os.close(write)
    with os.fdopen(read) as pipe:
        last = pipe.read().rpartition("\n")[2]
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, 9)  # what the tests started
    return os.waitstatus_to_exitcode(status), last


def _run_here(work, tests, limit, pipe):
    os.setsid()
    os.set_inheritable(pipe, False)
    with open(work / "pytest.log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(work / "checkout")
    sys.path[:0] = [str(work / "checkout")]
    os.environ["PYTHONPATH"] = str(work / "checkout")
    faulthandler.dump_traceback_later(60, exit=True)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    unneeded = ("-pno:cacheprovider", "-pno:faulthandler", "-pno:unraisableexception")
    for file, of_file in by_file(tests).items():
        os.write(pipe, f"\n{of_file[0]}".encode())  # which an error at import stops
        options = ["-x", "-q", "--tb=line", *unneeded, file]
        code = pytest.main(options, plugins=[Watch(of_file, limit, pipe)])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return code
    return 0


def by_file(tests):
    """File -> its tests; files in the order of their first tests."""
    files = defaultdict(list)
    for test in tests:
        files[file_of(test)].append(test)
    return files


@contextlib.contextmanager
def mutated(work, mutant, number):
    """The copy of the checkout has the mutant; byte code of another is never taken for its own."""
    file = work / "checkout" / mutant.path
    source, times = file.read_bytes(), file.stat()
    file.write_bytes(mutant.applied_to(source))
    os.utime(file, (times.st_atime, times.st_mtime + number))
    try:
        yield
    finally:
        file.write_bytes(source)
        os.utime(file, (times.st_atime, times.st_mtime))


def judge(work, plan, mutant, number, tests):
    """Whether the tests kill the mutant, and which of them: an entry of the results."""
    with mutated(work, mutant, number):
        code, last = run(work, tests, plan.limit) if tests else (0, "")
    if code == 0:
        return {"key": mutant.key, "killed": False, "tests": tests}
    if code == NOT_RUN:
        raise RuntimeError(f"the tests of {mutant.key} do not start: {tests}")
    # The test must pass without the change, run alone; else the others decide.
    if last not in plan.passes_alone:
        if run(work, [last], plan.limit)[0] != 0:
            del plan.seconds[last]
            return judge(work, plan, mutant, number, [test for test in tests if test != last])
        plan.passes_alone.add(last)
    return {"key": mutant.key, "killed": True, "by": last, "code": code, "tests": tests}


# ------------------------------------------------------------------------------ results


def append(file, entry):
    with file.open("a") as lines:
        lines.write(json.dumps(entry) + "\n")


def entries(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def copy_checkout(folder):
    """The files that git knows or would add, and nothing else."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


def prepare(work):
    """Copy the checkout, record the tests and draw the mutants, each once."""
    package = work / "package"
    if not package.exists():
        copy_checkout(work / "checkout")
        shutil.copytree(work / "checkout/bdr_stan", package / "bdr_stan")
    # A run that was stopped may have left a mutant.
    shutil.copytree(package, work / "checkout", dirs_exist_ok=True)
    if not (work / "contexts" / "fast.xml").exists():
        record(work, "fast", ["tests", *SIDE_BY_SIDE])
    sampled = work / "mutants.jsonl"
    if not sampled.exists():
        plan = Plan(work)
        folders = (package / "bdr_stan" / name for name in FOLDERS)
        paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
        every = [m for path in paths for m in mutants_of(package, str(path.relative_to(package)))]
        covered = [mutant for mutant in every if plan.covering(mutant)]
        counts = {"every": len(every), "covered": len(covered)}
        (work / "counts.json").write_text(json.dumps(counts))
        for mutant in drawn(covered):
            append(sampled, mutant._asdict())
    return [Mutant(**entry) for entry in entries(sampled)]


def drawn(covered):
    """The mutants of the sample that are among `covered`, and others at random for the rest."""
    names = set(SAMPLE.read_text().splitlines())
    kept = [mutant for mutant in covered if mutant.key in names]
    others = [mutant for mutant in covered if mutant.key not in names]
    return kept + random.Random(SEED).sample(others, N_MUTANTS - len(kept))


def results(work):
    """Key of a mutant -> its entries, in the order of the runs."""
    by_key = defaultdict(list)
    for entry in entries(work / "results.jsonl"):
        by_key[entry["key"]].append(entry)
    return by_key


def killed(found):
    return any(entry["killed"] for entry in found)


def run_first(work, mutants):
    """Each mutant against its likeliest tests; the survivors against more of them."""
    plan, file = Plan(work), work / "results.jsonl"
    for stage, budget in ((1, FIRST), (2, MORE)):
        done = results(work)
        for number, mutant in enumerate(mutants, 1):
            before = done[mutant.key]
            if killed(before) or any(entry["stage"] == stage for entry in before):
                continue
            ran = [test for entry in before for test in entry["tests"]]
            entry = judge(work, plan, mutant, number, plan.chosen(mutant, budget, ran))
            append(file, {**entry, "stage": stage})
            if number % 50 == 0:
                print(f"stage {stage}: {number} of {len(mutants)} mutants", flush=True)


def explanations():
    """Key of a mutant -> why no test kills it, with "= " before that of an equivalent one."""
    return {
        entry["key"]: EQUIVALENT * entry.get("equivalent", False) + entry["reason"]
        for entry in json.loads(EXPLAINED.read_text())
    }


def run_again(work, mutants, files):
    """Survivors that are not explained against test files as they are now in the checkout."""
    shutil.copytree(ROOT / "tests", work / "checkout/tests", dirs_exist_ok=True)
    for suffix in ("xml", "coverage"):
        (work / "contexts" / f"again.{suffix}").unlink(missing_ok=True)
    record(work, "again", files)
    plan, done, explained = Plan(work), results(work), explanations()
    others = {test for test in plan.seconds if file_of(test) not in files}
    for number, mutant in enumerate(mutants, 1):
        if killed(done[mutant.key]) or mutant.key in explained:
            continue
        tests = plan.chosen(mutant, MORE, others)
        if tests:
            entry = judge(work, plan, mutant, number, tests)
            append(work / "results.jsonl", {**entry, "stage": 3})


# -------------------------------------------------------------------------------- page


def page(work, mutants):
    """Scores by folder, and the survivors with what is known of them."""
    explained = explanations()
    done, counts = results(work), json.loads((work / "counts.json").read_text())
    kinds = defaultdict(Counter)
    survivors = defaultdict(list)
    for mutant in mutants:
        found = done[mutant.key]
        folder = mutant.path.split("/")[1]
        survives = not killed(found)
        for name in (folder, "all"):
            kinds[name]["mutants"] += 1
            kinds[name]["first"] += killed(entry for entry in found if entry["stage"] == 1)
            kinds[name]["killed"] += not survives
            kinds[name]["explained"] += survives and mutant.key in explained
        if survives:
            reason = explained.get(mutant.key, "**not explained**")
            survivors[mutant.path].append((mutant, reason))
    lines = [
        (
            f"`{name}`" if name != "all" else "all",
            count["mutants"],
            *(count["first"], f"{count['first'] / count['mutants']:.1%}"),
            *(count["killed"], f"{count['killed'] / count['mutants']:.1%}"),
            count["mutants"] - count["killed"],
            count["explained"],
        )
        for name, count in ((name, kinds[name]) for name in (*FOLDERS, "all"))
    ]
    heads = (
        *("folder", "mutants", f"killed in {FIRST} s", "share", "killed", "share"),
        *("survive", "explained"),
    )
    text = INTRODUCTION.format(FIRST=FIRST, MORE=MORE, **shares(mutants, survivors), **counts)
    sections = [
        f"### `{path}`\n\n"
        + report.rows(
            ("line", "function", "change", "why it survives"),
            [
                (mutant.line, mutant.function and f"`{mutant.function}`", change(mutant), reason)
                for mutant, reason in of_path
            ],
        )
        for path, of_path in sorted(survivors.items())
    ]
    return (
        "\n\n".join([text.strip(), report.rows(heads, lines), SURVIVORS.strip(), *sections]) + "\n"
    )


def shares(mutants, survivors):
    """Numbers and shares of the page's introduction."""
    n, explained = len(mutants), Counter(reason[:2] for _, reason in chain(*survivors.values()))
    survive = explained.total()
    left, equivalent = explained["**"], explained[EQUIVALENT]
    others = n - equivalent
    by_one = sum(moves_a_number(mutant) for mutant in mutants)
    by_one_survive = sum(moves_a_number(mutant) for mutant, _ in chain(*survivors.values()))
    return {
        "n": n,
        "survive": survive,
        "survive_share": survive / n,
        "explained": survive - left,
        "open": left,
        "open_share": left / n,
        "equivalent": equivalent,
        "others": others,
        "score": (n - survive) / others,
        "others_survive": (survive - equivalent) / others,
        "numbers": by_one,
        "numbers_survive": by_one_survive,
        "numbers_share": by_one_survive / by_one,
        "rest": n - by_one,
        "rest_survive": survive - by_one_survive,
        "rest_share": (survive - by_one_survive) / (n - by_one),
    }


def moves_a_number(mutant):
    with contextlib.suppress(ValueError):
        return round(abs(float(mutant.old) - float(mutant.new.strip("()"))), 6) == 1
    return False


def change(mutant):
    """Old and new text in code spans that a table takes."""
    new = mutant.new[1:-1] if mutant.new.startswith("(") else mutant.new
    return " to ".join(f"`{text}`".replace("|", r"\|") for text in (mutant.old, new))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of copy and results")
    parser.add_argument("--again", nargs="+", help="test files to run on the survivors")
    parser.add_argument("--output", type=Path, help="folder of the page")
    args = parser.parse_args()
    work = args.work.resolve()
    if work.is_relative_to(ROOT):
        parser.error(f"--work {args.work} is in the checkout, which is copied there: name another")
    if args.output:
        mutants = [Mutant(**entry) for entry in entries(work / "mutants.jsonl")]
        report.write(args.output, "mutants.md", page(work, mutants))
        return
    for module in WARM.split():
        __import__(module)
    gc.freeze()
    mutants = prepare(work)
    if args.again:
        run_again(work, mutants, args.again)
    else:
        run_first(work, mutants)


if __name__ == "__main__":
    main()
