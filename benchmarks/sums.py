"""Fits from sums: the time of an update against a fit to all bags again, and of a stream of bags.

python benchmarks/sums.py                 1,000, 10^5 and 10^6 bags, as the table in README.md
python benchmarks/sums.py --quick

Bags have lognormal sizes of median 20 and three columns; a tenth of them is new. Times are wall
times of a quiet machine: an update sums the new bags and fits, a fit again embeds all bags, from
memory, and fits. The stream sums parts of 1,000 bags one after another.
"""

import argparse
import resource
import time

import numpy as np

from bdr_stan import BDR, Bags

BAGS_AT_ONCE = 1_000


def bags_and_labels(n, seed):
    """Points around a centre of each bag; labels are a curve of the centre."""
    rng = np.random.default_rng(seed)
    sizes = np.ceil(rng.lognormal(np.log(20), 1, n)).astype(int)
    centre = rng.normal(size=(n, 3))
    points = np.repeat(centre, sizes, axis=0) + rng.normal(size=(sizes.sum(), 3))
    y = np.sin(centre[:, 0]) + centre[:, 1] + 0.3 * rng.normal(size=n)
    return Bags.from_points(points, sizes=sizes, ids=np.arange(n) + 10**7 * seed), y


def seconds(function):
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def compare(n, sampling):
    """A row of the table for n bags, a tenth of them new."""
    model = BDR(60)
    basis = model.basis(bags_and_labels(500, 1)[0], seed=1)
    old, new = bags_and_labels(9 * n // 10, 2), bags_and_labels(n // 10, 3)
    fit = BDR(60).fit(basis.summarise(*old), seed=1, **sampling)
    updated, update = seconds(lambda: fit.update(*new))
    both = Bags.concatenate([old[0], new[0]])
    y = np.concatenate([old[1], new[1]])
    again, refit = seconds(lambda: BDR(60).fit(both, y, seed=1, **sampling))
    test, _ = bags_and_labels(200, 4)
    here, there = updated.predictive(test), again.predictive(test)
    apart = np.sqrt(np.mean((here.mean - there.mean) ** 2)) / there.sd.mean()
    print(
        f"| {n:,} | {both.n_points:,} | {update:.1f} | {refit:.1f} | {refit / update:.2f} | "
        f"{apart:.2f} |",
        flush=True,
    )


def stream(n):
    """Bags per minute of a stream, and how much memory it took."""
    basis = BDR(60).basis(bags_and_labels(500, 1)[0], seed=1)
    parts = [bags_and_labels(BAGS_AT_ONCE, 10 + k) for k in range(3)]
    total = basis.summarise(*parts[0])
    before, summing = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0.0
    for k in range(1, n // BAGS_AT_ONCE):
        bags, y = bags_and_labels(BAGS_AT_ONCE, 10 + k)
        start = time.perf_counter()
        total = total + basis.summarise(bags, y)
        summing += time.perf_counter() - start
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    per_minute = 60 * (total.n_bags - BAGS_AT_ONCE) / summing
    print(
        f"{total.n_bags:,} bags: {per_minute:,.0f} bags per minute, memory +{growth / 1e3:.0f} MB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=float, nargs="+", help="default: 1e3 1e5 1e6")
    parser.add_argument("--quick", action="store_true", help="300 bags, few draws, a short stream")
    arguments = parser.parse_args()
    sampling = {"warmup": 100, "draws": 50, "chains": 2} if arguments.quick else {}
    print("| bags | points | update s | fit again s | ratio | rms difference of means, sd |")
    print("|---|---|---|---|---|---|")
    for n in arguments.bags or ([300] if arguments.quick else [1e3, 1e5, 1e6]):
        compare(int(n), sampling | {"progress": False})
    stream(3_000 if arguments.quick else 100_000)


if __name__ == "__main__":
    main()
