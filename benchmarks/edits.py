"""Edited Stan programs of `examples/edits` against the stock ones, on labels that need the edit.

    python benchmarks/edits.py                        6 data sets per edit, half an hour
    python benchmarks/edits.py --only zero_inflated --sets 2
    python benchmarks/edits.py --quick

Per edit and part of the bags: coverage of intervals of new labels, and their median width; R-hat,
divergences and seconds of the fits. The same of true parameters. Then differences of predictions
of the edited fit after saving, and between engines.
"""

import argparse
import difflib
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan import BDR, AggregateRegressor, load
from bdr_stan.cmdstan.programs import program_path
from bdr_stan.kernels import RBF
from data_gen import edits

PROGRAMS = Path(__file__).parents[1] / "examples" / "edits"
N_NEW = 150


@dataclass(frozen=True)
class Edit:
    """An edited program, labels that need it, and the settings of its fit."""

    simulate: Callable[..., edits.Simulated]
    options: dict[str, Any] = field(default_factory=lambda: {"n_landmarks": 12})
    stan_data: dict[str, Any] | None = None
    sampling: dict[str, float] = field(default_factory=dict)  # of the edited program
    new: dict[str, Any] = field(default_factory=dict)  # arguments of `simulate` for new bags
    estimator: type = BDR
    n_training: int = 120


POISSON_TOTALS = {"likelihood": "poisson", "link": "exp"}
SPARSE = {"landmarks": edits.LANDMARKS, "kernel": "rbf", "bandwidth": edits.BANDWIDTH}
EDITS = {
    "student_t_noise": Edit(edits.heavy_tails),
    "noise_by_column": Edit(edits.noise_of_two_groups, stan_data={"urban": "urban"}),
    "horseshoe": Edit(edits.sparse_weights, SPARSE),
    "saturating_link": Edit(
        edits.saturation,
        {"n_landmarks": 12, "family": "student_t"},
        sampling={"adapt_delta": 0.99},  # at 0.95, 27 transitions diverge in one of the data sets
        new={"dose": 4.0},
    ),
    "weights_by_group": Edit(edits.weights_of_two_groups, stan_data={"group": "group"}),
    "zero_inflated": Edit(edits.extra_zeros, {"n_landmarks": 12, "family": "poisson"}),
    "reporting": Edit(
        edits.unreported_cases,
        {"n_landmarks": 12, "kernel": RBF(1.5), "learn_kernel": False, **POISSON_TOTALS},
        {"audited": "audited", "found": "found"},
        estimator=AggregateRegressor,
        n_training=50,
    ),
    "noise_by_group": Edit(
        edits.totals_of_three_sources,
        {"n_landmarks": 12, "kernel": RBF(2.0), "learn_kernel": False, "likelihood": "normal"},
        {"G": 3, "group": "group"},
        estimator=AggregateRegressor,
    ),
}


def stock_program(name):
    """Path of the stock program that was edited, which the first line names."""
    stock = (PROGRAMS / f"{name}.stan").read_text().split(":")[0].removeprefix("// ")
    return program_path(stock, fast=False)


def changed_lines(name):
    """Number of lines that differ from the stock program; a replaced line counts once."""
    stock = stock_program(name).read_text().splitlines()
    edited = (PROGRAMS / f"{name}.stan").read_text().splitlines()
    blocks = difflib.SequenceMatcher(None, stock, edited, autojunk=False).get_opcodes()
    return sum(max(i - h, k - j) for tag, h, i, j, k in blocks if tag != "equal")


def fitted(edit, data, program, args, engine="stanli", seed=1):
    """A fit with the edited program, or the stock model where that is None, and its seconds."""
    model = edit.estimator(**edit.options, stan_file=program, engine=engine)
    own = {} if program is None else {"stan_data": edit.stan_data, **edit.sampling}
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(
            data.bags, data.y, seed=seed, chains=2, warmup=args.draws // 2, draws=args.draws, **own
        )
    return model, time.perf_counter() - start


def covered(predictive, y, level):
    lower, upper = predictive.interval(level)
    return (lower <= y) & (y <= upper), upper - lower


def intervals_of_truth(model, truth):
    """Whether 95% intervals contain true parameters, and their widths, by parameter."""
    for name, value in truth.items():
        if not model.result_.has_draws(name):
            continue
        lower, upper = np.quantile(model.result_.draws(name), [0.025, 0.975], axis=0)
        inside, width = (lower <= value) & (value <= upper), upper - lower
        if np.ndim(value) == 0:
            yield name, [inside], [width]
        else:
            for label, which in ((f"{name} of 0", value == 0), (f"other {name}", value != 0)):
                if which.any():
                    yield label, inside[which], width[which]


