"""Bags with several samples of points each, such as residents and houses of a county."""

from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from html import escape
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bdr_stan.arguments import unknown_attribute
from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.checks import near_names, plain
from bdr_stan.bags.matching import rows_of_ids
from bdr_stan.types import Array, DataFrame
from bdr_stan.user_warnings import warn

_LEAST_SHARED = 0.5  # of the bags of a sample; fewer are likely to have ids of another kind


class Samples(BagsBase):
    """Bags that have several samples of points each, and may lack some samples.

    Estimators also accept a dict of bags; an object of this class also works in scikit-learn's
    splits and searches.

    Parameters
    ----------
    samples : dict of str -> Bags
        Matched by their ids: the bags of the first sample in its order; bags that occur only in
        later samples come last. Without ids, all have the same number of bags, matched by position.
        Their metadata are joined. ``samples[name]`` are the bags of one sample, other keys select
        bags, as in `Bags`.

    Raises
    ------
    TypeError
        Not a dict of Bags.
    ValueError
        A name has a slash, only some have ids, their numbers differ and none have ids, a sample
        shares no bag with the others, or their metadata differ for a bag.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Bags, Samples
    >>> residents = Bags.from_list([np.ones((3, 2)), np.zeros((4, 2))], ids=["a", "b"])
    >>> houses = Bags.from_list([np.ones((5, 1)), np.zeros((2, 1))], ids=["b", "c"])
    >>> both = Samples({"residents": residents, "houses": houses})
    >>> both.ids.tolist(), both.sizes_of("houses").tolist()
    (['a', 'b', 'c'], [0, 5, 2])
    """

    features = None
    columns = None
    samples: Mapping[str, Any] = {}

    def __init__(self, samples: Mapping[str, Any]):
        if not isinstance(samples, Mapping) or not samples:
            raise TypeError(f"samples must be a dict such as {{'residents': bags}}, got {samples}")
        for name, bags in samples.items():
            if not isinstance(name, str) or not name:
                raise TypeError(f"samples are named by text, such as 'residents', found {name!r}")
            if "/" in name:  # which parts names in files
                raise ValueError(f"names of samples are without '/', found {name!r}: rename it")
            if isinstance(bags, Samples):
                raise TypeError(f"sample {name!r} has samples of its own: name one of them")
            if not isinstance(bags, BagsBase):
                raise TypeError(f"sample {name!r} must be Bags, found a {type(bags).__name__}")
        self.samples = dict(samples)
        # Row of each bag in each sample, -1 if it lacks it.
        self.ids, self._rows = _matched(samples)
        self.metadata = _joined_metadata(samples, self.ids)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name in ("points", "where", "to_dataframe"):
                raise AttributeError(
                    f"'Samples' object has no attribute {name!r}; use samples[name]"
                )
            return unknown_attribute(self, name)

    def __len__(self) -> int:
        return len(next(iter(self._rows.values())))

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("bags with several samples are not iterable: use samples[name]")

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self.take(key)
        if key not in self.samples:
            raise KeyError(f"there is no sample {key!r}; {near_names(key, list(self.samples))}")
        return self.samples[key]

    def _taken(self, indices):
        chosen, samples = self._copy_of(indices), {}
        chosen._rows = {}
        for name, bags in self.samples.items():
            rows = self._rows[name][indices]
            samples[name] = bags.take(rows[rows >= 0])
            chosen._rows[name] = np.where(rows >= 0, np.cumsum(rows >= 0) - 1, -1)
        return chosen._with_samples(samples)

    def check_order(self, **arguments: Any) -> None:
        first = next(iter(self.samples))
        lacking = np.flatnonzero(~self.has(first))
        for name, values in arguments.items():
            if values is None or isinstance(values, str) or not len(lacking):
                continue
            if not hasattr(values, "iloc") or rows_of_ids(values.index, self.index, name) is None:
                raise ValueError(
                    f"{self.name(lacking[0])} has no {first!r} ({len(lacking)} in total), so no "
                    f"table has the order of the bags: pass {name} as a pandas Series indexed by "
                    "the ids, or the name of a column of the metadata"
                )

    def _with_samples(self, samples):
        """The same bags with other points of their samples."""
        other = copy(self)
        other.samples = samples
        return other

    def load(self) -> "Samples":
        return self._with_samples({name: bags.load() for name, bags in self.samples.items()})

    def has(self, name: str) -> Array:
        return self._rows[name] >= 0 if name in self._rows else np.zeros(len(self), bool)

    def rows(self, name: str) -> Array:
        """Row in this sample of each bag that has it, int."""
        return self._rows[name][self.has(name)] if name in self._rows else np.empty(0, int)

    def of_sample(self, name: str) -> Any:
        return self.samples[name].take(self.rows(name))

    def sizes_of(self, name: str) -> Array:
        sizes = np.zeros(len(self), int)
        sizes[self.has(name)] = self.samples[name].sizes[self.rows(name)]
        return sizes

    @property
    def sizes(self) -> Array:
        """Number of points of each bag in all samples, shape (n,)."""
        return np.sum([self.sizes_of(name) for name in self.samples], axis=0)

    @property
    def n_points(self) -> int:
        """Number of points of all bags and samples."""
        return sum(bags.n_points for bags in self.samples.values())

    @property
    def n_features(self) -> int:
        """Columns of all samples."""
        return sum(bags.n_features for bags in self.samples.values())

    @property
    def weighted(self) -> bool:
        """Whether points of some sample have weights."""
        return any(bags.weighted for bags in self.samples.values())

    @property
    def id_name(self) -> str:
        return cast(str, next(iter(self.samples.values())).id_name)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name!r}: {bags!r}" for name, bags in self.samples.items())
        return f"Samples({len(self)} bags, {parts})"

    def _repr_html_(self) -> str:
        parts = (f"<p>{escape(n)}</p>{bags._repr_html_()}" for n, bags in self.samples.items())
        return f"<p>{len(self)} bags with several samples</p>{''.join(parts)}"


