"""Section on the robustness of conclusions from the predictions."""

from typing import Any

from bdr_stan.report.fit_summary import FitSummary
from bdr_stan.report.page import Section, Table, Text

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
    found = fit.model.doubts(fit.bags)
    text = (
        "Predictions can be wrong for reasons that intervals do not include. The table lists those "
        "that apply, what each makes of the answer, and how strong it must be to change a "
        f"conclusion, for example that {found.conclusion}"
    )
    blocks: list[Any] = [Text(text)]
    if len(found):
        blocks.append(Table("Reasons for doubt", found.to_dataframe()))
    else:
        blocks.append(Text("None of the checks found a reason for doubt."))
    return Section("doubts", "How wrong could it be?", blocks)


def _of_rates(model):
    """The assumption behind rates, with a check if the model has effects of bags."""
    try:
        return [Text(_ASSUMPTION), Table(_SLOPES, model.check_context())]
    except ValueError:  # no effects, or too few bags
        return [Text(_ASSUMPTION)]
