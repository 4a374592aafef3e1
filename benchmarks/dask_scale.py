"""Embedding, BDR and predictions from a folder of Parquet files: in memory, and by Dask.

    python benchmarks/dask_scale.py                        10^6 points x 5 in 10^4 bags
    python benchmarks/dask_scale.py --points 100000000 --bags 1000000 --folder points

Writes the points to a temporary folder and removes it; a folder that is named is kept, and taken
as it is where it has files. In memory and on a LocalCluster of processes of one thread each the
same is done: read, choose landmarks and bandwidth, embed, fit, predict every bag. Points per
processor second are those of landmarks, bandwidth and embedding together, and with reading before
them, all processes counted: in memory points are read once, from files they are at each pass.
Memory is the largest of each process (ru_maxrss), of workers as well.
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


def run(folder, n_landmarks, method, lazy, processor_seconds):
    """Seconds of each step by the clock and the processors, landmarks, embedding, predictions."""
    seconds, start, used = {}, time.perf_counter(), processor_seconds()

    def took(step):
        nonlocal start, used
        now, used_now = time.perf_counter(), processor_seconds()
        seconds[step], seconds[f"{step} cpu"] = now - start, used_now - used
        start, used = now, used_now

    bags = Bags.from_parquet(folder, "bag", metadata=["y"], lazy=lazy)
    y = bags.metadata["y"].to_numpy()
    took("read")
    model = BDR(n_landmarks, method=method)
    training = model.training_features(bags, seed=1)
    took("embed")
    model.fit_features(training, y, seed=1)
    took("fit")
    table = model.predict_table(bags)
    took("predict")
    return seconds, training.landmarks, training.embedding, table


def peak_mb():
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_memory(folder, n_landmarks, method, results):
    seconds, *found = run(folder, n_landmarks, method, False, time.process_time)
    pd.to_pickle(found, results)
    return seconds, peak_mb(), []


def on_cluster(folder, n_landmarks, method, results, workers):
    from distributed import Client, LocalCluster

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:

        def processor_seconds():
            return time.process_time() + sum(client.run(time.process_time).values())

        seconds, *found = run(folder, n_landmarks, method, True, processor_seconds)
        of_workers = list(client.run(peak_mb).values())
    pd.to_pickle(found, results)
    return seconds, peak_mb(), of_workers


def gap(first, second):
    """Largest difference, relative to the largest entry; NaN stands for columns not used."""
    np.testing.assert_array_equal(np.isnan(first), np.isnan(second))
    return np.nanmax(np.abs(first - second)) / np.nanmax(np.abs(second))


def gaps(folder):
    """How far the results of two runs are from each other, by what was computed."""
    (landmarks, embedding, table), (landmarks2, embedding2, table2) = (
        pd.read_pickle(path) for path in sorted(folder.glob("*.pickle"))
    )
    return {
        "landmarks": gap(landmarks, landmarks2),
        "mean embeddings": gap(embedding.mean, embedding2.mean),
        "covariance": gap(embedding.covariance, embedding2.covariance),
        "predicted means": gap(table["mean"].to_numpy(), table2["mean"].to_numpy()),
    }


@click.command()
@click.option("--points", "n_points", default=1_000_000, show_default=True)
@click.option("--bags", "n_bags", default=10_000, show_default=True)
@click.option("--features", "n_features", default=5, show_default=True)
@click.option("--landmarks", "n_landmarks", default=60, show_default=True)
@click.option("--share", default=0.0, show_default=True, help="Of the points, in the first bag.")
@click.option("--workers", default=2, show_default=True)
@click.option("--method", default="optimize", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="[default: a temporary one]")
@click.option("--quick", is_flag=True, help="20,000 points in 200 bags.")
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
        n_points, n_bags, n_landmarks = 20_000, 200, 10
    temporary = folder is None
    folder = Path(tempfile.mkdtemp()) if temporary else folder
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
            f"{'points/cpu s':>13} {'with reading':>13} {'peak MB':>8} {'of workers':>12}"
        )
        with tempfile.TemporaryDirectory() as results:
            runs = {f"{workers} workers": (on_cluster, Path(results) / "cluster.pickle", workers)}
            if not cluster_only:
                runs = {"in memory": (in_memory, Path(results) / "memory.pickle")} | runs
            for name, (function, path, *more) in runs.items():
                seconds, peak, of_workers = in_own_process(
                    function, folder, n_landmarks, method, path, *more
                )
                embedding = seconds["embed cpu"]
                rates = [n_points / used for used in (embedding, embedding + seconds["read cpu"])]
                print(
                    f"{name:14} {seconds['read']:7.1f} {seconds['embed']:8.1f} "
                    f"{seconds['fit']:7.1f} {seconds['predict']:9.1f} "
                    f"{rates[0]:13,.0f} {rates[1]:13,.0f} {peak:8,.0f} "
                    f"{' '.join(f'{mb:,.0f}' for mb in of_workers):>12}"
                )
            if not cluster_only:
                found = ", ".join(
                    f"{name} {size:.0e}" for name, size in gaps(Path(results)).items()
                )
                print(f"relative differences: {found}")
    finally:
        if temporary:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
