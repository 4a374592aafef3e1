"""The summary, and sections on predictions: by size, calibration, reasons for doubt."""

import re
from typing import Any

import numpy as np

from bdr_stan import metrics, plots
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import LandmarkFeatures, Linear
from bdr_stan.models.overdispersion import Overdispersion
from bdr_stan.questions.familiarity import UNFAMILIAR
from bdr_stan.report.fit_summary import FitSummary
from bdr_stan.report.page import Folded, Section, Table, Text, picture
from bdr_stan.results.advice import checks
from bdr_stan.results.leave_one_out import GOOD_K
from bdr_stan.types import Array

LEVEL = 0.95  # of intervals
FEW_BAGS = 20  # below which shares and R2 are too uncertain to state
_PENALTIES = np.logspace(-3, 3, 13)
_LIMITS = (
    "The fit describes associations in these data: it does not show what causes the labels, and "
    "applies only to groups similar to those in the data."
)
_N_OUTLIERS = 20  # rows of the table of outlying bags
_N_UNFAMILIAR = 5  # bags that a sentence names
_N_DRAWS = 1000  # of counts, for the share of zeros
_SD_OF_ZEROS = 3.0  # of the number of zeros; beyond it chance is excluded
_MAX_TABLE_BAGS = 2000  # bags up to which a table lists them all
_ASSUMPTION = (
    "Rates inside bags rest on an assumption that totals cannot test: that the rate of a point "
    "depends on its columns, and not on the bag around it. If people's rates depend on their "
    "neighbourhood as well, differences between kinds of people are smaller or larger than this "
    "report shows. For the rate of a subset of the points, model.bounds gives what the totals "
    "imply without the assumption, and model.context how the answer changes without it."
)
_SLOPES = (
    "A check: slopes of the bags' effects in their means of each column, per standard deviation, "
    "with 95% intervals. An interval without 0 contradicts the assumption; one with 0 is weak "
    "evidence for it"
)


def headline(fit: FitSummary) -> Section:
    """Errors of the predictions, coverage, a baseline, diagnostics, and limits of the model."""
    sentences = [*_accuracy(fit), _diagnostics(fit), _scatter(fit), _LIMITS]
    return Section("summary", "Summary", [Text(sentence) for sentence in sentences if sentence])


def _accuracy(fit):
    """Sentences on the errors of the predictions."""
    if fit.predictive is None:
        return ["There are no predictions of the bags to assess: see the section on predictions."]
    loo = fit.loo is not None and fit.loo.pareto_k is not None
    basis = "The model has seen these labels: errors for new bags will be larger."
    if loo:
        basis = "Each bag is predicted without its own label."
    if len(fit.labels) < FEW_BAGS:
        basis += f" {len(fit.labels)} bags are too few to assess a model."
    accuracy = _accuracy_of_numbers(fit) if fit.classes is None else _accuracy_of_classes(fit)
    return [*accuracy, basis]


def _accuracy_of_numbers(fit):
    y, predictive = fit.labels, fit.predictive
    error, sd = np.sqrt(np.mean((y - predictive.mean) ** 2)), float(np.std(y))
    lower, upper = predictive.interval(LEVEL)
    name, unit = _name_and_unit(_label(fit))
    r_squared = f"; R2 {1 - (error / sd) ** 2:.2f}" if len(y) >= FEW_BAGS and sd > 0 else ""
    text = (
        f"The fit predicts {name} with a root mean squared error of {error:.3g}{unit} "
        f"({sd:.3g} without the model{r_squared})."
    )
    baseline = _ridge_error(fit)
    if baseline is not None:
        text += f" Ridge regression on the means of the columns: {baseline:.3g}{unit}."
    covered = share((lower <= y) & (y <= upper))
    return [text, f"{covered} of the {LEVEL:.0%} intervals contain the observed value."]


def _accuracy_of_classes(fit):
    guess = fit.classes[np.argmax(fit.predictive.probabilities, axis=1)]
    _, counts = np.unique(fit.labels, return_counts=True)
    return [
        f"The likeliest class of {_label(fit)} is the true one for {share(guess == fit.labels)} of "
        f"the bags; the most frequent class has {counts.max() / len(guess):.0%}."
    ]


def _label(fit):
    return "the label" if fit.label == "label" else fit.label


def _name_and_unit(label):
    """For example "age" and " years" of "age, years"; the unit may be empty."""
    parts = re.fullmatch(r"(.+),( [^\d,]+)", label)
    return parts.groups() if parts else (label, "")


def share(mask: Array) -> str:
    """For example "94% (188 of 200)"; only the numbers if there are few."""
    count = f"{int(np.sum(mask))} of {len(mask)}"
    return count if len(mask) < FEW_BAGS else f"{np.mean(mask):.0%} ({count})"


