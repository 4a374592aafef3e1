"""Every public name is documented and typed, with all its parameters."""

import inspect
from importlib import import_module

import pytest
from builders.described import class_docstring, undescribed
from builders.public_names import inner_names, names_in_modules, public_objects


def functions_of(each):
    """Function and docstring: of a function, or of the public methods of a class of ours."""
    if inspect.isfunction(each):
        yield each, inspect.getdoc(each)
    elif inspect.isclass(each):
        for attribute, value in inspect.getmembers_static(each):
            for inside in ("fget", "__func__", "func", "fn"):  # of properties, class methods, ..
                value = getattr(value, inside, None) or value
            ours = inspect.isfunction(value) and value.__module__.startswith("bdr_stan")
            if ours and attribute == "__init__":
                yield value, inspect.getdoc(each)
            elif ours and not attribute.startswith("_") and not value.__name__.startswith("_"):
                yield value, inspect.getdoc(getattr(each, attribute))  # it may be a base's


def object_named(name):
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


OBJECTS = public_objects()
FUNCTIONS = {
    f"{function.__module__}.{function.__qualname__}": (function, doc)
    for each in OBJECTS.values()
    for function, doc in functions_of(each)
}
WITH_MODULES = OBJECTS | {name: object_named(name) for name in names_in_modules()}
INNER = inner_names()


def parameters_without_description(each):
    """Of a function, or of a class and the methods that its page shows: name -> parameters."""
    if not inspect.isclass(each):
        return {each.__name__: undescribed(None, each, inspect.getdoc(each))}
    makes = not getattr(each, "_is_protocol", False) and not issubclass(each, Exception)
    missing = {each.__name__: undescribed(each, each, class_docstring(each)) if makes else []}
    for function, doc in functions_of(each):
        name = function.__name__
        if name != "__init__" and name not in INNER:
            missing[f"{each.__name__}.{name}"] = undescribed(each, function, doc)
    return missing


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, each in WITH_MODULES.items()
        if inspect.isfunction(each) or (inspect.isclass(each) and "bdr_stan" in each.__module__)
    ],
)
def test_every_parameter_is_described(name):
    missing = parameters_without_description(WITH_MODULES[name])
    assert not any(missing.values()), missing


@pytest.mark.parametrize("name", [n for n, each in OBJECTS.items() if callable(each)])
def test_public_functions_and_classes_have_docstrings(name):
    assert inspect.getdoc(OBJECTS[name]), f"{name} has no docstring"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_and_methods_have_docstrings_and_type_hints(name):
    function, doc = FUNCTIONS[name]
    assert doc, f"{name} has no docstring"
    signature = inspect.signature(function)
    bare = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
    ]
    assert not bare, f"{name} has no type hints for {', '.join(bare)}"
    returns = signature.return_annotation is not signature.empty
    assert returns or function.__name__ == "__init__", f"{name} does not say what it returns"
