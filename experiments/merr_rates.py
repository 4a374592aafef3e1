"""Rates of MERR: the error against the number and size of bags, and against the penalty.

Szabo et al. (2016) bound the excess risk of mean embedding ridge regression on l bags of N points.
Here both of their constants are known, so that slopes of measured errors stand beside the theory's.
Bag i is at an angle t_i, uniform on the circle of length 1; its points are t_i plus gamma(1/2)
noise, modulo 1. With the kernel

    k(x, y) = 1 + sum_j 2 j^-2 cos(2 pi j (x - y)) = 1 + 2 pi^2 B_2(x - y mod 1)

(B_2 the Bernoulli polynomial) and phi_j the characteristic function of the noise, the covariance of
the kernel means has eigenvalues j^-2 |phi_j|^2, two each, which fall as j^-b, b = 3. The regression
function has Fourier coefficients of squares eigenvalue^c j^-1.1, so it is in the range of the
covariance to the power (c - 1)/2 within the RKHS, for c = 1 and c = 2. Labels have uniform noise.
The error is the mean of (estimate - regression function)^2 over exact kernel means of new bags.
"""

import numpy as np

from bdr_stan.kernel_means.ridge_path import KernelRidgePath
from bdr_stan.plots.style import MARKERS, MODELS
from experiments.report import arguments, markdown, pyplot, rows, write

FREQUENCIES = np.arange(1, 65)  # eigenvalues beyond are below the penalties
SHAPE, SCALE = 0.5, 0.3  # of the gamma noise of points
NOISE_SD = 0.5  # of labels; the regression function has sd 1
CHARACTERISTIC = (1 - 2j * np.pi * FREQUENCIES * SCALE) ** -SHAPE
EIGENVALUES = FREQUENCIES**-2.0 * np.abs(CHARACTERISTIC) ** 2
B = 3
SMOOTHNESS = (1, 2)  # c
SUMMABLE = 0.1  # exponent beyond 1, by which the norms of range are finite
NEW = (np.arange(512) + 0.5) / 512  # angles of new bags
PENALTIES = np.geomspace(1e-5, 1, 51)
EXACT = "exact"  # kernel means instead of points
SIZES = (4, 16, 64, EXACT)
POWERS = (0.5, 1.0)  # a of N = l^a
LARGE, SMALL = (0.03, 0.3), (1e-5, 3e-4)  # penalties of which bias, or variance, is the error


def powers_of(c):
    """Squares of the regression function's coefficients by frequency, with sum 1, its variance."""
    size = EIGENVALUES**c * FREQUENCIES ** -(1 + SUMMABLE)
    return size / size.sum()


def regression(angles, c):
    """The regression function of source condition c at angles, (n,)."""
    waves = np.cos(2 * np.pi * np.outer(angles, FREQUENCIES) + 1.7 * FREQUENCIES)
    return waves @ np.sqrt(2 * powers_of(c))


def expected_risk(n_bags, penalties, c):
    """Squared bias plus variance of the estimate from exact kernel means, to first order in 1/l."""
    left = penalties[:, None] / (penalties[:, None] + EIGENVALUES)
    variance = NOISE_SD**2 / n_bags * (1 + 2 * np.sum((1 - left) ** 2, axis=1))
    return left**2 @ powers_of(c) + variance


def exact_means(angles):
    """E exp(2 pi i j x) of the points of bags at angles, (n,), by frequency j; (n, J)."""
    return np.exp(2j * np.pi * np.outer(angles, FREQUENCIES)) * CHARACTERISTIC


def sample_means(angles, n_points, rng):
    """Averages of exp(2 pi i j x) over points drawn for each bag; (n, J)."""

    def of_bag(angle):
        x = angle + rng.gamma(SHAPE, SCALE, n_points)
        steps = np.broadcast_to(np.exp(2j * np.pi * x), (len(FREQUENCIES), n_points))
        return np.cumprod(steps, axis=0).mean(axis=1)

    return np.array([of_bag(angle) for angle in angles])


