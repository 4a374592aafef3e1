"""Predictive distributions of totals that are not normal: mixtures over the posterior draws."""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from bdr_stan.aggregate.likelihoods import Likelihood
from bdr_stan.predictive.mixture import NumericMixture, mixture_quantile, pooled_scales
from bdr_stan.predictive.normal import normal_quantile
from bdr_stan.types import Array, ArrayLike


class AggregatePredictive(NumericMixture):
    """Predictive distribution of the totals of n bags that are not normal.

    For each bag a mixture, over the posterior draws, of distributions of one `likelihood`.
    ``components(i)`` returns the mean of the label of each bag with an index in `i` under each
    draw, shape (S, len(i)); for the binomial the probability of each trial. `parameters` are the
    likelihood's scales by name, shape (S,) or (S, n), and for the binomial `trials`, shape (n,).
    ValueError for other names or shapes, or numbers below 0.
    """

    def __init__(
        self,
        components: Callable[[Array], Array],
        n_bags: int,
        n_draws: int,
        likelihood: Likelihood,
        *,
        weights: Array | None = None,
        **parameters: ArrayLike,
    ) -> None:
        self.likelihood = likelihood
        names = {*likelihood.scales, *["trials"] * likelihood.has_trials}
        if names != set(parameters):
            raise ValueError(
                f"parameters of the {likelihood.name} likelihood are {sorted(names)}, found "
                f"{sorted(parameters)}"
            )
        arrays = {name: np.asarray(values, float) for name, values in parameters.items()}
        for name, values in arrays.items():
            shapes = [(n_bags,)] if name == "trials" else [(n_draws,), (n_draws, n_bags)]
            if values.shape not in shapes or not np.all(values >= 0):
                raise ValueError(f"{name} must be numbers >= 0 of shape {shapes[0]}")
        self.scales = {name: arrays.pop(name) for name in likelihood.scales}
        self.of_bags = arrays
        super().__init__(components, n_bags, n_draws, weights)

    @property
    def is_count(self) -> bool:  # type: ignore[override]
        """Whether the totals are counts."""
        return self.likelihood.is_count

    @property
    def _described(self):
        return f"{self.likelihood.name}, {super()._described}"

    @classmethod
    def _pooled_settings(cls, predictives):
        first = predictives[0]
        return {"likelihood": first.likelihood, **first.of_bags, **pooled_scales(predictives)}

    def _given_draw(self, means, i, draws=slice(None)):
        """SciPy's distribution of the bags `i` given each of the draws."""
        of_bags = {name: values[i] for name, values in self.of_bags.items()}
        return self.likelihood.distribution(means[draws], **of_bags, **self._scales_of(i, draws))

    def _scales_of(self, i, draws=slice(None)):
        """Scales of the bags `i` given each of the draws, shapes (S, 1) or (S, len(i))."""
        return {
            name: scale[draws][:, i] if scale.ndim == 2 else scale[draws, None]
            for name, scale in self.scales.items()
        }

    def _moments(self, means, i):
        given_draw = self._given_draw(means, i)
        return given_draw.mean(), given_draw.var()

    def _cdf(self, means, i, labels):
        return self._average(self._given_draw(means, i).cdf(labels))

    def _quantiles(self, means, i, levels):
        weights = self._draw_weights
        if self.is_count:

            def given_draw(j):
                return self._given_draw(means[:, j], i[j])

            mean, sd = self.mean[i], self.sd[i]
            return np.array([count_quantile(given_draw, mean, sd, q, weights) for q in levels])

        def cdf_and_density(x, j):
            return self.likelihood.cdf_and_density(x, means[:, j], **self._scales_of(i[j]))

        components = self._given_draw(means, i)
        middle = {name: weights @ scale for name, scale in self._scales_of(i).items()}
        typical = self.likelihood.distribution(weights @ means, **middle)
        values = np.empty((len(levels), len(i)))
        for q, row in zip(levels, values, strict=True):
            start, quantiles = typical.ppf(q), components.ppf(q)
            low, high = quantiles.min(axis=0), quantiles.max(axis=0)
            row[:] = mixture_quantile(start, low, high, q, weights, cdf_and_density, 1e-10 * low)
        return values

    def _log_density(self, means, i, labels):
        given_draw = self._given_draw(means, i)
        return (given_draw.logpmf if self.is_count else given_draw.logpdf)(labels)

    def _labels(self, means, i, draws, rng):
        given_draw = self._given_draw(means, i, draws)
        labels = given_draw.rvs(size=(len(draws), len(i)), random_state=rng)
        return labels.astype(np.int64) if self.is_count else labels


def count_quantile(
    given_draw: Callable, mean: Array, sd: Array, level: float, weights: Array
) -> Array:
    """Smallest counts, shape (m,), for which the cdfs of mixtures reach a level.

    Newton's method on the normal scale, where cdfs are nearly linear, kept inside a bracket, from
    the quantile of normals of the same moments. ``given_draw(j)`` is SciPy's distribution of the
    components, (S, len(j)), of the mixtures with indices `j`.
    """
    components, target = given_draw(np.arange(len(mean))), ndtri(level)
    sds = np.sqrt(np.maximum(components.var(), 0.01))
    tolerance = np.full(len(mean), 0.1)
    guess = normal_quantile(components.mean(), sds, level, weights, tolerance)
    odds = np.sqrt(level / (1 - level))
    # Cantelli's inequality: cdf(low) < level <= cdf(high).
    low, high = np.maximum(np.floor(mean - sd / odds) - 1, -1), np.ceil(mean + sd * odds)
    for step in range(200):
        going = np.flatnonzero(high - low > 1)
        if not len(going):
            break
        a, b, x = low[going], high[going], np.ceil(guess[going])
        halve = step % 5 == 4  # so that the bracket shrinks whatever Newton does
        x = np.where(halve | ~((a < x) & (x <= b)), np.floor((a + b) / 2), np.minimum(x, b - 1))
        components = given_draw(going)
        below = weights @ components.cdf(x)
        low[going], high[going] = np.where(below < level, (x, b), (a, x))
        if not halve:
            z, density = ndtri(below), weights @ components.pmf(x)
            with np.errstate(all="ignore"):  # a guess that is NaN is not used
                slope = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) / density
                guess[going] = x + (target - z) * slope
    return high
