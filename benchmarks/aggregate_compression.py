"""A million pixels compressed to factors in one pass: time, memory, and what is lost.

The generated country of 1,044,683 pixels in 957 districts (``data_gen/malaria.py``), 20 columns in
a memory map, 100 landmarks. Totals of random functions from the factors are compared with
those from the pixels' own rows.
"""

import argparse
import resource
import tempfile
import time

import numpy as np

from bdr_stan.aggregate.rows import bag_means, square_factors
from bdr_stan.embedding.landmarks import choose_landmarks
from bdr_stan.kernels import RBF, Matern32, NystromFeatures
from data_gen.malaria import FEATURES, load_country, write_country


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--landmarks", type=int, default=100)
    parser.add_argument(
        "--quick", action="store_true", help="4000 pixels, 60 districts, 10 landmarks"
    )
    args = parser.parse_args()
    size = {"n_pixels": 4000, "n_districts": 60} if args.quick else {}
    if args.quick:
        args.landmarks = 10
    with tempfile.TemporaryDirectory() as folder:
        write_country(folder, seed=1, **size)
        before = peak()
        bags = load_country(folder).bags
        kernel = RBF("ard", columns=FEATURES[:-2]) + Matern32("median", columns=["x", "y"])
        kernel = kernel.on(bags.features, bags.n_features).resolved(bags, seed=1)
        landmarks = choose_landmarks(bags, args.landmarks, method="random", seed=1)
        features = NystromFeatures(kernel, landmarks)
        start, processor = time.perf_counter(), time.process_time()
        factors = square_factors(bags, features)
        wall, processor = time.perf_counter() - start, time.process_time() - processor
        after = peak()
        theta = np.random.default_rng(1).standard_normal((5, args.landmarks + 1))
        exact = bag_means(bags, features, theta, np.square)
        lost = np.max(np.abs(factors.means(theta, np.square) / exact - 1))
    print(f"{len(bags.points):,} pixels, {len(bags)} districts, {args.landmarks} landmarks")
    print(f"one pass: {wall:.1f} s by the clock, {processor:.1f} s of processor time")
    print(
        f"{len(factors.rows):,} rows, {factors.rows.nbytes / 1e6:.0f} MB; "
        f"{factors.packed.nbytes / 1e6:.0f} MB packed"
    )
    print(f"peak memory {after:.0f} MB, {before:.0f} MB of it before (making the country)")
    print(f"largest relative difference of a district's total: {lost:.1e}")


def peak():
    """Largest resident size of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    main()
