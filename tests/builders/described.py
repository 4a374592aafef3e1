"""Which parameters of a public function its docstring describes."""

import inspect
import re

import bdr_stan

_SECTIONS = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^([\w*][\w*, ]*?)(?: : ([^\n]*))?\n((?:(?:[ ]+[^\n]*)?\n)*)", re.MULTILINE)
# Words of a type, a shape or a default, which alone do not say what a parameter means.
_OF_TYPES = set(
    re.findall(
        r"\w+",
        "an and any array arrays bool callable dict false float floats int integer integers list "
        "lists none number numbers object of optional or sequence shape shapes str string strings "
        "text texts the true tuple",
    )
)


def undescribed(owner, function, doc):
    """Parameters that neither `doc` describes nor the docstrings that it refers to.

    `owner` is the class of a method, whose other methods it may refer to by their names, or None.
    """
    known = _described(doc)
    for name in re.findall(r"`([A-Za-z_][\w.]*)`", doc):
        known |= _described(_docstring(owner, name))
    signature = inspect.signature(function)
    return [name for name in signature.parameters if name not in {"self", "cls"} | known]


def class_docstring(cls):
    """As the API pages show it: with the parameters of the nearest base where it has none."""
    own = inspect.getdoc(cls)
    bases = (base for base in cls.__mro__[1:] if base.__module__.startswith("bdr_stan"))
    inherited = [doc for base in bases if "Parameters" in _parts(doc := inspect.getdoc(base))[1]]
    if "Parameters" in _parts(own)[1] or not inherited:
        return own
    return f"{own}\n\nParameters\n----------\n{_parts(inherited[0])[1]['Parameters']}"


def _described(doc):
    """Names with a description in a docstring.

    In a section Parameters (Attributes of a dataclass) there are words besides those of the type;
    names in backticks are described by the text, and where there is no section, words of the text.
    """
    text, sections = _parts(doc)
    listed = sections.get("Parameters", "") + sections.get("Attributes", "")
    if not listed:
        return set(re.findall(r"\w+", text))
    return set(re.findall(r"`\*{0,2}(\w+)`", text + listed)) | {
        name.strip().strip("*")
        for names, head, body in _ENTRY.findall(listed + "\n")
        if body.strip() or _says_more_than_a_type(head)
        for name in names.split(",")
    }


def _parts(doc):
    """Text of a docstring before its sections, and these."""
    text, *rest = _SECTIONS.split(doc or "")
    return text, dict(zip(rest[::2], rest[1::2]))


def _says_more_than_a_type(head):
    if "`" in head:  # a link to what describes it
        return True
    head = re.sub(r"\([^)]*\)|\{[^}]*\}|default [^,;]*", "", head)
    return bool(set(re.findall(r"[a-z]{2,}", head.lower())) - _OF_TYPES)


def _docstring(owner, name):
    """Docstring of a name of the owner, of the package, or ``Class.method`` of it."""
    first, *rest = name.removeprefix("bdr_stan.").split(".")
    found = getattr(owner, name, None) or _in_package(first)
    for each in rest:
        found = getattr(found, each, None)
    return inspect.getdoc(found) if callable(found) else ""


def _in_package(name):
    places = (bdr_stan, bdr_stan.kernels, bdr_stan.metrics, bdr_stan.bags, bdr_stan.maps)
    return next((vars(place)[name] for place in places if name in vars(place)), None) or getattr(
        bdr_stan, name, None
    )
