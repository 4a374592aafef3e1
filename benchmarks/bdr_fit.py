"""Wall time and diagnostics of one fit by NUTS: the 1000 gamma training bags, or as many as faces.

python benchmarks/bdr_fit.py --kernel additive
python benchmarks/bdr_fit.py --model inverse --faces    9,771 bags of 198 sizes, 128 landmarks
python benchmarks/bdr_fit.py --groups 50 --warmup 300    with effects of 50 groups of bags
"""

import argparse
import tempfile
import time

import numpy as np
import pandas as pd

from bdr_stan import BDR, Bags, InverseBDR
from bdr_stan.cmdstan.programs import compile_program
from data_gen.faces import write_faces
from data_gen.gamma import gamma_bags
from experiments.paper_data import load_faces, nested_split

# By the names of their Stan programs.
MODELS = {"bdr": BDR, "inverse": InverseBDR}
N_FEATURES = 64  # of the faces; the cost of a fit does not depend on it


def training_bags(faces, folder):
    """Bags and labels; faces are written to the folder."""
    if not faces:
        return gamma_bags(23, s5=25, splits=("train",))["train"]
    files = write_faces(folder, n_features=N_FEATURES, seed=1)
    bags, y = load_faces(files["features"], files["bags"], files["ages"])
    train = nested_split(len(bags), seed=1)["train"]
    return bags[train], y[train]


def with_groups(bags, y, n_groups):
    """The bags with a column "group" of their metadata, and labels with effects of the groups."""
    rng = np.random.default_rng(1)
    group = rng.integers(n_groups, size=len(bags))
    names = pd.DataFrame({"group": [f"g{k}" for k in group]}, index=bags.ids)
    effects = rng.normal(0, 0.5, n_groups)
    return Bags.from_list(list(bags), ids=bags.ids, metadata=names), y + effects[group]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=MODELS, default="bdr")
    parser.add_argument("--faces", action="store_true", help="as many bags and sizes as the faces")
    parser.add_argument("--landmarks", type=int, help="default 60; 128 for faces")
    parser.add_argument("--kernel", default="rbf")
    parser.add_argument("--bandwidth-scale", type=float, default=0.75)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=0, help="levels of a column of groups; bdr")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    compile_program(args.model)
    model = MODELS[args.model](
        args.landmarks or (128 if args.faces else 60),
        args.kernel,
        bandwidth="median",
        bandwidth_scale=args.bandwidth_scale,
        **({"groups": ["group"]} if args.groups else {}),
    )
    with tempfile.TemporaryDirectory() as folder:
        bags, y = training_bags(args.faces, folder)
        if args.groups:
            bags, y = with_groups(bags, y, args.groups)
        start = time.perf_counter()
        features = model.training_features(bags, seed=args.seed)
        embedded = time.perf_counter()
        sampler = {"chains": args.chains, "warmup": args.warmup, "draws": args.draws}
        model.fit_features(features, y, **sampler, seed=args.seed)
        fitted = time.perf_counter()
        print(f"{len(bags)} bags, {len(bags.points)} points, {model.n_landmarks} landmarks")
    print(f"landmarks and embedding {embedded - start:.1f} s, fit {fitted - embedded:.1f} s")
    for name, value in model.diagnostics().items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")


if __name__ == "__main__":
    main()
