"""Every public name is documented and typed."""

import inspect

import pytest
from builders.public_names import public_objects


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


OBJECTS = public_objects()
FUNCTIONS = {
    f"{function.__module__}.{function.__qualname__}": (function, doc)
    for each in OBJECTS.values()
    for function, doc in functions_of(each)
}


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
