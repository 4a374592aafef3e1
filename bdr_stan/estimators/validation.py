"""Checks of parameters and of validation bags that several estimators make."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bdr_stan.bags import Bags, BagsLike, as_bags, check_labels
from bdr_stan.types import Array, ArrayLike


def check_counts(**counts: Any) -> None:
    """Raise ValueError unless these are integers, from 1 or, of warmup, from 0."""
    for name, value in counts.items():
        least = 0 if name == "warmup" else 1
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, found {value!r}")


def check_alphas(alphas: Any, name: str, otherwise: str) -> None:
    """Raise unless these are positive numbers; `otherwise` is what else could have been given."""
    try:
        values = np.atleast_1d(np.asarray(alphas, float))
    except (TypeError, ValueError):
        values = np.array([])
    if values.ndim != 1 or len(values) == 0 or not np.all((values > 0) & (values < np.inf)):
        raise ValueError(
            f"{name} must be {otherwise}, a positive number or several, found {alphas!r}"
        )


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if value not in choices:
        listed = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        raise ValueError(f"{name} must be {listed}, found {value!r}")


def check_validation_chooses(alpha: Any) -> None:
    """Raise ValueError where one penalty is given: validation bags have nothing to choose."""
    if np.isscalar(alpha) and not isinstance(alpha, str):
        raise ValueError(f"validation chooses alpha, but alpha is {alpha!r}: leave one of them out")


def checked_validation(
    validation: tuple[BagsLike, ArrayLike],
    bags: Bags,
    check: Callable[[Bags, ArrayLike], Array] = check_labels,
) -> tuple[Bags, Array]:
    """Validation bags and labels, once they are known to go with the training bags."""
    held = as_bags(validation[0]).like(bags.columns)
    labels = check(held, validation[1])
    held.check_like(
        bags.n_features, bags.features, whose="the validation bags", known="the training bags have"
    )
    return held, labels
