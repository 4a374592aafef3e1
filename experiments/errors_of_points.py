"""Points with known errors: an RBF kernel whose features are right on average.

The label of a bag is the mean of a function f over its distribution plus noise. What is measured of
a point is its value plus an error with a known standard deviation, small in half of the bags and
large in the others. BDR is fitted to the measured values as if they were exact, to a draw around
each of them, to a draw of each true value given the measured one, to the measured values with the
kernel `RBFOfErrors`, and to the true values, in 20 simulated data sets.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from bdr_stan import BDR, RBF, Bags
from bdr_stan.kernels import Kernel
from experiments.report import arguments, markdown, write

BANDWIDTH = 1.2
LANDMARKS = np.linspace(-3.0, 3.0, 12)[:, None]
SDS = {"precise": 0.1, "imprecise": 0.9}  # of a point's error, by bag
ENDS = -1.5, 1.5  # points whose difference of f is the effect
NOISE = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class RBFOfErrors(Kernel):
    """Values at y of an RBF kernel with bandwidth b, right on average for x = true value + error.

    Points have p columns of values followed by p columns of their errors' standard deviations s,
    all below b; landmarks have zeros there. Each column is a factor

        b / sqrt(b^2 - s^2) exp(-(x - y)^2 / (2 (b^2 - s^2))),

    whose expectation over errors N(0, s^2) is the RBF kernel of the true value and y.
    """

    bandwidth: float
    variance: float = 1.0

    def prepare(self, landmarks: Any) -> Any:
        return np.split(landmarks, 2, axis=1)[0]

    def fill(self, points: Any, prepared: Any, out: Any) -> None:
        x, s = np.split(points, 2, axis=1)
        if not (s < self.bandwidth).all():
            raise ValueError(f"errors must be below the bandwidth, {self.bandwidth:g}")
        precision = 1 / (self.bandwidth**2 - s**2)
        log_factor = np.log(self.bandwidth * np.sqrt(precision)) - 0.5 * x**2 * precision
        out[:] = log_factor.sum(axis=1)[:, None] + (x * precision) @ prepared.T
        out -= 0.5 * precision @ prepared.T**2
        np.exp(out, out=out)

    def diagonal(self, x: Any) -> Any:
        return np.full(len(x), self.variance)

    def on(self, names: Any, n_columns: int) -> "RBFOfErrors":
        return self

    def columns_seen(self, n_columns: int) -> tuple[int, ...]:
        return tuple(range(n_columns))


def f(x):
    """The influence of a point: a share above a soft threshold."""
    return norm.cdf((x - 0.5) / 0.4)


@dataclass(frozen=True)
class Simulated:
    """Bags of points: their labels, kinds, true and measured values and errors' sds."""

    sizes: np.ndarray  # shape (n,), like y, expected and kind
    y: np.ndarray
    expected: np.ndarray  # labels without their noise
    kind: np.ndarray
    true: np.ndarray  # of the points, shape (T, 1), like measured, sd and drawn
    measured: np.ndarray
    sd: np.ndarray
    drawn: np.ndarray  # a draw of the true value given the measured one

    def bags(self, *columns):
        return Bags.from_points(np.hstack(columns), sizes=self.sizes)


def simulated(rng, n):
    """Bags of 10 to 200 normal points, half of them measured precisely."""
    sizes = np.round(np.exp(rng.uniform(np.log(10), np.log(200), n))).astype(int)
    centre, spread, kind = (
        rng.normal(0, 0.8, n),
        rng.choice([0.3, 0.6], n),
        rng.choice(list(SDS), n),
    )
    expected = norm.cdf((centre - 0.5) / np.hypot(0.4, spread))
    y = expected + NOISE * rng.normal(size=n)
    centres, spreads, sds = (
        np.repeat(values, sizes)[:, None]
        for values in (centre, spread, [SDS[of_bag] for of_bag in kind])
    )
    sds *= rng.uniform(0.8, 1.2, sds.shape)
    true = rng.normal(centres, spreads)
    measured = rng.normal(true, sds)
    share = spreads**2 / (spreads**2 + sds**2)
    drawn = rng.normal(centres + share * (measured - centres), np.sqrt(share) * sds)
    return Simulated(sizes, y, expected, kind, true, measured, sds, drawn)


def with_sds(x):
    """Points without errors, for `RBFOfErrors`."""
    return np.column_stack([x, np.zeros_like(x)])


