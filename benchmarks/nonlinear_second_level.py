"""What a curve of the leading coordinates brings: BDR and NonlinearBDR on gamma bags and digits.

Settings are those that the validation bags of `experiments/gamma.py` choose for BDR, and an
additive kernel. Test MSE, NLL and the share of labels in 95% intervals, by NUTS.
"""

import argparse
import time
import warnings

import numpy as np

from bdr_stan import BDR, NonlinearBDR, metrics
from bdr_stan.datasets import digits_bags
from data_gen.gamma import gamma_bags

KERNELS = {
    "rbf": {"n_landmarks": 90, "bandwidth": "median", "bandwidth_scale": 0.75},
    "additive": {"n_landmarks": 60, "kernel": "additive"},
}
NOISE_SD = 1.0  # of noisy labels, which spread by 1.2 themselves


def problems(quick):
    """Name, settings, training and test bags of each comparison."""
    gamma = gamma_bags(23, s5=25, splits=("train", "test"))
    (bags, y), test = gamma["train"], gamma["test"]
    few = np.random.default_rng(0).permutation(len(bags))[:150]
    settings = KERNELS["additive"] | ({"n_landmarks": 20} if quick else {})
    yield "gamma, 150 bags, additive", settings, (bags[few], y[few]), test
    if quick:
        return
    for name, settings in KERNELS.items():
        yield f"gamma, 1000 bags, {name}", settings, (bags, y), test
    rng = np.random.default_rng(1)
    noisy = bags[:300], y[:300] + NOISE_SD * rng.normal(size=300)
    noisy_test = test[0], test[1] + NOISE_SD * rng.normal(size=len(test[1]))
    yield "gamma, 300 noisy labels, additive", KERNELS["additive"], noisy, noisy_test
    yield "digits, 500 bags, rbf", {}, digits_bags(500, seed=100), digits_bags(500, seed=900)


def compare(name, settings, train, test, draws):
    """Print the scores of both models."""
    for kind in (BDR, NonlinearBDR):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of short chains
            model = kind(**settings).fit(*train, seed=0, warmup=draws, draws=draws)
        seconds = time.perf_counter() - start
        predictive = model.predictive(test[0])
        lower, upper = predictive.interval(0.95)
        inside = np.mean((lower <= test[1]) & (test[1] <= upper))
        mse, nll = metrics.mse(test[1], predictive.mean), -predictive.log_prob(test[1]).mean()
        known = model.diagnostics()
        print(
            f"{name}, {kind.__name__}: MSE {mse:.3f}, NLL {nll:.3f}, 95% intervals {inside:.1%}, "
            f"fit {seconds:.0f} s, {known['divergences']} divergences, "
            f"R-hat {known.get('max_r_hat', np.nan):.3f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one problem, short chains")
    args = parser.parse_args()
    for problem in problems(args.quick):
        compare(*problem, draws=100 if args.quick else 1000)


if __name__ == "__main__":
    main()
