"""What the priors of a model imply: draws of its parameters and of labels, before the data."""

import secrets
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from bdr_stan.bags import BagsLike
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.labels import Labels
from bdr_stan.posterior.model import Draws
from bdr_stan.posterior.priors import draw_scale
from bdr_stan.posterior.terms import effect_sds
from bdr_stan.questions.protocol import Fit, check_stock
from bdr_stan.results.arviz_groups import draws_group, labels_group
from bdr_stan.results.inference_data import Groups, InferenceData, build
from bdr_stan.types import Array, ArrayLike, check_counts, check_seed

_OF_WEIGHTS = ("w", "beta", "gamma", "intercept", "term_effect")


class PriorPredictive(Fit):
    """Parameters and labels under only the priors."""

    def prior_predictive(
        self: Any,
        bags: BagsLike,
        y: ArrayLike | None = None,
        *,
        draws: int = 1000,
        seed: int | None = None,
        **label_data: Any,
    ) -> InferenceData:
        """Parameters and labels of bags under only the priors.

        Whether labels come out in a plausible range shows whether the priors are sensible.

        Parameters
        ----------
        y : array, shape (n,), or str, optional
            Labels: their spread scales default priors. For a model that is not fitted.
        draws : int, default 1000
            Draws of the parameters, and of the labels of each bag.
        **label_data
            trials, exposure, offset, event and entry of the labels, as for `fit`.

        Returns
        -------
        InferenceData (ArviZ 0.x) or DataTree (1.x)
            Groups prior, with the parameters of the group posterior, and prior_predictive, y
            (chain, draw, bag); for classes their numbers. The `idata` of a fit has both groups from
            then on, for ``az.plot_prior_posterior`` of ArviZ 1.x or ``az.plot_dist_comparison`` of
            0.x, and ``az.plot_ppc(group="prior")`` of 0.x.

        Raises
        ------
        ValueError
            The model is not fitted, and `y` is missing; or it has a `stan_file`, whose priors are
            the posterior of a fit to a copy of the program without the likelihood.
        """
        check_stock(self)
        check_counts(draws=draws)
        check_seed(seed)
        fitted = self
        if "result_" not in vars(self):
            if y is None:
                raise ValueError(
                    "default priors are scaled by the labels: give y, or fit the model first"
                )
            fitted = clone(self).set_params(method="optimize")
            fitted.fit(bags, y, seed=seed, **label_data)
        bags = fitted.like_training(bags)
        labels = fitted.labels_of_new(bags, **label_data)
        embedding = fitted.embedding_of(bags)
        seed = self.checked_seed(seed)
        seed = secrets.randbelow(2**31) if seed is None else seed
        groups = _prior_groups(fitted, embedding, labels, bags.index, draws, seed)
        if fitted is self:
            self.set_result(replace(self.result_, groups=self.result_.groups | groups))
        return build(groups)


def _prior_groups(
    model: Any, embedding: Embedding, labels: Labels, ids: Any, n: int, seed: int
) -> Groups:
    """Groups prior and prior_predictive of embedded bags, n draws, under the priors of a fit."""
    parameters, used = _stock_draws(model, n, np.random.default_rng(seed))
    kind = model.label_model
    predictive = model.predictive_of_draws(model.coordinates_, embedding, labels, used)
    drawn_labels = predictive.sample(seed=seed)
    if kind.has_classes and kind.distribution is None:
        drawn_labels = np.searchsorted(model.classes_, drawn_labels)
    posterior = model.result_.groups["posterior"]
    return {
        "prior": draws_group({k: v[None] for k, v in parameters.items()}, posterior.coords),
        "prior_predictive": labels_group(drawn_labels[None], ids),
    }


def _stock_draws(model: Any, n: int, rng: np.random.Generator) -> tuple[Draws, Draws]:
    """Draws from the priors, (n, ...): in the posterior's form, and in the form for predictions."""
    priors, posterior = model.result_.settings["priors"], model.result_.groups["posterior"]
    scales = {
        str(name): _scale(priors, name, values, n, rng)
        for name, values in posterior.items()
        if name not in _OF_WEIGHTS
    }
    coordinates = model.coordinates_
    rho = coordinates.by_coordinate(scales["rho"])
    factor = coordinates.prior_factor
    w = rho * np.linalg.solve(factor, rng.standard_normal((len(factor), n))).T
    location, spread = priors["intercept_location"], priors["intercept_scale"]
    parameters = {"intercept": rng.normal(location, spread, n), "w": w, **scales}
    used = {name: parameters[name] for name in model.predicts_from if name in parameters}
    if "beta" in posterior:
        parameters["beta"] = w @ coordinates.basis.T
    covariates = model.covariates_
    if covariates is None:
        return parameters, used
    gamma = rng.normal(0, priors.get("gamma_scale", 1.0), (n, len(covariates.scale)))
    effects = _effects(covariates.terms, scales, rng)
    if gamma.shape[1]:
        parameters["gamma"] = covariates.in_given_units(gamma)
    if effects.shape[1]:
        parameters["term_effect"] = effects
    return parameters, used | {"gamma": np.hstack([gamma, effects])}


def _scale(priors: Any, name: Any, values: Any, n: int, rng: np.random.Generator) -> Array:
    """Draws of a scale, shape (n,), or of an array of them, (n, k), from its prior."""
    if values.ndim == 2:
        return draw_scale(priors, str(name), n, rng)
    of_samples = values.dims[-1] == "sample"
    entries = values[values.dims[-1]].values if of_samples else range(1, values.shape[-1] + 1)
    columns = [draw_scale(priors, f"{name}[{entry}]", n, rng) for entry in entries]
    return np.column_stack(columns)


def _effects(terms: Any, scales: Draws, rng: np.random.Generator) -> Array:
    """Draws of the effects of groups and smooth functions, shape (n, U)."""
    n = len(next(iter(scales.values())))
    sds = np.empty((n, sum(terms.n_effects)))
    for s in range(n if sds.shape[1] else 0):
        named = {
            f"{name}[{k + 1}]": value
            for name in ("term_sd", "term_length")
            for k, value in enumerate(scales.get(name, np.empty((n, 0)))[s])
        }
        sds[s] = effect_sds(terms, named)
    return sds * rng.standard_normal(sds.shape)
