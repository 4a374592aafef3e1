"""Values of a table's columns: numbers, categories, texts and ids, and which are missing."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from unicodedata import normalize

import numpy as np

from bdr_stan.bags.checks import number_or_none, plain
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

_CURRENCY = r"(?:[$€£¥₹₩₽₺₴₪₫฿₱]|(?:EUR|USD|GBP|CHF|JPY|kr)\b\.?)"
_DIGITS = r"(?:\d+(?:[.,'’\s]\d+)*\.?|\.\d+)(?:[eE][-+]?\d+)?"  # points, commas, blanks group them
_SIGN = r"[-+\u2212]?"
_AMOUNT = rf"{_SIGN}\s*{_CURRENCY}?\s*{_SIGN}{_DIGITS}\s*(?:%|(?:k|M|bn)?\s*{_CURRENCY}?)"
_NUMBER = re.compile(rf"{_AMOUNT}|\(\s*{_AMOUNT}\s*\)")  # parentheses: below zero
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
    rf"|\d{{1,2}}\.?[-/ ]{_MONTH}[-/ ,]+\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}}"
    r"|(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?",
    re.IGNORECASE,
)
_ZEROS = re.compile(r"^(-?)0+(?=\d)|(?<=\d)\.0$")  # 1 is 1.0 in a column with missing values
_SHOWN = 3  # pairs of ids in the warning


def missing_counts(table: Any, names: Sequence[str]) -> dict[str, int]:
    """Number of missing values in each of these columns that has some."""
    return {name: n for name in names if (n := int(is_missing(table[name], name).sum()))}


def is_missing(series: Any, name: str) -> Array:
    """Whether each value of a column is missing; bool array, shape (n_rows,)."""
    if is_number_column(series):
        return np.isnan(as_numbers(series, name))
    return as_categories(series, name)[0] < 0


def dropped_rows(table: Any, names: Sequence[str]) -> Array:
    """Whether each row has a missing value in one of these columns; bool array, (n_rows,)."""
    missing = np.zeros(len(table), bool)
    for name in names:
        missing |= is_missing(table[name], name)
    return missing


def is_number_column(series: Any) -> bool:
    """Whether a column has numbers or booleans."""
    import narwhals as nw

    return series.dtype.is_numeric() or series.dtype == nw.Boolean


def as_numbers(series: Any, name: str) -> Array:
    """Column of numbers or booleans as floats, shape (n_rows,); TypeError for other columns."""
    import narwhals as nw

    if not is_number_column(series):
        raise TypeError(
            f"column {name!r} holds {series.dtype}, not numbers: encode it or leave it out"
        )
    dtype = nw.Float32 if series.dtype == nw.Float32 else nw.Float64
    return series.cast(dtype).to_numpy()


def as_categories(series: Any, name: str) -> tuple[Array, list[str]]:
    """Column of texts or categories as codes, -1 if missing, and sorted values as str."""
    import narwhals as nw
    import pandas as pd

    dtype = series.dtype
    if dtype.is_temporal():
        raise TypeError(
            f"column {name!r} holds {str(dtype).partition('(')[0]} values: make a number of them, "
            "such as years since 2000, or leave it out of the features"
        )
    try:
        codes, values = pd.factorize(np.fromiter(series.to_list(), object, len(series)))
        kinds = {type(value) for value in values}
    except TypeError:  # only containers cannot be hashed
        kinds = {list}
    if dtype.is_nested() or kinds & {list, tuple, dict, set}:
        raise TypeError(
            f"column {name!r} holds several values in one cell: give each a column of its own, or "
            "leave it out of the features"
        )
    texts_alone = all(issubclass(kind, str) for kind in kinds)  # NumPy's are a kind of them
    if dtype not in (nw.Categorical, nw.Enum) and not texts_alone:
        held = " and ".join(sorted(kind.__name__ for kind in kinds))
        texts = [value for value in values if isinstance(value, str)]
        example = f", such as {texts[0]!r}" if texts else ""
        raise TypeError(
            f"column {name!r} holds {held}{example}: make numbers or texts of all its values, "
            "or leave it out of the features"
        )
    texts, place = np.unique([str(value) for value in values], return_inverse=True)
    return np.append(place, -1)[codes], texts.tolist()


def as_values(series: Any) -> Any:
    """Values of a column of metadata; categories stay categories, as they may be codes."""
    import narwhals as nw
    import pandas as pd

    values = series.to_numpy()
    if series.dtype not in (nw.Categorical, nw.Enum):
        return values
    levels = levels_in_order(series)
    return pd.Categorical(values, levels, ordered=levels is not None)


def levels_in_order(series: Any) -> list[Any] | None:
    """Categories of a column from the lowest to the highest; None if they have no order."""
    native = series.to_native()
    if getattr(getattr(native, "type", None), "ordered", False):  # pyarrow's dictionary
        return native.unify_dictionaries().chunk(0).dictionary.to_pylist()
    levels = getattr(series.dtype, "categories", None)  # of narwhals's Enum
    return None if levels is None else list(levels)


def is_ordered(series: Any) -> bool:
    """Whether a column of pandas or pyarrow has categories with an order."""
    native = series.to_native()
    kind = getattr(native, "dtype", getattr(native, "type", None))
    return bool(getattr(kind, "ordered", False))


def counts_text(counts: Mapping[str, int]) -> str:
    """Columns with their counts of missing values, as messages show them."""
    return ", ".join(f"{name!r} {n}" for name, n in counts.items())


def first_of(values: Sequence[Any], at_most: int) -> str:
    """The first values of a list, as messages show them."""
    return ", ".join(map(repr, values[:at_most])) + ", ..." * (len(values) > at_most)


def check_are_categories(values: Collection[str], name: str) -> None:
    """Raise TypeError if over half of the texts of a column are numbers or dates."""
    dates = [value for value in values if _DATE.fullmatch(value.strip())]
    if len(dates) > len(values) / 2:
        raise TypeError(
            f"column {name!r} holds dates or times as text, such as {dates[0]!r}: make a number of "
            "them, such as years since 2000, or leave it out"
        )
    numbers = [value for value in values if _NUMBER.fullmatch(value.strip())]
    formatted = any(number_or_none(value) is None for value in numbers)  # as in $1,200
    if len(numbers) > len(values) / 2 and (len(values) > 2 or formatted):
        others = [value for value in values if value not in numbers]
        what = f"text such as {others[0]!r} among numbers" if others else "numbers written as text"
        example = next((v for v in numbers if number_or_none(v) is None), numbers[0])
        raise TypeError(
            f"column {name!r} holds {what}, such as {example!r}: convert its cells to numbers, for "
            f"example with decimal=',', thousands=',' or na_values={others[:1] or ['--']} of "
            "read_csv, or a category of the column where they are codes, or leave it out"
        )


def ids_of_text(texts: Any) -> Any:
    """Ids read as text, a pandas Series, as numbers unless one is written like "01"."""
    import pandas as pd

    codes, different = pd.factorize(texts)  # -1 if there is none
    ids = pd.Series(different, dtype=object)
    numbers = pd.to_numeric(ids, errors="coerce")
    if numbers.isna().any() or (numbers.astype(str) != ids.str.strip()).any():
        return texts
    return numbers.reindex(codes).set_axis(texts.index)


def _simplified(value):
    """Text of an id without differences in blanks, case, Unicode forms and zeros."""
    text = " ".join(normalize("NFKC", str(value)).casefold().split())
    has_zeros = text[:1] in "0-" or text.endswith(".0")  # ten times as fast as the search
    return _ZEROS.sub(r"\1", text) if has_zeros else text


def warn_of_similar_ids(ids: Array) -> None:
    """Warn of bags with ids that differ only by type, leading zeros, case or blanks."""
    if np.asarray(ids).dtype.kind not in "OUST":
        return
    n, pairs = _similar(np.asarray(ids))
    if n:
        warn(
            f"{n} bags have ids that differ from other ids only in type, leading zeros, "
            f"case or blanks: {pairs}; spell the id of a bag the same way in all rows"
        )


def _similar(values):
    """Number of values like others before them, and the first such pairs."""
    import pandas as pd

    alike = pd.Series([_simplified(value) for value in values.tolist()], dtype=object)
    similar = np.flatnonzero(alike.duplicated())
    first = alike.drop_duplicates()
    position = pd.Series(first.index, index=first.to_numpy())
    pairs = [(values[position[alike[i]]], values[i]) for i in similar[:_SHOWN]]
    return len(similar), ", ".join(f"{plain(a)!r} and {plain(b)!r}" for a, b in pairs)


def warn_of_categories(columns: Mapping[str, Collection[Any]], ordered: Sequence[str] = ()) -> None:
    """Warn of categories that are numbers or similar, by column, and of `ordered` columns."""
    for name, levels in columns.items():
        numbers = [value for value in levels if _NUMBER.fullmatch(str(value).strip())]
        others = [value for value in levels if value not in numbers]
        if others and len(numbers) > len(levels) / 2:
            warn(
                f"{len(numbers)} of the {len(levels)} categories of column {name!r} are numbers, "
                f"such as {numbers[0]!r}, but not {others[0]!r}: for one column of numbers read it "
                "without labels, for example with convert_categoricals=False of read_stata, or "
                f"convert it to numbers, for example with pd.to_numeric(df[{name!r}].astype(str), "
                "errors='coerce')"
            )
        n, pairs = _similar(np.array(list(levels), object))
        if n:
            warn(
                f"{n} categories of column {name!r} differ from other categories only in leading "
                f"zeros, case or blanks: {pairs}; spell the same category the same way"
            )
        if name in ordered and len(levels) > 2:
            warn(
                f"the categories of column {name!r} lose their order, as each becomes a column: "
                f"df[{name!r}].cat.codes keeps it, as a number"
            )
