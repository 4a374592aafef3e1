"""BDR as shipped against the plain program of the paper: effective draws per second.

Same bags, landmarks and priors, eta fixed at its marginal mode in both (the plain program needs
it fixed), one run of NUTS each on the same machine. The plain program works in landmark
coordinates with a dense covariance a bag; both posteriors are compared on what they share.
"""

import argparse
import tempfile
import time
from pathlib import Path

import arviz as az
import cmdstanpy
import pandas as pd
from scipy.linalg import cholesky

from bdr_stan import BDR
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.prior import landmark_matrices
from bdr_stan.embedding.shrinkage import posterior_moments
from bdr_stan.results.draws import sample_stats, stan_draws
from data_gen.gamma import gamma_bags

# Prior sd of log(eta) so small that eta is fixed in effect.
_HELD = 1e-3


def plain_data(model, features, y, eta):
    """Data of bdr_plain.stan for the same bags and priors."""
    K, R, covariance = landmark_matrices(features)
    embedding = features.embedding
    m0 = embedding.mean.mean(axis=0)
    M, C = posterior_moments(embedding.mean, embedding.sizes, m0, covariance, R, eta)
    names = ("intercept_location", "intercept_scale", "sigma_scale", "rho_median", "rho_log_sd")
    priors = model.priors(as_table=False)
    return {
        "N": len(y),
        "D": len(m0),
        "m": M - m0,
        "C": C,
        "y": y,
        "K_factor": cholesky(K),
        **{name: priors[name] for name in names},
    }


def ess(draws):
    """Smallest bulk ESS over the elements of an array (chain, draw, ...)."""
    flat = draws.reshape(*draws.shape[:2], -1)
    return min(float(az.ess(flat[:, :, k], method="bulk")) for k in range(flat.shape[2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--landmarks", type=int, default=30)
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=1000, help="warmup, and draws, of ours")
    parser.add_argument("--plain-iterations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="60 bags, 5 landmarks")
    args = parser.parse_args()
    if args.quick:
        args.bags, args.landmarks, args.iterations, args.plain_iterations = 60, 5, 200, 100

    bags, y = gamma_bags(23, s5=25, splits=("train",))["train"]
    bags, y = bags[: args.bags], y[: args.bags]
    ours = BDR(args.landmarks, bandwidth="median", bandwidth_scale=0.75, random_state=args.seed)
    features = ours.training_features(bags, seed=args.seed)
    eta = (
        BDR(args.landmarks, bandwidth="median", method="optimize")
        .fit_features(features, y)
        .idata["posterior"]["eta"]
    )
    ours.set_params(prior={"eta_median": float(eta.mean()), "eta_log_sd": _HELD})
    compile_program("bdr")

    start = time.perf_counter()
    n = args.iterations
    ours.fit_features(features, y, chains=args.chains, warmup=n, draws=n, seed=args.seed)
    seconds = time.perf_counter() - start
    drawn = {name: values.values for name, values in ours.idata["posterior"].items()}
    steps = ours.diagnostics()["mean_n_steps"]
    rows = [row("shipped", seconds, n, drawn["beta"], drawn, steps)]

    plain = compile_program(Path(__file__).with_name("bdr_plain.stan"))
    n = args.plain_iterations
    with tempfile.TemporaryDirectory() as folder, cmdstanpy.disable_logging():
        start = time.perf_counter()
        fit = plain.sample(
            plain_data(ours, features, y, float(eta.mean())),
            chains=args.chains,
            parallel_chains=2,
            iter_warmup=n,
            iter_sampling=n,
            seed=args.seed,
            show_progress=False,
            output_dir=folder,
        )
        seconds = time.perf_counter() - start
        drawn = stan_draws(fit)
        steps = sample_stats(fit)["n_steps"].mean()
    rows.append(row("plain", seconds, n, drawn["alpha"], drawn, steps))
    table = pd.DataFrame(rows).set_index("program")
    print(table.round(3).to_string())
    ratio = table["ess_per_s"]["shipped"] / table["ess_per_s"]["plain"]
    print(f"\nSmallest bulk ESS of the weights per second: {ratio:.0f} times the plain program's.")


def row(program, seconds, iterations, weights, draws, steps):
    smallest = ess(weights)
    return {
        "program": program,
        "chains": len(weights),
        "iterations": 2 * iterations,
        "wall_s": seconds,
        "min_ess_bulk": smallest,
        "ess_per_s": smallest / seconds,
        "leapfrogs": steps,
        **{f"{name}_mean": draws[name].mean() for name in ("sigma", "intercept")},
        **{f"{name}_sd": draws[name].std() for name in ("sigma", "intercept")},
    }


if __name__ == "__main__":
    main()
