"""Whether labels suit the likelihood of their fit: scatter of counts, shape of other labels.

Fits of Poisson and binomial counts are compared, by evidence, with the same model of negative
binomial or beta-binomial counts, which contains the narrow one at dispersion 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import logit

from bdr_stan.aggregate.likelihoods import NEGATIVE_BINOMIAL, Binomial, LabelDensity, Likelihood
from bdr_stan.aggregate.likelihoods.base import Scale
from bdr_stan.families import FAMILIES
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.types import Array

# Log evidence that the dispersion must gain. Twice the gain is, of counts without it, 0 or
# chi-square of one degree of freedom with equal probability: it is above 3 in 0.7% of such fits.
LARGE_GAIN = 3.0
_HEAP_SHARE = 0.1  # share of equal labels
_NEAR_BOUND_SHARE = 0.1  # share of labels within two standard deviations of the errors of a bound
_MIN_LABELS = 5  # labels that count as a share
_NAMES = {"poisson": ("Poisson", "negative binomial"), "binomial": ("binomial", "beta-binomial")}


@dataclass(frozen=True)
class Overdispersion:
    """Gain in agreement with the counts from a wider likelihood than the fit's."""

    dispersion: float  # of highest evidence
    gain: float  # in log evidence, both at best scales
    narrow: str = "poisson"
    remedy: str = 'likelihood="negative_binomial"'

    @property
    def is_clear(self) -> bool:
        """Whether counts of the narrow likelihood would hardly ever produce this gain."""
        return self.gain > LARGE_GAIN

    @property
    def text(self) -> str:
        """A sentence for a report."""
        narrow, wide = _NAMES[self.narrow]
        finding = f"the counts scatter more about the fitted rates than {narrow} numbers"
        evidence = f"evidence of the {wide} over the {narrow}: e^{self.gain:.3g}"
        if not self.is_clear:
            return f"no sign that {finding} ({evidence})."
        return (
            f"{finding} ({evidence}, dispersion {self.dispersion:.2g}), so effects and intervals "
            f"are unreliable: use {self.remedy}."
        )


class _BetaBinomialTotals(Binomial):
    """Counts with probabilities that vary between bags about the average rate; in no program."""

    scales: ClassVar[Mapping[str, Scale]] = {"dispersion": Scale("of the probabilities")}

    def label_density(self, y: Array, **label_data: Any) -> Callable[[Array], LabelDensity]:
        terms_of = FAMILIES["beta_binomial"].terms
        trials, dispersion = label_data["trials"], label_data["dispersion"]

        def density(mean):
            spread, tilt = mean * (1 - mean), 1 - 2 * mean
            terms = terms_of(y, logit(mean), trials=trials, dispersion=dispersion)
            inflation = 1 + (trials - 1) / (1 + dispersion**-2.0)  # of the binomial variance
            information = trials / (inflation * spread)
            return LabelDensity(
                terms.value.sum(),
                terms.slope / spread,
                information,
                (terms.curvature + terms.slope * tilt) / spread**2,
                -information * tilt / spread,
            )

        return density


# Likelihoods of totals that contain narrow ones.
WIDER_TOTALS: dict[str, Likelihood] = {
    "poisson": NEGATIVE_BINOMIAL,
    "binomial": _BetaBinomialTotals(),
}


def likelihood_text(
    name: str,
    link: str,
    scales: Mapping[str, Array],
    comparison: Overdispersion | None = None,
    *,
    fixed: bool,
) -> str:
    """A likelihood in words, with draws of its scales, (S,), and a narrow fit's overdispersion.

    Scales that are `fixed` at their marginal modes have no intervals.
    """
    text = f"{name}, link {link}"
    for scale, draws in scales.items():
        low, high = np.quantile(draws, [0.025, 0.975])
        how = "fixed at its marginal mode" if fixed else f"95% interval {low:.2g} to {high:.2g}"
        text += f"; {scale} {draws.mean():.2g} ({how})"
    return text if comparison is None else f"{text}; {comparison.text}"


def overdispersion(
    wide_model: LatentGaussianModel,
    narrow_model: Callable[[], LatentGaussianModel],
    log_evidence: float | None = None,
    start: Mapping[str, float] | None = None,
    **words: str,
) -> Overdispersion:
    """Compare two models of the same bags that differ only in the likelihood.

    `log_evidence` is the narrow model's, if known; searches begin at `start`.
    """
    if log_evidence is None:
        log_evidence = most_probable_scales(narrow_model(), start=start)[1].log_evidence
    scales, mode, _ = most_probable_scales(wide_model, start=start)
    gain = max(float(mode.log_evidence - log_evidence), 0.0)
    return Overdispersion(float(scales["dispersion"]), gain, **words)


def label_advice(y: Array, sigma: float) -> list[str]:
    """A line on misfit of labels (n,) to normal errors of sd sigma; none without misfit."""
    values, counts = np.unique(y, return_counts=True)
    most = counts.max()
    if _MIN_LABELS <= most < len(y) and most >= _HEAP_SHARE * len(y):
        finding = f"{most / len(y):.0%} of the labels are {values[counts.argmax()]:g}"
    else:
        bounds = [0.0, 1.0] if y.min() >= 0 and y.max() <= 1 else [0.0] if y.min() >= 0 else []
        shares = [np.mean(np.abs(y - bound) < 2 * sigma) for bound in bounds]
        if not shares or max(shares) < max(_NEAR_BOUND_SHARE, _MIN_LABELS / len(y)):
            return []
        finding = (
            f"{max(shares):.0%} of the labels are within two residual sd of the bound "
            f"{bounds[int(np.argmax(shares))]:g} and none is beyond it"
        )
    return [
        f"Labels: {finding}: normal errors may be a poor model. Compare with InverseBDR() and "
        f"Stacked().{_families(y)}"
    ]


def _families(y):
    """A sentence on suitable families for the labels."""
    if y.min() < 0:
        return ""
    if np.all(y == np.floor(y)):
        if y.max() == 1:
            return " Two classes, 0 and 1, are predicted by BDRClassifier()."
        return (
            " Counts have families of their own: BDR(family='negative_binomial') or, out of known "
            "numbers of trials, 'beta_binomial'."
        )
    if y.min() > 0 and y.max() < 1:
        return " Shares have a family of their own: BDR(family='beta')."
    return " Labels > 0 have families of their own: BDR(family='gamma')." if y.min() > 0 else ""
