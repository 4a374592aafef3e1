"""Plots of landmarks, and of the shrinkage of embeddings."""

from collections.abc import Sequence
from itertools import cycle

import numpy as np
from sklearn.base import BaseEstimator

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.plots.style import (
    GUIDE,
    MARKERS,
    MISSES,
    names_as_written,
    one_axes,
    shades,
    size_title,
)
from bdr_stan.types import Array, ArrayLike, Axes, Seed, is_number


def shrinkage_spectrum(
    lam: ArrayLike | BaseEstimator,
    eta: float | None = None,
    sizes: ArrayLike = (1, 5, 20, 100, 1000),
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Share of each coordinate of the embedding that shrinkage keeps, for several bag sizes.

    The eigenvalues eta / (eta + lambda_k / N) of R_eta (R_eta + Sigma / N)^-1, largest first. The
    legend shows their sum, the effective number of coordinates that N points identify.

    Parameters
    ----------
    lam : array, shape (d,), within-bag variances from `embedding.shrinkage.joint_basis`; or a
        fitted BDR or Shrinkage for its variances
    eta : float, > 0, scale of the prior of the embeddings; None, only with a fitted model, for
        its posterior median
    sizes : numbers of points of a bag, default 1, 5, 20, 100 and 1000
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    TypeError : variances that are not numbers.
    ValueError : a model without shrinkage, a missing or non-positive eta, a size below 1.

    Source: Law et al. (2018), Appendix C.

    Examples
    --------
    >>> from bdr_stan import plots
    >>> ax = plots.shrinkage_spectrum([0.1, 1.0, 10.0], eta=1.0, sizes=[1, 10])
    >>> ax.lines[0].get_ydata().round(2)
    array([0.91, 0.5 , 0.09])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['1 point: 1.5', '10 points: 2.4']
    """
    lam, eta = _variances_and_scale(lam, eta)
    sizes = np.atleast_1d(sizes)
    if not (sizes >= 1).all():
        raise ValueError(f"a bag has at least 1 point, found sizes {sizes.tolist()}")
    ax = one_axes((5.5, 4.6)) if ax is None else ax
    every = shrinkage_factors(sizes, np.sort(lam), eta)
    for size, kept, colour, marker in zip(sizes, every, shades(len(sizes)), cycle(MARKERS)):
        label = f"{size_title(f'{size:g}')}: {kept.sum():.1f}"
        rank = np.arange(1, len(lam) + 1)
        ax.plot(rank, kept, marker=marker, ms=3, lw=1, color=colour, label=label)
    ax.set(
        xlabel="coordinate of the embedding, most kept first",
        ylabel="share of the coordinate kept",
        ylim=(-0.02, 1.02),
    )
    ax.locator_params(axis="x", integer=True)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.18),  # below: the lines leave no corner free
        ncols=3,
        frameon=False,
        fontsize="small",
        title=f"points in a bag: effective number of coordinates, of {len(lam)}",
        title_fontsize="small",
    )
    return ax


def _variances_and_scale(lam, eta):
    """Within-bag variances and eta, from a fitted model or as given."""
    if hasattr(lam, "coordinates_"):
        posterior = lam.idata["posterior"]
        if "eta" not in posterior:
            raise ValueError(f"{type(lam).__name__} does not shrink embeddings: pass a fitted BDR")
        eta = float(np.median(posterior["eta"].values)) if eta is None else eta
        lam = lam.coordinates_.lam
    elif hasattr(lam, "fit"):
        raise ValueError(f"this {type(lam).__name__} has no shrinkage to draw: pass a fitted BDR")
    if not is_number(eta) or not eta > 0:
        raise ValueError(f"eta, the scale of the embeddings' prior, must be > 0, found {eta}")
    try:
        return np.asarray(lam, dtype=float), eta
    except (TypeError, ValueError):
        raise TypeError("lam must be numbers: pass variances, or a fitted BDR") from None


@names_as_written
def landmarks(
    points: Array | BagsLike,
    landmarks: ArrayLike | BaseEstimator,
    features: str | Sequence[int | str] = (0, 1),
    *,
    n_points: int = 2000,
    seed: Seed = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Landmarks among a sample of the points.

    Parameters
    ----------
    points : array, shape (n, p), points; or bags of points
    landmarks : array, shape (d, p), or a fitted model with landmarks
    features : pair of column numbers (or names, if the bags have names), default (0, 1); or
        "principal" for the first two principal axes of the sample
    n_points : int, default 2000, maximum number of points, sampled without replacement
    seed : int or numpy Generator, default 0, of the sample
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    ValueError : points with one feature or with other features than the landmarks, or an unknown
        feature.

    Examples
    --------
    >>> from bdr_stan import BLR, plots
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(40, seed=1)
    >>> ax = plots.landmarks(bags, BLR(8, method="exact").fit(bags, y, seed=1), features=[20, 42])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('feature 20', 'feature 42')
    """
    bags = as_bags([points] if isinstance(points, np.ndarray) and points.ndim == 2 else points)
    sample, names = bags.sample_points(n_points, np.random.default_rng(seed)), bags.features
    landmarks = getattr(landmarks, "landmarks_", landmarks)
    if isinstance(landmarks, dict):
        raise TypeError("the model has several samples: pass landmarks_[name] and points of one")
    landmarks = np.asarray(landmarks, dtype=float)
    p = sample.shape[1]
    if landmarks.ndim != 2 or landmarks.shape[1] != p:
        raise ValueError(f"landmarks have shape {landmarks.shape}, expected (d, {p})")
    if p < 2:
        raise ValueError("the points have one feature: a picture of landmarks needs two")
    if isinstance(features, str) and features == "principal":
        centre = sample.mean(axis=0)
        _, spread, axes = np.linalg.svd(sample - centre, full_matrices=False)
        share = spread**2 / np.sum(spread**2)
        sample, landmarks = (sample - centre) @ axes[:2].T, (landmarks - centre) @ axes[:2].T
        labels = [f"principal axis {k + 1} ({share[k]:.0%} of variance)" for k in range(2)]
    else:
        columns = _columns(features, names, p)
        sample, landmarks = sample[:, columns], landmarks[:, columns]
        labels = [f"feature {k}" if names is None else str(names[k]) for k in columns]
    ax = one_axes() if ax is None else ax
    ax.plot(*sample.T, ".", ms=2.5, color=GUIDE, label=f"{len(sample)} points")
    ax.plot(*landmarks.T, "o", ms=5, mec="white", mew=0.6, color=MISSES,
            label=f"{len(landmarks)} landmarks")  # fmt: skip
    ax.set(xlabel=labels[0], ylabel=labels[1])
    ax.legend(frameon=True, fontsize="small")
    return ax


def _columns(features, names, p):
    """Numbers of two columns given by number or name."""
    if isinstance(features, str) or len(features) != 2:
        raise ValueError(f"features must be two columns or 'principal', found {features!r}")
    columns = list(range(p)) if names is None else [*range(p), *names]
    for feature in features:
        if feature not in columns:
            raise ValueError(f"there is no feature {feature!r}; there are: {columns}")
    return [names.index(f) if isinstance(f, str) else f for f in features]
