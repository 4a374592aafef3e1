"""BDR against the same model written by hand, in Stan and in NumPyro: ESS per processor second.

python benchmarks/bdr_by_hand.py     1000 gamma bags, 90 landmarks; NumPyro if it is installed

Those by hand get what bdr_stan computes before it samples: the joint basis, priors, and bags as
rows [z, y], one per bag. They lack compression and whitening. Each is written with centred
weights, prior_factor w ~ normal(0, rho), and with non-centred ones, w = rho prior_factor^-1 v; the
better of the two counts. Compiling is left out of all times.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from bdr_stan import BDR
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel
from bdr_stan.results.draws import sample_stats, stan_draws
from data_gen.gamma import gamma_bags

FORMS = ("centred", "non-centred")
NAMES = ("intercept", "sigma", "rho", "eta", "w")
_PRIORS = ("intercept_location", "intercept_scale", "sigma_scale", "rho_median", "rho_log_sd")


def in_stan(data, centred, *, chains, iterations, seed):
    """Draws, leapfrog steps and divergences of bdr_by_hand.stan."""
    import cmdstanpy

    program = compile_program(Path(__file__).with_name("bdr_by_hand.stan"))
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder, cmdstanpy.disable_logging():
        fit = program.sample(
            {**data, "centred": int(centred)},
            chains=chains,
            iter_warmup=iterations,
            iter_sampling=iterations,
            seed=seed,
            show_progress=False,
            output_dir=folder,
        )
        stats = sample_stats(fit)
        return stan_draws(fit, NAMES), stats["n_steps"], stats["diverging"], watch.read()


def in_numpyro(data, centred, *, chains, iterations, seed):
    """The same of NumPyro in double precision."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    numpyro.enable_x64()
    z, y, factor = (jnp.array(data[name]) for name in ("z", "y", "prior_factor"))
    within = jnp.array(data["lambda"] / data["size"][:, None])
    unwhite = jnp.linalg.inv(factor)

    def model():
        intercept = numpyro.sample(
            "intercept", dist.Normal(data["intercept_location"], data["intercept_scale"])
        )
        sigma = numpyro.sample("sigma", dist.HalfNormal(data["sigma_scale"]))
        rho = numpyro.sample("rho", dist.LogNormal(np.log(data["rho_median"]), data["rho_log_sd"]))
        eta = numpyro.sample("eta", dist.LogNormal(np.log(data["eta_median"]), data["eta_log_sd"]))
        if centred:
            flat = dist.ImproperUniform(dist.constraints.real, (), (data["D"],))
            w = numpyro.sample("w", flat)
            numpyro.factor("prior", dist.Normal(0, rho).log_prob(factor @ w).sum())
        else:
            v = numpyro.sample("v", dist.Normal(jnp.zeros(data["D"]), 1))
            w = numpyro.deterministic("w", rho * (unwhite @ v))
        s = eta / (eta + within)
        nu = eta * (1 - s) @ w**2 + sigma**2
        numpyro.sample("y", dist.Normal(intercept + (z * s) @ w, jnp.sqrt(nu)), obs=y)

    def sampled(n):
        sampler = numpyro.infer.MCMC(
            numpyro.infer.NUTS(model),
            num_warmup=n,
            num_samples=n,
            num_chains=chains,
            chain_method="sequential",
            progress_bar=False,
        )
        sampler.run(jax.random.key(seed), extra_fields=("num_steps", "diverging"))
        return sampler

    watch = Watch()
    sampled(1)
    compiling = watch.read()
    watch = Watch()
    sampler = sampled(iterations)
    draws, stats = (
        {name: np.asarray(values) for name, values in found.items()}
        for found in (sampler.get_samples(True), sampler.get_extra_fields(True))
    )
    draws = {name: draws[name] for name in NAMES}
    used = np.maximum(watch.read() - compiling, 0.01)
    return draws, stats["num_steps"], stats["diverging"], used


