"""How strong an omitted cause must be to change a contrast (omitted variable bias).

docs/validation/omitted_causes.md has the derivation. With b the coefficients of a regression
y ~ N(X b, W^-1) and theta = Dbar' b, leaving out a cause changes theta by

    bias^2 = c_y c_d / (1 - c_d) |y - X b|^2 Dbar' M^-1 Dbar,    M = X'WX + prior precision of b,

where Dbar' M^-1 Dbar is the posterior variance of theta, and |y - X b|^2 the number of bags at the
scales of highest evidence, minus one for each coefficient with a fixed, wide prior. The draws of
theta and the number of bags are therefore enough, after subtracting the variation with the draws of
the scales: M is for given scales.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bdr_stan.types import Array, DataFrame, is_number

_NULL = 1e-9  # of the largest eigenvalue: levels of a covariate have a direction without variance
# Draws per coefficient for estimating the covariance of a term's coefficients.
_DRAWS_PER_COEFFICIENT = 10


@dataclass(frozen=True)
class Regression:
    """The regression's part in the robustness of a contrast, under the draws of the contrast."""

    n_residual: int  # number of training bags minus coefficients of intercept and covariates
    scales: Array  # draws of sigma, rho and so on, shape (S, m)
    # Draws of the coefficients of covariates and terms by name, shapes (S, k).
    coefficients: Mapping[str, Array] = field(default_factory=dict)


def robustness_value(squared_ratio: float) -> float:
    """The c with c^2 / (1 - c) = q, q = theta^2 / (|y - X b|^2 Dbar' M^-1 Dbar)."""
    q = squared_ratio
    # (sqrt(q^2 + 4 q) - q) / 2 without the cancellation for large q.
    return float(2 * q / (np.sqrt(q**2 + 4 * q) + q)) if q > 0 else 0.0


