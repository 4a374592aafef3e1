"""Plain Stan programs: their data, which users extend, and the starts of their chains.

The programs in ``stan/`` have the models of the accelerated ones in ``stan/fast/``, one bag per row
and no whitening. Data of new bags have the training bags' names with "_new" after them, except for
labels, which are `y`, and `y_at` for log densities.

The data of ``stan/inverse.stan`` include everything chosen before it runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.cmdstan.files import write_data
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.kernels import FieldFeatures
from bdr_stan.labels import OF_TIMES, Labels
from bdr_stan.models.bayes_rule import InverseCoordinates, noise_sds
from bdr_stan.models.embedding_model import EmbeddingModel
from bdr_stan.models.inverse import POSTERIOR_LOG_SDS, PRIORS, InverseModel, starts
from bdr_stan.posterior.latent_gaussian import WIDEST_START_LOG_SD, LatentGaussianModel
from bdr_stan.posterior.model import Draws, Model, StanInput
from bdr_stan.posterior.priors import FIXED_LOG_SD
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.predictive.grid import weights_at, weights_between
from bdr_stan.types import Array, PathName, as_path

GENERATED = ("y_new", "log_lik", "rate_new")  # a number for each new bag, or each of its points
# Values of the deviation u ~ N(0, 1) of a new bag, over which log_lik is a trapezoidal sum.
_NODE = np.linspace(-6, 6, 101)
_LOG_NODE_WEIGHT = -0.5 * _NODE**2 - 0.5 * np.log(2 * np.pi) + np.log(_NODE[1] - _NODE[0])
NODES: dict[str, Any] = {"J": len(_NODE), "node": _NODE, "log_weight": _LOG_NODE_WEIGHT}
NO_NODES: dict[str, Any] = {"J": 0, "node": [], "log_weight": []}  # if log_lik is not needed
# Names of data that fits pass, without the "_new" of new bags.
DATA = (
    *("N", "D", "Q", "K", "z", "x", "size", "label_sd", "known_part", "trials", "y", "y_at"),
    *("lambda", "prior_factor", "weight_basis", "intercept_location", "intercept_scale"),
    *("gamma_scale", "gap_scale", "sigma_scale", "sigma_point_scale", "dispersion_scale"),
    *("df_above_2_scale", "rho_median", "rho_log_sd", "eta_median", "eta_log_sd", *NODES),
    *OF_TIMES,
)
OF_POINTS = ("phi", "weight", "omitted")  # data with an entry for each point
_LARGEST_START = 2.0  # of chains, from the most probable scales, in their log sds
# Weights are narrow if rho is small: with Stan's own .8 chains of few bags diverge there.
_ADAPT_DELTA = 0.95
DATA_OF_TOTALS = (
    *("N", "P", "D", "start", "length", "y", "y_at", "trials", "label_sd", "relative_label_sd"),
    *(*OF_POINTS, *NODES, "intercept_location", "intercept_scale", "rho_median", "rho_log_sd"),
    *("sigma_scale", "dispersion_scale", "tau_scale"),
)
INVERSE_DATA = (
    *("N", "D", "J", "S", "M", "z", "size", "B", "label", "log_prior", "correction", "B_label"),
    *("label_sd", "y_at_given", "lambda", "smooth", "power"),
    *PRIORS,
)
_ADAPT_DELTA_OF_CURVES = 0.99  # amplitudes and their curves form funnels if labels explain little


def data_of_bags(coordinates: Coordinates, embedding: Embedding, labels: Labels) -> dict[str, Any]:
    """Data with an entry for each of n bags, and n; `labels` in the form of the program."""
    n = len(embedding.mean)
    zeros = np.zeros(n)
    return {
        "N": n,
        "z": coordinates.transform(embedding.mean),
        "x": embedding.x,
        "size": embedding.sizes,
        "label_sd": zeros if labels.label_sd is None else labels.label_sd,
        "known_part": zeros if labels.offsets is None else labels.offsets,
        "trials": (zeros if labels.trials is None else labels.trials).astype(int),
        "event": zeros + 1 if labels.event is None else labels.event,
        "entry": zeros if labels.entry is None else labels.entry,
        "y": labels.y,
        **labels.program_data,
    }


def as_new(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same as data of new bags."""
    return {"y_at" if name == "y" else f"{name}_new": values for name, values in data.items()}


