"""``bdr-stan predict``."""

from pathlib import Path

import click

from bdr_stan.cli import options
from bdr_stan.cli.group import example
from bdr_stan.cli.models import load_fit
from bdr_stan.cli.tables import check_output, check_suffix, read_like, write_whole


@click.command(
    short_help="Predict the labels of new bags.",
    epilog=example("bdr-stan predict fit.nc new.parquet -o pred.csv"),
)
@click.argument("fitted", metavar="FIT", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@options.output("Predictions, .csv.")
@options.new_table
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Probability of the intervals.",
)
@options.force
def predict(fitted, new, output, bag, weight, missing, unseen, level, force):
    """Predict the labels of the bags in NEW, a .parquet or .csv table like that of the fit.

    Columns are found by name. Writes bag, n_points, mean, sd, lower, upper; for classes bag,
    n_points, predicted, and probability, lower, upper of the predicted class.
    """
    import numpy as np
    import pandas as pd
    from sklearn.base import is_classifier

    check_output(output, force, not_to_be=new)
    check_suffix(output, ".csv")
    model = load_fit(fitted)
    if getattr(model, "likelihood", None) == "binomial" and not model.columns_of_bags:
        raise ValueError(
            f"{fitted} was fitted to counts out of trials, which a prediction needs too: predict "
            f"in Python, with bdr_stan.load({str(fitted)!r}).predict(bags, trials=...)"
        )
    bags = read_like(model, fitted, new, bag, weight, missing=missing, unseen=unseen)
    predictive = model.predictive(bags)
    lower, upper = predictive.interval(level)
    if is_classifier(model):
        if lower.ndim == 1:  # of the second of two classes
            lower, upper = np.column_stack([1 - upper, lower]), np.column_stack([1 - lower, upper])
        most = np.argmax(predictive.probabilities, axis=1)
        row = np.arange(len(bags))
        columns = {
            "predicted": model.classes_[most],
            "probability": predictive.probabilities[row, most],
            "lower": lower[row, most],
            "upper": upper[row, most],
        }
    else:
        columns = {"mean": predictive.mean, "sd": predictive.sd, "lower": lower, "upper": upper}
    table = pd.DataFrame({"bag": bags.ids, "n_points": bags.sizes, **columns})
    write_whole(output, lambda path: table.to_csv(path, index=False))
    click.echo(f"Wrote {output}: {len(bags)} bags, intervals of {level:.4g} probability")
