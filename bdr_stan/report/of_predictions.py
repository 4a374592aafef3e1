"""What a fit predicts of its own bags, by their size, and whether its probabilities hold."""

from typing import Any

import numpy as np

from bdr_stan import metrics, plots
from bdr_stan.report.page import Folded, Section, Table, Text
from bdr_stan.report.pictures import picture
from bdr_stan.report.told import Told
from bdr_stan.results.leave_one_out import GOOD_K

_LEVEL = 0.95
_FARTHEST = 20
_MOST_BAGS = 2000  # rows of the table of all bags


def predictions(told: Told) -> Section:
    """Predictions of the bags, each without its own label where that can be left out."""
    blocks: list[Any] = [Text(text) for text in _how(told)]
    if told.predictive is not None:
        blocks += _of_numbers(told) if told.classes is None else _of_classes(told)
    return Section("predictions", "Predictions by bag size", blocks)


def _how(told):
    """Sentences on what the predictions know of the labels."""
    if told.predictive is None:
        if told.needs_trials and told.bags is not None:
            return ["Predictions need the trials of each bag, which the fit does not keep."]
        return [
            "This fit keeps no draws of labels, as those by optimisation and those to very many "
            "bags: pass its bags (bags= in Python, the table on the command line) for predictions."
        ]
    if told.left_out is None or told.left_out.pareto_k is None:
        return [
            "These are predictions of bags whose labels the fit has seen: those of new bags are "
            "somewhat worse."
        ]
    k = told.left_out.pareto_k
    sentences = [
        "Each bag is predicted without its own label, by weighting the draws of the posterior "
        "(leave-one-out by Pareto-smoothed importance sampling)."
    ]
    if told.model.method != "nuts":
        sentences.append(
            f"The draws are of method {told.model.method!r}, an approximation, and so are these "
            "predictions."
        )
    bad = int(np.sum(k > GOOD_K))
    if bad:
        sentences.append(
            f"Of {bad} of {len(k)} bags this is not to be trusted (Pareto k-hat above {GOOD_K}): "
            "few draws decide it, as these labels change the posterior much."
        )
    return sentences


def _of_numbers(told):
    y, predictive = told.labels, told.predictive
    blocks = [
        picture(
            "predictions",
            "Observed labels against predicted ones with their intervals, a panel for each class "
            "of bag sizes.",
            f"Each bar is the {_LEVEL:.0%} interval of a bag, its dot the mean; it crosses the "
            "dashed line where it holds the label, and is orange where it does not. A panel draws "
            f"at most {plots.BARS_PER_PANEL} bags.",
            lambda: plots.prediction(y, predictive, told.sizes, level=_LEVEL, label=told.label),
        ),
        Table(f"Predictions by bag size; intervals of {_LEVEL:.0%} probability", _by_size(told)),
    ]
    if told.sizes is None:
        blocks.append(Text("The fit does not keep the bags' sizes: pass its bags for them."))
    return [*blocks, *_bags(told)]


def _by_size(told):
    """Errors and intervals for each class of bag sizes, and for all bags."""
    import pandas as pd

    y, predictive = told.labels, told.predictive
    lower, upper = predictive.interval(_LEVEL)
    classes = {} if told.sizes is None else metrics.size_classes(told.sizes)
    rows = {
        name: {
            "bags": int(of.sum()),
            "root mean squared error": metrics.mse(y[of], predictive.mean[of]) ** 0.5,
            "sd of the labels": float(np.std(y[of])),
            "mean width of intervals": metrics.interval_width(lower[of], upper[of]),
            "share in their interval": metrics.coverage(y[of], lower[of], upper[of]),
        }
        for name, of in (classes | {"all": np.ones(len(y), bool)}).items()
    }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("points in a bag")
    return table.astype({"bags": int})