def by_sample(
    samples: Mapping[str, Any],
    value: Callable[[str, Any], Any],
    joined: Callable[[dict[str, Any]], Any] = dict,
) -> Any:
    """``value(name, sample)`` of the only sample, without a name; of several `joined`, by name.

    Bags, their record, their features and the result of a fit have `samples`.
    """
    values = {name: value(name, sample) for name, sample in samples.items()}
    return values[""] if "" in values else joined(values)


def by_name(values: Any) -> Mapping[str, Any]:
    """A dict that has the value of each of several samples, or {"": the value of the only one}."""
    return values if isinstance(values, Mapping) else {"": values}


def check_one_sample(bags: Any, message: str, error: type[Exception] = ValueError) -> None:
    """Raise an error if bags, or what else has their `samples`, have several."""
    if "" not in bags.samples:
        raise error(message)


def sample_of(bags: Any, name: Any) -> Any:
    """The bags of one sample, if `bags` are all samples, or a dict of them; else `bags`."""
    samples = bags.samples if isinstance(bags, BagsBase) else bags
    return samples.get(name, bags) if isinstance(samples, Mapping) else bags


def like_samples(bags: Any, names: Collection[str], like: Callable[[str, Any], Any]) -> Any:
    """Bags with the samples of a fit, of these names: ``like(name, bags of the sample)`` of each.

    `bags` are `Samples`, or a dict of bags or tables; a fit to one sample has no names.
    """
    if "" in names:
        return like("", bags)
    samples, build = bags, Samples
    if isinstance(bags, Samples):
        samples, build = bags.samples, bags._with_samples
    if not isinstance(samples, Mapping) or not set(samples) <= set(names):
        what = list(samples) if isinstance(samples, Mapping) else f"a {type(bags).__name__}"
        raise TypeError(
            f"the model was fitted to bags with the samples {list(names)}, found {what}: "
            "pass a dict of bags by these names"
        )
    parts = {n: part if len(part) == 0 else like(n, part) for n, part in samples.items()}
    for name in names:
        if not len(parts.get(name, ())):
            warn(f"no bag has points of {name!r}: predictions leave open what these would say")
    return build(parts)


def _matched(samples):
    """Ids of all bags, or None, and the row of each bag in each sample, -1 if it lacks it."""
    import pandas as pd

    names, with_ids = list(samples), [bags.ids is not None for bags in samples.values()]
    if not all(with_ids):
        sizes = {name: len(bags) for name, bags in samples.items()}
        if any(with_ids) or len(set(sizes.values())) > 1:
            raise ValueError(
                f"the samples {sizes} (numbers of bags) can only be matched by ids: give all of "
                "them ids, or the same bags in the same order without ids"
            )
        return None, {name: np.arange(n) for name, n in sizes.items()}
    for name, bags in samples.items():
        if not len(bags):
            raise ValueError(f"the sample {name!r} has no bags: leave it out")
    indices = {name: pd.Index(bags.ids) for name, bags in samples.items()}
    every = indices[names[0]]
    for index in list(indices.values())[1:]:
        every = every.append(index[~index.isin(every)])
    for name, index in indices.items():
        others = [other for key, other in indices.items() if key != name]
        if others:
            _check_shared(name, index, others)
    return every.to_numpy(), {name: index.get_indexer(every) for name, index in indices.items()}


def _check_shared(name, index, others):
    shared = sum(index.isin(other) for other in others) > 0
    if not shared.any():
        raise ValueError(
            f"no bag of the sample {name!r}, such as {plain(index[0])!r}, is among the bags of "
            f"the others, such as {plain(others[0][0])!r}: give a bag the same id in all samples"
        )
    if shared.mean() < _LEAST_SHARED:
        warn(
            f"only {shared.sum()} of the {len(index)} bags of the sample {name!r} are among the "
            "bags of the others: check that a bag has the same id in all samples"
        )


def _joined_metadata(samples: Mapping[str, Any], ids: Array | None) -> "DataFrame | None":
    """Columns of the metadata of all samples; ValueError if they differ for a bag."""
    import pandas as pd

    tables = {name: bags.metadata for name, bags in samples.items() if bags.metadata is not None}
    if not tables:
        return None
    if ids is None:
        tables = {name: table.reset_index(drop=True) for name, table in tables.items()}
        index = pd.RangeIndex(len(next(iter(tables.values()))))
    else:
        index = pd.Index(ids)
    columns: dict[Any, pd.Series] = {}
    for name, table in tables.items():
        for column in table.columns:
            values = table[column]
            if column in columns:
                _check_equal(columns[column], values, column, name)
                values = columns[column].combine_first(values)
            columns[column] = values
    return pd.DataFrame({column: values.reindex(index) for column, values in columns.items()})


def _check_equal(first, second, column, name):
    both = first.dropna().index.intersection(second.dropna().index)
    # As objects: categories of two tables need not be the same.
    odd = np.flatnonzero(first.loc[both].astype(object) != second.loc[both].astype(object))
    if len(odd):
        bag = both[odd[0]]
        one, other = plain(first[bag]), plain(second[bag])
        raise ValueError(
            f"column {column!r} of the metadata of bag {plain(bag)!r} is {one!r}, but in the "
            f"sample {name!r} it is {other!r} ({len(odd)} in total): rename one of them"
        )
