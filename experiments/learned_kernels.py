"""Learned bandwidths, length scales and landmarks on the gamma bags of Law et al. (2018).

Shrinkage with 30 landmarks and the paper's prior of the embeddings, R = K: bandwidth from a grid,
followed by a search for a better bandwidth or one length scale per feature, or by gradient descent
on the landmarks and the length scales with early stopping. All choices are made on the validation
bags; the test bags are scored once, by the chosen models fitted to the training bags. For
comparison: three times as many landmarks with the same grid, and the default embedding prior.
"""

import time

import numpy as np
from sklearn.base import clone
from sklearn.metrics import mean_squared_error

from bdr_stan import Shrinkage, tune
from bdr_stan.tuning import BANDWIDTH_SCALES
from data_gen.gamma import N_FEATURES, gamma_bags
from experiments import report
from experiments.learned_landmarks import learn_landmarks
from experiments.methods import fewer

MANY = 3  # times as many landmarks
HEADS = (
    "kernel",
    "embedding_prior",
    "validation NLL",
    "test NLL",
    "test NLL gain over grid",
    "test MSE",
    "seconds",
)


def variants(train, validation, n_landmarks, seed, quick):
    """Yield name, unfitted estimator and seconds of each way to choose the kernel."""
    scales = BANDWIDTH_SCALES[1:2] if quick else BANDWIDTH_SCALES

    def tuned(n=n_landmarks, scales=scales, refine=None):
        return tune(
            *train,
            models=[Shrinkage(bandwidth="median", embedding_prior="kernel")],
            validation=validation,
            n_landmarks=(n,),
            bandwidth_scale=scales,
            method=None,
            refine=refine,
            seed=seed,
        ).best

    start = time.perf_counter()
    plain = tuned()
    scale = plain.bandwidth_scale
    seconds = time.perf_counter() - start
    yield f"grid, bandwidth x {scale:g}", plain, seconds

    def from_plain(choose):
        start = time.perf_counter()
        best = choose()
        return best, seconds + time.perf_counter() - start

    def searched(refine):
        return from_plain(lambda: tuned(scales=(scale,), refine=refine))

    yield "search for the bandwidth", *searched("bandwidth")
    if not quick:
        yield "search for length scales", *searched("ard")
    bandwidth = plain.training_features(train[0], seed=seed).bandwidth
    steps = {"validation": validation, "seed": seed, "max_iter": 2 if quick else 100}
    for name, length in [
        ("landmarks and bandwidth learned", bandwidth),
        ("landmarks and length scales learned", np.full(N_FEATURES, bandwidth)),
    ]:
        first = clone(plain).set_params(bandwidth=length, bandwidth_scale=1.0)
        learned, its_seconds = from_plain(
            lambda first=first: learn_landmarks(first, *train, **steps)
        )
        yield name, learned, its_seconds
    start = time.perf_counter()
    many = tuned(MANY * n_landmarks)
    yield (
        f"grid, {MANY * n_landmarks} landmarks, bandwidth x {many.bandwidth_scale:g}",
        many,
        time.perf_counter() - start,
    )


def main():
    parser = report.arguments(
        __doc__,
        quick="80 bags, 6 landmarks, few steps",
        output="folder for learned_kernels.md",
    )
    parser.add_argument("--s5", type=int, default=25, help="percent of bags with 5 points")
    parser.add_argument("--data-seed", type=int, default=23)
    parser.add_argument("--landmarks", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="for landmarks and Stan")
    args = parser.parse_args()

    splits = gamma_bags(args.data_seed, s5=args.s5, splits=("train", "validation", "test"))
    n_landmarks = 6 if args.quick else args.landmarks
    if args.quick:
        splits = fewer(splits, 80)
    train, validation, test = splits.values()

    lines = report.rows(HEADS, [], right=slice(2, None)).split("\n")
    of_grid = {}  # test NLL per bag of the first row with each prior
    print("\n".join(lines))
    for name, model, seconds in variants(train, validation, n_landmarks, args.seed, args.quick):
        for prior in ("kernel", "empirical"):
            fitted = clone(model).set_params(embedding_prior=prior)
            fitted.fit(*train, seed=args.seed)
            predictive = fitted.predictive(test[0])
            loss = -predictive.log_prob(test[1])
            gain = of_grid.setdefault(prior, loss) - loss
            error = gain.std() / np.sqrt(len(gain))
            cells = [
                name,
                prior,
                f"{-fitted.predictive(validation[0]).log_prob(validation[1]).mean():.3f}",
                f"{loss.mean():.3f}",
                f"{gain.mean():.3f} ({error:.3f})" if gain.any() else "",
                f"{mean_squared_error(test[1], predictive.mean):.3f}",
                f"{seconds:.0f}" if prior == "kernel" else "",
            ]
            lines.append(report.row(cells))
            print(lines[-1], flush=True)
    if args.output is not None:
        report.write(
            args.output,
            "learned_kernels.md",
            f"""\
# Learned kernels

Shrinkage with {n_landmarks} landmarks on the gamma bags, {args.s5}% of them with 5 points
(`experiments/learned_kernels.py`): {len(train[1])} training, {len(validation[1])} validation and
{len(test[1])} test bags. The kernel is chosen on the validation bags with the embedding prior
"kernel": its bandwidth from a grid, followed by a search for a better one or for one length scale
per column, or by gradient descent on landmarks and length scales. The rows "empirical" reuse it
with the default prior. The gain over the grid row with the same prior is in nats per bag, with its
standard error over the test bags in brackets. Seconds are the time to choose the kernel, including
the grid, on two busy cores.

"""
            + "\n".join(lines)
            + "\n",
        )


if __name__ == "__main__":
    main()
