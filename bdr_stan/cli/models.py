"""Estimators by their names on the command line, and the display of a fit."""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd

    from bdr_stan.estimators.base import BagEstimator

MODELS = {
    "bdr": "BDR",
    "blr": "BLR",
    "shrinkage": "Shrinkage",
    "inverse-bdr": "InverseBDR",
    "bdr-classifier": "BDRClassifier",
    "blr-classifier": "BLRClassifier",
    "shrinkage-classifier": "ShrinkageClassifier",
    "inverse-bdr-classifier": "InverseBDRClassifier",
    "aggregate": "AggregateRegressor",
}

# What `fit` takes in addition to each label, and advice if a model does not have it.
LABEL_DATA = {
    "label_sd": ", which bdr, blr, shrinkage, inverse-bdr and aggregate do: leave it out",
    "trials": ": leave them out, or use --family binomial of bdr, blr and shrinkage, or --model "
    "aggregate",
    "exposure": ": leave it out, or use --family poisson, negative_binomial or gamma of bdr, blr "
    "and shrinkage",
    "offset": ": leave it out, or use a --family of bdr, blr and shrinkage other than normal and "
    "lognormal",
    "event": ": leave it out, or use --family weibull or lognormal of bdr, blr and shrinkage",
    "entry": ": leave it out, or use --family weibull or lognormal of bdr, blr and shrinkage",
}


def without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def estimator_of(name: str, supplied: Mapping[str, Any]) -> "BagEstimator":
    """An estimator by its name, with its settings; ValueError for a setting of others."""
    settings = without_none(supplied)
    for parameter, read in (("bandwidth", _bandwidth), ("bounds", _bounds)):
        if parameter in settings:
            settings[parameter] = read(settings[parameter])
    for parameter in settings:
        if parameter not in _parameters(name):
            raise ValueError(_not_taken(name, parameter))
    return _class_of(name)(**settings)


def check_fit_options(name: str, estimator: Any, options: Mapping[str, Any]) -> None:
    """Raise ValueError for options of `fit` that need another model, family or method."""
    label_data = getattr(estimator, "takes", ("trials",) * hasattr(estimator, "predict_points"))
    accepted = {*label_data, *["label_sd"] * getattr(estimator, "takes_label_sd", False)}
    for option, instead in LABEL_DATA.items():
        if option in options and option not in accepted:
            raise ValueError(f"{name} takes no --{option.replace('_', '-')}{instead}")
    if "trials" in label_data and hasattr(estimator, "takes") and "trials" not in options:
        raise ValueError(
            f"--family {estimator.family} needs --trials, the column with the number of trials of "
            "each bag"
        )
    if estimator.method != "nuts" and not {"adapt_delta", "max_treedepth"}.isdisjoint(options):
        raise ValueError("--adapt-delta and --max-treedepth are for --method nuts: leave them out")


def _class_of(name: str) -> Any:
    import bdr_stan

    return getattr(bdr_stan, MODELS[name])


def _parameters(name: str) -> set[str]:
    return set(_class_of(name)().get_params())


def _not_taken(name: str, parameter: str) -> str:
    """Message about a parameter that a model does not have, with a model that does."""
    kind = name.endswith("classifier")
    others = [n for n in MODELS if n.endswith("classifier") == kind and parameter in _parameters(n)]
    option = {"n_landmarks": "landmarks"}.get(parameter, parameter).replace("_", "-")
    instead = f", or use --model {others[0]}" if others else ""
    return f"{name} takes no --{option}: leave it out{instead}"


def _bandwidth(text: str) -> str | float:
    try:
        return text if text in ("scaled", "ard", "median") else float(text)
    except ValueError:
        raise ValueError(
            f"--bandwidth must be scaled, ard, median or a number, found {text!r}"
        ) from None


def _bounds(text: str) -> tuple[float | None, float | None]:
    """Two numbers; an empty end is open."""
    try:
        ends = [None if end.strip() == "" else float(end) for end in text.split(",")]
        lower, upper = ends
    except ValueError:
        raise ValueError(
            f"--bounds must be two numbers with a comma, such as 0,1 or 0, for an open end, found "
            f"{text!r}"
        ) from None
    return lower, upper


def load_fit(path: Path) -> Any:
    """A fit with a posterior; raises for a missing file or another kind of fit."""
    from bdr_stan import load

    model = load(path)
    if not model.samples_posterior:
        raise ValueError(
            f"{path} holds a fit of {type(model).__name__}, which has no posterior of its own: use "
            f"it in Python, with bdr_stan.load({str(path)!r})"
        )
    return model


def show_table(table: "pd.DataFrame") -> None:
    """Print a DataFrame in full, its numbers as in a report."""
    from bdr_stan.report.page import cell_text

    columns = table.select_dtypes("number")
    formatters = {name: partial(cell_text, column=name) for name in columns}
    width = shutil.get_terminal_size((160, 0)).columns  # files and pipes have none
    click.echo(table.to_string(formatters=formatters, na_rep="-", line_width=width))


def show_fit(model: Any, every: bool = False) -> None:
    """Print the scalar parameters of a fit, or all parameters, and its sampling report."""
    groups = model.result_.groups
    posterior, n_bags = groups["posterior"], model.result_.n_bags
    click.echo(f"{type(model).__name__} ({model.method}): {n_bags} bags, {_landmarks(model)}")
    scalars = [
        name
        for name, values in posterior.data_vars.items()
        if values.ndim == 2 or "sample" in values.dims
    ]
    if every or scalars:
        show_table(model.summary(None if every else scalars).rename_axis("parameter"))
    click.echo(model.report())


def _landmarks(model):
    """Numbers of columns and landmarks, of several samples of each."""
    from bdr_stan.bags.samples import by_name

    shapes = ((name, *landmarks.shape) for name, landmarks in by_name(model.landmarks_).items())
    return "; ".join(f"{name or 'points'} of {p} features, {d} landmarks" for name, d, p in shapes)
