"""Whether probabilities, intervals and lengths are right where a simulator knows them.

effects: kernels learned with effects of bags, against the kernel learned as if there were none.
classes: probabilities of rare classes by InverseBDRClassifier, new bags of the same simulator.
repeated: intervals of labels of which many are equal, by InverseBDR and Stacked.
familiarity: shares of ordinary bags with small p-values.
thin: rates of a fit to thinned points against those of all points.
"""

import argparse
import warnings

import numpy as np
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from bdr_stan import BLR, AggregateRegressor, Bags, InverseBDR, InverseBDRClassifier, Stacked
from bdr_stan.kernels import RBF

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
    for name, given in list(FITTED.items())[: 1 if quick else None]:
        found = {"without effects": [], "with effects": []}
        for seed in COUNTRY_SEEDS[: 1 if quick else 6]:
            bags, y, trials, new, f = country(seed, name, 40 if quick else 200)
            options = {**given, "n_landmarks": 6 if quick else 40, "random_state": 1}
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
                new, labels = labelled(seed + 500, 500 if quick else 4000, shares)
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


def with_repeated_labels(seed, n, kind):
    """Bags of 3 to 10 points, and labels of which many are equal."""
    rng = np.random.default_rng(seed)
    centres, sizes = rng.normal(0, 1, n), rng.integers(3, 11, n)
    bags = [rng.normal([c, 0], 1, (m, 2)) for c, m in zip(centres, sizes)]
    noisy = centres + 0.5 * rng.normal(size=n)
    if kind == "30% zeros":
        y = np.maximum(0, 0.5 + noisy)
    elif kind == "mean counts":
        y = rng.poisson(np.exp(0.2 + 0.9 * centres) * sizes / 2) / sizes
    elif kind == "two ends":
        y = np.clip(noisy, -0.8, 0.8)
    else:
        y = np.where(rng.random(n) < 0.3, 0.5, noisy)
    return Bags.from_list(bags), y


def repeated(quick):
    print("labels, model, training bags | share repeated | coverage of 95% intervals | NLL")
    kinds = "30% zeros", "mean counts", "two ends", "30% in the middle"
    for kind in kinds[: 1 if quick else None]:
        for stacked in (False, True) if not quick and kind in kinds[:2] else (False,):
            found = []
            for seed in range(2001, 2003 if quick else 2005 if stacked else 2013):
                bags, y = with_repeated_labels(seed, 60 if quick else 200, kind)
                new, labels = with_repeated_labels(seed + 500, 200 if quick else 1000, kind)
                model, chains = InverseBDR(method="optimize"), {}
                if stacked:
                    model, chains = Stacked(), {"chains": 2, "warmup": 150, "draws": 150}
                predictive = model.fit(bags, y, seed=1, **chains).predictive(new)
                lower, upper = predictive.interval(0.95)
                inside = (lower <= labels) & (labels <= upper)
                share = np.unique(labels, return_counts=True)[1].max() / len(labels)
                found.append((share, inside.mean(), -predictive.log_prob(labels).mean()))
            (share, covered, nll), se = np.mean(found, axis=0), np.std(found, axis=0)
            se = se / np.sqrt(len(found) - 1)
            name = "Stacked" if stacked else "InverseBDR"
            print(
                f"{kind}, {name}, {len(y)} | {share:.2f} | {covered:.3f} +- {se[1]:.3f} "
                f"| {nll:.3f}",
                flush=True,
            )


LEVELS = np.array([0.001, 0.01, 0.05])


def familiarity(quick):
    print("training bags | share of ordinary bags at the .1%, 1% and 5% level")

    def bags_of(rng, n):
        sizes = np.exp(rng.uniform(0, np.log(100), n)).astype(int)
        shapes = np.exp(rng.normal(0, 0.5, (n, 2)))
        return Bags.from_list([rng.gamma(a, 1, (m, 2)) for a, m in zip(shapes, sizes)]), shapes

    for n in (100,) if quick else (100, 250, 1000):
        shares = []
        for seed in range(2 if quick else 30):
            rng = np.random.default_rng(3000 + seed)
            bags, shapes = bags_of(rng, n)
            model = BLR(method="exact").fit(bags, shapes[:, 0] + rng.normal(size=n), seed=1)
            p = model.familiarity(bags_of(rng, 500 if quick else 4000)[0])["familiarity"].to_numpy()
            shares.append(np.mean(p[:, None] <= LEVELS, axis=0))
        mean, se = np.mean(shares, axis=0), np.std(shares, axis=0) / np.sqrt(len(shares) - 1)
        print(f"{n} | " + ", ".join(f"{m:.4f} +- {s:.4f}" for m, s in zip(mean, se)), flush=True)


def thin(quick):
    print("thin | mean of thinning_error_ | rates over those of all points | warns")
    rng = np.random.default_rng(4000)
    n, points = (30, 40) if quick else (100, 150)
    bags = Bags.from_list([rng.uniform(-2, 2, (points, 2)) for _ in range(n)])
    f = np.sin(4 * bags.points[:, 0]) + np.cos(4 * bags.points[:, 1])
    y = rng.poisson(20 * bags.sums(np.exp(f)))
    options = {"link": "exp", "kernel": RBF(0.4), "learn_kernel": False, "method": "optimize"}
    rates = {}
    for points in (None, 5) if quick else (None, 5, 15, 50):
        n_landmarks = 20 if quick else 60
        model = AggregateRegressor(**options, n_landmarks=n_landmarks, thin=points, random_state=1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(bags, y)
        rates[points] = model.predict_points(bags, district=False).mean.mean()
        if points:
            warned = any("thin=" in str(each.message) for each in caught)
            error, ratio = model.thinning_error_.mean(), rates[points] / rates[None]
            print(f"{points} | {error:+.1%} | {ratio:.3f} | {warned}", flush=True)


TABLES = {each.__name__: each for each in (effects, classes, repeated, familiarity, thin)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", help=", ".join(TABLES))
    parser.add_argument("--quick", action="store_true", help="a small part of each, to test it")
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for table in args.tables or TABLES:
        print(f"\n{table}")
        TABLES[table](args.quick)


if __name__ == "__main__":
    main()
