"""Ordered categories by the cumulative logit model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logit

from bdr_stan.aggregate.likelihoods import Scale
from bdr_stan.families.base import Family, Terms
from bdr_stan.labels import Labels
from bdr_stan.types import Array

FEWEST_CATEGORIES, MOST_CATEGORIES = 3, 20
# Prior sd of the predictor over the bags, about as for the log odds of two classes.
_SPREAD = 2.5
_LEAST_GAP = 1.0  # scale of the prior of a gap, however close the shares of categories are
# Nodes of `log_probabilities`: their reach and spacing in sds of the predictor, and the spacing on
# its own scale, where the logistic function has poles at +-pi i.
_REACH, _SPACING, _STEP = 6.5, 0.8, 0.7
_WIDEST = 5  # 2^_WIDEST is the largest sd with this accuracy
_LEAST_PROBABILITY = 1e-300  # so logarithms are finite


class Ordinal(Family):
    """y of K ordered categories, P(y <= k) = logit^-1(c_k - h); labels are 0 to K - 1.

    The first threshold is 0, as h has an intercept; the others are sums of the scales gap_2, ...,
    gap_(K - 1): category k lies between c_(k - 1) and c_k = c_(k - 1) + gap_k.
    """

    name = "ordinal"
    link = "logit"
    program_number = 9

    def __init__(self, n_categories: int = FEWEST_CATEGORIES) -> None:
        self.n_categories = n_categories

    @property
    def scales(self) -> Mapping[str, Scale]:  # type: ignore[override]
        """The K - 2 gaps between thresholds."""
        return {
            f"gap_{k}": Scale(
                f"width of category {k} of {self.n_categories}, from threshold to threshold",
                "linear predictor",
            )
            for k in range(2, self.n_categories)
        }

    def terms(self, y: Array, h: Array, **gaps: Any) -> Terms:
        lower, upper, gap = _ends(y, gaps)
        # logit^-1(b) - logit^-1(a) = logit^-1(b) logit^-1(-a) (1 - exp(a - b)), which has all its
        # digits far from the thresholds and in narrow categories.
        value = log_expit(upper - h) + log_expit(h - lower) + np.log(-np.expm1(-gap))
        below, above = expit(lower - h), expit(h - upper)
        return Terms(value, below - above, below * (1 - below) + above * (1 - above))

    def best_predictor(self, y: Array, **gaps: Any) -> Array:
        lower, upper, _ = _ends(y, gaps)
        return (lower + upper) / 2

    def level_and_spread(self, labels: Labels, offsets: Array) -> tuple[float, float]:
        return -float(self._cumulative_logits(labels.y)[0] + offsets.mean()), _SPREAD

    def default_priors(self, y: Array, spread: float) -> dict[str, float]:
        widths = 2 * np.diff(self._cumulative_logits(y))
        gaps = zip(self.scales, np.maximum(widths, _LEAST_GAP), strict=True)
        return {f"{name}_scale": float(width) for name, width in gaps}

    def _cumulative_logits(self, y):
        """Log odds of a label at or below each category but the last, (K - 1,), from the shares."""
        counts = np.bincount(y.astype(int), minlength=self.n_categories) + 0.5
        return logit(np.cumsum(counts)[:-1] / counts.sum())

    def log_probabilities(self, mean: Array, variance: Array, **gaps: Array) -> Array:
        """Log probabilities of all categories at predictors N(mean, variance), shape (S, m, K).

        Means and variances have the shape (S, m), gaps (S,). Trapezoidal sums of all categories at
        once, accurate to 1e-8, are many times faster than `label_densities` of each.
        """
        widths = np.array(list(gaps.values()))
        thresholds = np.cumsum(np.vstack([np.zeros(len(mean)), widths]), axis=0).T
        draw = np.repeat(np.arange(len(mean)), mean.shape[1])
        m, sd = mean.ravel(), np.sqrt(variance.ravel())
        probabilities = np.empty((len(m), self.n_categories))
        doublings = np.clip(np.ceil(np.log2(np.maximum(sd, 1))), 0, _WIDEST)
        for doubling in np.unique(doublings):
            i = np.flatnonzero(doublings == doubling)
            probabilities[i] = _probabilities(m[i], sd[i], thresholds[draw[i]], 2**doubling)
        probabilities = probabilities.reshape(*mean.shape, -1)
        probabilities[..., 1:-1] *= -np.expm1(-widths.T[:, None])
        return np.log(np.maximum(probabilities, _LEAST_PROBABILITY))


def _probabilities(mean, sd, thresholds, widest):
    """Probabilities of categories, (m, K), except for factors 1 - exp(-gap); sds <= widest."""
    reach = _REACH + widest  # tails of the logistic function shift the integrand by sd^2
    n = int(np.ceil(2 * reach / min(_SPACING, _STEP / widest))) + 1
    nodes, spacing = np.linspace(-reach, reach, n, retstep=True)
    weights = spacing * np.exp(-0.5 * nodes**2) / np.sqrt(2 * np.pi)
    total = np.zeros((len(mean), thresholds.shape[1] + 1))
    for node, weight in zip(nodes, weights, strict=True):
        above = thresholds - (mean + node * sd)[:, None]
        at_node = np.full(total.shape, weight)
        at_node[:, :-1] *= expit(above)
        at_node[:, 1:] *= expit(-above)
        total += at_node
    return total


def _ends(y, gaps):
    """Thresholds below and above labels, and the gaps between them; all may be infinite."""
    thresholds, widths = [-np.inf, 0.0], [np.inf]
    for gap in gaps.values():
        thresholds.append(thresholds[-1] + gap)
        widths.append(gap)
    code = np.asarray(y).astype(int)
    return (
        np.choose(code, thresholds),
        np.choose(code, [*thresholds[1:], np.inf]),
        np.choose(code, [*widths, np.inf]),
    )
