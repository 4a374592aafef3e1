"""Plain programs: stock models of few bags, data of both programs, and the map between them.

The reference densities are written from the formulas, apart from the package: loops over bags,
SciPy's distributions.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import stats

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import training_features
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel, BLRModel
from bdr_stan.models.bdr_glm import FamilyModel
from bdr_stan.models.embedding_model import order_by_size
from bdr_stan.models.two_classes import LogitModel, ProbitModel
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.posterior.settings import SamplerSettings
from builders import reference
from builders.families import EXAMPLES, FAMILIES, log_density_of_time, scipy_log_density
from builders.training import labelled_bags

N = 14
OF_FAMILIES = {f"bdr_{name}": family for name, family in FAMILIES.items()}
PROGRAMS = ["blr", "blr_logit", "bdr", "bdr_probit", *OF_FAMILIES]
EXACT = ["blr", "blr_logit"]  # programs without shrinkage
OF_CLASSES = ["blr_logit", "bdr_probit"]
WITH_LABEL_SD = ["blr", "bdr"]
# Parameters that say nothing of exact embeddings.
SILENT = {"eta": 0.8, "u": np.linspace(-1, 2, N)}
OF_TIMES = [program for program, family in OF_FAMILIES.items() if "event" in family.takes]
WITH_TRIALS = [program for program, family in OF_FAMILIES.items() if "trials" in family.takes]


def scales_of(program):
    """Names of the scales of the labels' distribution; of ordinal labels the gaps are one."""
    if program in OF_FAMILIES:
        return list(OF_FAMILIES[program].likelihood.scales)
    return [] if program in OF_CLASSES else ["sigma"]


def labels(program, y, trials, rng):
    """Labels of the kind that the program takes, from numbers y."""
    h = (y - y.mean()) / y.std()
    if program in OF_CLASSES:
        return (h > rng.logistic(0, 0.3, len(y))).astype(int)
    if program not in OF_FAMILIES:
        return y
    family = OF_FAMILIES[program]
    example, level = EXAMPLES[family.name], np.log(5) * (family.link == "log")
    return example.draw(rng, level + h, trials, **example.scales)


# ---------------------------------------------------------------- stock models


@dataclass(frozen=True)
class Stock:
    """A stock model, data of its accelerated program, and what these were made from."""

    program: str  # the plain one
    model: LatentGaussianModel
    data: dict
    init: dict
    embedding: Embedding
    labels: Labels


@cache
def stock(program, *, options=False, exact=False):
    """A model of bags of several sizes.

    `options` are covariates, and label_sd, trials or known parts where the program has them.
    """
    rng = np.random.default_rng(3)
    bags, y = labelled_bags(rng, N)
    training = training_features(bags, n_landmarks=3, covariance=True, seed=1)
    trials = rng.choice([1, 4, 30], N).astype(float) if program in WITH_TRIALS else None
    y = labels(program, y, trials if trials is None else trials.astype(int), rng)
    offset = None
    if options:
        x = rng.normal(size=(N, 2))
        training = replace(training, embedding=replace(training.embedding, covariates=x))
        if program in OF_FAMILIES:
            offset = rng.normal(0, 0.5, N)
    label_sd = rng.choice([0.0, 0.2, 0.7], N) * (options and program in WITH_LABEL_SD)
    of_bags = Labels(y, label_sd=label_sd, trials=trials, offset=offset)
    if options and program in OF_TIMES:
        event, entry = rng.binomial(1, 0.5, N), y * rng.choice([0.0, 0.3, 0.9], N)
        of_bags = replace(of_bags, event=event.astype(float), entry=entry)
    model = _model(program, training, of_bags, exact)
    settings = SamplerSettings("nuts", seed=1, progress=False)
    given = model.stan_input(settings)
    return Stock(program, model, given.data, given.inits[0], training.embedding, of_bags)


