"""Labels given embeddings, by Bayes' rule from the curves that embeddings follow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bdr_stan.embedding.coordinates import SavedArrays
from bdr_stan.embedding.label_functions import LabelFunctions
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.predictive import ClassPredictive, GridPredictive, MulticlassPredictive
from bdr_stan.predictive.grid import NO_REPEATED_LABELS, RepeatedLabels, trapezoid_weights
from bdr_stan.types import Array, ArrayLike


@dataclass(frozen=True)
class InverseCoordinates(SavedArrays):
    """Coordinates of embeddings given the label, and labels before and after a bag is seen."""

    saved: ClassVar = {
        "m0": ("m0", "landmark"),
        "basis": ("basis", "landmark", "component"),
        "lam": ("lambda", "component"),
        "labels": ("labels", "label"),
        "log_prior": ("log_prior", "label"),
        "power": ("power",),
        "sigma_point": ("sigma_point",),
        "offsets": ("offsets", "label"),
    }

    m0: Array  # embedding taken as origin, shape (d,)
    basis: Array  # z = (mu - m0) basis, shape (d, d)
    lam: Array  # within-bag variance of each coordinate, shape (d,)
    functions: LabelFunctions
    labels: Array  # the grid, units of y, shape (M,); of classes their codes
    log_prior: Array  # normalised log density before a bag is seen, shape (M,)
    power: float  # of the likelihood
    # noise of labels of bags of one point; None: size does not matter
    sigma_point: float | None = None
    repeated: RepeatedLabels = NO_REPEATED_LABELS
    # of classes: added to log odds, times `informativeness`, shape (M,)
    offsets: Array | None = None

    @property
    def widths(self) -> Array:
        """What a density at each label is multiplied by to be a probability, shape (M,)."""
        is_grid = not self.functions.has_classes
        return trapezoid_weights(self.labels) if is_grid else np.ones(len(self.labels))

    def transform(self, mean: Array) -> Array:
        """Coordinates z of mean embeddings, both shape (n, d)."""
        return (mean - self.m0) @ self.basis

    def constants(self) -> dict[str, tuple[ArrayLike, list[str]]]:
        """Constants, including the functions' and repeated labels', if there are any."""
        constants = {**super().constants(), **self.functions.constants()}
        if len(self.repeated.labels):
            constants["repeated_labels"] = self.repeated.labels, ["repeated_label"]
            constants["resolution"] = self.repeated.resolution, ["repeated_label"]
        return constants

    @classmethod
    def from_constants(cls, constants: Mapping[str, Array], **others: Any) -> Any:
        """Coordinates from the arrays that a fit keeps."""
        if "repeated_labels" in constants:
            pair = constants["repeated_labels"], constants["resolution"]
            others["repeated"] = RepeatedLabels(*pair)
        functions = LabelFunctions.from_constants(constants)
        return super().from_constants(constants, functions=functions, **others)


def log_likelihoods(
    coordinates: InverseCoordinates, z: Array, sizes: Array, tau: Array, curve: Array, B: Array
) -> Array:
    """Log density, to the power, of z, (n, K), at M labels, (n, M), for curves (K, J), B (M, J).

    For classes with their offsets.
    """
    path = curve @ B.T
    size, group = np.unique(sizes, return_inverse=True)
    weight = coordinates.power / (tau**2 + coordinates.lam / size[:, None])
    values = (z * weight[group]) @ path - 0.5 * (weight @ path**2)[group]
    if coordinates.offsets is not None:
        values += np.outer(informativeness(coordinates, sizes, tau, curve), coordinates.offsets)
    return values


def informativeness(
    coordinates: InverseCoordinates, sizes: Array, tau: Array, curve: Array
) -> Array:
    """v / (1 + v), v the variance by the label in units of the rest, by bag size, (n,)."""
    size, group = np.unique(sizes, return_inverse=True)
    by_label = np.sum(curve[:, 1:] ** 2, axis=1)
    ratio = np.sum(by_label / (tau**2 + coordinates.lam / size[:, None]), axis=1)
    return (ratio / (1 + ratio))[group]


def noise_sds(
    coordinates: InverseCoordinates, sizes: Array, known_variance: ArrayLike = 0.0
) -> Array:
    """Standard deviation of the noise of each new label, by bag size, shape (n,), units of y."""
    return np.sqrt((coordinates.sigma_point or 0.0) ** 2 / sizes + known_variance)


def inverse_predictive(
    coordinates: InverseCoordinates,
    embedding: Embedding,
    tau: Array,
    curve: Array,
    classes: Any = None,
    *,
    known_variance: ArrayLike = 0.0,
) -> GridPredictive | ClassPredictive | MulticlassPredictive:
    """Labels by Bayes' rule, averaged over draws of tau, shape (S, K), and curve, (S, K, J)."""
    z, sizes = coordinates.transform(embedding.mean), embedding.sizes
    B, widths = coordinates.functions(coordinates.labels), coordinates.widths

    def log_densities(i):
        """For one draw after the other, shape (len(i), M)."""
        for draw_tau, draw_curve in zip(tau, curve, strict=True):
            values = (
                log_likelihoods(coordinates, z[i], sizes[i], draw_tau, draw_curve, B)
                + coordinates.log_prior
            )
            values -= values.max(axis=1, keepdims=True)
            # SciPy's logsumexp is slower than all the rest of a draw.
            yield values - np.log(np.exp(values) @ widths)[:, None]

    if classes is None:
        noise_sd = noise_sds(coordinates, sizes, known_variance)
        shape = coordinates.labels, len(z), len(tau)
        return GridPredictive(log_densities, *shape, noise_sd, coordinates.repeated)

    def log_probabilities(i):
        return np.array(list(log_densities(i)))

    if len(classes) > 2:
        return MulticlassPredictive(log_probabilities, len(z), len(tau), classes)
    return ClassPredictive(
        lambda i: tuple(np.moveaxis(log_probabilities(i), 2, 0)), len(z), len(tau), classes
    )
