"""The report of a fit: its sections in their order."""

from pathlib import Path
from typing import Any

from bdr_stan.bags import Bags, PartitionedBags
from bdr_stan.plots.style import pyplot
from bdr_stan.report import of_points, of_predictions, of_the_fit
from bdr_stan.report.page import page_template, write_page
from bdr_stan.report.told import told_of
from bdr_stan.results.files import checked_output
from bdr_stan.types import PathName

_METHODS = {
    "nuts": "NUTS",
    "optimize": "posterior mode",
    "laplace": "Laplace approximation",
    "pathfinder": "Pathfinder approximation",
    "vb": "variational posterior",
    "exact": "exact draws at fixed scales",
}


def write_report(
    model: Any, path: PathName, bags: Bags | PartitionedBags | None, label: str
) -> Path:
    """Write the report of a fit with a posterior to one HTML file.

    Parameters
    ----------
    model : fitted estimator
    path : str or Path
    bags : Bags of the fit, or None
    label : str, what the labels are

    Returns
    -------
    Path

    Raises
    ------
    TypeError, FileNotFoundError, NotADirectoryError, IsADirectoryError
        The file cannot be there.
    ImportError
        Jinja2 or matplotlib is not installed.
    ValueError
        The bags are not those of the fit.
    """
    checked_output(path)
    page_template()
    pyplot()
    told = told_of(model, bags, label)
    sections = [
        of_the_fit.what_was_fitted(told),
        of_the_fit.diagnostics(told),
        of_the_fit.posterior(told),
        of_the_fit.priors(told),
        of_predictions.predictions(told),
        of_predictions.calibration(told),
        of_points.influence(told),
        of_points.shrinkage(told),
        of_points.rates(told),
        of_the_fit.how_to_repeat(told),
    ]
    method = _METHODS.get(model.method, model.method)
    lead = f"{told.name} ({method}), fitted to the labels of {len(told.ids)} bags of points."
    title = "Report of a fit" if label == "label" else f"Report of a fit: {label}"
    return write_page(path, title, lead, [each for each in sections if each is not None])
