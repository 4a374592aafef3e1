"""The models from the definitions of Law et al. (2018), for the tests to compare with.

Written from the mathematics, apart from the package: dense matrices, landmark coordinates,
SciPy's densities. The tools at the end run a Stan program and compare moments.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats
from scipy.linalg import cho_factor, cho_solve

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.results.inference_data import arviz, arviz_is_1

PRIORS = {
    "intercept_location": 0.7,
    "intercept_scale": 1.3,
    "sigma_scale": 0.6,
    "rho_median": 0.8,
    "rho_log_sd": 0.4,
    "eta_median": 0.5,
    "eta_log_sd": 0.5,
}


@dataclass(frozen=True)
class Problem:
    """Embedded bags with labels, in landmark coordinates.

    mu : array, shape (n, d), empirical mean embeddings
    sizes : array, shape (n,), points per bag
    y : array, shape (n,), labels
    Sigma, R, K : arrays, shape (d, d), covariance within bags, prior covariance of the
        embeddings at eta = 1, kernel matrix of the landmarks
    x : array, shape (n, Q), covariates, of weights gamma
    known : array, shape (n,), or 0, variance of the known error of each label
    """

    mu: np.ndarray
    sizes: np.ndarray
    y: np.ndarray
    Sigma: np.ndarray
    R: np.ndarray
    K: np.ndarray
    priors: dict = field(default_factory=lambda: dict(PRIORS))
    origin: np.ndarray | None = None
    x: np.ndarray | None = None
    known: np.ndarray | float = 0.0

    @property
    def embedding(self):
        return Embedding(self.sizes, self.mu, self.Sigma)

    @property
    def m0(self):
        """Prior mean of the embeddings: the bags' average unless `origin` is given."""
        return self.mu.mean(axis=0) if self.origin is None else self.origin


def positive_definite(rng, d, condition=50.0):
    """Random symmetric matrix with eigenvalues from 1 to 1 / condition."""
    rotation = stats.ortho_group.rvs(d, random_state=rng) if d > 1 else np.eye(1)
    return (rotation * np.geomspace(1.0, 1.0 / condition, d)) @ rotation.T


def random_problem(rng, n=15, d=4, sizes=None, same_kernel=False):
    """A problem whose embeddings, weights and labels come from the model."""
    sizes = np.asarray(rng.choice([1.0, 3.0, 10.0, 200.0], n) if sizes is None else sizes, float)
    Sigma, K = 3 * positive_definite(rng, d), positive_definite(rng, d)
    R = K if same_kernel else positive_definite(rng, d)
    true = rng.multivariate_normal(np.zeros(d), 0.5 * R, n)
    mu = 2 + np.array([rng.multivariate_normal(m, Sigma / N) for m, N in zip(true, sizes)])
    alpha = rng.multivariate_normal(np.zeros(d), np.linalg.inv(K))
    y = 0.7 + true @ alpha + rng.normal(0, 0.4, n)
    return Problem(mu, sizes, y, Sigma, R, K)


def random_classes(rng, **options):
    """A problem whose labels are classes, 0 and 1: models of these have no sigma."""
    p = random_problem(rng, **options)
    priors = {name: value for name, value in p.priors.items() if name != "sigma_scale"}
    return replace(p, y=(p.y > p.priors["intercept_location"]).astype(float), priors=priors)


def with_covariates(rng, p, Q=2):
    """The problem with covariates that tell something of the labels."""
    x = rng.normal(size=(len(p.y), Q)) + 0.5 * p.mu[:, :1]
    priors = p.priors | {"gamma_scale": 0.9}
    y = p.y if set(p.y) <= {0.0, 1.0} else p.y + x @ np.linspace(-0.8, 1.1, Q)
    return replace(p, x=x, y=y, priors=priors)


def with_label_noise(rng, p):
    """The problem with noise of size, and known errors of some of the labels."""
    known = rng.choice([0.0, 0.2, 0.7], len(p.y)) ** 2
    return replace(p, known=known, priors=p.priors | {"sigma_point_scale": 1.4})


# ---------------------------------------------------------------- the models


