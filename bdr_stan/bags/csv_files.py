"""Tables in CSV files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bdr_stan.bags.column_roles import ColumnRoles
from bdr_stan.bags.text_columns import ids_of_text
from bdr_stan.types import PathName

# Options of read_csv that determine how a line is split into cells.
_LINE_OPTIONS = (
    *("sep", "delimiter", "quotechar", "quoting", "doublequote", "escapechar", "dialect"),
    *("encoding", "encoding_errors", "compression", "engine"),
    *("comment", "skiprows", "skipinitialspace", "skip_blank_lines"),
)


def csv_table(path: PathName, roles: ColumnRoles, options: dict[str, Any]) -> Any:
    """The table in a CSV file, a pandas DataFrame, with ids as by `ids_of_text`.

    `options` are those of pandas. Reads only the named columns where the features are known.
    """
    import pandas as pd

    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return _read(path, roles, options)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not in UTF-8 ({error.reason}): pass encoding='latin-1', or its own"
        ) from error
    except (pd.errors.EmptyDataError, pd.errors.ParserError) as error:
        raise ValueError(f"{path} is not a CSV table: {str(error).strip()}") from error


def _read(path, roles, options):
    import pandas as pd

    header = pd.read_csv(path, **options | {"nrows": 0}).columns
    separators = [sign for sign in ";\t|," if sign in str(header[0])]
    if len(header) == 1 and separators:
        raise ValueError(
            f"{path} has one column, {header[0]!r}: pass sep={separators[0]!r}, and decimal=',' "
            "for numbers such as 1,5"
        )
    _check_header(path, options)
    named = roles.named(list(header))
    if roles.features is not None:
        options = {"usecols": named} | options
    else:
        _check_named_header(path, header)
    bag, kinds = roles.bag, options.get("dtype")
    ids_as_written = bag not in (options.get("converters") or {}) and (
        kinds is None or (isinstance(kinds, Mapping) and bag not in kinds)
    )
    if ids_as_written:
        options = options | {"dtype": {**(kinds or {}), bag: str}}
    table = pd.read_csv(path, **options)
    if ids_as_written and bag in table:
        table[bag] = ids_of_text(table[bag])
    return table


def _check_header(path, options):
    """Raise ValueError where a column name occurs twice in the first row of a CSV file."""
    import pandas as pd

    if "header" in options or "names" in options:
        return
    kept = {name: options[name] for name in _LINE_OPTIONS if name in options}
    names = pd.read_csv(path, **kept, nrows=1, header=None, dtype=str).iloc[0]
    twice = names[names.notna() & names.duplicated()]
    if len(twice):
        raise ValueError(
            f"{path} has the column {twice.iloc[0]!r} twice: give each column its own name"
        )


def _check_named_header(path, header):
    unnamed = [name for name in header if str(name).startswith("Unnamed:")]
    if unnamed:
        raise ValueError(
            f"{path} has a column without a name ({unnamed[0]!r}), most likely the rows' numbers: "
            "name the columns of a point by features"
        )
