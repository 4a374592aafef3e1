"""Calibration of the posterior of mean embeddings: Law et al. (2018), section 3.2.

`embedding_posterior` of bags of 5 to 1000 points, against the true mean embedding of the
distribution behind each bag, which is known for three populations:

- mixtures: two normal clusters in the plane, with means, spreads and shares of their own in a bag;
- gamma bags: the simulation of Law et al. in R^5, in which the spread depends on the label;
- people: ages and lognormal incomes in years and dollars, with the default kernel.

Each fit is to 1000 bags of mixed sizes. Points at which embeddings are evaluated are drawn from the
population. Reported are the coverage of 95% intervals and of 95% regions of three points, and the
root mean squared error of the posterior mean relative to the average over the bag's points.
``--priors`` names covariance functions.

The default has one within-bag covariance for all bags. The last table replaces it by the true
covariance of each bag, estimated from 4000 more of its points.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from bdr_stan import Bags, Shrinkage
from bdr_stan.embedding.prior import JITTER, KERNEL_SHARE
from experiments.papers.shrinkage_c import ShrinkageC
from experiments.report import arguments, pyplot, rows, write

SIZES = (5, 10, 20, 50, 100, 1000)
N_POINTS, IN_REGION = 20, 3
LEVEL = 0.95
AIM = 0.93, 0.97
PRIORS = ("empirical", "kernel", "convolution")
PAGE, PICTURE = "embedding_posterior.md", "embedding_posterior.png"
STEP = 0.15  # of a grid in standard deviations
MORE_POINTS = 4000  # for the covariance of a bag


class Mixtures:
    """Two normal clusters in the plane."""

    name = "mixtures"
    kernel = "rbf"

    def __init__(self, rng, n):
        self.mean, self.gap = rng.normal(size=(2, n, 2))
        self.sd = 0.8 * np.exp(0.3 * rng.normal(size=(n, 2)))
        self.share = rng.beta(2, 2, n)
        self.y = self.mean.sum(axis=1)

    def draw(self, rng, i, size):
        shifted = rng.uniform(size=(size, 1)) < self.share[i]
        return self.mean[i] + shifted * self.gap[i] + self.sd[i] * rng.normal(size=(size, 2))

    def embedding(self, i, kernel, points):
        """In closed form: a normal distribution convolved with the kernel is one again."""
        b = np.broadcast_to(kernel.lengths, 2)
        variance = self.sd[i] ** 2 + b**2
        height = np.prod(b / np.sqrt(variance))
        parts = [
            height * np.exp(-np.sum((points - centre) ** 2 / (2 * variance), axis=1))
            for centre in (self.mean[i], self.mean[i] + self.gap[i])
        ]
        return (1 - self.share[i]) * parts[0] + self.share[i] * parts[1]


class GammaBags:
    """Entries chi-square(y) / y in R^5."""

    name = "gamma bags"
    kernel = "rbf"
    values = np.linspace(0.002, 12, 3000)

    def __init__(self, rng, n):
        self.y = rng.uniform(4, 8, n)

    def draw(self, rng, i, size):
        return rng.chisquare(self.y[i], (size, 5)) / self.y[i]

    def embedding(self, i, kernel, points):
        """A product over the columns of integrals by the trapezoidal rule."""
        b = np.broadcast_to(kernel.lengths, 5)
        density = chi2.pdf(self.values * self.y[i], self.y[i])
        density /= density.sum()
        away = (self.values[:, None, None] - points) / b
        return np.prod(np.einsum("v,vmp->mp", density, np.exp(-(away**2) / 2)), axis=1)


class People:
    """Ages and incomes with means and spreads of their own in each place."""

    name = "people"
    kernel = "auto"

    def __init__(self, rng, n):
        self.level = rng.normal(size=(n, 2))
        self.spread = np.exp(0.2 * rng.normal(size=(n, 2)))
        self.y = self.level.sum(axis=1)
        z = np.arange(-6, 6 + STEP / 2, STEP)
        self.z = np.stack(np.meshgrid(z, z), axis=-1).reshape(-1, 2)
        self.weight = np.prod(norm.pdf(self.z), axis=1)
        self.weight /= self.weight.sum()

    def draw(self, rng, i, size):
        return self.at(i, rng.normal(size=(size, 2)))

    def at(self, i, z):
        age = 42 + 5 * self.level[i, 0] + 12 * self.spread[i, 0] * z[:, 0]
        income = 30_000 * np.exp(0.2 * self.level[i, 1] + 0.5 * self.spread[i, 1] * z[:, 1])
        return np.column_stack([age, income])

    def embedding(self, i, kernel, points):
        """The average over a grid, with the normal density as weights."""
        return self.weight @ kernel(self.at(i, self.z), points)


@dataclass
class Result:
    """Coverage and error in bags of one size."""

    held: Any  # share of a bag's points, shape (n,)
    in_region: Any  # bool, shape (n,)
    relative_error: float

    @property
    def share(self):
        return self.held.mean()

    @property
    def standard_error(self):
        return self.held.std(ddof=1) / np.sqrt(len(self.held))


def fit(population, prior, rng, n):
    """Shrinkage on n bags of mixed sizes, of the population's first n places."""
    sizes = rng.choice(SIZES, n)
    bags = [population.draw(rng, i, size) for i, size in enumerate(sizes)]
    y = population.y[:n] + 0.1 * rng.normal(size=n)
    kernel, landmarks = population.kernel if prior == "empirical" else "rbf", "kmeans"
    bags = Bags.from_list(bags)
    if prior == "convolution":
        first = ShrinkageC().fit(bags, y, seed=1)
        prior, kernel, landmarks = first.convolution_, first.kernel_, first.landmarks_
    model = Shrinkage(kernel=kernel, landmarks=landmarks, embedding_prior=prior)
    return model.fit(bags, y, seed=1)


