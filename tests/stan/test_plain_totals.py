"""Plain programs of totals: the posterior of the accelerated ones, labels and rates of new bags."""

from functools import cache

import numpy as np
import pytest
from builders import reference, totals
from builders.plain import generated_at
from scipy import stats
from scipy.special import logsumexp

from bdr_stan.cmdstan.programs import program_path
from bdr_stan.models.plain import NODES
from bdr_stan.models.totals import TotalsModel
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.posterior.stanli import constrained, load

# Program -> likelihood, link, whether bags have effects.
PROGRAMS = {
    "totals_square": ("negative binomial", "square", False),
    "totals_square_poisson": ("poisson", "square", False),
    "totals_exp": ("negative binomial", "exp", False),
    "totals_exp_poisson": ("poisson", "exp", False),
    "totals_exp_effects": ("poisson", "exp", True),
    "totals_identity": ("normal", "identity", False),
}
EVERY = pytest.mark.parametrize("name", PROGRAMS)
N, D = 6, 3
NEW = [0, 3, 5]
N_DRAWS = 20_000


@cache
def problem(name):
    return totals.random_rates(
        np.random.default_rng(4), *PROGRAMS[name][:2], N, D, PROGRAMS[name][2]
    )


def plain_data(name, new=()):
    """Data of a plain program; `new` are numbers of its bags, as new bags."""
    p, _ = problem(name)
    omitted = [
        np.full(len(each), c / each.sum()) for each, c in zip(p.weights, p.residual_variance)
    ]
    if PROGRAMS[name][1] != "square":  # whose totals do not depend on them
        omitted = [np.linspace(0, 0.5, len(each)) for each in p.weights]
    data = {"D": D, **NODES, **p.priors}
    for suffix, bags in {"": range(N), "_new": new}.items():
        length = np.array([len(p.weights[a]) for a in bags], int)
        data |= {
            f"N{suffix}": len(length),
            f"P{suffix}": int(length.sum()),
            f"phi{suffix}": np.concatenate([np.empty((0, D)), *(p.psi[a] for a in bags)]),
            f"weight{suffix}": np.concatenate([[], *(p.weights[a] for a in bags)]),
            f"omitted{suffix}": np.concatenate([[], *(omitted[a] for a in bags)]),
            f"start{suffix}": np.cumsum(length) - length + 1,
            f"length{suffix}": length,
            f"label_sd{suffix}": np.zeros(len(length)),
        }
    y = p.y if name == "totals_identity" else p.y.astype(int)
    return data | {"y": y, "y_at": y[list(new)]}


def plain_model(name, new=()):
    return load(program_path(name, fast=False), plain_data(name, new))


def at(point):
    """Parameters of a plain program as `unconstrain` takes them."""
    values = {name: v.tolist() if np.ndim(v) else float(v) for name, v in point.items()}
    if "effect" in values:
        values["u"] = (np.array(values.pop("effect")) / point["tau"]).tolist()
    return values


# ---------------------------------------------------------------- the accelerated programs


class Accelerated:
    """The accelerated program of the same posterior, and its points as parameters."""

    def __init__(self, name):
        self.name, (self.p, _) = name, problem(name)
        if name == "totals_identity":
            model = TotalsModel(
                totals.compressed(self.p), totals.labels_of(self.p), prior=self.p.priors
            )
            self.data = model.stan_input(SamplerSettings(seed=1, progress=False)).data
            self.level, program, self.scales = model.level, "blr", ["sigma", "rho"]
        else:
            self.data, self.level = totals.stan_data(self.p), 0.0
            program = f"aggregate_{self.p.link}"
            self.scales = ["rho", *["dispersion"] * ("dispersion_scale" in self.p.priors)]
            self.scales += ["tau"] * self.p.has_effects
        self.model = load(program, self.data)
        self.n = D + 1 + len(self.scales) + N * self.p.has_effects

    def parameters_of(self, q):
        """Parameters at an unconstrained point, and the log Jacobian of t and t_effect -> these.

        Up to a constant; effects of bags are over tau, as `u` of the plain program.
        """
        values = dict(zip(self.scales, np.exp(q[D + 1 : D + 1 + len(self.scales)])))
        w, intercept, log_jacobian = reference.unwhiten(self.data, q[: D + 1], values["rho"])
        found = {"w": w, "intercept": intercept + self.level, **values}
        if self.p.has_effects:
            given = {"tau": values["tau"], "rho": values["rho"]}
            centre, unit = totals.effect_coordinates(self.p, self.data, w, intercept, **given)
            found["effect"] = centre + unit * q[-N:]
            log_jacobian += np.log(unit / values["tau"]).sum()
        return found, log_jacobian

    def points(self, number):
        rng = np.random.default_rng(11)
        return [rng.normal(0, 0.5, self.n) for _ in range(number)]


@EVERY
def test_log_density_and_gradient_are_those_of_the_accelerated_program(name):
    accelerated, plain = Accelerated(name), plain_model(name)

    def image(q):
        return np.array(plain.unconstrain(at(accelerated.parameters_of(q)[0])))

    gaps, sizes = [], []
    for q in accelerated.points(4):
        value, slope = accelerated.model.log_prob_grad(q)
        at_image, of_image = plain.log_prob_grad(image(q))
        by_q = reference.gradient(lambda x, slope=of_image: slope @ image(x), q)
        by_q += reference.gradient(lambda x: accelerated.parameters_of(x)[1], q)
        np.testing.assert_allclose(by_q, slope, rtol=0, atol=1e-8 * np.abs(slope).max())
        gaps.append(value - at_image - accelerated.parameters_of(q)[1])
        sizes.append(abs(value))
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=1e-10 * max(sizes))