def coordinates(means):
    """Features whose inner products are those of kernel means; (n, 2 J + 1)."""
    waves = np.sqrt(2) * means / FREQUENCIES
    return np.column_stack([np.ones(len(means)), waves.real, waves.imag])


NEW_COORDINATES = coordinates(exact_means(NEW))
TRUTH = {c: regression(NEW, c) for c in SMOOTHNESS}


def errors(rng, n_bags, n_points, c):
    """Excess risk by penalty, (51,), and with the penalty of least leave-one-out error."""
    angles = rng.uniform(size=n_bags)
    means = exact_means(angles) if n_points == EXACT else sample_means(angles, n_points, rng)
    x = coordinates(means)
    noise = rng.uniform(-1, 1, n_bags) * NOISE_SD * np.sqrt(3)
    path = KernelRidgePath(x @ x.T, regression(angles, c) + noise)
    predicted = path.level + NEW_COORDINATES @ (x.T @ path.dual(PENALTIES))
    risk = np.mean((predicted - TRUTH[c][:, None]) ** 2, axis=0)
    return risk, risk[path.best(PENALTIES)]


def cell(n_bags, n_points, c, n_runs):
    """Errors of all runs by penalty, (runs, 51), and with the penalty by leave-one-out, (runs,)."""
    size = 0 if n_points == EXACT else n_points
    runs = [errors(np.random.default_rng([r, n_bags, size, c]), n_bags, n_points, c)
            for r in range(n_runs)]  # fmt: skip
    return tuple(map(np.array, zip(*runs, strict=True)))


def slope(x, values):
    """Slope of log values, (runs, len(x)), in log x, averaged over runs, and its standard error."""
    each = np.polyfit(np.log(x), np.log(values).T, 1)[0]
    return each.mean(), each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan


def at_best(by_penalty):
    """Errors of runs, (runs,), with the penalty of the smallest average error."""
    return by_penalty[:, np.argmin(by_penalty.mean(axis=0))]


def shown(value, error):
    return f"{value:.2f} ± {error:.2f}"


def all_cells(numbers, sizes, n_runs):
    """Errors by (l, N, c), printed as they come."""
    found = {}
    for c in SMOOTHNESS:
        for n_bags in numbers:
            for size in dict.fromkeys([*sizes, *(round(n_bags**a) for a in POWERS)]):
                found[n_bags, size, c] = cell(n_bags, size, c, n_runs)
                risk = at_best(found[n_bags, size, c][0]).mean()
                print(f"c = {c}, {n_bags} bags of {size} points: {risk:.4f}", flush=True)
    return found


def slopes_in_number(found, numbers, sizes):
    """Table of the slopes in l: best penalty, leave-one-out, expected, and of the bound."""
    lines = []
    for c in SMOOTHNESS:
        optimal = -B * c / (B * c + 1)
        best = [expected_risk(n, PENALTIES, c).min() for n in numbers]
        expected = np.polyfit(np.log(numbers), np.log(best), 1)[0]
        ways = {f"{size} points": (size, 0, "", "") for size in sizes if size != EXACT}
        for a in POWERS:
            ways[f"N = l^{a:g}"] = 1, a, "", f"{max(-a * c / (c + 1), optimal):.2f}"
        ways["exact means"] = EXACT, 0, f"{expected:.2f}", f"{optimal:.2f}"
        for name, (size, a, *theory) in ways.items():
            cells = [found[n, size if a == 0 else round(n**a), c] for n in numbers]
            measured = (
                shown(*slope(numbers, np.column_stack(values)))
                for values in ([at_best(each[0]) for each in cells], [each[1] for each in cells])
            )
            lines.append([c, name, *measured, *theory])
    heads = ["c", "points per bag", "best penalty", "leave-one-out", "expected", "bound"]
    return rows(heads, lines)