def take_bags(data: Mapping[str, Any], bags: Array) -> dict[str, Any]:
    """Data of the bags with these indices, and of their points, if there are any."""
    taken = {"N": len(bags)}
    if "P" in data:
        length = data["length"][bags]
        start = np.cumsum(length) - length
        points = np.arange(length.sum()) + np.repeat(data["start"][bags] - 1 - start, length)
        taken |= {"P": len(points), "start": start + 1}
    return taken | {
        name: values[points if name in OF_POINTS else bags]
        for name, values in data.items()
        if name not in taken
    }


class StanData(dict[str, Any]):
    """Data of a plain Stan program: name -> number or array."""

    def write_json(self, path: PathName) -> None:
        """Write the data as the JSON file for CmdStan, CmdStanR and other interfaces.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced.
        """
        write_data(as_path(path, "path"), self)


@dataclass(kw_only=True)
class PlainProgram(Model):
    """The model of a plain program with its data, for a program that the user has edited."""

    stock: Any  # the model of the accelerated program
    data: dict[str, Any]
    new_bags: Mapping[str, Any]  # data of the training bags as new ones

    def __post_init__(self) -> None:
        self.program, self.priors = self.stock.program, self.stock.priors
        self.constants = self.stock.constants

    def read(self, draws: Draws, settings: SamplerSettings) -> Draws:
        """All that the program draws of its parameters, by its own names."""
        return {name: v for name, v in draws.items() if v.size and name not in GENERATED}


@dataclass(kw_only=True)
class PlainModel(PlainProgram):
    """The model of a plain program with its data, for a program that the user has edited."""

    stock: LatentGaussianModel

    def stan_input(self, settings: SamplerSettings) -> StanInput:
        """Chains that start near the mode of the stock model.

        All methods but NUTS fix rho at its marginal mode. Weights of groups and smooth functions
        have the prior standard deviations that are most probable under the stock model.
        """
        scales, mode, log_sds = self.stock.searched(settings)
        data = {**self.data, "gamma_scale": self.stock.gamma_scales(scales)}
        is_nuts = settings.method == "nuts"
        if not is_nuts:
            data |= {"rho_median": scales["rho"], "rho_log_sd": FIXED_LOG_SD}
        rng = np.random.default_rng(settings.seed)
        return StanInput(
            data=data,
            inits=[
                self._start(scales, log_sds, mode, rng, float(is_nuts))
                for _ in range(settings.chains if is_nuts else 1)
            ],
            log_sds=self._named(np.sqrt(np.diag(mode.covariance)), log_sds, u=1.0),
            options={"adapt_delta": _ADAPT_DELTA} if is_nuts else {},
        )

    def _start(self, scales, log_sds, mode, rng, spread):
        theta = mode.theta + spread * mode.whitening @ rng.standard_normal(len(mode.theta))
        reach = {n: min(sd, WIDEST_START_LOG_SD) * _LARGEST_START for n, sd in log_sds.items()}
        started = {n: v * np.exp(spread * rng.uniform(-1, 1) * reach[n]) for n, v in scales.items()}
        return self._named(theta, started)

    def _named(self, theta, scales, u=0.0):
        """Values of weights [w; gamma; intercept], of scales, and of u by the program's names."""
        d = self.data["D"]
        gaps = [scales[name] for name in scales if name.startswith("gap_")]
        return {
            "w": theta[:d],
            "gamma": theta[d:-1],
            "intercept": float(theta[-1]),
            "u": np.full(self.data["N"], u),
            "gap": np.array(gaps),
            **{name: float(value) for name, value in scales.items()},
        }


