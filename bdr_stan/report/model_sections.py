"""Sections on the data, the model, its posterior and diagnostics, and how to reproduce the fit."""

import inspect
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan import __version__
from bdr_stan.kernels import kernel_text
from bdr_stan.plots.style import COVERS, one_axes
from bdr_stan.report.fit_summary import FitSummary, without_points
from bdr_stan.report.page import Code, Folded, Section, Table, Text, picture
from bdr_stan.results.advice import checks, heading, sampling_warnings, verdict

# Limits that keep the page small enough to open and read.
_MAX_WEIGHT_ROWS = 300
_HISTOGRAM_BINS = 30
_MAX_REPR_LENGTH = 10_000  # characters of the estimator's parameters
_COLUMN_SAMPLE = 50_000  # points that the columns are described from
_COLUMN_SAMPLE_SEED = 10_000_019  # unlike the seeds of users, so samples differ


def data_and_model(fit: FitSummary) -> Section:
    """Labels, bags, points, columns, kernel and method."""
    facts = {
        "model": f"{fit.name}: {str(inspect.getdoc(type(fit.model))).splitlines()[0]}",
        "labels": _describe_labels(fit),
        **({"data file": fit.file} if fit.file else {}),
        "bags": f"{len(fit.ids)}",
    }
    for sample, part in fit.samples.items():
        facts |= {
            f"{what} of {sample}" if sample else what: value
            for what, value in _describe_points(part).items()
        }
    if fit.model.columns_of_bags:
        facts["columns of the bags"] = ", ".join(fit.model.columns_of_bags)
    facts |= fit.model.label_model.facts
    for name, values in fit.label_data.items():
        facts[name] = f"{values.min():.4g} to {values.max():.4g}"
    for name, of in {"label_sd": "", "relative_label_sd": ", relative to them"}.items():
        if name in fit.constants:
            sd = fit.constants[name]
            facts[f"known standard errors of labels{of}"] = f"{sd.min():.4g} to {sd.max():.4g}"
    if hasattr(fit.model, "likelihood_text"):
        facts["likelihood"] = fit.model.likelihood_text()
    if fit.model.by_program:
        facts["program"] = f"user-supplied, {fit.model.stan_file}"
    table = Table.of("Data and model", {"value": list(facts.values())}, list(facts), "what")
    blocks: list[Any] = [table]
    if fit.sizes is not None:
        most, least = fit.sizes.max(), fit.sizes.min()
        weighted = np.any(fit.sizes != np.floor(fit.sizes))  # effective sizes, not numbers
        blocks.append(
            picture(
                "sizes",
                f"Histogram of the bags' sizes, from {least:.4g} to {most:.4g} points.",
                "Number of bags of each size."
                + (" Sizes are effective numbers of weighted points." if weighted else ""),
                lambda: _histogram(fit.sizes),
            )
        )
    blocks += [_columns(part, sample) for sample, part in fit.samples.items()]
    return Section("fit", "Data and model", blocks)


def _histogram(sizes):
    ax = one_axes((5.0, 2.8))
    low, high = sizes.min(), sizes.max()
    if high > 20 * low:  # most bags would share a bar
        bins = np.geomspace(low, high, _HISTOGRAM_BINS + 1)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    else:
        bins = np.linspace(low - 0.5, high + 0.5, min(_HISTOGRAM_BINS, int(high - low) + 1) + 1)
    ax.hist(sizes, bins, color=COVERS)
    ax.set(xlabel="points in a bag", ylabel="bags")
    ax.locator_params(axis="y", integer=True)
    return ax


def _describe_labels(fit):
    if fit.classes is not None:
        counts = ((name, np.sum(fit.labels == name)) for name in fit.classes)
        shares = ", ".join(f"{name} ({n} bags)" for name, n in counts)
        return f"{fit.label}, classes: {shares}"
    y = fit.labels
    return (
        f"{fit.label}: mean {y.mean():.4g}, standard deviation {y.std():.4g}, from {y.min():.4g} "
        f"to {y.max():.4g}"
    )


def _describe_points(fit):
    """Sizes, columns, kernel and landmarks."""
    words = {} if fit.bags is None else {"points": f"{fit.bags.n_points}"}
    if fit.sizes is not None:
        sizes = fit.sizes if fit.bags is None else fit.bags.sizes
        words["points per bag"] = (
            f"{sizes.min():.4g} / {np.median(sizes):.4g} / {sizes.max():.4g} "
            "(smallest / median / largest)"
        )
        if fit.design_effects is not None:
            overall = sizes.sum() / fit.sizes.sum()
            words["design effect"] = (
                f"{overall:.3g}, {fit.design_effects.min():.3g} to {fit.design_effects.max():.3g} "
                "per bag (points over effective points)"
            )
    names = fit.model.result_.settings["feature_names"]
    return {
        **words,
        "columns of the points": ", ".join(fit.columns),
        "kernel": kernel_text(fit.model.kernel_, names),
        "landmarks": f"{len(fit.model.landmarks_)}",
    }


def _columns(fit, sample):
    """Mean and range of each column, in a sample of the points."""
    if fit.bags is None:
        return Text(without_points("the range of each column"))
    points = fit.bags.sample_points(_COLUMN_SAMPLE, np.random.default_rng(_COLUMN_SAMPLE_SEED))
    names = fit.bags.features or [f"column {k}" for k in range(points.shape[1])]
    columns = {
        "mean": points.mean(axis=0),
        "sd": points.std(axis=0),
        "smallest": points.min(axis=0),
        "largest": points.max(axis=0),
    }
    source = "all points" if len(points) == fit.bags.n_points else f"{len(points)} of the points"
    source += f" of {sample}" if sample else ""
    caption = f"Columns of {source}; categorical columns are shown as indicators of each value"
    return Table.of(caption, columns, names, "column")


