"""Which columns of a table are features, bags, weights and metadata."""

from collections.abc import Sequence
from typing import Any

from bdr_stan.bags.checks import near_names


def feature_columns(
    columns: Sequence[Any],
    bag: str,
    features: Sequence[str] | None,
    weight: str | None,
    metadata: Sequence[str] | None,
) -> list[str]:
    """The columns of a point: those given, or all without another role; raises without any."""
    named = named_columns(columns, bag, features, weight, metadata)
    if features is not None and len(features) == 0:
        raise ValueError("features is empty: name the columns of a point, or leave it out")
    if features is None:
        features = [column for column in columns if column not in named]
        if not features:
            raise ValueError("the table has no column left to be a feature")
    return list(features)


def named_columns(columns, bag, features, weight, metadata):
    """The columns named by the arguments, each once; raises where one is missing."""
    for argument, names in (("features", features), ("metadata", metadata)):
        if isinstance(names, str):
            raise TypeError(f"{argument} must be a list of column names: pass [{names!r}]")
    for name in columns:
        if not isinstance(name, str):
            raise TypeError(
                f"the table has a column named {name!r}, which is not text: rename its columns, as "
                "by df.columns = df.columns.astype(str)"
            )
    features, metadata = list(features or []), list(metadata or [])
    named = [bag, *features, *([] if weight is None else [weight]), *metadata]
    for name in named:
        if name not in columns:
            raise ValueError(f"the table has no column {name!r}: {near_names(name, columns)}")
    repeated = [name for k, name in enumerate(features) if name in features[:k]]
    if repeated:
        raise ValueError(f"features names the column {repeated[0]!r} twice: name each once")
    roles = {"bag": [bag], "weight": [] if weight is None else [weight], "metadata": metadata}
    for role, names in roles.items():
        for name in names:
            if name in features:
                raise ValueError(
                    f"column {name!r} is both {role} and among the features: leave it out of one"
                )
    return list(dict.fromkeys(named))


def resolve_like(like, features, missing, transformer, unseen):
    """The columns of bags or of a fit that a table is to be read like; None without `like`."""
    for name, value, known in (
        ("missing", missing, ("error", "drop", "indicator")),
        ("unseen", unseen, ("error", "other")),
    ):
        if value not in known:
            raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, found {value!r}")
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
            "like must be bags that come from a table, or an estimator fitted to such; those of "
            f"{type(like).__name__} have no record of a table"
        )
    return columns


def known_features(like, features):
    """Names of the feature columns if they are known before the table is read, else None."""
    columns = resolve_like(like, features, "error", None, "error") if like is not None else None
    return features if columns is None else list(columns.names)
