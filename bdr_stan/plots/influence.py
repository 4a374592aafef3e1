"""What a model makes of one column of the points."""

from typing import TYPE_CHECKING

from sklearn.base import is_classifier

from bdr_stan.plots.style import COVERS, GUIDE, one_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bdr_stan.bags import BagsLike
    from bdr_stan.estimators.embedding import EmbeddingEstimator


def influence(
    model: "EmbeddingEstimator",
    column: str | int,
    bags: "BagsLike | None" = None,
    *,
    level: float = 0.9,
    n_points: int = 500,
    seed: int = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """What a value of one column adds to the label, the other columns as the points have them.

    The posterior mean of the column's partial dependence (`influence_along`) in a band of the
    given probability: a line over a column of numbers, a dot for each value of a category or of a
    column with two values. Zero is the average over the training bags.

    Parameters
    ----------
    model : fitted BLR, BDR, Shrinkage or classifier on mean embeddings
    column : str or int
        Of the table that the bags were made of, of the points by name, or by number.
    bags : Bags, or list of arrays, whose points are sampled; None: the landmarks stand for them
    level : float, 0 < level < 1, default 0.9, probability of the band
    n_points : int, default 500, points of the sample
    seed : int, default 0, of the sample
    ax : matplotlib Axes; None for a new figure

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError : matplotlib is not installed.
    TypeError : a model without an influence of points.
    ValueError : there is no such column, or the level is not between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLR, Bags, plots
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(400, 2))
    >>> bags = Bags.from_points(points, sizes=[10] * 40, features=["age", "income"])
    >>> model = BLR(8, method="exact").fit(bags, bags.sums(points[:, 0]), seed=1)
    >>> ax = plots.influence(model, "age", bags)
    >>> along = ax.lines[-1].get_ydata()
    >>> bool(along[-1] > along[0])
    True
    """
    if not hasattr(model, "influence_along"):
        raise TypeError(
            f"{type(model).__name__} has no influence of points to draw: pass a fitted BLR, BDR, "
            "Shrinkage or classifier on mean embeddings"
        )
    values, along = model.influence_along(column, bags, n_points=n_points, seed=seed)
    lower, upper = along.interval(level)
    ax = one_axes((5.0, 3.6)) if ax is None else ax
    ax.axhline(0, ls="--", lw=1, color=GUIDE, zorder=0)
    if values.dtype.kind == "f" and len(values) > 2:
        ax.fill_between(values, lower, upper, color=COVERS, alpha=0.25, lw=0,
                        label=f"{level:.0%} of the posterior")  # fmt: skip
        ax.plot(values, along.mean, color=COVERS, label="posterior mean")
    else:
        names = [value if isinstance(value, str) else f"{value:g}" for value in values.tolist()]
        ax.vlines(names, lower, upper, color=COVERS, lw=2, label=f"{level:.0%} of the posterior")
        ax.plot(names, along.mean, "o", color=COVERS, label="posterior mean")
        ax.margins(x=0.15)
    what = "latent function" if is_classifier(model) else "label"
    ax.set(xlabel=f"column {column}" if isinstance(column, int) else column,
           ylabel=f"added to the {what}")  # fmt: skip
    ax.legend(frameon=False, fontsize="small")
    return ax
