"""Density of a label with a normal linear predictor, using quadrature.

    p(y | m, v) = integral of p(y | h) N(h; m, v) dh

Trapezoidal sums of analytic functions that vanish at both ends converge geometrically: doubling the
nodes squares the error. Each label has its own interval, from the mode of the integrand to where it
is below exp(-30) of it. The number of nodes depends on the difference to the sum over every other
node. This is as accurate for a million trials (a likelihood much narrower than N(m, v)) as for a
single trial (a step on a wide normal).
"""

from typing import Any, NamedTuple

import numpy as np

from bdr_stan.families.base import Family
from bdr_stan.labels import Labels
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array

# Drop of the log density from the mode of the integrand to its ends.
_LOG_RANGE = 30.0
# The sums over all and over every other node differ by less, on the log scale, and so do the means
# of the integrand, in standard deviations of the predictor: the error of the first sum is about its
# square. Without the means, sums may agree by chance.
_HALF_GRID_TOLERANCE = 3e-5
_FEWEST_NODES = 25
_MOST_NODES = 12_289
_NEWTON_STEPS = 60
_STEP_TOLERANCE = 0.05  # of the search for the mode, in its standard deviations
_WIDENING, _MOST_WIDENINGS = 1.5, 100
_LABELS_AT_ONCE = 4096  # in a thread; its arrays of a number per node then fit in caches


class Integrated(NamedTuple):
    """log p(y | m, v) of n labels, its derivatives in m, and moments for those in v; shape (n,).

    As the normal density solves the heat equation, d p / dv = (d^2 p / dm^2) / 2.
    """

    value: Array
    slope: Array  # first derivative in m
    curvature: Array  # minus the second
    third: Array  # further derivatives
    fourth: Array

    @property
    def by_variance(self) -> Array:
        """First derivative in v."""
        return 0.5 * (self.slope**2 - self.curvature)

    @property
    def by_both(self) -> Array:
        """Second derivative, in m and v."""
        return 0.5 * self.third - self.slope * self.curvature

    @property
    def by_variance_twice(self) -> Array:
        """Second derivative in v."""
        of_second = 0.5 * self.fourth + self.curvature**2 + self.slope * self.third
        return 0.5 * of_second + self.slope * self.by_both


def label_densities(
    family: Family, labels: Labels, mean: Array, variance: Array, **scales: float | Array
) -> Integrated:
    """Log densities of labels with linear predictors N(mean, variance), and derivatives.

    Means, variances and those scales that are arrays have the shape (n,), as labels and trials. If
    a variance is 0 the predictor is the mean.
    """
    arrays: dict[str, Any] = {"y": labels.y, **labels.parameters}
    arrays |= {name: value for name, value in scales.items() if np.ndim(value)}
    numbers: dict[str, Any] = {name: value for name, value in scales.items() if not np.ndim(value)}

    def terms(i, h):  # of the labels i, shape (m,), at linear predictors, (m,) or (m, K)
        columns = {n: v[i].reshape(-1, *[1] * (h.ndim - 1)) for n, v in arrays.items()}
        return family.terms(h=h, **columns, **numbers)

    # The predictors that make labels most probable, and bounds of the slopes of log densities that
    # are not concave.
    towards = family.best_predictor(**arrays, **numbers)
    steepest = arrays.get("trials", np.zeros(len(mean)))
    every, error_state = np.arange(len(mean)), np.geterr()

    def integrated(part):
        with np.errstate(**error_state):  # of the calling thread
            return _integrated(terms, part, *(v[part] for v in (mean, variance, towards, steepest)))

    starts = range(0, max(len(mean), 1), _LABELS_AT_ONCE)
    parts = [every[start : start + _LABELS_AT_ONCE] for start in starts]
    return Integrated(*np.hstack(list(map_in_threads(integrated, parts))))


def _integrated(terms, part, mean, variance, towards, steepest):
    """Log densities and derivatives of the labels `part`, indices of shape (m,), shape (5, m)."""
    results = np.empty((5, len(part)))

    def of_part(i, h):
        return terms(part[i], h)

    exact = np.flatnonzero(variance == 0)
    if len(exact):
        results[:3, exact], results[3:, exact] = of_part(exact, mean[exact]), 0
    going = np.flatnonzero(variance > 0)
    low, high = np.empty((2, len(part)))
    low[going], high[going] = _interval(
        of_part, going, mean[going], variance[going], towards[going], steepest[going]
    )
    n_nodes = _FEWEST_NODES
    while len(going):
        results[:, going], difference = _sums(
            of_part, going, mean[going], variance[going], low[going], high[going], n_nodes
        )
        n_nodes = 2 * n_nodes - 1
        if n_nodes > _MOST_NODES:
            break
        going = going[~(difference < _HALF_GRID_TOLERANCE)]
    return results


