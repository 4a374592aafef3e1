"""The groups of a fit: draws, data and pointwise quantities under named dimensions."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bdr_stan.results.inference_data import Groups, dataset
from bdr_stan.types import Array, ArrayLike, Seed

if TYPE_CHECKING:
    from bdr_stan.predictive.mixture import Mixture

# log_likelihood and posterior_predictive are kept up to this many numbers each (160 MB).
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

    Parameters
    ----------
    draws, stats : dict, name -> array, shape (chain, draw, ...)
    attrs : dict, of the posterior group
    constants : dict, name -> (values, dimensions)
    ids : array, shape (n,), of the bags
    y : array, shape (n,), labels
    covariates : list of str, names of the entries of gamma

    Returns
    -------
    dict, group name -> xarray.Dataset
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
    """Names of the dimensions of a variable that has n beside chain and draw."""
    known = _DIMS.get(name, [])
    return known if len(known) == n else [f"{name}_dim_{k}" for k in range(n)]


def pointwise_groups(
    training: Callable[[], "Mixture"],
    y: Array,
    ids: Sequence | Array,
    shape: tuple[int, int],
    *,
    log_lik: Array | None = None,
    y_rep: Array | None = None,
    seed: Seed = None,
) -> Groups:
    """Groups log_likelihood and posterior_predictive of the training bags.

    Parameters
    ----------
    training : callable
        Gives the Predictive of the training bags, which takes long where there are many; not
        called where nothing of it is kept.
    y : array, shape (n,), labels
    ids : array, shape (n,), of the bags
    shape : (number of chains, draws of each)
    log_lik, y_rep : arrays, shape (chains, draws, n), optional
        What the Stan program itself wrote; used where given.
    seed : int or numpy.random.Generator, optional
        Of the draws of posterior_predictive.

    Returns
    -------
    dict, empty if the two would hold more than `LARGEST_POINTWISE` numbers each. Without
    log_likelihood where there is one draw: comparing models needs several.
    """
    if np.prod(shape) * len(y) > LARGEST_POINTWISE:
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
    training: Callable[[], "Mixture"],
    shape: tuple[int, int],
    *,
    covariates: Sequence[str] = (),
    own_program: bool = False,
    by_bag: bool = True,
    seed: Seed = None,
) -> Groups:
    """All groups of a fit: those of `named_groups` and of `pointwise_groups`.

    Draws called log_lik and y_rep, which a user's Stan program may write for each bag, become the
    groups of that meaning. The density of labels under a user's program (`own_program`) is known
    to that program alone: without log_lik there is no group log_likelihood, and a warning. Both
    are left out where a program gets rows that are not those of the bags (`by_bag` is False), in
    which log_lik[i] is not that of bag i.
    """
    written = {name: draws[name] for name in ("log_lik", "y_rep") if name in draws}
    parameters = {name: values for name, values in draws.items() if name not in written}
    own = {name: values for name, values in written.items() if by_bag and values.size}
    groups = named_groups(parameters, stats, attrs, constants, ids, y, covariates=covariates)
    groups |= pointwise_groups(training, y, ids, shape, **own, seed=seed)
    if own_program and "log_lik" not in own and groups.pop("log_likelihood", None) is not None:
        if by_bag:
            warnings.warn(
                "your Stan program writes no log_lik, so the fit has no log_likelihood, which "
                "az.loo, az.compare and stacking need: define log_lik[i] for each bag in "
                "generated quantities",
                stacklevel=4,
            )
        else:
            warnings.warn(
                "your Stan program gets compressed rows, which have no log_lik of each bag, so "
                "the fit has no log_likelihood, which az.loo, az.compare and stacking need: pass "
                "compress=False",
                stacklevel=4,
            )
    return groups
