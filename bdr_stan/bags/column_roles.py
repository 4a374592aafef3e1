"""Which columns of a table are features, bags, weights and metadata."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from bdr_stan.bags.checks import near_names


@dataclass(frozen=True)
class ColumnRoles:
    """Names of a table's columns by role, as the arguments of `Bags.from_dataframe`."""

    bag: str
    features: Sequence[str] | None = None  # None: all without another role
    weight: str | None = None
    metadata: Sequence[str] | None = None
    replicate_weights: Sequence[str] | None = None
    cluster: str | None = None
    strata: str | None = None

    def __post_init__(self) -> None:
        for role in ("bag", "weight", "cluster", "strata"):
            check_is_name(getattr(self, role), role)
        for role in ("features", "metadata", "replicate_weights"):
            names = getattr(self, role)
            if isinstance(names, str):
                raise TypeError(f"{role} must be a list of column names: pass [{names!r}]")
            for name in names or []:
                check_is_name(name, f"each of {role}")

    @property
    def given(self) -> list[str]:
        """All names, each once, unchecked."""
        of_points = [self.weight, *(self.replicate_weights or []), self.cluster, self.strata]
        names = [self.bag, *(self.features or []), *of_points, *(self.metadata or [])]
        return list(dict.fromkeys(name for name in names if name is not None))

    def like(self, like: Any) -> Self:
        """The roles with the features of bags or a fit, or unchanged for None."""
        if like is None:
            return self
        columns = resolve_like(like, self.features, "error", None, "error")
        return replace(self, features=columns.names)

    def named(self, columns: Sequence[Any]) -> list[str]:
        """All names, each once; raises if one is not among the columns or has two roles."""
        for name in columns:
            if not isinstance(name, str):
                raise TypeError(
                    f"the table has a column named {name!r}, which is not text: rename its "
                    "columns, for example with df.columns = df.columns.astype(str)"
                )
        for name in self.given:
            if name not in columns:
                advice = near_names(name, columns)
                if name in (self.metadata or []):
                    advice += (
                        f"; join another table to it first, as df.merge(other, on={self.bag!r})"
                    )
                raise ValueError(f"the table has no column {name!r}: {advice}")
        features, replicates = list(self.features or []), list(self.replicate_weights or [])
        for argument, names in (("features", features), ("replicate_weights", replicates)):
            repeated = [name for k, name in enumerate(names) if name in names[:k]]
            if repeated:
                raise ValueError(
                    f"{argument} names the column {repeated[0]!r} twice: name each once"
                )
        if self.weight in replicates:
            raise ValueError(
                f"column {self.weight!r} is both weight and a replicate: leave it out of one"
            )
        others = [(role, getattr(self, role)) for role in ("bag", "weight", "cluster", "strata")]
        others += [("metadata", name) for name in self.metadata or []]
        others += [("replicate weight", name) for name in replicates]
        for role, name in others:
            if name in features:
                raise ValueError(
                    f"column {name!r} is both {role} and among the features: leave it out of one"
                )
        return self.given

    def with_features(self, columns: Sequence[Any]) -> Self:
        """The roles with the features as a list of names; raises if there are none."""
        named = self.named(columns)
        if self.features is not None and len(self.features) == 0:
            raise ValueError("features is empty: name the columns of a point, or leave it out")
        if self.features is not None:
            return replace(self, features=list(self.features))
        features = [column for column in columns if column not in named]
        if not features:
            raise ValueError("the table has no column left to be a feature")
        return replace(self, features=features)


def check_is_name(name: Any, role: str) -> None:
    """Raise TypeError unless `name` may be the name of a column, or is None."""
    if not isinstance(name, Hashable) or isinstance(name, tuple):
        some = [str(each) for each in name] if isinstance(name, Collection) else []
        advice = f"pass {some[0]!r}" if len(some) == 1 else "join several columns into one"
        raise TypeError(f"{role} must be the name of one column, found {name!r}: {advice}")


def resolve_like(like, features, missing, transformer, unseen):
    """The columns of bags or of a fit as a template for a table; None without `like`."""
    for name, value, choices in (
        ("missing", missing, ("error", "drop", "indicator")),
        ("unseen", unseen, ("error", "other")),
    ):
        if value not in choices:
            raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, found {value!r}")
    if like is None:
        if unseen != "error":
            raise ValueError("unseen='other' goes with like: pass the training bags or the fit")
        if transformer is not None and missing == "indicator":
            raise ValueError("missing='indicator' does not go with a transformer of your own")
        return None
    if features is not None or transformer is not None or missing == "indicator":
        raise ValueError(
            "like determines the columns of a point: leave out features, transformer and "
            "missing='indicator'"
        )
    columns = like.columns if hasattr(like, "offsets") else getattr(like, "columns_", None)
    if columns is None:
        raise ValueError(
            "like must be bags that come from a table, or an estimator fitted to such bags; the "
            f"bags of {type(like).__name__} have no record of a table"
        )
    return columns
