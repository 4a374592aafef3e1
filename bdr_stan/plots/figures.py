"""Pictures of predictions, shrinkage, landmarks and maps; matplotlib is imported when one is drawn.

For what a *predictive* is see `bdr_stan.metrics`.
"""

from itertools import cycle

import numpy as np

from bdr_stan import metrics
from bdr_stan.bags import as_bags
from bdr_stan.embedding.shrinkage import shrinkage_factors

COVERS, MISSES, GUIDE = "#0072B2", "#D55E00", "0.6"  # Okabe and Ito's, told apart by all eyes
MODELS = (MISSES, COVERS, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
BARS_PER_PANEL = 80


def prediction_by_size(y, predictive, sizes, edges=None, *, level=0.95, axes=None):
    """Predicted against true labels, one panel for each class of bag sizes.

    Colour is the predictive sd; each panel says how many of its labels the central intervals
    cover.

    Parameters
    ----------
    y : array, shape (n,), labels
    predictive : see `bdr_stan.metrics`
    sizes : array, shape (n,), number of points of each bag
    edges : see `metrics.size_classes`
    level : float in (0, 1), probability of the intervals
    axes : matplotlib Axes, one for each class; None for a new figure

    Returns
    -------
    array of matplotlib Axes, one for each class

    Raises
    ------
    ImportError : matplotlib is not installed.
    ValueError : arrays of different lengths or NaN, or another number of axes than classes.
    """
    table = metrics.table_by_size(y, predictive, sizes, edges=edges, level=level)
    classes = metrics.size_classes(sizes, edges)
    y, mean, sd = np.asarray(y), np.asarray(predictive.mean), np.asarray(predictive.sd)
    axes = _panels(1, len(classes))[0] if axes is None else _given(axes, len(classes))
    figure = axes[0].figure
    limits = _limits(y, mean)
    scale = {"vmin": sd.min(), "vmax": sd.max(), "cmap": "viridis"}
    for ax, (name, of) in zip(axes, classes.items()):
        _diagonal(ax, limits)
        points = ax.scatter(
            y[of], mean[of], c=sd[of], **scale, s=14, edgecolors="0.3", linewidths=0.3
        )
        ax.set(title=_title(name, of.sum()), xlabel="true label", xlim=limits, ylim=limits)
        _note(ax, f"{table.loc[name, 'coverage']:.0%} in their {level:.0%} interval")
    axes[0].set_ylabel("predicted label")
    figure.colorbar(points, ax=list(axes), label="predictive sd")
    return axes


def compare_by_size(predictives, y, sizes, edges=None, *, level=0.95):
    """Predictive intervals of several models against true labels, one row a model.

    Points are predicted labels, coloured by predictive sd. Vertical bars are central intervals,
    orange where they miss the true label, that is where they do not cross the diagonal. Each
    panel says how many hold the truth, in orange where chance (three standard errors) does not
    explain the distance from `level`. A panel draws at most 80 of its bags, spread evenly over
    the labels; the share it states is that of all its bags.

    Parameters
    ----------
    predictives : dict, name of a model -> predictive, see `bdr_stan.metrics`
    y : array, shape (n,), labels
    sizes : array, shape (n,), number of points of each bag
    edges : see `metrics.size_classes`
    level : float in (0, 1), probability of the intervals

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ImportError : matplotlib is not installed.
    ValueError : no model, arrays of different lengths, or NaN.
    """
    if not predictives:
        raise ValueError("there is no model to draw: pass at least one predictive")
    tables = {
        name: metrics.table_by_size(y, predictive, sizes, edges=edges, level=level)
        for name, predictive in predictives.items()
    }
    classes = metrics.size_classes(sizes, edges)
    y = np.asarray(y)
    intervals = {name: np.asarray(p.interval(level)) for name, p in predictives.items()}
    axes = _panels(len(predictives), len(classes))
    shown = {name: _spread_over(y, of) for name, of in classes.items()}
    x_limits = _limits(y)
    y_limits = _limits(*(ends[:, i] for ends in intervals.values() for i in shown.values()))
    all_sd = np.concatenate([p.sd for p in predictives.values()])
    scale = {"vmin": all_sd.min(), "vmax": all_sd.max(), "cmap": "viridis"}
    for row, (model, (lower, upper)) in zip(axes, intervals.items()):
        mean, sd = predictives[model].mean, predictives[model].sd
        for ax, (name, i) in zip(row, shown.items()):
            missed = (y[i] < lower[i]) | (upper[i] < y[i])
            hit, miss = i[~missed], i[missed]
            ax.vlines(y[hit], lower[hit], upper[hit], color=COVERS, lw=1, alpha=0.3)
            ax.vlines(y[miss], lower[miss], upper[miss], color=MISSES, lw=2)
            points = ax.scatter(y[i], mean[i], c=sd[i], **scale, s=9, linewidths=0, zorder=3)
            ax.plot(x_limits, x_limits, color="black", lw=1)
            ax.set(xlim=x_limits, ylim=y_limits)
            share, n = tables[model].loc[name, "coverage"], tables[model].loc[name, "n_bags"]
            off = abs(share - level) > 3 * np.sqrt(level * (1 - level) / n)
            _note(ax, f"{share:.0%} hold the truth", MISSES if off else COVERS, weight="bold")
        row[0].set_ylabel(f"{model}\npredicted label", weight="bold")
    for ax, (name, of) in zip(axes[0], classes.items()):
        ax.set_title(_title(name, of.sum()))
    for ax in axes[-1]:
        ax.set_xlabel("true label")
    figure = axes[0, 0].figure
    figure.colorbar(points, ax=axes, label="predictive sd", aspect=40, pad=0.01)
    figure.suptitle(f"{level:.0%} of the bars should cross the line; orange ones miss the truth")
    return figure


def calibration(y, predictive, sizes=None, edges=None, *, ax=None):
    """Share of labels inside central intervals against the probability of the intervals.

    The shaded band, two standard errors about the diagonal, is where calibrated predictions
    of all bags stay.

    Parameters
    ----------
    y : array, shape (n,), labels
    predictive : see `bdr_stan.metrics`
    sizes : array, shape (n,), number of points of each bag, for a line for each class as well
    edges : see `metrics.size_classes`
    ax : matplotlib Axes; None for a new figure

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError : matplotlib is not installed.
    ValueError : arrays of different lengths or NaN.
    """
    plt = _matplotlib()
    table = metrics.calibration(y, predictive, sizes=sizes, edges=edges)
    if ax is None:
        ax = plt.subplots(figsize=(4.5, 4.5), layout="constrained")[1]
    names = list(dict.fromkeys(table["size"]))
    colours = dict(zip(names, plt.get_cmap("viridis")(np.linspace(0, 0.9, len(names)))))
    colours["all"] = "black"
    for name, of in table.groupby("size", sort=False):
        if name == "all":
            low, high = (of["level"] + sign * 2 * of["se"] for sign in (-1, 1))
            ax.fill_between(of["level"], low, high, color="0.9", linewidth=0)
        label = "all bags" if name == "all" else _title(name)
        ax.plot(of["level"], of["coverage"], "o-", ms=3, color=colours[name], label=label)
    _diagonal(ax, (0, 1))
    return _coverage_axes(ax, "share of labels inside")


def shrinkage_spectrum(lam, eta=None, sizes=(1, 5, 20, 100, 1000), *, ax=None):
    """How much of each coordinate of a bag's embedding shrinkage keeps, for several bag sizes.

    The eigenvalues eta / (eta + lambda_k / N) of R_eta (R_eta + Sigma / N)^-1, largest first. The
    legend has their sum, the effective number of coordinates that N points show.

    Parameters
    ----------
    lam : array, shape (d,), within-bag variances from `moments.joint_basis`; or a fitted BDR or
        Shrinkage, whose variances are taken
    eta : float, > 0, scale of the prior of the embeddings; None, with a fitted model alone, for
        its posterior median
    sizes : numbers of points of a bag
    ax : matplotlib Axes; None for a new figure

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError : matplotlib is not installed.
    ValueError : a model that does not shrink, an eta that is missing or not positive, a size
        below 1.

    Source: Law et al. (2018), Appendix C.
    """
    lam, eta = _shrinkage_of(lam, eta)
    sizes = np.atleast_1d(sizes)
    if not (sizes >= 1).all():
        raise ValueError(f"a bag has at least 1 point, found sizes {sizes.tolist()}")
    plt = _matplotlib()
    if ax is None:
        ax = plt.subplots(figsize=(5.5, 4.6), layout="constrained")[1]
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(sizes)))
    for size, kept, colour in zip(sizes, shrinkage_factors(sizes, np.sort(lam), eta), colours):
        label = f"{_title(f'{size:g}')}: {kept.sum():.1f}"
        ax.plot(np.arange(1, len(lam) + 1), kept, "o-", ms=2.5, lw=1, color=colour, label=label)
    ax.set(xlabel="coordinate, in order of the share", ylabel="share kept", ylim=(-0.02, 1.02))
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.18),  # below: the lines leave no corner free
        ncols=3,
        frameon=False,
        fontsize="small",
        title=f"effective coordinates, of {len(lam)}, in a bag of",
        title_fontsize="small",
    )
    return ax


