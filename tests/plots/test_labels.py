"""Every picture says what its axes are."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

from bdr_stan import BLR, Bags, Shrinkage, design_from_variances, plots
from bdr_stan.predictive import Robustness


class Classes:
    """Predictive probabilities of the second of two classes."""

    mean, classes = np.linspace(0.01, 0.99, 500), np.array(["no", "yes"])


def yes_or_no(case):
    return np.where(np.arange(len(case[0])) % 2 == 0, "yes", "no")


def model_of_heights():
    """Bags of two columns, and a fit to them."""
    rng = np.random.default_rng(1)
    bags = [c + rng.normal(size=(9, 2)) for c in np.linspace(-1, 1, 20)]
    return BLR(4, method="exact").fit(bags, np.linspace(-1, 1, 20), seed=1)


def model_of_states():
    """A fit with effects of two states."""
    metadata = pd.DataFrame({"state": ["north", "south"] * 10})
    bags = Bags.from_list([np.full((2, 1), k) for k in range(20)], metadata=metadata)
    return Shrinkage(4, groups=["state"]).fit(bags, np.sin(np.arange(20)), seed=1)


class Counts:
    """Predicted counts from 0 to 499, all alike likely."""

    def sample(self, size, seed):
        return np.random.default_rng(seed).integers(0, 500, (size, 500))


def studies():
    """Studies of one width."""
    variances = {"between": 1.0, "within": 4.0, "noise": 0.25}
    return design_from_variances(3.0, **variances, cost_of_bag=5, cost_of_point=1)


DRAW = {
    "calibration": lambda case: plots.calibration(*case),
    "comparison": lambda case: plots.prediction(case[0], {"BLR": case[1], "BDR": case[1]}, case[2]),
    "design": lambda case: plots.design(studies()),
    "influence": lambda case: plots.influence(model_of_heights(), 1),
    "pit": lambda case: plots.pit(*case),
    "prediction": lambda case: plots.prediction(*case),
    "terms": lambda case: plots.terms(model_of_states())[0],
    "reliability": lambda case: plots.reliability({"BDR": Classes()}, yes_or_no(case), case[2]),
    "robustness": lambda case: plots.robustness(Robustness(1.0, 0.4, 0.2, 1.8, 0.95, 50)),
    "rootogram": lambda case: plots.rootogram(np.arange(len(case[0])), Counts()),
    "shrinkage_spectrum": lambda case: plots.shrinkage_spectrum(model_of_states()),
}


def labels_of(ax, which):
    """Labels along an axis, of these axes or of those that share it."""
    group = getattr(ax, f"get_shared_{which}_axes")().get_siblings(ax)
    return {label for part in group if (label := getattr(part, f"get_{which}label")())}


def test_no_picture_is_left_out():
    assert set(DRAW) - {"comparison"} == {name for name in plots.__all__ if name.islower()}


@pytest.mark.parametrize("name", DRAW)
def test_axes_are_labelled(name, case):
    import matplotlib.pyplot as plt

    DRAW[name](case)
    drawn = [ax for ax in plt.gcf().axes if ax.has_data() and ax.get_label() != "<colorbar>"]
    assert drawn
    for ax in drawn:
        assert labels_of(ax, "x") and labels_of(ax, "y")


def test_a_dollar_sign_in_a_name_is_no_formula(case):
    y, predictive, sizes = case
    figure = plots.prediction(y, predictive, sizes, label=r"income, $\frac$")
    figure.canvas.draw()
    assert figure.axes[0].get_ylabel() == r"predicted income, $\frac$"
    assert matplotlib.rcParams["text.parse_math"]
