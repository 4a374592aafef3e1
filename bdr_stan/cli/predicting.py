"""What a fit is for: ``bdr-stan predict``, ``summary``, ``report`` and ``design``."""

import re

import click

from bdr_stan.cli import options
from bdr_stan.cli.group import example
from bdr_stan.cli.models import load_fit, show_fit, show_table
from bdr_stan.cli.tables import check_input, check_output, of_first_sample, read_like
from bdr_stan.user_warnings import warn

_FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.]+$)")  # not negative numbers


@click.command(
    short_help="Predict the labels of new bags.",
    epilog=example("bdr-stan predict fit.nc new.parquet -o pred.csv"),
)
@click.argument("fitted", metavar="FIT", type=options.PATH)
@click.argument("new", type=options.PATH)
@options.output("Predictions, .csv.")
@options.new_table
@options.option("--level", "Probability of the intervals.", type=options.PROBABILITY, default=0.95)
@options.option(
    "--stan-file",
    "Your Stan program, which predictions run: the text of it as the fit ran it.",
    type=options.PATH,
)
@options.force
def predict(fitted, new, output, level, stan_file, force, **how):
    """Predict the labels of the bags in NEW, a .parquet or .csv table with the columns of the fit.

    A folder of .parquet files, or a pattern such as 'new/*.parquet', is read part by part; needs
    the extra "dask". Columns are found by name. Writes the ids of the bags under the name of their
    column, n_points, mean, sd, lower, upper; for classes n_points, predicted, and probability,
    lower, upper of the predicted class. Fits to at least 20 bags add familiarity, a p-value: small
    if a bag is unlike the training bags.
    """
    check_output(output, force, new, suffix=".csv")
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
    bags = read_like(model, fitted, new, **how)
    table = model.predict_table(bags if model.takes_parts else bags.load(), level=level)
    _warn_of_formulas(table.index)
    from bdr_stan.results.files import written_whole

    with written_whole(output) as partial:
        table.to_csv(partial)
    click.echo(f"Wrote {output}: {len(bags)} bags, intervals of {level:.4g} probability")


def _warn_of_formulas(ids):
    """Warn of ids that spreadsheets read as formulas; changed ids would match no table."""
    formulas = [text for text in ids if isinstance(text, str) and _FORMULA.match(text)]
    if formulas:
        warn(
            f"the id {formulas[0]!r} ({len(formulas)} in total) begins like a formula, which "
            "spreadsheet programs evaluate: import its column as text, or use another program"
        )


@click.command(short_help="Show what is in a fit.", epilog=example("bdr-stan summary fit.nc --all"))
@click.argument("fitted", metavar="FIT", type=options.PATH)
@click.option("--all", "every", is_flag=True, help="Include weights, not only scalar parameters.")
def summary(fitted, every):
    """Show the parameters, sampling report and priors of a fit."""
    check_input(fitted)
    model = load_fit(fitted)
    show_fit(model, every)
    show_table(model.priors())


@click.command(
    short_help="Write an HTML report of a fit.",
    epilog=example("bdr-stan report fit.nc people.parquet --label 'vote, per cent' -o fit.html"),
)
@click.argument("fitted", metavar="FIT", type=options.PATH)
@click.argument("data", required=False, type=options.PATH)
@options.output("Report, .html.")
@options.option("--label TEXT", "Name of the labels, with the unit.  [default: their column]")
@options.option("--title TEXT", "Title of the report.")
@options.option("--author TEXT", "Its author.")
@options.new_table
@options.force
def report(fitted, data, output, label, title, author, force, **how):
    """Write an HTML report of a fit for readers who did not run it, one file without network.

    DATA is the table that the model was fitted to, which a fit does not keep: without it the
    report has no ranges of columns and, for totals, no maps.
    """
    check_output(output, force, fitted, data, suffix=".html")
    check_input(fitted, data)
    model = load_fit(fitted)
    bags = None
    if data is not None:
        bags = of_first_sample(read_like(model, fitted, data, **how)).load()
    model.report_html(output, bags, label=label, title=title, author=author)
    click.echo(f"Wrote {output}")


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