def results(population, model, rng, n, n_new):
    """Result for each size of n_new new bags."""
    new, kernel = np.arange(n, n + n_new), model.kernel_
    points = points_of(population, rng, n)
    true = np.array([population.embedding(i, kernel, points) for i in new])
    by_size = {}
    for size in SIZES:
        bags = [population.draw(rng, i, size) for i in new]
        posterior = model.embedding_posterior(bags, points)
        plain = true - [kernel(bag, points).mean(axis=0) for bag in bags]
        moments = posterior["mean"].values, posterior["covariance"].values
        by_size[size] = result(true, *moments, np.mean(plain**2))
    return by_size


def points_of(population, rng, n):
    """Points of the population, shape (N_POINTS, p)."""
    return np.concatenate([population.draw(rng, i, 1) for i in rng.integers(0, n, N_POINTS)])


def result(true, mean, covariance, plain_square=np.nan):
    """Coverage of normal distributions, shapes (n, m) and (n, m, m)."""
    error, sd = true - mean, np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    held = np.abs(error) <= norm.ppf((1 + LEVEL) / 2) * sd
    some = error[:, :IN_REGION]
    solved = np.linalg.solve(covariance[:, :IN_REGION, :IN_REGION], some[..., None])[..., 0]
    return Result(
        held.mean(axis=1),
        np.sum(some * solved, axis=1) <= chi2.ppf(LEVEL, IN_REGION),
        float(np.sqrt(np.mean(error**2) / plain_square)),
    )


