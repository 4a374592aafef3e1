"""``bdr-stan tune``."""

from pathlib import Path

import click

from bdr_stan.cli import options
from bdr_stan.cli.group import example
from bdr_stan.cli.models import check_fit_options, estimators_of, show_fit, without_none
from bdr_stan.cli.tables import (
    check_input,
    check_output,
    check_suffix,
    columns_of_bags,
    in_memory,
    read_labelled,
    split,
    tables_of_samples,
    write_whole,
)
from bdr_stan.terminal import show_table

EVIDENCES = ("bound", "evidence")


@click.command(
    short_help="Choose a model and its settings.",
    epilog=example(
        "bdr-stan tune people.parquet --bag county --label vote --model bdr --model blr \\",
        "    --landmarks 30,60 --kernel rbf,additive --seed 1 -o best.nc",
    ),
)
@options.labelled_table
@options.models(several=True)
@options.output("Fit of the best settings to all bags, a NetCDF file.", required=False)
@click.option("--table", type=click.Path(path_type=Path), help="Settings and scores, a .csv file.")
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Folds of bags.")
@click.option(
    "--score",
    type=click.Choice(["nll", "mse", *EVIDENCES]),
    default="nll",
    show_default=True,
    help="Of held-out labels; bound and evidence, for totals alone, use all labels.",
)
@click.option("--landmarks", default="30,60,90", show_default=True, metavar="N,N,...")
@click.option(
    "--bandwidth-scale", default="0.5,0.75,1,1.25,1.5", show_default=True, metavar="FLOAT,FLOAT,..."
)
@click.option("--kernel", metavar="NAME,NAME,...", help="[default: each model's own]")
@click.option(
    "--refine",
    type=click.Choice(["bandwidth", "ard"]),
    help="Optimise a bandwidth from the best, or one bandwidth per column.",
)
@click.option(
    "--candidates",
    type=click.Choice(options.METHODS),
    default="laplace",
    show_default=True,
    help="Method by which candidates are fitted.",
)
@options.model_settings
@options.sampling
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@options.force
def tune(
    data,
    bag,
    label,
    model,
    output,
    table,
    cv,
    score,
    landmarks,
    bandwidth_scale,
    kernel,
    refine,
    candidates,
    features,
    covariates,
    groups,
    smooths,
    weight,
    samples,
    trials,
    exposure,
    offset,
    missing,
    chains,
    warmup,
    draws,
    seed,
    force,
    **settings,
):
    """Compare models and settings by their predictions for held-out bags of DATA.

    Prints a table of settings and scores, the best first. With -o the best is then fitted to all
    bags, by its own method, as by `bdr-stan fit`.
    """
    outputs = [path for path in (output, table) if path is not None]
    for path in outputs:
        check_output(path, force, not_to_be=data)
    if output is not None and output == table:
        raise ValueError(f"{output} cannot be both the fit and the table: name another file")
    if table is not None:
        check_suffix(table, ".csv")
    check_input(data)
    tables = tables_of_samples(data, samples)
    from bdr_stan import tune as search

    n_landmarks = _numbers("--landmarks", landmarks, int)
    scales = _numbers("--bandwidth-scale", bandwidth_scale, float)
    columns = columns_of_bags(covariates, groups, smooths)
    settings |= columns
    models = estimators_of(model, settings)
    known = {"trials": trials, "exposure": exposure, "offset": offset}
    fit_options = without_none(known)
    for name, estimator in models.items():
        check_fit_options(name, estimator, fit_options)
    roles = {"bag": bag, "label": label, "weight": weight, **known}
    bags, y = read_labelled(data, roles, features, columns, missing, model=model[0], samples=tables)
    found = search(
        in_memory(bags),
        y,
        models=models,
        **known,
        cv=None if score in EVIDENCES else cv,
        bandwidth_scale=scales,
        n_landmarks=n_landmarks,
        kernel=split(kernel),
        method=candidates,
        score=score,
        refine=refine,
        seed=seed,
        progress=True,
    )
    shown = _as_text(found.table)
    show_table(shown)
    if table is not None:
        write_whole(table, lambda path: found.table.to_csv(path, index=False))
        click.echo(f"Wrote {table}")
    if output is None:
        click.echo(f"The best: {found.best!r}; pass -o to fit and keep it")
        return
    run = {"chains": chains, "warmup": warmup, "draws": draws, "seed": seed, "progress": True}
    found.best.fit(bags, y, **run, **fit_options)
    found.best.save(output, notes={"bag": bag, "label": label, "weight": weight})
    show_fit(found.best)
    click.echo(f"Wrote {output}")


def _numbers(option, text, kind):
    """Numbers separated by commas."""
    try:
        return [kind(each) for each in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} must be numbers with commas between them, found {text!r}"
        ) from None


def _as_text(table):
    """The table of `tune` with ranks, with columns that are not numeric as text."""
    table = table.copy()
    for name in table.columns:
        if table[name].dtype.kind not in "iuf":
            table[name] = table[name].astype(str)
    table.index = [str(k + 1) for k in range(len(table))]
    return table.rename_axis("rank")
