"""Labels of any family, weights and mean embeddings both uncertain, or embeddings exact.

Bags may have several samples, for example residents and houses; their normal labels are a family.
"""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import logsumexp, roots_hermitenorm

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.coordinates import joined
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.embedding.terms import NO_TERMS, Terms
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.families import Family, label_densities
from bdr_stan.families.integrated import Integrated
from bdr_stan.labels import Labels
from bdr_stan.models.embedding_model import EmbeddingModel, order_by_size, size_groups
from bdr_stan.models.likelihoods import family_likelihood, normal_likelihood
from bdr_stan.posterior.latent_gaussian import SAMPLER, Role, Variable, Variables
from bdr_stan.posterior.mode import LogLikelihood, Mode
from bdr_stan.posterior.priors import held_at, predictor_priors
from bdr_stan.posterior.terms import split_columns, term_data, term_priors
from bdr_stan.types import Array

# With many bags, integrated one by one, this number determines the start of the search for the most
# probable scales.
_FIRST_BAGS = 3000
_NO_DISPERSION = 1e-4  # as good as 0
# Beyond these numbers of bags deviations are integrated out by Laplace's method, or by the program
# of these families, see "Families of labels" in docs/explanation/model.md.
_MOST_BAGS_OF_LAPLACE = 3000
_MOST_DEVIATIONS = 10_000
_INTEGRATED = ("poisson", "binomial")
_NUMBERS_OF_NODES = (5, 9, 17, 33)
# Error of the log density per bag, in units of 1 / sqrt(n).
_NODE_TOLERANCE = 0.02
_BAGS_OF_NODES = 3000  # that are looked at


def without_deviations(method: str, n_bags: int) -> bool:
    """Whether Laplace's method uses only weights and scales: Stan's would be too slow."""
    return method == "laplace" and n_bags > _MOST_BAGS_OF_LAPLACE


