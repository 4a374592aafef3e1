"""Labels of any family, weights and mean embeddings both uncertain, or embeddings exact.

Bags may have several samples, for example residents and houses; their normal labels are a family.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp, roots_hermitenorm

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.coordinates import Coordinates, joined, principal_axes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.samples import SamplesFeatures
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.embedding.terms import NO_TERMS, Terms
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.families import Family, label_densities
from bdr_stan.families.integrated import Integrated
from bdr_stan.labels import Labels
from bdr_stan.models.bdr_probit import order_by_size, rows_by_size, size_groups
from bdr_stan.models.likelihoods import family_likelihood, normal_likelihood
from bdr_stan.models.prior_choice import model_of_best_prior
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.posterior.priors import held_at, predictor_priors, with_user_values
from bdr_stan.posterior.terms import split_columns, term_data, term_priors, term_scales
from bdr_stan.types import Array

# With many bags, integrated one by one, this number determines the start of the search for the most
# probable scales.
_FIRST_BAGS = 3000
_NO_DISPERSION = 1e-4  # as good as 0
# The deviations of the bags are parameters of the program: Laplace's method needs the Hessian of
# all, from differences, and steps of NUTS shrink with the fourth root of their number. With many
# bags the program integrates them out, which is too slow for other families than these.
_MOST_BAGS_OF_LAPLACE = 3000
_MOST_DEVIATIONS = 10_000
_INTEGRATED = ("poisson", "binomial")
_NUMBERS = (5, 9, 17, 33)
# Error of the log density per bag, in units of 1 / sqrt(n): posterior means then move by less than
# about a tenth of their standard deviations.
_TOLERANCE = 0.02
_MOST_BAGS = 3000  # that are looked at


def without_deviations(method: str, n_bags: int) -> bool:
    """Whether Laplace's method uses only weights and scales: Stan's would be too slow."""
    return method == "laplace" and n_bags > _MOST_BAGS_OF_LAPLACE


def bdr_glm_data(
    rows: Rows,
    lam: Array,
    prior_factor: Array,
    family: Family,
    known_part: Array,
    trials: Array | None,
    priors: Mapping[str, float],
    *,
    terms: Terms = NO_TERMS,
    uncertain: bool = True,
    samples: Mapping[str, int] | None = None,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/fast/bdr_glm.stan``, except for the whitened coordinates of theta.

    `rows` are from `rows_by_size`; `lam` has shape (d,); `prior_factor`, shape (d, d), is P of the
    prior w ~ N(0, rho^2 (P'P)^-1); `known_part` and `trials`, shape (n,), are in the rows' order.
    `samples` are the numbers of coordinates of several, by name.
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
        "known_part": known_part,
        "y": y,
        "trials": np.zeros(len(y), int) if trials is None else trials.astype(int),
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
        "use_likelihood": int(use_likelihood),
        "K": 0,  # deviations are parameters
        "node": [],
        "log_node_weight": [],
    }


def entries(name: str, samples: Iterable[str]) -> list[str]:
    """Names of a scale, or of a number of its prior, for each sample: "rho[houses]"."""
    return [f"{name}[{sample}]" for sample in samples] or [name]


def bdr_glm_model(
    training: TrainingFeatures,
    labels: Labels,
    family: Family,
    *,
    prior: Mapping[str, float] | None = None,
    **choices: Any,
) -> LatentGaussianModel:
    """The model of ``stan/fast/bdr_glm.stan`` with its data; see `bdr_model`."""

    def model_in(coordinates, prior_of_eta, bags=None):
        some = bags is not None
        return partial(
            _model,
            embedding=training.embedding.take(bags) if some else training.embedding,
            labels=labels.take(bags) if some else labels,
            family=family,
            prior=prior,
            own_priors=prior_of_eta,
            terms=training.terms,
        )

    some_bags, n = None, len(labels.y)
    if n > 2 * _FIRST_BAGS:
        some_bags = np.random.default_rng(0).choice(n, _FIRST_BAGS, replace=False)
    return model_of_best_prior(model_in, training, some_bags=some_bags, **choices)


def blr_glm_model(
    embedding: Embedding,
    labels: Labels,
    family: Family,
    *,
    terms: Terms = NO_TERMS,
    prior: Mapping[str, float] | None = None,
) -> LatentGaussianModel:
    """The same with exact embeddings; see `bdr_glm_model`."""
    coordinates = principal_axes(embedding)
    return _model(coordinates, embedding, labels, family, prior, {}, terms)


def samples_model(
    training: SamplesFeatures,
    labels: Labels,
    family: Family,
    alone: Mapping[str, LatentGaussianModel],
    *,
    prior: Mapping[str, float] | None = None,
) -> LatentGaussianModel:
    """The model of bags with several samples; `alone` has one model per sample.

    They determine a sample's coordinates, the variance of its linear effects and its prior of eta;
    the total prior variance does not depend on the number of samples.
    """
    parts, priors, constants = [], {}, {}
    for name, model in alone.items():
        parts.append(
            Coordinates.from_constants({key: v for key, (v, _) in model.constants.items()})
        )
        priors[f"rho_median[{name}]"] = model.priors["rho_median"] / np.sqrt(len(alone))
        for key in ("eta_median", "eta_log_sd"):
            if key in model.priors:
                priors[f"{key}[{name}]"] = model.priors[key]
        for key in ("linear_variance", "measure_scale"):
            if key in model.constants:
                constants[f"{key}[{name}]"] = model.constants[key]
    samples = {name: len(part.lam) for name, part in zip(alone, parts, strict=True)}
    model = _model(
        joined(parts), training.embedding, labels, family, prior, priors, training.terms, samples
    )
    return replace(model, constants={**model.constants, **constants})


def _information(found: Integrated, nu: Array) -> Array:
    """Precision of the normal label of the same curvature at predictors of these variances."""
    curvature = np.clip(found.curvature, 0, (1 - 1e-9) / np.maximum(nu, 1e-300))
    return curvature / (1 - nu * curvature)


def _model(
    coordinates: Coordinates,
    embedding: Embedding,
    labels: Labels,
    family: Family,
    prior: Mapping[str, float] | None,
    own_priors: Mapping[str, float],
    terms: Terms,
    samples: Mapping[str, int] | None = None,
) -> LatentGaussianModel:
    """The model in given coordinates; without a prior of eta embeddings are exact."""
    uncertain = any(name.startswith("eta") for name in own_priors)
    x, sizes, sample = embedding.x, embedding.sizes, coordinates.sample
    z, factor, lam = (
        coordinates.transform(embedding.mean),
        coordinates.prior_factor,
        coordinates.lam,
    )
    order, y = order_by_size(sizes), labels.y
    rows = rows_by_size(np.column_stack([z, x]), y, sizes)
    offsets, trials = labels.offsets, labels.trials
    known_part = np.zeros(len(y)) if offsets is None else offsets[order]
    trials = None if trials is None else trials[order]
    rho_names = entries("rho", samples or ())
    eta_names = entries("eta", samples or ()) if uncertain else []

    def eta_of(scales):
        """Eta, with several samples one per coordinate; 1 if embeddings are exact."""
        if not eta_names:
            return 1.0
        etas = np.array([scales[name] for name in eta_names])
        return etas[0] if sample is None else etas[sample]

    def likelihood(*, level=0.0, **scales):
        shared = {"eta": eta_of(scales), "sample": sample}
        own = {name: scales[name] for name in family.likelihood.scales}
        if family.name == "normal":
            return normal_likelihood(rows, lam, level=level, **shared, **own)
        return family_likelihood(rows, lam, family, known_part, trials, **shared, **own)

    location, spread = family.level_and_spread(rows.rows[:, -1], known_part, trials)
    n_covariates = x.shape[1] - sum(terms.n_effects)
    of_predictor = predictor_priors(location, spread, coordinates.prior_variance(z), n_covariates)
    if samples:
        del of_predictor["rho_median"]
    defaults = {
        **of_predictor,
        **term_priors(terms, spread),
        **family.default_priors(rows.rows[:, -1], spread),
        **own_priors,
    }
    priors = with_user_values(defaults, prior)
    scales = tuple(family.likelihood.scales)
    has_deviations = uncertain and family.name != "normal"
    integrated_out = uncertain and family.name in _INTEGRATED and len(y) > _MOST_DEVIATIONS

    def with_label_coordinates(whitened, scales, mode):
        """Whitened coordinates of theta and of the deviations of bags: see the program."""
        if family.name == "normal":  # which are integrated out
            unused = np.zeros(len(y))
            return {**whitened, "label_information": unused, "label_centre": unused}
        eta = eta_of(scales)
        bag_sizes = rows.bag_size if sample is None else rows.bag_size[:, sample]
        s = shrinkage_factors(bag_sizes, lam, eta)
        d, of_row = len(lam), rows.group
        w, rest = mode.theta[:d], mode.theta[d:]
        nu = ((eta * (1 - s)) @ w**2)[of_row] * uncertain
        h = np.sum(rows.rows[:, :d] * s[of_row] * w, axis=1) + rows.rows[:, d:-1] @ rest
        h += known_part
        family_scales = {name: scales[name] for name in family.likelihood.scales}

        def densities(**changed):
            given = family_scales | changed
            return label_densities(family, rows.rows[:, -1], h, nu, trials, **given)

        found = densities()
        at_mode = information = _information(found, nu)
        # A larger dispersion makes a label less informative: 1 / information grows with its square.
        variance, dispersion = np.zeros(len(y)), scales.get("dispersion")
        if dispersion is not None:
            information = np.maximum(
                _information(densities(dispersion=_NO_DISPERSION), nu), at_mode
            )
            gap = np.divide(information, at_mode, out=np.ones(len(y)), where=at_mode > 0) - 1
            variance = gap / np.maximum(information, 1e-300) / dispersion**2
        centre = h + found.slope / np.where(found.curvature > 0, found.curvature, np.inf)
        of_labels = {
            "label_information": information,
            "label_variance": variance,
            "label_centre": centre,
        }
        if integrated_out:
            of_labels |= deviation_nodes(family, rows.rows[:, -1], h, nu, at_mode, centre, trials)
        return {**whitened, **of_labels}

    def fixed(found):
        return held_at("scale_location", "scale_prior", [found[name] for name in scales])

    arrays = {"rho": rho_names, "eta": eta_names}
    return LatentGaussianModel(
        program="bdr_glm",
        priors=priors,
        data=bdr_glm_data(
            rows,
            lam,
            factor,
            family,
            known_part,
            trials,
            priors,
            terms=terms,
            uncertain=uncertain,
            samples=samples,
        ),
        constants=coordinates.constants(),
        scales=(*scales, *rho_names, *eta_names, *term_scales(terms)),
        terms=terms,
        prior_factor=factor,
        weight_basis=coordinates.basis,
        likelihood=likelihood,
        level=location if family.name == "normal" else 0.0,
        rescaled=with_label_coordinates,
        fixed=fixed if family.name != "normal" else None,
        scale_arrays={"scale": scales, **({} if samples else arrays)},
        kept_arrays={name: each for name, each in arrays.items() if each and samples},
        blocks=tuple((samples or {}).values()),
        initial={"e": np.zeros(len(y) * (has_deviations and not integrated_out))},
        sampler_only=("t", "precision", "alone", "along", "e"),
    )


def deviation_nodes(
    family: Family,
    y: Array,
    mean: Array,
    variance: Array,
    information: Array,
    centre: Array,
    trials: Array | None,
) -> dict[str, Any]:
    """Data of the program for a family without scales: few nodes, but accurate at the mode.

    Labels, means and variances of their linear predictors, precisions and centres of normal labels
    of the same curvature, and trials have the shape (n,).
    """
    n = len(y)
    some = slice(None, None, -(-n // _MOST_BAGS))
    y, mean, variance = y[some], mean[some], variance[some]
    trials = None if trials is None else trials[some]
    exact = label_densities(family, y, mean, variance, trials).value
    out_of = None if trials is None else trials[:, None]
    u_sd = (1 + variance * information[some]) ** -0.5
    u_mean = np.sqrt(variance) * information[some] * (centre[some] - mean) * u_sd**2
    for number in _NUMBERS:
        node, weight = roots_hermitenorm(number)
        log_weight = np.log(weight / np.sqrt(2 * np.pi))
        u = u_mean[:, None] + u_sd[:, None] * node
        h = mean[:, None] + np.sqrt(variance)[:, None] * u
        at_node = family.terms(y[:, None], h, out_of).value
        found = logsumexp(at_node + log_weight + 0.5 * (node**2 - u**2), axis=1) + np.log(u_sd)
        if np.mean(np.abs(found - exact)) < _TOLERANCE / np.sqrt(n):
            break
    return {"K": number, "node": node, "log_node_weight": log_weight}
