"""No picture needs a screen, and none is left open; labels with calibrated predictions."""

import numpy as np
import pytest
from scipy import stats


@pytest.fixture(autouse=True)
def without_screen():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


class Normal:
    """Normal predictive distributions, one a bag."""

    def __init__(self, mean, sd):
        self.mean, self.sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)

    def interval(self, level):
        return stats.norm(self.mean, self.sd).interval(level)

    def cdf(self, y):
        return stats.norm(self.mean, self.sd).cdf(y)

    def log_prob(self, y):
        return stats.norm(self.mean, self.sd).logpdf(y)


@pytest.fixture
def normal():
    """Normal predictive distributions, one a bag, from their means and sds."""
    return Normal


@pytest.fixture
def case(rng):
    """Labels, calibrated predictions and sizes; 200 bags of 2 and 300 bags of 50 points."""
    sizes = np.repeat([2, 50], [200, 300])
    sd = np.where(sizes == 2, 2.0, 0.5)
    mean = rng.uniform(0, 10, 500)
    return rng.normal(mean, sd), Normal(mean, sd), sizes
