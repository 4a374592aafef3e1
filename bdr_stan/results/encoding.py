"""Parameters and settings as JSON and arrays, and back."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.bags import TableColumns
from bdr_stan.kernels import Kernel, kernel_config, kernel_from_config
from bdr_stan.types import Array

# Types that JSON lacks, each stored as a dict with this key.
_ARRAY, _TUPLE, _DICT, _KERNEL, _COLUMNS, _TABLE, _ESTIMATOR = (
    f"bdr_stan {kind}"
    for kind in ("array", "tuple", "dict", "kernel", "columns", "table", "estimator")
)


def encode(value: Any, arrays: dict[str, Array], name: str) -> Any:
    """A value as JSON; its numeric arrays are added to `arrays`. `name` is for messages."""

    def each(values):
        return [encode(v, arrays, name) for v in values]

    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            return {_ARRAY: each(value.tolist()), "dtype": "U" if value.dtype.kind == "U" else "O"}
        key = f"array_{len(arrays)}"
        arrays[key] = value
        return {_ARRAY: key}
    if isinstance(value, list):
        return each(value)
    if isinstance(value, tuple):
        return {_TUPLE: each(value)}
    if isinstance(value, Mapping):
        return {_DICT: [each(item) for item in value.items()]}
    if isinstance(value, Kernel):
        return {_KERNEL: kernel_config(value)}
    if isinstance(value, TableColumns):
        return {_COLUMNS: value.config()}
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        columns = {column: value[column].tolist() for column in value.columns}
        return {_TABLE: encode(columns, arrays, name), "index": each(value.index.tolist())}
    if hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        return {_ESTIMATOR: type(value).__name__, "params": encode(params, arrays, name)}
    raise TypeError(
        f"a file cannot keep {name}={value!r}: give a number, text, array, kernel or list of such, "
        "or pickle the estimator"
    )


def decode(value: Any, arrays: Mapping[str, Array], estimator: Callable[..., Any]) -> Any:
    """The value that `encode` received; `estimator(class_name, **params)` makes estimators."""

    def each(values):
        return [decode(v, arrays, estimator) for v in values]

    if isinstance(value, list):
        return each(value)
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        content = value[_ARRAY]
        if isinstance(content, str):
            return arrays[content]
        return np.array(each(content), dtype=None if value["dtype"] == "U" else object)
    if _TUPLE in value:
        return tuple(each(value[_TUPLE]))
    if _DICT in value:
        return dict(map(tuple, map(each, value[_DICT])))
    if _KERNEL in value:
        return kernel_from_config(value[_KERNEL])
    if _COLUMNS in value:
        return TableColumns.from_config(value[_COLUMNS])
    if _TABLE in value:
        import pandas as pd

        columns = decode(value[_TABLE], arrays, estimator)
        return pd.DataFrame(columns, index=each(value["index"]))
    return estimator(value[_ESTIMATOR], **decode(value["params"], arrays, estimator))
