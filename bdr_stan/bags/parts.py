"""Parts of a table that is too large for memory: how their rows become bags, and Dask's work."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from uuid import uuid4

from threadpoolctl import threadpool_limits

from bdr_stan.bags.column_roles import ColumnRoles
from bdr_stan.bags.column_values import dropped_rows
from bdr_stan.bags.columns import TableColumns
from bdr_stan.bags.tables import bags_of_table, row_codes
from bdr_stan.types import Array


class Part(NamedTuple):
    """A part of a table: its name in messages, and a Dask Delayed of a pandas or pyarrow table."""

    where: str
    table: Any


@dataclass(frozen=True)
class PartReader:
    """How the rows of a part become bags; fields as arguments of `Bags.from_dataframe`."""

    kind: Callable[..., Any]  # Bags, the type to make
    roles: ColumnRoles  # with features
    missing: str
    unseen: str
    columns: TableColumns | None = None  # None until they are known for all parts together

    def rows(self, table: Any, keep: Array | None = None) -> Any:
        """The rows of a part that count, of the bags to `keep`, a bool each in order of the ids."""
        import narwhals as nw

        rows = nw.from_native(table, eager_only=True)
        if self.missing == "drop":
            missing = dropped_rows(rows, self.roles.features or [])
            rows = rows.filter((~missing).tolist()) if missing.any() else rows
        if keep is None:
            return rows
        codes, _ = row_codes(rows, self.roles.bag)
        return rows.filter(keep[codes].tolist())

    def read(self, rows: Any) -> dict[str, Any]:
        """Arguments of `Bags` from rows of `rows`."""
        columns = cast(TableColumns, self.columns)
        return bags_of_table(rows, columns, self.roles, unseen=self.unseen)

    def bags(self, rows: Any) -> Any:
        """Bags of rows from `rows`."""
        return self.kind(**self.read(rows), copy=False)


def in_order(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    shared: Any,
) -> Iterator[Any]:
    """Results of ``function(*arguments[k], shared)`` in the order of k, computed by Dask.

    Delayed objects among the arguments are computed first; `shared` is sent once to each worker.
    Dask uses its running client or else its default scheduler, usually threads.
    """
    from dask import compute, config, delayed

    client = _running_client()
    shared = delayed(shared, name=f"bdr-stan-{uuid4().hex}", traverse=False)
    call = delayed(function, pure=False)
    tasks = [call(*of_task, shared) for of_task in arguments]
    # Dask's threads on this machine are as many as its cores.
    with threadpool_limits(1, user_api="blas"):
        if client is None:
            yield from compute(*tasks)
            return
        # Tasks include a few numbers per bag: for millions of bags Dask would warn.
        with config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            futures = deque(client.compute(tasks))
        try:
            while futures:
                yield futures[0].result()
                futures.popleft()  # frees the result on its worker
        finally:
            client.cancel(list(futures))


def _running_client():
    distributed = sys.modules.get("distributed")  # imported wherever there is a client
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None
