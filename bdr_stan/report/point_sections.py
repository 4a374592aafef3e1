"""Sections on the influence of points, shrinkage, and rates within bags."""

from functools import partial

import numpy as np

from bdr_stan import plots
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.plots.style import pyplot
from bdr_stan.questions.influence import rates_along
from bdr_stan.report.fit_summary import FitSummary, without_points
from bdr_stan.report.page import Folded, Section, Table, Text, picture

# Limits that keep the page small and quick to make.
_OPEN_COLUMNS, _MAX_COLUMNS = 3, 12
_MAX_MAP_POINTS = 200_000
_MAP_DRAWS = 200  # enough for a mean and an sd to two digits
_COORDINATE_NAMES = (("lon", "lat"), ("longitude", "latitude"), ("x", "y"), ("easting", "northing"))


def influence(fit: FitSummary) -> Section | None:
    """Partial dependence on each column; None for models without it and users' programs."""
    if getattr(fit.model, "by_program", False):
        return None
    if hasattr(fit.model, "influence_along"):
        sample = "landmarks, which represent the points" if fit.bags is None else "points"
        title = "What each column adds"
        text = (
            f"Partial dependence: what points with a given value of a column add to the "
            f"{_what(fit)} of their bag, averaged over the other columns of the {sample}. Zero is "
            "the average of all bags."
        )
    elif hasattr(fit.model, "predict_points") and fit.bags is not None:
        title = "The rate along each column"
        text = (
            "Partial dependence: the average rate of points with a given value of a column, over "
            "the other columns of the points."
        )
    else:
        return None
    return Section("influence", title, [Text(text), *_along(fit)])


def _what(fit):
    """What the columns add to."""
    kind = fit.model.label_model
    meaning = kind.predictor_meaning(fit.classes)
    return f"{kind.predictor}, {meaning}," if meaning else kind.predictor


def _along(fit):
    """Figures of the columns, by the range of their curves, largest first; all but three folded."""
    columns = [
        (
            part,
            name if hasattr(part.model, "feature_names_in_") else k,
            f"{name} of {sample}" if sample else name,
        )
        for sample, part in fit.samples.items()
        for k, name in enumerate(part.columns)
    ]
    ranges = [_range_along(part, column) for part, column, _ in columns]
    shown = np.argsort(-np.array(ranges), kind="stable")[:_MAX_COLUMNS]
    pictures = [
        picture(
            f"influence-{place}",
            f"Partial dependence on {columns[k][2]}, with a 90% band.",
            f"Along {columns[k][2]}.",
            partial(_draw_along, *columns[k]),
        )
        for place, k in enumerate(shown)
    ]
    if len(ranges) > len(shown):
        yield Text(f"{len(shown)} of {len(ranges)} columns; bdr_stan.plots draws any.")
    yield from pictures[:_OPEN_COLUMNS]
    if len(pictures) > _OPEN_COLUMNS:
        yield Folded("Columns with less influence", pictures[_OPEN_COLUMNS:])


def _range_along(fit, column):
    if hasattr(fit.model, "influence_along"):
        _, added = fit.model.influence_along(column, fit.bags, n_points=50, n_draws=50)
        return np.ptp(added.mean)
    _, rates = rates_along(fit.model, fit.bags, column, n_points=50, n_draws=20)
    return np.ptp(rates.mean(axis=1))


def _draw_along(fit, column, name):
    of_rates = not hasattr(fit.model, "influence_along")
    ax = plots.influence(fit.model, column, fit.bags, n_points=None if of_rates else 200)
    if of_rates:
        ax.set_ylabel(f"average {_rate_unit(fit)}")
    ax.set_xlabel(name)
    return ax


def _rate_unit(fit):
    """What a rate is: labels per trial, per point, or per unit of the column with the weights."""
    if fit.model.likelihood == "binomial":
        return f"{fit.label} per trial"
    if not fit.bags.weighted:
        return f"{fit.label} per point"
    columns = fit.bags.columns
    weight = "weight" if columns is None or columns.weight is None else columns.weight
    return f"{fit.label} per unit of {weight}"


