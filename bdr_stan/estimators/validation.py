"""Checks of parameters and of validation bags, used by several estimators."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.bags import Bags, BagsLike, as_bags, check_labels, check_one_per_bag
from bdr_stan.bags.labels import ordered_categories
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.posterior.priors import check_prior_number
from bdr_stan.types import Array, ArrayLike, check_counts, is_integer, is_number, numbers_or_nan

LANDMARKS = ("kmeans", "random")  # names of ways to choose landmarks for embeddings


def check_positive(**numbers: Any) -> None:
    """Raise ValueError unless each is a finite number > 0."""
    for name, value in numbers.items():
        if not (is_number(value) and 0 < value < np.inf):
            raise ValueError(f"{name} must be a positive number, found {value!r}")


def check_bag_effects(bag_effects: Any, of_normal_totals: bool) -> None:
    """Raise unless `bag_effects` is a bool or, of normal totals, a list of columns."""
    if isinstance(bag_effects, (bool, np.bool_)):
        return
    is_list = isinstance(bag_effects, Sequence) and not isinstance(bag_effects, str)
    if not is_list or not len(bag_effects):
        raise ValueError(
            f"bag_effects must be True, False or a list of columns, found {bag_effects!r}"
        )
    if not of_normal_totals:
        raise ValueError(
            "coefficients of columns that differ between bags go with likelihood='normal': other "
            f"totals take bag_effects=True, found {bag_effects!r}"
        )


def check_prior(prior: Any) -> None:
    """Raise TypeError or ValueError unless this is None or a dict of numbers by name."""
    if prior is None:
        return
    if not isinstance(prior, Mapping):
        raise TypeError(
            f"prior must be None or a dict of numbers by name, as priors(as_table=False) gives "
            f"them, found {prior!r}"
        )
    for name, value in prior.items():
        check_prior_number(name, value)


class StanFileOfFit(str):
    """The `stan_file` of a fit loaded from the file `fit`: not run until the user sets it again."""

    fit: str


def check_stan_file(path: Any) -> None:
    """Raise TypeError, ValueError or OSError unless this is None or the path of a Stan file."""
    if path is None:
        return
    if isinstance(path, StanFileOfFit):
        raise ValueError(
            f"stan_file is {str(path)!r} in the fit that was loaded from {path.fit}: check that "
            f"program on this machine, then set it with set_params(stan_file=...)"
        )
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"stan_file must be None or a path, found {path!r}")
    if not str(path).endswith(".stan"):
        raise ValueError(f"stan_file must be the path of a .stan file, found {str(path)!r}")
    if not Path(path).expanduser().is_file():
        raise FileNotFoundError(f"stan_file is {str(path)!r}, but there is no such file")


def check_landmarks(landmarks: Any, n_landmarks: Any, names: tuple[str, ...]) -> None:
    """Raise TypeError or ValueError unless landmarks are one of the names or an array (d, p)."""
    try:
        is_array = not isinstance(landmarks, str) and np.ndim(np.asarray(landmarks, float)) == 2
    except (TypeError, ValueError):
        is_array = False
    if isinstance(landmarks, str) and landmarks in names:
        if landmarks != "one per bag":
            check_counts(n_landmarks=n_landmarks)
    elif not is_array:
        listed = ", ".join(map(repr, names))
        raise ValueError(
            f"landmarks must be {listed} or an array of numbers of shape (d, p), found "
            f"{landmarks!r}"
        )


def labels_of_training(training: Any, y: ArrayLike, *, several: bool = False) -> Any:
    """Labels in the order of the bags of training features, (n,), or (n, k) if `several` may be."""
    if not isinstance(training, TrainingFeatures):
        raise TypeError(
            f"training must come from training_features(bags), found a {type(training).__name__}"
        )
    y = match_to_ids(y, training.record.ids)
    categories = ordered_categories(y)
    labels = np.asarray(y) if categories is None else categories
    columns = several and labels.ndim == 2 and labels.shape[1] > 1
    check_one_per_bag(labels[:, 0] if columns else labels, len(training.record.index))
    return labels


def check_folds(cv: Any, n: int) -> None:
    """Raise ValueError unless cv is a number of folds of n bags, a splitter, or splits."""
    if isinstance(cv, Iterable) and not isinstance(cv, str):
        return
    if hasattr(cv, "split") and not isinstance(cv, str):
        return
    if not is_integer(cv):
        raise ValueError(f"cv must be a number of folds or a splitter, found {cv!r}")
    if not 2 <= cv <= n:
        raise ValueError(f"cv must be from 2 to {n}, the number of bags, found {cv}")


def checked_splits(splits: Iterable[tuple[Array, Array]], y: Array) -> list[tuple[Array, Array]]:
    """Splits as a list; raises ValueError if the training labels of one are all equal."""
    splits = list(splits)
    for train, _ in splits:
        if len(np.unique(y[train], axis=0)) < 2:
            raise ValueError(
                f"cv leaves {len(train)} bag{'s' * (len(train) > 1)} with equal labels for "
                "training: give more bags, or validation=(bags, y)"
            )
    return splits


def check_alpha(alpha: Any) -> None:
    """Raise ValueError unless this is "loo", or one or several positive numbers."""
    if isinstance(alpha, str) and alpha == "loo":
        return
    values = numbers_or_nan(alpha)
    if values.ndim != 1 or len(values) == 0 or not np.all((values > 0) & (values < np.inf)):
        raise ValueError(f"alpha must be 'loo', a positive number or several, found {alpha!r}")


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        raise ValueError(f"{name} must be {listed}, found {value!r}")


def check_bounds(bounds: Any) -> None:
    """Raise TypeError or ValueError unless bounds are (lower, upper), None for an open end."""
    if bounds is None:
        return
    if isinstance(bounds, str) or not np.iterable(bounds) or len(list(bounds)) != 2:
        raise TypeError(f"bounds must be (lower, upper), None for an open end, found {bounds!r}")
    for end in bounds:
        if end is not None and not (is_number(end) and np.isfinite(float(end))):
            raise ValueError(f"bounds must be finite numbers or None, found {bounds!r}")
    lower, upper = bounds
    if lower is not None and upper is not None and not lower < upper:
        raise ValueError(f"bounds must be (lower, upper) with lower < upper, found {bounds!r}")


def check_validation_chooses(alpha: Any) -> None:
    """Raise ValueError if there is only one penalty, so validation has no choice."""
    if np.isscalar(alpha) and not isinstance(alpha, str):
        raise ValueError(f"validation chooses alpha, but alpha is {alpha!r}: leave one of them out")


def checked_validation(
    validation: tuple[BagsLike, ArrayLike],
    bags: Bags,
    check: Callable[[Bags, ArrayLike], Any] = check_labels,
) -> tuple[Bags, Any]:
    """Validation bags and labels, checked against the training bags."""
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise TypeError(f"validation must be a pair (bags, y), found a {type(validation).__name__}")
    held_out = as_bags(validation[0]).like(bags.columns)
    try:
        labels = check(held_out, validation[1])
    except (TypeError, ValueError) as error:
        raise type(error)(f"validation: {error}") from None
    held_out.check_like(
        bags.n_features,
        bags.features,
        bags.columns,
        whose="the validation bags",
        source="the training bags have",
    )
    return held_out, labels
