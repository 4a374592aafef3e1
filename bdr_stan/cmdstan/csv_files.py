"""Numbers of Stan's CSV files, read without threads.

CmdStanPy reads them with polars if it is installed. Its threads do not survive `os.fork`, so a
process forked after a fit, for example by `multiprocessing.Pool`, would wait for them forever.
"""

import numpy as np
from numpy.typing import NDArray


def numbers(csv_bytes_list: list[bytes]) -> NDArray[np.float64]:
    """Lines of numbers with commas between them as a matrix; shape (0, 0) without lines."""
    if not csv_bytes_list:
        return np.empty((0, 0))
    return np.loadtxt(csv_bytes_list, delimiter=",", ndmin=2)


def read_without_polars() -> None:
    """Make CmdStanPy read CSV files with `numbers`, which returns the same values."""
    from cmdstanpy.utils import stancsv

    stancsv.csv_bytes_list_to_numpy = numbers
