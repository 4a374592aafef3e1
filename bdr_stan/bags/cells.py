"""Features of cells in an AnnData object as points of bags: an embedding, a layer or genes.

Backed data are read in chunks of rows and sparse data made dense chunk by chunk: only the points
themselves are ever completely in memory.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bdr_stan.bags.checks import near_names
from bdr_stan.bags.column_roles import ColumnRoles
from bdr_stan.extras import require
from bdr_stan.types import Array

_CHUNK_BYTES = 1 << 26  # of float64 values read at a time: far less than most embeddings


def check_anndata(adata: Any, roles: ColumnRoles) -> None:
    """Raise unless this is an AnnData object with cells and, in obs, the columns of the roles."""
    require("reading cells needs anndata: pip install 'bdr-stan[anndata]'", "anndata")
    from anndata import AnnData

    if not isinstance(adata, AnnData):
        raise TypeError(
            f"adata must be an AnnData object, found a {type(adata).__name__}: read a file by "
            "anndata.read_h5ad(path, backed='r')"
        )
    if adata.n_obs == 0:
        raise ValueError("adata has no cells: there are no bags")
    columns = list(adata.obs.columns)
    for name in roles.given:
        if name not in columns:
            raise ValueError(f"adata.obs has no column {name!r}: {near_names(name, columns)}")
        if columns.count(name) > 1:
            raise ValueError(f"adata.obs has {columns.count(name)} columns {name!r}: rename them")


def cell_features(
    adata: Any, features: str | Sequence[str]
) -> tuple[tuple[str, str | None], Array | None, list[str]]:
    """Location, ("X", None) or (part, key), column indices, None for all, and names of features."""
    if not isinstance(features, str):
        columns = _variables(adata, list(features))
        return ("X", None), columns, list(features)
    parts = [part for part in ("obsm", "layers") if features in getattr(adata, part)]
    if len(parts) == 2:
        raise ValueError(f"adata has both an obsm key and a layer {features!r}: rename one of them")
    if not parts and features != "X":
        if features in adata.var_names:
            raise ValueError(f"features must list names of variables: pass [{features!r}]")
        keys = [*adata.obsm, *adata.layers, "X"]
        raise ValueError(
            f"adata has no obsm key or layer {features!r}: {near_names(features, keys)}"
        )
    if not parts and adata.X is None:
        raise ValueError("adata.X is empty: name an obsm key or a layer in features")
    if parts != ["obsm"]:
        return (parts[0], features) if parts else ("X", None), None, list(adata.var_names)
    values = adata.obsm[features]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(
            f"adata.obsm[{features!r}] has shape {values.shape}, expected (cells, at least 1)"
        )
    columns = getattr(values, "columns", None)  # of a data frame
    numbered = [f"{features}_{k + 1}" for k in range(values.shape[1])]
    return (
        ("obsm", features),
        None,
        numbered if columns is None else [str(name) for name in columns],
    )


def _variables(adata, names):
    if not names:
        raise ValueError("features is empty: list names of variables, or name an obsm key")
    if adata.X is None:
        raise ValueError("adata.X is empty, and variables have their values there: name a layer")
    variables = adata.var_names
    for k, name in enumerate(names):
        if name not in variables:
            raise ValueError(f"adata has no variable {name!r}: {near_names(name, variables)}")
        if name in names[:k]:
            raise ValueError(f"features names the variable {name!r} twice: name each once")
        if (variables == name).sum() > 1:
            raise ValueError(
                f"several variables are called {name!r}: call adata.var_names_make_unique()"
            )
    return np.array([variables.get_loc(name) for name in names])


def cell_values(
    adata: Any,
    place: tuple[str, str | None],
    columns: Array | None,
    order: Array | None,
    *,
    chunk_bytes: int = _CHUNK_BYTES,
) -> Array:
    """Dense values of features from `cell_features`, shape (n_cells, p), rows in `order`."""
    part, key = place
    n = adata.n_obs
    width = adata.obsm[key].shape[1] if part == "obsm" else adata.n_vars
    if columns is not None and not adata.isbacked:
        width = len(columns)  # a file is read in complete rows
    step = max(1, chunk_bytes // (8 * width))
    at_once = adata.isbacked and adata.is_view  # anndata makes no view of a view of a file
    row = np.arange(n) if order is None else np.argsort(order)  # of each cell among the points
    out: Array | None = None
    for start in range(0, n, n if at_once else step):
        cells = adata if at_once else adata[start : start + step]
        block = _dense(cells.X if key is None else getattr(cells, part)[key], columns)
        if block.dtype.kind not in "fiub":
            name = "adata.X" if key is None else f"adata.{part}[{key!r}]"
            raise TypeError(f"{name} holds {block.dtype}, not numbers")
        if out is None:
            out = np.empty((n, block.shape[1]), np.float32 if block.dtype == "f4" else np.float64)
        out[row[start : start + len(block)]] = block
    assert out is not None  # there are cells
    return out


def _dense(block, columns):
    """Selected columns of a block of rows, as an array."""
    if hasattr(block, "to_numpy"):  # a data frame
        block = block.to_numpy()
    block = block if columns is None else block[:, columns]
    return block.toarray() if hasattr(block, "toarray") else np.asarray(block)
