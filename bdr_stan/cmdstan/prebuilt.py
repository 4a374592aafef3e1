"""Executables of the stock programs that platform wheels include.

One folder has them and the library they share. Each is identified by the digest of everything it is
made from, so that an edited program or another flag matches none.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bdr_stan.cmdstan.cache import digest

_MANIFEST = "programs.json"


class Prebuilt(NamedTuple):
    """An executable included in the package, and stanc's information about its program."""

    executable: Path
    about: dict[str, Any]


def prebuilt_directory() -> Path:
    """Folder of the executables; only platform wheels have it."""
    return Path(__file__).parents[1] / "prebuilt"


def find_prebuilt(name: str, key: str) -> Prebuilt | None:
    """The executable of a program, None where none has this digest or it is damaged."""
    folder = prebuilt_directory()
    try:
        entry = json.loads((folder / _MANIFEST).read_text())[name]
        whole = entry["key"] == key and entry["sha256"] == digest(folder / name)
        return Prebuilt(folder / name, entry["about"]) if whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_manifest(folder: Path, programs: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Record the executables in a folder: name -> (key, stanc's information).

    Without the paths of included files, which are those of the machine that compiled them.
    """
    manifest = {
        name: {
            "key": key,
            "sha256": digest(folder / name),
            "about": {what: value for what, value in about.items() if what != "included_files"},
        }
        for name, (key, about) in programs.items()
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1))