class Watch:
    """Processor seconds of this process and those that it ran, and seconds by the clock."""

    def __init__(self):
        self.start = self._now()

    def _now(self):
        used = os.times()
        children = used.children_user + used.children_system
        return np.array([used.user + used.system + children, time.perf_counter()])

    def read(self):
        return self._now() - self.start


PEERS = {"Stan": in_stan, "NumPyro": in_numpyro}


def worst(draws):
    """Smallest bulk ESS, of w and of the others, and the largest R-hat."""
    import arviz

    data = arviz.convert_to_dataset(draws)
    ess = {name: float(values.min()) for name, values in arviz.ess(data).items()}
    r_hat = max(float(values.max()) for values in arviz.rhat(data).values())
    return ess.pop("w"), min(ess.values()), r_hat


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--landmarks", type=int, default=90)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=1000, help="warmup, and draws")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--quick", action="store_true", help="100 bags, 5 landmarks, 100 iterations"
    )
    args = parser.parse_args()
    landmarks, iterations = (5, 100) if args.quick else (args.landmarks, args.iterations)
    sizes = {"chains": args.chains, "seed": args.seed}

    bags, y = gamma_bags(23, s5=25, splits=("train",))["train"]
    bags, y = (bags[:100], y[:100]) if args.quick else (bags, y)
    model = BDR(landmarks, bandwidth="median", bandwidth_scale=0.75)
    training = model.training_features(bags, seed=args.seed)
    ours = BDRModel.of_training(
        training, Labels(y), lossless=False
    ).data  # rows [z, 1, y], a size each
    data = {name: ours[name] for name in (*_PRIORS, "eta_median", "eta_log_sd", "D", "lambda")}
    data |= {"N": len(y), "z": ours["rows"][:, : ours["D"]], "y": ours["rows"][:, -1]}
    data |= {"prior_factor": ours["prior_factor"], "size": ours["bag_size"]}

    compile_program("bdr")
    watch = Watch()
    model.fit_features(training, y, warmup=iterations, draws=iterations, **sizes)
    used, kept = watch.read(), model.idata
    draws = {name: kept["posterior"][name].values for name in NAMES}
    stats = kept["sample_stats"]
    found = {"bdr_stan": (draws, stats["n_steps"].values, stats["diverging"].values, used)}

    print(f"{len(y)} bags, {landmarks} landmarks, {args.chains} x ({iterations} + {iterations})")
    for peer in args.peers:
        run = PEERS[peer]
        try:
            for form in args.forms:
                centred = form == "centred"
                found[f"{peer}, {form}"] = run(data, centred, iterations=iterations, **sizes)
        except ImportError:
            print("NumPyro is not installed: pip install numpyro")
    print(
        "| | processor s | wall s | leapfrog steps a draw | divergences | smallest bulk ESS of w "
        "| of the others | largest R-hat | smallest ESS per processor s |\n" + "|---" * 9 + "|"
    )
    rates = {}
    for name, (draws, steps, divergent, (used, wall)) in found.items():
        of_w, of_others, r_hat = worst(draws)
        rates[name] = min(of_w, of_others) / used
        print(
            f"| {name} | {used:.1f} | {wall:.1f} | {steps.mean():.0f} | {divergent.sum()} "
            f"| {of_w:.0f} | {of_others:.0f} | {r_hat:.3f} | {rates[name]:.2f} |",
            flush=True,
        )
    for name in ("intercept", "sigma", "rho", "eta"):
        means = (f"{np.mean(d[name]):.4g} (sd {np.std(d[name]):.2g})" for d, *_ in found.values())
        print(f"{name}: {', '.join(means)}")
    ours = rates.pop("bdr_stan")
    for peer in args.peers:
        best = max((rate for name, rate in rates.items() if name.startswith(peer)), default=None)
        if best:
            print(f"{ours / best:.0f} times the effective draws of {peer} at its best.")


if __name__ == "__main__":
    main()