def _shrinkage_of(lam, eta):
    """Variances and scale as numbers, of a fitted model or as given."""
    if hasattr(lam, "coordinates_"):
        posterior = lam.idata["posterior"]
        if "eta" not in posterior:
            raise ValueError(f"{type(lam).__name__} does not shrink embeddings: pass a fitted BDR")
        eta = float(np.median(posterior["eta"].values)) if eta is None else eta
        lam = lam.coordinates_.lam
    elif hasattr(lam, "fit"):
        raise ValueError(f"this {type(lam).__name__} has no shrinkage to draw: pass a fitted BDR")
    if eta is None or not eta > 0:
        raise ValueError(f"eta, the scale of the embeddings' prior, must be > 0, found {eta}")
    return np.asarray(lam, dtype=float), eta


def landmarks(points, landmarks, features=(0, 1), *, n_points=2000, seed=0, ax=None):
    """Landmarks among a sample of the points.

    Parameters
    ----------
    points : array, shape (n, p), points; or Bags, or a list of arrays, one a bag
    landmarks : array, shape (d, p), or a fitted model, whose landmarks are taken
    features : pair of column numbers (or names, where the bags have names), or "principal" for
        the first two principal axes of the sample
    n_points : int, at most so many points are drawn, without replacement
    seed : int or numpy Generator, of the sample
    ax : matplotlib Axes; None for a new figure

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError : matplotlib is not installed.
    ValueError : points of one feature or of another number than the landmarks, or a feature
        that is not there.
    """
    sample, names = _sample(points, n_points, np.random.default_rng(seed))
    landmarks = np.asarray(getattr(landmarks, "landmarks_", landmarks), dtype=float)
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
    if ax is None:
        ax = _matplotlib().subplots(figsize=(4.5, 4.5), layout="constrained")[1]
    ax.plot(*sample.T, ".", ms=2.5, color=GUIDE, label=f"{len(sample)} points")
    ax.plot(*landmarks.T, "o", ms=5, mec="white", mew=0.6, color=MISSES,
            label=f"{len(landmarks)} landmarks")  # fmt: skip
    ax.set(xlabel=labels[0], ylabel=labels[1])
    ax.legend(frameon=True, fontsize="small")
    return ax


