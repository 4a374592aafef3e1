"""Executables of the stock programs that came with the package, as platform wheels bring them.

One folder holds them and the library they share, which they find beside themselves. Each is
known by the digest of all it is made of, so that an edited program or another flag finds none.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bdr_stan.cmdstan.cache import digest

_MANIFEST = "programs.json"


class Prebuilt(NamedTuple):
    """An executable that came with the package, and what stanc tells of its program."""

    executable: Path
    about: dict[str, Any]


def prebuilt_directory() -> Path:
    """Folder of the executables; it is there in platform wheels alone."""
    return Path(__file__).parents[1] / "prebuilt"


def find_prebuilt(name: str, key: str) -> Prebuilt | None:
    """The executable of a program, None where there is none of this digest or it is damaged."""
    folder = prebuilt_directory()
    try:
        entry = json.loads((folder / _MANIFEST).read_text())[name]
        whole = entry["key"] == key and entry["sha256"] == digest(folder / name)
        return Prebuilt(folder / name, entry["about"]) if whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_manifest(folder: Path, programs: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Write down which executables lie in a folder.

    Parameters
    ----------
    folder : path
    programs : dict, name -> (digest of all that the executable is made of, what stanc tells)
    """
    manifest = {
        name: {"key": key, "sha256": digest(folder / name), "about": about}
        for name, (key, about) in programs.items()
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1))