def embedding_posterior(mu, size, m0, Sigma, R, eta):
    """Mean and covariance of a bag's embedding: prior N(m0, eta R), mu ~ N(., Sigma / size).

    `mu` is one embedding or, in rows, those of several bags of this size.
    """
    prior, noise = np.linalg.inv(eta * R), np.linalg.inv(Sigma / size)
    C = np.linalg.inv(prior + noise)
    return (prior @ m0 + mu @ noise) @ C, C


def of_covariates(p, gamma):
    """What the covariates add to the regression function, shape (n,), or 0 without covariates."""
    return 0.0 if p.x is None else p.x @ gamma


def bdr_moments(p, alpha, intercept, sigma, eta, gamma=(), sigma_point=0.0):
    """Mean and variance of each label, its embedding integrated out."""
    mean, variance = np.empty((2, len(p.y)))
    for size in np.unique(p.sizes):
        of = p.sizes == size
        M, C = embedding_posterior(p.mu[of], size, p.m0, p.Sigma, p.R, eta)
        mean[of] = intercept + (M - p.m0) @ alpha
        variance[of] = alpha @ C @ alpha + sigma**2
    variance += sigma_point**2 / p.sizes + p.known
    return mean + of_covariates(p, gamma), variance


def bdr_log_likelihood(p, alpha, intercept, sigma, eta, gamma=(), sigma_point=0.0):
    mean, variance = bdr_moments(p, alpha, intercept, sigma, eta, gamma, sigma_point)
    return stats.norm.logpdf(p.y, mean, np.sqrt(variance)).sum()


def blr_log_likelihood(p, beta, intercept, sigma, gamma=(), sigma_point=0.0):
    mean = intercept + (p.mu - p.m0) @ beta + of_covariates(p, gamma)
    variance = sigma**2 + sigma_point**2 / p.sizes + p.known
    return stats.norm.logpdf(p.y, mean, np.sqrt(variance)).sum()


def bdr_probit_log_likelihood(p, alpha, intercept, eta, gamma=()):
    """Classes 1 where the latent function at the true embedding plus N(0, 1) is positive."""
    mean, variance = bdr_moments(p, alpha, intercept, 1.0, eta, gamma)
    return stats.norm.logcdf((2 * p.y - 1) * mean / np.sqrt(variance)).sum()


def blr_logit_log_likelihood(p, beta, intercept, gamma=()):
    log_odds = intercept + (p.mu - p.m0) @ beta + of_covariates(p, gamma)
    return stats.logistic.logcdf((2 * p.y - 1) * log_odds).sum()


def log_prior_of_scales(priors, intercept, sigma, rho, eta=None, gamma=(), sigma_point=None):
    """Log prior density of all but the weights w; sigma is None in models of classes."""
    value = stats.norm.logpdf(intercept, priors["intercept_location"], priors["intercept_scale"])
    value += sum(stats.norm.logpdf(g, 0, priors["gamma_scale"]) for g in gamma)
    if sigma is not None:
        value += stats.halfnorm.logpdf(sigma, scale=priors["sigma_scale"])
    if sigma_point is not None:
        value += stats.halfnorm.logpdf(sigma_point, scale=priors["sigma_point_scale"])
    value += stats.lognorm.logpdf(rho, priors["rho_log_sd"], scale=priors["rho_median"])
    if eta is not None:
        value += stats.lognorm.logpdf(eta, priors["eta_log_sd"], scale=priors["eta_median"])
    return value


def bdr_log_density(
    p, alpha, intercept, sigma, rho, eta, use_likelihood=True, gamma=(), sigma_point=None
):
    """Log joint density of labels and parameters; alpha ~ N(0, rho^2 K^-1)."""
    value = log_prior_of_scales(p.priors, intercept, sigma, rho, eta, gamma, sigma_point)
    value += stats.multivariate_normal.logpdf(alpha, cov=rho**2 * np.linalg.inv(p.K))
    likelihood = bdr_log_likelihood(p, alpha, intercept, sigma, eta, gamma, sigma_point or 0.0)
    return value + use_likelihood * likelihood


def blr_log_density(
    p, beta, intercept, sigma, rho, use_likelihood=True, gamma=(), sigma_point=None
):
    """Log joint density of labels and parameters; beta ~ N(0, rho^2 I)."""
    value = log_prior_of_scales(p.priors, intercept, sigma, rho, None, gamma, sigma_point)
    value += stats.norm.logpdf(beta, 0, rho).sum()
    likelihood = blr_log_likelihood(p, beta, intercept, sigma, gamma, sigma_point or 0.0)
    return value + use_likelihood * likelihood


