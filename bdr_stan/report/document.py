"""The sections of the report of a fit, in order."""

from datetime import date
from pathlib import Path
from typing import Any

from bdr_stan.bags import Bags, PartitionedBags
from bdr_stan.plots.style import pyplot
from bdr_stan.report import model_sections, point_sections, prediction_sections
from bdr_stan.report.fit_summary import fit_summary
from bdr_stan.report.page import page_template, write_page
from bdr_stan.results.files import checked_output
from bdr_stan.types import PathName

_METHODS = {
    "nuts": "NUTS",
    "optimize": "posterior mode",
    "laplace": "Laplace approximation",
    "vb": "variational posterior",
    "exact": "exact draws at fixed scales",
}


def write_report(
    model: Any,
    path: PathName,
    bags: Bags | PartitionedBags | None,
    label: str,
    title: str | None = None,
    author: str | None = None,
) -> Path:
    """Write the HTML report of a fit with a posterior; `bags` are the training bags, or None."""
    checked_output(path)
    page_template()
    pyplot()
    fit = fit_summary(model, bags, label)
    sections = [
        prediction_sections.headline(fit),
        prediction_sections.predictions(fit),
        prediction_sections.calibration(fit),
        prediction_sections.doubts(fit),
        point_sections.rates(fit),
        point_sections.influence(fit),
        point_sections.shrinkage(fit),
        model_sections.data_and_model(fit),
        model_sections.diagnostics(fit),
        model_sections.posterior(fit),
        model_sections.priors(fit),
        model_sections.reproduction(fit),
    ]
    method = _METHODS.get(model.method, model.method)
    lead = f"{fit.name} ({method}), fitted to the labels of {len(fit.ids)} bags of points"
    lead += f" from {Path(fit.file).name}." if fit.file else "."
    lead += "" if fit.id_name == "bag" else f" Each bag is one {fit.id_name}."
    written = " by ".join(each for each in (f"{date.today():%-d %B %Y}", author) if each)
    lead += f" Report of {written}."
    if title is None:
        title = "Report of a fit" if label == "label" else f"Report of a fit: {label}"
    return write_page(path, title, lead, [each for each in sections if each is not None])
