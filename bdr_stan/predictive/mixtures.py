"""Posterior predictive distributions of bag labels: mixtures over the posterior draws."""

import numpy as np
from scipy import stats
from scipy.special import logsumexp, ndtr, ndtri

# Mixture components (draws x bags) held in memory at a time: 8 MB an array.
_COMPONENTS_AT_ONCE = 1_000_000


class _Mixture:
    """What predictive distributions share: for each bag a mixture over the posterior draws.

    Parameters
    ----------
    components : callable
        ``components(i)`` gives an array or a pair of arrays, of shape (S, len(i)), that say what
        each draw predicts of the bags with integer indices `i`.
    n_bags, n_draws : int
        n and S.
    weights : array, shape (S,), or None
    """

    def __init__(self, components, n_bags, n_draws, weights):
        self._components = components
        self.n_draws, self.weights = n_draws, weights
        self.mean, self.sd = np.empty(n_bags), np.empty(n_bags)

    def __len__(self):
        return len(self.mean)

    def _chunks(self):
        """Indices of the bags, as many at a time as `_COMPONENTS_AT_ONCE` allows, and components."""
        chunk = max(1, _COMPONENTS_AT_ONCE // self.n_draws)
        for first in range(0, len(self), chunk):
            i = np.arange(first, min(first + chunk, len(self)))
            yield i, self._components(i)

    def interval(self, level=0.95):
        """Central (equal-tailed) intervals, between two values of `quantile`.

        Parameters
        ----------
        level : float, 0 < level < 1, default 0.95

        Returns
        -------
        lower, upper : arrays, shape (n,)
        """
        lower, upper = self.quantile(interval_ends(level))
        return lower, upper

    def log_prob(self, y):
        """Log predictive density or probability of labels, averaged over the posterior.

        Parameters
        ----------
        y : array, shape (n,)

        Returns
        -------
        array, shape (n,)
        """
        weights = 1 / self.n_draws if self.weights is None else self.weights[:, None]
        value = np.empty(len(self))
        for i, each in self._log_components(y):
            value[i] = logsumexp(each, b=weights, axis=0)
        return value

    def log_likelihood(self, y):
        """Log density or probability of each label under each draw, shape (S, n)."""
        return np.concatenate([each for _, each in self._log_components(y)], axis=1)

    def sample(self, size=None, *, seed=None):
        """Draw labels from the predictive distribution.

        Parameters
        ----------
        size : int, optional
            Labels per bag; default one for each posterior draw, in the order of the draws
            (drawn by weight where they have weights).
        seed : int or numpy Generator, optional

        Returns
        -------
        array, shape (size, n)
            In units of y, integers where labels are counts; of classes, out of `classes`.
        """
        rng = np.random.default_rng(seed)
        draws = _chosen_draws(rng, size, self.n_draws, self.weights)
        labels = [self._labels(components, i, draws, rng) for i, components in self._chunks()]
        return np.concatenate(labels, axis=1)


class Predictive(_Mixture):
    """Predictive distribution of the labels of n bags.

    For each bag a mixture, over the posterior draws, of normals.

    Parameters
    ----------
    components : callable
        ``components(i)`` gives the means and the standard deviations, each of shape
        (S, len(i)), of the S normals of the bags with integer indices `i`.
    n_bags, n_draws : int
        n and S.
    weights : array, shape (S,), optional
        Weight of each draw, of sum 1; default equal weights.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
        Exact moments of the mixture.
    """

    def __init__(self, components, n_bags, n_draws, weights=None):
        super().__init__(components, n_bags, n_draws, weights)
        for i, (mean, sd) in self._chunks():
            self.mean[i] = np.average(mean, axis=0, weights=weights)
            variance = sd**2 + (mean - self.mean[i]) ** 2
            self.sd[i] = np.sqrt(np.average(variance, axis=0, weights=weights))

    def __repr__(self):
        return (
            f"Predictive({len(self)} bags, {self.n_draws} draws; "
            "mean, sd, quantile(q), interval(level), cdf(y), log_prob(y), sample(size))"
        )

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
        levels = quantile_levels(q)
        weights = _equal(self.n_draws) if self.weights is None else self.weights
        values = np.empty((len(levels), len(self)))
        for i, (mean, sd) in self._chunks():
            for level, row in zip(levels, values, strict=True):
                tolerance = 1e-10 * sd.min(axis=0)
                row[i] = _normal_mixture_quantile(mean, sd, level, weights, tolerance)
        return values[0] if np.ndim(q) == 0 else values

    def cdf(self, y):
        """Predictive probability of a label below each of `y`.

        Uniform on (0, 1) where the predictions are calibrated (probability integral transform).

        Parameters
        ----------
        y : array, shape (n,), units of y

        Returns
        -------
        array, shape (n,)
        """
        y = _one_a_bag(np.asarray(y, float), len(self))
        below = np.empty(len(self))
        for i, (mean, sd) in self._chunks():
            below[i] = np.average(ndtr((y[i] - mean) / sd), axis=0, weights=self.weights)
        return below

    def _log_components(self, y):
        y = _one_a_bag(np.asarray(y, float), len(self))
        for i, (mean, sd) in self._chunks():
            yield i, -0.5 * ((y[i] - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)

    def _labels(self, components, i, draws, rng):
        mean, sd = components
        return rng.normal(mean[draws], sd[draws])


class AggregatePredictive(_Mixture):
    """Predictive distribution of the totals of n bags that are not normal.

    For each bag a mixture, over the posterior draws, of Poisson, negative binomial, exponential or
    binomial distributions.

    Parameters
    ----------
    components : callable
        ``components(i)`` gives the mean of the label of each bag with an index in `i` under each
        draw, shape (S, len(i)); of the binomial family the probability of each trial.
    n_bags, n_draws : int
        n and S.
    family : {"poisson", "negative binomial", "exponential", "binomial"}
    dispersion : array, shape (S,)
        Of the negative binomial family alone: its variance is mean + dispersion^2 mean^2.
    trials : array, shape (n,)
        Of the binomial family alone.
    weights : array, shape (S,), optional
        Weight of each draw, of sum 1; default equal weights.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
        Exact moments of the mixture.

    Raises
    ------
    ValueError
        Unknown family, or dispersion or trials that are missing, of another shape, or of no use.
    """

    def __init__(
        self, components, n_bags, n_draws, family, *, dispersion=None, trials=None, weights=None
    ):
        if family not in _FAMILIES:
            names = ", ".join(map(repr, _FAMILIES))
            raise ValueError(f"family must be one of {names}, found {family!r}")
        super().__init__(components, n_bags, n_draws, weights)
        self.family = family
        self.dispersion = _of_family(family, "negative binomial", "dispersion", dispersion, n_draws)
        self.trials = _of_family(family, "binomial", "trials", trials, n_bags)
        for i, means in self._chunks():
            given_draw = self._distribution(means, i)
            mean, variance = given_draw.mean(), given_draw.var()
            self.mean[i] = np.average(mean, axis=0, weights=weights)
            variance += (mean - self.mean[i]) ** 2
            self.sd[i] = np.sqrt(np.average(variance, axis=0, weights=weights))

    def __repr__(self):
        return (
            f"AggregatePredictive({self.family}, {len(self)} bags, {self.n_draws} draws; "
            "mean, sd, quantile(q), interval(level), cdf(y), log_prob(y), sample(size))"
        )

    def _distribution(self, means, i, draws=slice(None)):
        """SciPy's distribution of the bags `i` given each of the draws."""
        dispersion = None if self.dispersion is None else self.dispersion[draws, None]
        trials = None if self.trials is None else self.trials[i]
        return _FAMILIES[self.family](means[draws], dispersion, trials)

    def quantile(self, q):
        """Quantiles of the label of each bag.

        Parameters
        ----------
        q : float or array, shape (k,), 0 < q < 1

        Returns
        -------
        array, shape (n,) or (k, n), units of y
            Of counts the smallest whose `cdf` reaches q, so that an `interval` holds at least its
            level.

        Raises
        ------
        ValueError
            If a q is not strictly between 0 and 1.
        """
        levels = quantile_levels(q)
        weights = _equal(self.n_draws) if self.weights is None else self.weights
        values = np.empty((len(levels), len(self)))
        for i, means in self._chunks():

            def given_draw(of, i=i, means=means):
                return self._distribution(means[:, of], i[of])

            for level, row in zip(levels, values, strict=True):
                if self.family == "exponential":
                    row[i] = _exponential_mixture_quantile(means, level, weights)
                else:
                    row[i] = _count_quantile(given_draw, self.mean[i], self.sd[i], level, weights)
        return values[0] if np.ndim(q) == 0 else values

    def cdf(self, y):
        """Predictive probability of a label not above each of `y`.

        Of counts this includes the probability of y itself, so where the predictions are
        calibrated it lies above uniform numbers on (0, 1), by little where counts are large.

        Parameters
        ----------
        y : array, shape (n,), units of y

        Returns
        -------
        array, shape (n,)
        """
        y = _one_a_bag(np.asarray(y, float), len(self))
        below = np.empty(len(self))
        for i, means in self._chunks():
            each = self._distribution(means, i).cdf(y[i])
            below[i] = np.average(each, axis=0, weights=self.weights)
        return below

    def _log_components(self, y):
        y = _one_a_bag(np.asarray(y, float), len(self))
        for i, means in self._chunks():
            given_draw = self._distribution(means, i)
            continuous = self.family == "exponential"
            yield i, (given_draw.logpdf if continuous else given_draw.logpmf)(y[i])

    def _labels(self, means, i, draws, rng):
        given_draw = self._distribution(means, i, draws)
        labels = given_draw.rvs(size=(len(draws), len(i)), random_state=rng)
        return labels if self.family == "exponential" else labels.astype(np.int64)


# Distribution of a label given its mean, of the binomial one given its probability.
_FAMILIES = {
    "poisson": lambda mean, dispersion, trials: stats.poisson(mean),
    "negative binomial": lambda mean, dispersion, trials: stats.nbinom(
        1 / dispersion**2, 1 / (1 + dispersion**2 * mean)
    ),
    "exponential": lambda mean, dispersion, trials: stats.expon(scale=mean),
    "binomial": lambda probability, dispersion, trials: stats.binom(
        trials.astype(np.int64), probability
    ),
}


class ClassPredictive(_Mixture):
    """Predictive distribution of the classes of n bags.

    For each bag a mixture, over the posterior draws, of Bernoulli distributions.

    Parameters
    ----------
    log_probabilities : callable
        ``log_probabilities(i)`` gives the log probabilities of the first and of the second
        class, each of shape (S, len(i)), of the bags with integer indices `i`.
    n_bags, n_draws : int
        n and S.
    classes : array, shape (2,)
        The two labels; the second is the one that `mean` is the probability of.
    weights : array, shape (S,), optional
        Weight of each draw, of sum 1; default equal weights.

    Attributes
    ----------
    mean : array, shape (n,)
        Probability of the second class, averaged over the posterior.
    sd : array, shape (n,)
        Posterior standard deviation of that probability.
    """

    def __init__(self, log_probabilities, n_bags, n_draws, classes, weights=None):
        super().__init__(log_probabilities, n_bags, n_draws, weights)
        self.classes = classes
        for i, (_, log_p) in self._chunks():
            p = np.exp(log_p)
            self.mean[i] = np.average(p, axis=0, weights=weights)
            self.sd[i] = np.sqrt(np.average((p - self.mean[i]) ** 2, axis=0, weights=weights))

    def __repr__(self):
        return (
            f"ClassPredictive({len(self)} bags, {self.n_draws} draws; probability of "
            f"{self.classes[1]!r}: mean, sd, quantile(q), interval(level); log_prob(y), sample(size))"
        )

    def quantile(self, q):
        """Posterior quantiles of each bag's probability of the second class.

        Parameters
        ----------
        q : float or array, shape (k,), 0 < q < 1

        Returns
        -------
        array, shape (n,) or (k, n)

        Raises
        ------
        ValueError
            If a q is not strictly between 0 and 1.
        """
        levels = quantile_levels(q)
        method = {} if self.weights is None else {"method": "inverted_cdf", "weights": self.weights}
        values = np.empty((len(levels), len(self)))
        for i, (_, log_p) in self._chunks():
            values[:, i] = np.quantile(np.exp(log_p), levels, axis=0, **method)
        return values[0] if np.ndim(q) == 0 else values

    def _log_components(self, y):
        second = class_codes(self.classes, _one_a_bag(np.asarray(y), len(self))) == 1
        for i, (log_q, log_p) in self._chunks():
            yield i, np.where(second[i], log_p, log_q)

    def _labels(self, log_probabilities, i, draws, rng):
        _, log_p = log_probabilities
        second = np.log(rng.random((len(draws), len(i)))) < log_p[draws]
        return self.classes[second.astype(int)]


def mix(predictives, weights):
    """Mixture of predictive distributions of the same bags.

    Parameters
    ----------
    predictives : list of Predictive, of AggregatePredictive of one family, or of
        ClassPredictive with the same classes
    weights : array, shape (len(predictives),), of sum 1

    Returns
    -------
    Predictive, AggregatePredictive or ClassPredictive
        Its draws are those of all, each with its share of the weight.
    """
    first = predictives[0]
    shares = [
        np.full(p.n_draws, weight / p.n_draws) if p.weights is None else weight * p.weights
        for p, weight in zip(predictives, weights, strict=True)
    ]
    shares = np.concatenate(shares)

    def components(i):
        parts = [p._components(i) for p in predictives]
        if isinstance(first, AggregatePredictive):
            return np.concatenate(parts)
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    if isinstance(first, AggregatePredictive):
        dispersion = None
        if first.dispersion is not None:
            dispersion = np.concatenate([p.dispersion for p in predictives])
        return AggregatePredictive(
            components,
            len(first),
            len(shares),
            first.family,
            dispersion=dispersion,
            trials=first.trials,
            weights=shares,
        )
    if isinstance(first, ClassPredictive):
        return ClassPredictive(components, len(first), len(shares), first.classes, shares)
    return Predictive(components, len(first), len(shares), shares)


def class_codes(classes, y):
    """0 for labels of the first class, 1 for those of the second.

    Raises
    ------
    ValueError
        For a label that is neither.
    """
    strange = ~np.isin(y, classes)
    if strange.any():
        i = np.flatnonzero(strange)[0]
        raise ValueError(
            f"the label of bag {i} is {y[i]!r}, but the classes are {classes[0]!r} and "
            f"{classes[1]!r}"
        )
    return (y == classes[1]).astype(int)


def interval_ends(level):
    """Probabilities below the two ends of a central interval, checked."""
    if not 0 < level < 1:
        raise ValueError(f"an interval needs 0 < level < 1, found level = {level}")
    return [(1 - level) / 2, (1 + level) / 2]


def quantile_levels(q):
    """Probabilities of quantiles as an array, shape (k,), checked."""
    levels = np.atleast_1d(np.asarray(q, float))
    if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"quantiles need 0 < q < 1, found q = {q}")
    return levels


def _of_family(family, owner, name, values, n):
    """What one family alone has, as an array, shape (n,), of numbers > 0."""
    if family != owner:
        if values is not None:
            raise ValueError(f"{name} belongs to the {owner} family, not to {family!r}")
        return None
    values = np.asarray([] if values is None else values, float)
    if values.shape != (n,):
        raise ValueError(f"the {owner} family needs {name} of shape ({n},), found {values.shape}")
    if not np.all(values > 0):
        i = np.flatnonzero(~(values > 0))[0]
        raise ValueError(f"the {owner} family needs {name} > 0, found {values[i]} at {i}")
    return values


def _one_a_bag(y, n_bags):
    if y.shape != (n_bags,):
        raise ValueError(f"y has shape {y.shape}, but there are {n_bags} bags")
    return y


def _chosen_draws(rng, size, n_draws, weights):
    """Which posterior draws to simulate from."""
    if size is None and weights is None:
        return np.arange(n_draws)
    return rng.choice(n_draws, size=n_draws if size is None else size, p=weights)


def _normal_mixture_quantile(mean, sd, level, weights, tolerance):
    def cdf_and_density(x, of):
        standard = (x - mean[:, of]) / sd[:, of]
        return ndtr(standard), np.exp(-0.5 * standard**2) / sd[:, of] / np.sqrt(2 * np.pi)

    own = mean + sd * ndtri(level)
    return _mixture_quantile(own, level, weights, cdf_and_density, tolerance)


def _exponential_mixture_quantile(mean, level, weights):
    def cdf_and_density(x, of):
        above = np.exp(-x / mean[:, of])
        return -np.expm1(-x / mean[:, of]), above / mean[:, of]

    own = -mean * np.log1p(-level)
    return _mixture_quantile(own, level, weights, cdf_and_density, 1e-10 * own.min(axis=0))


def _mixture_quantile(own, level, weights, cdf_and_density, tolerance):
    """Quantiles of mixtures of continuous components; Newton kept inside a bracket.

    `own` has the components' quantiles, a column for each mixture, whose own lies between them;
    ``cdf_and_density(x, of)`` is that of the components of the columns `of`.
    """
    low, high = own.min(axis=0), own.max(axis=0)
    x = np.clip(weights @ own, low, high)
    going = np.flatnonzero(high - low > tolerance)
    for _ in range(100):
        if not len(going):
            break
        at = x[going]
        below, density = (weights @ values for values in cdf_and_density(at, going))
        excess = below - level
        low[going] = np.where(excess < 0, at, low[going])
        high[going] = np.where(excess >= 0, at, high[going])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            new = at - excess / density
        inside = (new > low[going]) & (new < high[going])
        x[going] = np.where(inside, new, (low[going] + high[going]) / 2)
        going = going[np.abs(x[going] - at) > tolerance[going]]
    return x


def _count_quantile(given_draw, mean, sd, level, weights):
    """Smallest counts at which the cdfs of mixtures reach a level.

    ``given_draw(of)`` is SciPy's distribution of the components of the columns `of`; `mean` and
    `sd` are those of the mixtures. Newton on the normal scale, where cdfs are nearly linear, kept
    inside a bracket, from the quantile of normals of the same moments.
    """
    components, target = given_draw(np.arange(len(mean))), ndtri(level)
    sds = np.sqrt(np.maximum(components.var(), 0.01))
    tolerance = np.full(len(mean), 0.1)
    guess = _normal_mixture_quantile(components.mean(), sds, level, weights, tolerance)
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
            with np.errstate(all="ignore"):  # a guess that is no number is not taken
                slope = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) / density
                guess[going] = x + (target - z) * slope
    return high


def _equal(n):
    return np.full(n, 1 / n)
