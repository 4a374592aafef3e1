"""What metrics and plots refuse."""

import numpy as np
from builders.mistakes import (
    AT_POINTS,
    BAGS,
    CLASSES,
    FITTED,
    NETWORK,
    PREDICTIVE,
    SIZES,
    Y,
    changed,
    check_call,
    mistakes,
)

from bdr_stan import Shrinkage, metrics, plots

SHRUNK = Shrinkage(2).fit(BAGS, Y, seed=1)
ROBUST = FITTED.contrast([bag + 1 for bag in BAGS], BAGS).robustness()

SCORES = [
    ("labels of another length", lambda: metrics.coverage(Y, Y[:3], Y), "lower has shape"),
    ("a label of NaN", lambda: metrics.coverage(changed(Y, 2, np.nan), Y, Y), "bag 2"),
    ("labels of text", lambda: metrics.coverage(["a"], [1.0], [1.0]), "y"),
    ("no labels", lambda: metrics.coverage([], [], []), "no bags"),
    ("bounds of another length", lambda: metrics.coverage(Y, Y, Y[:2]), "upper"),
    ("edges that fall", lambda: metrics.size_classes(SIZES, [5, 2]), "edges"),
    ("no edges", lambda: metrics.size_classes(SIZES, []), "edges"),
    ("edges of text", lambda: metrics.size_classes(SIZES, ["a"]), "edges"),
    ("sizes of another length",
     lambda: metrics.table_by_size(Y, PREDICTIVE, SIZES[:3]), "sizes"),
    ("a level of 2", lambda: metrics.table_by_size(Y, PREDICTIVE, SIZES, level=2), "level"),
    ("a level of text",
     lambda: metrics.table_by_size(Y, PREDICTIVE, SIZES, level="wide"), "level"),
    ("levels of 0", lambda: metrics.calibration(Y, PREDICTIVE, [0.0]), "level"),
    ("no levels", lambda: metrics.calibration(Y, PREDICTIVE, []), "levels"),
    ("no bins", lambda: metrics.reliability(CLASSES, OF_CLASSES, 0), "n_bins"),
    ("bins of text", lambda: metrics.reliability(CLASSES, OF_CLASSES, "ten"), "n_bins"),
    ("a label that is no class",
     lambda: metrics.table_by_size(["c"] * 12, OF_CLASSES, SIZES), "'c'"),
    ("rates of another length", lambda: metrics.calibration([1.0], AT_POINTS), "78 points"),
    ("a plot of sizes of another length",
     lambda: plots.prediction(Y, PREDICTIVE, SIZES[:3]), "sizes"),
    ("a plot of a list", lambda: plots.prediction(Y, [1.0] * 12, SIZES), "predictive"),
    ("the reliability of numbers",
     lambda: plots.reliability({"BDR": PREDICTIVE}, CLASSES, SIZES), "classes"),
    ("the reliability of one", lambda: plots.reliability(OF_CLASSES, CLASSES, SIZES), "dict"),
    ("a comparison of nothing", lambda: plots.prediction(Y, {}, SIZES), "predictive"),
    ("a calibration of too few labels", lambda: plots.calibration(Y[:3], PREDICTIVE), "y"),
    ("a picture of no influence", lambda: plots.influence(NETWORK, 0), "AggregateNN"),
    ("a picture of no such column", lambda: plots.influence(FITTED, "age", BAGS), "age"),
    ("a picture of a level of 2", lambda: plots.influence(FITTED, "x", level=2), "level"),
    ("a picture of no robustness",
     lambda: plots.robustness(FITTED.contrast(BAGS, BAGS)), "contrast.robustness()"),
    ("axes of robustness to 1", lambda: plots.robustness(ROBUST, largest=1.0), "largest"),
    ("axes of robustness to text", lambda: plots.robustness(ROBUST, largest="all"), "largest"),
    ("a spectrum of no shrinkage", lambda: plots.shrinkage_spectrum(FITTED), "BLR"),
    ("a spectrum of bags of no points",
     lambda: plots.shrinkage_spectrum(SHRUNK, [0]), "sizes"),
    ("a spectrum of numbers", lambda: plots.shrinkage_spectrum([1.0]), "BDR"),
    ("the reliability of nothing", lambda: plots.reliability({}, CLASSES, SIZES), "predictive"),
]  # fmt: skip


class OF_CLASSES:
    """A class predictive, as metrics take it."""

    classes, mean = np.array(["a", "b"]), np.full(12, 0.5)

    @staticmethod
    def log_prob(y):
        return np.log(np.full(len(y), 0.5))


@mistakes(SCORES)
def test_metrics_and_plots(call, words):
    check_call(call, words)
