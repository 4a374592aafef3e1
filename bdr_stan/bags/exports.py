"""The ways out of `Bags`: tables, and a summary."""

import numpy as np

from bdr_stan.bags.base import BagsBase
from bdr_stan.extras import require
from bdr_stan.types import Array, DataFrame


class Exports(BagsBase):
    """What leads out of `Bags`, a subclass."""

    points: Array
    weights: Array | None

    def to_dataframe(self) -> "DataFrame":
        """The points in a table with one row per point.

        Returns
        -------
        pandas DataFrame, N_points rows
            The bag's id in a column called `id_name`, the columns of the points by their names,
            else x0, x1, ...; a column weight if the points have weights.

        Notes
        -----
        Libraries that support ``__arrow_c_stream__`` accept the bags themselves as this table:
        ``polars.DataFrame(bags)``, ``pyarrow.table(bags)``, or ``duckdb.sql("from bags")``.

        Examples
        --------
        >>> from bdr_stan import Bags
        >>> Bags.from_list([[[1.0]], [[2.0], [3.0]]], features=["age"]).to_dataframe()
           bag  age
        0    0  1.0
        1    1  2.0
        2    1  3.0
        """
        import pandas as pd

        table = pd.DataFrame(self.points, columns=self.names_of_columns)
        table.insert(0, self.id_name, np.repeat(self.index, self.sizes), allow_duplicates=True)
        return table if self.weights is None else table.assign(weight=self.weights)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table of `to_dataframe` for libraries that read Arrow, such as polars and DuckDB."""
        require("Arrow tables need pyarrow: pip install 'bdr-stan[parquet]'", "pyarrow")
        import pyarrow as pa

        table = pa.Table.from_pandas(self.to_dataframe(), preserve_index=False)
        return table.__arrow_c_stream__(requested_schema)

    def describe(self) -> "DataFrame":
        """Summary of the points' columns, their number per bag and the bags' metadata.

        Returns
        -------
        pandas DataFrame, one row per column
            count, mean, std, min, 25%, 50%, 75%, max, as in pandas; "points per bag" and numeric
            metadata are over bags.

        Examples
        --------
        >>> from bdr_stan import Bags
        >>> bags = Bags.from_list([[[1.0]], [[2.0], [3.0]]], features=["age"])
        >>> bags.describe()[["count", "mean", "min", "max"]]
                        count  mean  min  max
        age               3.0   2.0  1.0  3.0
        points per bag    2.0   1.5  1.0  2.0
        """
        import pandas as pd

        per_bag = pd.DataFrame({"points per bag": self.sizes})
        if self.metadata is not None:
            numbers = self.metadata.select_dtypes("number").reset_index(drop=True)
            per_bag = pd.concat([per_bag, numbers], axis=1)
        points = pd.DataFrame(self.points, columns=self.names_of_columns)
        return pd.concat([points.describe().T, per_bag.describe().T])

    @property
    def names_of_columns(self) -> list[str]:
        """Names of the points' columns, x0, x1, ... if they have none."""
        return self.features or [f"x{k}" for k in range(self.n_features)]
