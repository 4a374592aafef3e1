"""Posterior predictive distributions of bag labels: mixtures of normals over the draws."""

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

# Mixture components (draws x bags) held in memory at a time: 8 MB an array.
_COMPONENTS_AT_ONCE = 1_000_000


class Predictive:
    """Predictive distribution of the labels of n bags.

    For each bag an equal-weight mixture, over the posterior draws, of normals.

    Parameters
    ----------
    components : callable
        ``components(i)`` gives the means and the standard deviations, each of shape
        (S, len(i)), of the S normals of the bags with integer indices `i`.
    n_bags, n_draws : int
        n and S.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
        Exact moments of the mixture.
    """

    def __init__(self, components, n_bags, n_draws):
        self._components = components
        self._chunk = max(1, _COMPONENTS_AT_ONCE // n_draws)
        self.n_draws = n_draws
        self.mean, self.sd = np.empty(n_bags), np.empty(n_bags)
        for i, (mean, sd) in self._chunks():
            self.mean[i] = mean.mean(axis=0)
            self.sd[i] = np.sqrt(np.mean(sd**2, axis=0) + mean.var(axis=0))

    def __len__(self):
        return len(self.mean)

    def __repr__(self):
        return (
            f"Predictive({len(self)} bags, {self.n_draws} draws; "
            "mean, sd, quantile(q), interval(level), log_prob(y), sample(size))"
        )

    def _chunks(self):
        for first in range(0, len(self), self._chunk):
            i = np.arange(first, min(first + self._chunk, len(self)))
            yield i, self._components(i)

    def quantile(self, q):
        """Quantiles of the label of each bag.

        Parameters
        ----------
        q : float or array, shape (k,), 0 < q < 1

        Returns
        -------
        array, shape (n,) or (k, n), units of y

        Raises
        ------
        ValueError
            If a q is not strictly between 0 and 1.
        """
        levels = np.atleast_1d(np.asarray(q, float))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"quantiles need 0 < q < 1, found q = {q}")
        values = np.empty((len(levels), len(self)))
        for i, (mean, sd) in self._chunks():
            for level, row in zip(levels, values, strict=True):
                row[i] = _mixture_quantile(mean, sd, level)
        return values[0] if np.ndim(q) == 0 else values

    def interval(self, level=0.95):
        """Central (equal-tailed) predictive intervals.

        Parameters
        ----------
        level : float, 0 < level < 1, default 0.95

        Returns
        -------
        lower, upper : arrays, shape (n,), units of y
        """
        if not 0 < level < 1:
            raise ValueError(f"an interval needs 0 < level < 1, found level = {level}")
        lower, upper = self.quantile([(1 - level) / 2, (1 + level) / 2])
        return lower, upper

    def log_prob(self, y):
        """Log predictive density of labels: log of the posterior-averaged density.

        Parameters
        ----------
        y : array, shape (n,), units of y

        Returns
        -------
        array, shape (n,)
        """
        log_density = np.empty(len(self))
        for i, each in self._log_components(y):
            log_density[i] = logsumexp(each, axis=0) - np.log(self.n_draws)
        return log_density

    def log_likelihood(self, y):
        """Log density of each label under each draw, shape (S, n)."""
        return np.concatenate([each for _, each in self._log_components(y)], axis=1)

    def _log_components(self, y):
        y = np.asarray(y, float)
        if y.shape != (len(self),):
            raise ValueError(f"y has shape {y.shape}, but there are {len(self)} bags")
        for i, (mean, sd) in self._chunks():
            yield i, -0.5 * ((y[i] - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)

    def sample(self, size=None, *, seed=None):
        """Draw labels from the predictive distribution.

        Parameters
        ----------
        size : int, optional
            Labels per bag; default one for each posterior draw, in the order of the draws.
        seed : int or numpy Generator, optional

        Returns
        -------
        array, shape (size, n), units of y
        """
        rng = np.random.default_rng(seed)
        draws = np.arange(self.n_draws) if size is None else rng.integers(self.n_draws, size=size)
        labels = np.empty((len(draws), len(self)))
        for i, (mean, sd) in self._chunks():
            labels[:, i] = rng.normal(mean[draws], sd[draws])
        return labels


def _mixture_quantile(mean, sd, level):
    """Quantile of equal-weight normal mixtures, one per column; Newton kept inside a bracket."""
    own = mean + sd * ndtri(level)  # each component's quantile; the mixture's lies between
    low, high = own.min(axis=0), own.max(axis=0)
    tolerance = 1e-10 * sd.min(axis=0)
    x = mean.mean(axis=0) + ndtri(level) * np.sqrt(np.mean(sd**2, axis=0) + mean.var(axis=0))
    x = np.clip(x, low, high)
    going = np.flatnonzero(high - low > tolerance)
    for _ in range(100):
        if not len(going):
            break
        m, s, at = mean[:, going], sd[:, going], x[going]
        standard = (at - m) / s
        excess = ndtr(standard).mean(axis=0) - level
        density = np.mean(np.exp(-0.5 * standard**2) / s, axis=0) / np.sqrt(2 * np.pi)
        low[going] = np.where(excess < 0, at, low[going])
        high[going] = np.where(excess >= 0, at, high[going])
        with np.errstate(divide="ignore", invalid="ignore"):
            new = at - excess / density
        inside = (new > low[going]) & (new < high[going])
        x[going] = np.where(inside, new, (low[going] + high[going]) / 2)
        going = going[np.abs(x[going] - at) > tolerance[going]]
    return x
