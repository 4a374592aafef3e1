"""The command line: ``bdr-stan --help``. What takes time to import is imported by its command."""

import sys
import warnings
from pathlib import Path

import click

from bdr_stan import __version__
from bdr_stan.terminal import show_table

# What the package raises on purpose, and what reading and writing files raises.
EXPECTED = (ValueError, TypeError, OSError, ImportError, RuntimeError)
MODELS = {
    "bdr": "BDR",
    "blr": "BLR",
    "nonlinear-bdr": "NonlinearBDR",
    "shrinkage": "Shrinkage",
    "inverse-bdr": "InverseBDR",
    "bdr-classifier": "BDRClassifier",
    "blr-classifier": "BLRClassifier",
    "shrinkage-classifier": "ShrinkageClassifier",
    "inverse-bdr-classifier": "InverseBDRClassifier",
}
STOCK = ("blr", "bdr")  # compiled by `setup`; those of the classifiers when first used


class OneSentence(click.Group):
    """Group whose commands end an expected error with its message alone, exit code 1."""

    def invoke(self, ctx):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: _warn(message)
            try:
                return super().invoke(ctx)
            except click.UsageError as error:  # some of Click's are in several lines
                text = " ".join(error.format_message().split())
                raise click.UsageError(text, error.ctx) from error
            # Click's own ends: a help page, and ``bdr-stan summary fit.nc | head``.
            except (click.exceptions.Exit, BrokenPipeError):
                raise
            except EXPECTED as error:
                if ctx.params["debug"]:
                    raise
                text = str(error) or type(error).__name__
                raise click.ClickException(text) from error


