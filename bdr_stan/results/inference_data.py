"""Draws as one ArviZ object with named dimensions.

The one place that knows which ArviZ is installed, 0.x (``InferenceData``) or 1.x
(``xarray.DataTree``).
"""

import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bdr_stan.types import Array, ArrayLike

if TYPE_CHECKING:
    import xarray as xr

Groups: TypeAlias = dict[str, "xr.Dataset"]
InferenceData: TypeAlias = Any  # arviz.InferenceData (0.x) or xarray.DataTree (1.x)


def arviz() -> ModuleType:
    """The module ArviZ, imported late (it takes seconds), without its notice about version 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def arviz_is_1() -> bool:
    """Whether ArviZ is of version 1 or later, which renamed functions and fields."""
    return not arviz().__version__.startswith("0.")


def dataset(
    variables: Mapping[str, ArrayLike],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence | Array] | None = None,
    *,
    attrs: Mapping[str, str | float] | None = None,
    sample: bool = True,
) -> "xr.Dataset":
    """Arrays with named dimensions: one group.

    Parameters
    ----------
    variables : dict, name -> array, shape (chain, draw, ...) if `sample`, else (...)
    dims : dict, name -> list of dimension names, without chain and draw; scalars may be absent
    coords : dict, dimension -> labels; dimensions that no variable has are left out
    attrs : dict, str -> str or number
    sample : bool, whether the arrays start with the axes chain and draw

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    ValueError : an array has another number of axes than it has names.
    """
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
    """Labels as an array that NetCDF can keep: text, numbers or dates, not mixed objects."""
    labels = np.asarray(values)
    if labels.ndim != 1 or labels.dtype.kind in "OT":
        return np.array([str(label) for label in values])
    return labels


def build(groups: Groups) -> InferenceData:
    """Groups to the object of the installed ArviZ.

    Parameters
    ----------
    groups : dict, group name -> xarray.Dataset

    Returns
    -------
    arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
    """
    if not arviz_is_1():
        return arviz().InferenceData(**groups)
    from xarray import DataTree

    return DataTree.from_dict(groups)


def groups_of(idata: InferenceData | Groups) -> Groups:
    """The groups of an ArviZ object of either version.

    Parameters
    ----------
    idata : arviz.InferenceData, xarray.DataTree, or the groups themselves

    Returns
    -------
    dict, group name -> xarray.Dataset
    """
    if isinstance(idata, dict):
        return idata
    if hasattr(idata, "children"):
        return {name: node.to_dataset() for name, node in idata.children.items()}
    return {name: idata[name] for name in idata.groups()}
