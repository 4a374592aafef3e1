"""Whether probabilities, intervals and lengths are right where a simulator knows them.

effects: kernels learned with effects of bags, against the kernel learned as if there were none.
classes: probabilities of rare classes by InverseBDRClassifier, new bags of the same simulator.
"""

import argparse
import warnings

import numpy as np
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from bdr_stan import AggregateRegressor, Bags, InverseBDRClassifier

COUNTRY_SEEDS = range(101, 107)
EFFECT_SD = 0.6
FITTED = {
    "poisson": {"likelihood": "poisson", "link": "exp"},
    "exponential": {"likelihood": "exponential", "link": "exp"},
    "binomial": {"likelihood": "binomial"},
}


def country(seed, likelihood, n=200):
    """Districts of ten places, their labels, trials, and the function at new places.

    The function of the first two columns changes over about two units; the third is irrelevant.
    """
    rng = np.random.default_rng(seed)
    points = rng.uniform(-2, 2, (n, 1, 3)) + rng.normal(0, 0.7, (n, 10, 3))
    bags = Bags.from_list(list(points), weights=list(rng.gamma(5, 20, (n, 10))))

    def f(x):
        return np.sin(x[:, 0]) - 0.5 * x[:, 1] - 2

    effects, trials = EFFECT_SD * rng.standard_normal(n), None
    if likelihood == "binomial":
        trials = rng.integers(50, 500, n)
        odds = f(bags.points) + np.repeat(effects, 10)
        y = rng.binomial(trials, bags.sums(bags.weights * expit(odds)) / bags.totals)
    else:
        mean = np.exp(effects) * bags.sums(bags.weights * np.exp(f(bags.points)))
        y = (rng.poisson if likelihood == "poisson" else rng.exponential)(mean)
    new = rng.uniform(-2, 2, (1000, 3)) + rng.normal(0, 0.7, (1000, 3))
    return bags, y, trials, new, f(new)


def effects(quick):
    print("likelihood | kernel learned | lengths, medians of six countries | RMSE of log rates")
    for name, given in FITTED.items():
        found = {"without effects": [], "with effects": []}
        for seed in COUNTRY_SEEDS[: 1 if quick else 6]:
            bags, y, trials, new, f = country(seed, name, 60 if quick else 200)
            options = {**given, "n_landmarks": 10 if quick else 40, "random_state": 1}
            of = {} if trials is None else {"trials": trials}
            plain = AggregateRegressor(**options, method="optimize").fit(bags, y, **of)
            for how, kernel in (
                ("without effects", {"kernel": plain.kernel_, "learn_kernel": False}),
                ("with effects", {}),
            ):
                model = AggregateRegressor(**options, **kernel, bag_effects=True)
                model.fit(bags, y, seed=1, chains=2, warmup=150, draws=150, **of)
                rates = model.predict_points(new).mean
                log_rates = np.log(rates / (1 - rates) if trials is not None else rates)
                error = log_rates - f
                rmse = np.sqrt(np.mean((error - error.mean()) ** 2))
                found[how].append((*model.kernel_.bandwidth, rmse))
        for how, rows in found.items():
            *lengths, rmse = np.median(rows, axis=0)
            rmse, se = np.mean(rows, 0)[-1], np.std(rows, 0)[-1] / np.sqrt(max(len(rows) - 1, 1))
            lengths = ", ".join(f"{length:.2f}" for length in lengths)
            print(f"{name} | {how} | {lengths} | {rmse:.3f} +- {se:.3f}", flush=True)


CENTRES = np.array([[0.0, 0.0], [0.8, 0.0], [0.0, 0.8]])
SHARES = [0.95, 0.05], [0.8, 0.2], [0.5, 0.5], [0.85, 0.05, 0.1]
BINS = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])


def labelled(seed, n, shares):
    """Bags of 2 to 100 points about a centre that depends on their class, and the classes."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(shares)), np.round(n * np.array(shares)).astype(int))
    centres = CENTRES[y] + rng.normal(0, 0.4, (len(y), 2))
    sizes = np.exp(rng.uniform(np.log(2), np.log(100), len(y))).astype(int)
    return Bags.from_list([rng.normal(c, 1, (m, 2)) for c, m in zip(centres, sizes)]), y


def classes(quick):
    print("shares, bags | mean probability of the second class less its share | log score | AUC")
    print("  predicted -> observed in bins of the probability")
    for shares in SHARES[: 1 if quick else None]:
        for n in (100,) if quick else (300, 1000):
            probabilities, truth, errors, aucs = [], [], [], []
            for seed in range(1001, 1003 if quick else 1013 if n == 300 else 1009):
                bags, y = labelled(seed, n, shares)
                new, labels = labelled(seed + 500, 4000, shares)
                p = InverseBDRClassifier(method="optimize").fit(bags, y, seed=1).predict_proba(new)
                probabilities.append(p)
                truth.append(labels)
                errors.append(p[:, 1].mean() - np.mean(labels == 1))
                aucs.append(roc_auc_score(labels == 1, p[:, 1]))
            p, labels = np.concatenate(probabilities), np.concatenate(truth)
            score = np.log(p[np.arange(len(p)), labels]).mean()
            se = np.std(errors) / np.sqrt(len(errors) - 1)
            print(
                f"{shares}, {n} | {np.mean(errors):+.4f} +- {se:.4f} of {shares[1]} | {score:.4f} "
                f"| {np.mean(aucs):.4f}"
            )
            place = np.digitize(p[:, 1], BINS[1:-1])
            pairs = (
                f"{p[place == b, 1].mean():.3f} -> {np.mean(labels[place == b] == 1):.3f}"
                for b in np.unique(place)
            )
            print("  " + ", ".join(pairs), flush=True)


TABLES = {"effects": effects, "classes": classes}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--quick", action="store_true", help="a small part of each, to test it")
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for table in args.tables:
        print(f"\n{table}")
        TABLES[table](args.quick)


if __name__ == "__main__":
    main()
