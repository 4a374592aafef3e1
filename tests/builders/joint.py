"""Totals of bags and surveys of places: problems, their densities by SciPy, and data for Stan.

Written from the mathematics, place by place and point by point, apart from the package; the
functions at the end make what the package takes of such problems.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats
from scipy.special import expit

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.surveys import SurveyRows
from bdr_stan.families import FAMILIES
from bdr_stan.models.joint import JointModel
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.types import Array
from builders import reference, totals

LINE = ("survey_intercept", "survey_slope")
NAMES = ("first", "second")  # of two surveys
PRIORS = {
    "survey_slope_location": 0.8,
    "survey_slope_scale": 0.6,
    "survey_dispersion_scale": 0.5,
}


@dataclass(frozen=True)
class JointProblem:
    """Totals, and places of points with people examined.

    psi, weights : lists of arrays, shapes (n_s, d) and (n_s,), of the points of each place
    survey : array of int, the survey of each place, 0 or 1
    overall : float, log rate at which the log odds are survey_intercept
    """

    totals: totals.RateProblem
    psi: list
    weights: list
    family: str
    examined: Array
    survey: Array
    overall: float
    positives: Array | None = None

    @property
    def names(self):
        """Names of the surveys; a single one has none."""
        return NAMES if np.any(self.survey) else ()

    @property
    def priors(self):
        own = dict(PRIORS)
        for name, location, scale in zip(self.names or [""], (-0.6, 0.4), (0.7, 1.1)):
            bracket = f"[{name}]" if name else ""
            own[f"survey_intercept_location{bracket}"] = location
            own[f"survey_intercept_scale{bracket}"] = scale
        if self.family == "binomial":
            del own["survey_dispersion_scale"]
        return self.totals.priors | own


def random_joint(
    rng, likelihood="poisson", family="beta_binomial", has_effects=False, n=6, d=3, n_surveys=1
):
    """A problem whose parameters and labels come from the model, and the parameters."""
    of_totals, true = totals.random_rates(rng, likelihood, "exp", n, d, has_effects)
    sizes = rng.integers(1, 4, n + 2)
    p = JointProblem(
        of_totals,
        psi=[rng.normal(size=(size, d)) / np.sqrt(d) for size in sizes],
        weights=[rng.gamma(2, 1, size) for size in sizes],
        family=family,
        examined=rng.integers(1, 40, n + 2),
        survey=np.arange(n + 2) * n_surveys // (n + 3),  # the second has fewer
        overall=0.3,
    )
    true |= draw_line(rng, p)
    positives = law_of_positives(p, **true).rvs(random_state=rng)
    return replace(p, positives=positives.astype(float)), true


def draw_line(rng, p):
    """Intercepts and slopes of the surveys, and their dispersions, from the priors, (G,)."""
    drawn = {name: rng.normal(*line_prior(p, name)) for name in LINE}
    if p.family == "beta_binomial":
        scale = p.priors["survey_dispersion_scale"]
        drawn["survey_dispersion"] = abs(rng.normal(0, scale, p.survey[-1] + 1))
    return drawn


def line_prior(p, name):
    """Prior means and standard deviations of the surveys' intercepts or slopes, (2, G)."""
    numbers = [
        [value for key, value in p.priors.items() if key.startswith(f"{name}_{kind}")]
        for kind in ("location", "scale")
    ]
    return np.broadcast_to(numbers, (2, p.survey[-1] + 1))


def draw_parameters(rng, p):
    return totals.draw_parameters(rng, p.totals) | draw_line(rng, p)


def probabilities(p, w, intercept, survey_intercept, survey_slope, **rest):
    """Of a positive at each place."""
    found = []
    for psi, weights, g in zip(p.psi, p.weights, p.survey):
        f = intercept + psi @ w
        h = survey_intercept[g] + survey_slope[g] * (f - p.overall)
        found.append(np.average(expit(h), weights=weights))
    return np.array(found)


def law_of_positives(p, survey_dispersion=None, **parameters):
    probability = probabilities(p, **parameters)
    if p.family == "binomial":
        return stats.binom(p.examined, probability)
    precision = survey_dispersion[p.survey] ** -2.0
    return stats.betabinom(p.examined, precision * probability, precision * (1 - probability))


def of_totals(parameters):
    return {name: v for name, v in parameters.items() if not name.startswith("survey")}


def log_likelihood(p, **parameters):
    value = totals.log_likelihood(p.totals, **of_totals(parameters))
    return value + law_of_positives(p, **parameters).logpmf(p.positives).sum()


