"""CmdStan's files: a program's data as JSON, and numbers of its CSV files, read without threads.

CmdStanPy reads CSV files with polars if it is installed. Its threads do not survive `os.fork`, so a
process forked after a fit, for example by `multiprocessing.Pool`, would wait for them forever.
"""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray


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


def numbers(csv_bytes_list: list[bytes]) -> NDArray[np.float64]:
    """Lines of numbers with commas between them as a matrix; shape (0, 0) without lines."""
    if not csv_bytes_list:
        return np.empty((0, 0))
    return np.loadtxt(csv_bytes_list, delimiter=",", ndmin=2)


def read_without_polars() -> None:
    """Make CmdStanPy read CSV files with `numbers`, which returns the same values."""
    from cmdstanpy.utils import stancsv

    stancsv.csv_bytes_list_to_numpy = numbers