def _model(program, training, labels, exact):
    embedding = training.embedding
    if program == "bdr":
        return BDRModel.of_training(training, labels, lossless=False)
    if program == "blr":
        return BLRModel(embedding, labels, lossless=False)
    if program == "blr_logit":
        return LogitModel(embedding, labels)
    if program == "bdr_probit":
        return ProbitModel.of_training(training, labels)
    family = OF_FAMILIES[program]
    labels = replace(labels, y=labels.y.astype(float))
    if exact:
        return FamilyModel(embedding, labels, family)
    return FamilyModel.of_training(training, labels, family)


def plain_data(stock, new=()):
    """Data of the plain program of a stock model; `new` are indices of its bags, as new bags."""
    constants = {name: values for name, (values, _) in stock.model.constants.items()}
    coordinates, embedding = Coordinates.from_constants(constants), stock.embedding
    (n, d), labels = embedding.mean.shape, stock.labels
    priors = {"eta_median": 0.7, "eta_log_sd": 0.4} | stock.model.priors  # exact ones have no eta
    Q = stock.model.n_covariates
    per_bag = {
        "z": coordinates.transform(embedding.mean),
        "x": embedding.x,
        "size": embedding.sizes,
        "label_sd": labels.label_sd,
        "known_part": np.zeros(n) if labels.offsets is None else labels.offsets,
        "trials": np.zeros(n, int) if labels.trials is None else labels.trials.astype(int),
        "event": np.ones(n) if labels.event is None else labels.event,
        "entry": np.zeros(n) if labels.entry is None else labels.entry,
    }
    new = np.array(new, int)
    y = labels.y + (stock.program == "bdr_ordinal")
    node = np.linspace(-8, 8, 321)
    weights = stats.norm.logpdf(node) + np.log(node[1] - node[0])
    nodes = {"J": len(node), "node": node, "log_weight": weights}
    gaps = {"K": 4, "gap_scale": [priors.get(f"gap_{k}_scale", 1.0) for k in (2, 3)]}
    return {
        "N": n,
        "N_new": len(new),
        "D": d,
        "Q": Q,
        **per_bag,
        **{f"{name}_new": values[new] for name, values in per_bag.items()},
        "y": y,
        "y_at": y[new],
        "lambda": coordinates.lam,
        "prior_factor": coordinates.prior_factor,
        **(gaps if stock.program == "bdr_ordinal" else {}),
        **(nodes if stock.program in OF_FAMILIES else {}),
        **priors,
        "gamma_scale": np.full(Q, priors.get("gamma_scale", 1.0)),
    }


# ---------------------------------------------------------------- from the accelerated program


def layout(stock):
    """The accelerated program's parameters in their order -> number of entries."""
    data, scales = stock.data, scales_of(stock.program)
    uncertain = stock.program not in EXACT and data.get("uncertain", 1)
    parts = {"t": data["D"] + data["Q"] + 1}
    if stock.program not in OF_FAMILIES:
        parts |= dict.fromkeys(scales, 1)
    parts |= {"rho": 1, "eta": 1} if uncertain else {"rho": 1}
    if stock.program in OF_FAMILIES:
        parts |= {"scale": len(scales), "e": N * uncertain}
    return parts


def split(stock, q):
    """Its parameters at an unconstrained point, a name -> values; bounded ones are > 0."""
    parts = layout(stock)
    values = dict(zip(parts, np.split(q, np.cumsum(list(parts.values()))[:-1]), strict=True))
    return {name: v if name in ("t", "e") else np.exp(v) for name, v in values.items()}