def scores(rng, n):
    """Rows by method and kind of bags: RMSE, coverage, width; the effect relative to the truth."""
    train, new = simulated(rng, n), simulated(rng, n)
    ends = np.array(ENDS)[:, None]
    plain = {"kernel": RBF(BANDWIDTH), "landmarks": LANDMARKS}
    corrected = {"kernel": RBFOfErrors(BANDWIDTH), "landmarks": with_sds(LANDMARKS)}
    fits = {
        "measured, as if exact": (plain, lambda data: data.bags(data.measured), ends),
        "a draw around each": (
            plain,
            lambda data: data.bags(rng.normal(data.measured, data.sd)),
            ends,
        ),
        "a draw given the measured": (plain, lambda data: data.bags(data.drawn), ends),
        "measured, RBFOfErrors": (
            corrected,
            lambda data: data.bags(data.measured, data.sd),
            with_sds(ends),
        ),
        "true": (plain, lambda data: data.bags(data.true), ends),
    }
    rows = {}
    for name, (options, bags_of, at) in fits.items():
        model = BDR(method="laplace", **options).fit(bags_of(train), train.y, seed=1)
        predictive = model.predictive(bags_of(new))
        low, high = predictive.interval(0.95)
        effect = np.diff(model.influence(at).mean)[0] / np.diff(f(np.array(ENDS)))[0]
        error, inside = predictive.mean - new.expected, (low <= new.y) & (new.y <= high)
        for kind in SDS:
            of = new.kind == kind
            rows[name, kind] = {
                "RMSE": np.sqrt(np.mean(error[of] ** 2)),
                "bias at labels over 0.5": np.mean(error[of & (new.expected > 0.5)]),
                "coverage of 95%": np.mean(inside[of]),
                "width": np.mean((high - low)[of]),
                "effect / true effect": effect,
            }
    return pd.DataFrame(rows).T


def main():
    parser = arguments(__doc__, quick="2 data sets of 40 bags", output="for errors_of_points.md")
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--bags", type=int, default=300, help="for training, and as many new ones")
    args = parser.parse_args()
    if args.quick:
        args.sets, args.bags = 2, 40
    tables = [scores(np.random.default_rng(seed), args.bags) for seed in range(args.sets)]
    values = np.stack(tables)
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(args.sets)
    cells = [[f"{m:.3f} ({e:.3f})" for m, e in zip(*row)] for row in zip(mean, error)]
    table = pd.DataFrame(cells, tables[0].index.map(": ".join), tables[0].columns)
    table = markdown(table.rename_axis("values: bags"))
    print(f"Effects, errors and coverage:\n{table}")
    if args.output is not None:
        write(args.output, "errors_of_points.md", page(table, args))


def page(table, args):
    return f"""\
# Points with known errors

Measured values of points have errors with known standard deviations, as scores of a short \
questionnaire have. Errors blur the distribution of a bag. A share above a threshold, or any other \
effect that is not linear, is then not the effect of the true points, and labels of bags that were \
measured with another precision are predicted with a bias. A linear effect has none, as errors \
average to 0.

`RBFOfErrors` in `experiments/errors_of_points.py` is a kernel of 20 lines for such points: its \
features of a measured point are right on average for the true point. An RBF kernel of bandwidth b \
becomes, with an error of standard deviation s < b,

    k(x, u) = b / sqrt(b^2 - s^2) exp(-(x - u)^2 / (2 (b^2 - s^2))),

a factor for each column: averaged over normal errors it is the RBF kernel of bandwidth b at the \
true value. These features vary more between the points of a bag than features of true points. BDR \
estimates their variation, which counts as sampling error. Points are rows of values and standard \
deviations. Landmarks, and points of which `influence` is asked, have zeros in the place of \
standard deviations:

```python
import numpy as np

from bdr_stan import BDR
from experiments.errors_of_points import RBFOfErrors, simulated, with_sds

data = simulated(np.random.default_rng(0), 100)
bags = data.bags(data.measured, data.sd)  # two columns: values and standard deviations
landmarks = with_sds(np.linspace(-3, 3, 12)[:, None])
model = BDR(kernel=RBFOfErrors(1.2), landmarks=landmarks, method="laplace").fit(bags, data.y)
model.influence(with_sds(np.array([[-1.0], [1.0]]))).mean
```

## Simulated bags

Labels are shares above a soft threshold plus noise. Half of the bags of 10 to 200 points have \
errors of sd {SDS["precise"]}, the others of {SDS["imprecise"]}, each times a number from 0.8 to \
1.2; true points have an sd of 0.3 or 0.6 within a bag. The table has averages over {args.sets} \
data sets of {args.bags} bags for training and as many new ones, with standard errors in brackets. \
The effect is the difference of the regression function between {ENDS[1]} and {ENDS[0]}, relative \
to the true one. Bias and RMSE are of predicted means about expected labels.

{table}

- Measured values taken as exact exaggerate the effect, because blurred distributions differ less \
than true ones, and predictions for imprecise bags are biased towards the average.
- A draw around each measured value adds the error a second time: predictions are worse.
- A draw of the true value, given the measured one and the distribution of its bag, is as good as \
the true value. Plausible values in surveys of pupils are such draws. One for each point keeps the \
number of points right.
- With `RBFOfErrors` the effect is nearer to the truth, the biases of the two kinds of bags more \
similar and the error smaller than with measured values. Intervals remain too wide for precise \
bags and too narrow for imprecise ones: the model has one covariance within bags, an average of \
both.

Reproduce: `{" ".join(["python experiments/errors_of_points.py", *sys.argv[1:]])}`
"""


if __name__ == "__main__":
    main()
