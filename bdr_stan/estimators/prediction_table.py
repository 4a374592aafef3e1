"""Predictions as a table with one row per bag.

The points of `PartitionedBags` stay in their parts, as do the mean embeddings of bags within one
part: parts return only rows of the table, and the sums of bags that are cut.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bdr_stan.bags import Bags, Samples
from bdr_stan.embedding.mean_embedding import BagSums, Embedding, sums_of_part
from bdr_stan.embedding.replicates import effective_sizes
from bdr_stan.types import Array

if TYPE_CHECKING:
    import pandas as pd


def prediction_table(model: Any, bags: Bags | Samples, level: float) -> "pd.DataFrame":
    """Predictions with intervals, one row per bag; see `BagEstimator.predict_table`."""
    import pandas as pd

    by_program = getattr(model, "by_program", False)  # at once, for Stan runs once
    if by_program or isinstance(bags, Samples) or not hasattr(model, "predictive_features"):
        table = pd.DataFrame(model.predictive(bags)._columns(level))
    else:
        table = _table_by_parts(_for_predictions(model), bags, level)
    sizes = {"n_points": bags.sizes}
    if isinstance(bags, Samples):
        sizes = {f"n_points[{name}]": bags.sizes_of(name) for name in bags.samples}
    table = pd.concat([pd.DataFrame(sizes, index=table.index), table], axis=1)
    return table.set_index(pd.Index(bags.index, name=bags.id_name))


def _for_predictions(model):
    """A copy of the model for workers, without attributes that predictions do not use."""
    light = copy.copy(model)
    needed = {name: model.result_.groups[name] for name in ("posterior", "constant_data")}
    light.result_ = replace(model.result_, groups=needed)
    return light


def _table_by_parts(model, bags, level):
    """Predictions of all bags, in their order."""
    import pandas as pd

    sizes = effective_sizes(bags, model.feature_map_)
    cut, known = bags.cut, model.known_of_bags(bags)
    place = np.cumsum(cut) - 1  # of a bag among those that are cut
    joined = BagSums.empty(int(cut.sum()), model.feature_map_.n_columns, scatter=False)
    predict = partial(_predict_part, names=list(known), model=model, level=level)
    tables = []
    for which, (columns, pieces) in bags.map_parts(predict, sizes, cut, *known.values()):
        own = cut[which]
        tables.append(pd.DataFrame(columns, index=which[~own]))
        joined.join(place[which[own]], pieces, None)
    if cut.any():
        known = {name: values[cut] for name, values in known.items()}
        columns = _columns(model, Embedding(sizes[cut], joined.mean, None, **known), level)
        tables.append(pd.DataFrame(columns, index=np.flatnonzero(cut)))
    return pd.concat([table for table in tables if len(table)]).sort_index()


def _predict_part(
    bags: Bags,
    sizes: Array,
    cut: Array,
    *known: Array,
    names: list[str],
    model: Any,
    level: float,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Array], BagSums]:
    """Predictions of bags that have all their points here, and the sums of other bags."""
    sums = sums_of_part(bags, features=model.feature_map_, progress=progress)
    pieces = BagSums(sums.weight[cut], sums.mean[cut], None)
    if cut.all():
        return {}, pieces
    of_whole = {name: values[~cut] for name, values in zip(names, known, strict=True)}
    whole = Embedding(sizes[~cut], sums.mean[~cut], None, **of_whole)
    return _columns(model, whole, level), pieces


def _columns(model, embedding, level):
    """Predictions of embedded bags, and their familiarity, by name."""
    predicted = model.predictive_features(embedding)._columns(level)
    return predicted | model.familiarity_columns(embedding)
