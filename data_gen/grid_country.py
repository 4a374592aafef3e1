"""A small square country whose counts follow a linear model, or one with a bump.

    32,400 pixels of 1 km in 130 districts; four covariates, smooth fields of sd 1
    linear:  log rate = 0.6 z1 - 0.4 z2 + 0.3 z3 + field
    bump:    log rate = 1.6 exp(-(z1 - 0.5)^2 / 0.32) - 0.4 z2 + 0.3 z3 + field
    cases of district a ~ Poisson(sum over its pixels of population x rate)

The field is Matern 3/2 with a length of 20 km and sd 0.4; z4 has no effect. For linear effects a
linear model with a field is the best model; with a bump other models must be better.
"""

from dataclasses import dataclass

import numpy as np
from scipy import fft
from scipy.spatial import cKDTree

from bdr_stan.bags import Bags

TRUTHS = {
    "linear": lambda z: 0.6 * z[:, 0] - 0.4 * z[:, 1] + 0.3 * z[:, 2],
    "bump": lambda z: 1.6 * np.exp(-((z[:, 0] - 0.5) ** 2) / 0.32) - 0.4 * z[:, 1] + 0.3 * z[:, 2],
}
COVARIATES = ("z1", "z2", "z3", "z4")
FEATURES = (*COVARIATES, "x", "y")
SIDE, N_DISTRICTS, N_TRAIN = 180, 130, 100
FIELD_SD, FIELD_KM = 0.4, 20.0
_LENGTHS = (25, 40, 15, 30)  # of the covariates, in km
_CASES_PER_DISTRICT = 200
_LOG_PEOPLE_SD = 0.8


@dataclass(frozen=True)
class GridCountry:
    """Districts as bags, with the truth.

    Attributes
    ----------
    bags : Bags, columns `FEATURES`, weights are populations; in random order
    y : integers, shape (n,), cases of each district
    rate : array, shape (N,), expected cases per person at each pixel
    """

    bags: Bags
    y: np.ndarray
    rate: np.ndarray

    def part(self, name):
        """The "train" districts, the first 100, or the "test" districts, the others."""
        cut = round(len(self.bags) * N_TRAIN / N_DISTRICTS)
        chosen = {"train": slice(0, cut), "test": slice(cut, len(self.bags))}[name]
        pixels = slice(*self.bags.offsets[[chosen.start, chosen.stop]])
        return GridCountry(self.bags[chosen], self.y[chosen], self.rate[pixels])


def grid_country(truth="linear", *, seed=1, side=SIDE, n_districts=N_DISTRICTS):
    """A country of side x side pixels.

    Parameters
    ----------
    truth : "linear" or "bump"
    seed : int, >= 0
    side, n_districts : int

    Returns
    -------
    GridCountry

    Raises
    ------
    ValueError : there is no such truth.
    """
    if truth not in TRUTHS:
        raise ValueError(f"unknown truth {truth!r}: choose from {', '.join(TRUTHS)}")
    rng = np.random.default_rng(seed)
    z = np.column_stack([_field(rng, side, length) for length in _LENGTHS])
    place = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) + 0.5
    people = np.exp(_LOG_PEOPLE_SD * _field(rng, side, 10))
    log_rate = TRUTHS[truth](z) + FIELD_SD * _field(rng, side, FIELD_KM)
    centres = rng.uniform(0, side, (n_districts, 2))
    district = cKDTree(centres).query(place)[1]
    order = np.argsort(district, kind="stable")
    sizes = np.bincount(district, minlength=n_districts)
    rate = np.exp(log_rate)
    rate *= _CASES_PER_DISTRICT * n_districts / (people @ rate)
    points = np.column_stack([z, place])[order]
    bags = Bags.from_points(
        points, sizes=sizes[sizes > 0], weights=people[order], features=FEATURES
    )
    rate = rate[order]
    return GridCountry(bags, rng.poisson(bags.sums(bags.weights * rate)), rate)


def _field(rng, side, length):
    """Matern 3/2 field at the pixels, shape (side^2,), mean 0 and sd 1."""
    n = fft.next_fast_len(2 * side)  # a field of period 2 * side: opposite sides are independent
    down, across = fft.fftfreq(n), fft.rfftfreq(n)
    wave = (2 * np.pi) ** 2 * (down[:, None] ** 2 + across**2)
    noise = fft.rfft2(rng.standard_normal((n, n)))
    values = fft.irfft2(noise * (3 / length**2 + wave) ** -1.25, s=(n, n))[:side, :side].ravel()
    return (values - values.mean()) / values.std()
