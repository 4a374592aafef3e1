"""Another likelihood: labels of which some are grossly wrong, by one line of the Stan program."""

import tempfile
from pathlib import Path

import arviz as az
import numpy as np

from bdr_stan import BDR
from bdr_stan.cmdstan.programs import eject
from bdr_stan.metrics import mse

NORMAL = "return group_normal_lpdf(y | x, weights, variance, n_bags);"
STUDENT_T = "return student_t_lpdf(y | 4, x * weights, sqrt(variance));"

# Bags around centres of their own; every tenth label is off by about 3.
rng = np.random.default_rng(1)
centres = rng.normal(size=200)
bags = [c + rng.normal(size=(m, 2)) for c, m in zip(centres, rng.integers(5, 50, 200), strict=True)]
y = centres + rng.normal(0, 0.1, 200)
y[::10] += rng.normal(0, 3, 20)

with tempfile.TemporaryDirectory() as folder:
    program = Path(folder) / "my_bdr.stan"
    eject("bdr", program)  # or: bdr-stan eject bdr my_bdr.stan
    source = program.read_text()
    assert NORMAL in source
    program.write_text(source.replace(NORMAL, STUDENT_T))
    normal = BDR(n_landmarks=10).fit(bags[:150], y[:150], seed=1)
    # One row per bag: compressed rows are for normal labels.
    robust = BDR(n_landmarks=10, stan_file=program, compress=False).fit(bags[:150], y[:150], seed=1)

for name, model in (("normal", normal), ("Student-t", robust)):
    error = mse(centres[150:], model.predict(bags[150:]))
    sigma = model.summary(["sigma"])["mean"].item()
    print(f"{name} labels: sigma {sigma:.2f}, test MSE against the true centres {error:.3f}")
print(az.compare({"normal": normal.idata, "Student-t": robust.idata})[["elpd_loo", "elpd_diff"]])
