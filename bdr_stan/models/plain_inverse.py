"""The plain program of inverse regression: its data, which users extend, and starts of chains.

``stan/inverse.stan`` has the model of ``stan/fast/inverse.stan`` with a row for each bag, and
predicts labels with Bayes' rule. Its data include everything chosen before it runs: coordinates of
the embeddings, functions of the label, labels to choose from with their probabilities, the power
and the corrections of classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.labels import Labels
from bdr_stan.models.bayes_rule import InverseCoordinates, noise_sds
from bdr_stan.models.embedding_curves import coefficient_scales, curves_given
from bdr_stan.models.inverse import POSTERIOR_LOG_SDS, PRIORS, InverseModel, starts
from bdr_stan.models.plain import PlainProgram, as_new, take_bags
from bdr_stan.posterior.model import StanInput
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.predictive.grid import trapezoid_weights, weights_at, weights_between
from bdr_stan.types import Array

# Names of data that fits pass, without the "_new" of new bags.
INVERSE_DATA = (
    *("N", "D", "J", "S", "M", "z", "size", "B", "label", "log_prior", "correction", "B_label"),
    *("label_sd", "y_at_given", "lambda", "smooth", "power"),
    *PRIORS,
)
_ADAPT_DELTA = 0.99  # amplitudes and their curves form funnels if labels explain little


@dataclass(kw_only=True)
class PlainInverseModel(PlainProgram):
    """The model of ``stan/inverse.stan`` with its data, for a program that the user has edited."""

    stock: InverseModel

    def stan_input(self, settings: SamplerSettings) -> StanInput:
        """Chains that start near the most probable scales, at the average curves given them."""
        inits = [self._start(modes) for modes in starts(self.stock.fitted.modes, settings)]
        curves = self.stock.fitted.curves
        sds = np.sqrt(np.diagonal(curves.covariance, axis1=1, axis2=2))
        scales = self._coefficient_scales(**self._scales(self.stock.fitted.modes))
        return StanInput(
            data=self.data,
            inits=inits,
            log_sds={**POSTERIOR_LOG_SDS, "t": (sds / scales).ravel(order="F")},
            options={"adapt_delta": _ADAPT_DELTA},
        )

    def _start(self, modes):
        """Values of the program's parameters at tau, amplitude and, if any, curvature."""
        values, fitted = self._scales(modes), self.stock.fitted
        scales = self._coefficient_scales(**values)
        curves = curves_given(fitted.sums, fitted.coordinates.lam, values["tau"], scales)
        return {**values, "t": curves.mean / scales}

    def _scales(self, modes):
        curvature = [*np.ravel(modes.get("curvature", ())), self.priors["curvature_median"]][0]
        return {
            "tau": modes["tau"],
            "amplitude": modes["amplitude"],
            "curvature": float(curvature),
        }

    def _coefficient_scales(self, tau, amplitude, curvature):
        functions, level_scale = self.stock.fitted.coordinates.functions, self.priors["level_scale"]
        return coefficient_scales(functions, amplitude, curvature, level_scale)


def plain_inverse_model(
    stock: InverseModel, embedding: Embedding, labels: Labels
) -> PlainInverseModel:
    """The model of the plain program of a stock model, `embedding` of the training bags.

    If labels have errors, rows of B and z come from regression calibration; see
    `rows_without_blur`.
    """
    coordinates, (B, z) = stock.fitted.coordinates, stock.fitted.rows
    n_labels = len(coordinates.labels)
    bags = inverse_data_of_bags(coordinates, embedding, labels)
    no_bags = as_new(take_bags(bags, np.arange(0)))
    given_labels = {"y_at_given": density_given_labels(coordinates, labels.y, bags["label_sd"])}
    data = {
        "N": len(z),
        "D": len(coordinates.lam),
        "J": B.shape[1],
        "S": coordinates.functions.n_straight,
        "M": n_labels,
        "z": z,
        "size": embedding.sizes,
        "B": B,
        "label": coordinates.labels,
        "log_prior": coordinates.log_prior + np.log(_widths(coordinates)),
        "correction": np.zeros(n_labels) if coordinates.offsets is None else coordinates.offsets,
        "B_label": coordinates.functions(coordinates.labels),
        "lambda": coordinates.lam,
        "smooth": coordinates.functions.smooth,
        "power": coordinates.power,
        **no_bags,
        **labels.program_data,
        **labels.shared_data,
        "y_at_given": np.empty((0, n_labels)),
        **{name: stock.priors[name] for name in PRIORS},
    }
    return PlainInverseModel(stock=stock, data=data, new_bags=as_new(bags) | given_labels)


def inverse_data_of_bags(
    coordinates: InverseCoordinates, embedding: Embedding, labels: Labels
) -> dict[str, Any]:
    """Data of the plain program that have an entry for each of n bags, and their number."""
    error_variance = 0.0 if labels.error_variance is None else labels.error_variance
    return {
        "N": len(embedding.mean),
        "z": coordinates.transform(embedding.mean),
        "size": embedding.sizes,
        "label_sd": noise_sds(coordinates, embedding.sizes, error_variance),
        **labels.program_data,
    }


def density_given_labels(coordinates: InverseCoordinates, y: Array, noise_sd: Array) -> Array:
    """Density of labels y, shape (m,), given each label of the grid, shape (m, M).

    Without noise the density of a new label is linear between labels of the grid. For classes it is
    whether y is that class.
    """
    labels = coordinates.labels
    if coordinates.functions.has_classes:
        return np.equal.outer(y, labels).astype(float)
    if np.any(noise_sd):
        return weights_at(y, labels, noise_sd) / _widths(coordinates)
    unit = np.exp(coordinates.repeated.log_unit(y, labels))
    return unit[:, None] * weights_between(y, labels) / _widths(coordinates)


def _widths(coordinates):
    """What a density at each label of the grid is multiplied by to be a probability."""
    labels = coordinates.labels
    is_grid = not coordinates.functions.has_classes
    return trapezoid_weights(labels) if is_grid else np.ones(len(labels))
