"""Outliers among labels: Student-t noise by six lines of the Stan program, and its predictions."""

import difflib
from pathlib import Path

import numpy as np

from bdr_stan import BDR
from bdr_stan.cmdstan.programs import program_path
from bdr_stan.metrics import coverage

# What `bdr-stan eject bdr my_bdr.stan` writes, and the same with Student-t noise.
stock_program = program_path("bdr", fast=False)
edited_program = Path(__file__).parent / "edits" / "student_t_noise.stan"
texts = [path.read_text().splitlines() for path in (stock_program, edited_program)]
print(*difflib.unified_diff(*texts, "bdr.stan", "student_t_noise.stan", "", "", 0, ""), sep="\n")

# Bags around centres of their own; the noise of their labels has heavy tails.
rng = np.random.default_rng(1)
centres = rng.normal(size=300)
bags = [c + rng.normal(size=(m, 1)) for c, m in zip(centres, rng.integers(10, 60, 300))]
y = centres + 0.3 * rng.standard_t(1.5, size=300)

# stanli interprets the program; without engine= CmdStan compiles it, a minute, once.
sampling = {"chains": 2, "warmup": 300, "draws": 500, "seed": 1}
stock = BDR(10, engine="stanli").fit(bags[:100], y[:100], **sampling)
edited = BDR(10, engine="stanli", stan_file=edited_program).fit(bags[:100], y[:100], **sampling)
print(edited.summary(["df", "sigma"])[["mean", "2.5%", "97.5%"]].round(2))
for name, model in (("normal", stock), ("Student-t", edited)):
    predictive = model.predictive(bags[100:])
    share = coverage(y[100:], *predictive.interval(0.5))
    score = predictive.log_prob(y[100:]).mean()
    print(f"{name} noise: 50% intervals cover {share:.0%}, log density of new labels {score:.2f}")
