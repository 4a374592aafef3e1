"""Wall time and diagnostics of one fit by NUTS: the 1000 gamma training bags of the paper."""

import argparse
import time

from bdr_stan import BDR, InverseBDR
from bdr_stan.cmdstan.programs import compile_program
from data_gen.gamma import gamma_bags

MODELS = {"bdr": BDR, "inverse": InverseBDR}  # by the names of their Stan programs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="bdr")
    parser.add_argument("--landmarks", type=int, default=60)
    parser.add_argument("--bandwidth-scale", type=float, default=0.75)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=1000, help="warmup, and draws")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    bags, y = gamma_bags(23, s5=25, splits=("train",))["train"]
    compile_program(args.model)
    kind, scale = MODELS[args.model], args.bandwidth_scale
    model = kind(args.landmarks, bandwidth="median", bandwidth_scale=scale)
    start = time.perf_counter()
    features = model.training_features(bags, seed=args.seed)
    embedded = time.perf_counter()
    n = args.iterations
    model.fit_features(features, y, chains=args.chains, warmup=n, draws=n, seed=args.seed)
    fitted = time.perf_counter()
    print(f"{len(bags)} bags, {len(bags.points)} points, {args.landmarks} landmarks")
    print(f"landmarks and embedding {embedded - start:.1f} s, fit {fitted - embedded:.1f} s")
    for name, value in model.diagnostics().items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")


if __name__ == "__main__":
    main()
