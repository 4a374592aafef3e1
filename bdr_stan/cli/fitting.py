"""``bdr-stan fit``, and fits from sums: ``basis``, ``summarise`` and ``fit-sums``."""

from types import SimpleNamespace

import click

from bdr_stan.cli import options
from bdr_stan.cli.group import example
from bdr_stan.cli.models import check_fit_options, estimator_of, show_fit, without_none
from bdr_stan.cli.tables import LabelledTable, check_input, check_output, pairs, read_bags

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


@click.command(
    short_help="Fix what summaries are of.",
    epilog=example("bdr-stan basis public.csv --bag clinic -o basis.nc"),
)
@click.argument("data", type=options.PATH)
@options.option("--bag COLUMN", "Bag of each point.", required=True)
@options.option("--label COLUMN", "A column of labels in DATA, which is not used.")
@options.columns_of_points
@options.option("--model [bdr|blr|shrinkage]", default="bdr")
@options.output("Basis, a file for all sites.")
@options.option("--landmarks", type=click.IntRange(1), default=60)
@options.option("--kernel NAME", "Kernel, e.g. rbf or additive.  [default: the model's own]")
@options.option("--family [normal|lognormal]", "Distribution of a label.", default="normal")
@options.option(
    "--label-noise [constant|size]",
    "size: labels are averages, noisier in small bags.",
    default="constant",
)
@options.option(
    "--largest-size", "Points of the largest bag.", type=click.FloatRange(1), default=1e5
)
@options.option("--seed", "[default: another one each time]", type=click.IntRange(0))
@options.missing
@options.force
def basis(data, model, output, landmarks, largest_size, seed, force, **more):
    """Write a basis: kernel, landmarks and encodings, from DATA that all sites may see.

    DATA, a .parquet or .csv table with one row per point, has the columns and units of the sites'
    tables and all levels of categories. The file contains landmarks, and no labels.
    """
    check_output(output, force, data)
    check_input(data)
    table = LabelledTable.taken(data, {"samples": (), **more})
    settings = {n: more[n] for n in ("kernel", "family", "label_noise")}
    settings |= {**table.columns_of_bags, "n_landmarks": landmarks}
    estimator = estimator_of(model, settings)
    made = estimator.basis(table.bags(), largest_size=largest_size, seed=seed)
    made.save(output)
    click.echo(f"Wrote {output}: basis {made.digest}, {len(made.features.landmarks)} landmarks")


@click.command(
    short_help="Sum over a site's bags.",
    epilog=example("bdr-stan summarise basis.nc patients.csv --label stay -o clinic_3.sums"),
)
@click.argument("basis_file", metavar="BASIS", type=options.PATH)
@click.argument("data", type=options.PATH)
@options.option("--label COLUMN", "Label, constant within a bag.", required=True)
@options.option("--bag COLUMN", "Bag of each point.  [default: as in the basis]")
@options.output("Summary, which may leave the site, .sums.")
@options.option("--min-bags", "Fewest bags.", type=click.IntRange(1), default=10)
@options.missing
@options.force
def summarise(basis_file, data, label, bag, output, min_bags, missing, force):
    """Write the sums over the bags of DATA that a fit needs, and no rows of it.

    A summary is not anonymous: embeddings and labels of few bags can be computed from it, so it
    needs at least --min-bags bags, and two of each level of a covariate or group.
    """
    from bdr_stan import Basis

    check_output(output, force, basis_file, data, suffix=".sums")
    check_input(basis_file, data)
    made = Basis.load(basis_file)
    columns = made.features.record.columns
    bags = read_bags(
        data,
        bag or columns.bag,
        weight=columns.weight,
        metadata=[label, *made.estimator.columns_of_bags],
        like=SimpleNamespace(columns_=columns),
        missing=missing,
    )
    summary = made.summarise(bags, bags.metadata[label], min_bags=min_bags)
    summary.save(output)
    click.echo(f"Wrote {output}: {summary.n_bags} bags, {output.stat().st_size / 1e6:.1f} MB")


@click.command(
    "fit-sums",
    short_help="Fit to summaries.",
    epilog=example("bdr-stan fit-sums clinic_1.sums clinic_2.sums clinic_3.sums -o fit.nc"),
)
@click.argument("summaries", metavar="SUMS...", nargs=-1, required=True, type=options.PATH)
@options.output("Fit, a NetCDF file.")
@options.sampling
@options.option("--seed", "[default: another one each time]", type=click.IntRange(0))
@options.option("--engine [cmdstan|stanli]", "[default: cmdstan, unless only stanli is installed]")
@options.force
def fit_sums(summaries, output, engine, force, **run):
    """Fit the model of a basis to summaries, .sums, as `bdr-stan fit` of such files does."""
    from bdr_stan import Summary

    check_output(output, force, *summaries)
    check_input(*summaries)
    total = sum(map(Summary.load, summaries))
    model = total.basis.estimator.set_params(engine=engine)
    model.fit(total, **run, progress=True)
    model.save(output)
    show_fit(model)
    click.echo(f"Wrote {output}")
