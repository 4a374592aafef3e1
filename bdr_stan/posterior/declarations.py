"""What a Stan program declares: names in its blocks."""

import re

from bdr_stan.cmdstan.programs import resolved_text
from bdr_stan.types import PathName

_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"', re.DOTALL)  # comments and texts
_DECLARED = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?:;|=[^;]*;)")
_LOCAL = re.compile(r"\{[^{}]*\}")


def declared(program: PathName, block: str) -> list[str]:
    """Names that a block, for example "data", declares at its top level, in order."""
    return declared_in(resolved_text(program), block)


def declared_in(text: str, block: str) -> list[str]:
    """The same of the text of a program without includes."""
    text = _code(text)
    first, end = block_of(text, block)
    text = re.sub(r"<[^<>;]*>|\[[^\[\];]*\]", " ", text[first:end])  # bounds and sizes
    while _LOCAL.search(text):
        text = _LOCAL.sub(";", text)
    return [n for names in _DECLARED.findall(text) for n in re.split(r"\s*,\s*", names)]


def unread_parameters(program: PathName) -> list[str]:
    """Parameters that a program declares and never names again."""
    code = _code(resolved_text(program))
    names = declared(program, "parameters")
    return [name for name in names if len(re.findall(rf"\b{name}\b", code)) == 1]


def block_of(text: str, name: str) -> tuple[int, int]:
    """Start and end of a block's content in a program's text; (0, 0) without one."""
    code = _code(text)
    words = r"\s+".join(name.split())
    for match in re.finditer(rf"\b(transformed\s+)?{words}\s*\{{", code):
        if match[1] is None:
            end, depth = match.end(), 1
            while depth and end < len(code):
                depth += {"{": 1, "}": -1}.get(code[end], 0)
                end += 1
            return match.end(), end - 1
    return 0, 0


def _code(text):
    """The text with spaces in the places of comments and strings."""
    return _NO_CODE.sub(lambda match: " " * len(match.group()), text)
