"""Feature maps: from points to the features that mean embeddings average.

Embeddings, rates inside bags and kernel means accept any map.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from bdr_stan.kernels.kernel import Kernel
from bdr_stan.types import Array, ArrayLike

# Share of the mean diagonal of the landmarks' kernel matrix, added to its diagonal.
NYSTROM_JITTER = 1e-6


class FeatureMap:
    """What maps points, shape (n, p), to features, shape (n, n_columns).

    One of your own has `n_inputs`, `n_columns` and `fill`.

    Attributes
    ----------
    n_inputs : int
        p, the number of columns of the points.
    n_columns : int
        Features of a point.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.kernels import FeatureMap
    >>> class Powers(FeatureMap):
    ...     n_inputs, n_columns = 1, 2
    ...
    ...     def fill(self, points, out, log_scale):
    ...         out[:] = np.exp(np.reshape(log_scale, (-1, 1))) * points ** [1, 2]
    >>> Powers()(np.array([[2.0], [3.0]]))
    array([[2., 4.],
           [3., 9.]])
    """

    n_inputs: int
    n_columns: int

    def __call__(
        self, points: Array, out: Array | None = None, log_scale: ArrayLike = 0.0
    ) -> Array:
        """Features of points, written to `out` if it is given.

        The features of point j are multiplied by exp(log_scale[j]). Computed in float64 whatever
        the points' type.
        """
        if out is None:
            out = np.empty((len(points), self.n_columns))
        self.fill(points, out, log_scale)
        return out

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
        """Write features of points to `out`; `log_scale` as in calls."""
        raise NotImplementedError


class LandmarkFeatures(FeatureMap):
    """Values k(x, u) of a kernel at landmarks.

    Parameters
    ----------
    kernel : Kernel
        With numbers as parameters.
    landmarks : array, shape (d, p), in the units of the points

    Raises
    ------
    ValueError : a bandwidth that is not yet a number or does not fit the landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.kernels import RBF, LandmarkFeatures
    >>> features = LandmarkFeatures(RBF(1.0), landmarks=[[0.0], [1.0], [2.0]])
    >>> bag = np.array([[0.0], [1.0]])
    >>> features(bag).round(2)
    array([[1.  , 0.61, 0.14],
           [0.61, 1.  , 0.61]])
    >>> features(bag).mean(axis=0).round(2)
    array([0.8 , 0.8 , 0.37])
    """

    def __init__(self, kernel: Kernel, landmarks: ArrayLike):
        self.kernel, self.landmarks = kernel, checked_rows(landmarks, "landmarks")
        self.n_columns, self.n_inputs = self.landmarks.shape
        self._prepared = kernel.prepare(self.landmarks)

    def gram(self) -> Array:
        """Inner products of the features' representers: the kernel between landmarks, (d, d)."""
        return self.kernel(self.landmarks, self.landmarks)

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
        self.kernel.evaluate(points, self._prepared, out, log_scale)


class NystromFeatures(FeatureMap):
    """Features psi(x) = L^-1 k(u, x), K_uu = L L', so psi(x)'psi(y) is nearly k(x, y).

    Landmarks u have the shape (d, p); weights w of the features are weights ``projection @ w`` of
    the kernel there, `projection` the inverse of L'. 1e-6 of its mean diagonal is added to the
    diagonal of K_uu; ValueError if it is not positive definite.

    Source: Williams and Seeger (2001), "Using the Nystrom method to speed up kernel machines".
    """

    def __init__(self, kernel: Kernel, landmarks: ArrayLike):
        self._values = LandmarkFeatures(kernel, landmarks)
        self.kernel, self.landmarks = kernel, self._values.landmarks
        self.n_columns, self.n_inputs = self._values.n_columns, self._values.n_inputs
        gram = kernel(self.landmarks, self.landmarks)
        gram = (gram + gram.T) / 2
        gram += NYSTROM_JITTER * gram.diagonal().mean() * np.eye(len(gram))
        try:
            L = cholesky(gram, lower=True)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"the kernel matrix of the {len(gram)} landmarks is not positive definite: use "
                "fewer landmarks or a smaller bandwidth"
            ) from None
        projection = solve_triangular(L, np.eye(len(L)), lower=True).T
        self.projection = np.ascontiguousarray(projection)

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
        np.matmul(self._values(points, None, log_scale), self.projection, out=out)


def scale_rows(rows: Array, log_scale: ArrayLike) -> None:
    """Multiply rows, shape (n, k), by exp(log_scale) of each, in place."""
    if np.ndim(log_scale) or log_scale:
        rows *= np.exp(np.broadcast_to(log_scale, len(rows)))[:, None]


class ConcatenatedFeatures(FeatureMap):
    """Several feature maps of the same points, side by side; `blocks` are the slices of each.

    Inner products of the features are sums of the maps' inner products: for example, landmarks of a
    kernel per column make an additive kernel with fewer landmarks than one kernel of all columns.
    """

    def __init__(self, maps: Sequence[FeatureMap]):
        self.maps = tuple(maps)
        inputs = {feature_map.n_inputs for feature_map in self.maps}
        if len(inputs) != 1:
            raise ValueError(
                "feature maps side by side need points of the same columns: pass at least one "
                f"map, all of the same n_inputs, found {sorted(inputs)}"
            )
        self.n_inputs = inputs.pop()
        self.blocks = slices_of(feature_map.n_columns for feature_map in self.maps)
        self.n_columns = self.blocks[-1].stop

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
        for feature_map, block in zip(self.maps, self.blocks, strict=True):
            feature_map(points, out[:, block], log_scale)


def slices_of(lengths: Iterable[int]) -> list[slice]:
    """Slices of these lengths, one after the other."""
    stops = [0, *accumulate(lengths)]
    return [slice(start, stop) for start, stop in pairwise(stops)]


def checked_rows(rows: ArrayLike, name: str) -> Array:
    """Landmarks, or other rows, as a float array, shape (d, p), d >= 1; ValueError otherwise."""
    rows = np.asarray(rows, np.float64)
    if rows.ndim != 2 or len(rows) == 0:
        raise ValueError(f"{name} have shape {rows.shape}, expected (d, p) with d >= 1")
    return rows