def _sample(points, n, rng):
    """At most n points, and the names of their features if they have names."""
    if isinstance(points, np.ndarray) and points.ndim == 2:
        few = len(points) <= n
        return (points if few else points[rng.choice(len(points), n, replace=False)]), None
    bags = as_bags(points)
    return bags.sample_points(n, rng), bags.features


def _columns(features, names, p):
    """Two column numbers, of numbers or names."""
    if isinstance(features, str) or len(features) != 2:
        raise ValueError(f"features must be two columns or 'principal', found {features!r}")
    known = list(range(p)) if names is None else [*range(p), *names]
    for feature in features:
        if feature not in known:
            raise ValueError(f"there is no feature {feature!r}; there are: {known}")
    return [names.index(f) if isinstance(f, str) else f for f in features]


def reliability(predictives, y, sizes, edges=None, *, n_bins=5):
    """Share of the second class against its predicted probability, one panel a class of sizes.

    A model whose probabilities are right has its points on the diagonal, but for chance: each
    bar reaches two standard errors of the share to either side of it. Points above the diagonal
    on the right and below it on the left are too unsure, the other way round too sure.
    Points are the larger, the more bags they stand for.

    Parameters
    ----------
    predictives : dict, name of a model -> class predictive, see `bdr_stan.metrics`
    y : array, shape (n,), labels
    sizes : array, shape (n,), number of points of each bag
    edges : see `metrics.size_classes`
    n_bins : int, bins of equal width of the predicted probability

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ImportError : matplotlib is not installed.
    ValueError : no model, arrays of different lengths, or a label that is no class.
    """
    if not predictives:
        raise ValueError("there is no model to draw: pass at least one predictive")
    tables = {
        name: metrics.reliability(y, predictive, n_bins, sizes=sizes, edges=edges)
        for name, predictive in predictives.items()
    }
    classes = metrics.size_classes(sizes, edges)
    axes = _panels(1, len(classes))[0]
    for ax, (name, of) in zip(axes, classes.items()):
        _diagonal(ax, (0, 1))
        for (model, table), colour in zip(tables.items(), cycle(MODELS)):
            row = table[table["size"] == name]
            ax.errorbar(
                row["predicted"], row["observed"], 2 * row["se"], color=colour, lw=1, capsize=2
            )
            area = 10 + 90 * row["n_bags"] / of.sum()
            ax.scatter(row["predicted"], row["observed"], area, color=colour, label=model)
        ax.set(title=_title(name, of.sum()), xlabel="predicted probability")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    second = next(iter(predictives.values())).classes[1]
    axes[0].set_ylabel(f'share of "{second}"')
    axes[0].legend(frameon=False, loc="upper left", fontsize="small")
    return axes[0].figure


