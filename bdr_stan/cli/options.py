"""Options that several commands share."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from bdr_stan.cli.models import MODELS

METHODS = ("nuts", "exact", "optimize", "laplace", "vb")


def _all_of(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Options as one decorator, in their order on the help page."""

    def decorate(command):
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class _NameInTable(click.Choice):
    """A name of a table that needs SciPy: read when a command asks for it."""

    def __init__(self, names):
        self.case_sensitive = True
        self._names = names

    @cached_property
    def choices(self):
        return self._names()


def _likelihoods():
    from bdr_stan.aggregate.likelihoods import LIKELIHOODS

    return tuple(LIKELIHOODS)


def _families():
    from bdr_stan.families import FAMILIES

    return ("normal", "lognormal", *FAMILIES)


sample_tables = click.option(
    "--sample",
    "samples",
    multiple=True,
    metavar="NAME=TABLE",
    help="Another sample of points of the same bags, such as houses=houses.csv.  [repeatable]",
)


def _keep(context, option, value):
    context.meta[option.name] = value


def csv_options() -> dict[str, str]:
    """Options of pandas for the .csv tables of the command that runs."""
    context = click.get_current_context(silent=True)
    given = {} if context is None else context.meta
    return {name: given[name] for name in _CSV if given.get(name) is not None}


_CSV = {
    "sep": "What separates the columns of a .csv table, such as ';'.  [default: ,]",
    "decimal": "Decimal point of a .csv table, such as ','.  [default: .]",
    "encoding": "Encoding of a .csv table, such as latin-1.  [default: utf-8]",
}
_csv = _all_of(
    *(
        click.option(f"--{name}", callback=_keep, expose_value=False, metavar="TEXT", help=text)
        for name, text in _CSV.items()
    )
)

labelled_table = _all_of(
    click.argument("data", type=click.Path(path_type=Path)),
    click.option("--bag", required=True, metavar="COLUMN", help="Bag of each point."),
    click.option("--label", required=True, metavar="COLUMN", help="Label, the same within a bag."),
    click.option(
        "--features",
        metavar="A,B,...",
        help="Columns of a point: numbers, or texts as categories.  [default: all other columns]",
    ),
    click.option(
        "--covariates",
        metavar="A,B,...",
        help="Columns that are constant within a bag and enter linearly.",
    ),
    click.option(
        "--groups",
        metavar="A,B,...",
        help="Columns that group the bags, such as a state, with an effect of each group.",
    ),
    click.option(
        "--smooths",
        metavar="A,B+C,...",
        help="Columns of the bags, and pairs of columns, with smooth functions.",
    ),
    click.option("--weight", metavar="COLUMN", help="Weight of a point within its bag."),
    sample_tables,
    click.option(
        "--trials",
        metavar="COLUMN",
        help="Number of trials per bag, the same within it.  [only for --family binomial, "
        "beta_binomial and --likelihood binomial]",
    ),
    click.option(
        "--exposure",
        metavar="COLUMN",
        help="Such as people or hours, the same within a bag.  [only for --family poisson, "
        "negative_binomial, gamma]",
    ),
    click.option(
        "--offset",
        metavar="COLUMN",
        help="Known part of the linear predictor, the same within a bag.  [only for --family, but "
        "normal and lognormal]",
    ),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop", "indicator"]),
        default="error",
        show_default=True,
        help="Missing values: an error, drop the points, or impute and add an indicator column.",
    ),
    _csv,
)

model_settings = _all_of(
    click.option(
        "--bandwidth", metavar="FLOAT|scaled|ard|median", help="[default: scaled; not of totals]"
    ),
    click.option(
        "--covariance",
        type=click.Choice(["average", "pooled", "identity"]),
        help="Within-bag covariance.  [default: average; not for blr]",
    ),
    click.option(
        "--family",
        type=_NameInTable(_families),
        help="Distribution of a label.  [default: normal; only for bdr, blr, shrinkage]",
    ),
    click.option(
        "--label-noise",
        type=click.Choice(["constant", "size"]),
        help="size: labels are averages, noisier in small bags.  [default: constant; not for "
        "classes]",
    ),
    click.option(
        "--bounds",
        metavar="LOWER,UPPER",
        help="Range of the labels; an empty end is open.  [only for inverse-bdr]",
    ),
    click.option(
        "--label-distribution",
        type=click.Choice(["empirical", "normal", "uniform"]),
        help="Prior distribution of a label.  [default: empirical; only for inverse-bdr]",
    ),
    click.option(
        "--likelihood",
        type=_NameInTable(_likelihoods),
        help="Distribution of totals.  [default: negative binomial; only for aggregate]",
    ),
    click.option(
        "--link",
        type=click.Choice(["square", "exp", "logit", "identity"]),
        help="From the function to the rate at a point.  [default: that of the likelihood; only "
        "for aggregate]",
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
    click.option(
        "--thin",
        type=click.IntRange(1),
        help="Largest number of points that represent a bag.  [only for aggregate]",
    ),
    click.option(
        "--method",
        type=click.Choice(METHODS),
        help="[default: optimize for shrinkage, else nuts; exact: blr only, vb: aggregate only]",
    ),
    click.option(
        "--engine",
        type=click.Choice(["cmdstan", "stanli"]),
        help="What runs the Stan program.  [default: cmdstan, unless only stanli is installed]",
    ),
)

sampling = _all_of(
    click.option("--chains", type=click.IntRange(1), default=4, show_default=True),
    click.option(
        "--warmup",
        type=click.IntRange(0),
        help="[default: 300; 1000 for bdr-classifier and with --stan-file]",
    ),
    click.option(
        "--draws", type=click.IntRange(1), default=1000, show_default=True, help="Per chain."
    ),
)

force = click.option("--force", is_flag=True, help="Replace an existing output.")


def output(text: str, *, required: bool = True) -> Callable[[Any], Any]:
    """The option -o of a command that writes a file."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), required=required, help=text
    )


def models(*, several: bool) -> Callable[[Any], Any]:
    """The option --model, once or several times."""
    return click.option(
        "--model",
        type=click.Choice(list(MODELS)),
        default=["bdr"] if several else "bdr",
        show_default=True,
        multiple=several,
        help="Give it several times to compare models." if several else None,
    )


new_table = _all_of(
    sample_tables,
    click.option("--bag", metavar="COLUMN", help="Bag of a point.  [default: as in the fit]"),
    click.option("--weight", metavar="COLUMN", help="Weight of a point.  [default: as in the fit]"),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="Missing values: an error, or drop the points.",
    ),
    click.option(
        "--unseen",
        type=click.Choice(["error", "other"]),
        default="error",
        show_default=True,
        help="Categories that the fit does not have: an error, or none of the known ones.",
    ),
    _csv,
)