def other_slopes(found, numbers, sizes):
    """Table of slopes in N, and of exact means in the penalty, at the largest number of bags."""
    lines, most = [], numbers[-1]
    few = [size for size in sizes if size != EXACT][:3]
    for c in SMOOTHNESS:
        best = np.column_stack([at_best(found[most, size, c][0]) for size in few])
        in_size = shown(*slope(few, best))
        lines.append([c, "N", f"{few[0]} to {few[-1]}", in_size, "", f"{-c / (c + 1):.2f}"])
        risk, expected = found[most, EXACT, c][0], expected_risk(most, PENALTIES, c)
        for (low, high), bound in ((LARGE, c), (SMALL, -1 / B)):
            part = (low <= PENALTIES) & (high >= PENALTIES)
            measured = shown(*slope(PENALTIES[part], risk[:, part]))
            line = np.polyfit(np.log(PENALTIES[part]), np.log(expected[part]), 1)[0]
            range_of = f"{low:g} to {high:g}"
            lines.append([c, "penalty", range_of, measured, f"{line:.2f}", f"{bound:.2f}"])
    return rows(["c", "against", "range", "slope", "expected", "bound"], lines)


def table_of_errors(found, numbers, sizes, c):
    """Average error with the best penalty, a row for each number of bags."""
    import pandas as pd

    values = {
        "exact means" if s == EXACT else f"{s} points": [
            at_best(found[n, s, c][0]).mean() for n in numbers
        ]
        for s in sizes
    }
    return markdown(pd.DataFrame(values, index=pd.Index(numbers, name="bags")), digits=4)


def draw(found, numbers, sizes, path):
    """Errors of c = 2 against l, N and the penalty, with lines of the bound's slopes."""
    c, most = SMOOTHNESS[-1], numbers[-1]
    figure, axes = pyplot().subplots(1, 3, figsize=(12, 4), layout="constrained", sharey=True)
    drawn = [size for size in sizes if size != EXACT]

    def guide(ax, x, start, power):
        x = np.array([x[0], x[-1]], float)
        line = {"color": "black", "ls": "--", "lw": 1}
        ax.plot(x, start * (x / x[0]) ** power, **line, label=f"slope {power:.2f}")

    for size, color, marker in zip(sizes, MODELS, MARKERS, strict=False):
        label = "exact means" if size == EXACT else f"{size} points"
        style = {"color": color, "label": label}
        risk = [at_best(found[n, size, c][0]) for n in numbers]
        spread = [r.std() / np.sqrt(len(r)) for r in risk]
        axes[0].errorbar(numbers, np.mean(risk, axis=1), spread, marker=marker, ms=4, **style)
        axes[2].plot(PENALTIES, found[most, size, c][0].mean(axis=0), **style)
    exact = at_best(found[numbers[0], EXACT, c][0]).mean()
    guide(axes[0], numbers, exact, -B * c / (B * c + 1))
    for each, color, marker in zip(SMOOTHNESS, MODELS, MARKERS, strict=False):
        risk = [at_best(found[most, size, each][0]) for size in drawn]
        spread = [r.std() / np.sqrt(len(r)) for r in risk]
        axes[1].errorbar(
            drawn, np.mean(risk, axis=1), spread, color=color, marker=marker, label=f"c = {each}"
        )
    guide(axes[1], drawn, np.mean(risk[0]), -c / (c + 1))
    by_penalty = found[most, EXACT, c][0].mean(axis=0)
    for (low, high), power in (((0.02, 0.1), c), (SMALL, -1 / B)):
        start = np.interp(low, PENALTIES, by_penalty)
        guide(axes[2], (low, high), 1.3 * start, power)
    for ax, title, label in zip(
        axes,
        (f"best penalty, c = {c}", f"best penalty, {most} bags", f"{most} bags, c = {c}"),
        ("number l of bags", "points N per bag", "penalty"),
        strict=True,
    ):
        ax.set(title=title, xlabel=label, xscale="log", yscale="log")
        ax.legend(fontsize=8)
    for ax, ticks in ((axes[0], numbers), (axes[1], drawn)):
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
    axes[0].set_ylabel("excess risk")
    figure.savefig(path, dpi=110)


