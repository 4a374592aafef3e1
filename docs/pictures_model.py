"""Draw the pictures of the pages that explain models: python docs/pictures_model.py"""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from bdr_stan import BDR, Bags
from bdr_stan.datasets import county_table

DOCS = Path(__file__).resolve().parent
COLOURS = ("#0072B2", "#E69F00", "#009E73")
OTHERS = ("ridge", "the same", "shrunken", "Gaussian", "random", "gradient")  # rivals' names begin


def shrinkage():
    """Share of each coordinate that is kept, by bag size, in the example of the county table."""
    people = county_table(400, seed=1)
    bags = Bags.from_dataframe(people, bag="county", metadata=["vote"])
    model = BDR(method="laplace", random_state=1).fit(bags, "vote")
    ratios = np.asarray(model.stan_data(bags, "vote")["lambda"])
    eta = float(model.idata.posterior["eta"].mean())
    sizes = np.geomspace(1, 1_000, 200)
    figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
    names = ("varies much (10%)", "median", "varies little (90%)")
    for share, name, colour in zip((0.1, 0.5, 0.9), names, COLOURS, strict=True):
        ratio = np.quantile(ratios, share)
        axes.plot(sizes, eta / (eta + ratio / sizes), color=colour, label=name)
    axes.set(xscale="log", xlabel="points in the bag", ylabel="share kept, $s_{ik}$", ylim=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, title="coordinate", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(DOCS / "explanation/shrinkage.png", dpi=130)


def district():
    """One district: pixels with people and rates, and the total that is observed."""
    rng = np.random.default_rng(3)
    across, up = np.meshgrid(np.arange(12), np.arange(12))
    rate = 0.02 * np.exp(1.3 * np.sin(across / 3.5) + 0.8 * np.cos(up / 4))
    people = rng.gamma(0.7, 120, rate.shape).round()
    expected = (people * rate).sum()
    cases = rng.poisson(expected * rng.gamma(50, 0.02))
    panels = ((people, "people", "Blues"), (rate, "rate, unknown", "Oranges"))
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained")
    for ax, (values, name, colours) in zip(axes, panels, strict=False):
        shown = ax.imshow(values, cmap=colours, origin="lower")
        figure.colorbar(shown, ax=ax, shrink=0.8)
        ax.set(title=name, xticks=[], yticks=[])
    axes[2].axis("off")
    sums = f"$\\lambda$ = sum of\npeople × rate = {expected:.0f}"
    text = f"expected total: {sums}\n\nreported: {cases} cases"
    axes[2].text(0.5, 0.5, text, ha="center", va="center", transform=axes[2].transAxes, fontsize=12)
    figure.savefig(DOCS / "district.png", dpi=130)


def real_tables():
    """Differences from BDR in mean over the real tables, of the page that has them."""
    page = (
        (DOCS / "validation/real_tables.md")
        .read_text()
        .partition("## All tables")[2]
        .partition("## ")[0]
    )
    rows = re.findall(
        r"^\| (.+?) \| (-?[\d.]+) \| ([\d.]+) \| -?[\d.]+ \| -?[\d.]+ \|$", page, re.M
    )
    methods = [row[0] for row in rows[1:]][::-1]
    means, errors = (np.array([float(row[k]) for row in rows[1:]])[::-1] for k in (1, 2))
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    ours = np.array([not name.startswith(OTHERS) for name in methods])
    for which, colour in ((ours, COLOURS[0]), (~ours, COLOURS[1])):
        style = {"fmt": "o", "color": colour, "capsize": 2}
        axes.errorbar(means[which], np.flatnonzero(which), xerr=2 * errors[which], **style)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(methods)), [m.replace("the same", "ridge on means") for m in methods])
    axes.set_xlabel("NLL per group minus BDR's, nats (higher is worse)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "validation/real_tables.png", dpi=130)


def calibration():
    """Coverage of intervals minus their level on new gamma bags, of the page that has them."""
    page = (DOCS / "validation/gamma.md").read_text().partition("10000 fresh bags:")[2]
    sizes = (5, 20, 100, 1_000)
    figure, panels = plt.subplots(1, 3, figsize=(8, 2.8), sharey=True, layout="constrained")
    for ax, level in zip(panels, (50, 80, 95), strict=True):
        for name, colour in zip(("BLR", "BDR", "InverseBDR, additive"), COLOURS, strict=True):
            (row,) = re.findall(rf"^\| {name}, {level}% \| (.+) \|$", page, re.MULTILINE)
            covered = np.array(row.split(" | ")[: len(sizes)], float)
            ax.plot(sizes, covered - level / 100, "o-", color=colour, label=name)
        ax.axhline(0, color="black", linewidth=0.8)
        ax.set(title=f"{level}% intervals", xscale="log", xlabel="points per bag")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("coverage minus level")
    panels[2].legend(frameon=False)
    figure.savefig(DOCS / "validation/calibration.png", dpi=130)


if __name__ == "__main__":
    shrinkage()
    district()
    real_tables()
    calibration()