def point_calibration(tables, *, ax=None):
    """Share of points whose true rate lies in central intervals, a curve for each method.

    Calibrated posteriors follow the diagonal; those too sure of themselves lie below it.

    Parameters
    ----------
    tables : dict, name of a method -> DataFrame with columns level and coverage, such as
        `metrics.point_calibration` makes
    ax : matplotlib Axes; None for a new figure

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError : matplotlib is not installed.
    ValueError : no method, or more than there are colours.
    """
    if not 0 < len(tables) <= len(MODELS):
        raise ValueError(f"draw from 1 to {len(MODELS)} methods, found {len(tables)}")
    if ax is None:
        ax = _matplotlib().subplots(figsize=(4.5, 4.5), layout="constrained")[1]
    for (name, table), colour, marker in zip(tables.items(), MODELS, "osD^vP"):
        style = {"color": colour, "marker": marker, "ms": 4.5, "lw": 1.5, "clip_on": False}
        ax.plot(table["level"], table["coverage"], **style, zorder=3, label=name)
    ax.plot((0, 1), (0, 1), "--", color=GUIDE, lw=1, zorder=0, label="calibrated")
    return _coverage_axes(ax, "share of points whose true rate is inside")


def rate_map(
    values, row, col, *, title=None, label="rate", log=False, cmap="viridis", limits=None, ax=None
):
    """Values of pixels on their grid; cells without a pixel, or with NaN, stay blank.

    Parameters
    ----------
    values : array, shape (n,)
    row, col : arrays of integers, shape (n,), place of each pixel, row 0 at the top
    title : str, optional
    label : str, of the colour bar, with the unit
    log : bool, whether colours follow the logarithm
    cmap : str, matplotlib colour map
    limits : (low, high), values of the first and last colour; None for those of the map
    ax : matplotlib Axes; None for a new figure

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError : matplotlib is not installed.
    ValueError : arrays of different lengths, no value to draw, a cell that has two pixels, places
        that are not integers, or values that have no logarithm.
    """
    at = _cells(row, col)
    ax = _map_axes(1, at)[0] if ax is None else ax
    _draw_maps({title: values}, at, [ax], label=label, log=log, cmap=cmap, limits=limits)
    return ax


