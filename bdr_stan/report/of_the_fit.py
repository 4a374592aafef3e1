"""What was fitted to what, how well the posterior was explored, and how to make the fit again."""

import inspect
import platform
from typing import Any

import numpy as np

from bdr_stan import __version__, plots
from bdr_stan.kernels import kernel_text
from bdr_stan.report.page import Code, Folded, Section, Table, Text
from bdr_stan.report.pictures import picture
from bdr_stan.report.told import Told
from bdr_stan.results.advice import checks, heading, verdict

_MOST_ROWS = 300  # of parameters on demand
_MOST_TRACES = 12
_LONGEST = 10_000  # letters of the estimator's parameters
_SAMPLE = 50_000  # points that tell of the columns
_DIFFERENT = 10_000_019  # seed of that sample


def what_was_fitted(told: Told) -> Section:
    """Labels, bags, points, columns, kernel and method."""
    import pandas as pd

    facts = {
        "model": f"{told.name}: {_first_line(told.model)}",
        "labels": _labels_in_words(told),
        "bags": f"{len(told.ids)}",
        **_sizes_in_words(told),
        "columns of a point": ", ".join(told.columns),
    }
    if told.model.columns_of_bags:
        facts["columns of the bags"] = ", ".join(told.model.columns_of_bags)
    if "label_sd" in told.constants:
        sd = told.constants["label_sd"]
        facts["known standard errors of labels"] = f"{sd.min():.4g} to {sd.max():.4g}"
    if hasattr(told.model, "likelihood_text"):
        facts["likelihood"] = told.model.likelihood_text()
    names = told.model.result_.settings["feature_names"]
    facts["kernel"] = kernel_text(told.model.kernel_, names)
    facts["landmarks"] = f"{len(told.model.landmarks_)}"
    if told.model.stan_file is not None:
        facts["program"] = f"your own, {told.model.stan_file}"
    frame = pd.DataFrame({"value": facts.values()}, index=pd.Index(list(facts), name="what"))
    blocks: list[Any] = [Table("The fit in words", frame)]
    if told.sizes is not None:
        most, least = told.sizes.max(), told.sizes.min()
        blocks.append(
            picture(
                "sizes",
                f"Histogram of the bags' sizes, from {least:.4g} to {most:.4g} points.",
                "How many bags have how many points."
                + (" Points count by their weights." if _has_weights(told) else ""),
                lambda: plots.bag_sizes(told.sizes),
            )
        )
    blocks.append(_columns(told))
    return Section("fit", "What was fitted to what", blocks)


def _first_line(model):
    return inspect.getdoc(type(model)).split("\n")[0]


def _labels_in_words(told):
    if told.classes is not None:
        names, counts = np.unique(told.labels, return_counts=True)
        shares = ", ".join(f"{name} ({n} bags)" for name, n in zip(names, counts))
        return f"{told.label}, classes: {shares}"
    y = told.labels
    return (
        f"{told.label}: mean {y.mean():.4g}, standard deviation {y.std():.4g}, from {y.min():.4g} "
        f"to {y.max():.4g}"
    )


def _has_weights(told):
    """Whether sizes are effective ones, which need not be whole."""
    return bool(np.any(told.sizes != np.floor(told.sizes)))


def _sizes_in_words(told):
    if told.sizes is None:
        return {}
    sizes = told.sizes if told.bags is None else told.bags.sizes
    words = {
        "points of a bag": f"{sizes.min():.4g} / {np.median(sizes):.4g} / {sizes.max():.4g} "
        "(smallest / median / largest)"
    }
    if told.bags is not None:
        words = {"points": f"{told.bags.n_points}", **words}
    return words


def _columns(told):
    """Mean and range of each column, of a sample of the points."""
    import pandas as pd

    if told.bags is None:
        return Text(
            "The fit does not keep its points: pass its bags (bags= in Python, the table on the "
            "command line) for the range of each column."
        )
    sample = told.bags.sample_points(_SAMPLE, np.random.default_rng(_DIFFERENT))
    names = told.bags.features or [f"column {k}" for k in range(sample.shape[1])]
    frame = pd.DataFrame(
        {
            "mean": sample.mean(axis=0),
            "sd": sample.std(axis=0),
            "smallest": sample.min(axis=0),
            "largest": sample.max(axis=0),
        },
        index=pd.Index(names, name="column"),
    )
    of = "all points" if len(sample) == told.bags.n_points else f"{len(sample)} of the points"
    return Table(f"Columns of {of}; a category has a column of 0 and 1 for each value", frame)


