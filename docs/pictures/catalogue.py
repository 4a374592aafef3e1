"""The pictures of the pages by name."""

from functools import partial

import entry
import guides
import models
import tables
from of_examples import example, maps

# Picture in docs/, without .png -> function that returns the content of the file.
PICTURES = {
    "demo": partial(example, "demo"),
    "influence": partial(example, "influence"),
    "maps": maps,
    "space_time": partial(example, "space_time"),
    "concept": entry.concept,
    "choosing": entry.choosing,
    "regression_dilution": entry.regression_dilution,
    "data_in": guides.data_in,
    "families": guides.families,
    "terms": guides.terms,
    "priors": guides.priors,
    "check": guides.check,
    "report_top": guides.report_top,
    "report_predictions": guides.report_predictions,
    "report_narrow": guides.report_narrow,
    "interpret": guides.interpret,
    "design": guides.design,
    "robustness_familiarity": guides.robustness_familiarity,
    "district": models.district,
    "explanation/shrinkage": models.shrinkage,
    "robustness_conformal": tables.robustness_conformal,
    "validation/conformal": tables.conformal,
    "validation/gamma_calibration": tables.gamma_calibration,
    "validation/gamma_figure4": tables.gamma_figure4,
    "validation/real_tables": tables.real_tables,
}
