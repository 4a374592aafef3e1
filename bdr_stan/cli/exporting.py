"""``bdr-stan export``."""

from pathlib import Path

import click

from bdr_stan.cli.group import example
from bdr_stan.cli.models import load_fit
from bdr_stan.cli.tables import check_input


@click.command(
    short_help="Write the posterior for other samplers.",
    epilog=example("bdr-stan export fit.nc -o county_votes"),
)
@click.argument("fitted", metavar="FIT", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="A new or empty folder, whose name becomes that of the data.",
)
@click.option("--author", metavar="TEXT", help="Who adds the posterior to a database.")
def export(fitted, output, author):
    """Write the posterior of a fit as posteriordb keeps it, for other samplers.

    The Stan program in one file, its data as the JSON that CmdStan reads, zipped, the draws of NUTS
    with their diagnostics, and descriptions to complete.
    """
    check_input(fitted)
    load_fit(fitted).export(output, author=author)
    click.echo(f"Wrote {output}")
