"""Columns of text that hold numbers or dates, and ids that differ in how they are written."""

import re
import warnings
from collections.abc import Collection
from typing import Any

import numpy as np

from bdr_stan.bags.checks import plain
from bdr_stan.types import Array

__all__ = ["check_are_categories", "ids_of_text", "warn_of_similar_ids"]

# A sign, a currency and a percent sign about digits that points, commas or blanks group.
_NUMBER = re.compile(r"[-+\u2212]?\s*[$€£¥]?\s*[-+\u2212]?\d+([.,'\s]\d+)*([eE][-+]?\d+)?\s*%?")
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}")
_SHOWN = 3  # pairs of ids in the warning


def check_are_categories(values: Collection[str], name: str) -> None:
    """Raise TypeError where more than half of the texts of a column are numbers or dates."""
    dates = [value for value in values if _DATE.fullmatch(value.strip())]
    if len(dates) > len(values) / 2:
        raise TypeError(
            f"column {name!r} holds dates as text, such as {dates[0]!r}: make a number of them, "
            "such as years since 2000, or leave it out of the features"
        )
    numbers = [value for value in values if _NUMBER.fullmatch(value.strip())]
    written = any(not _is_plain_number(value) for value in numbers)  # as in $1,200
    if len(numbers) > len(values) / 2 and (len(values) > 2 or written):
        odd = [value for value in values if value not in numbers]
        what = f"text such as {odd[0]!r} among numbers" if odd else "numbers written as text"
        example = next((v for v in numbers if not _is_plain_number(v)), numbers[0])
        raise TypeError(
            f"column {name!r} holds {what}, such as {example!r}: make numbers of its cells, as by "
            "decimal=',' or thousands=',' of read_csv, or a category of the column where they are "
            "codes, or leave it out of the features"
        )


def _is_plain_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def ids_of_text(texts: Any) -> Any:
    """Ids that were read as text, a pandas Series, as numbers where nothing is lost by that.

    Nothing is where each is written as Python writes the number: not "01", which is not 1.
    """
    import pandas as pd

    numbers = pd.to_numeric(texts, errors="coerce")
    given = texts.notna()
    same = numbers.notna() & (numbers[given].astype(str).reindex(texts.index) == texts)
    return numbers if same[given].all() else texts


def warn_of_similar_ids(ids: Array) -> None:
    """Warn of bags whose ids differ by type, leading zeros, case or surrounding blanks alone."""
    import pandas as pd

    if np.asarray(ids).dtype.kind not in "OUST":
        return
    alike = pd.Series(ids).astype(str).str.strip().str.casefold()
    alike = alike.str.replace(r"^0+(?=\d)", "", regex=True)
    similar = np.flatnonzero(alike.duplicated())
    if len(similar):
        first = alike.drop_duplicates()
        place = pd.Series(first.index, index=first.to_numpy())
        pairs = ", ".join(
            f"{plain(ids[place[alike[i]]])!r} and {plain(ids[i])!r}" for i in similar[:_SHOWN]
        )
        warnings.warn(
            f"{len(similar)} bags have ids like those of others but for type, leading zeros, case "
            f"or blanks: {pairs}; write the ids of a bag alike where they are the same bag",
            stacklevel=4,
        )
