"""Trace and rank plots of posterior draws."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from bdr_stan.plots.style import GUIDE, MODELS, pyplot
from bdr_stan.results.diagnostics import element_names
from bdr_stan.results.inference_data import Groups, InferenceData, as_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 20  # as in ArviZ and Vehtari et al. (2021)


def trace(idata: InferenceData | Groups, names: Sequence[str]) -> "Figure":
    """Trace plots of parameters, one colour per chain.

    Chains that mix well overlap and have no trend.

    Parameters
    ----------
    idata : ArviZ object of a fit, such as ``model.idata``
    names : variables of the posterior that are numbers, or elements of others
        Named as in `diagnostics`: ``"sigma"``, ``"w[3]"``, ``"term_sd[state]"``.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError : no name, or one that is no such number.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLR, plots
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(5, 2)) for _ in range(30)]
    >>> y = np.array([bag[:, 0].mean() for bag in bags])
    >>> model = BLR(4, method="exact").fit(bags, y, seed=1)
    >>> figure = plots.trace(model.idata, ["intercept", "sigma"])
    >>> [ax.get_title() for ax in figure.axes]
    ['intercept', 'sigma']
    """
    draws = _scalars(idata, names)
    figure, axes = _panels(len(draws))
    for ax, (name, chains) in zip(axes, draws.items()):
        for k, chain in enumerate(chains):
            ax.plot(chain, lw=0.5, color=MODELS[k % len(MODELS)], alpha=0.8)
        ax.set(title=name, xlabel="draw", ylabel=name, xlim=(0, max(1, chains.shape[1] - 1)))
    return figure


def ranks(idata: InferenceData | Groups, names: Sequence[str]) -> "Figure":
    """Rank plots: ranks of each chain's draws among the draws of all chains, one line per chain.

    Where chains agree, all ranks are equally frequent, up to chance (dashed line).

    Parameters
    ----------
    idata : ArviZ object of a fit, such as ``model.idata``
    names : variables of the posterior that are numbers, or elements of others
        Named as in `diagnostics`: ``"sigma"``, ``"w[3]"``, ``"term_sd[state]"``.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError : no name, or one that is no such number.

    Source: Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021).

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLR, plots
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(5, 2)) for _ in range(30)]
    >>> y = np.array([bag[:, 0].mean() for bag in bags])
    >>> model = BLR(4, method="exact").fit(bags, y, seed=1)
    >>> figure = plots.ranks(model.idata, ["intercept"])
    >>> figure.axes[0].get_xlabel()
    'rank among all draws'
    """
    draws = _scalars(idata, names)
    figure, axes = _panels(len(draws))
    for ax, (name, chains) in zip(axes, draws.items()):
        order = rankdata(chains).reshape(chains.shape)
        edges = np.linspace(0.5, chains.size + 0.5, _BINS + 1)
        ax.axhline(chains.shape[1] / _BINS, ls="--", lw=1, color=GUIDE)
        for k, chain in enumerate(order):
            ax.stairs(np.histogram(chain, edges)[0], edges, color=MODELS[k % len(MODELS)], lw=1.2)
        ax.set(title=name, xlabel="rank among all draws", ylabel="draws", ylim=(0, None))
    return figure


def _scalars(idata, names):
    """Draws of the numbers, shape (chains, draws) each."""
    posterior = as_groups(idata)["posterior"]
    if len(names) == 0:
        raise ValueError("there is no parameter to draw: name at least one")
    return {name: _number(posterior, str(name)) for name in names}


def _number(posterior, name):
    """Draws of a variable that is a number, or of an element such as "w[3]"."""
    array = posterior.get(name, posterior.get(name.split("[")[0]))
    if array is not None:
        elements = element_names(array)
        if name in elements:
            return array.values.reshape(*array.shape[:2], -1)[:, :, elements.index(name)]
        raise ValueError(
            f"the posterior has no number {name!r}, but {elements[0]!r} to {elements[-1]!r}"
        )
    known = (element_names(values)[0] for values in posterior.data_vars.values())
    raise ValueError(f"the posterior has no number {name!r}; it has {', '.join(known)}")


def _panels(n):
    """A figure of n panels in rows of two, and its axes."""
    rows = -(-n // 2)
    columns = min(n, 2)
    figure, axes = pyplot().subplots(
        rows,
        columns,
        figsize=(3.4 * columns, 2.0 * rows + 0.2),
        squeeze=False,
        layout="constrained",
    )
    for ax in axes.flat[n:]:
        ax.remove()
    return figure, axes.flat[:n]
