"""Parameters of estimators: fields of their classes, inherited and documented once."""

import inspect
import re
import sys
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

from bdr_stan.arguments import answered

T = TypeVar("T")

_INHERITED = ("Parameters", "Attributes")  # sections that include the entries of base classes
_HEADING = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)


@dataclass_transform(eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Make the fields of a class and of its bases the parameters of its constructor.

    scikit-learn reads the parameters from the signature of the constructor. The sections
    Parameters and Attributes of the docstring gain the entries of the base classes.
    """
    cls = dataclass(eq=False, repr=False)(cls)
    cls.__init__ = answered(cls.__init__)  # type: ignore[method-assign]
    if sys.flags.optimize > 1:  # which strips docstrings
        return cls
    order = list(inspect.signature(cls).parameters)
    docs = [_sections(c.__dict__["__doc__"]) for c in cls.__mro__ if c.__dict__.get("__doc__")]
    doc = docs[0]
    for name in _INHERITED:
        entries: dict[str, str] = {}
        for sections in docs:
            entries = {**_entries(sections.get(name, "")), **entries}
        if name == "Parameters":
            entries = {each: entries[each] for each in order}
        doc[name] = "\n".join(entries.values())
    cls.__doc__ = "\n\n".join(
        [doc.pop(""), *(f"{name}\n{'-' * len(name)}\n{text}" for name, text in doc.items() if text)]
    )
    return cls


def _sections(doc: str) -> dict[str, str]:
    """Text of each section of a docstring by its heading, the summary under ""."""
    summary, *rest = _HEADING.split(inspect.cleandoc(doc))
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    first = {"": summary, "Parameters": "", "Attributes": ""}
    return {name: text.strip() for name, text in (first | sections).items()}


def _entries(section: str) -> dict[str, str]:
    """Each entry of a section by the name of its parameter."""
    return {text.split(" ")[0].rstrip(","): text for text in re.split(r"\n(?=\S)", section) if text}