def measured(edit, program, args):
    """Coverage of new labels with their parts, of true parameters, and diagnostics of the fits."""
    rows, parts, fits, truths = [], [], [], defaultdict(list)
    for seed in range(args.sets):
        rng = np.random.default_rng(100 + seed)
        data, new = edit.simulate(rng, edit.n_training), edit.simulate(rng, N_NEW, **edit.new)
        model, seconds = fitted(edit, data, program, args)
        predictive = model.predictive(new.bags)
        inside, width = covered(predictive, new.y, 0.95)
        rows.append(np.column_stack([inside, covered(predictive, new.y, 0.5)[0], width]))
        parts.append(np.full(N_NEW, "all") if new.parts is None else new.parts)
        if new.rates is not None:
            of_points = model.predict_points(new.bags, district=False)
            inside, width = covered(of_points, new.rates, 0.95)
            half = covered(of_points, new.rates, 0.5)[0]
            rows.append(np.column_stack([inside, half, width]))
            parts.append(np.full(len(new.rates), "rates"))
        found = model.diagnostics()
        fits.append((found["max_r_hat"], found["divergences"], seconds))
        for parameter, contained, widths in intervals_of_truth(model, data.truth):
            truths[parameter].append(np.column_stack([contained, widths]))
    return np.concatenate(rows), np.concatenate(parts), np.array(fits), truths


def difference_after_saving(name, edit, args):
    """Largest difference of quantiles of predictions before saving and after loading."""
    rng = np.random.default_rng(100)
    data, new = edit.simulate(rng, edit.n_training), edit.simulate(rng, N_NEW, **edit.new)
    program = PROGRAMS / f"{name}.stan"
    model, _ = fitted(edit, data, program, args)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "fit.nc")
        loaded = load(Path(folder) / "fit.nc").set_params(stan_file=program)
    before, after = (m.predictive(new.bags).quantile([0.025, 0.5, 0.975]) for m in (model, loaded))
    return np.abs(before - after).max()


def differences(name, edit, args):
    """RMS over new bags of differences of P(y <= median), between engines and between seeds.

    In standard errors of independent draws; draws are correlated, so that two seeds of one engine
    differ by more than 1.
    """
    rng = np.random.default_rng(100)
    data, new = edit.simulate(rng, edit.n_training), edit.simulate(rng, N_NEW, **edit.new)
    program = PROGRAMS / f"{name}.stan"
    first, of_other_engine, of_other_seed = (
        fitted(edit, data, program, args, engine, seed)[0].predictive(new.bags)
        for engine, seed in (("stanli", 1), ("cmdstan", 1), ("stanli", 2))
    )
    middle = first.quantile(0.5)
    p = first.cdf(middle)
    error = np.sqrt(2 * p * (1 - p) / (2 * args.draws))
    return [
        np.sqrt(np.mean(((p - other.cdf(middle)) / error) ** 2))
        for other in (of_other_engine, of_other_seed)
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(EDITS), choices=list(EDITS))
    parser.add_argument("--sets", type=int, default=6, help="data sets per edit")
    parser.add_argument("--draws", type=int, default=1000, help="of each of two chains")
    parser.add_argument("--quick", action="store_true", help="one edit, one data set, stanli only")
    args = parser.parse_args()
    if args.quick:
        args.only, args.sets, args.draws = ["noise_by_column"], 1, 200

    print("edit, lines changed | program | part | n | 95% | 50% | width | R-hat | diverged | s")
    for name in args.only:
        edit, title = EDITS[name], f"{name}, {changed_lines(name)}"
        for program in (None, PROGRAMS / f"{name}.stan"):
            which = "stock" if program is None else "edited"
            rows, parts, fits, truths = measured(edit, program, args)
            r_hat, diverged, seconds = fits.T
            for part in np.unique(parts):
                own = rows[parts == part]
                print(
                    f"{title} | {which} | {part} | {len(own)} "
                    f"| {own[:, 0].mean():.1%} | {own[:, 1].mean():.1%} "
                    f"| {np.median(own[:, 2]):.2f} | {r_hat.max():.3f} | {diverged.sum():.0f} "
                    f"| {np.median(seconds):.1f}",
                    flush=True,
                )
            for parameter, values in truths.items():
                inside, width = np.concatenate(values).T
                print(
                    f"{title} | {which} | {parameter} | {len(inside)} | {inside.mean():.1%} | "
                    f"| {np.median(width):.2f}"
                )
        print(f"{name}: after saving, {difference_after_saving(name, edit, args):.0e}", flush=True)
        if not args.quick:
            engines, seeds = differences(name, edit, args)
            print(f"{name}: standard errors apart, engines {engines:.2f}, seeds {seeds:.2f}")


if __name__ == "__main__":
    main()
