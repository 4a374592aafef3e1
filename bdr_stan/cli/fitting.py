"""``bdr-stan fit`` and ``bdr-stan summary``."""

from pathlib import Path

import click

from bdr_stan.cli import options
from bdr_stan.cli.group import example
from bdr_stan.cli.models import check_fit_options, estimators_of, load_fit, show_fit, without_none
from bdr_stan.cli.tables import (
    check_input,
    check_output,
    columns_of_bags,
    read_labelled,
    tables_of_samples,
)
from bdr_stan.terminal import show_table


@click.command(
    short_help="Fit a model to a table of points.",
    epilog=example(
        "bdr-stan fit people.parquet --bag county --label vote -o fit.nc",
        "bdr-stan fit pixels.csv --bag district --label cases --weight people \\",
        "    --model aggregate --link exp -o rates.nc",
    ),
)
@options.labelled_table
@options.models(several=False)
@options.output("Fit, a NetCDF file.")
@click.option(
    "--label-sd",
    metavar="COLUMN",
    help="Known standard error of a label, the same within a bag.  [not for classes]",
)
@click.option("--landmarks", type=click.IntRange(1), default=60, show_default=True)
@click.option("--kernel", metavar="NAME", help="Such as rbf, additive.  [default: the model's own]")
@click.option("--bandwidth-scale", type=float, metavar="FLOAT", help="Factor on the bandwidth.")
@options.model_settings
@options.sampling
@click.option("--adapt-delta", type=click.FloatRange(0, 1, min_open=True, max_open=True))
@click.option("--max-treedepth", type=click.IntRange(1))
@click.option("--seed", type=click.IntRange(0), help="[default: another one each time]")
@click.option("--stan-file", type=click.Path(path_type=Path), help="Your variant of the program.")
@click.option(
    "--stan-data",
    multiple=True,
    metavar="NAME=COLUMN",
    help="A column, one value per bag, as data NAME of your program; repeatable.",
)
@options.force
def fit(
    data,
    bag,
    label,
    model,
    output,
    features,
    covariates,
    groups,
    smooths,
    weight,
    samples,
    label_sd,
    trials,
    exposure,
    offset,
    missing,
    landmarks,
    chains,
    warmup,
    draws,
    adapt_delta,
    max_treedepth,
    seed,
    stan_file,
    stan_data,
    force,
    **settings,
):
    """Fit a model to DATA, a .parquet or .csv table with one row per point.

    DATA may be a folder of .parquet files, or a pattern such as 'points/*.parquet': these are read
    part by part and may exceed memory; needs the extra "dask". Writes one file with all that
    `bdr-stan predict` needs.
    """
    check_output(output, force, not_to_be=data)
    check_input(data, stan_file)
    tables = tables_of_samples(data, samples)
    columns = columns_of_bags(covariates, groups, smooths)
    settings |= {**columns, "n_landmarks": landmarks, "stan_file": stan_file}
    estimator = estimators_of([model], settings)[model]
    sampler = {"adapt_delta": adapt_delta, "max_treedepth": max_treedepth}
    known = {"label_sd": label_sd, "trials": trials, "exposure": exposure, "offset": offset}
    fit_options = without_none({**known, **sampler})
    check_fit_options(model, estimator, fit_options)
    roles = {"bag": bag, "label": label, "weight": weight, **known}
    own = _own_columns(stan_data)
    columns |= {"stan_data": list(own.values())}
    bags, y = read_labelled(data, roles, features, columns, missing, model=model, samples=tables)
    run = {"chains": chains, "warmup": warmup, "draws": draws, "seed": seed, "progress": True}
    if own:
        fit_options["stan_data"] = own
    estimator.fit(bags, y, **run, **fit_options)
    estimator.save(output, notes={"bag": bag, "label": label, "weight": weight})
    show_fit(estimator)
    click.echo(f"Wrote {output}")


def _own_columns(texts):
    """Columns for data of the user's program, by the names of these."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, _, column) in zip(texts, pairs, strict=True):
        if not name or not column:
            raise ValueError(
                f"--stan-data must be NAME=COLUMN, such as urban=urban, found {text!r}"
            )
    return {name: column for name, _, column in pairs}


@click.command(short_help="Show what is in a fit.", epilog=example("bdr-stan summary fit.nc --all"))
@click.argument("fitted", metavar="FIT", type=click.Path(path_type=Path))
@click.option("--all", "every", is_flag=True, help="Every weight, not the scalars alone.")
def summary(fitted, every):
    """Show the parameters, sampling report and priors of a fit."""
    check_input(fitted)
    model = load_fit(fitted)
    show_fit(model, every)
    show_table(model.priors())