def _ridge_error(fit):
    """Leave-one-out error of ridge regression on the bags' means; None without bags, for totals."""
    if fit.bags is None or len(fit.labels) < FEW_BAGS or hasattr(fit.model, "predict_points"):
        return None
    from sklearn.linear_model import RidgeCV

    means = np.hstack([_means(part, fit.ids) for part in fit.samples.values()])
    varying = means.std(axis=0) > 0
    standard = (means - means.mean(axis=0))[:, varying] / means.std(axis=0)[varying]
    ridge = RidgeCV(_PENALTIES, store_cv_results=True).fit(standard, fit.labels)
    return float(np.sqrt(ridge.cv_results_.mean(axis=0).min()))


def _means(fit, ids):
    """Means of the columns of each bag out of `ids`; the average one of bags without points."""
    # The linear kernel at the unit vectors is the point itself.
    columns = LandmarkFeatures(Linear(), np.eye(fit.bags.n_features))
    means = embed(fit.bags, columns).mean
    every = np.tile(means.mean(axis=0), (len(ids), 1))
    every[np.isin(ids, fit.ids)] = means
    return every


def _diagnostics(fit):
    all_checks = checks(fit.model.diagnostics())
    poor = [check.quantity for check in all_checks if check.bad]
    if poor:
        return f"Poor diagnostics of the sampler: {', '.join(poor)}. See the appendix."
    return "All diagnostics of the sampler are good." if all_checks else ""


def _scatter(fit):
    kept = fit.model.result_.settings.get("overdispersion")
    scatter = None if kept is None else Overdispersion(**kept)
    if scatter is None or not scatter.is_clear:
        return ""
    return scatter.text[0].upper() + scatter.text[1:]


def predictions(fit: FitSummary) -> Section:
    """Predictions of the training bags, leave-one-out if possible."""
    blocks: list[Any] = [Text(text) for text in [*_how_predicted(fit), *_of_new_bags(fit)]]
    if fit.predictive is not None:
        blocks += _number_blocks(fit) if fit.classes is None else _class_blocks(fit)
    return Section("predictions", "Predictions by bag size", blocks)


def _how_predicted(fit):
    """Sentences on how the predictions depend on the labels."""
    if fit.are_times:
        return [
            "Censored and truncated times have no errors, and no intervals that cover them or not. "
            "model.predictive(bags).survival(times) has the probabilities of survival, and "
            "bdr_stan.metrics.concordance assesses them."
        ]
    if fit.predictive is None:
        if fit.needs_trials and fit.bags is not None:
            return ["Predictions need the trials of each bag, which the fit does not include."]
        return [
            "This fit includes no draws of labels (fits by optimisation and fits to very many bags "
            "do not): pass its bags (bags= in Python, the table on the command line) for "
            "predictions."
        ]
    if fit.loo is None or fit.loo.pareto_k is None:
        return [
            "These are in-sample predictions: the model was fitted to the labels of these bags, so "
            "errors for new bags will be somewhat larger."
        ]
    k = fit.loo.pareto_k
    sentences = [
        "Each bag is predicted without its own label, by weighting the draws of the posterior "
        "(leave-one-out by Pareto-smoothed importance sampling)."
    ]
    if fit.model.method != "nuts":
        sentences.append(
            f"The draws are from the approximation {fit.model.method!r}, so these predictions are "
            "approximate too."
        )
    bad = int(np.sum(k > GOOD_K))
    if bad:
        sentences.append(
            f"It is unreliable for {bad} of {len(k)} bags (Pareto k-hat above {GOOD_K}): their "
            "labels change the posterior so much that few draws have most of the weight."
        )
    return sentences


def _of_new_bags(fit):
    """A sentence on out-of-distribution bags, for fits that detect them."""
    if not getattr(fit.model, "has_familiarity", False):
        return []
    text = (
        "Predictions assume that new bags are similar to the bags of the fit. The column "
        "familiarity of a table of predictions is a p-value: it is below 0.05 for 5% of similar "
        "bags, and for most large out-of-distribution bags."
    )
    if fit.bags is None:
        return [text]
    p = fit.model.familiarity(fit.bags)["familiarity"]
    odd = p.sort_values().index[: int(np.sum(p <= UNFAMILIAR))]
    named = ", ".join(map(str, odd[:_N_UNFAMILIAR])) + (", ..." * (len(odd) > _N_UNFAMILIAR))
    outliers = f"Outliers are {named}" if len(odd) else f"No {fit.id_name} is an outlier"
    return [f"{text} {outliers}, with a p-value of at most {UNFAMILIAR}."]