def _interval(terms, i, m, v, towards, steepest):
    """Ends, shape (m,) each, beyond which the integrands of labels i are negligible."""

    def log_integrand(x, part):
        density = terms(i[part], x)
        value = density.value - 0.5 * (x - m[part]) ** 2 / v[part]
        return value, density.slope - (x - m[part]) / v[part], density.curvature

    mode, sd = _mode(log_integrand, m, v, towards, steepest)
    every = np.arange(len(i))
    highest, ends = log_integrand(mode, every)[0], []
    for side in (-1.0, 1.0):
        width, going = np.sqrt(2 * _LOG_RANGE) * sd, every
        for _ in range(_MOST_WIDENINGS):
            if not len(going):
                break
            value = log_integrand(mode[going] + side * width[going], going)[0]
            going = going[value >= highest[going] - _LOG_RANGE]  # nan: too far, ends here
            width[going] *= _WIDENING
        ends.append(mode + side * width)
    return ends


def _mode(log_integrand, m, v, towards, steepest):
    """Mode and standard deviation there, from Newton's method kept inside a bracket; (m,) each."""
    every = np.arange(len(m))
    _, slope, _ = log_integrand(m, every)
    # The mode lies between m and the most probable predictor, and within v times the steepest
    # slope of the log likelihood from m: if that is concave, the slope at m itself.
    side = np.sign(np.where(np.isnan(towards), slope, towards))
    reach = m + v * side * np.maximum(np.abs(slope), steepest)
    bound = np.where(np.isfinite(towards), towards, reach)
    low, high, x = np.minimum(m, bound), np.maximum(m, bound), m.copy()
    sd, going = np.sqrt(v), every
    for step in range(_NEWTON_STEPS):
        _, slope, curvature = log_integrand(x[going], going)
        sd[going] = (np.maximum(curvature, 0) + 1 / v[going]) ** -0.5
        low[going] = np.where(slope > 0, x[going], low[going])
        high[going] = np.where(slope < 0, x[going], high[going])
        move = sd[going] ** 2 * slope
        new = x[going] + move
        outside = ~((new > low[going]) & (new < high[going])) | (step % 8 == 7)
        new = np.where(outside, (low[going] + high[going]) / 2, new)
        done = np.abs(move) < _STEP_TOLERANCE * sd[going]
        x[going] = np.where(done, x[going], new)
        going = going[~done]
        if not len(going):
            break
    return x, sd


def _sums(terms, i, m, v, low, high, n_nodes):
    """Log integral and derivatives, (5, m), and how those over every other node differ, (m,)."""
    share = np.linspace(0, 1, n_nodes)
    spacing = (high - low) / (n_nodes - 1)
    h = low[:, None] + (high - low)[:, None] * share
    density = terms(i, h)
    u = (h - m[:, None]) / np.sqrt(v)[:, None]
    log_integrand = density.value - 0.5 * u**2
    highest = log_integrand.max(axis=1)
    weight = np.exp(log_integrand - highest[:, None])
    total = weight.sum(axis=1)
    constant = highest + np.log(spacing / np.sqrt(2 * np.pi * v))
    coarse = weight[:, ::2]
    of_coarse = coarse.sum(axis=1)
    centre_of_coarse = np.sum(coarse * u[:, ::2], axis=1) / of_coarse
    weight /= total[:, None]

    def average(values):  # if a density is 0, its slope may be infinite
        return np.sum(weight * np.where(weight > 0, values, 0), axis=1)

    # Both forms of the first two are exact. With a small variance moments of u would be differences
    # of numbers that are nearly equal; with a large one slopes of the likelihood would.
    centre = average(u)
    log_ratio, shift = np.log(2 * of_coarse / total), centre - centre_of_coarse
    difference = np.maximum(np.abs(log_ratio), np.abs(shift))
    centred = u - centre[:, None]
    squares = centred * centred  # products, as powers of arrays are slow
    second, third, fourth = average(squares), average(squares * centred), average(squares**2)
    slope, curvature = average(density.slope), average(density.curvature)
    wide = v * curvature > 1
    curvature = curvature - average((density.slope - slope[:, None]) ** 2)
    slope = np.where(wide, centre / np.sqrt(v), slope)
    curvature = np.where(wide, (1 - second) / v, curvature)
    return np.array(
        [
            np.log(total) + constant,
            slope,
            curvature,
            third / v**1.5,
            (fourth - 3 * second**2) / v**2,
        ]
    ), difference
