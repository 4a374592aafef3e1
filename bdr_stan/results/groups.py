"""ArviZ groups of a fit: draws, data and pointwise quantities."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bdr_stan.results.inference_data import Groups, dataset
from bdr_stan.types import Array, ArrayLike, Seed
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    from bdr_stan.predictive.mixture import LabelMixture

# log_likelihood and posterior_predictive are saved up to this many numbers each (160 MB).
LARGEST_POINTWISE = 20_000_000

_DIMS = {
    "w": ["component"],
    "tau": ["component"],
    "amplitude": ["component"],
    "explained": ["component"],
    "curve": ["component", "function"],
    "beta": ["landmark"],
    "c": ["function"],
    "gamma": ["covariate"],
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
    covariates: Sequence[str] = (),
) -> Groups:
    """Groups posterior, sample_stats, observed_data and constant_data.

    `draws` and `stats` map names to arrays, shape (chain, draw, ...), `constants` to (values,
    dimensions); `covariates` are the names of the entries of gamma.
    """
    dims = {name: _dims(name, np.ndim(values) - 2) for name, values in draws.items()}
    coords: dict[str, Sequence | Array] = {"bag": ids, "covariate": covariates}
    for values, axes in constants.values():
        for axis, length in zip(axes, np.shape(values), strict=True):
            coords.setdefault(axis, np.arange(length))
    groups = {
        "posterior": dataset(draws, dims, coords, attrs=attrs),
        "observed_data": dataset({"y": y}, _DIMS, coords, sample=False),
        "constant_data": dataset(
            {name: values for name, (values, _) in constants.items()},
            {name: axes for name, (_, axes) in constants.items()},
            coords,
            sample=False,
        ),
    }
    if stats:
        groups["sample_stats"] = dataset(stats, {}, attrs=attrs)
    return groups


def _dims(name, n):
    """Dimension names of a variable with n dimensions after chain and draw."""
    axes = _DIMS.get(name, [])
    return axes if len(axes) == n else [f"{name}_dim_{k}" for k in range(n)]


def pointwise_groups(
    training: Callable[[], "LabelMixture"] | None,
    y: Array,
    ids: Sequence | Array,
    shape: tuple[int, int],
    *,
    log_lik: Array | None = None,
    y_rep: Array | None = None,
    seed: Seed = None,
) -> Groups:
    """Groups log_likelihood and posterior_predictive of the n training bags.

    `shape` is (chains, draws). `log_lik` and `y_rep`, shape (chains, draws, n), replace the values
    of the predictive, which `training()` computes only if needed. Empty without it, or if the
    arrays would exceed `LARGEST_POINTWISE` numbers; no log_likelihood for a single draw, as model
    comparison needs several.
    """
    if training is None or np.prod(shape) * len(y) > LARGEST_POINTWISE:
        return {}
    predictive = training()
    if y_rep is None:
        y_rep = predictive.sample(seed=seed).reshape(*shape, len(y))
    groups = {"posterior_predictive": dataset({"y": y_rep}, _DIMS, {"bag": ids})}
    if np.prod(shape) > 1:
        if log_lik is None:
            log_lik = predictive.log_likelihood(y).reshape(*shape, len(y))
        groups["log_likelihood"] = dataset({"y": log_lik}, _DIMS, {"bag": ids})
    return groups


def fitted_groups(
    draws: Mapping[str, Array],
    stats: Mapping[str, Array],
    attrs: Mapping[str, str | float],
    constants: Mapping[str, tuple[ArrayLike, Sequence[str]]],
    ids: Sequence | Array,
    y: Array,
    training: Callable[[], "LabelMixture"] | None,
    shape: tuple[int, int],
    *,
    covariates: Sequence[str] = (),
    own_program: bool = False,
    by_bag: bool = True,
    seed: Seed = None,
) -> Groups:
    """All groups of a fit: those of `named_groups` and `pointwise_groups`.

    Draws called log_lik and y_rep, which a user's Stan program may write per bag, become
    log_likelihood and posterior_predictive. Only the user's program (`own_program`) can compute its
    log_lik: without it, log_likelihood is dropped with a warning. Both are dropped if rows
    are not bags (`by_bag` is False), as log_lik[i] then does not belong to bag i.
    """
    written = {name: draws[name] for name in ("log_lik", "y_rep") if name in draws}
    parameters = {name: values for name, values in draws.items() if name not in written}
    per_bag = {name: values for name, values in written.items() if by_bag and values.size}
    groups = named_groups(parameters, stats, attrs, constants, ids, y, covariates=covariates)
    groups |= pointwise_groups(training, y, ids, shape, **per_bag, seed=seed)
    if own_program and "log_lik" not in per_bag and groups.pop("log_likelihood", None) is not None:
        if by_bag:
            warn(
                "your Stan program writes no log_lik, so the fit has no log_likelihood, which "
                "az.loo, az.compare and stacking need: define log_lik[i] for each bag in "
                "generated quantities"
            )
        else:
            warn(
                "your Stan program gets compressed rows, which have no log_lik of each bag, so "
                "the fit has no log_likelihood, which az.loo, az.compare and stacking need: pass "
                "compress=False"
            )
    return groups
