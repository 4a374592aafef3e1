"""Options that several commands share."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from bdr_stan.cli.models import MODELS

MODEL = f"--model [{'|'.join(MODELS)}]"
PATH = click.Path(path_type=Path)
PROBABILITY = click.FloatRange(0, 1, min_open=True, max_open=True)


def _all_of(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Options as one decorator, in their order on the help page."""

    def decorate(command):
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def option(shown: str, text: str | None = None, **more: Any) -> Callable[[Any], Any]:
    """An option as on its help page, "--bag COLUMN", or with choices, "--missing [error|drop]"."""
    name, _, value = shown.partition(" ")
    if value.startswith("["):
        more["type"] = click.Choice(value[1:-1].split("|"))
    elif value:
        more["metavar"] = value
    return click.option(name, help=text, show_default="default" in more, **more)


def _table(texts: Mapping[str, str]) -> list[Callable[[Any], Any]]:
    """Options by their help."""
    return [option(shown, text) for shown, text in texts.items()]


class _NameInTable(click.Choice):
    """A name of a table that needs SciPy, imported when a command needs it; "_" may be a blank."""

    def __init__(self, names):
        self.case_sensitive, self._names = True, names

    def convert(self, value, param, ctx):
        return super().convert(value.replace(" ", "_"), param, ctx)

    choices = cached_property(lambda self: self._names())


def _likelihoods():
    from bdr_stan.aggregate.likelihoods import LIKELIHOODS

    return tuple(name.replace(" ", "_") for name in LIKELIHOODS)


def _families():
    from bdr_stan.families import FAMILIES

    return ("normal", "lognormal", *FAMILIES)


sample_tables = click.option(
    "--sample",
    "samples",
    multiple=True,
    metavar="NAME=TABLE",
    help="Another sample of points of the same bags, for example houses=houses.csv.  [repeatable]",
)


def _keep(context, option, value):
    context.meta[option.name] = value


def csv_options() -> dict[str, str]:
    """Options of pandas for the .csv tables of the command that runs."""
    context = click.get_current_context(silent=True)
    texts = {} if context is None else context.meta
    return {name: texts[name] for name in _CSV if texts.get(name) is not None}


_CSV = {
    "sep": "What separates the columns of a .csv table, such as ';'.  [default: ,]",
    "decimal": "Decimal point of a .csv table, such as ','.  [default: .]",
    "encoding": "Encoding of a .csv table, such as latin-1.  [default: utf-8]",
}
_csv = _all_of(
    *(
        option(f"--{name} TEXT", text, callback=_keep, expose_value=False)
        for name, text in _CSV.items()
    )
)

columns_of_points = _all_of(
    *_table(
        {
            "--features A,B,...": "Columns of a point: numbers, or texts as categories.  "
            "[default: all other columns]",
            "--covariates A,B,...": "Columns that are constant within a bag and enter linearly.",
            "--groups A,B,...": "Columns that group the bags, such as a state, with an effect of "
            "each group.",
            "--smooths A,B+C,...": "Columns of the bags, and pairs of columns, with smooth "
            "functions.",
            "--weight COLUMN": "Weight of a point within its bag.",
        }
    ),
)

missing = _all_of(
    option(
        "--missing [error|drop|indicator]",
        "Missing values: an error, drop the points, or impute and add an indicator column.",
        default="error",
    ),
    _csv,
)

labelled_table = _all_of(
    click.argument("data", type=PATH),
    option("--bag COLUMN", "Bag of each point.", required=True),
    option("--label COLUMN", "Label, constant within a bag.", required=True),
    columns_of_points,
    sample_tables,
    *_table(
        {
            "--cluster COLUMN": "Sampled cluster of a point, such as its household.",
            "--strata COLUMN": "Stratum of the cluster.",
            "--trials COLUMN": "Number of trials, constant within a bag.  [only for --family "
            "binomial, beta_binomial and --likelihood binomial]",
            "--exposure COLUMN": "Exposure (for example people or hours), constant within a bag.  "
            "[only for --family poisson, negative_binomial, gamma]",
            "--offset COLUMN": "Known part of the linear predictor, constant within a bag.  [only "
            "for --family, except normal and lognormal]",
            "--event COLUMN": "1 if the event was observed at the time, 0 if the time is "
            "censored.  [only for --family weibull, lognormal]",
            "--entry COLUMN": "Time from which a bag was under observation.  [as --event]",
        }
    ),
    missing,
)

model_settings = _all_of(
    *_table({"--bandwidth FLOAT|scaled|ard|median": "[default: scaled; not for totals]"}),
    option(
        "--family",
        "Distribution of a label.  [default: normal; only for bdr, blr, shrinkage]",
        type=_NameInTable(_families),
    ),
    *_table(
        {
            "--label-noise [constant|size]": "size: labels are averages, noisier in small bags.  "
            "[default: constant; not for classes]",
            "--bounds LOWER,UPPER": "Range of the labels; an empty end is open.  [only for "
            "inverse-bdr]",
            "--label-distribution [empirical|normal|uniform]": "Prior distribution of a label.  "
            "[default: empirical; only for inverse-bdr]",
        }
    ),
    option(
        "--likelihood",
        "Distribution of totals.  [default: negative_binomial; only for aggregate]",
        type=_NameInTable(_likelihoods),
    ),
    option(
        "--link [square|exp|logit|identity]",
        "From the function to the rate at a point.  [default: that of the likelihood; only for "
        "aggregate]",
    ),
    click.option(
        "--learn-kernel/--fix-kernel",
        default=None,
        help="Whether bandwidths are learned.  [default: learned; only for aggregate]",
    ),
    click.option(
        "--bag-effects",
        is_flag=True,
        default=None,
        help="Add a random effect per bag.  [only for aggregate]",
    ),
    option(
        "--thin",
        "Largest number of points that represent a bag.  [only for aggregate]",
        type=click.IntRange(1),
    ),
    *_table(
        {
            "--method [nuts|exact|optimize|laplace|vb]": "[default: optimize for shrinkage, else "
            "nuts; exact: blr only, vb: aggregate only]",
            "--engine [cmdstan|stanli]": "What runs the Stan program.  [default: cmdstan, unless "
            "only stanli is installed]",
        }
    ),
)

_WARMUP = "[default: 300; 1000 for bdr-classifier and with --stan-file]"
sampling = _all_of(
    option("--chains", type=click.IntRange(1), default=4),
    option("--warmup", _WARMUP, type=click.IntRange(0)),
    option("--draws", "Per chain.", type=click.IntRange(1), default=1000),
)

force = click.option("--force", is_flag=True, help="Replace an existing output.")


def output(text: str, *, required: bool = True) -> Callable[[Any], Any]:
    """The option -o of a command that writes a file."""
    return click.option("-o", "--output", type=PATH, required=required, help=text)


new_table = _all_of(
    sample_tables,
    option("--bag COLUMN", "Bag of a point.  [default: as in the fit]"),
    option("--weight COLUMN", "Weight of a point.  [default: as in the fit]"),
    option(
        "--missing [error|drop]", "Missing values: an error, or drop the points.", default="error"
    ),
    option(
        "--unseen [error|other]",
        "Categories that the fit does not have: an error, or none of the known ones.",
        default="error",
    ),
    _csv,
)