def diagnostics(fit: FitSummary) -> Section:
    """Convergence diagnostics, with advice on problems."""
    measured = fit.model.diagnostics()
    all_checks = checks(measured)
    warnings = sampling_warnings(measured)
    blocks: list[Any] = [Text(heading(measured)), *map(Text, warnings)]
    if not warnings and all_checks and all(verdict(check) for check in all_checks):
        blocks.append(Text("All diagnostics are in their good ranges."))
    if all_checks:
        columns = {
            "measured": [check.measured for check in all_checks],
            "good": [check.good for check in all_checks],
            "verdict": [verdict(check) or "unknown" for check in all_checks],
        }
        quantities = [check.quantity for check in all_checks]
        blocks.append(Table.of("Convergence diagnostics", columns, quantities, "quantity"))
    if measured["method"] == "nuts":
        blocks.append(Text("ArviZ draws the chains: az.plot_trace(model.idata), az.plot_rank."))
    blocks.append(
        Folded("Diagnostics as text", [Code(fit.model.report(), "Output of model.report()")])
    )
    return Section("diagnostics", "Appendix: diagnostics of the sampler", blocks)


def posterior(fit: FitSummary) -> Section:
    """Means, intervals and effective sample sizes of the parameters."""
    draws = fit.model.result_.groups["posterior"]
    first = [
        str(name)
        for name, values in draws.data_vars.items()
        if values.ndim == 2 or {"covariate", "sample"} & set(values.dims)
    ]
    blocks: list[Any] = []
    if first:
        table = fit.model.summary(first).rename_axis("parameter")
        meanings = fit.model.priors()["meaning"]
        kinds = [name if name in meanings else name.partition("[")[0] for name in table.index]
        of_rows = [meanings.get(kind, "") for kind in kinds]
        if any(of_rows):
            table.insert(0, "meaning", of_rows)
        blocks.append(Table("Posterior of the parameters, with central 95% intervals", table))
    rest = [str(name) for name in draws.data_vars if name not in first]
    rows = sum(int(np.prod(draws[name].shape[2:])) for name in rest)
    if rest and rows <= _MAX_WEIGHT_ROWS:
        table = fit.model.summary(rest).rename_axis("parameter")
        every = Table(f"The {rows} entries of {', '.join(rest)}", table)
        blocks.append(Folded(f"All {rows} weights", [every]))
    elif rest:
        blocks.append(Text(f"The {rows} entries of {', '.join(rest)} are in model.summary()."))
    return Section("posterior", "Appendix: posterior", blocks)


def priors(fit: FitSummary) -> Section:
    """The priors of the fit."""
    if fit.model.by_program:
        text = f"The program {fit.model.stan_file} has priors of its own."
        return Section("priors", "Appendix: priors", [Text(text)])
    table = fit.model.priors()
    text = "Values that were not given are set from the scale of the labels and the points."
    if table["unit"].str.contains("y").any():
        text += f" The unit y is the unit of the labels: {fit.label}."
    return Section("priors", "Appendix: priors", [Text(text), Table("Priors of this fit", table)])


def reproduction(fit: FitSummary) -> Section:
    """The call, the seed and the versions."""
    run = fit.model.result_.settings.get("run")
    if run is None or "seed" not in run["arguments"]:
        text = "This version of bdr_stan did not save the seed of the fit."
    else:
        text = "The same seed, versions and bags give the same draws."
    versions = {} if run is None else dict(run["versions"])
    versions |= {"bdr_stan (this report)": __version__, "system": platform.platform()}
    caption, columns = "Versions of the fit, and of this report", {"version": [*versions.values()]}
    blocks = [
        Code(_call(fit, run), "The call"),
        Text(text),
        Table.of(caption, columns, list(versions), "what"),
    ]
    return Section("repeat", "Appendix: how to reproduce this fit", blocks)


def _call(fit, run):
    values = {} if run is None else run["arguments"]
    arguments = "".join(f", {name}={value!r}" for name, value in values.items())
    columns, lines = fit.model.columns_, []
    if columns is not None and columns.bag is not None and columns.transformer is None:
        weight = "" if columns.weight is None else f", weight={columns.weight!r}"
        metadata = fit.model.columns_of_bags
        weight += f", metadata={metadata!r}" if metadata else ""
        weight += ", missing='indicator'" if columns.fills else ""
        names = list(columns.names)
        lines.append(f"bags = Bags.{_reader(fit.file)}, {columns.bag!r}, {names!r}{weight})")
    model = fit.model.__repr__(N_CHAR_MAX=_MAX_REPR_LENGTH)
    code = "\n".join([*lines, f"model = {model}", f"model.fit(bags, y{arguments})"])
    return re.sub(r"\b\w*Path\(('.*?')\)", r"\1", code)  # paths as texts


def _reader(file):
    """The beginning of the call that made the bags."""
    if file is None:
        return "from_dataframe(table"
    kind = "parquet" if Path(file).suffix in ("", ".parquet") else "csv"  # folders have no suffix
    return f"from_{kind}({file!r}"