def known_covariances(population, model, rng, n, n_new):
    """Results by size with the common within-bag covariance, and with that of each bag."""
    features, V, m0 = model.feature_map_, model.coordinates_.basis, model.coordinates_.m0
    points, new = points_of(population, rng, n), np.arange(n, n + n_new)
    true = np.array([population.embedding(i, model.kernel_, points) for i in new])
    ridge = JITTER * np.eye(len(m0))
    K, eta = features.gram() + ridge, model.result_.draws("eta")[0]
    P = np.linalg.solve(K, features(points).T).T
    R = eta * np.linalg.inv(V @ V.T)
    share = np.trace(R) / np.trace(K) * KERNEL_SHARE / (1 + KERNEL_SHARE)
    D = share * (model.kernel_(points, points) - P @ features(points).T)
    own = [np.cov(features(population.draw(rng, i, MORE_POINTS)).T) + ridge for i in new]
    by_size = {}
    for size in SIZES:
        bags = [population.draw(rng, i, size) for i in new]
        common = model.embedding_posterior(bags, points)
        moments = []
        for bag, Sigma in zip(bags, own, strict=True):
            gain = R @ np.linalg.inv(R + Sigma / size)
            mean = P @ (m0 + gain @ (features(bag).mean(axis=0) - m0))
            moments.append((mean, D + P @ (R - gain @ R) @ P.T))
        of_own = result(true, *map(np.array, zip(*moments, strict=True)))
        by_size[size] = result(true, common["mean"].values, common["covariance"].values), of_own
    return by_size


def cells_of(result):
    return f"{result.share:.3f} ({result.standard_error:.3f})", f"{result.in_region.mean():.3f}"


def table(by_prior):
    """Coverage, and relative error, of each prior by bag size."""
    heads = ["points in a bag", *by_prior, f"regions, {next(iter(by_prior))}"]
    heads += [f"error, {prior}" for prior in by_prior]
    lines = []
    for size in SIZES:
        each = [by_size[size] for by_size in by_prior.values()]
        intervals = [cells_of(result)[0] for result in each]
        errors = [f"{result.relative_error:.2f}" for result in each]
        lines.append([size, *intervals, cells_of(each[0])[1], *errors])
    return rows(heads, lines, right=slice(None))


def table_of_covariances(by_size):
    """Coverage with one covariance, and with that of each bag, by bag size."""
    heads = ["points in a bag", "one covariance: intervals", "regions"]
    heads += ["of each bag: intervals", "regions"]
    lines = [[size, *cells_of(common), *cells_of(own)] for size, (common, own) in by_size.items()]
    return rows(heads, lines, right=slice(None))


def example(seed):
    """A bag of 10 points of the mixtures along a line: truth, sample and posterior."""
    rng = np.random.default_rng(seed)
    population = Mixtures(rng, 301)
    model = fit(population, "empirical", rng, 300)
    bag = population.draw(rng, 300, 10)
    x = np.column_stack([np.linspace(-4, 4, 81), np.zeros(81)])
    posterior = model.embedding_posterior([bag], x).isel(bag=0)
    kernel = model.kernel_
    curves = population.embedding(300, kernel, x), kernel(bag, x).mean(axis=0)
    return x[:, 0], curves, posterior["mean"].values, posterior["sd"].values