def plain_model(stock: EmbeddingModel, embedding: Embedding, labels: Labels) -> PlainModel:
    """The model of the plain program of a stock model, with `labels` in the program's form."""
    coordinates = stock.coordinates
    bags = data_of_bags(coordinates, embedding, labels)
    gaps = [v for name, v in stock.priors.items() if name.startswith("gap_")]
    # CmdStan crashes in vectorised random numbers of an empty vector and a number.
    one_bag = as_new(take_bags(bags, np.arange(1)))
    data = {
        "eta_median": 1.0,  # unused if embeddings are exact
        "eta_log_sd": 1.0,
        **{name: value for name, value in stock.priors.items() if name in DATA},
        "D": len(coordinates.lam),
        "Q": embedding.x.shape[1],
        "lambda": coordinates.lam,
        "prior_factor": coordinates.prior_factor,
        "weight_basis": coordinates.basis,
        "K": len(gaps) + 2,
        "gap_scale": np.array(gaps),
        **NODES,
        **bags,
        **one_bag,
        **labels.shared_data,
    }
    return PlainModel(stock=stock, data=data, new_bags=as_new(bags))


def data_of_points(bags: Bags, features: FieldFeatures) -> dict[str, Any]:
    """Data of the points of n bags; `omitted` is the variance of f outside `phi`, over rho^2."""
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
    points: Mapping[str, Any], labels: Labels, *, relative_errors: bool = False
) -> dict[str, Any]:
    """Data of `points`, by `data_of_points`, and of their bags; labels in the program's form."""
    zeros = np.zeros(len(labels.y))
    errors = zeros if labels.label_sd is None else labels.label_sd
    return {
        **points,
        "y": labels.y,
        "trials": (zeros if labels.trials is None else labels.trials).astype(int),
        "label_sd": zeros if relative_errors else errors,
        "relative_label_sd": errors if relative_errors else zeros,
        **labels.program_data,
    }


def without_bags(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same points, outside all bags."""
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
    return PlainModel(stock=stock, data=data, new_bags=as_new(bags))


@dataclass(kw_only=True)
class PlainInverseModel(PlainProgram):
    """The model of ``stan/inverse.stan`` with its data, for a program that the user has edited."""

    stock: InverseModel

    def stan_input(self, settings: SamplerSettings) -> StanInput:
        """Chains that start near the most probable scales, at the average curves given them."""
        inits = [self._start(modes) for modes in starts(self.stock.fitted.modes, settings)]
        scales, curves = self.stock.curves_at(**self._scales(self.stock.fitted.modes))
        sds = np.sqrt(np.diagonal(curves.covariance, axis1=1, axis2=2))
        return StanInput(
            data=self.data,
            inits=inits,
            log_sds={**POSTERIOR_LOG_SDS, "t": (sds / scales).ravel(order="F")},
            options={"adapt_delta": _ADAPT_DELTA_OF_CURVES},
        )

    def _start(self, modes):
        """Values of the program's parameters at tau, amplitude and, if any, curvature."""
        values = self._scales(modes)
        scales, curves = self.stock.curves_at(**values)
        return {**values, "t": curves.mean / scales}

    def _scales(self, modes):
        curvature = [*np.ravel(modes.get("curvature", ())), self.priors["curvature_median"]][0]
        return {**{n: modes[n] for n in ("tau", "amplitude")}, "curvature": float(curvature)}


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
        "log_prior": coordinates.log_prior + np.log(coordinates.widths),
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
    return {
        "N": len(embedding.mean),
        "z": coordinates.transform(embedding.mean),
        "size": embedding.sizes,
        "label_sd": noise_sds(coordinates, embedding.sizes, labels.error_variance),
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
        return weights_at(y, labels, noise_sd) / coordinates.widths
    unit = np.exp(coordinates.repeated.log_unit(y, labels))
    return unit[:, None] * weights_between(y, labels) / coordinates.widths