# ---------------------------------------------------------------- the formulas


@EVERY
def test_log_density_is_that_of_the_formulas(name):
    p, _ = problem(name)
    plain, gaps = plain_model(name), []
    for point in totals.prior_points(p, 4):
        value, _ = plain.log_prob_grad(plain.unconstrain(at(point)))
        jacobian = sum(
            np.log(point[n]) for n in ("rho", "sigma", "dispersion", "tau") if n in point
        )
        jacobian += N * np.log(point["tau"]) if "effect" in point else 0.0
        gaps.append(value - totals.log_density(p, **point) - jacobian)
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-10, atol=1e-8)


def test_label_sd_adds_to_the_variance():
    name, (p, true) = "totals_identity", problem("totals_identity")
    label_sd = np.linspace(0, 2, N)
    model = load(program_path(name, fast=False), plain_data(name) | {"label_sd": label_sd})
    mean, sd = totals.law_and_arguments(p, **true)[1]
    expected = stats.norm.logpdf(p.y, mean, np.hypot(sd, label_sd)).sum()
    expected -= stats.norm.logpdf(p.y, mean, sd).sum()
    point = plain_model(name).unconstrain(at(true))
    found = model.log_prob_grad(point)[0] - plain_model(name).log_prob_grad(point)[0]
    assert found == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- predictions


def drawn(name, point, number):
    """Generated quantities, (20, number / 20, ...), drawn again and again at one point."""
    model = plain_model(name, NEW)
    return generated_at(model, at(point), number, ("y_new", "log_lik", "rate_new"))


def point_of(name):
    """Parameters in the middle of the prior; bags have no effect that is known."""
    _, true = problem(name)
    return true | {n: 0.4 for n in ("rho", "sigma", "dispersion", "tau") if n in true}


@EVERY
def test_new_labels_have_the_moments_of_their_distribution(name):
    p, _ = problem(name)
    point = {n: v for n, v in point_of(name).items() if n != "effect"}
    y_new, log_lik, _ = drawn(name, point_of(name), N_DRAWS)
    law, arguments = totals.law_and_arguments(p, **point)
    mean, variance = (np.array(m)[NEW] for m in law.stats(*arguments, moments="mv"))
    if p.has_effects:
        factor = np.exp(point["tau"] ** 2 / 2)
        variance = mean * factor + mean**2 * factor**2 * np.expm1(point["tau"] ** 2)
        mean = mean * factor
    reference.assert_moments(y_new, mean, variance, [f"y_new[{i}]" for i in NEW])
    if not p.has_effects:
        log_density = (law.logpmf if name != "totals_identity" else law.logpdf)(p.y, *arguments)
        np.testing.assert_allclose(log_lik[0, 0], log_density[NEW], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tau", [0.05, 0.4, 3.0])
@pytest.mark.parametrize("intercept", [-2.0, 1.0, 4.0])
def test_log_lik_of_effects_integrates_the_effect_out(tau, intercept):
    name = "totals_exp_effects"
    point = point_of(name) | {"tau": tau, "effect": np.zeros(N), "intercept": intercept}
    (mean,) = totals.law_and_arguments(problem(name)[0], **point)[1]
    labels = np.round(mean[NEW] * np.exp(tau * np.array([-3, 0, 3]))).astype(int)
    data = plain_data(name, NEW) | {"y_at": labels}
    model = load(program_path(name, fast=False), data)
    draws = constrained(model, np.array([model.unconstrain(at(point))]))[0]
    u = np.linspace(-12, 12, 200_001)
    each = stats.poisson.logpmf(labels[:, None], mean[NEW, None] * np.exp(tau * u))
    expected = logsumexp(each + stats.norm.logpdf(u) + np.log(u[1] - u[0]), axis=1)
    np.testing.assert_allclose(draws["log_lik"][0, 0], expected, rtol=0, atol=1e-3)


@EVERY
def test_new_rates_have_the_moments_of_the_rate_and_what_the_features_omit(name):
    point, data = point_of(name), plain_data(name, NEW)
    _, _, rates = drawn(name, point, N_DRAWS)
    f = point["intercept"] + data["phi_new"] @ point["w"]
    v = point["rho"] ** 2 * data["omitted_new"]
    mean, variance = {
        "square": (f**2 + v, 4 * f**2 * v + 2 * v**2),
        "exp": (np.exp(f), np.exp(2 * f) * np.expm1(v)),
        "identity": (f, v),
    }[PROGRAMS[name][1]]
    known = v == 0
    np.testing.assert_allclose(rates[0, 0, known], mean[known], rtol=1e-12)
    names = [f"rate_new[{j}]" for j in np.flatnonzero(~known)]
    reference.assert_moments(rates[..., ~known], mean[~known], variance[~known], names)


@EVERY
def test_a_program_takes_no_new_bags_and_points_without_bags(name):
    data = plain_data(name, NEW)
    of_bags = {"N_new": 0, "start_new": [], "length_new": [], "label_sd_new": [], "y_at": []}
    of_points, neither = load(program_path(name, fast=False), data | of_bags), plain_model(name)
    origin = np.zeros((1, neither.n_unconstrained))
    found = constrained(of_points, origin)[0]
    assert found["rate_new"].shape == (1, 1, data["P_new"]) and "y_new" not in found
    assert not {"y_new", "log_lik", "rate_new"} & set(constrained(neither, origin)[0])
