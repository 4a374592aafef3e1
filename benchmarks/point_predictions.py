"""Time and memory of the posterior of the rate at many points: mean and sd, intervals, exceedance.

    python benchmarks/point_predictions.py            10^6 points x 20, 100 landmarks, 1000 draws
    python benchmarks/point_predictions.py --quick    5,000 points, 200 draws

Writes points of a normal distribution to a temporary folder and removes it. Each run has a process
of its own, so that its peak memory (ru_maxrss, which counts the mapped pages) is its own.
"""

import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from embedding import in_own_process, write_points

from bdr_stan import RBF, PointPredictive
from bdr_stan.aggregate.links import LINKS
from bdr_stan.kernels import NystromFeatures

TASKS = {
    "mean and sd": lambda posterior: (posterior.mean, posterior.sd),
    "95% intervals": lambda posterior: posterior.interval(0.95),
    "exceedance of 1": lambda posterior: posterior.exceedance(1.0),
}


def posterior(points, n_landmarks, n_draws, link, seed=3):
    """Rates with Nystrom features and draws about a function that varies over the points."""
    rng = np.random.default_rng(seed)
    landmarks = np.array(points[:n_landmarks])
    theta = rng.normal(size=n_landmarks + 1) + 0.3 * rng.normal(size=(n_draws, n_landmarks + 1))
    features = NystromFeatures(RBF(bandwidth=np.sqrt(points.shape[1])), landmarks)
    return PointPredictive(lambda a, b: points[a:b], len(points), features, theta, LINKS[link])


def measure(task, path, n_landmarks, n_draws, link):
    """Wall and processor seconds, peak memory in MB."""
    points = np.load(path, mmap_mode="r")
    predicted = posterior(points, n_landmarks, n_draws, link)
    wall, cpu = time.perf_counter(), time.process_time()
    TASKS[task](predicted)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@click.command()
@click.option("--points", "n_points", default=1_000_000, show_default=True)
@click.option("--features", "n_features", default=20, show_default=True)
@click.option("--landmarks", "n_landmarks", default=100, show_default=True)
@click.option("--draws", "n_draws", default=1000, show_default=True)
@click.option("--quick", is_flag=True, help="5,000 points, 200 draws.")
def main(n_points, n_features, n_landmarks, n_draws, quick):
    """Print one row for each link and each quantity."""
    if quick:
        n_points, n_draws = 5000, 200
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.npy"
        in_own_process(write_points, path, n_points, n_features)
        print(
            f"{n_points:,} points x {n_features}, {n_landmarks} landmarks, {n_draws} draws, "
            f"{multiprocessing.cpu_count()} cores\n"
            f"{'link':8} {'':16} {'wall s':>7} {'cpu s':>7} {'peak MB':>8}"
        )
        for link in ("square", "exp"):
            for task in TASKS:
                wall, cpu, peak = in_own_process(measure, task, path, n_landmarks, n_draws, link)
                print(f"{link:8} {task:16} {wall:7.1f} {cpu:7.1f} {peak:8.0f}")


if __name__ == "__main__":
    main()
