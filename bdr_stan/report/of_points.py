"""What a fit makes of points: their influence, what shrinkage keeps, the rates inside bags."""

from functools import partial

import numpy as np

from bdr_stan import metrics, plots
from bdr_stan.bags import PartitionedBags
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.report.page import Section, Table, Text
from bdr_stan.report.pictures import picture
from bdr_stan.report.told import Told

_MOST_COLUMNS = 12
_MOST_POINTS = 200_000  # whose rates a map shows
_DRAWS = 200
_PLACES = (("lon", "lat"), ("longitude", "latitude"), ("x", "y"), ("easting", "northing"))


def influence(told: Told) -> Section | None:
    """What values of each column do; None of models of which that cannot be said."""
    if hasattr(told.model, "influence_along"):
        whose = "landmarks, which stand for the points" if told.bags is None else "points"
        text = (
            "What points that have a value in a column add to the label of their bag, the other "
            f"columns being as they are among the {whose}. Zero is the average of all bags."
        )
        return Section("influence", "What each column adds", [Text(text), *_along(told, _added)])
    if hasattr(told.model, "predict_points") and told.bags is not None:
        text = (
            "The average rate of points that have a value in a column, the other columns being as "
            "they are among the points."
        )
        return Section(
            "influence", "The rate along each column", [Text(text), *_along(told, _rate)]
        )
    return None


def _along(told, draw):
    """A drawing for each column, of the first ones where there are many."""
    shown = told.columns[:_MOST_COLUMNS]
    if len(told.columns) > len(shown):
        yield Text(
            f"The first {len(shown)} of {len(told.columns)} columns; bdr_stan.plots draws any."
        )
    for k, name in enumerate(shown):
        yield picture(
            f"influence-{k}",
            f"What values of {name} do, with a 90% band.",
            f"Along {name}.",
            partial(draw, told, k, name),
        )


def _added(told, k, name):
    ax = plots.influence(told.model, _column(told, k), told.bags, n_points=200)
    ax.set_xlabel(name)
    return ax


def _rate(told, k, name):
    ax = plots.rate_along(told.model, _column(told, k), told.bags)
    ax.set(xlabel=name, ylabel=f"average rate, {told.label} per weight")
    return ax


def _column(told, k):
    """A column by its name, or by its number where columns have none."""
    return told.columns[k] if hasattr(told.model, "feature_names_in_") else k


def shrinkage(told: Told) -> Section | None:
    """How much of their embedding bags of each size keep; None of models that do not shrink."""
    import pandas as pd

    if "eta" not in told.model.result_.groups["posterior"] or told.sizes is None:
        return None
    eta = float(np.median(told.model.result_.draws("eta")))
    lam = told.model.coordinates_.lam
    kept = shrinkage_factors(told.sizes, lam, eta).sum(axis=1)
    classes = metrics.size_classes(told.sizes)
    rows = {
        name: {"bags": int(of.sum()), "coordinates kept": float(kept[of].mean())}
        for name, of in classes.items()
    }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("points in a bag")
    at = np.unique(np.quantile(told.sizes, [0, 0.25, 0.5, 0.75, 1]).round().clip(1))
    return Section(
        "shrinkage",
        "What shrinkage did",
        [
            Text(
                "A bag of few points says little of its distribution: its embedding is drawn to "
                "the average of all bags, most in coordinates in which points scatter most. The "
                f"larger a bag, the more it keeps of its {len(lam)} coordinates."
            ),
            Table(f"Effective number of coordinates, of {len(lam)}", table.astype({"bags": int})),
            picture(
                "shrinkage",
                "Share of each coordinate of the embedding that is kept, a line for each of some "
                "bag sizes.",
                "What part of each coordinate bags keep: the smallest and largest, and the "
                "quartiles of the sizes.",
                lambda: plots.shrinkage_spectrum(told.model, sizes=at),
            ),
        ],
    )


def rates(told: Told) -> Section | None:
    """Maps of the rates of points that have places; None of models without rates."""
    if not hasattr(told.model, "predict_points"):
        return None
    return Section("rates", "Rates inside the bags", list(_maps(told)))


def _maps(told):
    if told.bags is None:
        return [
            Text(
                "The fit does not keep its points: pass its bags (bags= in Python, the table on "
                "the command line) for maps of their rates."
            )
        ]
    if told.bags.n_points > _MOST_POINTS:
        return [Text(f"There are more than {_MOST_POINTS} points: too many for maps in a page.")]
    place = _place(told)
    if place is None:
        return [
            Text(
                "No columns are called lon and lat, x and y, longitude and latitude, or easting "
                "and northing, so there are no maps."
            )
        ]
    bags = told.bags.load() if isinstance(told.bags, PartitionedBags) else told.bags
    rate = told.model.predict_points(bags, n_draws=_DRAWS)
    x, y = bags.points[:, list(place)].T
    values = {"posterior mean": rate.mean, "posterior sd": rate.sd}
    return [
        picture(
            f"map-{k}",
            f"Map of the {title} of the rate at each point.",
            f"The {title} of the rate, {told.label} per weight, where the points lie.",
            partial(plots.point_map, each, x, y, label="rate"),
            on_white=True,
        )
        for k, (title, each) in enumerate(values.items())
    ]


def _place(told):
    """Which two columns say where a point lies."""
    names = [name.lower() for name in told.bags.features or ()]
    for pair in _PLACES:
        if set(pair) <= set(names):
            return tuple(names.index(name) for name in pair)
    return None
