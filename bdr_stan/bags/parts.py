"""Parts of a table that is too large for memory, and how their rows become bags."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from bdr_stan.bags.column_roles import ColumnRoles
from bdr_stan.bags.column_values import dropped_rows
from bdr_stan.bags.columns import TableColumns
from bdr_stan.bags.readers import bags_of_table, row_codes
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

    def points(self, rows: Any) -> Array:
        """Points of rows from `rows`, in their order."""
        return cast(TableColumns, self.columns).points(rows, unseen=self.unseen)