def rate_maps(maps, row, col, *, shared=(), each=None, **common):
    """Maps of the same pixels beside one another, such as a true rate, its posterior mean and sd.

    Parameters
    ----------
    maps : dict, title -> values, array, shape (n,)
    row, col : arrays of integers, shape (n,), place of each pixel, row 0 at the top
    shared : titles of maps, side by side, that share one colour scale and bar
    each : dict, title -> dict of options of `rate_map` (label, log, cmap, limits) for this map;
        among shared maps those of the first hold
    **common : options of `rate_map` for all maps

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ImportError : matplotlib is not installed.
    ValueError : no map, a title in `shared` or `each` that is no map's, or as `rate_map`.

    Examples
    --------
    >>> rate_maps(
    ...     {"true rate": truth, "posterior mean": p.mean, "P(rate > 2)": p.exceedance(2)},
    ...     row, col, label="cases per 1,000", log=True, shared=["true rate", "posterior mean"],
    ...     each={"P(rate > 2)": {"label": "probability", "log": False, "limits": (0, 1)}},
    ... )
    """
    each = each or {}
    if not maps:
        raise ValueError("there is no map to draw: pass at least one array of values")
    for title in (*shared, *each):
        if title not in maps:
            raise ValueError(f"there is no map {title!r}; there are: {', '.join(maps)}")
    at = _cells(row, col)
    axes = dict(zip(maps, _map_axes(len(maps), at)))
    groups = [[title] for title in maps if title not in shared]
    for group in [*groups, list(shared)] if shared else groups:
        options = common | each.get(group[0], {})
        _draw_maps({t: maps[t] for t in group}, at, [axes[t] for t in group], **options)
    return next(iter(axes.values())).figure


def _cells(row, col):
    """Cells of the pixels in the smallest grid that holds them: two arrays, from 0."""
    row, col = np.asarray(row), np.asarray(col)
    if row.ndim != 1 or row.shape != col.shape or len(row) == 0:
        raise ValueError(f"row has shape {row.shape} and col {col.shape}: pass one number a pixel")
    if row.dtype.kind not in "iu" or col.dtype.kind not in "iu":
        raise ValueError(f"row and col must be integers, found {row.dtype} and {col.dtype}")
    at = row - row.min(), col - col.min()
    pixels = np.zeros((at[0].max() + 1, at[1].max() + 1), int)
    np.add.at(pixels, at, 1)
    if pixels.max() > 1:
        i = int(np.argmax(pixels[at] > 1))
        raise ValueError(
            f"the cell in row {row[i]} and col {col[i]} has {pixels[at][i]} pixels: pass each once"
        )
    return at


def _map_axes(n, at):
    """Axes for n maps in a row."""
    height, width = (k.max() + 1 for k in at)
    side = 2.7 if n > 1 else 4.5
    size = (n * side + 0.2, side * np.clip(height / width, 0.4, 2) + 0.9)
    figure, axes = _matplotlib().subplots(1, n, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, wspace=0)
    return axes[0]


