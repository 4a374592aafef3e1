"""Every public name has an example in its docstring, and it gives what it says."""

import doctest
import inspect
import pkgutil
from importlib import import_module

import pytest

import bdr_stan

# Public modules without ``__all__``: what they define is public.
PLAIN_MODULES = {f"bdr_stan.{m}" for m in ("datasets", "metrics", "model_selection", "tuning")}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public_modules():
    inside = (import_module(f"bdr_stan.{m.name}") for m in pkgutil.iter_modules(bdr_stan.__path__))
    return [bdr_stan, *(m for m in inside if hasattr(m, "__all__") or m.__name__ in PLAIN_MODULES)]


def public_members(module):
    if hasattr(module, "__all__"):
        return [getattr(module, name) for name in module.__all__]
    ours = [(n, o) for n, o in vars(module).items() if not n.startswith("_")]
    return [o for _, o in ours if getattr(o, "__module__", None) == module.__name__]


def full_name(each):
    return f"{inspect.getmodule(each).__name__}.{each.__qualname__}"


# Classes and functions; numbers, tables of names and type aliases can hold no docstring.
PUBLIC = {
    full_name(each): each
    for module in public_modules()
    for each in public_members(module)
    if inspect.isclass(each) or inspect.isroutine(each)
}
FINDER = doctest.DocTestFinder()


def with_bases(each):
    """A class with those of ours whose methods it has; a function alone."""
    bases = each.__mro__[1:] if inspect.isclass(each) else ()
    return [each, *(base for base in bases if base.__module__.startswith("bdr_stan."))]


EXAMPLES = {
    test.name: test  # also those of methods
    for public in PUBLIC.values()
    for each in with_bases(public)
    for test in FINDER.find(each, full_name(each), globs={})
    if test.examples
}


def samples(test):
    """Whether an example asks Stan for draws, which takes seconds."""
    return any("chains=" in example.source for example in test.examples)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_an_example(name):
    assert name in EXAMPLES, f"the docstring of {name} has no section Examples with lines of >>>"


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * samples(test)) for n, test in EXAMPLES.items()],
)
def test_examples_give_what_they_say(name, tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)  # where examples write their files
    said = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(EXAMPLES[name], out=said.append).failed
    plt.close("all")
    assert not failed, "".join(said)