def draw(found, path, seed):
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    x, (true, plain), mean, sd = example(seed)
    left.fill_between(x, mean - 1.96 * sd, mean + 1.96 * sd, alpha=0.25, label="95% intervals")
    left.plot(x, mean, label="posterior mean")
    left.plot(x, plain, "--", label="average over 10 points")
    left.plot(x, true, "k", linewidth=1, label="true embedding")
    left.set(xlabel="first column, where the second is 0", ylabel="mean embedding")
    left.legend(frameon=False, fontsize=8)
    right.axhspan(*AIM, color="0.9")
    right.axhline(LEVEL, color="0.6", linewidth=1)
    for k, (name, by_prior) in enumerate(found.items()):
        by_size = by_prior["empirical"]
        share = [result.share for result in by_size.values()]
        error = [2 * result.standard_error for result in by_size.values()]
        places = np.array(SIZES) * 1.08 ** (k - 1)
        right.errorbar(places, share, error, fmt="o-", markersize=4, label=name)
    right.set(xscale="log", ylim=(0.88, 1.0), xlabel="points in a bag")
    right.set(ylabel="true embeddings in 95% intervals")
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    parser = arguments(
        __doc__, quick="60 bags, 20 new ones, the default prior", output="folder for the page"
    )
    parser.add_argument("--priors", nargs="+", choices=PRIORS, default=list(PRIORS))
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    n, n_new, priors = args.bags, args.bags, args.priors
    if args.quick:
        n, n_new, priors = 60, 20, ["empirical"]
    found, text = {}, []
    for make in (Mixtures, GammaBags, People):
        found[make.name] = by_prior = {}
        for prior in priors:
            rng = np.random.default_rng(args.seed)
            population = make(rng, n + n_new)
            model = fit(population, prior, rng, n)
            by_prior[prior] = results(population, model, rng, n, n_new)
        text.append(f"{make.name[0].upper()}{make.name[1:]}:\n\n{table(by_prior)}")
        print(f"\n{text[-1]}", flush=True)
    rng = np.random.default_rng(args.seed)
    population = Mixtures(rng, n + n_new)
    model = fit(population, "empirical", rng, n)
    covariances = table_of_covariances(known_covariances(population, model, rng, n, n_new // 2))
    print(f"\nmixtures\n\n{covariances}")
    shares = [r.share for by_prior in found.values() for r in by_prior[priors[0]].values()]
    print(f"\n95% intervals cover {min(shares):.3f} to {max(shares):.3f} of the embeddings")
    if args.output is not None:
        values = {"least": f"{min(shares):.3f}", "most": f"{max(shares):.3f}", "bags": n}
        values |= {"new": n_new, "half": n_new // 2, "own": covariances, "points": N_POINTS}
        values |= {"least_size": SIZES[0], "most_size": SIZES[-1], "region": IN_REGION}
        values["more"] = MORE_POINTS
        write(args.output, PAGE, TEXT.format(tables="\n\n".join(text), **values))
        draw(found, args.output / PICTURE, args.seed)


TEXT = """\
# The posterior of mean embeddings

`model.embedding_posterior(bags, points)` is the posterior of a bag's true mean embedding
mu_i(x) = E k(x, X) at any points x, given only the points of the bag (Law et al. 2018, section
3.2). [The model](../explanation/model.md#the-embedding-of-a-small-bag-is-uncertain) has its
formula. Here the truth is known. Three fits to {bags} bags of {least_size} to {most_size} points:

- *mixtures*: two normal clusters in the plane; their means, spreads and shares differ between bags.
- *gamma bags*: entries chi-square(y) / y in five columns, the simulation of Law et al.
- *people*: ages and lognormal incomes in years and dollars, with the default kernel for tables.

In {new} new bags of each size the posterior is evaluated at {points} points of the population.
Intervals of the default prior cover {least} to {most} of the true embeddings:

![A bag of ten points; coverage by bag size](embedding_posterior.png)

*Left: the embedding of a bag of ten points along a line. Right: share of true embeddings in 95%
intervals of the default prior, with two standard errors; the band is from 0.93 to 0.97.*

The tables have the coverage of 95% intervals, with standard errors over bags, for three priors; the
coverage of regions of {region} points together; and the root mean squared error of the posterior
mean, relative to the average over the points of the bag.

{tables}

Priors other than the default have kernel="rbf" for people. Regions also assume that the values at
several points are normal together, which these embeddings are only roughly. With the kernel as the
prior covariance, intervals in the five columns of the gamma bags are too
wide: this prior lets embeddings vary in more directions than they do. The estimated covariance of
the default has smaller errors there.

## One within-bag covariance

The default has the average within-bag covariance for all bags. This table has the mixtures again,
{half} new bags of each size, also with the true covariance of each bag, from {more} more points:

{own}

The covariance of the bag itself makes intervals too narrow, most of all in small bags, although it
is known here: it depends on the embedding, and given it the prior N(m0, eta R) is wrong.

Reproduce: `python -m experiments.embedding_posterior --output docs/validation`
"""


if __name__ == "__main__":
    main()
