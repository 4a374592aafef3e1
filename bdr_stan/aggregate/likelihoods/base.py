"""Base of the likelihoods of totals: their labels, density in the mean, scales and distribution."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.labels import check_count_labels
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.bags.checks import check_each
from bdr_stan.bags.labels import check_finite_labels
from bdr_stan.labels import Labels
from bdr_stan.types import Array, ArrayLike, Seed


class LabelDensity(NamedTuple):
    """Log density of all labels given their means lambda, and its derivatives, shape (n,)."""

    value: float  # sum over the labels, with all constants
    score: Array  # slope in the mean
    information: Array  # Fisher information on the mean
    curvature: Array  # minus the second derivative in the mean
    information_slope: Array  # slope of the information in the mean


LARGE_SHAPE = 1e4  # of gamma effects, above which Stirling's series is exact to rounding


class Scale(NamedTuple):
    """A scale of a likelihood, with a half-normal prior; "dispersion" has "dispersion_scale"."""

    meaning: str  # this and the unit are for the table of priors
    unit: str = "none"
    prior_scale: float = 1.0  # default of the half-normal's scale


# From labels and a link's moments of their means: the expected log density of each label up to a
# constant, and its slopes in the moments; scales as keywords.
Terms = Callable[..., tuple[Array, ...]]


def shape_of(dispersion: Array | float) -> Array | float:
    """Shape dispersion^-2 of a gamma or negative binomial distribution."""
    if not np.all(np.greater(dispersion, 0)):
        raise ValueError(f"dispersion must be > 0, found {np.min(dispersion)}")
    return dispersion**-2.0  # type: ignore[operator]


def with_errors(dispersion: Array | float, error_variance: Array | float) -> Array | float:
    """Dispersion of labels that also have errors of these relative variances."""
    return np.sqrt(np.square(dispersion) + error_variance)


def shape_with_errors(label_data: Mapping[str, Any]) -> Array | float:
    """Shape of labels with what is known of them, see `label_density`: errors add to dispersion."""
    return shape_of(
        with_errors(label_data.get("dispersion", 0.0), label_data.get("error_variance", 0.0))
    )


class LabelDistribution:
    """Distribution of labels given their means: base of likelihoods of totals, and of families."""

    name: ClassVar[str]
    # Its own, for example "dispersion", in the order of Stan's array.
    scales: ClassVar[Mapping[str, Scale]] = {}
    is_count: ClassVar[bool] = False  # whether labels are 0, 1, 2, ...
    has_trials: ClassVar[bool] = False  # whether counts are out of a number of trials

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def distribution(self, mean: Array, **label_data: Any) -> rv_frozen:
        """SciPy's distribution of labels given their means, of counts with trials probabilities.

        `label_data` are its own scales (`dispersion`; of the normal `sigma` per label) and `trials`
        of such counts, which broadcast with the mean. Each uses its own and ignores the rest.
        """
        raise NotImplementedError

    def cdf_and_density(self, x: Array, mean: Array, **label_data: Any) -> tuple[Array, Array]:
        """Cumulative probability and density at numbers `x`; for the rest see `distribution`."""
        distribution = self.distribution(mean, **label_data)
        return distribution.cdf(x), distribution.pdf(x)


class Likelihood(LabelDistribution):
    """Base of the likelihoods of totals; each has one object in `LIKELIHOODS`."""

    links: ClassVar[tuple[str, ...]]  # names of those with a Stan program, the default first
    # In ``stan/fast/functions/aggregate.stanfunctions``, if it is there.
    program_number: ClassVar[int]
    is_positive: ClassVar[bool] = False  # whether labels are numbers > 0
    # Whether its labels determine effects of their bags; see `draw_effects`.
    has_effects: ClassVar[bool] = False
    # Whether known errors of labels add to its dispersion, or to its noise.
    takes_errors: ClassVar[bool] = False
    # Why normal effects of bags cannot be added, with advice.
    bag_effects_error: ClassVar[str | None] = None
    # The likelihood of labels with gamma effects of their bags, of mean 1, integrated out: its
    # scale is the standard deviation of the effects.
    gamma_effects: ClassVar[str | None] = None
    # Terms of the variational bound, by the names of the links that have some.
    expected_terms: ClassVar[Mapping[str, Terms]] = {}

    def check_labels(self, bags: BagsLike, y: ArrayLike) -> Array:
        """Labels of `bags`, each the total of its points, as float64, shape (n,).

        Counts are 0, 1, ..., 2^31 - 1, not all zero. Labels may all be equal, unlike in
        `bags.check_labels`: bags of different size or points still separate rates. TypeError or
        ValueError names the first bag with an invalid label.
        """
        bags = as_bags(bags, in_parts=True)
        labels = check_finite_labels(bags, y)
        if self.is_count:
            rule = f"the {self.name} likelihood needs counts 0, 1, 2, ..."
            if not self.has_trials:
                rule += "; for other totals choose likelihood='normal' or 'exponential'"
            check_count_labels(bags, labels, rule)
        if self.is_positive:
            rule = f"the {self.name} likelihood needs labels > 0"
            check_each(bags, labels, labels > 0, "label", rule)
        return labels

    def label_density(self, y: Array, **label_data: Any) -> Callable[[Array], LabelDensity]:
        """Log density of labels, shape (n,), as a function of their means lambda.

        `label_data` are its own scales (`sigma`, `dispersion`), `trials` of the binomial,
        `noise_factor` of the normal (noise of each label in units of sigma), `error_variance` of
        those with a dispersion (relative variance of each label's known error), shapes (n,); `tau`,
        for likelihoods with effects of bags, the effects' sd; effects are integrated out. Each uses
        its own and ignores the rest.
        """
        raise NotImplementedError

    def default_priors(self, rows: AggregateRows, y: Array) -> dict[str, float]:
        """Numbers of the priors of its scales, by name, for `rows` and labels `y`."""
        return {f"{name}_scale": scale.prior_scale for name, scale in self.scales.items()}

    def draw_effects(self, y: Array, means: Array, seed: Seed, **label_data: Array) -> Array:
        """Log effects of the bags given their labels `y` and means, (S, n), if `has_effects`.

        `label_data` are scales, (S,), and `error_variance`, (n,): effects exclude the errors.
        """
        raise NotImplementedError

    def scales_of_parts(self, share: Array, itself: Array, **scales: Array) -> dict[str, Array]:
        """Scales, (S, n), of bags in training bags of given effects; see `dispersion_inside`."""
        raise NotImplementedError

    def constant(self, y: Array, **scales: float) -> float:
        """What `expected_terms` omit from the log density of labels `y`, at these scales."""
        return 0.0

    def label_on_log_scale(self, labels: Labels) -> tuple[Array, Array]:
        """Labels on the scale of bags' effects, and their information on the effects, (n,).

        These are logarithms, for the binomial log odds of the shares, and about minus the second
        derivative of the log density in the effect. Only the sampler's coordinates depend on them.
        """
        return np.zeros(len(labels.y)), np.zeros(len(labels.y))

    def program_data(self, labels: Labels) -> dict[str, Any]:
        """Likelihood, labels and, of the binomial, trials in the data of a Stan program."""
        return {"y": labels.y, "likelihood": self.program_number, "n_scales": len(self.scales)}
