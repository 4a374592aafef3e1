"""Pictures of results of experiments, from the tables of their pages in docs/validation."""

import re

import numpy as np
import pandas as pd
from common import BLUE, DOCS, ORANGE, axes, png

from experiments import conformal as of_conformal
from experiments import gamma as of_gamma

OTHERS = ("ridge", "the same", "shrunken", "Gaussian", "random", "gradient")  # rivals' names begin


def page_of(experiment):
    return (DOCS / f"validation/{experiment}.md").read_text()


def tables_of(experiment, first):
    """Tables of numbers, of the page of an experiment, whose first column has this title."""
    found = []
    for block in page_of(experiment).split("\n\n"):
        if block.startswith(f"| {first} |"):
            lines = [line[1:-1].split("|") for line in block.strip().splitlines()]
            heads, _, *rows = ([cell.strip() for cell in line] for line in lines)
            table = pd.DataFrame(rows, columns=heads).set_index(first)
            found.append(table.apply(pd.to_numeric, errors="coerce"))
    return found


def real_tables():
    """Differences from BDR in mean over the real tables, of the page that has them."""
    page = page_of("real_tables").partition("## All tables")[2].partition("## ")[0]
    rows = re.findall(
        r"^\| (.+?) \| (-?[\d.]+) \| ([\d.]+) \| -?[\d.]+ \| -?[\d.]+ \|$", page, re.M
    )
    methods = [row[0] for row in rows[1:]][::-1]
    means, errors = (np.array([float(row[k]) for row in rows[1:]])[::-1] for k in (1, 2))
    figure, ax = axes(1, 7, 4)
    ours = np.array([not name.startswith(OTHERS) for name in methods])
    for which, colour in ((ours, BLUE), (~ours, ORANGE)):
        style = {"fmt": "o", "color": colour, "capsize": 2}
        ax.errorbar(means[which], np.flatnonzero(which), xerr=2 * errors[which], **style)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(methods)), [m.replace("the same", "ridge on means") for m in methods])
    ax.set_xlabel("NLL per group minus BDR's, nats (higher is worse)")
    ax.spines[["top", "right"]].set_visible(False)
    return png(figure)


def robustness_conformal():
    """Coverage of BLR's intervals and of its regions, from the table of the experiment."""
    table = conformal_table().loc["digits"].loc["BLR"].drop("all")
    names = [name.split(" point")[0] for name in table.index]
    figure, ax = axes(1, 5.6, 3.2)
    ax.plot(names, table["own interval"], "s", color=ORANGE, label="intervals of BLR")
    ax.plot(names, table["region"], "o", color=BLUE, label="conformal regions")
    ax.axhline(0.9, color="black", lw=0.8)
    ax.set(xlabel="images per bag", ylabel="share of labels contained", ylim=(0.7, 1.02))
    ax.legend(frameon=False, loc="lower right")
    return png(figure)


def conformal_table():
    """Coverage by data, method and class of bag sizes."""
    (table,) = tables_of("conformal", "bags, model, sizes")
    return table.set_index(pd.MultiIndex.from_tuples(name.split(", ") for name in table.index))


def conformal():
    """Coverage of regions and intervals, as the experiment draws it."""
    return png(of_conformal.draw(conformal_table()))


def gamma_figure4():
    """MSE and NLL by the share of small bags, as the experiment draws them."""
    (table,) = tables_of("gamma", "bags of 5 points, method")
    results = {}
    for label, mse, nll in zip(table.index, table["MSE"], table["NLL"], strict=True):
        share, _, method = label.partition("%, ")
        results.setdefault(int(share), {})[method] = (mse, nll)
    return png(of_gamma.draw_figure4(results))


def gamma_calibration():
    """Coverage minus level of intervals of new bags, as the experiment draws it."""
    *_, table = tables_of("gamma", "points per bag")
    (n_bags,) = re.findall(r"(\d+) fresh bags:", page_of("gamma"))
    n_sizes = len(table.columns.drop("all"))
    return png(of_gamma.draw_calibration(table, int(n_bags) / n_sizes))
