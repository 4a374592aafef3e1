"""The square link's posterior in several coordinates: what makes its geometry cheap.

Counts of 100 bags of a Swiss roll, the same posterior of f = f0 + psi'w each time, sampled by
aggregate_square.stan from its data in three forms (all points, factors, packed) and in plain or
whitened coordinates, one run of NUTS each on the same machine.
"""

import argparse
import tempfile
import time
import warnings

import arviz as az
import cmdstanpy
import numpy as np
import pandas as pd

from bdr_stan.aggregate.densities import Totals
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.rows import point_rows
from bdr_stan.aggregate.training import training_features
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.kernels import RBF
from bdr_stan.labels import Labels
from bdr_stan.models.aggregate import aggregate_model
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.results.draws import sample_stats, stan_draws
from data_gen.swiss_roll import swiss_roll


def with_rows(data, rows, start, length):
    """The program's data with rows instead of packed triangles."""
    none = {"P": 0, "packed": np.empty((0, 0))}
    return {**data, **none, "T": len(rows), "rows": rows, "start": start + 1, "length": length}


def centred(data):
    """Coordinates t = [w; intercept]: the sampler moves in the weights themselves."""
    d = data["D"]
    # Stan adds 1 / rho^2 to the information: what is left of t's unit is undone by the axes.
    return {**data, **plain(d), "information": np.full(d, 1e8), "axes": 1e4 * np.eye(d)}


def non_centred(data):
    """Coordinates w = rho t: standard normal by the prior alone."""
    return {**data, **plain(data["D"])}


def plain(d):
    return {
        "information": np.zeros(d),
        "linear_term": np.zeros(d),
        "axes": np.eye(d),
        "intercept_centre": 0.0,
        "intercept_slope": np.zeros(d),
        "intercept_unit": 1.0,
    }


def in_these_coordinates(data, w, intercept, rho):
    """The program's t at given weights."""
    precision = data["information"] + rho**-2.0
    along = np.linalg.solve(data["axes"], w)
    t = np.sqrt(precision) * (along - data["linear_term"] / precision)
    rest = intercept - data["intercept_centre"] - data["intercept_slope"] @ w
    return np.append(t, rest / data["intercept_unit"])


def run(name, data, mode, rho, args):
    """One run of NUTS from near the mode, as a row of the table."""
    rng = np.random.default_rng(args.seed)
    spread = mode.whitening
    inits = []
    for _ in range(args.chains):
        theta = mode.theta + spread @ rng.uniform(-2, 2, len(mode.theta))
        t = in_these_coordinates(data, theta[:-1], theta[-1], rho)
        inits.append({"t": t, "rho": rho, "scale": [], "tau": [], "t_effect": []})
    model = compile_program("aggregate_square")
    with tempfile.TemporaryDirectory() as folder, cmdstanpy.disable_logging():
        start = time.perf_counter()
        fit = model.sample(
            data,
            inits=inits,
            chains=args.chains,
            parallel_chains=2,
            iter_warmup=args.iterations,
            iter_sampling=args.iterations,
            seed=args.seed,
            show_progress=False,
            output_dir=folder,
        )
        seconds = time.perf_counter() - start
        sampled = sum(each["sampling"] for each in fit.time)
        draws, stats = stan_draws(fit), sample_stats(fit)
    theta = np.concatenate([draws["w"], draws["intercept"][..., None]], axis=2)
    ess = min(float(az.ess(theta[:, :, k], method="bulk")) for k in range(theta.shape[2]))
    return {
        "data and coordinates": name,
        "leapfrogs": stats["n_steps"].mean(),
        "ms a leapfrog": 1000 * sampled / stats["n_steps"].sum(),
        "wall s": seconds,
        "divergences": int(stats["diverging"].sum()),
        "min bulk ESS": ess,
        "ESS / s": ess / seconds,
        "intercept": draws["intercept"].mean(),
        "rho": draws["rho"].mean(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bags", type=int, default=100)
    parser.add_argument("--landmarks", type=int, default=30)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=500, help="warmup, and draws")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="20 bags, 5 landmarks")
    args = parser.parse_args()
    if args.quick:
        args.bags, args.landmarks, args.iterations = 20, 5, 100
    warnings.simplefilter("ignore", UserWarning)

    roll = swiss_roll(0, n_bags=args.bags, n_test=2)["train"]
    labels = Labels(np.asarray(roll.y, float))
    totals = Totals(labels, LIKELIHOODS["poisson"], LINKS["square"])
    training = training_features(
        roll.bags,
        totals,
        kernel=RBF(),
        learn=True,
        n_landmarks=args.landmarks,
        landmarks="kmeans",
        seed=args.seed,
    )
    factors = training.rows
    model = aggregate_model(factors, totals)
    scales, mode, _ = most_probable_scales(model)
    packed = model.data | model.whitening(scales, mode)
    points = point_rows(roll.bags, training.feature_map)

    as_factors = with_rows(packed, factors.rows, factors.start, factors.length)
    as_points = with_rows(packed, points.rows, points.start, points.length)
    kinds = {
        "packed, whitened (shipped)": packed,
        "factors, whitened": as_factors,
        "points, whitened": as_points,
        "packed, non-centred": non_centred(packed),
        "packed, centred": centred(packed),
        "points, non-centred": non_centred(as_points),
    }
    table = pd.DataFrame([run(name, d, mode, scales["rho"], args) for name, d in kinds.items()])
    table = table.set_index("data and coordinates")
    print(
        f"{len(points.rows)} points, {len(factors.rows)} rows of factors, "
        f"{args.landmarks} landmarks"
    )
    print(table.round(3).to_string())
    best, worst = table["ESS / s"].iloc[0], table["ESS / s"].iloc[-1]
    print(f"\nSmallest bulk ESS per second: {best / worst:.0f} times that of points, non-centred.")


if __name__ == "__main__":
    main()
