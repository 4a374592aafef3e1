"""Tables that commands read, and files that they write."""

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self

import click

from bdr_stan.cli.models import LABEL_DATA, MODELS
from bdr_stan.cli.options import csv_options

if TYPE_CHECKING:
    from bdr_stan.bags import Bags, Samples
    from bdr_stan.types import Array

_OF_POINTS = ("weight", "cluster", "strata")  # roles of columns
_ROLES_OF_BAGS = ("covariates", "groups", "smooths")


def _split(names: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if names is None else [name.strip() for name in names.split(",")]


def _flat(names):
    return [each for name in names for each in ([name] if isinstance(name, str) else name)]


def check_roles(**columns: Sequence[str | None]) -> None:
    """Raise for a column with two roles: a label among the features would predict itself."""
    role_of: dict[str, str] = {}
    for role, names in columns.items():
        for name in names:
            if name is not None and role_of.setdefault(name, role) != role:
                raise ValueError(
                    f"column {name!r} is both {role_of[name]} and {role}: name another one"
                )


def pairs(option: str, expected: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Names and values of an option that is given as ``name=value``, perhaps several times."""
    parts = [text.partition("=") for text in texts]
    for text, (name, _, value) in zip(texts, parts, strict=True):
        if not (name and value):
            raise ValueError(f"{option} must be {expected} {text!r}")
    return [(name, value) for name, _, value in parts]


def tables_of_samples(data: Path, samples: Sequence[str]) -> dict[str, Path]:
    """Tables of the samples by their names; DATA's name is its file's, without the extension."""
    tables = {data.stem: data}
    for name, path in pairs("--sample", "NAME=TABLE, such as houses=houses.csv, not", samples):
        if name in tables:
            raise ValueError(f"two samples are called {name!r}: give --sample another name")
        tables[name] = Path(path)
        check_input(tables[name])
    return tables


def read_bags(path: Path, bag: str, **columns: Any) -> "Bags":
    """Bags of a .parquet or .csv file, ids as written; of a folder or pattern, left on disk."""
    from bdr_stan import Bags

    if path.is_dir() or (path.suffix == ".parquet" and not path.exists()):
        return Bags.from_parquet(path, bag, **columns, lazy=True)
    if path.suffix == ".parquet":
        return Bags.from_parquet(path, bag, **columns)
    if path.suffix != ".csv":
        raise ValueError(f"{path} is neither .parquet nor .csv: write it in one of these formats")
    return Bags.from_csv(path, bag, **columns, dtype={bag: str}, **csv_options())


def of_first_sample(bags: Any) -> Any:
    """The bags but those that only later samples have, which have no label."""
    return bags.take(range(len(next(iter(bags.samples.values())))))


@dataclass(frozen=True)
class LabelledTable:
    """A table of points with labels and its columns by role, of `options.labelled_table`."""

    data: Path
    samples: Mapping[str, Path]  # tables of all samples; with several this table is the first
    roles: Mapping[str, str | None]  # bag, label, weight, cluster, strata
    label_data: Mapping[str, str | None]  # columns for `fit`, in addition to the label
    features: list[str] | None
    columns_of_bags: Mapping[str, list | None]  # covariates, groups, smooths
    missing: str

    @classmethod
    def taken(cls, data: Path, options: dict[str, Any]) -> Self:
        """The table from options, which it removes; smooths "a,b+c" have the pair b, c."""
        tables = tables_of_samples(data, options.pop("samples"))
        roles = {role: options.pop(role, None) for role in ("bag", "label", *_OF_POINTS)}
        label_data = {role: options.pop(role, None) for role in LABEL_DATA}
        names: dict[str, Any] = {
            role: _split(options.pop(role)) for role in ("features", *_ROLES_OF_BAGS)
        }
        functions = [name.split("+") for name in names["smooths"] or []]
        names["smooths"] = [f[0] if len(f) == 1 else f for f in functions] or None
        features, missing = names.pop("features"), options.pop("missing")
        return cls(data, tables, roles, label_data, features, names, missing)

    def bags(self, stan_data: Sequence[str] = ()) -> "Bags":
        """The bags, of several samples the first, with columns for the data of a user's program."""
        named = {role: _flat(names or []) for role, names in self.columns_of_bags.items()}
        named["stan_data"] = list(stan_data)
        columns = {role: [column] for role, column in {**self.roles, **self.label_data}.items()}
        check_roles(**columns, features=self.features or [], **named)
        of_labels = filter(None, [self.roles["label"], *self.label_data.values()])
        metadata = [*of_labels, *_flat(named.values())]
        bags = read_bags(
            self.data,
            str(self.roles["bag"]),
            features=self.features,
            **{role: self.roles[role] for role in _OF_POINTS},
            metadata=metadata or None,
            missing=self.missing,
        )
        click.echo(f"Columns of a point: {', '.join(bags.features or ())}")
        return bags

    def read(self, model: str, stan_data: Sequence[str] = ()) -> "tuple[Bags | Samples, Array]":
        """The bags, also with columns for the data of a user's program, and their labels."""
        bags, label = self.bags(stan_data), self.roles["label"]
        assert bags.metadata is not None  # the label is there
        y = bags.metadata[label]
        # If some are numbers, `fit` names the first bag with a label that is not.
        if _are_texts(y) and not model.endswith("classifier"):
            classifier = f"{model}-classifier"
            raise TypeError(
                f"label column {label!r} holds text, not numbers: encode it, or use "
                f"--model {classifier if classifier in MODELS else 'bdr-classifier'}"
            )
        if len(self.samples) == 1:
            return bags, y
        from bdr_stan import Samples

        first, *others = self.samples
        bag = str(self.roles["bag"])
        read = {name: read_bags(self.samples[name], bag, missing=self.missing) for name in others}
        every = Samples({first: bags, **read})
        if len(every) > len(bags):
            without = len(every) - len(bags)
            click.echo(f"{without} bags have no label, being in no row of {self.data}: left out")
        return of_first_sample(every), y


def _are_texts(y):
    """Whether all labels are texts without an order, and none is a number."""
    import pandas as pd

    ordered = getattr(y.dtype, "ordered", False)  # categories
    is_text = y.dtype.kind not in "fiub" and not ordered
    return is_text and pd.to_numeric(y.astype(str), errors="coerce").isna().all()


def read_like(
    model: Any, fitted: Path, new: Path, *, weight: str | None, samples: Sequence[str], **how: Any
) -> "Bags | Samples":
    """Bags with the columns of a fit: `new` is the first sample, `samples` name the others."""
    from bdr_stan.bags.samples import Samples, by_sample

    of_first = {
        "weight": weight or model.notes_.get("weight"),
        "metadata": model.columns_of_bags or None,
    }
    first, *others = names = list(model.result_.samples)
    if samples and not others:
        raise ValueError(f"{fitted} was fitted to one sample: leave --sample out")
    tables = tables_of_samples(new.with_name(first), samples) if others else {}
    unknown = sorted(set(tables) - set(names))
    if unknown:
        raise ValueError(
            f"--sample {unknown[0]} is none of the other samples of {fitted}: {', '.join(others)}"
        )
    tables[first] = new

    def read(name, path):
        more = of_first if name == first else {}
        return _read_sample(model.fit_of_sample(name), fitted, path, **how, **more)

    return by_sample({name: tables[name] for name in names if name in tables}, read, Samples)


def _read_sample(model, fitted, new, *, bag, unseen, weight=None, **how):
    """Bags of a table with the columns of a fit."""
    bag = bag or model.notes_.get("bag") or getattr(model.columns_, "bag", None)
    of_points = {role: getattr(model.columns_, role, None) for role in _OF_POINTS}
    of_points["weight"] = weight or of_points["weight"]
    if bag is None:
        raise ValueError(f"{fitted} does not say which column names the bags: pass --bag")
    if not hasattr(model, "feature_names_in_"):
        raise ValueError(
            f"{fitted} was fitted to points without column names: go on in Python, with "
            f"bdr_stan.load({str(fitted)!r})"
        )
    columns: dict[str, Any] = {"features": list(model.feature_names_in_)}
    if model.columns_ is not None:
        columns = {"like": model, "unseen": unseen}
    return read_bags(new, bag, **of_points, **how, **columns)


def check_input(*paths: Path | None) -> None:
    """Raise, before anything is imported, for a file, folder or pattern that is not there."""
    for path in paths:
        if path is not None and not path.exists() and not glob.glob(str(path)):
            raise FileNotFoundError(f"there is no file {path}")


def check_output(path: Path, force: bool, *inputs: Path | None, suffix: str = "") -> None:
    """Raise, before any work, for an output that cannot or must not be written."""
    if path.parent.is_file():
        raise NotADirectoryError(f"{path.parent} is a file, not a folder: choose another output")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a file name")
    if path.exists() and any(each and each.exists() and path.samefile(each) for each in inputs):
        raise ValueError(f"{path} is the input: choose another output")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists: pass --force to replace it")
    try:
        TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise PermissionError(
            f"the folder {path.parent} cannot be written to ({error.strerror}): choose another"
        ) from error
    if suffix and path.suffix != suffix:
        raise ValueError(f"{path} must end in {suffix}")