def _number_blocks(fit):
    y, predictive = fit.labels, fit.predictive
    blocks = [
        picture(
            "predictions",
            "Predicted against observed labels, with intervals, one panel per class of bag sizes.",
            f"Each bar is the {LEVEL:.0%} interval of a bag, its dot the mean. Bars that contain "
            "the label cross the dashed line; the others are orange. A panel draws at most "
            f"{plots.BARS_PER_PANEL} bags.",
            lambda: plots.prediction(y, predictive, fit.sizes, level=LEVEL, label=fit.label),
        ),
        Table(f"Predictions by bag size; intervals of {LEVEL:.0%} probability", _by_size(fit)),
    ]
    if fit.sizes is None:
        blocks.append(Text("The fit does not include the bag sizes: pass its bags for them."))
    return [*blocks, *_bags(fit)]


def _by_size(fit):
    """Errors, interval widths and coverage per class of bag sizes, and for all bags."""
    y, predictive = fit.labels, fit.predictive
    lower, upper = predictive.interval(LEVEL)
    covered = (lower <= y) & (y <= upper)

    def row(mask):
        error = np.sqrt(np.mean((y[mask] - predictive.mean[mask]) ** 2))
        sd = float(np.std(y[mask]))
        return {
            "root mean squared error": error,
            "sd of the labels": sd,
            "R2": 1 - (error / sd) ** 2 if mask.sum() >= FEW_BAGS and sd else np.nan,
            "mean interval width": np.mean((upper - lower)[mask]),
            "labels in their intervals": share(covered[mask]),
        }

    return fit.table_by_size(row)


def _bags(fit):
    """Table of the most outlying bags, and for totals one of all bags."""
    import pandas as pd

    y, predictive = fit.labels, fit.predictive
    lower, upper = predictive.interval(LEVEL)
    table = pd.DataFrame(
        {"observed": y, "predicted": predictive.mean, "lower": lower, "upper": upper},
        index=pd.Index(fit.ids, name=fit.id_name),
    )
    if fit.sizes is not None:
        table.insert(0, "points", fit.sizes if fit.bags is None else fit.bags.sizes)
    if fit.design_effects is not None:
        table.insert(1, "design effect", fit.design_effects)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(y - predictive.mean) / predictive.sd
    order = np.argsort(-np.nan_to_num(distance), kind="stable")
    outliers = table.iloc[order[:_N_OUTLIERS]]
    blocks = [
        Folded(
            f"The {len(outliers)} bags farthest from their predictions",
            [Table("Bags with the largest errors, in predictive sds", outliers, sortable=True)],
        )
    ]
    if hasattr(fit.model, "predict_points") and len(table) <= _MAX_TABLE_BAGS:
        every = Table("Observed and predicted totals of each bag", table, sortable=True)
        blocks.append(Folded(f"All {len(table)} bags", [every]))
    return blocks


def _class_blocks(fit):
    import pandas as pd

    probabilities = fit.predictive.probabilities
    guess = fit.classes[np.argmax(probabilities, axis=1)]
    likeliest = probabilities.max(axis=1)
    p_true = np.exp(fit.predictive.log_prob(fit.labels))

    def row(mask):
        return {
            "accuracy": share(guess[mask] == fit.labels[mask]),
            "mean probability of the true class": float(np.mean(p_true[mask])),
            "mean probability of the likeliest class": float(np.mean(likeliest[mask])),
        }

    confused = pd.crosstab(
        pd.Series(fit.labels, name="label"), pd.Series(guess, name="predicted")
    ).reindex(index=fit.classes, columns=fit.classes, fill_value=0)
    confused.index.name = fit.label
    return [
        Table("Predicted classes by bag size", fit.table_by_size(row)),
        Table(
            "Confusion matrix: number of bags by true class (rows) and likeliest class (columns)",
            confused,
        ),
    ]


def calibration(fit: FitSummary) -> Section | None:
    """Calibration of the predictive distributions, by bag size."""
    if fit.predictive is None:
        return None
    title = "Are the predictions calibrated?"
    if fit.classes is None:
        return Section("calibration", title, _interval_blocks(fit))
    if len(fit.classes) > 2:
        return None
    sizes = np.ones(len(fit.labels)) if fit.sizes is None else fit.sizes
    drawn = picture(
        "reliability",
        "Observed share of the second class against its predicted probability, one panel per "
        "class of bag sizes.",
        f"Share of {fit.classes[1]!s} among bags with similar predicted probability: calibrated "
        "probabilities lie on the dashed line, up to chance (bars of two standard errors).",
        lambda: plots.reliability({fit.name: fit.predictive}, fit.labels, sizes),
    )
    return Section("calibration", title, [drawn])


