"""What the parts of the whitening are worth: NUTS with all of it, without some, without any.

    python benchmarks/whitening.py                    all estimators, hours
    python benchmarks/whitening.py --only BDR --bags 60 --seeds 5
    python benchmarks/whitening.py --quick

Whatever the whitening's data, the posterior is the same, so all forms are fits by the programs as
they are, with other data:

* shipped;
* no mode shift: t does not follow sigma and eta (BDR of 500 bags and more);
* no centre: nor the mode of the weights as rho changes;
* no slopes: intercept and covariates' weights are not regressed on the weights;
* scale: none of these, w = axes (t / sqrt(information + 1 / rho^2)), intercept itself;
* dense metric: units of t do not change with rho, as if NUTS had the mode's covariance as metric;
* diagonal metric: weights and intercept themselves, NUTS begins with their variances at the mode.

All start equally far from the mode, and a step costs the same, so that effective samples per step
tell them apart, however busy the machine is. Per estimator, number of bags and form: steps per
draw, the smallest bulk ESS of 1,000 steps, the same relative to "shipped" (geometric means over
data sets), processor seconds of the chains, divergences and the largest R-hat of all.
"""

import argparse
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from warmup import ESTIMATORS, measured

from bdr_stan import BDR, AggregateRegressor
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel

# InverseBDR has no such weights, and two kinds have the programs and data of others.
_LEFT_OUT = ("InverseBDR", "Shrinkage", "totals, negative binomial")
KINDS = {
    **{name: value for name, value in ESTIMATORS.items() if name not in _LEFT_OUT},
    "totals, exp": (AggregateRegressor(n_landmarks=20, link="exp"), "counts"),
    "BDR, covariates": (BDR(covariates=["first", "second"]), "normal"),
}
COLUMNS = (
    "estimator",
    "bags",
    "form",
    "steps",
    "ESS of 1,000 steps",
    "relative",
    "s",
    "divergences",
    "R-hat",
)
CHAINS = 2
_ALMOST_INFINITE = 1e12  # beside which 1 / rho^2 does not count


def no_mode_shift(data):
    return {**data, "mode_shift": 0 * data["mode_shift"]} if "mode_shift" in data else data


def no_centre(data):
    return {**no_mode_shift(data), "linear_term": np.zeros(data["D"])}


def no_slopes(data):
    slopes = {name: 0 * data[name] for name in ("intercept_slope", "gamma_slope") if name in data}
    if "gamma_unit" in data:
        slopes["gamma_unit"] = np.diag(np.diag(data["gamma_unit"]))
    return {**data, **slopes}


def scale(data):
    return no_slopes(no_centre(data))


def dense_metric(data):
    """Units of t that do not change with rho: `in_form` has their sds in the metric."""
    fixed = {
        "information": np.full(data["D"], _ALMOST_INFINITE),
        "axes": np.sqrt(_ALMOST_INFINITE) * data["axes"],
    }
    if "latent_spread" in data:
        fixed["latent_spread"] = 0.0
    return {**no_centre(data), **fixed}


def diagonal_metric(data):
    return {**no_slopes(dense_metric(data)), "axes": np.sqrt(_ALMOST_INFINITE) * np.eye(data["D"])}


CHANGES = {
    "no mode shift": no_mode_shift,
    "no centre": no_centre,
    "no slopes": no_slopes,
    "scale": scale,
    "dense metric": dense_metric,
    "diagonal metric": diagonal_metric,
}
FORMS = ("shipped", *CHANGES)


def theta(data, start, t):
    """[w; gamma; intercept] of t at the scales of a start, but for the mode shift."""
    d, rho = data["D"], np.ravel(start["rho"])[0]
    unit = np.sqrt(1 + data.get("latent_spread", 0.0) * rho**2)
    q = data["information"] / unit**2 + rho**-2
    w = data["axes"] @ (data["linear_term"] / (unit * q) + t[:d] / np.sqrt(q))
    gamma = np.empty(0)
    if len(t) > d + 1:
        of_t = data["gamma_centre"] + data["gamma_unit"] @ t[d:-1]
        gamma = data["gamma_slope"] @ w + unit * of_t
    rest = np.append(w, gamma)
    of_t = data["intercept_centre"] + data["intercept_unit"] * t[-1]
    return np.append(rest, data["intercept_slope"] @ rest + unit * of_t)


def root(data, start):
    """B of theta = theta(0) + B t."""
    D = len(start["t"])
    at_zero = theta(data, start, np.zeros(D))
    return np.column_stack([theta(data, start, unit) - at_zero for unit in np.eye(D)])


def in_form(form, found):
    """What a run begins with, in other coordinates: the same starts, and sds there as metric."""
    if form == "shipped":
        return found
    data = CHANGES[form](found.data)
    starts, first = [], found.inits[0]
    for start in found.inits:
        away = theta(found.data, start, start["t"]) - theta(data, start, np.zeros(len(start["t"])))
        starts.append({**start, "t": np.linalg.solve(root(data, start), away)})
    of_theta = np.linalg.solve(root(data, first), root(found.data, first))
    sds = np.linalg.norm(of_theta, axis=1)
    return replace(found, data=data, inits=starts, log_sds={**found.log_sds, "t": sds})


def fit(form, name, seed, n, args):
    """Diagnostics of one fit of an estimator in one of the forms."""
    model, kind = KINDS[name]
    stan_input = LatentGaussianModel.stan_input

    def changed(self, settings):
        return in_form(form, stan_input(self, settings))

    with patch.object(LatentGaussianModel, "stan_input", changed):
        found = measured(model, kind, seed, n, args.warmup, args.draws, chains=CHAINS)
    steps = CHAINS * args.draws * found["mean_n_steps"]
    return {**found, "per_step": found["min_ess_bulk"] / steps}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--forms", nargs="*", default=FORMS, choices=FORMS)
    parser.add_argument("--bags", type=int, nargs="*", default=[25, 60, 1000])
    parser.add_argument("--seeds", type=int, default=3, help="data sets")
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="BLR, 1 data set of 40 bags")
    args = parser.parse_args()
    if args.quick:
        args.only, args.bags, args.seeds, args.warmup, args.draws = ["BLR"], [40], 1, 200, 100

    print("|", " | ".join(COLUMNS), "|\n|" + "---|" * len(COLUMNS))
    for name in args.only:
        for n in args.bags:
            shipped = None
            for form in args.forms:
                fits = [fit(form, name, seed, n, args) for seed in range(args.seeds)]
                per_step = np.exp(np.mean(np.log([each["per_step"] for each in fits])))
                shipped = per_step if shipped is None else shipped
                print(
                    f"| {name} | {n} | {form} "
                    f"| {np.mean([each['mean_n_steps'] for each in fits]):.1f} "
                    f"| {1000 * per_step:.1f} | {per_step / shipped:.2f} "
                    f"| {np.mean([each['seconds'] for each in fits]):.1f} "
                    f"| {sum(each['divergences'] for each in fits)} "
                    f"| {max(each['max_r_hat'] for each in fits):.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
