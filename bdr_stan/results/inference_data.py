"""Draws as an ArviZ object: ``InferenceData`` (ArviZ 0.x) or ``xarray.DataTree`` (1.x)."""

import os
import warnings
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np

from bdr_stan.types import Array, ArrayLike, Dataset

Groups: TypeAlias = dict[str, "Dataset"]
InferenceData: TypeAlias = Any  # arviz.InferenceData (0.x) or xarray.DataTree (1.x)


def arviz() -> ModuleType:
    """The module ArviZ, imported late (it is slow), without its notice about version 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import arviz
        except OSError:  # 0.x keeps a note in the user's cache folder, which may be read-only
            with TemporaryDirectory() as folder, patch.dict(os.environ, XDG_CACHE_HOME=folder):
                import arviz
    return arviz


def arviz_is_1() -> bool:
    """Whether ArviZ is version 1 or later, which renamed functions and fields."""
    return not arviz().__version__.startswith("0.")


def dataset(
    variables: Mapping[str, ArrayLike],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence | Array] | None = None,
    *,
    attrs: Mapping[str, str | float] | None = None,
    sample: bool = True,
) -> "Dataset":
    """Arrays as one group; `dims` names their axes after chain and draw (if `sample`)."""
    import xarray as xr

    leading = ["chain", "draw"] if sample else []
    arrays: dict[str, tuple[list[str], Array]] = {}
    sizes: dict[str, int] = {}
    for name, values in variables.items():
        values = np.asarray(values)
        axes = [*leading, *dims.get(name, [])]
        if values.ndim != len(axes):
            raise ValueError(
                f"variable {name!r} has shape {values.shape}, expected axes ({', '.join(axes)})"
            )
        arrays[name] = (axes, values)
        sizes.update(zip(axes, values.shape))
    labels = {axis: np.arange(sizes[axis]) for axis in leading if axis in sizes}
    labels |= {axis: _labels(v) for axis, v in (coords or {}).items() if axis in sizes}
    return xr.Dataset(arrays, coords=labels, attrs=attrs)


def _labels(values: Sequence | Array) -> Array:
    """Coordinate labels of a type that NetCDF supports; mixed objects become text."""
    labels = np.asarray(values)
    if labels.ndim != 1 or labels.dtype.kind in "OT":
        return np.array([str(label) for label in values])
    return labels


def build(groups: Groups) -> InferenceData:
    """Groups as an object of the installed ArviZ version."""
    if not arviz_is_1():
        return arviz().InferenceData(**groups)
    from xarray import DataTree

    return DataTree.from_dict(groups)


def as_groups(idata: InferenceData | Groups) -> Groups:
    """Groups of an ArviZ object of either version, name -> xarray.Dataset."""
    if isinstance(idata, dict):
        return idata
    if hasattr(idata, "children"):
        return {name: node.to_dataset() for name, node in idata.children.items()}
    return {name: idata[name] for name in idata.groups()}