@dataclass
class FamilyModel(EmbeddingModel):
    """The model of ``stan/fast/bdr_glm.stan`` with its data."""

    family: Family
    _: KW_ONLY
    samples: Mapping[str, int] = field(default_factory=dict)  # numbers of coordinates, of several

    program = "bdr_glm"
    has_terms = True
    most_bags = _FIRST_BAGS

    def __post_init__(self) -> None:
        labels, n, name = self.labels, len(self.y), self.family.name
        # Labels, and known parts of the linear predictors, in the order of the rows, shape (n,).
        in_order = labels.take(order_by_size(self.embedding.sizes))
        self.known_part = np.zeros(n) if in_order.offsets is None else in_order.offsets
        self.labels_in_order = replace(in_order, y=in_order.y.astype(float))
        self.uncertain = any(prior.startswith("eta") for prior in self.embedding_priors)
        # Linear predictors deviate from their means, which for normal labels is noise.
        has_deviations = self.uncertain and name != "normal"
        self.integrates_deviations = has_deviations and name in _INTEGRATED and n > _MOST_DEVIATIONS
        super().__post_init__()
        self.level = self.level_and_spread[0] if name == "normal" else 0.0
        self.blocks = tuple(self.samples.values())
        self.initial = {"e": np.zeros(n * (has_deviations and not self.integrates_deviations))}

    @cached_property
    def level_and_spread(self) -> tuple[float, float]:
        """Level and standard deviation of the linear predictors, from the labels."""
        return self.family.level_and_spread(self.labels_in_order, self.known_part)

    def default_priors(self) -> dict[str, float]:
        location, spread = self.level_and_spread
        prior_variance = self.coordinates.prior_variance(self.z)
        of_predictor = predictor_priors(location, spread, prior_variance, self.n_covariates)
        if self.samples:
            del of_predictor["rho_median"]
        return {
            **of_predictor,
            **term_priors(self.terms, spread),
            **self.family.default_priors(self.labels_in_order.y, spread),
            **self.embedding_priors,
        }

    def variables(self) -> Variables:
        arrays = {
            "rho": entries("rho", self.samples),
            "eta": entries("eta", self.samples) if self.uncertain else [],
        }
        role = Role.ARRAY if self.samples else Role.SPLIT
        return {
            "scale": Variable(Role.SPLIT, list(self.family.likelihood.scales)),
            **{n: Variable(role, a) for n, a in arrays.items() if a or not self.samples},
            **dict.fromkeys(("alone", "along", "e"), SAMPLER),
        }

    def eta_of(self, scales: Mapping[str, float]) -> Any:
        """Eta, with several samples one per coordinate; 1 if embeddings are exact."""
        etas = np.array([scales[name] for name in scales if name.split("[")[0] == "eta"])
        if not len(etas):
            return 1.0
        return etas[self.coordinates.sample] if self.samples else etas[0]

    def scales_of_labels(self, scales: Mapping[str, float]) -> dict[str, float]:
        """Those of the family."""
        return {name: scales[name] for name in self.family.likelihood.scales}

    def likelihood(self, *, level: float = 0.0, **scales: float) -> LogLikelihood:
        rows, lam = self.rows, self.coordinates.lam
        shared: dict[str, Any] = {
            "eta": self.eta_of(scales),
            "sample": self.coordinates.sample,
            **self.scales_of_labels(scales),
        }
        if self.family.name == "normal":
            return normal_likelihood(rows, lam, level=level, **shared)
        return family_likelihood(rows, lam, self.family, self.labels_in_order, **shared)

    def program_data(self) -> dict[str, Any]:
        return bdr_glm_data(
            self.rows,
            self.coordinates.lam,
            self.prior_factor,
            self.family,
            self.labels_in_order,
            self.priors,
            terms=self.terms,
            uncertain=self.uncertain,
            samples=self.samples,
        )

    def fixed(self, scales: Mapping[str, float]) -> dict[str, Any]:
        if self.family.name == "normal":
            return super().fixed(scales)
        values = list(self.scales_of_labels(scales).values())
        return super().fixed(scales) | held_at("scale_location", "scale_prior", values)

    def whitening(self, scales: Mapping[str, float], mode: Mode) -> dict[str, Any]:
        """Also normal labels in the place of the labels, for coordinates of the deviations."""
        whitened, n = super().whitening(scales, mode), len(self.y)
        if self.family.name == "normal":  # whose deviations are integrated out
            return {**whitened, "label_information": np.zeros(n), "label_centre": np.zeros(n)}
        h, nu = self._predictor_moments(scales, mode.theta)
        labels = self.labels_in_order
        densities = partial(label_densities, self.family, labels, h, nu)
        of_labels = self.scales_of_labels(scales)
        at_mode = densities(**of_labels)
        information = at_mode_information = _information(at_mode, nu)
        # A larger dispersion makes a label less informative: 1 / information grows with its square.
        variance, dispersion = np.zeros(n), scales.get("dispersion")
        if dispersion is not None:
            without = densities(**{**of_labels, "dispersion": _NO_DISPERSION})
            information = np.maximum(_information(without, nu), at_mode_information)
            ratio = np.divide(
                information, at_mode_information, out=np.ones(n), where=at_mode_information > 0
            )
            variance = (ratio - 1) / np.maximum(information, 1e-300) / dispersion**2
        centre = h + at_mode.slope / np.where(at_mode.curvature > 0, at_mode.curvature, np.inf)
        nodes = {}
        if self.integrates_deviations:
            nodes = deviation_nodes(self.family, labels, h, nu, at_mode_information, centre)
        return {
            **whitened,
            "label_information": information,
            "label_variance": variance,
            "label_centre": centre,
            **nodes,
        }

    def _predictor_moments(self, scales, theta):
        """Mean and variance of the linear predictor of each row, both of shape (n,)."""
        rows, eta = self.rows, self.eta_of(scales)
        lam, sample = self.coordinates.lam, self.coordinates.sample
        sizes = rows.bag_size if sample is None else rows.bag_size[:, sample]
        s = shrinkage_factors(sizes, lam, eta)
        d, of_row = len(lam), rows.group
        w, rest = theta[:d], theta[d:]
        nu = ((eta * (1 - s)) @ w**2)[of_row] * self.uncertain
        h = np.sum(rows.rows[:, :d] * s[of_row] * w, axis=1) + rows.rows[:, d:-1] @ rest
        return h + self.known_part, nu


def samples_model(
    training: TrainingFeatures,
    labels: Labels,
    family: Family,
    alone: Mapping[str, EmbeddingModel],
    *,
    prior: Mapping[str, float] | None = None,
) -> FamilyModel:
    """The model of bags with several samples; `alone` has one model per sample.

    They determine a sample's coordinates, the variance of its linear effects and its prior of eta;
    the total prior variance does not depend on the number of samples.
    """
    chosen: dict[str, Any] = {}
    parts, priors = [], {}
    for name, model in alone.items():
        parts.append(model.coordinates)
        priors[f"rho_median[{name}]"] = model.priors["rho_median"] / np.sqrt(len(alone))
        for key in ("eta_median", "eta_log_sd"):
            if key in model.priors:
                priors[f"{key}[{name}]"] = model.priors[key]
        chosen |= {f"{key}[{name}]": value for key, value in model.chosen.items()}
    return FamilyModel(
        training.embedding,
        labels,
        family,
        coordinates=joined(parts),
        prior=prior,
        terms=training.terms,
        embedding_priors=priors,
        samples={name: len(part.lam) for name, part in zip(alone, parts, strict=True)},
        chosen=chosen,
    )


