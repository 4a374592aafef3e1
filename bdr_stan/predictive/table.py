"""Predictive distributions as tables."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bdr_stan.types import Array

if TYPE_CHECKING:
    import pandas as pd

# What other libraries call the attributes of a distribution.
_CALLED_HERE = {
    "std": "sd",
    "stddev": "sd",
    "scale": "sd",
    "median": "quantile(0.5)",
    "quantiles": "quantile(q)",
    "ppf": "quantile(q)",
    "hdi": "interval(level)",
    "confidence_interval": "interval(level)",
    "pdf": "log_prob(y)",
    "logpdf": "log_prob(y)",
    "rvs": "sample(size)",
}
# Completions of a user's prompt omit them.
_OF_MODULES = {"components", "of_bags", "pooled"}


class Tabular:
    """A distribution for each of n bags or points, with mean, sd and intervals."""

    ids: Array | None = None
    id_name = "bag"

    def __len__(self) -> int:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        called = f"; it is called {_CALLED_HERE[name]} here" if name in _CALLED_HERE else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{called}")

    def __dir__(self) -> list[str]:
        return [
            name for name in super().__dir__() if name not in ("components", "of_bags", "pooled")
        ]

    def of_bags(self, bags: Any) -> Self:
        """This distribution with the ids of bags."""
        self.ids, self.id_name = bags.ids, bags.id_name
        return self

    def to_dataframe(self, level: float = 0.95) -> "pd.DataFrame":
        """The distributions in a table with one row per bag or point.

        Parameters
        ----------
        level : float, 0 < level < 1, default 0.95
            Probability of the intervals.

        Returns
        -------
        pandas DataFrame of n rows, indexed by the bags' ids
            mean, sd, lower, upper; of classes predicted, and probability, lower, upper of the
            predicted class.
        """
        import pandas as pd

        ids = np.arange(len(self)) if self.ids is None else self.ids
        return pd.DataFrame(self._columns(level), index=pd.Index(ids, name=self.id_name))

    def _columns(self, level: float) -> dict[str, Array]:
        """Columns of the table by their names, each of shape (n,)."""
        any_kind: Any = self
        lower, upper = any_kind.interval(level)
        return {"mean": any_kind.mean, "sd": any_kind.sd, "lower": lower, "upper": upper}
