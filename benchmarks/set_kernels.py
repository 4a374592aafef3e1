"""Time and memory of the whole grid of the aerosol protocol on one fold.

    python benchmarks/set_kernels.py            800 bags x 100 points x 16 features
    python benchmarks/set_kernels.py --quick    100 bags

Ten kernels of points, 26 values of theta (17 for the t-student kernel) and 63 penalties: the set
kernels between all bags, then regression on 480 bags and the error on 160 others for each of the
15,813 settings. Beside it one kernel after the other on a few bags, as a user would write it, for
the speed by pairs of points and as a check.
"""

import resource
import sys
import time
from pathlib import Path

import click
import numpy as np
from joblib import Parallel, delayed
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from bdr_stan.kernel_means.set_kernels import values_at_squares
from bdr_stan.kernels import Polynomial
from data_gen.aerosol import aerosol_bags
from experiments.papers.kernel_grids import set_kernels

sys.path.append(str(Path(__file__).parents[1] / "experiments"))
from aerosol import LAMBDAS, best_penalty, kernel_grid, splits_of, standardised

A_FEW = 4  # bags for one kernel after the other


def one_by_one(bags, kernels):
    """Set kernels of few bags from distances or inner products of each pair of bags."""
    out = np.empty((len(kernels), len(bags), len(bags)))
    for i, a in enumerate(bags):
        for j, b in enumerate(bags):
            squares = cdist(a, b, "sqeuclidean")
            for k, kernel in enumerate(kernels):
                polynomial = isinstance(kernel, Polynomial)
                values = kernel(a, b) if polynomial else values_at_squares(kernel, squares)
                out[k, i, j] = values.mean()
    return out


def timed(function, *arguments):
    start = time.perf_counter(), time.process_time()
    result = function(*arguments)
    return result, time.perf_counter() - start[0], time.process_time() - start[1]


def all_errors(products, y, split):
    with threadpool_limits(1, user_api="blas"):
        threads = Parallel(-1, require="sharedmem")
        return threads(delayed(best_penalty)(gram, y, split, LAMBDAS) for gram in products)


@click.command()
@click.option("--bags", "n_bags", default=800, show_default=True)
@click.option("--quick", is_flag=True, help="100 bags.")
def main(n_bags, quick):
    """Print seconds of each step and the peak memory of the process."""
    bags, y = aerosol_bags(1, n_bags=100 if quick else n_bags)
    bags = standardised(bags)
    kernels = [kernel for *_, kernel in kernel_grid()]
    split = next(splits_of(len(bags), 1))
    products, wall, cpu = timed(set_kernels, bags, kernels)
    pairs = len(bags.points) ** 2 / 2
    print(f"{bags!r}\n{len(kernels)} kernels, {len(LAMBDAS)} penalties")
    print(f"{'step':34} {'wall s':>8} {'cpu s':>8}")
    print(f"{'set kernels between all bags':34} {wall:8.1f} {cpu:8.1f}")
    _, wall_of_fits, cpu_of_fits = timed(all_errors, products, y, split)
    print(f"{'regressions and their errors':34} {wall_of_fits:8.1f} {cpu_of_fits:8.1f}")
    print(f"{'in all':34} {wall + wall_of_fits:8.1f} {cpu + cpu_of_fits:8.1f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GB, of which set kernels {products.nbytes / 2**30:.2f} GB")

    few = bags[:A_FEW]
    plain, _, seconds = timed(one_by_one, few, kernels)
    per_pair = 1e9 * seconds / len(few.points) ** 2
    print(
        f"{1e9 * cpu / pairs:.1f} cpu ns a pair of points for all kernels; one kernel after the "
        f"other {per_pair:.0f} ns, {per_pair * pairs / 3.6e12:.1f} hours in all"
    )
    gap = np.abs(products[:, :A_FEW, :A_FEW] - plain).max(axis=(1, 2))
    size = np.abs(plain).max(axis=(1, 2))
    print(f"largest difference from one kernel after the other, relative: {(gap / size).max():.0e}")


if __name__ == "__main__":
    main()