def log_density(p, use_likelihood=True, **parameters):
    """Log joint density of labels and parameters."""
    value = totals.log_density(p.totals, use_likelihood=use_likelihood, **of_totals(parameters))
    for name in LINE:
        value += stats.norm.logpdf(parameters[name], *line_prior(p, name)).sum()
    if p.family == "beta_binomial":
        scale = p.priors["survey_dispersion_scale"]
        value += stats.halfnorm.logpdf(parameters["survey_dispersion"], scale=scale).sum()
    if use_likelihood:
        value += law_of_positives(p, **parameters).logpmf(p.positives).sum()
    return value


def gamma_of(p, parameters):
    """What intercept and slope of the surveys are above their prior means."""
    return np.concatenate([parameters[name] - line_prior(p, name)[0] for name in LINE])


def stan_parameters(p, data, point):
    """The program's parameters at a point."""
    t = reference.whiten(data, point["w"], point["intercept"], point["rho"], gamma_of(p, point))
    own = p.totals
    effects = totals.whitened_effects(own, data, **of_totals(point)) if own.has_effects else []
    return {
        "t": t,
        "rho": point["rho"],
        "scale": [point[name] for name in LIKELIHOODS[own.likelihood].scales],
        "survey_dispersion": point.get("survey_dispersion", []),
        "tau": [point["tau"]] if own.has_effects else [],
        "t_effect": effects,
    }


def density_at(model, p, data, point):
    """The program's log density at weights, line, scales and effects."""
    parameters = stan_parameters(p, data, point)
    value = reference.log_density(model, data, parameters)[0]
    rho = point["rho"]
    value -= reference.unwhiten_all(data, parameters["t"], rho)[1]
    if p.totals.has_effects:
        at = {name: point[name] for name in ("w", "intercept", "tau", "rho")}
        value -= np.log(totals.effect_coordinates(p.totals, data, **at)[1]).sum()
    return value


def gradient(p, data, point):
    """Slopes of the log density by the program's unconstrained parameters, by differences."""
    of_scales = [name for name in ("rho", "dispersion") if name in point]
    of_surveys, k, d = point.get("survey_dispersion", []), len(of_scales), len(data["linear_term"])
    t = stan_parameters(p, data, point)["t"]

    def density(x):
        logs = x[len(t) :]
        values = dict(zip(of_scales, np.exp(logs[:k])))
        if len(of_surveys):
            values["survey_dispersion"] = np.exp(logs[k:])
        theta, jacobian = reference.unwhiten_all(data, x[: len(t)], values["rho"])
        lines = zip(LINE, theta[d:-1].reshape(2, -1))
        line = {name: above + line_prior(p, name)[0] for name, above in lines}
        value = log_density(p, w=theta[:d], intercept=theta[-1], **line, **values)
        return value + jacobian + logs.sum()

    logs = np.log([*(point[name] for name in of_scales), *of_surveys])
    return reference.gradient(density, np.r_[t, logs])


# ---------------------------------------------------------------- what the package takes


def surveys(p):
    """Rows of the places as a fit takes them."""
    rows = totals.point_rows(replace(p.totals, psi=p.psi, weights=p.weights))
    examined = p.examined.astype(float)
    return SurveyRows(None, p.positives, examined, p.survey, p.names, rows=rows)


def package_model(p):
    """The model of the package with the problem's priors."""
    return JointModel(
        totals.compressed(p.totals),
        totals.labels_of(p.totals),
        surveys(p),
        FAMILIES[p.family],
        prior=p.priors,
        bag_effects=p.totals.has_effects,
    )


def stan_data(p, *, whitened=True, use_likelihood=True):
    """Data of the program as a fit gives them, but with the problem's log overall rate."""
    model = package_model(p)
    data = model.data | {"overall": p.overall, "use_likelihood": int(use_likelihood)}
    if not use_likelihood:
        data["effect_information"] = np.zeros_like(data["effect_information"])
    if not whitened:
        d, q = p.psi[0].shape[1], 2 * data["G"]
        plain = {"gamma_centre": np.zeros(q), "gamma_slope": np.zeros((q, d))}
        plain |= {"gamma_unit": np.eye(q), "intercept_slope": np.zeros(d + q)}
        return data | reference.plain_coordinates(d) | plain
    scales, mode, _ = most_probable_scales(model)
    return data | model.whitening(scales, mode)


def start_at(p):
    """Initial values for the program."""
    n_surveys = p.survey[-1] + 1
    return totals.start_at(p.totals) | {
        "t": np.zeros(p.psi[0].shape[1] + 2 * n_surveys + 1),
        "survey_dispersion": [0.3] * n_surveys * len(FAMILIES[p.family].likelihood.scales),
    }
