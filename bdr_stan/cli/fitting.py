"""``bdr-stan fit``."""

import click

from bdr_stan.cli import options
from bdr_stan.cli.group import example
from bdr_stan.cli.models import check_fit_options, estimator_of, show_fit, without_none
from bdr_stan.cli.tables import LabelledTable, check_input, check_output, pairs

_SAMPLING = ("chains", "warmup", "draws", "seed")  # settings of the sampler


@click.command(
    short_help="Fit a model to a table of points.",
    epilog=example(
        "bdr-stan fit people.parquet --bag county --label vote -o fit.nc",
        "bdr-stan fit pixels.csv --bag district --label cases --weight people \\",
        "    --model aggregate --link exp -o rates.nc",
    ),
)
@options.labelled_table
@options.option(options.MODEL, default="bdr")
@options.output("Fit, a NetCDF file.")
@options.option(
    "--label-sd COLUMN",
    "Known standard error of a label, the same within a bag.  [not for classes]",
)
@options.option("--landmarks", type=click.IntRange(1), default=60)
@options.option("--kernel NAME", "Kernel, e.g. rbf or additive.  [default: the model's own]")
@options.option("--bandwidth-scale FLOAT", "Factor on the bandwidth.", type=float)
@options.model_settings
@options.sampling
@options.option("--adapt-delta", type=options.PROBABILITY)
@options.option("--max-treedepth", type=click.IntRange(1))
@options.option("--seed", "[default: another one each time]", type=click.IntRange(0))
@options.option("--stan-file", "Your variant of the program.", type=options.PATH)
@options.option(
    "--stan-data NAME=COLUMN",
    "A column, one value per bag, as data NAME of your program; repeatable.",
    multiple=True,
)
@options.force
def fit(data, model, output, adapt_delta, max_treedepth, stan_file, stan_data, force, **more):
    """Fit a model to DATA, a .parquet or .csv table with one row per point.

    DATA may be a folder of .parquet files, or a pattern such as 'points/*.parquet': files are read
    part by part and may exceed memory; needs the extra "dask". Writes one file with all that
    `bdr-stan predict` needs.
    """
    check_output(output, force, data)
    check_input(data, stan_file)
    table = LabelledTable.taken(data, more)
    settings = {name: value for name, value in more.items() if name not in _SAMPLING}
    settings |= {**table.columns_of_bags, "stan_file": stan_file}
    settings["n_landmarks"] = settings.pop("landmarks")
    estimator = estimator_of(model, settings)
    sampler = {"adapt_delta": adapt_delta, "max_treedepth": max_treedepth}
    fit_options = without_none({**table.label_data, **sampler})
    check_fit_options(model, estimator, fit_options)
    columns = dict(pairs("--stan-data", "NAME=COLUMN, such as urban=urban, found", stan_data))
    bags, y = table.read(model, list(columns.values()))
    if columns:
        fit_options["stan_data"] = columns
    run = {name: more[name] for name in _SAMPLING}
    estimator.fit(bags, y, **run, **fit_options, progress=True)
    estimator.save(output, notes=table.roles)
    show_fit(estimator)
    click.echo(f"Wrote {output}")
