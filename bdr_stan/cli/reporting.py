"""``bdr-stan report``."""

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
    of_first_sample,
    read_like,
)


@click.command(
    short_help="Write an HTML report of a fit.",
    epilog=example("bdr-stan report fit.nc people.parquet --label 'vote, per cent' -o fit.html"),
)
@click.argument("fitted", metavar="FIT", type=click.Path(path_type=Path))
@click.argument("data", required=False, type=click.Path(path_type=Path))
@options.output("Report, .html.")
@click.option(
    "--label", metavar="TEXT", help="What the labels are, with the unit.  [default: their column]"
)
@click.option("--title", metavar="TEXT", help="Title of the report.")
@click.option("--author", metavar="TEXT", help="Its author.")
@options.new_table
@options.force
def report(
    fitted, data, output, label, title, author, samples, bag, weight, missing, unseen, force
):
    """Write an HTML report of a fit for readers who did not run it, one file without network.

    DATA is the table that the model was fitted to, which a fit does not keep: without it the
    report has no ranges of columns and, for totals, no maps.
    """
    for given in (fitted, data or fitted):
        check_output(output, force, not_to_be=given)
    check_suffix(output, ".html")
    check_input(fitted, data)
    model = load_fit(fitted)
    bags = None
    if data is not None:
        read = read_like(
            model, fitted, data, bag, weight, missing=missing, unseen=unseen, samples=samples
        )
        bags = in_memory(of_first_sample(read))
    model.report_html(output, bags, label=label, title=title, author=author)
    click.echo(f"Wrote {output}")