def _draw_maps(maps, at, axes, *, label="rate", log=False, cmap="viridis", limits=None):
    """Maps on one colour scale; its bar has plain numbers, and arrows where values go beyond it."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    cells = [_picture(values, at, title, log) for title, values in maps.items()]
    lowest, highest = min(c.min() for c in cells), max(c.max() for c in cells)
    low, high = limits or (lowest, highest)
    norm = (LogNorm if log else Normalize)(low, high)
    for ax, picture, title in zip(axes, cells, maps):
        image = ax.imshow(picture, cmap=cmap, norm=norm, interpolation="nearest")
        ax.set(xticks=[], yticks=[], title=title)
        ax.spines[:].set_visible(False)
    bar = axes[0].figure.colorbar(
        image,
        ax=axes,
        location="bottom",
        label=label,
        aspect=20 * len(axes),
        pad=0.02,
        extend=["neither", "max", "min", "both"][2 * (lowest < low) + (highest > high)],
    )
    bar.outline.set_visible(False)
    if log:
        bar.locator = LogLocator(subs=(1, 3) if high < 1e4 * low else (1,), numticks=6)
        bar.formatter = StrMethodFormatter("{x:g}")
        bar.minorticks_off()


def _picture(values, at, title, log):
    """The values on their grid, masked where there are none."""
    values, name = np.asarray(values, dtype=float), "the map" if title is None else repr(title)
    if values.shape != at[0].shape:
        raise ValueError(f"{name} has values of shape {values.shape}, expected {at[0].shape}")
    if not np.isfinite(values).any():
        raise ValueError(f"{name} has no value to draw")
    if log and not np.nanmin(values) > 0:
        i = int(np.nanargmin(values))
        raise ValueError(f"{name} is {values[i]:.6g} at pixel {i}: log=True needs values > 0")
    picture = np.full((at[0].max() + 1, at[1].max() + 1), np.nan)
    picture[at] = values
    return np.ma.masked_invalid(picture)


def _matplotlib():
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib, which is not installed: pip install 'bdr-stan[plots]'"
        ) from error
    return plt


def _panels(n_rows, n_columns):
    """A grid of Axes on common scales, shape (n_rows, n_columns)."""
    _, axes = _matplotlib().subplots(
        n_rows,
        n_columns,
        figsize=(2.6 * n_columns + 0.9, 2.6 * n_rows + 0.6),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    return axes


def _given(axes, n_classes):
    axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(axes) != n_classes:
        raise ValueError(f"there are {n_classes} classes of bag sizes, but {len(axes)} axes")
    return axes


def _limits(*values):
    """Smallest and largest value, with a margin."""
    low, high = min(np.min(v) for v in values), max(np.max(v) for v in values)
    margin = 0.04 * (high - low) or 1
    return low - margin, high + margin


def _spread_over(y, of):
    """Indices of at most `BARS_PER_PANEL` bags of a class, evenly spaced in the order of y."""
    i = np.flatnonzero(of)
    i = i[np.argsort(y[i], kind="stable")]
    return i[np.unique(np.linspace(0, len(i) - 1, BARS_PER_PANEL).round().astype(int))]


def _coverage_axes(ax, share):
    """Frame of the curves of shares inside intervals against the intervals' probability."""
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        xlabel="probability of the central interval",
        ylabel=share,
    )
    ax.legend(frameon=False, loc="upper left")
    return ax


def _diagonal(ax, limits):
    ax.plot(limits, limits, "--", color=GUIDE, lw=1, zorder=0)


def _title(name, n=None):
    title = f"{name} point" if name == "1" else f"{name} points"
    return title if n is None else f"{title} ({n} bags)"


def _note(ax, text, colour="black", weight="normal"):
    ax.text(
        0.03,
        0.97,
        text,
        transform=ax.transAxes,
        va="top",
        color=colour,
        weight=weight,
        fontsize="small",
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5},
    )
