"""Whether counts scatter more than Poisson numbers: a test that a Poisson fit makes of itself.

The same model with negative binomial counts contains the Poisson one, at dispersion 0. Both are
fitted by evidence, the density of the labels with the weights integrated out, so that a function
that follows every label is no excuse: its flexibility costs evidence too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.types import Array

# Log evidence that the dispersion must gain. Twice the gain is, of Poisson counts, 0 or chi-square
# of one degree of freedom with equal probability: it is above 2 in 2% of such fits.
LARGE_GAIN = 2.0
_FINDING = "the counts scatter more about the fitted rates than Poisson numbers"


@dataclass(frozen=True)
class Overdispersion:
    """How much better the counts agree with a negative binomial than with a Poisson likelihood."""

    dispersion: float  # of highest evidence: the variance is lambda + dispersion^2 lambda^2
    # log evidence of the negative binomial less that of the Poisson, both at best scales
    gain: float

    @property
    def is_clear(self) -> bool:
        """Whether Poisson counts would hardly ever give such a gain."""
        return self.gain > LARGE_GAIN

    @property
    def text(self) -> str:
        """A sentence for a report."""
        found = f"evidence of the negative binomial over the Poisson: e^{self.gain:.3g}"
        if not self.is_clear:
            return f"no sign that {_FINDING} ({found})."
        return (
            f"{_FINDING} ({found}, dispersion "
            f"{self.dispersion:.2g}), so intervals are too narrow: use "
            'likelihood="negative binomial".'
        )


def likelihood_text(
    name: str,
    link: str,
    scales: Mapping[str, Array],
    found: Overdispersion | None = None,
    *,
    fixed: bool,
) -> str:
    """A likelihood in words, with draws of its scales, shape (S,), and what a Poisson fit found.

    Scales that are `fixed` at their marginal modes have no intervals.
    """
    text = f"{name}, link {link}"
    for scale, draws in scales.items():
        low, high = np.quantile(draws, [0.025, 0.975])
        how = "fixed at its marginal mode" if fixed else f"95% interval {low:.2g} to {high:.2g}"
        text += f"; {scale} {draws.mean():.2g} ({how})"
    return text if found is None else f"{text}; {found.text}"


def overdispersion(
    negative_binomial: LatentGaussianModel,
    poisson: LatentGaussianModel,
    log_evidence: float | None,
    rho: float,
) -> Overdispersion:
    """Compare two models of the same bags that differ in the likelihood alone.

    `log_evidence` is that of the Poisson model at its most probable scales, if a fit has found it;
    the searches for the scales begin at `rho`.
    """
    start = {"rho": rho}
    if log_evidence is None:
        log_evidence = most_probable_scales(poisson, start=start)[1].log_evidence
    scales, mode, _ = most_probable_scales(negative_binomial, start=start)
    gain = max(float(mode.log_evidence - log_evidence), 0.0)
    return Overdispersion(float(scales["dispersion"]), gain)