def bdr_probit_log_density(p, alpha, intercept, rho, eta, use_likelihood=True, gamma=()):
    """Log joint density of classes and parameters; alpha ~ N(0, rho^2 K^-1)."""
    value = log_prior_of_scales(p.priors, intercept, None, rho, eta, gamma)
    value += stats.multivariate_normal.logpdf(alpha, cov=rho**2 * np.linalg.inv(p.K))
    return value + use_likelihood * bdr_probit_log_likelihood(p, alpha, intercept, eta, gamma)


def blr_logit_log_density(p, beta, intercept, rho, use_likelihood=True, gamma=()):
    """Log joint density of classes and parameters; beta ~ N(0, rho^2 I)."""
    value = log_prior_of_scales(p.priors, intercept, None, rho, gamma=gamma)
    value += stats.norm.logpdf(beta, 0, rho).sum()
    return value + use_likelihood * blr_logit_log_likelihood(p, beta, intercept, gamma)


def blr_marginal(p, sigma, rho):
    """Mean and covariance of the labels, weights and intercept integrated out."""
    x, n = p.mu - p.m0, len(p.y)
    covariance = rho**2 * x @ x.T + p.priors["intercept_scale"] ** 2 + sigma**2 * np.eye(n)
    return np.full(n, p.priors["intercept_location"]), covariance


def draw_scales(rng, priors, with_eta=True, Q=0):
    """Intercept, gamma and the scales, if the model has them, from their priors."""
    intercept = rng.normal(priors["intercept_location"], priors["intercept_scale"])
    drawn = {"intercept": intercept}
    if "sigma_scale" in priors:
        drawn["sigma"] = abs(rng.normal(0, priors["sigma_scale"]))
    if "sigma_point_scale" in priors:
        drawn["sigma_point"] = abs(rng.normal(0, priors["sigma_point_scale"]))
    drawn["rho"] = priors["rho_median"] * np.exp(priors["rho_log_sd"] * rng.normal())
    if with_eta:
        drawn["eta"] = priors["eta_median"] * np.exp(priors["eta_log_sd"] * rng.normal())
    if Q:
        drawn["gamma"] = rng.normal(0, priors["gamma_scale"], Q)
    return drawn


# ---------------------------------------------------------------- numerical tools


def gradient(function, x, step=2e-4):
    """Central differences of fourth order."""
    x = np.asarray(x, float)
    slope = np.empty_like(x)
    for k in range(len(x)):
        h = np.zeros_like(x)
        h[k] = step * (1 + abs(x[k]))
        far = function(x + 2 * h) - function(x - 2 * h)
        near = function(x + h) - function(x - h)
        slope[k] = (8 * near - far) / (12 * h[k])
    return slope


def monte_carlo(draws, batches=10):
    """Mean of draws, shape (chains, draws, ...), and its standard error by batch means."""
    draws = np.asarray(draws)
    each = np.array([b.mean(axis=0) for chain in draws for b in np.array_split(chain, batches)])
    return each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(len(each))


def moments_with_error(draws, centre):
    """First and centred second moments of draws, shape (chains, draws, k), with their errors."""
    away = draws - centre
    both = np.concatenate([away, away**2], axis=2)
    return monte_carlo(both)


def assert_same_moments(draws, others, names, limit=4.5):
    """Two samples, each shape (chains, draws, k), agree in mean and variance within error."""
    centre = (draws.mean(axis=(0, 1)) + others.mean(axis=(0, 1))) / 2
    (one, error), (other, other_error) = (moments_with_error(x, centre) for x in (draws, others))
    score = (one - other) / np.hypot(error, other_error)
    labels = [f"{what} of {name}" for what in ("mean", "variance") for name in names]
    assert np.all(np.abs(score) < limit), dict(zip(labels, score.round(1)))


def assert_moments(draws, mean, variance, names, limit=4.5):
    """A sample, shape (chains, draws, k), has this mean and variance within its error."""
    found, error = moments_with_error(draws, np.asarray(mean))
    score = (found - np.r_[np.zeros(len(mean)), variance]) / error
    labels = [f"{what} of {name}" for what in ("mean", "variance") for name in names]
    assert np.all(np.abs(score) < limit), dict(zip(labels, score.round(1)))


