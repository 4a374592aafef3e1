"""Totals of bags whose points have rates: problems, their densities by SciPy, and data for Stan.

Written from the mathematics, bag by bag and point by point, apart from the package; the functions
at the end make what the package takes of such problems.
"""

from dataclasses import dataclass, replace

import cmdstanpy
import numpy as np
import pytest
from scipy import stats

from bdr_stan.aggregate.densities import Totals, aggregate_likelihood
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.bags import Bags
from bdr_stan.labels import Labels
from bdr_stan.models.aggregate import aggregate_data
from bdr_stan.posterior.mode import find_mode
from bdr_stan.posterior.whitening import whitened_coordinates
from bdr_stan.types import Array
from builders import reference

MODELS = [(name, link) for name, likelihood in LIKELIHOODS.items() for link in likelihood.links]
RHO = 0.6

RATE_PRIORS = {
    "intercept_location": 0.4,
    "intercept_scale": 0.7,
    "rho_median": 0.6,
    "rho_log_sd": 0.4,
    "sigma_scale": 0.6,
    "dispersion_scale": 0.8,
    "tau_scale": 0.5,
}
# Of squares: an intercept that is surely positive tells f from -f.
SQUARE_PRIORS = RATE_PRIORS | {"intercept_location": 1.5, "intercept_scale": 0.4, "rho_median": 0.3}
RATES = {
    "square": np.square,
    "exp": np.exp,
    "logit": stats.logistic.cdf,
    "identity": np.positive,
}


@dataclass(frozen=True)
class RateProblem:
    """Bags of points whose labels have the points' total rates as means.

    psi, weights : lists of arrays, shapes (n_a, d) and (n_a,), features and weights of the points
    residual_variance : array, shape (n,), sum of weights times the variance that features leave out
    y : array, shape (n,), labels
    trials : array, shape (n,), of binomial labels
    error_variance : array, shape (n,), of known errors, relative to the labels
    """

    psi: list
    weights: list
    likelihood: str
    link: str
    has_effects: bool
    priors: dict
    residual_variance: Array
    y: Array | None = None
    trials: Array | None = None
    error_variance: Array | float = 0.0


def with_errors(p):
    """The problem with known errors of its labels."""
    error_variance = np.random.default_rng(9).uniform(0.01, 0.5, len(p.psi))
    return replace(p, error_variance=error_variance)


def random_rates(rng, likelihood, link, n=6, d=3, has_effects=False):
    """A problem whose parameters and labels come from the model, and the parameters."""
    sizes = rng.integers(1, 8, n)
    priors = dict(SQUARE_PRIORS if link == "square" else RATE_PRIORS)
    for name in {name for each in LIKELIHOODS.values() for name in each.scales}:
        if name not in LIKELIHOODS[likelihood].scales:
            del priors[f"{name}_scale"]
    if not has_effects:
        del priors["tau_scale"]
    p = RateProblem(
        psi=[rng.normal(size=(size, d)) / np.sqrt(d) for size in sizes],  # |psi|^2 about 1
        weights=[rng.gamma(2, 1, size) for size in sizes],
        likelihood=likelihood,
        link=link,
        has_effects=has_effects,
        priors=priors,
        residual_variance=rng.gamma(2, 1, n) if LINKS[link].uses_residual_variance else np.zeros(n),
        trials=rng.integers(1, 30, n) if likelihood == "binomial" else None,
    )
    true = draw_parameters(rng, p)
    law = law_of_labels(p, **true)
    return replace(p, y=law.rvs(n, random_state=rng).astype(float)), true


def draw_parameters(rng, p):
    """Weights, intercept, scales and effects from their priors."""
    drawn = reference.draw_scales(rng, p.priors, with_eta=False)
    drawn["w"] = rng.normal(0, drawn["rho"], p.psi[0].shape[1])
    if "dispersion_scale" in p.priors:
        drawn["dispersion"] = abs(rng.normal(0, p.priors["dispersion_scale"]))
    if p.has_effects:
        drawn["tau"] = abs(rng.normal(0, p.priors["tau_scale"]))
        drawn["effect"] = rng.normal(0, drawn["tau"], size=len(p.psi))
    return drawn


