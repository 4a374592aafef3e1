"""Plain Stan programs beside the accelerated ones: their length, and the time of fits.

    python benchmarks/programs.py                            all rows, half an hour
    python benchmarks/programs.py --bags 60 --landmarks 20   one row of each program
    python benchmarks/programs.py --quick

Lines and data declarations of each program, those of accelerated ones with their includes. Then BDR
by NUTS on gamma bags with the accelerated program and with the plain one; for the fewest bags also
with the plain one in its non-centred form.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

from bdr_stan import BDR
from bdr_stan.cmdstan.programs import compile_program, program_names, program_path, resolved_text
from bdr_stan.families import FAMILIES, TIMES
from bdr_stan.posterior.declarations import declared
from data_gen.gamma import gamma_bags

# Plain program -> the accelerated one that has its model, where names differ.
ACCELERATED = {
    **{f"bdr_{name}": "bdr_glm" for name in (*FAMILIES, *TIMES)},
    "totals_exp": "aggregate_exp",
    "totals_exp_effects": "aggregate_exp",
    "totals_exp_poisson": "aggregate_exp",
    "totals_identity": "blr",
    "totals_square": "aggregate_square",
    "totals_square_poisson": "aggregate_square",
}
COLUMNS = (
    *("bags", "landmarks", "program", "steps per draw", "divergences", "largest R-hat"),
    *("smallest ESS", "ESS of rho", "wall s"),
)
# Lines of the plain program bdr -> those of its non-centred form.
NON_CENTRED = {
    "  vector[D] w;\n": "  vector[D] v;\n",
    "model {\n": "transformed parameters {\n"
    "  vector[D] w = rho * (prior_factor \\ v);\n"
    "}\n"
    "model {\n",
    "  prior_factor * w ~ normal(0, rho);\n": "  v ~ std_normal();\n",
}


def size_of(name, *, fast):
    """Lines of a program with its includes, and names in its data."""
    path = program_path(name, fast=fast)
    return len(resolved_text(path).splitlines()), len(declared(path, "data"))


def non_centred():
    """The text of the plain program bdr with non-centred weights."""
    text = program_path("bdr", fast=False).read_text()
    for old, new in NON_CENTRED.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def fit_row(program, n_bags, n_landmarks, args):
    """Wall seconds and diagnostics of a fit with a program, None for the accelerated one."""
    bags, y = gamma_bags(23, s5=25, splits=("train",))["train"]
    model = BDR(n_landmarks, "rbf", "median", engine=args.engine, stan_file=program)
    features = model.training_features(bags[:n_bags], seed=1)
    sampling = {"chains": args.chains, "draws": args.draws, "seed": 1, "progress": False}
    start = time.perf_counter()
    model.fit_features(features, y[:n_bags], **sampling)
    seconds, found = time.perf_counter() - start, model.diagnostics()
    rho = model.summary(["rho"])["ess_bulk"].item()
    return (
        f"{found['mean_n_steps']:.1f} | {found['divergences']} | {found['max_r_hat']:.3f} | "
        f"{found['min_ess_bulk']:.0f} | {rho:.0f} | {seconds:.1f}"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bags", type=int, nargs="*", default=[60, 300, 1000])
    parser.add_argument("--landmarks", type=int, nargs="*", default=[20, 60])
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--engine", choices=("cmdstan", "stanli"), default="cmdstan")
    parser.add_argument("--quick", action="store_true", help="30 bags, 5 landmarks, one chain")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of few effective draws
    if args.quick:
        args.bags, args.landmarks, args.chains, args.draws = [30], [5], 1, 100
        args.engine = "stanli"

    print("| plain program | lines | data | accelerated program | lines | data |")
    print(f"|{'---|' * 6}")
    for name in program_names(fast=False):
        fast = ACCELERATED.get(name, name)
        (lines, data), (fast_lines, fast_data) = size_of(name, fast=False), size_of(fast, fast=True)
        print(f"| {name} | {lines} | {data} | {fast} | {fast_lines} | {fast_data} |")

    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "non_centred.stan"
        own.write_text(non_centred())
        programs = {"accelerated": None, "plain": program_path("bdr", fast=False)}
        if args.engine == "cmdstan":
            for program in (program_path("bdr"), programs["plain"], own):
                compile_program(program, progress=False)
        print(f"\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
        for n_bags in args.bags:
            few = {"non-centred": own} if n_bags == min(args.bags) else {}
            for n_landmarks in args.landmarks:
                for name, program in {**programs, **few}.items():
                    row = fit_row(program, n_bags, n_landmarks, args)
                    print(f"| {n_bags} | {n_landmarks} | {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
