"""How much of the log of a bag's total lies outside the features of the fields."""

from collections.abc import Mapping

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.kernels import FieldFeatures
from bdr_stan.kernels.fields import COVERED_COLUMNS
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

_BAGS, _POINTS = 50, 100  # that are looked at, of the bags and of each


def omitted_variance(bags: Bags, features: FieldFeatures) -> Array:
    """s'(K - Psi Psi')s of some bags, s the shares of their points: prior variance at rho = 1.

    It is that of the mean of f over a bag outside the basis functions, as dependent between its
    points as the kernel makes it. Fields of more than three columns are left out.
    """
    found = []
    for i in np.unique(np.linspace(0, len(bags) - 1, _BAGS).astype(int)):
        rows = np.arange(bags.offsets[i], bags.offsets[i + 1])
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, _POINTS).astype(int))]
        points, shares = bags.read_rows(rows), bags.point_weights[rows]
        if not shares.sum():  # the few with weight are among the others
            continue
        shares = shares / shares.sum()
        sums = shares @ features(points)
        total = 0.0
        for field, block in zip(features.fields, features.blocks, strict=True):
            if len(field.columns_seen(features.n_inputs)) <= COVERED_COLUMNS:
                covered = np.square(sums[block]).sum()
                total += max(shares @ field(points, points) @ shares - covered, 0.0)
        found.append(total)
    return np.array(found)


def warn_of_omitted_totals(
    bags: Bags, counts: Array | None, features: FieldFeatures, drawn: Mapping[str, Array]
) -> None:
    """Warn where totals scatter less, given their means, than what the basis leaves out of logs.

    `counts`, shape (n,), are labels that scatter as Poisson counts do besides the dispersion.
    """
    omitted = np.median(drawn["rho"]) * np.sqrt(np.median(omitted_variance(bags, features)))
    of_counts = 0.0 if counts is None else np.median(1 / np.maximum(counts, 1))
    scatter = np.sqrt(np.median(drawn.get("dispersion", 0.0)) ** 2 + of_counts)
    if omitted > scatter:
        warn(
            f"the features leave out a standard deviation of {omitted:.2g} of the log of a bag's "
            f"total, more than the labels scatter, {scatter:.2g}: intervals of new bags and of "
            "forecasts are too narrow; raise n_functions, above all of products, or n_landmarks"
        )
