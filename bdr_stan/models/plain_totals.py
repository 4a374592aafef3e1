"""Plain Stan programs of totals: data of bags and of all their points."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.kernels import FieldFeatures
from bdr_stan.models.plain import NODES, OF_POINTS, PlainModel, as_new, take_bags
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.types import Array

# Names of data that fits pass, those of new bags without "_new".
DATA_OF_TOTALS = (
    *("N", "P", "D", "start", "length", "y", "y_at", "trials", "label_sd", "relative_label_sd"),
    *(*OF_POINTS, *NODES, "intercept_location", "intercept_scale", "rho_median", "rho_log_sd"),
    *("sigma_scale", "dispersion_scale", "tau_scale"),
)


def data_of_points(bags: Bags, features: FieldFeatures) -> dict[str, Any]:
    """Data of a plain program that the points of n bags determine.

    `omitted` is the prior variance of f at a point that its features `phi` leave out, over rho^2.
    """
    points = bags.read_checked(0, len(bags.points))
    phi = features(points)
    return {
        "N": len(bags),
        "P": len(points),
        "phi": phi,
        "weight": bags.point_weights,
        "omitted": features.residual_variance(points, phi),
        "start": bags.offsets[:-1] + 1,  # Stan counts from 1
        "length": bags.sizes,
    }


def data_of_totals(
    points: Mapping[str, Any],
    y: Array,
    *,
    trials: Array | None = None,
    label_sd: Array | None = None,
    relative_label_sd: Array | None = None,
) -> dict[str, Any]:
    """Data of `points`, by `data_of_points`, and of their bags; `y` as the program takes them."""
    zeros = np.zeros(len(y))
    return {
        **points,
        "y": y,
        "trials": (zeros if trials is None else trials).astype(int),
        "label_sd": zeros if label_sd is None else label_sd,
        "relative_label_sd": zeros if relative_label_sd is None else relative_label_sd,
    }


def without_bags(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same points, which lie in no bag."""
    kept = {name: data[name] for name in (*OF_POINTS, "P")}
    return {**take_bags(data, np.arange(0)), **kept}


def plain_totals_model(
    stock: LatentGaussianModel, bags: Mapping[str, Any], others: Mapping[str, Any]
) -> PlainModel:
    """The model of the plain program of a stock model; `others` are data of the user's own."""
    data = {
        **stock.priors,
        "D": len(stock.prior_factor),
        **NODES,
        **bags,
        **as_new(take_bags(bags, np.arange(0))),
        **others,
    }
    return PlainModel(
        program=stock.program,
        priors=stock.priors,
        data=data,
        constants=stock.constants,
        stock=stock,
        new_bags=as_new(bags),
    )