@dataclass(frozen=True)
class Robustness:
    """How strong an omitted cause must be to change the sign, or the interval, of a contrast.

    An omitted cause of the labels has two strengths, from 0 to 1. c_y is the share of the labels'
    residual variance that it explains. c_d is the relative loss of precision of the contrast from
    adjusting for it; for the coefficient of one column, the explained share of the column's
    residual variance given the other columns (a partial R^2, like c_y).

    Attributes
    ----------
    mean, lower, upper : float, units of y
        Mean of the contrast; lower and upper are the ends of its central interval.
    sd : float, units of y
        Sd of the contrast given sigma, rho and eta; omitted causes do not change their uncertainty.
    level : float
        Level of the interval.
    n_residual : int
        Residual degrees of freedom: training bags minus coefficients of intercept and covariates.
    value : float
        The robustness value: an omitted cause of c_y = c_d = `value` can bring the mean to 0, one
        with smaller c_y and c_d cannot.
    interval_value : float
        The same for the interval to reach 0; 0 if it already contains 0.
    strengths : dict
        Name of each covariate and term -> (c_y, c_d) of an omitted cause that explains as much of
        labels and contrast as this one.

    Notes
    -----
    An omitted cause of these strengths changes the contrast by at most

        bias = sqrt(c_y c_d / (1 - c_d) n_residual) sd,

    and the robustness value is the c = c_y = c_d with a bias equal to the absolute mean. In least
    squares this is the bound of Cinelli and Hazlett (2020, "Making sense of sensitivity") and of
    Chernozhukov et al. (2022, "Long story short: omitted variable bias in causal machine
    learning"); here the prior of the coefficients acts like further bags.

    Examples
    --------
    >>> from bdr_stan import BLR
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(40, seed=1)
    >>> darker = [bags.points[a:b] / 2 for a, b in zip(bags.offsets, bags.offsets[1:])]
    >>> model = BLR(5, method="exact").fit(bags, y, seed=1)
    >>> robust = model.contrast(bags, darker).robustness()
    >>> 0 < robust.interval_value < robust.value < 1
    True
    """

    mean: float
    sd: float
    lower: float
    upper: float
    level: float
    n_residual: int
    strengths: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of_draws(
        cls, theta: Array, regression: Regression, ends: tuple[float, float], level: float
    ) -> "Robustness":
        """From draws `theta`, (S,), a `regression`, and an interval's `ends` and `level`."""
        n = regression.n_residual
        theta_given_scales = _given_scales(regression.scales, theta)
        strengths = {
            name: _strengths(theta_given_scales, _given_scales(regression.scales, gamma), n)
            for name, gamma in regression.coefficients.items()
            if len(gamma) >= _DRAWS_PER_COEFFICIENT * gamma.shape[1]
        }
        mean, sd = float(np.mean(theta)), float(np.std(theta_given_scales))
        return cls(mean, sd, float(ends[0]), float(ends[1]), level, n, strengths)

    @property
    def value(self) -> float:
        """c_y = c_d for which an omitted cause can bring the mean to 0."""
        return robustness_value((self.mean / self.sd) ** 2 / self.n_residual)

    @property
    def interval_value(self) -> float:
        """c_y = c_d for which an omitted cause can bring the interval to 0."""
        if self.lower <= 0 <= self.upper:
            return 0.0
        nearest = min(abs(self.lower), abs(self.upper))
        return robustness_value((nearest / self.sd) ** 2 / self.n_residual)

    def bias(self, c_y: float, c_d: float) -> float:
        """Largest change of the mean by adjusting for an omitted cause, either way; units of y.

        Parameters
        ----------
        c_y : float, 0 <= c_y <= 1
            Share of the labels' residual variance that the cause explains.
        c_d : float, 0 <= c_d < 1
            Relative reduction of the precision of the contrast by adjusting for the cause.

        Raises
        ------
        ValueError
            A strength out of its range.
        """
        _check_strengths(c_y, c_d)
        return float(np.sqrt(c_y * c_d / (1 - c_d) * self.n_residual)) * self.sd

    def bounds(self, c_y: float, c_d: float) -> tuple[float, float]:
        """Lowest and highest end of the intervals after adjusting for such an omitted cause.

        Adjusting also multiplies the width of the interval by sqrt((1 - c_y) / (1 - c_d)).

        Parameters
        ----------
        c_y, c_d : as for `Robustness.bias`

        Returns
        -------
        lower, upper : float, units of y
        """
        bias, factor = self.bias(c_y, c_d), np.sqrt((1 - c_y) / (1 - c_d))
        lower = self.mean - bias + factor * (self.lower - self.mean)
        upper = self.mean + bias + factor * (self.upper - self.mean)
        return float(lower), float(upper)

    def benchmarks(self) -> "DataFrame":
        """The contrast after adjusting for an omitted cause as strong as each covariate or term.

        Returns
        -------
        pandas DataFrame indexed by their names
            c_y, c_d; mean: the contrast minus the largest bias towards 0, which may change its
            sign; lower, upper: of `bounds`. Covariates that differ between the versions of the bags
            are part of the contrast and are not listed, nor are terms with more than a tenth as
            many coefficients as draws.

        Notes
        -----
        Strengths measure the change from omitting the covariate itself (Chernozhukov et al. 2022):
        c_y the relative increase of the residual sum of squares, c_d the relative decrease of the
        posterior variance of the contrast. No refit is needed: a model without some coefficients
        has the posterior given that they are 0.
        """
        import pandas as pd

        sign, table = np.sign(self.mean), {}
        for name, (c_y, c_d) in self.strengths.items():
            mean = self.mean - sign * self.bias(c_y, c_d)
            table[name] = [c_y, c_d, mean, *self.bounds(c_y, c_d)]
        columns = ["c_y", "c_d", "mean", "lower", "upper"]
        return pd.DataFrame.from_dict(table, orient="index", columns=columns)

    def __str__(self) -> str:
        mean, lower, upper = map(_rounded, (self.mean, self.lower, self.upper))
        text = (
            f"The contrast is {mean} ({self.level:.0%} interval {lower} to {upper}). To bring it "
            f"to 0, an omitted cause must explain {self.value:.1%} of the residual variance of the "
            "labels and take as large a share of the contrast's precision"
        )
        if self.interval_value == 0:
            return f"{text}; the interval contains 0 without one."
        return f"{text}; {self.interval_value:.1%} is enough to bring its interval to 0."


def _rounded(value):
    """A number with three significant digits, without an exponent."""
    return np.format_float_positional(value, 3, unique=False, fractional=False, trim="-")


def _given_scales(scales, values):
    """Draws, shape (S, ...), minus their linear dependence on the logs of scales, shape (S, m)."""
    logs = np.log(scales) - np.log(scales).mean(axis=0)
    return values - logs @ np.linalg.lstsq(logs, values - values.mean(axis=0), rcond=None)[0]


def _strengths(theta, gamma, n_residual):
    """Gains in the residual variance and in the information about theta, of coefficients gamma."""
    joint = np.atleast_2d(np.cov(np.column_stack([theta, gamma]), rowvar=False))
    inverse = np.linalg.pinv(joint[1:, 1:], rcond=_NULL, hermitian=True)
    mean, cross = gamma.mean(axis=0), joint[0, 1:]
    gain_of_labels = mean @ inverse @ mean / n_residual
    gain_of_contrast = cross @ inverse @ cross / joint[0, 0]
    return float(min(gain_of_labels, 1.0)), float(np.clip(gain_of_contrast, 0, 1 - 1e-9))


def _check_strengths(c_y, c_d):
    """Raise ValueError unless strengths are shares, c_d below 1."""
    for name, value in {"c_y": c_y, "c_d": c_d}.items():
        if not is_number(value) or not 0 <= value <= 1 or (name == "c_d" and value == 1):
            most = "less than 1" if name == "c_d" else "at most 1"
            raise ValueError(f"{name} must be a share from 0 to {most}, found {value!r}")
