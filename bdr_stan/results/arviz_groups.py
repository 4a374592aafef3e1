"""ArviZ groups of a fit: draws, data and pointwise quantities."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from bdr_stan.results.inference_data import Groups, dataset
from bdr_stan.types import Array, ArrayLike, Seed

if TYPE_CHECKING:
    from bdr_stan.predictive.mixture import LabelMixture

# log_likelihood and posterior_predictive are kept up to this many numbers each (160 MB).
_LARGEST_POINTWISE = 20_000_000
_NUMBERS_OF_INTEGRAL = 4  # cost of a density with quadrature, in densities in closed form

_DIMS = {
    "w": ["component"],
    "tau": ["component"],
    "amplitude": ["component"],
    "explained": ["component"],
    "curve": ["component", "function"],
    "beta": ["landmark"],
    "rho": ["sample"],
    "eta": ["sample"],
    "c": ["function"],
    "gamma": ["covariate"],
    "effect_sd": ["effect_column"],
    "effect_correlation": ["effect_column", "other_column"],
    "survey_intercept": ["survey"],
    "survey_slope": ["survey"],
    "survey_dispersion": ["survey"],
    "term_effect": ["effect"],
    "term_sd": ["term"],
    "term_length": ["smooth_column"],
    "dual": ["bag"],
    "y": ["bag"],
}


def named_groups(
    draws: Mapping[str, Array],
    stats: Mapping[str, Array],
    attrs: Mapping[str, str | float],
    constants: Mapping[str, tuple[ArrayLike, Sequence[str]]],
    ids: Sequence | Array,
    y: ArrayLike,
    *,
    coordinates: Mapping[str, Sequence[str]] = MappingProxyType({}),
    log_prior: Mapping[str, Array] = MappingProxyType({}),
) -> Groups:
    """Groups of draws and stats, (chain, draw, ...), labels, constants and, if any, log_prior."""
    coords: dict[str, Sequence | Array] = {"bag": ids, **coordinates}
    last = ["output"] if "output" in coords else []
    for values, axes in constants.values():
        for axis, length in zip(axes, np.shape(values), strict=True):
            coords.setdefault(axis, np.arange(length))
    groups = {
        "posterior": dataset(draws, _dims(draws, last), coords, attrs=attrs),
        "observed_data": dataset({"y": y}, {"y": ["bag", *last]}, coords, sample=False),
        "constant_data": dataset(
            {name: values for name, (values, _) in constants.items()},
            {name: axes for name, (_, axes) in constants.items()},
            coords,
            sample=False,
        ),
    }
    if log_prior:
        groups["log_prior"] = dataset(log_prior, _dims(log_prior), coords)
    if stats:
        groups["sample_stats"] = dataset(stats, {}, attrs=attrs)
    return groups


def draws_group(draws: Mapping[str, Array], coords: Mapping[str, Any]) -> Any:
    """Draws, shape (chain, draw, ...), as a group with the names of entries that `coords` have."""
    dims = _dims(draws)
    used = {axis for axes in dims.values() for axis in axes}
    return dataset(draws, dims, {axis: coords[axis].values for axis in used if axis in coords})


def labels_group(labels: Array, ids: Sequence | Array) -> Any:
    """Labels of n bags, shape (chain, draw, n), as a group."""
    return dataset({"y": labels}, _DIMS, {"bag": ids})


def estimate_groups(
    estimate: Mapping[str, ArrayLike],
    method: str,
    constants: Mapping[str, tuple[ArrayLike, Sequence[str]]],
    ids: Sequence | Array,
    y: ArrayLike,
    outputs: Sequence[str] = (),
) -> Groups:
    """Groups of an estimate in closed form, as a single draw; `method` is its inference_method.

    `outputs` are names of the columns of labels (n, k); all of the estimate then has them last.
    """
    draws = {name: np.asarray(value)[None, None] for name, value in estimate.items()}
    names, attrs = {"output": outputs} if outputs else {}, {"inference_method": method}
    return named_groups(draws, {}, attrs, constants, ids, y, coordinates=names)


def _dims(draws, last=()):
    """Names of the variables' dimensions after chain and draw, by variable; `last` ends them."""
    dims = {}
    for name, values in draws.items():
        n, axes = np.ndim(values) - 2, [*_DIMS.get(name, []), *last]
        dims[name] = axes if len(axes) == n else [f"{name}_dim_{k}" for k in range(n)]
    return dims


def few_enough(n_draws: int, n_bags: int, *, integrated: bool = False) -> bool:
    """Whether a fit keeps a number per draw and bag, which quadrature may have to find."""
    return n_draws * n_bags * (_NUMBERS_OF_INTEGRAL if integrated else 1) <= _LARGEST_POINTWISE


def training_groups(
    predictive: "LabelMixture",
    draws: Mapping[str, Array],
    y: Array,
    ids: Sequence | Array,
    *,
    has_likelihood: bool = True,
    thinning: int = 1,
    seed: Seed = None,
) -> Groups:
    """Groups posterior_predictive and, of several draws, log_likelihood of the n training bags."""
    n_chains, n_draws = next(iter(draws.values())).shape[:2]

    def group(values):
        values = values.reshape(n_chains, -1, len(y))
        drawn = np.arange(n_draws)[:: 1 if values.shape[1] == n_draws else thinning]
        return dataset({"y": values}, _DIMS, {"bag": ids, "draw": drawn})

    groups = {"posterior_predictive": group(predictive.sample(seed=seed))}
    if predictive.n_draws == 1 or not has_likelihood:
        return groups
    return groups | {"log_likelihood": group(predictive.log_likelihood(y))}