def _rootogram(fit):
    """Frequencies of counts, of fits to counts that are not out of trials."""
    if not getattr(fit.model, "counts_labels", False) or "trials" in fit.label_data:
        return
    predictive = fit.predictive if fit.loo_of_counts is None else fit.loo_of_counts
    if fit.loo_of_counts is None and fit.label_data:
        return  # draws of rates, not of counts
    y = fit.model.result_.labels
    yield picture(
        "rootogram",
        "Hanging rootogram: square roots of the numbers of bags with each count, observed and "
        "predicted.",
        "Hanging rootogram of the counts. The line is the square root of the predicted number of "
        "bags with each count; bars of the observed number hang from it. Bars that end above zero "
        "show counts that are rarer than predicted, bars below zero counts that are more frequent.",
        lambda: plots.rootogram(y, predictive),
    )
    yield Text(zeros_text(y, np.mean(predictive.sample(_N_DRAWS, seed=0) == 0, axis=0)))


def zeros_text(y: Array, p: Array) -> str:
    """How many of the counts y, shape (n,), are 0, and are predicted to be, by probabilities p."""
    observed, expected = float(np.mean(y == 0)), float(np.mean(p))
    margin = _SD_OF_ZEROS * float(np.sqrt(np.sum(p * (1 - p)))) / len(y)
    text = f"{observed:.0%} of the counts are 0; {expected:.0%} are predicted to be (chance: "
    text += f"{max(expected - margin, 0):.0%} to {min(expected + margin, 1):.0%})."
    if abs(observed - expected) <= margin:
        return text
    kind = "more" if observed > expected else "fewer"
    return (
        f"{text} There are {kind} zeros than this family describes. Compare with another family, "
        "such as 'negative_binomial', or predict whether a count is 0 with BDRClassifier, and the "
        "other counts by themselves."
    )


def _interval_blocks(fit):
    y, predictive = fit.labels, fit.predictive
    table = metrics.calibration(y, predictive, sizes=fit.sizes)
    shares = table.pivot_table("coverage", "level", "size", sort=False)
    shares = shares.map("{:.0%}".format)
    shares.index = [f"{level:.0%}" for level in shares.index]
    shares = shares.rename_axis("probability of the interval").rename_axis(None, axis=1)
    return [
        *_rootogram(fit),
        picture(
            "pit",
            "Histograms of the probability integral transform (PIT): the predicted probability "
            "of a label below the observed one; one panel per class of bag sizes.",
            "Probability integral transform (PIT) of the labels. Calibrated predictions give bars "
            "of equal height, within the grey band up to chance. Bars are high at both ends if "
            "intervals are too short, and high in the middle if they are too long.",
            lambda: plots.pit(y, predictive, fit.sizes),
        ),
        picture(
            "coverage",
            "Coverage of central intervals against their nominal probability.",
            "Coverage of central intervals against their nominal probability; the band is two "
            "standard errors to either side.",
            lambda: plots.calibration(y, predictive, fit.sizes),
        ),
        Folded("Coverage as numbers", [Table("Coverage by bag size", shares)]),
    ]


def doubts(fit: FitSummary) -> Section | None:
    """Reasons for doubt, the answer under them, and their strength needed to change it."""
    if hasattr(fit.model, "predict_points"):
        return Section("doubts", "How wrong could it be?", _of_rates(fit.model))
    if not hasattr(fit.model, "doubts") or (fit.classes is not None and len(fit.classes) > 2):
        return None
    if fit.bags is None or getattr(fit.model, "needs_trials", False):
        what = "its bags" if fit.bags is None else "columns with trials, exposures or offsets"
        text = f"Reasons for doubt need {what}, which the fit does not include."
        return Section("doubts", "How wrong could it be?", [Text(text)])
    reasons = fit.model.doubts(fit.bags)
    text = (
        "Predictions can be wrong for reasons that intervals do not include. The table lists those "
        "that apply, what each makes of the answer, and how strong it must be to change a "
        f"conclusion, for example that {reasons.conclusion}"
    )
    blocks: list[Any] = [Text(text)]
    if len(reasons):
        blocks.append(Table("Reasons for doubt", reasons.to_dataframe()))
    else:
        blocks.append(Text("None of the checks found a reason for doubt."))
    return Section("doubts", "How wrong could it be?", blocks)


def _of_rates(model):
    """The assumption behind rates, with a check if the model has effects of bags."""
    try:
        return [Text(_ASSUMPTION), Table(_SLOPES, model.check_context())]
    except ValueError:  # no effects, or too few bags
        return [Text(_ASSUMPTION)]
