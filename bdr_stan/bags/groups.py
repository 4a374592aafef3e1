"""Groups of bags by columns of their metadata, and the weights of bags in sums over a group."""

from typing import Any

import numpy as np
from scipy.sparse import csc_array

from bdr_stan.bags.checks import LARGEST_VALUE, as_vector, check_each, checked_numbers, near_names
from bdr_stan.bags.container import Bags
from bdr_stan.bags.labels import values_of_bags
from bdr_stan.bags.missing_codes import CODES_OF_BAGS, ends_of, warn_of_codes
from bdr_stan.types import Array, ArrayLike


def groups_of_bags(bags: Bags, by: str | list[str] | None) -> tuple[Array, Array]:
    """Names of the groups, sorted, shape (k,), and the index of each bag's group, shape (n,)."""
    if by is None:
        return np.array(["all"]), np.zeros(len(bags), int)
    if by == bags.id_name:
        return bags.index, np.arange(len(bags))
    columns = [by] if isinstance(by, str) else list(by)
    table: Any = bags.metadata
    available = [] if table is None else list(table.columns)
    for name in columns:
        if name not in available:
            raise ValueError(
                f"by={name!r} is not a column of the bags' metadata: {near_names(name, available)}"
            )
        gaps = np.flatnonzero(table[name].isna())
        if len(gaps):
            raise ValueError(
                f"column {name!r} of the metadata has no value for {bags.name(gaps[0])} "
                f"({len(gaps)} bags in total): fill it in, or leave these bags out"
            )
    groups = table.groupby(columns if len(columns) > 1 else columns[0], observed=True)
    keys = [key if len(columns) > 1 else (key,) for key in groups.groups]
    names = [key[0] if len(key) == 1 else ", ".join(map(str, key)) for key in keys]
    return np.array(names), groups.ngroup().to_numpy()


def sum_coefficients(
    bags: Bags, group: Array, n_groups: int, weights: ArrayLike | str | None, total: bool
) -> csc_array:
    """Coefficients, shape (k, n), of the weighted means, or totals, of values of bags in groups."""
    if weights is None:
        values = np.ones(len(bags))
    else:
        values = weights_of_bags(values_of_bags(bags, weights, "weights"), bags)
    sums = np.bincount(group, values, minlength=n_groups)
    empty = np.flatnonzero(sums == 0)
    if len(empty):
        first = bags.name(np.flatnonzero(group == empty[0])[0])
        raise ValueError(f"all weights in the group of {first} are zero: leave these bags out")
    coefficients = values if total else values / sums[group]
    return csc_array((coefficients, (group, np.arange(len(bags)))), shape=(n_groups, len(bags)))


def weights_of_bags(weights: Any, bags: Any) -> Array:
    """Weights in the order of n bags, or of what has their ids, as numbers >= 0, shape (n,)."""
    values = as_vector(checked_numbers(weights, "weight"), len(bags), "weights", "bag")
    good = (values >= 0) & (values < LARGEST_VALUE)
    check_each(bags, values, good, "weight", "weights are numbers from 0")
    warn_of_codes({"weights": ends_of(values)}, "bags", CODES_OF_BAGS)
    return values