def parameters_of(stock, q):
    """The plain program's parameters at an unconstrained point of the accelerated one.

    And the log Jacobian of t and e -> theta and u, but for a constant. Eta and u are those of
    `SILENT` where the accelerated program takes embeddings as exact.
    """
    values, D, Q = split(stock, q), stock.data["D"], stock.data["Q"]
    rho = values["rho"][0]
    theta, log_jacobian = reference.unwhiten_all(stock.data, values["t"], rho)
    found = {"w": theta[:D], "gamma": theta[D : D + Q], "intercept": theta[-1], "rho": rho}
    found["intercept"] += stock.model.level if stock.program in WITH_LABEL_SD else 0.0
    if stock.program not in EXACT:
        found["eta"] = values["eta"][0] if "eta" in values else SILENT["eta"]
    if stock.program in OF_FAMILIES:
        found["u"] = SILENT["u"]
        if stock.data["uncertain"]:
            found["u"], more = deviations(stock, values, theta)
            log_jacobian += more
    scales = scales_of(stock.program)
    numbers = values["scale"] if "scale" in values else np.ravel([values[s] for s in scales])
    if stock.program == "bdr_ordinal":
        return {**found, "gap": numbers}, log_jacobian
    return {**found, **dict(zip(scales, numbers, strict=True))}, log_jacobian


def deviations(stock, values, theta):
    """Deviations u of the bags in their order from e, and the log Jacobian of e -> u."""
    data, row = stock.data, np.argsort(order_by_size(stock.embedding.sizes))
    z, size, eta = data["z"][row], stock.embedding.sizes, values["eta"][0]
    s = eta / (eta + data["lambda"] / size[:, None])
    w = theta[: data["D"]]
    nu = eta * (1 - s) @ w**2
    h = data["known_part"][row] + (s * z) @ w + data["x"][row] @ theta[len(w) : -1] + theta[-1]
    information = data["label_information"][row]
    dispersion = values["scale"][0] if data["n_scales"] else 0.0
    known = information / (1 + dispersion**2 * information * data["label_variance"][row])
    u_sd = 1 / np.sqrt(1 + nu * known)
    u_mean = np.sqrt(nu) * known * (data["label_centre"][row] - h) * u_sd**2
    return u_mean + u_sd * values["e"][row], np.sum(np.log(u_sd))


def points(stock, number):
    """Unconstrained points of the accelerated program near its mode."""
    rng = np.random.default_rng(11)
    for _ in range(number):
        near = []
        for name, size in layout(stock).items():
            centre = 0.0 if name in ("t", "e") else np.log(np.ravel(stock.init[name])[:size])
            near.append(centre + rng.normal(0, 0.7, size))
        yield np.concatenate(near)


# ---------------------------------------------------------------- from the formulas


def moments_of_predictor(program, data, p, new=False):
    """Mean and variance nu of each bag's linear predictor, its embedding integrated out."""
    suffix, mean, nu = "_new" if new else "", [], []
    for i in range(data["N_new" if new else "N"]):
        size = np.inf if program in EXACT else data[f"size{suffix}"][i]
        sampling = data["lambda"] / size
        s = np.ones(data["D"]) if program in EXACT else p["eta"] / (p["eta"] + sampling)
        known = data[f"known_part{suffix}"][i] if program in OF_FAMILIES else 0.0
        of_z = sum(s[k] * data[f"z{suffix}"][i, k] * p["w"][k] for k in range(data["D"]))
        of_x = data[f"x{suffix}"][i] @ p["gamma"]
        mean.append(known + p["intercept"] + of_z + of_x)
        nu.append(sum(p.get("eta", 0.0) * (1 - s[k]) * p["w"][k] ** 2 for k in range(data["D"])))
    return np.array(mean), np.array(nu)


def family_scales(program, p):
    """The scales of a family by the names of the package."""
    if program == "bdr_ordinal":
        return {"gap_2": p["gap"][0], "gap_3": p["gap"][1]}
    return {name: p[name] for name in scales_of(program)}


def log_density_of_label(program, data, p, i, y, mean, nu, new=False):
    """Log density of a bag's label; of families where the linear predictor is `mean`."""
    if program in WITH_LABEL_SD:
        error = data["label_sd_new" if new else "label_sd"][i]
        return stats.norm.logpdf(y, mean, np.sqrt(p["sigma"] ** 2 + error**2 + nu))
    if program == "blr_logit":
        return stats.logistic.logcdf((2 * y - 1) * mean)
    if program == "bdr_probit":
        return stats.norm.logcdf((2 * y - 1) * mean / np.sqrt(1 + nu))
    trials = data["trials_new" if new else "trials"][i] if program in WITH_TRIALS else None
    label = y - (program == "bdr_ordinal")
    scales = family_scales(program, p)
    if program in OF_TIMES:
        which = "_new" if new else ""
        event, entry = data[f"event{which}"][i], data[f"entry{which}"][i]
        return float(log_density_of_time(program[4:], y, mean, event, entry, **scales))
    return float(scipy_log_density(program[4:], label, mean, trials, scales))


