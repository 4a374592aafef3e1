"""The first section of a report: how well the fit predicts, in sentences."""

import re

import numpy as np

from bdr_stan import metrics
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import LandmarkFeatures, Linear
from bdr_stan.models.overdispersion import Overdispersion
from bdr_stan.report.fit_summary import FitSummary
from bdr_stan.report.page import Section, Text
from bdr_stan.results.advice import checks
from bdr_stan.types import Array

LEVEL = 0.95  # of intervals
FEW_BAGS = 20  # below which shares and R2 are too uncertain to state
_PENALTIES = np.logspace(-3, 3, 13)
_LIMITS = (
    "The fit describes associations in these data: it does not show what causes the labels, and "
    "holds for bags like those of the fit."
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
    error, sd = metrics.mse(y, predictive.mean) ** 0.5, float(np.std(y))
    lower, upper = predictive.interval(LEVEL)
    name, unit = _name_and_unit(_label(fit))
    text = (
        f"The fit predicts {name} with a root mean squared error of {error:.3g}{unit} "
        f"({sd:.3g} without the model{_r_squared(fit, error, sd)})."
    )
    baseline = _ridge_error(fit)
    if baseline is not None:
        text += f" Ridge regression on the means of the columns: {baseline:.3g}{unit}."
    covered = share((lower <= y) & (y <= upper))
    return [text, f"{covered} of the {LEVEL:.0%} intervals contain the observed value."]


def _r_squared(fit, error, sd):
    return "" if len(fit.labels) < FEW_BAGS or sd == 0 else f"; R2 {1 - (error / sd) ** 2:.2f}"


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
    found = re.fullmatch(r"(.+),( [^\d,]+)", label)
    return found.groups() if found else (label, "")


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
    found = checks(fit.model.diagnostics())
    poor = [check.quantity for check in found if check.bad]
    if poor:
        return f"Poor diagnostics of the sampler: {', '.join(poor)}. See the appendix."
    return "All diagnostics of the sampler are good." if found else ""


def _scatter(fit):
    kept = fit.model.result_.settings.get("overdispersion")
    found = None if kept is None else Overdispersion(**kept)
    return "" if found is None or not found.is_clear else found.text[0].upper() + found.text[1:]
