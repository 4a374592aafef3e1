"""Pictures of the entry pages: the concept, the choice of a model, regression dilution."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from common import BLUE, GREEN, ORANGE, png
from matplotlib.patches import Ellipse, FancyBboxPatch

from bdr_stan import BDR, Bags
from bdr_stan.kernels import LinearEffects

DARK = "0.45"
FONT = {"font.size": 9, "axes.titlesize": 9.5}


# ------------------------------------------------------------------------------- concept

SIZES = (3, 20, 200)  # members of the three bags
COLOURS, MARKERS = (ORANGE, GREEN, BLUE), "os^"
BETWEEN = np.array([[1.0, 0.3], [0.3, 0.6]])  # covariance of the bags' true means
WITHIN = np.array([[4.0, -0.5], [-0.5, 2.5]])  # covariance of the points of a bag
QUIET = {"arrowstyle": "-", "color": "0.4", "lw": 0.8}  # line from a word to its point
SLOPE, NOISE = np.array([1.0, 0.6]), 0.15  # of the label on the true mean


def ellipse(ax, centre, covariance, colour, *, alpha=0.25):
    """The region that contains 80% of a normal distribution."""
    variances, axes = np.linalg.eigh(covariance)
    width, height = 2 * np.sqrt(3.22 * variances)
    angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
    ax.add_patch(Ellipse(centre, width, height, angle=angle, color=colour, alpha=alpha, lw=0))


@plt.rc_context(FONT)
def concept():
    """From bags of points to predictions, with the normal distributions of the true means."""
    rng = np.random.default_rng(386)
    truth = np.array([[1.5, 0.8], [0.4, -1.1], [-1.6, 0.5]])
    bags = [rng.multivariate_normal(mean, WITHIN, n) for mean, n in zip(truth, SIZES)]
    labels = truth @ SLOPE + rng.normal(0, NOISE, 3)
    figure = plt.figure(figsize=(7, 2.55), layout="constrained")
    grid = figure.add_gridspec(3, 4, width_ratios=[0.8, 1.15, 1.15, 1])
    means, shrunk, last = (figure.add_subplot(grid[:, k]) for k in (1, 2, 3))
    for k, points in enumerate(bags):
        style = {"color": COLOURS[k], "marker": MARKERS[k]}
        ax = figure.add_subplot(grid[k, 0])
        ax.scatter(*points.T, s=7, lw=0, alpha=0.9 if len(points) < 100 else 0.5, **style)
        ax.set(xlim=(-6, 6), ylim=(-5, 5), xticks=[], yticks=[])
        ax.set_ylabel(f"n = {len(points)}", color=COLOURS[k], weight="bold")
        if k == 0:
            ax.set_title("1 Bags of points")
        mean, error = points.mean(axis=0), WITHIN / len(points)
        weight = BETWEEN @ np.linalg.inv(BETWEEN + error)
        posterior, spread = weight @ mean, BETWEEN - weight @ BETWEEN
        ellipse(means, mean, error, COLOURS[k])
        means.plot(*mean, ms=5, **style)
        ellipse(shrunk, posterior, spread, COLOURS[k])
        arrow = {"arrowstyle": "->", "color": COLOURS[k], "lw": 1.4, "shrinkA": 2, "shrinkB": 1}
        shrunk.plot(*mean, ms=5, mfc="white", **style)
        shrunk.annotate("", posterior, mean, arrowprops=arrow)
        shrunk.plot(*posterior, ms=5, **style)
        centre, sd = SLOPE @ posterior, np.sqrt(SLOPE @ spread @ SLOPE + NOISE**2)
        last.errorbar(k, centre, 1.96 * sd, ms=5, capsize=3, lw=1.6, **style)
        last.plot(k + 0.25, labels[k], "x", color="black", ms=5)
    for ax in (means, shrunk):
        ax.set(xlim=(-3.4, 5.3), ylim=(-3.0, 4.1), xticks=[], yticks=[])
    shrunk.plot(0, 0, "+", color="black", ms=9, mew=1.5)
    shrunk.annotate("average of\nall bags", (0, 0), (1.8, -2.6), color="0.2", arrowprops=QUIET)
    means.set_title("2 Mean of each bag\nand its sampling error")
    shrunk.set_title("3 Shrinkage\nof uncertain means")
    last.set_title("4 Predicted label\nwith 95% interval")
    last.set(xlim=(-0.5, 2.7), xticks=range(3), yticks=[], xlabel="members")
    last.set_xticklabels(SIZES)
    last.plot([], [], "x", color="black", ms=5, label="true label")
    last.legend(frameon=False, loc="upper right", handletextpad=0.1, borderpad=0)
    return png(figure)


# ------------------------------------------------------------------------------- choosing

QUESTIONS = [
    ("Is the label a total over the points,\nand do you want the rate at each point?",
     "AggregateRegressor(...)\nJointRegressor(...) with surveys"),
    ("Is the label a class?",
     'BDRClassifier(): two classes\nBDR(family="ordinal"): ordered classes\n'
     "InverseBDRClassifier(): three or more"),
    ("Is it a count, a share, positive\nor heavy-tailed?",
     'BDR(family="negative_binomial")\nor another family'),
    ("Has it few distinct values, or a response\nthat is not linear in the embedding?",
     "InverseBDR()"),
    ("Do you only need predictions,\nwithout effects of columns?", "Stacked()"),
]  # fmt: skip


def box(ax, x, y, text, *, width, height, face, edge, **style):
    corner = x - width / 2, y - height / 2
    shape = "round,pad=0,rounding_size=0.08"
    ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, fc=face, ec=edge, lw=1.2))
    ax.text(x, y, text, ha="center", va="center", linespacing=1.35, **style)


@plt.rc_context(FONT)
def choosing():
    """Questions about the label from top to bottom; "yes" leads to a model."""
    figure, ax = plt.subplots(figsize=(7, 5.2), layout="constrained")
    arrow = {"arrowstyle": "-|>", "color": DARK, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
    left, right, step = 1.75, 5.3, 0.92
    answer = {"width": 3.2, "face": "#E5F0F8", "edge": BLUE, "family": "monospace", "size": 8}
    for k, (question, model) in enumerate(QUESTIONS):
        y = -step * k
        box(ax, left, y, question, width=3.3, height=0.6, face="white", edge=DARK)
        box(ax, right, y, model, height=0.68 if model.count("\n") == 2 else 0.56, **answer)
        ax.annotate("", (right - 1.6, y), (left + 1.65, y), arrowprops=arrow)
        ax.text((left + right) / 2 + 0.02, y + 0.06, "yes", ha="center", va="bottom", color="0.3")
        ax.annotate("", (left, y - step + 0.3), (left, y - 0.3), arrowprops=arrow)
        ax.text(left + 0.07, y - step / 2, "no", va="center", color="0.3")
    y = -step * len(QUESTIONS)
    box(ax, left, y, "BDR(): the default", height=0.5, **answer | {"width": 3.3, "weight": "bold"})
    note = (
        "With any of these: labels with standard errors, fit(label_sd=);\n"
        'a first look in a second, BLR(method="exact")'
    )
    ax.text(right, y, note, ha="center", va="center", color="0.25", size=8, wrap=True)
    ax.set(xlim=(0.05, 6.95), ylim=(y - 0.32, 0.4))
    ax.axis("off")
    return png(figure)


# ------------------------------------------------------------------- regression dilution


def teams(members_each, n=200, seed=1):
    """Members' motivation, and the performance of each team, as in tutorials/micro_macro.md."""
    rng = np.random.default_rng(seed)
    team = np.repeat(np.arange(n), members_each)
    mean = rng.normal(size=n)
    motivation = mean[team] + rng.normal(0, 2, len(team))
    return pd.DataFrame({"team": team, "motivation": motivation}), 3 + mean + rng.normal(0, 0.5, n)


