"""Contrasts against the truth, by bag size: all points shifted, a fifth of them, other weights.

    python benchmarks/contrast.py            40 data sets of 300 bags
    python benchmarks/contrast.py --quick    2 data sets of 60 bags

The points of bag i are N(m_i, 1), m_i ~ N(0, 1); its label is the mean of f over its distribution,
plus noise of sd 0.1. The changes: x + 0.2 for all points; x + 1 for those in the lowest fifth;
points above 0 with twice the weight. The effect of each on a bag is an integral over N(m_i, 1).
"Ratio" is the average contrast over the average effect, with its standard error, then how many
intervals contain the average effect, and how many those of single bags. "As another sample" is the
difference of the predictions of both versions, each shrunk as a bag of its size.
"""

import warnings

import click
import numpy as np

from bdr_stan import BDR, Bags

TRUTHS = {
    "linear": lambda x: x,
    "quadratic": lambda x: 0.5 * x + 0.3 * x**2,
    "tanh": np.tanh,
}
LOWEST_FIFTH = -0.8416 * np.sqrt(2)
CHANGES = {
    "all points + 0.2": (lambda x: x + 0.2, np.ones_like),
    "lowest fifth + 1": (lambda x: np.where(x < LOWEST_FIFTH, x + 1, x), np.ones_like),
    "weight 2 above 0": (lambda x: x, lambda x: np.where(x > 0, 2.0, 1.0)),
}
NODES = np.linspace(-6, 6, 2001)
DENSITY = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


def one_set(truth, n_bags, n_points, seed):
    """For each change the ratio, that of other samples, both coverages, and the reliability."""
    rng, f = np.random.default_rng(seed), TRUTHS[truth]
    means = rng.normal(size=n_bags)
    points = means[:, None] + rng.normal(size=(n_bags, n_points))
    nodes = means[:, None] + NODES
    labels = f(nodes) @ DENSITY + 0.1 * rng.normal(size=n_bags)
    bags = Bags.from_list(points[:, :, None], weights=list(np.ones_like(points)))
    model = BDR(method="laplace").fit(bags, labels, seed=seed)
    rows = []
    for move, weigh in CHANGES.values():
        changed = Bags.from_list(move(points)[:, :, None], weights=list(weigh(points)))
        w = weigh(nodes) * DENSITY
        effect = np.sum(w * f(move(nodes)), axis=1) / w.sum(axis=1) - f(nodes) @ DENSITY
        contrast = model.contrast(changed, bags)
        average, (lower, upper) = contrast.draws.mean(axis=1), contrast.interval(0.95)
        low, high = np.quantile(average, [0.025, 0.975])
        samples = np.mean(model.predict(changed) - model.predict(bags))
        inside = (lower <= effect) & (effect <= upper)
        rows.append([
            average.mean() / effect.mean(),
            samples / effect.mean(),
            low <= effect.mean() <= high,
            inside.mean(),
            contrast.reliability,
        ])  # fmt: skip
    return rows


@click.command()
@click.option("--sets", default=40)
@click.option("--bags", default=300)
@click.option("--truth", "truths", type=click.Choice(list(TRUTHS)), multiple=True)
@click.option("--seed", default=1000, help="Of the first data set.")
@click.option("--quick", is_flag=True)
def main(sets, bags, truths, seed, quick):
    """Contrasts against the truth, by bag size."""
    sets, bags, sizes = (2, 60, (2, 20)) if quick else (sets, bags, (2, 5, 20, 100))
    print(
        "| f | change | points | reliability | ratio | as another sample | average in interval "
        "| bags in intervals |\n|---|---|---|---|---|---|---|---|"
    )
    warnings.simplefilter("ignore")
    for truth in truths or ("linear",) if quick else truths or TRUTHS:
        for n_points in sizes:
            found = np.array([one_set(truth, bags, n_points, seed + k) for k in range(sets)])
            mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(sets)
            for change, row, se in zip(CHANGES, mean, error, strict=True):
                ratio, samples, average, single, reliability = row
                print(
                    f"| {truth} | {change} | {n_points} | {reliability:.2f} | {ratio:.3f} ± "
                    f"{se[0]:.3f} | {samples:.3f} | {average:.1%} | {single:.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