# ---------------------------------------------------------------- running a program


def elpd(idata, **options):
    """Sum of the log predictive densities by leave-one-out, of ArviZ 0.x or 1.x."""
    loo = arviz().loo(idata, **options)
    return float(loo.elpd if arviz_is_1() else loo.elpd_loo)


def log_density(model, data, parameters, jacobian=False):
    """Log density of a Stan program without its constants, and its gradient.

    The gradient is with respect to the unconstrained parameters; it holds the slope of the
    Jacobian only if `jacobian`.
    """
    import cmdstanpy

    with cmdstanpy.disable_logging():
        row = model.log_prob(parameters, data, jacobian=jacobian, sig_figs=18).to_numpy()[0]
    return row[0], row[1:]


def unit_of_latent(data, rho):
    """Factor by which the whitening of classes follows rho; 1 in the other programs."""
    return np.sqrt(1 + data.get("latent_spread", 0.0) * rho**2)


def whiten(data, w, intercept, rho, gamma=()):
    """The Stan programs' coordinates t of weights, those of covariates and intercept."""
    data = plain_coordinates(len(data["linear_term"])) | data  # some programs take no covariates
    unit = unit_of_latent(data, rho)
    q = data["information"] / unit**2 + rho**-2.0
    t = np.sqrt(q) * (np.linalg.solve(data["axes"], w) - data["linear_term"] / unit / q)
    of_gamma = (gamma - data["gamma_slope"] @ w) / unit - data["gamma_centre"]
    rest = (intercept - data["intercept_slope"] @ np.r_[w, gamma]) / unit - data["intercept_centre"]
    of_gamma = np.linalg.solve(data["gamma_unit"], of_gamma)
    return np.r_[t, of_gamma, rest / data["intercept_unit"]]


def less_mode_shift(data, t, scales):
    """t at these scales, of which `whiten` gives t + mode_shift scale_change; see bdr.stan."""
    sigma, eta, *rest = data["scale_at_mode"]
    scale_change = [0.5 * ((scales["sigma"] / sigma) ** 2 - 1), np.log(scales["eta"] / eta)]
    scale_change += [0.5 * ((scales["sigma_point"] / value) ** 2 - 1) for value in rest]
    return t - data["mode_shift"] @ scale_change


def unwhiten_all(data, t, rho):
    """[w; gamma; intercept] at t, and log |d[w; gamma; intercept] / dt| but for a constant."""
    unit, d = unit_of_latent(data, rho), len(data["linear_term"])
    data = plain_coordinates(d) | data  # some programs take no covariates
    q = data["information"] / unit**2 + rho**-2.0
    w = data["axes"] @ (data["linear_term"] / unit / q + t[:d] / np.sqrt(q))
    gamma = unit * (data["gamma_centre"] + data["gamma_unit"] @ t[d:-1]) + data["gamma_slope"] @ w
    intercept = unit * (data["intercept_centre"] + data["intercept_unit"] * t[-1])
    intercept += data["intercept_slope"] @ np.r_[w, gamma]
    return np.r_[w, gamma, intercept], (len(t) - d) * np.log(unit) - 0.5 * np.sum(np.log(q))


def unwhiten(data, t, rho):
    """Weights and intercept at t, and log |d(w, intercept) / dt| but for a constant."""
    theta, log_jacobian = unwhiten_all(data, t, rho)
    return theta[: len(data["linear_term"])], theta[-1], log_jacobian


def slope_by_t(data, t, rho, by_w, by_intercept):
    """Chain rule from slopes by weights and intercept: those by t, and what log rho gains."""
    q = data["information"] + rho**-2.0
    along = data["axes"].T @ (by_w + by_intercept * data["intercept_slope"])
    by_t = np.r_[along / np.sqrt(q), by_intercept * data["intercept_unit"]]
    gain = along @ (data["linear_term"] / q**2 + 0.5 * t[:-1] / q**1.5) + np.sum(0.5 / q)
    return by_t, 2 * rho**-2.0 * gain


