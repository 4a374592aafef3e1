"""A program's data as CmdStan's JSON file."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson


def write_data(path: Path, data: dict[str, Any]) -> None:
    """Write a program's data, a dict of numbers, arrays and lists, to a file.

    The same numbers as from CmdStanPy's own writer, which needs minutes for hundreds of megabytes
    but also writes values that are not finite.
    """
    arrays = {name: np.asarray(values, order="C") for name, values in data.items()}
    if not all(np.all(np.isfinite(values)) for values in arrays.values()):
        import cmdstanpy

        cmdstanpy.write_stan_json(str(path), data)
        return
    with path.open("wb") as file:
        for k, (name, values) in enumerate(arrays.items()):
            value = values if values.ndim else values.item()
            file.write((b"," if k else b"{") + orjson.dumps(name) + b":")
            file.write(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
        file.write(b"}" if arrays else b"{}")
