"""Whether `Stacked` is behind its best member: BDR and InverseBDR on twenty generated data sets.

Weights come from 100 to 400 labels; scores are negative log predictive densities, in nats per
label, of fresh bags from the same process.
"""

import argparse
import warnings

import numpy as np

from bdr_stan import BDR, InverseBDR, Stacked

SIZES = 5, 20, 60  # points per bag
N_BAGS = 100, 150, 200, 300, 400
N_TEST = 2_000
N_TEST_QUICK = 200


def linear(rng, n):
    """The label is a mean over the points, with noise."""
    middle = rng.normal(size=(n, 3))
    y = middle @ [1.0, 0.5, 0.0] + 0.5 * rng.normal(size=n)
    return middle, np.ones(n), y


def bimodal(rng, n):
    """Labels of two groups; the points are a nonlinear function of the label."""
    y = rng.choice([-2.0, 2.0], n) + 0.5 * rng.normal(size=n)
    middle = np.column_stack([np.tanh(y), 0.3 * y**2, np.zeros(n)])
    return middle + 0.5 * rng.normal(size=(n, 3)), np.ones(n), y


def ratings(rng, n):
    """Labels 1 to 5; bags differ in scale and have middles of heavy tails."""
    y = rng.choice(5, n, p=[0.1, 0.1, 0.2, 0.35, 0.25]) + 1.0
    middle = 0.4 * y[:, None] * [1.0, 0.5, 0.0] + 0.4 * rng.standard_t(3, (n, 3))
    return middle, np.exp(0.3 * rng.normal(size=n)), y


def heavy(rng, n):
    """Labels of heavy tails, known weakly."""
    y = rng.standard_t(3, n)
    return np.tanh(y)[:, None] * [0.7, 0.0, 0.3] + rng.normal(size=(n, 3)), np.ones(n), y


PROBLEMS = {"linear": linear, "bimodal": bimodal, "ratings": ratings, "heavy tails": heavy}


def bags_of(problem, rng, n):
    """Bags of normal points and their labels."""
    middle, scale, y = problem(rng, n)
    sizes = rng.choice(SIZES, n)
    points = [m + s * rng.normal(size=(k, 3)) for m, s, k in zip(middle, scale, sizes)]
    return points, y


def scores(problem, n, seed, n_test):
    """NLL of fresh labels by each member and by the stack, and the weight of InverseBDR."""
    rng = np.random.default_rng(seed)
    train, test = bags_of(problem, rng, n), bags_of(problem, rng, n_test)
    models = [kind(n_landmarks=30, method="laplace") for kind in (BDR, InverseBDR)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the approximation
        stack = Stacked(models).fit(*train, seed=seed)
    each = [
        -model.predictive(test[0]).log_prob(test[1]).mean() for model in (*stack.models_, stack)
    ]
    return *each, stack.weights_[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two data sets of 100 bags")
    args = parser.parse_args()
    n_test = N_TEST_QUICK if args.quick else N_TEST
    names, numbers = (["linear", "ratings"], [100]) if args.quick else (PROBLEMS, N_BAGS)
    print("| labels | bags | BDR | InverseBDR | Stacked | behind the best | weight of InverseBDR |")
    print("|---|---|---|---|---|---|---|")
    behind = []
    for k, name in enumerate(names):
        for n in numbers:
            *members, stack, weight = scores(PROBLEMS[name], n, 1000 * k + n, n_test)
            behind.append(stack - min(members))
            cells = [f"{score:.3f}" for score in (*members, stack, behind[-1], weight)]
            print(f"| {name} | {n} |", " | ".join(cells), "|", flush=True)
    print(f"\nBehind the best member: {np.mean(behind):.3f} on average, {max(behind):.3f} at most")


if __name__ == "__main__":
    main()