def bdr_glm_data(
    rows: Rows,
    lam: Array,
    prior_factor: Array,
    family: Family,
    labels: Labels,
    priors: Mapping[str, float],
    *,
    terms: Terms = NO_TERMS,
    uncertain: bool = True,
    samples: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Data of ``stan/fast/bdr_glm.stan``, except for the whitened coordinates of theta.

    `rows` are from `rows_by_size`, `labels` in their order; `samples` are numbers of coordinates.
    """
    values, v = split_columns(rows.rows, terms)
    D, y = len(lam), values[:, -1]
    scales = list(family.likelihood.scales)
    M = len(samples or [""])
    arrays = {
        name: [priors.get(key, 1.0) for key in entries(name, samples or ())]
        for name in ("rho_median", "eta_median", "eta_log_sd")
    }
    return {
        "N": len(y),
        "M": M,
        "D": D,
        "sample": np.repeat(np.arange(1, M + 1), list((samples or {"": D}).values())),
        "Q": values.shape[1] - D - 2,
        **size_groups(rows),
        "bag_size": rows.bag_size.reshape(len(rows.length), -1).T,
        "z": values[:, :D],
        "x": values[:, D:-2],
        "known_part": np.zeros(len(y)) if labels.offsets is None else labels.offsets,
        "y": y,
        "trials": (np.zeros(len(y)) if labels.trials is None else labels.trials).astype(int),
        "event": np.ones(len(y)) if labels.event is None else labels.event,
        "entry": np.zeros(len(y)) if labels.entry is None else labels.entry,
        "family": family.program_number,
        "n_scales": len(scales),
        "uncertain": int(uncertain),
        "lambda": lam,
        "prior_factor": prior_factor,
        "block_cross": np.zeros((D, D)),  # with several samples the whitening has another
        "label_variance": np.zeros(len(y)),  # also for labels with a dispersion
        "intercept_location": priors["intercept_location"],
        "intercept_scale": priors["intercept_scale"],
        "gamma_scale": priors.get("gamma_scale", 1.0),  # unused without covariates
        "rho_log_sd": priors["rho_log_sd"],
        **arrays,
        **term_data(terms, v, priors),
        "scale_location": np.zeros(len(scales)),
        "scale_prior": [priors[f"{name}_scale"] for name in scales],
        "use_likelihood": 1,
        "K": 0,  # deviations are parameters
        "node": [],
        "log_node_weight": [],
    }


def entries(name: str, samples: Iterable[str]) -> list[str]:
    """Names of a scale, or of a number of its prior, for each sample: "rho[houses]"."""
    return [f"{name}[{sample}]" for sample in samples] or [name]


def _information(densities: Integrated, nu: Array) -> Array:
    """Precision of the normal label of the same curvature at predictors of these variances."""
    curvature = np.clip(densities.curvature, 0, (1 - 1e-9) / np.maximum(nu, 1e-300))
    return curvature / (1 - nu * curvature)


def deviation_nodes(
    family: Family, labels: Labels, mean: Array, variance: Array, information: Array, centre: Array
) -> dict[str, Any]:
    """Data of the program for a family without scales: few nodes, but accurate at the mode.

    Means and variances of the linear predictors, precisions and centres of normal labels of the
    same curvature have the shape (n,).
    """
    n = len(mean)
    some = np.arange(0, n, -(-n // _BAGS_OF_NODES))
    labels, mean, variance = labels.take(some), mean[some], variance[some]
    exact = label_densities(family, labels, mean, variance).value
    columns = {name: values[:, None] for name, values in labels.parameters.items()}
    u_sd = (1 + variance * information[some]) ** -0.5
    u_mean = np.sqrt(variance) * information[some] * (centre[some] - mean) * u_sd**2
    for number in _NUMBERS_OF_NODES:
        node, weight = roots_hermitenorm(number)
        log_weight = np.log(weight / np.sqrt(2 * np.pi))
        u = u_mean[:, None] + u_sd[:, None] * node
        h = mean[:, None] + np.sqrt(variance)[:, None] * u
        at_node = family.terms(labels.y[:, None], h, **columns).value
        by_nodes = logsumexp(at_node + log_weight + 0.5 * (node**2 - u**2), axis=1) + np.log(u_sd)
        if np.mean(np.abs(by_nodes - exact)) < _NODE_TOLERANCE / np.sqrt(n):
            break
    return {"K": number, "node": node, "log_node_weight": log_weight}
