"""The size of a survey: ``bdr-stan design``."""

import click

from bdr_stan.cli import options
from bdr_stan.cli.group import example
from bdr_stan.cli.models import load_fit, show_table
from bdr_stan.cli.tables import check_input


@click.command(
    short_help="Find the cheapest size of a survey.",
    epilog=example("bdr-stan design pilot.nc --width 0.2 --cost-of-bag 50 --cost-of-point 1"),
)
@click.argument("fitted", metavar="[PILOT]", required=False, type=options.PATH)
@options.option("--width", "Largest average width of the intervals.", type=float, required=True)
@options.option("--cost-of-bag", "Cost of a bag.", type=float, required=True)
@options.option("--cost-of-point", "Cost of each of its points.", type=float, required=True)
@options.option("--of [prediction|average]", "What has the intervals.", default="prediction")
@options.option("--level", "Probability of the intervals.", type=options.PROBABILITY, default=0.95)
@options.option("--between", "Variance between bags, without a PILOT.", type=float)
@options.option("--within", "Variance between points of a bag, without a PILOT.", type=float)
@options.option("--noise", "Variance of the noise of labels, without a PILOT.", type=float)
def design(fitted, between, within, noise, **how):
    """Find the cheapest numbers of bags, and of points per bag, for intervals of a width.

    PILOT is a fit of bdr or shrinkage to a few bags, or three variances describe the labels.
    """
    given = {"between": between, "within": within, "noise": noise}
    if [fitted is None] * 3 != [value is not None for value in given.values()]:
        raise ValueError("give either the fit to a pilot, or --between, --within and --noise")
    if fitted is None:
        from bdr_stan import design_from_variances

        studies = design_from_variances(**given, **how)
    else:
        check_input(fitted)
        studies = load_fit(fitted).design(**how)
    show_table(studies.head(8).set_index("bags"))
