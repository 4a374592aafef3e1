"""Embedding, BDR and predictions from a folder of Parquet files: in memory, and by Dask.

    python benchmarks/dask_scale.py                        10^6 points x 5 in 10^4 bags
    python benchmarks/dask_scale.py --points 100000000 --bags 1000000 --folder points
    python benchmarks/dask_scale.py --points 100000000 --bags 10000000 --cluster-only --folder many

Writes the points to a temporary folder and removes it; a folder that is named is kept, and taken
as it is where it has files. In memory and on a LocalCluster of processes of one thread each the
same is done: read, choose landmarks and bandwidth, embed, fit, predict every bag. Points per
processor second are those of landmarks, bandwidth and embedding together, and with reading before
them, all processes counted: in memory points are read once, from files they are at each pass.
"sent MB" left the workers during landmarks and embedding. Memory is the largest of each process
(ru_maxrss), of workers as well.
"""

import multiprocessing
import resource
import shutil
import tempfile
import time
from pathlib import Path

import click
import numpy as np
import pandas as pd
from embedding import in_own_process

from bdr_stan import BDR, Bags

FILE_POINTS = 1_000_000


def write_points(folder, n_points, n_features, sizes, seed):
    """Points of bags as Parquet files, bag after bag: normal about a centre of the bag's own."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=len(sizes))
    labels = 3 + np.tanh(centres) + rng.normal(0, 0.1, len(sizes))
    ends = np.cumsum(sizes)
    for k, start in enumerate(range(0, n_points, FILE_POINTS)):
        rows = np.arange(start, min(start + FILE_POINTS, n_points))
        bag = np.searchsorted(ends, rows, side="right")
        points = rng.normal(size=(len(rows), n_features))
        points[:, 0] += centres[bag]
        table = pd.DataFrame(points, columns=[f"x{j}" for j in range(n_features)])
        table.assign(bag=bag, y=labels[bag]).to_parquet(
            folder / f"part-{k:05}.parquet", row_group_size=FILE_POINTS // 8
        )


def bag_sizes(n_points, n_bags, share, seed):
    """Uneven sizes, of at least one point, that sum to the points; the first has this share."""
    rng = np.random.default_rng(seed)
    first = int(share * n_points)
    rest = n_bags - (first > 0)
    others = 1 + rng.multinomial(n_points - first - rest, rng.dirichlet(np.full(rest, 2.0)))
    return np.concatenate([[first], others]) if first else others


class TimedBDR(BDR):
    """Calls `embedded()` between embedding and fit, and keeps the covariance within bags."""

    def _fit_labels(self, training, *more, **options):
        self.embedded()
        self.within_bags = training.embedding.covariance
        return super()._fit_labels(training, *more, **options)


def run(folder, n_landmarks, method, lazy, used_so_far):
    """What each step took of the clock, the processors and the network; landmarks, m0, .. ."""
    took, at, used = {}, time.perf_counter(), used_so_far()

    def end_of(step):
        nonlocal at, used
        now, used_now = time.perf_counter(), used_so_far()
        cpu, sent = np.subtract(used_now, used)
        took[step], took[f"{step} cpu"], took[f"{step} sent"] = now - at, cpu, sent
        at, used = now, used_now

    bags = Bags.from_parquet(folder, "bag", metadata=["y"], lazy=lazy)
    end_of("read")
    model = TimedBDR(n_landmarks, method=method)
    model.embedded = lambda: end_of("embed")
    model.fit(bags, "y", seed=1)
    end_of("fit")
    table = model.predict_table(bags)
    end_of("predict")
    return took, model.landmarks_, model.coordinates_.m0, model.within_bags, table


def peak_mb():
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_memory(folder, n_landmarks, method, results):
    took, *found = run(folder, n_landmarks, method, False, lambda: (time.process_time(), 0))
    pd.to_pickle(found, results)
    return took, peak_mb(), []


def on_cluster(folder, n_landmarks, method, results, workers):
    from distributed import Client, LocalCluster

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:

        def used_so_far():
            seconds = time.process_time() + sum(client.run(time.process_time).values())
            return seconds, sum(client.run(sent_mb).values())

        took, *found = run(folder, n_landmarks, method, True, used_so_far)
        of_workers = list(client.run(peak_mb).values())
    pd.to_pickle(found, results)
    return took, peak_mb(), of_workers


def sent_mb(dask_worker):
    """What a worker has sent so far, in MB."""
    return dask_worker.transfer_outgoing_bytes_total / 1e6


def gap(first, second):
    """Largest difference, relative to the largest entry; NaN stands for columns not used."""
    np.testing.assert_array_equal(np.isnan(first), np.isnan(second))
    return np.nanmax(np.abs(first - second)) / np.nanmax(np.abs(second))


def gaps(folder):
    """How far the results of two runs are from each other, by what was computed."""
    names = "landmarks", "average embedding", "covariance within bags", "predicted means"
    first, second = (pd.read_pickle(path) for path in sorted(folder.glob("*.pickle")))
    for found in (first, second):
        found[-1] = found[-1]["mean"].to_numpy()
    return {name: gap(*pair) for name, *pair in zip(names, first, second, strict=True)}


@click.command()
@click.option("--points", "n_points", default=1_000_000, show_default=True)
@click.option("--bags", "n_bags", default=10_000, show_default=True)
@click.option("--features", "n_features", default=5, show_default=True)
@click.option("--landmarks", "n_landmarks", default=60, show_default=True)
@click.option("--share", default=0.0, show_default=True, help="Of the points, in the first bag.")
@click.option("--workers", default=2, show_default=True)
@click.option("--method", default="optimize", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="[default: a temporary one]")
@click.option("--quick", is_flag=True, help="5,000 points in 100 bags, one worker.")
@click.option("--cluster-only", is_flag=True, help="Where memory is too small for the points.")
def main(
    n_points,
    n_bags,
    n_features,
    n_landmarks,
    share,
    workers,
    method,
    folder,
    quick,
    cluster_only,
):
    """Print seconds of each step, memory, and how far the results are from each other."""
    if quick:
        n_points, n_bags, n_landmarks, workers = 5000, 100, 5, 1
    own = folder is None
    folder = Path(tempfile.mkdtemp()) if own else folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if not list(folder.glob("*.parquet")):
            sizes = bag_sizes(n_points, n_bags, share, 2)
            in_own_process(write_points, folder, n_points, n_features, sizes, 1)
        on_disk = sum(path.stat().st_size for path in folder.glob("*.parquet")) / 1e6
        print(
            f"{n_points:,} points x {n_features} in {n_bags:,} bags, {on_disk:,.0f} MB on disk, "
            f"{n_landmarks} landmarks, {multiprocessing.cpu_count()} cores, {method}"
        )
        print(
            f"{'':14} {'read s':>7} {'embed s':>8} {'fit s':>7} {'predict s':>9} "
            f"{'points/cpu s':>13} {'with reading':>13} {'sent MB':>8} {'peak MB':>8} "
            f"{'of workers':>12}"
        )
        with tempfile.TemporaryDirectory() as results:
            runs = {f"{workers} workers": (on_cluster, Path(results) / "cluster.pickle", workers)}
            if not cluster_only:
                runs = {"in memory": (in_memory, Path(results) / "memory.pickle")} | runs
            for name, (function, path, *more) in runs.items():
                took, peak, of_workers = in_own_process(
                    function, folder, n_landmarks, method, path, *more
                )
                embedding = took["embed cpu"]
                rates = [n_points / used for used in (embedding, embedding + took["read cpu"])]
                print(
                    f"{name:14} {took['read']:7.1f} {took['embed']:8.1f} "
                    f"{took['fit']:7.1f} {took['predict']:9.1f} "
                    f"{rates[0]:13,.0f} {rates[1]:13,.0f} {took['embed sent']:8,.0f} {peak:8,.0f} "
                    f"{' '.join(f'{mb:,.0f}' for mb in of_workers):>12}"
                )
            if not cluster_only:
                found = ", ".join(
                    f"{name} {size:.0e}" for name, size in gaps(Path(results)).items()
                )
                print(f"relative differences: {found}")
    finally:
        if own:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