def log_density(program, data, p):
    """Log joint density of labels and parameters, scales on the log scale."""
    of_labels = ["gap"] if program == "bdr_ordinal" else scales_of(program)
    scales = np.concatenate([[], *(np.ravel(p[name]) for name in of_labels)])
    widths = np.concatenate([[], *(np.ravel(data[f"{name}_scale"]) for name in of_labels)])
    value = stats.norm.logpdf(p["intercept"], data["intercept_location"], data["intercept_scale"])
    covariance = p["rho"] ** 2 * np.linalg.inv(data["prior_factor"].T @ data["prior_factor"])
    value += stats.multivariate_normal.logpdf(p["w"], cov=covariance)
    value += stats.norm.logpdf(p["gamma"], 0, data["gamma_scale"]).sum()
    value += stats.halfnorm.logpdf(scales, scale=widths).sum()
    value += np.sum(np.log([*scales, p["rho"]]))
    for name in ("rho", "eta") if "eta" in p else ("rho",):
        median, log_sd = data[f"{name}_median"], data[f"{name}_log_sd"]
        value += stats.lognorm.logpdf(p[name], log_sd, scale=median)
    mean, nu = moments_of_predictor(program, data, p)
    if program in OF_FAMILIES:
        value += np.log(p["eta"]) + stats.norm.logpdf(p["u"]).sum()
        mean = mean + np.sqrt(nu) * p["u"]
    elif "eta" in p:
        value += np.log(p["eta"])
    return value + sum(
        log_density_of_label(program, data, p, i, data["y"][i], mean[i], nu[i])
        for i in range(data["N"])
    )


def mean_and_variance(program, data, p, i, h, nu):
    """Of a new bag's label; of families where the linear predictor is h."""
    if program in WITH_LABEL_SD:
        return h, p["sigma"] ** 2 + data["label_sd_new"][i] ** 2 + nu
    if program in OF_CLASSES:
        logit = program == "blr_logit"
        share = stats.logistic.cdf(h) if logit else stats.norm.cdf(h / np.sqrt(1 + nu))
        return share, share * (1 - share)
    n, scales, family = data["trials_new"][i], family_scales(program, p), OF_FAMILIES[program]
    if program in OF_TIMES:
        distribution = family.distribution(np.exp(h), **scales)
        return distribution.mean(), distribution.var()
    if program == "bdr_ordinal":
        each = np.exp([scipy_log_density("ordinal", k, h, None, scales) for k in range(4)])
        level = (np.arange(1, 5)[:, None] * each).sum(axis=0)
        return level, ((np.arange(1, 5)[:, None] - level) ** 2 * each).sum(axis=0)
    if family.link == "logit":
        mean = stats.logistic.cdf(h) * (n if program in WITH_TRIALS else 1)
    else:
        mean = np.exp(h) if family.link == "log" else h
    return mean, EXAMPLES[family.name].variance(mean, n, **scales)


def generated_at(model, point, number, names, seed=1):
    """Generated quantities, (20, number / 20, ...), drawn again and again at one point."""
    fit = model.sample(
        chains=1,
        warmup=0,
        samples=number,
        inits=model.unconstrain(point),
        adapt_engaged=False,
        step_size=1e-300,  # of NUTS, which stays where it is
        max_depth=1,
        refresh=0,
        seed=seed,
    )
    assert np.ptp(fit.draws("intercept")) == 0
    return [fit.draws(each).reshape(20, number // 20, -1) for each in names]