@click.group(cls=OneSentence, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bdr-stan")
@click.option(
    "--debug", is_flag=True, envvar="BDR_STAN_DEBUG", help="Show the traceback of an error."
)
def main(debug):
    """Regression from bags of points to labels, with honest uncertainty for small bags.

    Start with: bdr-stan setup, then bdr-stan demo.
    """


# ------------------------------------------------------------------ fits


@main.command(short_help="Fit a model to a table of points.")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--bag", required=True, metavar="COLUMN", help="Which bag a point belongs to.")
@click.option("--label", required=True, metavar="COLUMN", help="Label, the same within a bag.")
@click.option("--model", type=click.Choice(list(MODELS)), required=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Fit, a NetCDF file."
)
@click.option(
    "--features",
    metavar="A,B,...",
    help="Columns of a point: numbers, or texts as categories.  [default: all other columns]",
)
@click.option(
    "--covariates",
    metavar="A,B,...",
    help="Columns of the bags themselves, the same within a bag, that enter linearly.",
)
@click.option("--weight", metavar="COLUMN", help="Weight of a point within its bag.")
@click.option(
    "--label-noise",
    type=click.Choice(["constant", "size"]),
    help="size: labels are averages, noisier in small bags.  [default: constant; not for classes]",
)
@click.option(
    "--label-sd",
    metavar="COLUMN",
    help="Known standard error of a label, the same within a bag.  [not for classes]",
)
@click.option(
    "--bounds",
    metavar="LOWER,UPPER",
    help="Between which labels lie; an end left out is open.  [only for inverse-bdr]",
)
@click.option(
    "--missing",
    type=click.Choice(["error", "drop", "indicator"]),
    default="error",
    show_default=True,
    help="Missing values: refuse, leave out the points, or a column that says where.",
)
@click.option("--landmarks", type=click.IntRange(1), default=60, show_default=True)
@click.option("--kernel", metavar="NAME", help="Such as rbf, matern32, additive.  [default: rbf]")
@click.option("--bandwidth", default="scaled", show_default=True, metavar="FLOAT|scaled|ard|median")
@click.option("--bandwidth-scale", type=float, metavar="FLOAT", help="Factor on the bandwidth.")
@click.option(
    "--covariance",
    type=click.Choice(["average", "pooled", "identity"]),
    help="Within-bag covariance.  [default: average; not for blr]",
)
@click.option(
    "--method",
    type=click.Choice(["nuts", "exact", "optimize", "laplace", "pathfinder"]),
    help="[default: optimize for shrinkage, else nuts]",
)
@click.option("--chains", type=click.IntRange(1), default=4, show_default=True)
@click.option("--warmup", type=click.IntRange(0), default=1000, show_default=True)
@click.option("--draws", type=click.IntRange(1), default=1000, show_default=True, help="A chain.")
@click.option("--adapt-delta", type=click.FloatRange(0, 1, min_open=True, max_open=True))
@click.option("--max-treedepth", type=click.IntRange(1))
@click.option("--seed", type=click.IntRange(0), help="[default: another one each time]")
@click.option("--stan-file", type=click.Path(path_type=Path), help="Your variant of the program.")
@click.option("--force", is_flag=True, help="Replace an existing output.")
def fit(
    data,
    bag,
    label,
    model,
    output,
    features,
    covariates,
    weight,
    label_noise,
    label_sd,
    bounds,
    missing,
    landmarks,
    kernel,
    bandwidth,
    bandwidth_scale,
    covariance,
    method,
    chains,
    warmup,
    draws,
    adapt_delta,
    max_treedepth,
    seed,
    stan_file,
    force,
):
    """Fit a model to DATA, a .parquet or .csv table with a row for each point.

    DATA may be a folder of .parquet files, or a pattern such as 'points/*.parquet': these are read
    part by part, so memory need not hold them; needs the extra "dask". Writes one file with all
    that `bdr-stan predict` needs.
    """
    from sklearn.base import is_classifier

    _check_output(output, force, not_to_be=data)
    if model.startswith("blr") and covariance is not None:
        instead = model.replace("blr", "bdr")
        raise ValueError(f"{model} takes no --covariance: leave it out, or use --model {instead}")
    of_labels = {"label_noise": label_noise, "label_sd": label_sd}
    if model.endswith("classifier") and _without_none(of_labels):
        raise ValueError(
            "--label-noise and --label-sd are for labels that are numbers, not classes: "
            "leave them out"
        )
    if model.startswith("inverse") and covariates is not None:
        raise ValueError(
            f"{model} takes no --covariates: leave them out, or use "
            f"--model {model.removeprefix('inverse-')}"
        )
    if bounds is not None and model != "inverse-bdr":
        raise ValueError(f"{model} takes no --bounds: leave them out, or use --model inverse-bdr")
    if stan_file is not None and not stan_file.is_file():
        raise FileNotFoundError(f"there is no file {stan_file}")
    given = {
        "kernel": kernel,
        "bandwidth": _bandwidth(bandwidth),
        "bandwidth_scale": bandwidth_scale,
        "covariance": covariance,
        "covariates": _split(covariates),
        "label_noise": label_noise,
        "bounds": _bounds(bounds),
        "method": method,
        "stan_file": stan_file,
    }
    options = {"adapt_delta": adapt_delta, "max_treedepth": max_treedepth}
    estimator = _estimator(model)(n_landmarks=landmarks, **_without_none(given))
    if estimator.method != "nuts" and _without_none(options):
        raise ValueError("--adapt-delta and --max-treedepth are for --method nuts: leave them out")
    features = _split(features)
    weights = [] if weight is None else [weight]
    errors = [] if label_sd is None else [label_sd]
    about = _split(covariates) or []
    _check_roles(
        bag=[bag],
        label=[label],
        weight=weights,
        label_sd=errors,
        features=features or [],
        covariates=about,
    )
    metadata = [label, *errors, *about]
    bags = _read_bags(
        data, bag, features=features, weight=weight, metadata=metadata, missing=missing
    )
    click.echo(f"Columns of a point: {', '.join(bags.features)}")
    y = bags.metadata[label]
    if y.dtype.kind not in "fiub" and not is_classifier(estimator):
        classifier = f"{model}-classifier"
        raise TypeError(
            f"label column {label!r} holds text, not numbers: encode or mend it, or use "
            f"--model {classifier if classifier in MODELS else 'bdr-classifier'}"
        )
    estimator.fit(
        bags,
        y.to_numpy(),
        chains=chains,
        warmup=warmup,
        draws=draws,
        seed=seed,
        progress=True,
        **_without_none({"label_sd": label_sd, **options}),
    )
    estimator.save(output, notes={"bag": bag, "label": label, "weight": weight})
    _show_fit(estimator)
    click.echo(f"Wrote {output}")


@main.command(short_help="Predict the labels of new bags.")
@click.argument("fitted", metavar="FIT", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Predictions, .csv."
)
@click.option("--bag", metavar="COLUMN", help="Bag of a point.  [default: as in the fit]")
@click.option("--weight", metavar="COLUMN", help="Weight of a point.  [default: as in the fit]")
@click.option(
    "--missing",
    type=click.Choice(["error", "drop"]),
    default="error",
    show_default=True,
    help="Missing values: refuse, or leave out the points.",
)
@click.option(
    "--unseen",
    type=click.Choice(["error", "other"]),
    default="error",
    show_default=True,
    help="Categories that the fit has not seen: refuse, or none of the known ones.",
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Probability of the intervals.",
)
@click.option("--force", is_flag=True, help="Replace an existing output.")
def predict(fitted, new, output, bag, weight, missing, unseen, level, force):
    """Predict the labels of the bags in NEW, a .parquet or .csv table like that of the fit.

    A folder of .parquet files, or a pattern, is read part by part. Columns are found by name.
    Writes bag, n_points, mean, sd, lower, upper; for classes bag, n_points, predicted, and
    probability, lower, upper of the predicted class.
    """
    from bdr_stan.bags import PartitionedBags

    _check_output(output, force, not_to_be=new)
    if output.suffix != ".csv":
        raise ValueError(f"{output} must end in .csv")
    model = _load(fitted)
    bag = bag or model.notes_.get("bag") or getattr(model.columns_, "bag", None)
    weight = weight or model.notes_.get("weight") or getattr(model.columns_, "weight", None)
    if bag is None:
        raise ValueError(f"{fitted} does not say which column names the bags: pass --bag")
    if not hasattr(model, "feature_names_in_"):
        raise ValueError(
            f"{fitted} was fitted to points without column names: predict in Python, with "
            f"bdr_stan.load({str(fitted)!r})"
        )
    if getattr(model, "likelihood", None) == "binomial" and not model.columns_of_bags:
        raise ValueError(
            f"{fitted} was fitted to counts out of trials, which a prediction needs too: predict "
            f"in Python, with bdr_stan.load({str(fitted)!r}).predict(bags, trials=...)"
        )
    known = {"features": list(model.feature_names_in_)}
    if model.columns_ is not None:
        known = {"like": model, "unseen": unseen}
    named = model.columns_of_bags or None
    bags = _read_bags(new, bag, weight=weight, missing=missing, metadata=named, **known)
    if not model.takes_parts and isinstance(bags, PartitionedBags):
        bags = bags.load()
    table = model.predict_table(bags, level=level)
    _write_whole(output, table.to_csv)
    click.echo(f"Wrote {output}: {len(bags)} bags, intervals of {level:.4g} probability")


@main.command(short_help="Show what is in a fit.")
@click.argument("fitted", metavar="FIT", type=click.Path(path_type=Path))
@click.option("--all", "every", is_flag=True, help="Every weight, not the scalars alone.")
def summary(fitted, every):
    """Show the parameters, sampling report and priors of a fit."""
    model = _load(fitted)
    _show_fit(model, every)
    show_table(model.priors())


@main.command(short_help="See what the package does, in half a minute.")
@click.option("--quick", is_flag=True, help="Fewer bags and draws.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default="demo_output",
    show_default=True,
    metavar="DIR",
)
def demo(quick, output):
    """Fit BLR and BDR to bags of handwritten digits; compare their intervals by bag size."""
    from bdr_stan.demo import run

    run(output, quick=quick)


# ------------------------------------------------------------------ Stan


@main.command(short_help="Make Stan ready to use.")
@click.option(
    "--from",
    "source",
    type=click.Choice(["auto", "pypi", "github"]),
    default="auto",
    show_default=True,
    help="auto: a CmdStan that is there, else pypi. pypi: build from the package httpstan. "
    "github: download the official release.",
)
def setup(source):
    """Find or build CmdStan, and compile the programs of the models. Quick when done already."""
    from bdr_stan import cmdstan

    home = cmdstan.setup(source, programs=STOCK)
    click.echo(f"Stan is ready: {home}, with {' and '.join(STOCK)} compiled")


@main.command(short_help="Look for what Stan lacks.")
def doctor():
    """Look at everything Stan needs; exit code 1, with what to do, if something is wrong."""
    from bdr_stan import cmdstan

    findings = cmdstan.doctor()
    for finding in findings:
        detail = " ".join(finding.detail.split())
        click.echo(f"{'ok   ' if finding.ok else 'WRONG'}  {finding.what}: {detail}")
        if not finding.ok:
            click.echo(f"       mend it with: {finding.mend}")
    sys.exit(0 if all(finding.ok for finding in findings) else 1)


@main.command(short_help="Copy a Stan program, to change it.")
@click.argument("name")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def eject(name, target, force):
    """Write the Stan program NAME, with its functions beside it, to TARGET (.stan or a folder).

    Fit your variant with: bdr-stan fit --stan-file TARGET
    """
    from bdr_stan.cmdstan.programs import eject as write

    for path in write(name, target, force=force):
        click.echo(f"Wrote {path}")


@main.command("compile", short_help="Compile Stan programs.")
@click.argument("programs", metavar="NAME_OR_PATH...", nargs=-1, required=True)
def compile_(programs):
    """Compile programs of the package, by name, or your own, by path; nothing if it is done."""
    from bdr_stan.cmdstan.programs import compile_program

    for program in programs:
        click.echo(f"{program}: {compile_program(program).exe_file}")


# ------------------------------------------------------------------ input and output


def _warn(message):
    click.echo(f"Warning: {message}", err=True)


def _estimator(name):
    from bdr_stan import estimators

    return getattr(estimators, MODELS[name])


def _load(path):
    """A fit with a posterior."""
    from bdr_stan import load

    model = load(path)
    if not model.samples_posterior:
        raise ValueError(
            f"{path} holds a fit of {type(model).__name__}, which has no posterior of its own: use "
            f"it in Python, with bdr_stan.load({str(path)!r})"
        )
    return model


def _without_none(options):
    return {name: value for name, value in options.items() if value is not None}


def _bandwidth(text):
    try:
        return text if text in ("scaled", "ard", "median") else float(text)
    except ValueError:
        raise ValueError(
            f"--bandwidth must be scaled, ard, median or a number, found {text!r}"
        ) from None


def _bounds(text):
    """Two numbers; an end that is left out is open."""
    try:
        ends = [None if end.strip() == "" else float(end) for end in (text or ",").split(",")]
        lower, upper = ends
    except ValueError:
        raise ValueError(
            f"--bounds must be two numbers with a comma, such as 0,1 or 0, for an open end, found "
            f"{text!r}"
        ) from None
    return None if text is None else (lower, upper)


def _split(names):
    return None if names is None else [name.strip() for name in names.split(",")]


def _check_roles(**columns):
    """Refuse a column in two roles: a label among the features would predict itself."""
    role_of = {}
    for role, names in columns.items():
        for name in names:
            if role_of.setdefault(name, role) != role:
                raise ValueError(
                    f"column {name!r} is both {role_of[name]} and {role}: name another one"
                )


def _read_bags(path, bag, **columns):
    """Bags of a .parquet or .csv file; ids in a .csv stay as they are written there.

    Those of several .parquet files stay on disk.
    """
    import pandas as pd

    from bdr_stan import Bags

    if path.is_dir() or (path.suffix == ".parquet" and not path.exists()):
        return Bags.from_parquet(path, bag, **columns, lazy=True)
    if path.suffix == ".parquet":
        return Bags.from_parquet(path, bag, **columns)
    if path.suffix != ".csv":
        raise ValueError(f"{path} is neither .parquet nor .csv: give the table one of these forms")
    try:
        return Bags.from_csv(path, bag, **columns, dtype={bag: str})
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no CSV table: {str(error).strip()}") from error


def _check_output(path, force, not_to_be):
    """Refuse, before any work, an output that cannot or must not be written."""
    if path.parent.is_file():
        raise NotADirectoryError(f"{path.parent} is a file, not a folder: choose another output")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a file name")
    if path.exists() and not_to_be.exists() and path.samefile(not_to_be):
        raise ValueError(f"{path} is the input: choose another output")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists: pass --force to replace it")


def _write_whole(path, write):
    """Let `write` make a file that appears under its name when it is complete."""
    from bdr_stan.results.files import written_whole

    with written_whole(path) as partial:
        write(partial)


# ------------------------------------------------------------------ tables


def _show_fit(model, every=False):
    groups = model.result_.groups
    posterior, n_bags = groups["posterior"], groups["observed_data"].sizes["bag"]
    d, p = model.landmarks_.shape
    click.echo(
        f"{type(model).__name__} ({model.method}): {n_bags} bags, points of {p} features, "
        f"{d} landmarks"
    )
    scalars = [name for name, values in posterior.data_vars.items() if values.ndim == 2]
    if every or scalars:
        show_table(model.summary(None if every else scalars).rename_axis("parameter"))
    click.echo(model.report())