def rate_means(p, w, intercept, effect, rho=0.0):
    """Mean of each bag's label; of binomial labels the probability."""
    rate, means = RATES[p.link], []
    for psi, weights, own, residual_variance in zip(p.psi, p.weights, effect, p.residual_variance):
        f = intercept + psi @ w
        if p.link == "logit":
            means.append(weights @ rate(f + own) / weights.sum())
        else:
            means.append(np.exp(own) * (weights @ rate(f) + rho**2 * residual_variance))
    return np.array(means)


def law_and_arguments(p, w, intercept, rho=0.0, sigma=None, dispersion=None, tau=None, effect=0.0):
    """SciPy's distribution of the labels, and its arguments given the parameters."""
    mean = rate_means(p, w, intercept, np.broadcast_to(effect, len(p.psi)), rho)
    if dispersion is not None:
        dispersion = np.sqrt(dispersion**2 + p.error_variance)
    if p.likelihood == "poisson":
        return stats.poisson, (mean,)
    if p.likelihood == "negative binomial":
        return stats.nbinom, (dispersion**-2.0, 1 / (1 + dispersion**2 * mean))
    if p.likelihood == "exponential":
        return stats.expon, (0, mean)
    if p.likelihood == "gamma":
        return stats.gamma, (dispersion**-2.0, 0, mean * dispersion**2)
    if p.likelihood == "normal":  # outcomes N(f_j, sigma^2) at the points, added by their weights
        return stats.norm, (mean, [sigma * np.sqrt(np.sum(p_j**2)) for p_j in p.weights])
    return stats.binom, (p.trials, mean)


def law_of_labels(p, w, intercept, **scales):
    """SciPy's distribution of the labels given the parameters."""
    law, arguments = law_and_arguments(p, w, intercept, **scales)
    return law(*arguments)


def log_likelihood(p, **parameters):
    law, arguments = law_and_arguments(p, **parameters)
    is_count = LIKELIHOODS[p.likelihood].is_count
    return (law.logpmf if is_count else law.logpdf)(p.y, *arguments).sum()


def log_density(p, rho, use_likelihood=True, **parameters):
    """Log joint density of labels and parameters; w ~ N(0, rho^2 I)."""
    sigma = parameters.get("sigma")
    value = reference.log_prior_of_scales(p.priors, parameters["intercept"], sigma, rho)
    value += stats.norm.logpdf(parameters["w"], 0, rho).sum()
    for name in ("dispersion", "tau"):
        if name in parameters:
            value += stats.halfnorm.logpdf(parameters[name], scale=p.priors[f"{name}_scale"])
    if "effect" in parameters:
        value += stats.norm.logpdf(parameters["effect"], 0, parameters["tau"]).sum()
    return value + (log_likelihood(p, rho=rho, **parameters) if use_likelihood else 0.0)


def stan_parameters(p, data, point):
    """A Stan program's parameters at weights, intercept, scales and effects."""
    return {
        "t": reference.whiten(data, point["w"], point["intercept"], point["rho"]),
        "rho": point["rho"],
        "scale": [point[name] for name in LIKELIHOODS[p.likelihood].scales],
        "tau": [point["tau"]] if "tau" in point else [],
        "t_effect": whitened_effects(p, data, **point) if p.has_effects else [],
    }


def effect_coordinates(p, data, w, intercept, tau, rho):
    """Centre and unit of each bag's effect: effect = centre + unit t_effect."""
    mean = rate_means(p, w, intercept, np.zeros(len(p.psi)), rho)
    without = stats.logistic.ppf(mean) if p.link == "logit" else np.log(mean)
    information, target = map(np.asarray, (data["effect_information"], data["effect_target"]))
    precision = information + tau**-2.0
    return information / precision * (target - without), precision**-0.5


def whitened_effects(p, data, *, w, intercept, tau, effect, rho, **rest):
    centre, unit = effect_coordinates(p, data, w, intercept, tau, rho)
    return (effect - centre) / unit


