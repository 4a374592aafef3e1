"""``bdr-stan fit`` and ``bdr-stan tune``."""

import click

from bdr_stan.cli import options
from bdr_stan.cli.group import example
from bdr_stan.cli.models import check_fit_options, estimators_of, show_fit, show_table, without_none
from bdr_stan.cli.tables import (
    LabelledTable,
    check_input,
    check_output,
    in_memory,
    pairs,
    split,
    write_whole,
)


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
def fit(data, model, output, adapt_delta, max_treedepth, stan_file, stan_data, force, **given):
    """Fit a model to DATA, a .parquet or .csv table with one row per point.

    DATA may be a folder of .parquet files, or a pattern such as 'points/*.parquet': files are read
    part by part and may exceed memory; needs the extra "dask". Writes one file with all that
    `bdr-stan predict` needs.
    """
    check_output(output, force, data)
    check_input(data, stan_file)
    table, run = LabelledTable.taken(data, given), _run(given)
    settings = {**given, **table.columns_of_bags, "stan_file": stan_file}
    settings["n_landmarks"] = settings.pop("landmarks")
    estimator = estimators_of([model], settings)[model]
    sampler = {"adapt_delta": adapt_delta, "max_treedepth": max_treedepth}
    fit_options = without_none({**table.label_data, **sampler})
    check_fit_options(model, estimator, fit_options)
    columns = dict(pairs("--stan-data", "NAME=COLUMN, such as urban=urban, found", stan_data))
    bags, y = table.read(model, list(columns.values()))
    if columns:
        fit_options["stan_data"] = columns
    _fit_and_save(estimator, bags, y, {**run, **fit_options}, output, table)


def _run(given):
    """Settings of the sampler, taken out of the options."""
    names = ("chains", "warmup", "draws", "seed")
    return {name: given.pop(name) for name in names} | {"progress": True}


def _fit_and_save(estimator, bags, y, options, output, table):
    estimator.fit(bags, y, **options)
    estimator.save(output, notes=table.roles)
    show_fit(estimator)
    click.echo(f"Wrote {output}")


@click.command(
    short_help="Choose a model and its settings.",
    epilog=example(
        "bdr-stan tune people.parquet --bag county --label vote --model bdr --model blr \\",
        "    --landmarks 30,60 --kernel rbf,additive --seed 1 -o best.nc",
    ),
)
@options.labelled_table
@options.option(
    options.MODEL, "Give it several times to compare models.", default=["bdr"], multiple=True
)
@options.output("Fit of the best settings to all bags, a NetCDF file.", required=False)
@options.option("--table", "Settings and scores, a .csv file.", type=options.PATH)
@options.option("--cv", "Folds of bags.", type=click.IntRange(2), default=5)
@options.option(
    "--score [nll|mse|bound|evidence]",
    "Of held-out labels; bound and evidence, for totals alone, use all labels.",
    default="nll",
)
@options.option("--landmarks N,N,...", default="30,60,90")
@options.option("--bandwidth-scale FLOAT,FLOAT,...", default="0.5,0.75,1,1.25,1.5")
@options.option("--kernel NAME,NAME,...", "[default: each model's own]")
@options.option(
    "--refine [bandwidth|ard]",
    "Optimise a bandwidth from the best, or one bandwidth per column.",
)
@options.option(
    f"--candidates {options.METHODS}", "Method by which candidates are fitted.", default="laplace"
)
@options.model_settings
@options.sampling
@options.option("--seed", type=click.IntRange(0), default=0)
@options.force
def tune(data, model, output, table, cv, score, force, **given):
    """Compare models and settings by their predictions for held-out bags of DATA.

    Prints a table of settings and scores, the best first. With -o the best is then fitted to all
    bags, with its own method, as in `bdr-stan fit`.
    """
    for path, suffix in ((output, ""), (table, ".csv")):
        if path is not None:
            check_output(path, force, data, suffix=suffix)
    if output is not None and output == table:
        raise ValueError(f"{output} cannot be both the fit and the table: name another file")
    check_input(data)
    labelled, run = LabelledTable.taken(data, given), _run(given)
    from bdr_stan import tune as search
    from bdr_stan.tuning import EVIDENCES

    choices = {
        "n_landmarks": _numbers("--landmarks", given.pop("landmarks"), int),
        "bandwidth_scale": _numbers("--bandwidth-scale", given.pop("bandwidth_scale"), float),
        "kernel": split(given.pop("kernel")),
        "method": given.pop("candidates"),
        "refine": given.pop("refine"),
    }
    models = estimators_of(model, {**given, **labelled.columns_of_bags})
    fit_options = without_none(labelled.label_data)
    for name, estimator in models.items():
        check_fit_options(name, estimator, fit_options)
    bags, y = labelled.read(model[0])
    cv = None if score in EVIDENCES else cv
    options = {**fit_options, **choices, "cv": cv, "score": score, "seed": run["seed"]}
    tuned = search(in_memory(bags), y, models=models, **options, progress=True)
    ranks = [str(k + 1) for k in range(len(tuned.table))]
    show_table(tuned.table.set_axis(ranks).rename_axis("rank"))
    if table is not None:
        write_whole(table, lambda path: tuned.table.to_csv(path, index=False))
        click.echo(f"Wrote {table}")
    if output is None:
        click.echo(f"The best: {tuned.best!r}; pass -o to fit and keep it")
        return
    _fit_and_save(tuned.best, bags, y, {**run, **fit_options}, output, labelled)


def _numbers(option, text, kind):
    """Numbers separated by commas."""
    try:
        return [kind(each) for each in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} must be numbers with commas between them, found {text!r}"
        ) from None