def main():
    parser = arguments(
        __doc__, quick="up to 64 bags, three runs", output="folder for merr_rates.md and its figure"
    )
    parser.add_argument("--runs", type=int, default=40, help="per cell (default 40)")
    parser.add_argument("--most", type=int, default=512, help="bags, a power of 2 (default 512)")
    args = parser.parse_args()
    numbers, sizes, n_runs = 2 ** np.arange(5, round(np.log2(args.most)) + 1), SIZES, args.runs
    if args.quick:
        numbers, sizes, n_runs = np.array([32, 64]), (4, 16, EXACT), 3
    found = all_cells(numbers, sizes, n_runs)
    in_number, others = slopes_in_number(found, numbers, sizes), other_slopes(found, numbers, sizes)
    print(f"\n{in_number}\n\n{others}\n\nSlopes of the bound are upper bounds of the error.")
    if args.output is None:
        return
    parts = [
        TEXT.format(noise=NOISE_SD, runs=n_runs, first=numbers[0], last=numbers[-1]),
        in_number,
        MEASURED.format(last=numbers[-1]),
        others,
        f"Excess risk with the best penalty, c = {SMOOTHNESS[-1]}, averages of {n_runs} runs:",
        table_of_errors(found, numbers, sizes, SMOOTHNESS[-1]),
        AFTER,
    ]
    write(args.output, "merr_rates.md", "\n\n".join(parts) + "\n")
    draw(found, numbers, sizes, args.output / "merr_rates.png")


TEXT = """\
# Rates of MERR: number and size of bags, and penalty

Szabo et al. (2016, [arXiv 1411.2066](https://arxiv.org/abs/1411.2066)) prove that mean embedding
ridge regression is consistent, and bound its excess risk. With l bags of N points, penalty lambda,
and the inner product of kernel means as their kernel, the bound is, up to logarithms and constants,

    1 / (N lambda) + lambda^c + 1 / (l^2 lambda) + 1 / (l lambda^(1/b))

Here b is the exponent at which eigenvalues of the covariance of the kernel means fall, and c from 1
to 2 says how smooth the regression function is relative to the kernel. With N = l^a and the best
penalty the error falls at least as fast as l^(-ac / (c + 1)); from a = b (c + 1) / (bc + 1) on, and
with exact kernel means, as l^(-bc / (bc + 1)), the best possible rate.

![Excess risk against number of bags, points per bag, and penalty](merr_rates.png)

*Averages with standard errors; dashed lines have the slopes of the bound.*

## Simulation

Both constants are known: bags are at uniform angles on a circle, their points at gamma
distributed distances from the angle, and the kernel is a series of cosines; b = 3, c = 1 or 2. The
regression function has standard deviation 1, labels have uniform noise of standard deviation
{noise}. The error is the mean of (estimate - regression function)^2 over exact kernel means of new
bags.

Slopes are of the logarithm of the error in the logarithm of l, from {first} to {last} bags, means
over {runs} runs with standard errors. The best penalty has the smallest average error; MERR chooses
by leave-one-out. "Expected" is the slope of bias and variance, computed from the eigenvalues."""

MEASURED = """\
Slopes against N, with the best penalty, and against the penalty, with exact kernel means, at {last}
bags. The bound is lambda^c where bias is most of the error, lambda^(-1/b) where variance is:"""

AFTER = """\
With exact kernel means the measured slopes are the expected ones, up to two standard errors in l
and to a few hundredths in the penalty. For c = 2 the penalties of the table are not small relative
to the largest eigenvalues: their slope is below c, as expected. With the penalties that MERR
chooses by leave-one-out slopes are at least as steep.

With points the bound is an upper bound, for all distributions of points: with N = l^a, and against
N, errors fall faster than it does. With few points per bag the error stops falling in l, because
MERR treats kernel means as exact: small bags need [`BDR`](attenuation.md).

Reproduce: `python experiments/merr_rates.py --output docs/validation`"""


if __name__ == "__main__":
    main()
