"""What questions and other modules use of a fit, besides what users do."""

import inspect
from typing import Any

from bdr_stan.arguments import answered
from bdr_stan.parameters import describe

# Names that estimators define, and describe, for questions and other modules; completions of a
# user's prompt omit them.
FOR_MODULES = {
    *("bags_like", "check_samples", "checked_seed", "covariates_", "covariates_of", "draws"),
    *("embedding_of", "fit_of_sample", "kernel_for", "label_model", "labels_of_new"),
    *("like_training", "log_evidence", "mean_totals", "noise_by_size", "own_program"),
    *("predictive_of_draws", "program_predictive", "program_ran_here", "program_step"),
    "quick_contrast",
    *("read_labels", "set_result", "subsets_given_totals", "training_distances"),
    *("training_effects", "warn_of_other_bags", "with_result"),
}


class Fit:
    """Base of questions, each a class with its public method, from which estimators inherit."""

    def __init_subclass__(cls, **options: Any):
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and name[0] != "_":
                describe(method, cls.__mro__[1:])
                setattr(cls, name, answered(method))
        super().__init_subclass__(**options)


def check_has_bags(model: Any, question: str) -> None:
    """Raise ValueError for a fit from sums, which has no labels and embeddings of single bags."""
    if "summary" in model.result_.settings:
        raise ValueError(
            f"{question} needs the label and embedding of each training bag, but this fit is from "
            "sums over the bags: fit to the bags, or ask a fit at one of the sites"
        )


def check_stock(model: Any) -> None:
    """Raise ValueError for a fit of a user's program: formulas of the stock program do not hold."""
    if model.by_program:
        raise ValueError(
            "this is a formula of the stock program, which need not hold for the program of the "
            "fit: use predict, predictive, predict_table or conformal, which run your program, or "
            "the draws in idata"
        )