def shrinkage(fit: FitSummary) -> Section | None:
    """Shrinkage of the embeddings by bag size; None without it and for users' programs."""
    by_program = getattr(fit.model, "by_program", False)
    if by_program or "eta" not in fit.model.result_.groups["posterior"] or fit.sizes is None:
        return None
    parts = fit.samples.items()
    blocks = [block for sample, part in parts for block in _shrinkage_blocks(part, sample)]
    return Section("shrinkage", "Shrinkage", blocks)


def _shrinkage_blocks(fit, sample):
    of_sample = f" of {sample}" if sample else ""
    eta = float(np.median(fit.model.result_.draws("eta")))
    lam = fit.model.coordinates_.lam
    kept = shrinkage_factors(fit.sizes, lam, eta).sum(axis=1)
    table = fit.table_by_size(lambda mask: {"coordinates kept": float(kept[mask].mean())})
    sizes = np.unique(np.quantile(fit.sizes, [0, 0.25, 0.5, 0.75, 1]).round().clip(1))
    return [
        Text(
            "A small bag carries little information about its distribution: its embedding is "
            "shrunk towards the average of all bags, most in coordinates with a large variance "
            f"within bags. The larger a bag, the more of its {len(lam)} coordinates{of_sample} "
            "remain."
        ),
        Table(f"Effective number of coordinates{of_sample}, of {len(lam)}", table.drop("all")),
        picture(
            f"shrinkage-{sample}" if sample else "shrinkage",
            f"Share of each coordinate of the embedding{of_sample} that shrinkage keeps, one line "
            "per bag size.",
            f"Share of each coordinate{of_sample} that remains, for the smallest and largest bag "
            "sizes and their quartiles.",
            lambda: plots.shrinkage_spectrum(fit.model, sizes=sizes),
        ),
    ]


def rates(fit: FitSummary) -> Section | None:
    """Maps of rates at points with coordinates; None for models without rates."""
    if not hasattr(fit.model, "predict_points"):
        return None
    lacking = _why_no_maps(fit)
    return Section("rates", "Rates within bags", [Text(lacking)] if lacking else _maps(fit))


def _why_no_maps(fit):
    """A sentence on why rates cannot be drawn; empty if they can."""
    if fit.bags is None:
        return without_points("maps of their rates")
    if fit.bags.n_points > _MAX_MAP_POINTS:
        return f"There are more than {_MAX_MAP_POINTS} points, too many for maps in a report."
    if _coordinates(fit) is None:
        return (
            "There are no maps: no columns are called lon and lat, x and y, longitude and "
            "latitude, or easting and northing."
        )
    return ""


def _maps(fit):
    bags = fit.bags.load()
    rate = fit.model.predict_points(bags, n_draws=_MAP_DRAWS)
    x, y = bags.points[:, _coordinates(fit)].T
    values = {"posterior mean": rate.mean, "posterior sd": rate.sd}
    return [
        picture(
            f"map-{k}",
            f"Map of the {title} of the rate at each point.",
            f"The {title} of the rate at each point, {_rate_unit(fit)}.",
            partial(_draw_map, each, x, y, f"{title}, {_rate_unit(fit)}"),
            on_card=True,
        )
        for k, (title, each) in enumerate(values.items())
    ]


def _draw_map(values, x, y, label):
    width, height = np.ptp(x), np.ptp(y)
    side = 3.6 * np.clip(height / width if width > 0 else 1, 0.4, 2) + 0.7
    ax = pyplot().figure(figsize=(4.8, side), layout="compressed").add_subplot()
    # Squares that fill the plane if points are on a grid.
    square = 230 * np.sqrt(max(width * height, 1e-12) / len(x)) / max(width, height, 1e-6)
    size = float(np.clip(square, 1.5, 9)) ** 2
    points = ax.scatter(x, y, c=values, s=size, marker="s", linewidths=0)
    ax.set(aspect="equal", xlabel="x", ylabel="y")
    ax.figure.colorbar(points, ax=ax, label=label)
    return ax


def _coordinates(fit):
    """Numbers of the two columns with the coordinates of points, or None."""
    names = [name.lower() for name in fit.bags.features or ()]
    for pair in _COORDINATE_NAMES:
        if set(pair) <= set(names):
            return [names.index(name) for name in pair]
    return None
