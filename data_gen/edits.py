"""Labels from models that the stock Stan programs lack, and that `examples/edits` fits.

Points of a bag are normal about its centre, and labels depend on the distribution of its points.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bdr_stan import Bags

LANDMARKS = np.array([(a, b) for a in (-1.5, -0.5, 0.5, 1.5) for b in (-1.5, -0.5, 0.5, 1.5)])
BANDWIDTH = 0.6
WITHIN = 0.3  # sd of points about the centre of a bag, in `sparse_weights`
WEIGHTS = np.zeros(16)
WEIGHTS[[5, 10]] = 3.0, -2.0
GROUPS = ("rural", "urban")
TOP = 2.0
SOURCES, NOISE_OF_SOURCES = ("register", "clinic", "survey"), np.array([0.2, 0.6, 2.0])


@dataclass(frozen=True)
class Simulated:
    """Bags, their labels, true parameters, and the parts in which coverage is measured."""

    bags: Bags
    y: Any  # shape (n,)
    parts: Any = None  # name of the part of each bag, shape (n,)
    rates: Any = None  # at each point of the bags, of totals
    truth: dict[str, Any] = field(default_factory=dict)


def heavy_tails(rng, n):
    """Student-t noise with 1.5 degrees of freedom."""
    bags, f = _bags(rng, rng.normal(size=n))
    y = f + 0.5 * rng.standard_t(1.5, n)
    return Simulated(bags, y, truth={"df": 1.5, "sigma": 0.5})


def noise_of_two_groups(rng, n):
    """Noise with a standard deviation of 0.2 in rural bags, and of 0.8 in three of ten."""
    urban = (rng.random(n) < 0.3).astype(int)
    bags, f = _bags(rng, rng.normal(size=n), urban=urban)
    y = f + np.where(urban, 0.8, 0.2) * rng.normal(size=n)
    truth = {"sigma": 0.2, "effect": np.log(4)}
    return Simulated(bags, y, np.take(GROUPS, urban), truth=truth)


def sparse_weights(rng, n):
    """Two of 16 landmarks, `LANDMARKS`, have a weight; the kernel is an RBF of `BANDWIDTH`."""
    centres = rng.uniform(-2, 2, (n, 2))
    points = _points(rng, centres, WITHIN)
    # The kernel averaged over normal points is one of a larger bandwidth.
    wide = BANDWIDTH**2 + WITHIN**2
    squared = np.sum((centres[:, None] - LANDMARKS) ** 2, axis=-1)
    embedding = BANDWIDTH**2 / wide * np.exp(-squared / (2 * wide))
    y = embedding @ WEIGHTS + 0.2 * rng.normal(size=n)
    return Simulated(Bags.from_list(points), y, truth={"beta": WEIGHTS, "sigma": 0.2})


def saturation(rng, n, dose=2.0):
    """Labels level off at 2: the linear predictor is half the sum of four doses of a bag."""
    centres = rng.uniform(0, dose, (n, 4))
    points = _points(rng, centres, 1.0)
    h = centres.sum(axis=1) / 2
    y = TOP * np.tanh(h / TOP) + 0.1 * rng.standard_t(10, n)
    parts = np.where(h < 3, "predictor below 3", "predictor above 3")
    return Simulated(Bags.from_list(points), y, parts, truth={"top": TOP})


def weights_of_two_groups(rng, n):
    """The function of urban bags, a quarter, is 0.3 times that of rural ones."""
    urban = (rng.random(n) < 0.25).astype(int)
    bags, f = _bags(rng, rng.normal(size=n), group=1 + urban)
    y = np.where(urban, 0.3, 1.0) * f + 0.2 * rng.normal(size=n)
    return Simulated(bags, y, np.take(GROUPS, urban), truth={"sigma": 0.2})


def extra_zeros(rng, n):
    """Poisson counts, of which a quarter are replaced by 0, in bags of 50 to 199 points."""
    bags, f = _bags(rng, rng.normal(size=n), sizes=(50, 200))
    y = np.where(rng.random(n) < 0.25, 0, rng.poisson(np.exp(3 + 0.5 * f)))
    return Simulated(bags, y, truth={"zero": 0.25})


def unreported_cases(rng, n):
    """Cases of districts of ten places, of which some 60% are reported, and audits of 20 cases.

    A report has a probability that differs between districts, a sd of 0.7 on the logit scale.
    """
    points = _points(rng, rng.uniform(-2, 2, (n, 2)), 0.5, (10, 11))
    rates = [np.exp(-1 + np.sin(x[:, 0]) - 0.5 * x[:, 1]) for x in points]
    people = [rng.gamma(5, 20, len(x)) for x in points]
    reporting = 1 / (1 + np.exp(-0.4 - 0.7 * rng.normal(size=n)))
    cases = np.array([w @ rate for w, rate in zip(people, rates)])
    audited = np.full(n, 20)
    audits = pd.DataFrame({"audited": audited, "found": rng.binomial(audited, reporting)})
    bags = Bags.from_list(points, weights=people, metadata=audits)
    y = rng.poisson(reporting * cases)
    truth = {"mu": 0.4, "spread": 0.7}
    return Simulated(bags, y, np.full(n, "counts"), np.concatenate(rates), truth)


def totals_of_three_sources(rng, n):
    """Normal totals of districts of five places, from registers, clinics and surveys.

    A person's number has a standard deviation of 0.2, 0.6 and 2 about the rate, by source.
    """
    source = rng.choice(3, n, p=[0.3, 0.4, 0.3])
    points = _points(rng, rng.uniform(-2, 2, (n, 2)), 0.5, (5, 6))
    rates = [3 + np.sin(x[:, 0]) - 0.5 * x[:, 1] for x in points]
    people = [rng.gamma(5, 20, len(x)) for x in points]
    noise = NOISE_OF_SOURCES[source] * np.array([np.sqrt(w @ w) for w in people])
    y = [w @ rate for w, rate in zip(people, rates)] + noise * rng.normal(size=n)
    bags = Bags.from_list(points, weights=people, metadata=pd.DataFrame({"group": 1 + source}))
    truth = {"noise": NOISE_OF_SOURCES}
    return Simulated(bags, y, np.take(SOURCES, source), np.concatenate(rates), truth)


def _bags(rng, centres, *, sizes=(10, 60), **metadata):
    """Bags of points that are normal about the centres, and a linear functional of each."""
    points = _points(rng, centres[:, None], 1.0, sizes)
    table = pd.DataFrame(metadata) if metadata else None
    # The mean of x + 0.1 (x^2 - 1).
    return Bags.from_list(points, metadata=table), centres + 0.1 * centres**2


def _points(rng, centres, sd, sizes=(10, 60)):
    """Normal points about each centre, (n, p), in numbers from the first to below the second."""
    numbers = rng.integers(*sizes, len(centres))
    return [c + sd * rng.normal(size=(m, len(c))) for c, m in zip(centres, numbers)]