SAMPLING = {"adapt_delta": 0.99, "draws": 2000}  # few members hardly identify the slope


@plt.rc_context(FONT)
def regression_dilution():
    """Slope of least squares on group means, and of BDR, against the members per group."""
    sizes = np.array([2, 3, 5, 10, 20, 50])
    squares, errors, slopes, ends = [], [], [], []
    for n in sizes:
        members, performance = teams(n)
        means = members.groupby("team")["motivation"].mean()
        (slope, _), covariance = np.polyfit(means, performance, 1, cov=True)
        squares.append(slope)
        errors.append(1.96 * np.sqrt(covariance[0, 0]))
        bags = Bags.from_dataframe(members, bag="team")
        model = BDR(kernel=LinearEffects()).fit(bags, performance, seed=1, **SAMPLING)
        found = model.influence([[means.mean() + 1]])
        slopes.append(found.mean[0])
        ends.append(np.ravel(found.interval(0.95)))
    figure, ax = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
    along = np.geomspace(1.7, 60, 100)
    ax.axhline(1, color="black", lw=1, ls="--")
    ax.text(7, 1.01, "true slope", ha="center", va="bottom")
    ax.plot(along, 1 / (1 + 4 / along), color=ORANGE, lw=1, alpha=0.6)
    bars = {"capsize": 3, "lw": 1.5, "ms": 5}
    ax.errorbar(sizes * 0.97, squares, errors, fmt="o", color=ORANGE, **bars,
                label="least squares on group means")  # fmt: skip
    widths = np.abs(np.transpose(ends) - slopes)
    ax.errorbar(sizes * 1.03, slopes, widths, fmt="s", color=BLUE, **bars,
                label="BDR, sampling error modelled")  # fmt: skip
    ax.set(xscale="log", xticks=sizes, ylim=(0, None))
    ax.set_xticklabels(sizes)
    ax.minorticks_off()
    ax.set(xlabel="members per group", ylabel="slope, with 95% interval")
    ax.legend(loc="lower right", frameon=False)
    return png(figure)