def _bags(told):
    """Table of the bags: all of totals, else those farthest out."""
    import pandas as pd

    y, predictive = told.labels, told.predictive
    lower, upper = predictive.interval(_LEVEL)
    table = pd.DataFrame(
        {"observed": y, "predicted": predictive.mean, "lower": lower, "upper": upper},
        index=pd.Index(told.ids, name="bag"),
    )
    if told.sizes is not None:
        table.insert(0, "points", told.sizes if told.bags is None else told.bags.sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.abs(y - predictive.mean) / predictive.sd
    order = np.argsort(-np.nan_to_num(away), kind="stable")
    far = table.iloc[order[:_FARTHEST]]
    found = [
        Folded(
            f"The {len(far)} bags farthest from their prediction",
            [Table("Bags whose labels lie most predictive standard deviations off", far)],
        )
    ]
    if hasattr(told.model, "predict_points") and len(table) <= _MOST_BAGS:
        every = Table("Observed and predicted totals of each bag", table)
        found.append(Folded(f"All {len(table)} bags", [every]))
    return found


def _of_classes(told):
    import pandas as pd

    probabilities = told.predictive.probabilities
    guess = told.classes[np.argmax(probabilities, axis=1)]
    own = probabilities[np.arange(len(guess)), np.searchsorted(told.classes, told.labels)]
    sizes = told.sizes
    classes = {} if sizes is None else metrics.size_classes(sizes)
    rows = {
        name: {
            "bags": int(of.sum()),
            "share of right classes": float(np.mean(guess[of] == told.labels[of])),
            "mean probability of the right class": float(np.mean(own[of])),
            "mean probability of the likeliest": float(np.mean(probabilities[of].max(axis=1))),
        }
        for name, of in (classes | {"all": np.ones(len(guess), bool)}).items()
    }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("points in a bag")
    confused = pd.crosstab(
        pd.Series(told.labels, name="label"), pd.Series(guess, name="predicted")
    ).reindex(columns=told.classes, fill_value=0)
    return [
        Table("Classes by bag size", table.astype({"bags": int})),
        Table("Bags of each class (rows) by their likeliest class (columns)", confused),
    ]


def calibration(told: Told) -> Section | None:
    """Whether stated probabilities hold, by bag size."""
    if told.predictive is None:
        return None
    title = "Do the stated probabilities hold?"
    if told.classes is None:
        return Section("calibration", title, _of_intervals(told))
    if len(told.classes) > 2:
        return None
    drawn = picture(
        "reliability",
        "Observed share of the second class against its predicted probability, a panel for each "
        "class of bag sizes.",
        f"Share of {told.classes[1]!s} among bags of like predicted probability: right "
        "probabilities lie on the dashed line, but for chance (bars of two standard errors).",
        lambda: plots.reliability({told.name: told.predictive}, told.labels, _sizes_or_one(told)),
    )
    return Section("calibration", title, [drawn])


def _sizes_or_one(told):
    return np.ones(len(told.labels)) if told.sizes is None else told.sizes


def _of_intervals(told):
    y, predictive = told.labels, told.predictive
    table = metrics.calibration(y, predictive, sizes=told.sizes)
    shares = table.pivot_table("coverage", "level", "size", sort=False)
    shares.index = [f"{level:.0%}" for level in shares.index]
    shares = shares.rename_axis("probability of the interval").rename_axis(None, axis=1)
    return [
        picture(
            "pit",
            "Histograms of the predicted probability of a label below the observed one, a panel "
            "for each class of bag sizes.",
            "How high labels lie in their predictions. Bars of one height, within the grey band "
            "but for chance, are of right probabilities; high at both ends of intervals that are "
            "too short, high in the middle of ones that are too long.",
            lambda: plots.pit(y, predictive, told.sizes),
        ),
        picture(
            "coverage",
            "Share of labels inside central intervals against the intervals' probability.",
            "Share of labels inside their intervals against the probability of the intervals; the "
            "band is two standard errors wide to either side.",
            lambda: plots.calibration(y, predictive, told.sizes),
        ),
        Folded("These shares as numbers", [Table("Share of labels inside, by bag size", shares)]),
    ]
