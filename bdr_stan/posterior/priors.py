"""Default priors on the scale of the data, their table, and their log density at draws."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from bdr_stan.types import Array, ArrayLike, is_number

if TYPE_CHECKING:
    import pandas as pd

# Prior sd of log(rho), and of lengths, fixed at their marginal modes except with NUTS: without
# rho's own prior, its joint density with the weights grows without bound as both go to zero.
FIXED_LOG_SD = 1e-3

# Distribution -> its text, "%" for the parameter.
_TEXTS = {
    "normal": "normal({%_location:.4g}, {%_scale:.4g})",
    "normal about 0": "normal(0, {%_scale:.4g})",
    "half-normal": "half-normal(0, {%_scale:.4g})",
    "lognormal": "lognormal(log {%_median:.4g}, {%_log_sd:.4g})",
    "rayleigh": "rayleigh({%_scale:.4g})",
    "LKJ": "LKJ({%_shape:.4g})",
}
_CHANGE = "change of the % with an sd of a covariate, or with a level"
Texts = dict[str, tuple[str, str, str]]  # parameter -> text of its prior, meaning, unit


def _texts(**rows):
    """Texts of parameters of a distribution, meaning and unit each."""
    return {name: (_TEXTS[kind].replace("%", name), *rest) for name, (kind, *rest) in rows.items()}


# "y" is the unit of the labels.
REGRESSION: Texts = _texts(
    intercept=("normal", "label at the average embedding", "y"),
    gamma=("normal about 0", _CHANGE.replace("%", "label"), "y"),
    term_sd=(
        "half-normal",
        "standard deviation of each term: effects of groups, smooth functions",
        "y",
    ),
    term_length=(
        "lognormal",
        "length scale of smooth functions, by column",
        "half the column's range",
    ),
    sigma=("half-normal", "noise standard deviation", "y"),
    sigma_point=(
        "half-normal",
        "noise standard deviation of one point, of which labels are averages",
        "y",
    ),
    rho=("lognormal", "scale of the regression function", "y"),
    eta=(
        "lognormal",
        "variance of embeddings between bags, relative to their prior covariance R",
        "none",
    ),
)
# Models of two classes have no noise, and no unit.
CLASSES: Texts = {
    **_texts(
        intercept=("normal", "latent function at the average embedding", "none"),
        gamma=("normal about 0", _CHANGE.replace("%", "latent function"), "none"),
        rho=("lognormal", "scale of the latent function", "none"),
    ),
    "eta": REGRESSION["eta"],
}
# Embeddings given the label: coordinates in units of their residual between-bag spread.
INVERSE: Texts = {
    **_texts(
        level=("normal about 0", "level of each coordinate", "none"),
        tau=("rayleigh", "residual sd given the label", "none"),
        amplitude=("lognormal", "change of each coordinate with the label", "none"),
        curvature=("lognormal", "curvature of those curves, relative to their amplitude", "none"),
    ),
    "sigma_point": REGRESSION["sigma_point"],
}
# Models of rates inside the bags: the rate is a link of the function f. Scales of labels are the
# likelihood's.
RATES: Texts = _texts(
    intercept=("normal", "level of f", "f"),
    rho=("lognormal", "standard deviation of f, where k(x, x) = 1", "f"),
    tau=("half-normal", "standard deviation of the bags' own effects", "log rate or log odds"),
    effect_sd=(
        "half-normal",
        "standard deviation between bags of the coefficient of each column",
        "f",
    ),
    effect_correlation=("LKJ", "correlations of these coefficients", "none"),
)
# Joint fits: the line of the surveys' log odds in the log rate.
SURVEYS: Texts = _texts(
    survey_intercept=(
        "normal",
        "log odds of a positive at the overall rate of the totals",
        "log odds",
    ),
    survey_slope=("normal", "change of these log odds with the log rate", "none"),
    survey_dispersion=(
        "half-normal",
        "of the places' probabilities: variance p (1 - p) / (1 + d^-2)",
        "none",
    ),
)


def held_at(location: str, sd: str, values: ArrayLike) -> dict[str, Array]:
    """Data of normal priors, by their names, that hold scales > 0 at their marginal modes.

    For methods other than NUTS: the joint density with weights or effects that explain all labels
    is highest if a scale is 0.
    """
    values = np.asarray(values, float)
    return {location: values, sd: FIXED_LOG_SD * values}


def family_texts(scales: Mapping[str, Any]) -> Texts:
    """Texts of the priors of a regression of linear predictors with these scales of labels."""
    unit = "linear predictor"
    of_scales = {n: ("half-normal", scale.meaning, scale.unit) for n, scale in scales.items()}
    return {
        **_texts(
            intercept=("normal", "predictor at the average embedding", unit),
            gamma=("normal about 0", _CHANGE.replace("%", "predictor"), unit),
            rho=("lognormal", REGRESSION["rho"][1], unit),
            term_sd=("half-normal", REGRESSION["term_sd"][1], unit),
            **of_scales,
        ),
        **{name: REGRESSION[name] for name in ("term_length", "eta")},
    }


def weight_priors(
    location: float, spread: float, prior_variance: ArrayLike, n_covariates: int = 0
) -> dict[str, float]:
    """Default priors of intercept, covariates, noise and weights, from mean and sd of the labels.

    rho_median is such that the regression's prior sd over the bags is `spread`;
    `prior_variance` is the prior variance of each bag's predictive mean at rho = 1, shape (n,), or
    its average.
    """
    priors = predictor_priors(location, spread, prior_variance, n_covariates)
    return {**priors, "sigma_scale": spread}


def predictor_priors(
    location: float, spread: float, prior_variance: ArrayLike, n_covariates: int = 0
) -> dict[str, float]:
    """Default priors of intercept, covariates and weights of linear predictors of this spread."""
    return {
        "intercept_location": location,
        "intercept_scale": 2.5 * spread,
        "rho_median": spread / float(np.sqrt(np.mean(prior_variance))),
        "rho_log_sd": 1.5,
        **({"gamma_scale": 2.5 * spread} if n_covariates else {}),
    }


def class_priors(spread: float, prior_variance: Array, n_covariates: int = 0) -> dict[str, float]:
    """Default priors of a classifier; `spread` is the latent function's prior sd over the bags."""
    priors = predictor_priors(0.0, spread, prior_variance, n_covariates)
    return {**priors, "intercept_scale": 5 / 3 * spread, "rho_log_sd": 1.0}


