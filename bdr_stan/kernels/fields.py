"""Fields: a function that is a sum of parts, each with its own features.

    f(x) = f0 + psi_1(x)' w_1 + psi_2(x)' w_2 + ...

A sum of kernels is a sum of such fields.
"""

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import count
from operator import add

import numpy as np

from bdr_stan.kernels.feature_maps import (
    ConcatenatedFeatures,
    FeatureMap,
    NystromFeatures,
    scale_rows,
)
from bdr_stan.kernels.hilbert_space import (
    HilbertProduct,
    HilbertProductFeatures,
    HilbertSpace,
    HilbertSpaceFeatures,
)
from bdr_stan.kernels.inner_products import LinearEffects
from bdr_stan.kernels.kernel import Kernel
from bdr_stan.kernels.normal_scores import NormalScores
from bdr_stan.kernels.shapes import Matern32
from bdr_stan.kernels.summands import fields_of
from bdr_stan.types import Array, ArrayLike

# In more columns features capture almost nothing of a kernel, and scales learned with the features
# do not apply to the rest.
COVERED_COLUMNS = 3


def map_kernel(
    covariates: Sequence[str | int],
    space: Sequence[str | int] = ("x", "y"),
    *,
    n_functions: int = 300,
) -> Kernel:
    """Kernel for maps: lines and smooth curves in covariates, and a Matern 3/2 field in space.

    Parameters
    ----------
    covariates : sequence of names or indices of columns of numbers
        Each has a straight line and, on its normal scores, a smooth deviation from it.
    space : sequence of names or indices, default ("x", "y")
        Columns of the place.
    n_functions : int, default 300
        Basis functions of the field in space, see `HilbertSpace`.

    Returns
    -------
    Kernel
        A sum, to which more kernels may be added.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Bags
    >>> from bdr_stan.kernels import field_names, map_kernel, resolve_kernel
    >>> pixels = np.random.default_rng(0).uniform(size=(50, 3))
    >>> bags = Bags(pixels, [0, 20, 50], features=["x", "y", "rain"])
    >>> kernel = resolve_kernel(map_kernel(["rain"]), "scaled", bags)
    >>> field_names(kernel, bags.features, bags.n_features)
    ['LinearEffects(rain)', 'NormalScores(rain)', 'HilbertSpace(x, y)']
    """
    lines: Kernel = LinearEffects(columns=covariates)
    curves = [NormalScores(columns=[column]) for column in covariates]
    field = HilbertSpace(Matern32(columns=space), n_functions=n_functions)
    return reduce(add, [*curves, field], lines)


def field_names(kernel: Kernel, names: Sequence[str] | None, n_columns: int) -> list[str]:
    """Names of a resolved kernel's fields, all different: kind and columns, of `names` if any."""
    called = []
    for field in fields_of(kernel):
        seen = field.columns_seen(n_columns)
        columns = ", ".join(names[k] if names else str(k) for k in seen)
        called.append(f"{type(field).__name__}({'' if len(seen) == n_columns else columns})")
    counts = Counter(called)
    nth = {name: count(1) for name in counts}
    return [name if counts[name] == 1 else f"{name} {next(nth[name])}" for name in called]


def has_landmarks(field: Kernel) -> bool:
    """Whether the features of a field need landmarks."""
    return not isinstance(field, (LinearEffects, HilbertSpace, HilbertProduct))


class LinearFeatures(FeatureMap):
    """psi of a resolved `LinearEffects` kernel: its columns, standardised."""

    def __init__(self, kernel: LinearEffects, n_inputs: int):
        self.kernel, self.n_inputs = kernel, n_inputs
        self.n_columns = len(kernel.columns_seen(n_inputs))

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
        np.multiply(self.kernel.standardised(points), np.sqrt(self.kernel.variance), out=out)
        scale_rows(out, log_scale)


class FieldFeatures(ConcatenatedFeatures):
    """Features of the fields of a resolved kernel, side by side.

    A field's `landmarks`, rows of (d, p), have numbers in exactly its columns and NaN in the others
    or, if there are none, numbers in all columns; ValueError for a field without landmarks.
    `fields` are kernels, `blocks` slices, the features of each field.
    """

    def __init__(self, kernel: Kernel, landmarks: ArrayLike):
        self.kernel, self.landmarks = kernel, np.asarray(landmarks, np.float64)
        self.fields = fields_of(kernel)
        super().__init__([field_features(field, self.landmarks) for field in self.fields])

    @property
    def projection(self) -> Array | None:
        """Weights of the kernel at the landmarks of one field per weight of a feature."""
        only = self.maps[0] if len(self.maps) == 1 else None
        if isinstance(only, NystromFeatures) and only.n_columns == len(self.landmarks):
            return only.projection
        return None

    def residual_variance(self, points: Array, rows: Array) -> Array:
        """k(x, x) - |psi(x)|^2, shape (n,), >= 0; see `residual_variance_of_fields`."""
        return np.sum(self.residual_variance_of_fields(points, rows), axis=0)

    def residual_variance_of_fields(self, points: Array, rows: Array) -> Array:
        """Part of k(x, x) outside the features, for each field; shape (number of fields, n).

        For points, shape (n, p), and `rows`, their features, shape (n, n_columns). 0 for linear
        effects, which have exact features, and for fields in more than three columns, where it is
        unknown.
        """
        residual_variance = np.zeros((len(self.fields), len(points)))
        for k, (field, block) in enumerate(zip(self.fields, self.blocks, strict=True)):
            few_columns = len(field.columns_seen(self.n_inputs)) <= COVERED_COLUMNS
            if few_columns and not isinstance(field, LinearEffects):
                covered_variance = np.einsum("ij,ij->i", rows[:, block], rows[:, block])
                residual_variance[k] = np.maximum(field.diagonal(points) - covered_variance, 0)
        return residual_variance


def field_features(field: Kernel, landmarks: Array) -> FeatureMap:
    """Features of one field of a kernel; for landmarks see `FieldFeatures`."""
    p = landmarks.shape[1]
    if isinstance(field, LinearEffects):
        return LinearFeatures(field, p)
    if isinstance(field, HilbertSpace):
        return HilbertSpaceFeatures(field, p)
    if isinstance(field, HilbertProduct):
        return HilbertProductFeatures(field, p)
    return NystromFeatures(field, landmarks_of_field(field, landmarks))


def landmarks_of_field(field: Kernel, landmarks: Array) -> Array:
    """Landmarks of a field among all fields' landmarks, shape (k, p), 0 in columns it ignores."""
    p = landmarks.shape[1]
    columns = list(field.columns_seen(p))
    has_number = np.isfinite(landmarks)
    in_field = np.isin(np.arange(p), columns)
    chosen = np.all(has_number == in_field, axis=1)
    if not chosen.any():
        chosen = has_number.all(axis=1)
    if not chosen.any():
        raise ValueError(
            f"no landmark has numbers in the columns {columns} of {field!r}: give some that have "
            "all columns, or only those columns"
        )
    if in_field.all():
        return landmarks[chosen]
    values = landmarks[chosen][:, columns]
    first = np.sort(np.unique(values, axis=0, return_index=True)[1])  # each once, in their order
    in_all_columns = np.zeros((len(first), p))
    in_all_columns[:, columns] = values[first]
    return in_all_columns
