"""Predictions as a table with one row per bag.

The points of `PartitionedBags` stay in their parts, as do the mean embeddings of bags within one
part: parts return only rows of the table, and the sums of bags that are cut.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from sklearn.utils.metaestimators import available_if

from bdr_stan.bags import BagsLike, PartitionedBags
from bdr_stan.embedding.mean_embedding import BagSums, Embedding, results_by_part
from bdr_stan.labels import WITH_LABELS, Labels
from bdr_stan.predictive.distributions import check_level
from bdr_stan.questions.protocol import Fit
from bdr_stan.types import DataFrame


class PredictionTable(Fit):
    """Predictions as a table."""

    @available_if(lambda model: hasattr(model, "predictive"))
    def predict_table(self: Any, bags: BagsLike, *, level: float = 0.95) -> DataFrame:
        """Predictions of bags with their intervals, as a table.

        Parameters
        ----------
        bags : Bags, PartitionedBags, or list of n arrays, shapes (n_points, p)
            Bags in partitions are predicted in their workers, which send only the table.
        level : float, 0 < level < 1, default 0.95
            Probability of the intervals.

        Returns
        -------
        pandas DataFrame of n rows, indexed by the bags' ids under their column's name
            n_points (with several samples "n_points[houses]" and so on), mean, sd, lower, upper;
            for classes n_points, predicted, and probability, lower, upper of the predicted class;
            for ordered categories lower and upper are categories. Estimators with `familiarity` add
            this column, a p-value: small if a bag is unlike the training bags.
        """
        import pandas as pd

        check_level(level)  # raises before any work is done
        bags = self.like_training(bags)
        by_program = getattr(self, "by_program", False)  # at once, for Stan runs once
        if by_program or not hasattr(self, "predictive_features"):
            table = self.predictive(bags).to_dataframe(level)
        elif isinstance(bags, PartitionedBags):
            # Workers get a copy without attributes that predictions do not use.
            needed = {name: self.result_.groups[name] for name in ("posterior", "constant_data")}
            model = self.with_result(replace(self.result_, groups=needed))
            table = _table_by_parts(model, bags, level)
        else:
            table = _table(self, self.embedding_of(bags), self.labels_of_new(bags), level)
        sizes = {
            f"n_points[{name}]" if name else "n_points": bags.sizes_of(name)
            for name in bags.samples
        }
        table = pd.concat([pd.DataFrame(sizes, index=table.index), table], axis=1)
        return table.set_index(pd.Index(bags.index, name=bags.id_name))


def _table_by_parts(model, bags, level):
    """Predictions of all bags, in their order."""
    import pandas as pd

    sizes = bags.effective_sizes
    per_bag = model.labels_of_new(bags).given | model.covariates_of(bags)
    of_bags = partial(_table_of_part, model=model, level=level, names=list(per_bag))
    joined = BagSums.empty(int(bags.cut.sum()), model.feature_map_.n_columns, scatter=False)
    tables = results_by_part(
        bags, model.feature_map_, of_bags, sizes, *per_bag.values(), joined=joined
    )
    return pd.concat([table.set_axis(which) for which, table in tables]).sort_index()


def _table_of_part(mean, sizes, *values, model, level, names):
    """Predictions from embeddings, sizes, and other `values` of these names."""
    per_bag = dict(zip(names, values, strict=True))
    label_data = {name: per_bag.pop(name) for name in WITH_LABELS if name in per_bag}
    labels = Labels(classes=getattr(model, "classes_", None), **label_data)
    return _table(model, Embedding(sizes, mean, None, **per_bag), labels, level)


def _table(model, embedding, labels, level):
    """Predictions, and familiarity, of embedded bags."""
    table = model.predictive_features(embedding, labels).to_dataframe(level)
    distances = model.training_distances
    return table if distances is None else table.assign(familiarity=distances.p_values(embedding))