def with_user_values(
    defaults: dict[str, float], user_values: Mapping[str, float] | None
) -> dict[str, float]:
    """Defaults with some replaced by the user's numbers; ValueError for invalid ones."""
    for name, value in (user_values or {}).items():
        if name not in defaults:
            raise ValueError(
                f"prior has no number called {name!r}; this model has {', '.join(defaults)}"
            )
        check_prior_number(name, value)
    return {**defaults, **{name: float(value) for name, value in (user_values or {}).items()}}


def check_prior_number(name: Any, value: Any) -> None:
    """Raise ValueError unless the value is finite, and positive if it is a scale."""
    if not is_number(value) or not np.isfinite(float(value)):
        raise ValueError(f"prior[{name!r}] must be a finite number, found {value!r}")
    if not str(name).split("[")[0].endswith("_location") and not float(value) > 0:
        raise ValueError(f"prior[{name!r}] must be positive, found {value!r}")


def prior_centres(priors: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """A central value of each scale's prior: half a half-normal's scale, or the median."""
    numbers = {name: _prior_of_scale(priors, name) for name in names}
    return {
        name: scale / 2 if median is None else median
        for name, (scale, median, _) in numbers.items()
    }


def draw_scale(priors: Mapping[str, float], name: str, n: int, rng: np.random.Generator) -> Array:
    """Draws of a scale from its prior, half-normal or lognormal, shape (n,)."""
    z = rng.standard_normal(n)
    scale, median, log_sd = _prior_of_scale(priors, name)
    return scale * np.abs(z) if median is None else median * np.exp(log_sd * z)


def log_prior_of_scales(priors: Mapping[str, float]) -> Callable[..., float]:
    """Log prior density of a model's scales (sigma, rho, ...) with respect to their logarithms."""

    def log_prior(**scales):
        value = 0.0
        for name, x in scales.items():
            scale, median, log_sd = _prior_of_scale(priors, name)
            if median is None:
                value += np.log(x) - 0.5 * (x / scale) ** 2
            else:
                value -= 0.5 * (np.log(x / median) / log_sd) ** 2
        return value

    return log_prior


def _prior_of_scale(priors, name):
    """Scale of a half-normal prior, median and log sd of a lognormal one; else None.

    Entries of an array, "eta[1]", may share them.
    """
    kind, bracket, entry = name.partition("[")
    keys = ((f"{kind}_{n}{bracket}{entry}", f"{kind}_{n}") for n in ("scale", "median", "log_sd"))
    return [priors.get(key, priors.get(shared)) for key, shared in keys]


def table(priors: Mapping[str, float], texts: Mapping[str, tuple[str, str, str]]) -> "pd.DataFrame":
    """Priors as a table: parameter, distribution, meaning, unit; those that `priors` has."""
    import pandas as pd

    shown = []
    for name, (text, meaning, unit) in texts.items():
        kinds = [f"{name}_{kind}" for kind in ("scale", "median", "shape")]
        keys = [key for key in priors if key.split("[")[0] in kinds]
        for key in keys:  # one, or of several samples one each
            _, bracket, entry = key.partition("[")
            numbers = {
                other.removesuffix(bracket + entry): value
                for other, value in priors.items()
                if "[" not in other or other.endswith(bracket + entry)
            }
            shown.append((name + bracket + entry, text.format(**numbers), meaning, unit))
    table = pd.DataFrame(shown, columns=["parameter", "prior", "meaning", "unit"])
    return table.set_index("parameter")


def _lkj(correlation, numbers):
    """Of correlation matrices, shape (..., K, K), without the constant; shape (...)."""
    return (numbers["shape"] - 1) * np.linalg.slogdet(correlation)[1]


# Distribution in the text of a prior -> log density at values given the prior's numbers.
_LOG_DENSITIES: dict[str, Callable[[Array, Mapping[str, Array]], Array]] = {
    "normal": lambda x, p: stats.norm.logpdf(x, p.get("location", 0.0), p["scale"]),
    "half-normal": lambda x, p: stats.halfnorm.logpdf(x, scale=p["scale"]),
    "lognormal": lambda x, p: stats.lognorm.logpdf(x, p["log_sd"], scale=p["median"]),
    "rayleigh": lambda x, p: stats.rayleigh.logpdf(x, scale=p["scale"]),
    "LKJ": _lkj,
}
_PRIOR_NUMBERS = ("location", "scale", "median", "log_sd", "shape")


def log_prior(
    priors: Mapping[str, float],
    texts: Mapping[str, tuple[str, str, str]],
    draws: Mapping[str, Array],
) -> dict[str, Array]:
    """Log prior density of each parameter that has a row in `priors.table`, at its draws.

    `draws` are in the priors' units, shape (chain, draw, ...); the result has the same shape, but
    (chain, draw) for correlation matrices.
    """
    log_densities = {}
    for name, (text, _, _) in texts.items():
        numbers = {kind: _numbers(priors, f"{name}_{kind}") for kind in _PRIOR_NUMBERS}
        numbers = {kind: values for kind, values in numbers.items() if len(values)}
        values = draws.get(name)
        if values is None or not numbers or values.size == 0:
            continue
        alike = {kind: v if len(v) > 1 else v[0] for kind, v in numbers.items()}
        log_densities[name] = _LOG_DENSITIES[text.partition("(")[0]](values, alike)
    return log_densities


def _numbers(priors, key):
    """One number, or one per sample, "rho_median[1]", in their order."""
    return np.array([value for name, value in priors.items() if name.split("[")[0] == key])
