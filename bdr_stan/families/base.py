"""Base of the families: link, density on the scale of the linear predictor, likelihood."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, logit

from bdr_stan.aggregate.likelihoods import LabelDistribution, Likelihood
from bdr_stan.labels import Labels
from bdr_stan.types import Array

_LINKS = {"log": np.log, "logit": logit, "identity": np.asarray}
_INVERSE_LINKS = {"log": np.exp, "logit": expit, "identity": np.asarray}
_LEAST_SPREAD = 0.1  # on a log or logit scale, for priors if labels hardly differ


class Terms(NamedTuple):
    """Log densities of labels and their derivatives in the linear predictor h, arrays."""

    value: Array  # with all constants
    slope: Array  # first derivative
    curvature: Array  # minus the second derivative


class Family(LabelDistribution):
    """Base of the families; one object each, in `bdr_stan.families.FAMILIES`.

    A label has the mean, of counts with trials the probability, link^-1(h).
    """

    link: ClassVar[str]  # "log", "logit" or "identity"
    of_totals: ClassVar[Likelihood | None] = None  # the same distribution, of totals of bags
    program_number: ClassVar[int]  # in ``stan/fast/functions/family.stanfunctions``
    # Labels that are not counts lie strictly between.
    bounds: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    needs: ClassVar[str] = ""  # its labels, and what to choose for other labels
    wider: ClassVar[str | None] = None  # the family that contains it, for overdispersed counts
    # Whether its distribution is one of components: see `without_mixing`.
    is_mixture: ClassVar[bool] = False

    @property
    def likelihood(self) -> Any:
        """What has its labels, its scales with their priors, and its distribution from SciPy."""
        return self.of_totals or self

    @property
    def takes(self) -> tuple[str, ...]:
        """Arguments that go with its labels: trials or exposure, and offset."""
        if self.likelihood.has_trials:
            return ("trials", "offset")
        return ("exposure", "offset") if self.link == "log" else ("offset",)

    def mean(self, h: Array) -> Array:
        """Mean of labels, of counts with trials their probability, at linear predictors h."""
        return _INVERSE_LINKS[self.link](h)

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        """Log densities at linear predictors, and derivatives; all arguments broadcast.

        `parameters` are its scales and, of counts out of some number, `trials`.
        """
        raise NotImplementedError

    def supports(self, labels: Labels) -> Array:
        """Whether each number is a label that the family can have."""
        y, most = labels.y, np.inf if labels.trials is None else labels.trials
        if not self.likelihood.is_count:
            return (self.bounds[0] < y) & (y < self.bounds[1])
        return (y >= 0) & (y == np.floor(y)) & (y <= most)

    def best_predictor(self, y: Array, **parameters: Any) -> Array:
        """The linear predictor that makes each label most probable, perhaps infinite."""
        with np.errstate(divide="ignore"):
            return _LINKS[self.link](y / parameters.get("trials", 1.0))

    def without_mixing(
        self, h: Array, scales: dict[str, Array]
    ) -> tuple[Array, Any, dict[str, Array]]:
        """Means, (S, n), likelihood and scales, (S,); of a mixture draws of its components."""
        return self.mean(h), self.likelihood, scales

    def level_and_spread(self, labels: Labels, offsets: Array) -> tuple[float, float]:
        """Linear predictor of the average label, and sd between bags, both without offsets."""
        y, link = labels.y, _LINKS[self.link]
        half = 0.5 * self.likelihood.is_count  # so that no logarithm is infinite
        total, more = (np.ones(len(y)), 0.0) if labels.trials is None else (labels.trials, 1.0)
        predictors = link((y + half) / (total + more)) - offsets
        if self.link == "log":  # labels add up in proportion to their exposures
            total, offsets = np.exp(offsets), np.zeros(1)
        level = link((y.sum() + half) / (total.sum() + more)) - offsets.mean()
        least = 0.0 if self.link == "identity" else _LEAST_SPREAD
        return float(level), max(float(np.std(predictors)), least)

    def default_priors(self, y: Array, spread: float) -> dict[str, float]:
        """Numbers of the priors of its scales, for labels, and linear predictors of this spread."""
        return {f"{name}_scale": s.prior_scale for name, s in self.likelihood.scales.items()}
