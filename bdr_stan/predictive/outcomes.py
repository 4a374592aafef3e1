"""Predictive distributions of labels of any family, with normal linear predictors."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.special import ndtri, roots_hermitenorm

from bdr_stan.families import Family, label_densities
from bdr_stan.labels import Labels
from bdr_stan.predictive.distributions import draw_quantiles
from bdr_stan.predictive.mixture import NumericMixture, pooled_scales
from bdr_stan.predictive.normal import Predictive
from bdr_stan.predictive.totals import AggregatePredictive
from bdr_stan.types import Array, ArrayLike

# Linear predictors per bag, of all draws together, stratified, in cdf and quantiles of counts;
# labels or components, drawn at random: probabilities are accurate to 0.001 or 0.002.
_PREDICTORS, _LABELS = 8_000, 40_000
_COMPONENTS = 2_000  # if a label depends only on its mean
_N_NODES = 31  # of the moments
_LARGEST_LOG_COUNT = 34.0  # of a mean: NumPy draws no counts of 1e18, as poor posteriors have
_NOTHING_KNOWN = Labels()
_NUMBERS_PER_DENSITY = 50  # that quadrature holds in memory for a draw and bag


class OutcomePredictive(NumericMixture):
    """Predictive distribution of the labels of n bags, of a family other than the normal.

    For each bag a mixture over the posterior draws; given a draw the linear predictor is normal,
    and the label has the family's distribution. ``components(i)`` returns means and variances, each
    of shape (S, len(i)), of the linear predictors of the bags with indices `i`, exposures included.
    The family's `scales` have the shape (S,); `labels` have the trials of each count, shape (n,).
    """

    def __init__(
        self,
        components: Callable[[Array], tuple[Array, Array]],
        n_bags: int,
        n_draws: int,
        family: Family,
        scales: Mapping[str, Array],
        labels: Labels = _NOTHING_KNOWN,
        weights: Array | None = None,
    ) -> None:
        self.family, self.scales, self.labels = family, scales, labels
        super().__init__(components, n_bags, n_draws, weights)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Name of the family: distributions of one family are pooled, of several blended."""
        return self.family.name

    @property
    def is_count(self) -> bool:  # type: ignore[override]
        """Whether the labels are counts."""
        return self.family.likelihood.is_count

    @property
    def _described(self):
        return f"{self.family.name}, {super()._described}"

    @property
    def _answers(self):
        every = super()._answers
        return every.replace("cdf", "pmf(y), cdf") if self.is_count else every

    def pmf(self, y: ArrayLike) -> Array:
        """Predictive probability, shape (n,), of the count `y` of each bag.

        TypeError if the family is not one of counts.
        """
        if not self.is_count:
            raise TypeError(f"labels of the {self.family.name} family have a density: use log_prob")
        return np.exp(self.log_prob(y))

    @classmethod
    def _pooled_settings(cls, predictives):
        first = predictives[0]
        shared = {"family": first.family, "labels": first.labels}
        return {**shared, "scales": pooled_scales(predictives)}

    # ------------------------------------------------------------ given a draw

    @property
    def numbers_per_bag(self) -> int:
        return self.n_draws * _NUMBERS_PER_DENSITY

    def _distribution(self, predictors, scales, i):
        """SciPy's distribution of labels at predictors, shape (S, m), of the bags `i`."""
        scales = {name: scale[:, None] for name, scale in scales.items()}
        likelihood, of_bags = self.family.likelihood, self.labels.take(i).parameters
        return likelihood.distribution(self.family.mean(predictors), **of_bags, **scales)

    def _moments(self, components, i):
        """Mean and variance of the labels of the bags `i` under each draw, shapes (S, m)."""
        mean, variance = components
        nodes, weights = roots_hermitenorm(_N_NODES)
        sd, weights = np.sqrt(variance), weights / weights.sum()
        total, squares = np.zeros((2, *mean.shape))
        for node, weight in zip(nodes, weights, strict=True):
            at_node = self._distribution(mean + node * sd, self.scales, i)
            expected = at_node.mean()
            total += weight * expected
            squares += weight * (at_node.var() + expected**2)
        return total, np.maximum(squares - total**2, 0)

    def _log_density(self, components, i, labels):
        mean, variance = components
        of_bags = replace(self.labels.take(i), y=labels)
        possible = self.family.supports(of_bags)
        of_bags = replace(of_bags, y=np.where(possible, labels, 0 if self.is_count else 0.5))
        of_all = of_bags.take(np.tile(np.arange(len(i)), len(mean)))  # under each draw
        scales = {name: np.repeat(scale, len(i)) for name, scale in self.scales.items()}
        densities = label_densities(self.family, of_all, mean.ravel(), variance.ravel(), **scales)
        return np.where(possible, densities.value.reshape(mean.shape), -np.inf)

    def _labels(self, components, i, draws, rng):
        mean, variance = (values[draws] for values in components)
        predictors = rng.normal(mean, np.sqrt(variance))
        if self.is_count:
            predictors = np.minimum(predictors, _LARGEST_LOG_COUNT)
        scales = {name: scale[draws] for name, scale in self.scales.items()}
        labels = self._distribution(predictors, scales, i).rvs(size=mean.shape, random_state=rng)
        return labels.astype(np.int64) if self.is_count else labels

    # ------------------------------------------------------------ over all draws

    def _cdf(self, components, i, labels):
        return self._given_predictors(components, i).cdf(labels)

    def _quantiles(self, components, i, levels):
        if self.is_count:
            return self._given_predictors(components, i).quantile(levels) + 0.0  # not -0
        values = np.empty((len(levels), len(i)))
        for k in range(len(i)):  # one generator per bag: see `_stratified`
            predictors, scales, weights = self._stratified(components, [k], _LABELS)
            of_bag = self._distribution(predictors, scales, i[[k]])
            labels = of_bag.rvs(size=predictors.shape, random_state=np.random.default_rng(0))
            values[:, k] = draw_quantiles(labels[:, 0], levels, weights)
        return values

    def _given_predictors(self, components, i):
        """Mixture over many predictors of each draw."""
        number = _LABELS if self.family.is_mixture else _PREDICTORS
        predictors, scales, weights = self._stratified(components, slice(None), number)
        means, likelihood, scales = self.family.without_mixing(predictors, scales)
        if not scales:  # then quantiles of the means represent all
            means, weights = _few(means, weights), None
        return AggregatePredictive(
            lambda j: means[:, j],
            len(i),
            len(means),
            likelihood,
            weights=weights,
            **self.labels.take(i).parameters,
            **scales,
        )

    def _stratified(self, components, bags, number):
        """At least `number` predictors of each of the bags, with their scales and weights.

        They are stratified, also over the draws, and alike in all bags, which so do not matter.
        """
        mean, variance = (values[:, bags] for values in components)
        m = -(-number // self.n_draws)
        offset = (np.random.default_rng(0).permutation(self.n_draws) + 0.5) / self.n_draws
        deviation = ndtri((np.arange(m) + offset[:, None]) / m).reshape(-1, 1)
        predictors = np.repeat(mean, m, axis=0)
        predictors += deviation * np.repeat(np.sqrt(variance), m, axis=0)
        scales = {name: np.repeat(scale, m) for name, scale in self.scales.items()}
        weights = None if self.weights is None else np.repeat(self.weights, m) / m
        return predictors, scales, weights


def _few(means, weights):
    """Quantiles, shape (_COMPONENTS, m), of means, shape (S, m), to represent all."""
    levels = (np.arange(_COMPONENTS) + 0.5) / _COMPONENTS
    if weights is not None or len(means) % _COMPONENTS:
        return draw_quantiles(means, levels, weights)
    ranked = np.sort(means, axis=0)  # many times quicker than quantiles
    return ranked.reshape(_COMPONENTS, -1, means.shape[1]).mean(axis=1)


class LognormalPredictive(Predictive):
    """Predictive distribution of n positive labels with a normal model of their logarithms.

    ``components(i)`` returns means and standard deviations of log labels, shapes (S, len(i)).
    """

    def _label_values(self, y):
        """Logarithms of labels."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(super()._label_values(y), 0))

    def log_density_function(self, i: Array) -> Callable[[Array], Array]:
        of_logarithms = super().log_density_function(i)
        return lambda labels: of_logarithms(np.log(labels))

    def _moments(self, components, i):
        location, scale = components
        mean = np.exp(location + scale**2 / 2)
        return mean, mean**2 * np.expm1(scale**2)

    def _quantiles(self, components, i, levels):
        return np.exp(super()._quantiles(components, i, levels))

    def _log_density(self, components, i, labels):
        finite = np.where(labels > -np.inf, labels, 0)
        density = super()._log_density(components, i, finite) - finite
        return np.where(labels > -np.inf, density, -np.inf)

    def _labels(self, components, i, draws, rng):
        return np.exp(super()._labels(components, i, draws, rng))
