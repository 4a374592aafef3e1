"""The messages of errors and warnings that the code has, with … for what changes in them."""

import ast

_CALLS = "warn", "require"  # functions that take a message first


def messages(package):
    """Texts of what is raised or warned of in the Python files of a folder."""
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                found.add(_text(node.exc.args[:1]))
            elif isinstance(node, ast.Call) and getattr(node.func, "id", None) in _CALLS:
                found.add(_text(node.args[:1]))
    return found - {None}


def _text(arguments):
    match arguments:
        case [ast.Constant(value=str(text))]:
            return text
        case [ast.JoinedStr(values=parts)]:
            return "".join(p.value if isinstance(p, ast.Constant) else "…" for p in parts)
    return None