def gradient(p, data, point, use_likelihood=True):
    """Slopes of the log density by a Stan program's unconstrained parameters, by differences."""
    scales = [name for name in ("rho", "dispersion", "tau") if name in point]
    n, k = len(data["linear_term"]) + 1, len(scales)

    def density(x):
        values = dict(zip(scales, np.exp(x[n : n + k])))
        w, intercept, jacobian = reference.unwhiten(data, x[:n], values["rho"])
        if p.has_effects:
            centre, unit = effect_coordinates(p, data, w, intercept, values["tau"], values["rho"])
            values["effect"] = centre + unit * x[n + k :]
            jacobian += np.log(unit).sum()
        value = log_density(p, w=w, intercept=intercept, use_likelihood=use_likelihood, **values)
        return value + jacobian + x[n : n + k].sum()  # and those of the logarithms

    given = stan_parameters(p, data, point)
    logs = np.log([point[name] for name in scales])
    return reference.gradient(density, np.r_[given["t"], logs, given["t_effect"]])


def check_density(model, p, data, points, **options):
    """The program's log density is that of SciPy's law, up to a constant."""
    stan = [density_of_weights(model, p, data, x) for x in points]
    gap = np.subtract([log_density(p, **x, **options) for x in points], stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


def check_gradient(model, p, data, points):
    """Its gradient is that of SciPy's law."""
    for point in points:
        parameters = stan_parameters(p, data, point)
        _, slope = reference.log_density(model, data, parameters, jacobian=True)
        np.testing.assert_allclose(slope, gradient(p, data, point), rtol=1e-8, atol=1e-8)


def check_errors_of_labels(model, p):
    """Known errors of labels add to the dispersion."""
    p = with_errors(p)
    data, points = stan_data(p), prior_points(p, 4)
    check_density(model, p, data, points)
    check_gradient(model, p, data, points[:1])


def check_refusal_of_known_effects(model, p):
    """Without likelihood labels say nothing of effects."""
    data = changed(stan_data(p, use_likelihood=False), {"effect_information": (1, 2.0)})
    assert "effect_information must be 0 where use_likelihood = 0" in refusal(model, p, data)


def check_prior_comes_back(model, p, draws):
    """Without likelihood so many draws have the moments of the prior."""
    data = stan_data(p, whitened=False, use_likelihood=False)
    drawn, scales = reference.sample(model, data, start_at(p), draws=draws), ("scale",)
    (d, n), named = (p.psi[0].shape[1], len(p.psi)), LIKELIHOODS[p.likelihood].scales
    names = ["w", "intercept", "rho", *(scales if named else ()), "tau", "t_effect"]
    rho = stats.lognorm(p.priors["rho_log_sd"], scale=p.priors["rho_median"])
    half = [stats.halfnorm(scale=p.priors[f"{name}_scale"]) for name in (*named, "tau")]
    mean = [0] * d + [p.priors["intercept_location"], rho.mean(), *(h.mean() for h in half)]
    variance = [rho.moment(2)] * d + [p.priors["intercept_scale"] ** 2, rho.var()]
    variance += [h.var() for h in half]
    drawn, labels = reference.columns(drawn, names)
    reference.assert_moments(drawn, mean + [0] * n, variance + [1] * n, labels)


def problem(likelihood, link, n=6):
    """A problem with three weights, its scales, and theta = [w; intercept]."""
    p, true = random_rates(np.random.default_rng(3), likelihood, link, n)
    scales = {name: 0.7 for name in ("dispersion", "sigma") if name in true}
    return p, {**scales, "rho": 0.4}, np.append(true["w"], true["intercept"])


# ---------------------------------------------------------------- what the package takes


class Given:
    """Feature map of points that are features already."""

    def __init__(self, d):
        self.n_inputs = self.n_columns = d

    def __call__(self, points, out=None, log_scale=0.0):
        if out is None:
            return np.array(points, float)
        out[:] = points
        return out


def labelled(y, likelihood, link, trials=None):
    """Labels of a likelihood and a link, both by name."""
    return Totals(Labels(np.asarray(y), trials=trials), LIKELIHOODS[likelihood], LINKS[link])


def labels_of(p):
    return labelled(p.y, p.likelihood, p.link, p.trials)


def compressed(p):
    """The bags' rows as a fit takes them: factors, weighted sums or the points."""
    bags = Bags.from_list(p.psi, weights=p.weights)
    rows = LINKS[p.link].rows(bags, Given(p.psi[0].shape[1]))
    known = {"known_variance": p.error_variance}
    return replace(rows, residual_variance=p.residual_variance, **known)


def point_rows(p):
    """The points of all bags with their rows [psi, 1]."""
    length = np.array([len(weights) for weights in p.weights])
    psi = np.vstack(p.psi)
    total = np.array([weights.sum() for weights in p.weights])
    noise = np.array([np.linalg.norm(weights) for weights in p.weights])
    rows = np.column_stack([psi, np.ones(len(psi))])
    weights, known = np.concatenate(p.weights), p.error_variance
    return AggregateRows(
        rows, length, weights, total, noise, p.residual_variance, known_variance=known
    )


def whitening(p, rows, whitened=True):
    """Coordinates at the mode for some scales, or those that do nothing."""
    d = rows.rows.shape[1] - 1
    if not whitened:
        return reference.plain_coordinates(d)
    intercept = p.priors["intercept_location"], p.priors["intercept_scale"]
    scales = dict.fromkeys(LIKELIHOODS[p.likelihood].scales, 0.5)
    density = aggregate_likelihood(rows, labels_of(p), **scales)
    mode = find_mode(density, np.eye(d), intercept, rho=RHO)
    return whitened_coordinates(mode, np.eye(d), RHO)


def stan_data(p, *, whitened=True, use_likelihood=True):
    """Data of the link's program as a fit gives them."""
    rows = compressed(p)
    coordinates = whitening(p, rows, whitened)
    of_programs = {name: v for name, v in coordinates.items() if not name.startswith("gamma")}
    data = aggregate_data(rows, labels_of(p), p.priors, has_effects=p.has_effects)
    if not use_likelihood:
        information = np.zeros_like(data["effect_information"])
        data |= {"use_likelihood": 0, "effect_information": information}
    return of_programs | data


def start_at(p):
    """Initial values for the link's program; those it has no parameter for are left aside."""
    return {
        "t": np.zeros(p.psi[0].shape[1] + 1),
        "rho": RHO,
        "scale": [0.5 for _ in LIKELIHOODS[p.likelihood].scales],
        "tau": [0.3] if p.has_effects else [],
        "t_effect": np.zeros(len(p.psi) if p.has_effects else 0),
    }


def refusal(model, p, data):
    """What a program says of data that make no sense."""
    with cmdstanpy.disable_logging(), pytest.raises(RuntimeError) as error:
        model.optimize(data, inits=start_at(p), seed=1)
    return str(error.value)


def prior_points(p, number):
    """Parameters from the priors."""
    rng = np.random.default_rng(7)
    return [draw_parameters(rng, p) for _ in range(number)]


def density_of_weights(model, p, data, point):
    """A Stan program's log density at weights, intercept, scales and effects."""
    value = reference.density_of_weights(model, data, stan_parameters(p, data, point))
    if not p.has_effects:
        return value
    at = {name: point[name] for name in ("w", "intercept", "tau", "rho")}
    return value - np.log(effect_coordinates(p, data, **at)[1]).sum()


# ---------------------------------------------------------------- data that make no sense


def changed(data, changes):
    """Data with some entries, or single numbers (index, value) of them, replaced."""
    data = dict(data)
    for name, change in changes.items():
        if isinstance(change, tuple):
            i, value = change
            data[name] = np.array(data[name])
            data[name][i] = value
        else:
            data[name] = change
    return data


REFUSED_ROWS = [
    ({"start": (0, 2)}, "start[1] must be 1, the first row that no bag before it has, found 2"),
    ({"start": (1, 1)}, "the first row that no bag before it has, found 1"),
    ({"length": (5, 1000)}, "bag 6 ends with row "),
    ({"length": (5, 0)}, "length[6]"),
    ({"rows": ((0, 1), np.nan)}, "row 1 of rows must hold finite numbers, found ["),
]
REFUSED_LABELS = [
    ({"y": (2, 1.5)}, "y[3] must be a whole number up to 2147483647, as counts are, found 1.5"),
    ({"y": (0, 2.0**31)}, "y[1] must be a whole number up to 2147483647"),
    ({"likelihood": 2}, "n_scales must be 1 where likelihood is 2, found 0"),
    ({"likelihood": 99}, "likelihood must be a number from 1 to "),
    ({"error_variance": (1, 0.2)}, "error_variance must be 0 where likelihood is 1, found 0.2"),
    ({"y": (1, -1.0)}, "y[2]"),
]
