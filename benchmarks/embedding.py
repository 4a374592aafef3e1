"""Speed and memory of the embedding pass on a memory map, compared with scikit-learn's kernel.

    python benchmarks/embedding.py            10^7 points x 10 in 10^5 bags, 100 landmarks
    python benchmarks/embedding.py --quick    20,000 points in 200 bags

Writes the points to a temporary folder and removes it. Each run has a process of its own, so that
its peak memory (ru_maxrss, which counts the mapped pages) is its own. The runs take turns; the
table shows the fastest of each.
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from bdr_stan.bags import Bags
from bdr_stan.embedding.landmarks import choose_landmarks
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, LandmarkFeatures, median_bandwidth


def write_points(path, n_points, n_features, seed=1):
    """Normal points as a .npy file, block by block."""
    rng = np.random.default_rng(seed)
    with open(path, "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (n_points, n_features)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n_points, 100_000):
            rng.normal(size=(min(100_000, n_points - start), n_features)).tofile(file)


def prepare(path, n_points, n_features, sizes, n_landmarks):
    """Write the points; return landmarks and a bandwidth for them."""
    write_points(path, n_points, n_features)
    bags = Bags.from_points(np.load(path, mmap_mode="r"), sizes=sizes)
    landmarks = choose_landmarks(bags, n_landmarks, method="random", seed=0)
    return landmarks, median_bandwidth(bags, seed=0)


def bag_sizes(n_points, n_bags, seed=2):
    """Sizes, at least 1 point, that sum to the points: multinomial on uneven shares."""
    rng = np.random.default_rng(seed)
    return 1 + rng.multinomial(n_points - n_bags, rng.dirichlet(np.full(n_bags, 2.0)))


def ours(points, sizes, landmarks, bandwidth, covariance):
    features = LandmarkFeatures(RBF(bandwidth), landmarks)
    result = embed(Bags.from_points(points, sizes=sizes), features, covariance=covariance)
    return result.mean, result.covariance


def sklearn_chunked(points, sizes, landmarks, bandwidth, covariance, rows=10_000):
    """`rbf_kernel` and `np.add.reduceat` on chunks of whole bags, of its fastest size."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    mean = np.empty((len(sizes), len(landmarks)))
    scatter = np.zeros((len(landmarks), len(landmarks)))
    several = (sizes > 1).sum()
    first = 0
    while first < len(sizes):
        last = max(np.searchsorted(offsets, offsets[first] + rows, side="right") - 1, first + 1)
        phi = rbf_kernel(points[offsets[first] : offsets[last]], landmarks, 0.5 / bandwidth**2)
        n = sizes[first:last]
        mean[first:last] = np.add.reduceat(phi, offsets[first:last] - offsets[first], axis=0)
        mean[first:last] /= n[:, None]
        if covariance == "average":
            weight = np.where(n > 1, 1 / np.maximum(n - 1, 1), 0) / several
            phi *= np.sqrt(np.repeat(weight, n))[:, None]
            scaled = mean[first:last] * np.sqrt(weight * n)[:, None]
            scatter += phi.T @ phi - scaled.T @ scaled
        first = last
    return mean, scatter if covariance == "average" else None


METHODS = {"bdr_stan embed": ours, "scikit-learn, chunked": sklearn_chunked}


def measure(name, folder, sizes, landmarks, bandwidth, covariance):
    """Wall and processor seconds and peak memory in MB; the result goes to a file."""
    points = np.load(folder / "points.npy", mmap_mode="r")
    wall, cpu = time.perf_counter(), time.process_time()
    result = METHODS[name](points, sizes, landmarks, bandwidth, covariance)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for part, values in zip(("mean", "covariance"), result):
        if values is not None:
            np.save(folder / f"{name} {part}.npy", values)
    return wall, cpu, peak


def in_own_process(function, *arguments):
    """Call in a process of its own, so that its peak memory is its own.

    A process starts from the peak of its parent: one that has imported what the script has, and
    does no work.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([name for name in sys.modules if not name.startswith("_")])
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(function, *arguments).result()


def largest_gap(folder, part):
    """Largest difference of the two results, relative to the largest entry."""
    ours, theirs = (np.load(folder / f"{name} {part}.npy", mmap_mode="r") for name in METHODS)
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


@click.command()
@click.option("--points", "n_points", default=10_000_000, show_default=True)
@click.option("--bags", "n_bags", default=100_000, show_default=True)
@click.option("--features", "n_features", default=10, show_default=True)
@click.option("--landmarks", "n_landmarks", default=100, show_default=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="A five hundredth of the points and bags.")
def main(n_points, n_bags, n_features, n_landmarks, repeats, quick):
    """Print one row for each way to embed, with and without the covariance."""
    if quick:
        n_points, n_bags, repeats = n_points // 500, n_bags // 500, 1
    sizes = bag_sizes(n_points, n_bags)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        landmarks, bandwidth = in_own_process(
            prepare, folder / "points.npy", n_points, n_features, sizes, n_landmarks
        )
        print(
            f"{n_points:,} points x {n_features} in {n_bags:,} bags of {sizes.min()} to "
            f"{sizes.max()}, {n_landmarks} landmarks, {multiprocessing.cpu_count()} cores\n"
            f"{'':22} {'covariance':>10} {'wall s':>7} {'cpu s':>7} {'Mpoints/s':>9} "
            f"{'peak MB':>8}"
        )
        for covariance in (None, "average"):
            arguments = folder, sizes, landmarks, bandwidth, covariance
            runs = {name: [] for name in METHODS}
            for _ in range(repeats):
                for name in METHODS:
                    runs[name].append(in_own_process(measure, name, *arguments))
            for name in METHODS:
                wall, cpu, _ = min(runs[name])
                peak = max(peak for _, _, peak in runs[name])
                print(
                    f"{name:22} {covariance or 'none':>10} {wall:7.2f} {cpu:7.2f} "
                    f"{n_points / wall / 1e6:9.2f} {peak:8.0f}"
                )
            fast, slow = (min(runs[name])[0] for name in METHODS)
            gaps = [in_own_process(largest_gap, folder, "mean")]
            if covariance is not None:
                gaps.append(in_own_process(largest_gap, folder, "covariance"))
            print(f"  {slow / fast:.1f} times as fast, results agree to {max(gaps):.0e}")


if __name__ == "__main__":
    main()
