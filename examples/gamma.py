"""BDR and BLR on the gamma bags of Law et al. (2018), Figures 4 and 5.

Settings are chosen on the validation bags by held-out density, the models are fitted to the 1000
training bags by NUTS, and scored on the 1000 test bags of the paper and, because 250 bags a size
say little about coverage (a standard error of 1.4 points), on fresh bags from the same simulator.
"""

import argparse
import time

import numpy as np

from bdr_stan import BDR, BLR, tune
from bdr_stan.bags import Bags
from bdr_stan.metrics import table_by_size
from data_gen.gamma import gamma_bags


def fresh_bags(data_seeds, s5):
    """Test bags of other data seeds, joined."""
    parts = [gamma_bags(seed, s5=s5, splits=("test",))["test"] for seed in data_seeds]
    points = np.concatenate([bags.points for bags, _ in parts])
    sizes = np.concatenate([bags.sizes for bags, _ in parts])
    return Bags.from_points(points, sizes=sizes), np.concatenate([y for _, y in parts])


def report(name, model, bags, y):
    table = table_by_size(y, model.predictive(bags), bags.sizes)
    print(f"\n{name}")
    print(table.round({"mse": 3, "nll": 3, "coverage": 3, "width": 2}).to_string(), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--s5", type=int, default=25, help="percent of bags with 5 points")
    parser.add_argument("--data-seed", type=int, default=23)
    parser.add_argument("--seed", type=int, default=0, help="of landmarks and Stan")
    parser.add_argument("--fresh", type=int, default=10, help="sets of 1000 fresh test bags")
    parser.add_argument("--quick", action="store_true", help="two candidates, short chains")
    args = parser.parse_args()

    data = gamma_bags(args.data_seed, s5=args.s5, splits=("train", "validation", "test"))
    (train, y_train), (test, y_test) = data["train"], data["test"]
    grid = {"bandwidth_scale": (0.75,), "n_landmarks": (30, 60)} if args.quick else {}
    run = {"warmup": 200, "draws": 200} if args.quick else {}
    n_fresh = 1 if args.quick else args.fresh
    first = args.data_seed + 1
    fresh, y_fresh = fresh_bags(range(first, first + n_fresh), args.s5)

    for model in (BLR(), BDR()):
        start = time.perf_counter()
        tuned = tune(
            train, y_train, models=[model], validation=data["validation"], seed=args.seed, **grid
        )
        tuning = time.perf_counter() - start
        start = time.perf_counter()
        best = tuned.best.fit(train, y_train, seed=args.seed, **run)
        fitting = time.perf_counter() - start
        name = type(model).__name__
        print(f"\n{tuned.table.round(4).to_string()}")
        print(f"\n{name}: {best}; tuning {tuning:.0f} s, fit {fitting:.1f} s")
        print({k: v for k, v in best.diagnostics().items() if not k.endswith("_of")})
        report(f"{name}, the {len(test)} test bags of the paper", best, test, y_test)
        report(f"{name}, {len(fresh)} fresh test bags", best, fresh, y_fresh)


if __name__ == "__main__":
    main()
