"""BDR against the same model by hand in NumPyro: ESS per second of processor time.

python benchmarks/bdr_vs_numpyro.py     1000 gamma bags, 90 landmarks; needs NumPyro

NumPyro gets what bdr_stan computes before sampling anyway: the joint basis, priors, and bags as
rows [z, y], one per bag. What it lacks are compression and whitening; weights are non-centred,
w = rho P^-1 v, as one would write it.
"""

import argparse
import time

import numpy as np

from bdr_stan import BDR
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.models.bdr import bdr_model
from data_gen.gamma import gamma_bags


def by_hand(data, *, chains, iterations, seed):
    """Draws of intercept, sigma, eta and w by NumPyro's NUTS, and leapfrog steps a draw."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    numpyro.enable_x64()
    z, y = jnp.array(data["rows"][:, : data["D"]]), jnp.array(data["rows"][:, -1])
    within = jnp.array(data["lambda"] / data["bag_size"][:, None])
    unwhite = jnp.array(np.linalg.inv(data["prior_factor"]))

    def model():
        intercept = numpyro.sample(
            "intercept", dist.Normal(data["intercept_location"], data["intercept_scale"])
        )
        sigma = numpyro.sample("sigma", dist.HalfNormal(data["sigma_scale"]))
        rho = numpyro.sample("rho", dist.LogNormal(np.log(data["rho_median"]), data["rho_log_sd"]))
        eta = numpyro.sample("eta", dist.LogNormal(np.log(data["eta_median"]), data["eta_log_sd"]))
        v = numpyro.sample("v", dist.Normal(jnp.zeros(data["D"]), 1))
        w = numpyro.deterministic("w", rho * (unwhite @ v))
        s = eta / (eta + within)
        nu = eta * (1 - s) @ w**2 + sigma**2
        numpyro.sample("y", dist.Normal(intercept + (z * s) @ w, jnp.sqrt(nu)), obs=y)

    sampler = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model),
        num_warmup=iterations,
        num_samples=iterations,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    sampler.run(jax.random.key(seed), extra_fields=("num_steps",))
    steps = sampler.get_extra_fields(group_by_chain=True)["num_steps"]
    draws = sampler.get_samples(group_by_chain=True)
    return {name: np.asarray(draws[name]) for name in NAMES}, float(np.mean(steps))


NAMES = ("intercept", "sigma", "rho", "eta", "w")


def smallest_ess(draws):
    """Smallest bulk ESS of all parameters, and the largest R-hat."""
    import arviz

    data = arviz.convert_to_dataset(dict(draws))
    ess = min(float(values.min()) for values in arviz.ess(data).values())
    return ess, max(float(values.max()) for values in arviz.rhat(data).values())


def processor_seconds():
    """Of this process and of those that it ran."""
    import os

    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--landmarks", type=int, default=90)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=1000, help="warmup, and draws")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="5 landmarks, 100 iterations")
    args = parser.parse_args()
    try:
        import numpyro  # noqa: F401
    except ImportError:
        print("NumPyro is not installed, so there is nothing to compare: pip install numpyro")
        return

    landmarks, iterations = (5, 100) if args.quick else (args.landmarks, args.iterations)
    compile_program("bdr")
    bags, y = gamma_bags(23, s5=25, splits=("train",))["train"]
    bags, y = (bags[:100], y[:100]) if args.quick else (bags, y)
    model = BDR(landmarks, bandwidth="median", bandwidth_scale=0.75)
    training = model.training_features(bags, seed=args.seed)
    rows = bdr_model(training, y, lossless=False)
    data = rows.data

    found = {}
    begin, clock = processor_seconds(), time.perf_counter()
    model.fit_features(
        training, y, chains=args.chains, warmup=iterations, draws=iterations, seed=args.seed
    )
    took = processor_seconds() - begin, time.perf_counter() - clock
    kept = model.idata
    draws = {name: kept["posterior"][name].values for name in NAMES}
    found["bdr_stan"] = draws, float(kept["sample_stats"]["n_steps"].mean()), took

    begin, clock = processor_seconds(), time.perf_counter()
    draws, steps = by_hand(data, chains=args.chains, iterations=iterations, seed=args.seed)
    took = processor_seconds() - begin, time.perf_counter() - clock
    found["NumPyro"] = draws, steps, took

    print(f"{len(bags)} bags, {landmarks} landmarks, {args.chains} x ({iterations} + {iterations})")
    print("| | processor s | wall s | leapfrog steps a draw | smallest ESS | R-hat | ESS / s |")
    print("|---|---|---|---|---|---|---|")
    rates = []
    for name, (draws, steps, (used, wall)) in found.items():
        ess, r_hat = smallest_ess(draws)
        rates.append(ess / used)
        print(
            f"| {name} | {used:.1f} | {wall:.1f} | {steps:.0f} | {ess:.0f} | {r_hat:.3f} | "
            f"{rates[-1]:.2f} |"
        )
    for name in ("intercept", "sigma", "eta"):
        means = ", ".join(
            f"{np.mean(d[name]):.4g} (sd {np.std(d[name]):.2g})" for d, *_ in found.values()
        )
        print(f"{name}: {means}")
    print(f"{rates[0] / rates[1]:.0f} times the ESS per second of processor time.")


if __name__ == "__main__":
    main()