def density_of_weights(model, data, parameters):
    """A Stan program's log density of weights, intercept and scales: the Jacobian of t is off."""
    value, _ = log_density(model, data, parameters)
    rho = np.ravel(parameters["rho"])[0]  # an array in programs of several samples
    return value - unwhiten(data, parameters["t"], rho)[2]


def any_coordinates(rng, d, Q):
    """Whitening of weights, Q covariates and intercept that is not that of the posterior."""
    return {
        "information": rng.uniform(1, 9, d),
        "linear_term": rng.normal(size=d),
        "axes": rng.normal(size=(d, d)),
        "intercept_centre": rng.normal(),
        "intercept_slope": rng.normal(size=d + Q),
        "intercept_unit": 0.7,
        "gamma_centre": rng.normal(size=Q),
        "gamma_slope": rng.normal(size=(Q, d)),
        "gamma_unit": np.triu(rng.normal(size=(Q, Q)), 1) + np.diag(rng.uniform(0.5, 2, Q)),
    }


def check_derivatives(likelihood, theta):
    """Slope and curvature of a log likelihood are those of its value, by differences."""
    _, slope, _, curvature = likelihood(theta)
    expected = gradient(lambda x: likelihood(x)[0], theta)
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6)
    rows = [gradient(lambda x, k=k: likelihood(x)[1][k], theta) for k in range(len(theta))]
    np.testing.assert_allclose(curvature, -np.array(rows), rtol=1e-5, atol=1e-5)


def plain_coordinates(d):
    """Whitening that does nothing: the labels' information is taken as none."""
    return {
        "information": np.zeros(d),
        "linear_term": np.zeros(d),
        "axes": np.eye(d),
        "intercept_centre": 0.0,
        "intercept_slope": np.zeros(d),
        "intercept_unit": 1.0,
        "gamma_centre": np.zeros(0),
        "gamma_slope": np.zeros((0, d)),
        "gamma_unit": np.zeros((0, 0)),
    }


def sample(
    model, data, inits, *, chains=4, warmup=1000, draws=1500, seed=1, divergent=0.002, **options
):
    """Draws by NUTS, name -> array, shape (chains, draws, ...).

    Fails if more than the share `divergent` of the transitions diverged.
    """
    import tempfile

    import cmdstanpy

    with cmdstanpy.disable_logging(), tempfile.TemporaryDirectory() as folder:
        fit = model.sample(
            data,
            inits=inits,
            chains=chains,
            parallel_chains=2,
            iter_warmup=warmup,
            iter_sampling=draws,
            seed=seed,
            sig_figs=12,
            show_progress=False,
            output_dir=folder,
            **options,
        )
        assert fit.divergences.sum() <= divergent * chains * draws
        return {
            name: values.reshape(chains, draws, *values.shape[1:])
            for name, values in fit.stan_variables().items()
        }


def columns(draws, names):
    """Draws of several parameters side by side, shape (chains, draws, k), and their labels."""
    blocks = [np.atleast_3d(draws[name]) for name in names]
    labels = [f"{n}[{k}]" for n, block in zip(names, blocks) for k in range(block.shape[2])]
    return np.concatenate(blocks, axis=2), labels


def posterior_moments(mean, sizes, m0, covariance, prior_gram, eta):
    """Posterior means M, shape (n, d), and covariances C, shape (n, d, d), at the landmarks.

        M_i = m0 + eta R (eta R + Sigma / N_i)^-1 (mu_hat_i - m0)
        C_i = eta R - eta R (eta R + Sigma / N_i)^-1 eta R

    Law et al. (2018), section 3.2. Dense, where the models use `joint_basis` and
    `shrinkage_factors`.
    """
    mean, sizes = np.asarray(mean, float), np.asarray(sizes, float)
    n, d = mean.shape
    M, C = np.empty((n, d)), np.empty((n, d, d))
    R = eta * np.asarray(prior_gram, float)
    for size in np.unique(sizes):
        members = sizes == size
        # R (R + Sigma / N)^-1 as the transpose of a Cholesky solve: both matrices are symmetric.
        gain = cho_solve(cho_factor(R + covariance / size), R).T
        M[members] = m0 + (mean[members] - m0) @ gain.T
        posterior = R - gain @ R
        C[members] = (posterior + posterior.T) / 2
    return M, C