def diagnostics(told: Told) -> Section:
    """What was measured of the sample, in words, and what to do."""
    import pandas as pd

    measured = told.model.diagnostics()
    found = checks(measured)
    bad = [check for check in found if check.bad]
    blocks: list[Any] = [Text(heading(measured))]
    if bad:
        blocks += [Text(f"{check.trouble} {check.advice}") for check in bad]
    elif found and all(verdict(check) for check in found):
        blocks.append(Text("All that was measured is good."))
    if found:
        frame = pd.DataFrame(
            {
                "measured": [check.measured for check in found],
                "good": [check.good for check in found],
                "verdict": [verdict(check) or "unknown" for check in found],
            },
            index=pd.Index([check.quantity for check in found], name="quantity"),
        )
        blocks.append(Table("How well the posterior was explored", frame))
    scalars = _scalars(told)
    if measured["method"] == "nuts" and scalars:
        blocks.append(_chains(told, scalars[:_MOST_TRACES]))
    blocks.append(
        Folded("The same as text", [Code(told.model.report(), "What model.report() says")])
    )
    return Section("diagnostics", "Can the posterior be trusted?", blocks)


def _scalars(told):
    posterior = told.model.result_.groups["posterior"]
    return [str(name) for name, values in posterior.data_vars.items() if values.ndim == 2]


def _chains(told, names):
    groups = told.model.result_.groups
    listed = ", ".join(names)
    return Folded(
        "Trace and rank plots",
        [
            picture(
                "trace",
                f"Draws of each chain, one after the other, of {listed}.",
                "Draws of each chain, a colour a chain: good ones lie on one another, without "
                "trend.",
                lambda: plots.trace(groups, names),
            ),
            picture(
                "ranks",
                f"Histograms of each chain's ranks among all draws, of {listed}.",
                "Ranks of each chain's draws among those of all chains: lines of chains that agree "
                "stay near the dashed one.",
                lambda: plots.ranks(groups, names),
            ),
        ],
    )


def posterior(told: Told) -> Section:
    """Means, intervals and effective sample sizes of the parameters."""
    kept = told.model.result_.groups["posterior"]
    first = [
        str(name)
        for name, values in kept.data_vars.items()
        if values.ndim == 2 or "covariate" in values.dims
    ]
    blocks: list[Any] = []
    if first:
        table = told.model.summary(first).rename_axis("parameter")
        blocks.append(Table("Posterior of the parameters, with central 95% intervals", table))
    rest = [str(name) for name in kept.data_vars if name not in first]
    rows = sum(int(np.prod(kept[name].shape[2:])) for name in rest)
    if rest and rows <= _MOST_ROWS:
        table = told.model.summary(rest).rename_axis("parameter")
        every = Table(f"The {rows} entries of {', '.join(rest)}", table)
        blocks.append(Folded(f"All {rows} weights", [every]))
    elif rest:
        blocks.append(Text(f"The {rows} entries of {', '.join(rest)} are in model.summary()."))
    return Section("posterior", "Posterior", blocks)


def priors(told: Told) -> Section:
    """The priors, in the units of the labels."""
    table = told.model.priors()
    text = "Numbers that were not given are set on the scale of the labels and the points."
    if table["unit"].str.contains("y").any():
        text += f" The unit y is that of the labels: {told.label}."
    return Section("priors", "Priors", [Text(text), Table("Priors of this fit", table)])


def how_to_repeat(told: Told) -> Section:
    """The call, the seed and the versions."""
    import pandas as pd

    run = told.model.result_.settings.get("run")
    made = [Code(_call(told, run), "The call")]
    if run is None:
        text = "The fit is of a version that did not keep the seed of the call."
    elif "seed" in run["arguments"]:
        text = "The same seed, versions and bags give the same draws."
    else:
        text = "No seed was given: another run gives other draws."
    versions = {} if run is None else run["versions"]
    now = {"bdr_stan, of this report": __version__, "system": platform.platform()}
    frame = pd.DataFrame(
        {"version": [*versions.values(), *now.values()]},
        index=pd.Index([*versions, *now], name="what"),
    )
    blocks = [*made, Text(text), Table("Versions of the fit, and of this report", frame)]
    return Section("repeat", "How to make this fit again", blocks)


def _call(told, run):
    given = {} if run is None else run["arguments"]
    arguments = "".join(f", {name}={value!r}" for name, value in given.items())
    columns, lines = told.model.columns_, []
    if columns is not None and columns.bag is not None and columns.transformer is None:
        weight = "" if columns.weight is None else f", weight={columns.weight!r}"
        metadata = told.model.columns_of_bags
        weight += f", metadata={metadata!r}" if metadata else ""
        names = list(columns.names)
        lines.append(f"bags = Bags.from_dataframe(table, {columns.bag!r}, {names!r}{weight})")
    model = told.model.__repr__(N_CHAR_MAX=_LONGEST)
    return "\n".join([*lines, f"model = {model}", f"model.fit(bags, y{arguments})"])
