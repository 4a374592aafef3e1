"""``bdr-stan predict``."""

import re
from pathlib import Path

import click

from bdr_stan.cli import options
from bdr_stan.cli.group import example
from bdr_stan.cli.models import load_fit
from bdr_stan.cli.tables import (
    check_input,
    check_output,
    check_suffix,
    in_memory,
    read_like,
    write_whole,
)
from bdr_stan.user_warnings import warn

_FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.]+$)")  # not negative numbers


@click.command(
    short_help="Predict the labels of new bags.",
    epilog=example("bdr-stan predict fit.nc new.parquet -o pred.csv"),
)
@click.argument("fitted", metavar="FIT", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@options.output("Predictions, .csv.")
@options.new_table
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Probability of the intervals.",
)
@click.option(
    "--stan-file",
    type=click.Path(path_type=Path),
    help="Your Stan program, which predictions run: the text of it as the fit ran it.",
)
@options.force
def predict(fitted, new, output, samples, bag, weight, missing, unseen, level, stan_file, force):
    """Predict the labels of the bags in NEW, a .parquet or .csv table like that of the fit.

    A folder of .parquet files, or a pattern such as 'new/*.parquet', is read part by part; needs
    the extra "dask". Columns are found by name. Writes the ids of the bags under the name of their
    column, n_points, mean, sd, lower, upper; for classes n_points, predicted, and probability,
    lower, upper of the predicted class. Of fits to 20 bags and more also familiarity, a p-value:
    small where a bag is unlike those of the fit.
    """
    check_output(output, force, not_to_be=new)
    check_suffix(output, ".csv")
    check_input(fitted, new, stan_file)
    model = load_fit(fitted)
    if stan_file is not None:
        if getattr(model, "stan_file", None) is None:
            raise ValueError(f"{fitted} has no Stan program of its own: leave --stan-file out")
        model.set_params(stan_file=str(stan_file))
    if getattr(model, "needs_trials", False):
        raise ValueError(
            f"{fitted} was fitted with trials, an exposure or an offset that have no column, which "
            "a prediction needs as well: predict in Python, with "
            f"bdr_stan.load({str(fitted)!r}).predict(bags, trials=...), exposure= or offset="
        )
    bags = read_like(
        model, fitted, new, bag, weight, missing=missing, unseen=unseen, samples=samples
    )
    table = model.predict_table(bags if model.takes_parts else in_memory(bags), level=level)
    _warn_of_formulas(table.index)
    write_whole(output, table.to_csv)
    click.echo(f"Wrote {output}: {len(bags)} bags, intervals of {level:.4g} probability")


def _warn_of_formulas(ids):
    """Warn of ids that spreadsheets read as formulas; changed ids would match no table."""
    formulas = [text for text in ids if isinstance(text, str) and _FORMULA.match(text)]
    if formulas:
        warn(
            f"the id {formulas[0]!r} ({len(formulas)} in all) begins like a formula, which "
            "spreadsheet programs evaluate: import its column as text, or use another program"
        )
