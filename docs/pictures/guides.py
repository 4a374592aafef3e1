"""Pictures of the guides. All data are generated.

The screenshots of the HTML report ("report_top", "report_predictions", "report_narrow") need
Chromium, in Debian's package chromium.
"""

import shutil
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from common import BLUE, GREEN, GREY, ORANGE, axes, png
from scipy import stats

from bdr_stan import BDR, BLR, Bags, Shrinkage, plots
from bdr_stan.datasets import county_table, digits_bags

# ---------------------------------------------------------------- one fit for several pages


@cache
def counties():
    """The table of people of 400 counties, their bags, and a fit."""
    people = county_table(400, seed=1)
    bags = Bags.from_dataframe(people, bag="county", metadata=["vote"])
    return people, bags, BDR().fit(bags, "vote", seed=1)


# ---------------------------------------------------------------- data_in


def data_in():
    """Rows of a table, and the bags that they become."""
    people = county_table(400, seed=1)
    chosen = people[people["county"].isin(["c0", "c10", "c104"])]
    rows = chosen.groupby("county").head(3).sort_index()
    colours = dict(zip(["c0", "c10", "c104"], (BLUE, ORANGE, GREEN), strict=True))
    figure, (left, right) = axes(2, 9.6, 3.4, width_ratios=(1.15, 1))
    left.axis("off")
    cells = [
        [r.county, f"{r.age:.0f}", f"{r.income:,.0f}", r.region, f"{r.vote:.2f}"]
        for r in rows.itertuples()
    ]
    table = left.table(cells, colLabels=list(people), loc="center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 1.35)
    for (row, column), cell in table.get_celld().items():
        cell.set_edgecolor("0.85")
        if row and column == 0:
            cell.get_text().set_color(colours[cells[row - 1][0]])
            cell.get_text().set_fontweight("bold")
    left.set_title("a table, one row per person (first rows)", fontsize=10)
    for level, (name, colour) in enumerate(colours.items()):
        own = people[people["county"] == name]
        jitter = np.random.default_rng(level).uniform(-0.25, 0.25, len(own))
        right.plot(own["age"], 2 - level + jitter, ".", color=colour, ms=4, alpha=0.7)
        text = f"{name}: {len(own)} people, vote {own['vote'].iloc[0]:.2f}"
        right.text(2, 2.33 - level, text, color=colour, fontsize=9)
    right.set(xlabel="age", xlim=(0, 100), ylim=(-0.5, 2.6), yticks=[])
    right.set_title("three bags, seen in one column", fontsize=10)
    return png(figure)


# ---------------------------------------------------------------- families


def families():
    """Counts that vary more than Poisson counts under two families, and ordinal thresholds."""
    rng = np.random.default_rng(1)
    centre, sizes = rng.normal(size=300), rng.integers(5, 100, 300)
    bags = Bags.from_list([rng.normal(c, 1, (n, 1)) for c, n in zip(centre, sizes, strict=True)])
    y = rng.poisson(np.exp(1.3 + 0.5 * centre) * rng.gamma(2, 1 / 2, 300))
    figure, (*both, last) = axes(3, 10.5, 3.4)
    for ax, family in zip(both, ("poisson", "negative_binomial"), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the counts' overdispersion
            model = BLR(8, family=family, method="laplace").fit(bags, y, seed=1)
        plots.rootogram(y, model.predictive(bags), ax=ax)
        ax.set(title=f'family="{family}"', ylim=(-3, 9))
        ax.title.set_fontsize(10)
        if ax.get_legend() is not None and ax is not both[0]:
            ax.get_legend().remove()
    h = np.linspace(-4, 7, 300)
    thresholds = (0.0, 2.5)  # c_1 = 0 and c_2 = c_1 + gap_2
    below = [1 / (1 + np.exp(h - c)) for c in thresholds]
    shares = np.diff([np.zeros_like(h), *below, np.ones_like(h)], axis=0)
    for share, name, colour in zip(shares, ("poor", "fair", "good"), (ORANGE, GREY, BLUE)):
        last.plot(h, share, color=colour, lw=2)
        at = h[share.argmax()]
        place = "left" if at < 0 else "right" if at > 5 else "center"
        last.text(at, share.max() + 0.02, name, color=colour, ha=place)
    for c, text in zip(thresholds, ("$c_1 = 0$", "$c_2 = c_1 + gap_2$"), strict=True):
        last.axvline(c, color=GREY, lw=1, ls="--", zorder=0)
        last.text(c + 0.1, 0.8, text, rotation=90, va="center", fontsize=8)
    last.set(xlabel="linear predictor h", ylabel="probability", ylim=(0, 1.09))
    last.set_title('family="ordinal"', fontsize=10)
    return png(figure)


# ---------------------------------------------------------------- terms


def terms():
    """`plots.terms` of 400 generated counties in twelve states."""
    rng = np.random.default_rng(3)
    n, states = 400, ["Ada", "Bay", "Cove", "Dale", "Elm", "Fen", "Glen", "Hill", "Isle", "Jay"]
    effects = dict(zip(states, rng.normal(0, 0.4, len(states)), strict=True))
    data = pd.DataFrame(
        {"state": rng.choice(states, n, p=rng.dirichlet(np.full(len(states), 3.0)))}
    ).assign(year=rng.uniform(2000, 2024, n), lon=rng.uniform(0, 4, n), lat=rng.uniform(0, 3, n))
    age = rng.normal(45, 6, n)
    h = 0.05 * (age - 45) + data["state"].map(effects) + 0.5 * np.sin((data["year"] - 2000) / 5)
    h += 0.4 * np.cos(1.6 * data["lon"]) * np.sin(1.2 * data["lat"])
    data["votes"] = rng.integers(200, 20_000, n)
    data["yes"] = rng.binomial(
        data["votes"], rng.beta(60 * (p := 1 / (1 + np.exp(-h))), 60 - 60 * p)
    )
    people = [rng.normal(a, 14, (m, 1)) for a, m in zip(age, rng.integers(10, 200, n), strict=True)]
    bags = Bags.from_list(people, metadata=data, features=["age"])
    model = Shrinkage(
        20,
        family="beta_binomial",
        method="laplace",
        groups=["state"],
        smooths=["year", ["lon", "lat"]],
    ).fit(bags, "yes", trials="votes", seed=1)
    drawn = plots.terms(model)
    figure = drawn[0].figure
    figure.set_size_inches(10.5, 3.4)
    return png(figure)


# ---------------------------------------------------------------- priors


def priors():
    """Prior and posterior densities of three scales."""
    bags, y = digits_bags(200, seed=1)
    model = BDR(20, bandwidth="median").fit(bags, y, seed=1)
    prior = model.prior_predictive(bags, draws=4000, seed=1)["prior"]
    figure, panels = axes(3, 9.6, 3.2)
    for ax, name in zip(panels, ("sigma", "rho", "eta"), strict=True):
        logs = [np.log(np.ravel(group[name])) for group in (prior, model.idata["posterior"])]
        grid = np.linspace(*np.quantile(np.concatenate(logs), [0.002, 0.998]), 400)
        for log, colour, text in zip(logs, (GREY, BLUE), ("prior", "posterior"), strict=True):
            density = stats.gaussian_kde(log)(grid)
            ax.fill_between(np.exp(grid), density / density.max(), color=colour, alpha=0.4, lw=0)
            ax.plot(np.exp(grid), density / density.max(), color=colour, label=text)
        ax.set(xscale="log", xlabel=name, yticks=[], ylim=(0, 1.1))
        ax.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1,), numticks=6))
        ax.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    panels[0].set_ylabel("density of the logarithm,\nhighest value 1")
    panels[0].legend(frameon=False, loc="upper left")
    return png(figure)


# ---------------------------------------------------------------- check


def check():
    """Trace, PIT and coverage of a good fit above, of bad ones below."""
    _, bags, good = counties()
    test = Bags.from_dataframe(county_table(800, seed=2), "county", metadata=["vote"], like=bags)
    y = test.metadata["vote"].to_numpy()
    exact = BLR(method="exact").fit(bags, "vote", seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the chains disagree
        wide = BDR(30, kernel="rbf", prior={"eta_log_sd": 2.0})
        wide.fit(*bags_of_one_size(), seed=1, warmup=300, draws=500)
    print(good.report(), wide.report(), sep="\n\n")
    figure, panels = plt.subplots(2, 3, figsize=(11, 5.6), layout="constrained")
    for ax, model, text in zip(panels[:, 0], (good, wide), ("good", "bad"), strict=True):
        for chain, colour in zip(model.idata["posterior"]["eta"].to_numpy(), plots.MODELS):
            ax.plot(chain, color=colour, lw=0.4)
        ax.set(xlabel="draw", ylabel="eta", yscale="log", title=f"trace of four chains: {text}")
    for row, model, text in zip(panels, (good, exact), ("good", "bad"), strict=True):
        predictive = model.predictive(test)
        small = test.sizes <= 5
        row[1].hist(np.asarray(predictive.cdf(y))[small], np.linspace(0, 1, 11), color=BLUE)
        expected = small.sum() / 10
        row[1].axhspan(*stats.binom.interval(0.95, small.sum(), 0.1), color=GREY, alpha=0.3)
        row[1].axhline(expected, color="black", lw=0.8)
        row[1].set(xlabel="PIT", ylabel="counties of 1 to 5 people", ylim=(0, 3.2 * expected))
        row[1].set_title(f"PIT histogram: {text}")
        lower, upper = predictive.interval(0.95)
        inside = (lower <= y) & (y <= upper)
        names = ["1", "2-5", "6-20", "21-100", "101-"]
        place = np.searchsorted([1, 5, 20, 100], test.sizes)
        row[2].plot(names, [inside[place == k].mean() for k in range(5)], "o", color=BLUE)
        row[2].axhline(0.95, color="black", lw=0.8)
        row[2].set(
            xlabel="people per county", ylabel="share inside 95% intervals", ylim=(0.6, 1.02)
        )
        row[2].set_title(f"coverage by size: {text}")
    return png(figure)


def bags_of_one_size(n=200, size=50, seed=1):
    """Bags from draws of a Dirichlet process, and labels, as in docs/validation/attenuation.md."""
    rng = np.random.default_rng(seed)
    bags, y = [], []
    for _ in range(n):
        shares, places = rng.dirichlet(np.full(200, 25 / 200)), rng.uniform(size=200)
        bags.append(rng.choice(places, (size, 1), p=shares))
        y.append(shares @ (10 * places * np.exp(-5 * places)) + 0.1 * rng.normal())
    return Bags.from_list(bags), np.array(y)


def report_top():
    return screenshot(1100, 640, 1400)


def report_predictions():
    return screenshot(1100, 760, 1400, "predictions")


def report_narrow():
    return screenshot(390, 844, 780)


def screenshot(width, height, pixels, section=""):
    """HTML report of `counties` in a window of this size, as a PNG so many pixels wide."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("screenshots of the report need Chromium: apt-get install chromium")
    _, bags, model = counties()
    with TemporaryDirectory() as folder:
        page = Path(folder) / "fit.html"
        model.report_html(page, bags, label="vote share", title="County votes")
        if section:  # the picture begins at the top of the page
            page.write_text(from_section(page.read_text(), section))
        picture = Path(folder) / "page.png"
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--force-device-scale-factor={pixels / width}", f"--window-size={width},{height}",
             f"--user-data-dir={folder}/profile", f"--screenshot={picture}", page.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip
        return picture.read_bytes()


def from_section(text, name):
    """The page with a style that hides everything before the section with this id."""
    hidden = f"header, nav, :has(~ #{name})"
    return text.replace("</head>", f"<style>{hidden} {{ display: none }}</style></head>")


# ---------------------------------------------------------------- interpret


def interpret():
    """Partial dependence, an average comparison by county, and poststratification."""
    people, bags, model = counties()
    figure, (first, second, third) = axes(3, 10.5, 3.5)
    plots.influence(model, "age", bags, ax=first)
    first.set_title("partial dependence on age", fontsize=10)
    first.set_ylabel("added to the vote share")
    change = model.contrast(people.assign(age=people["age"] + 2), bags)
    order = np.argsort(change.mean)[::10]
    lower, upper = (100 * end[order] for end in change.interval(0.95))
    second.vlines(np.arange(len(order)), lower, upper, color=BLUE, lw=1)
    second.plot(100 * change.mean[order], ".", color=BLUE, ms=4)
    second.axhline(0, color=GREY, lw=1, ls="--")
    second.set(xlabel="every tenth county, ordered", ylabel="percentage points")
    second.set_title("change if all were two years older", fontsize=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # counties without people of a region
        groups = {"all": bags, **{r: bags.where(region=r) for r in ("town", "country")}}
    found = pd.concat({n: model.population(b).to_dataframe().iloc[0] for n, b in groups.items()})
    found = 100 * found.unstack()
    third.vlines(found.index, found["lower"], found["upper"], color=BLUE, lw=2)
    third.plot(found.index, found["mean"], "o", color=BLUE)
    third.set(ylabel="vote share, %", xlim=(-0.6, 2.6))
    third.set_title("poststratification", fontsize=10)
    print(found.round(1), change, change.reliability, sep="\n")
    return png(figure)


# ---------------------------------------------------------------- data_needed


def design():
    """Surveys of three widths, with a pilot of 150 counties."""
    bags = Bags.from_dataframe(county_table(1000, seed=1), bag="county", metadata=["vote"])
    pilot = BDR(method="laplace").fit(bags[:150], "vote", seed=1)
    costs = {"cost_of_bag": 5, "cost_of_point": 1}
    studies = [pilot.design(width=width, **costs) for width in (0.12, 0.15, 0.2)]
    print(*(table.head(3) for table in studies), sep="\n")
    figure, ax = axes(1, 5.6, 3.8)
    plots.design(*studies, ax=ax)
    ax.set(xlabel="people per county", ylabel="counties")
    return png(figure)


# ---------------------------------------------------------------- robustness


def robustness_familiarity():
    """P-values and sizes of new counties like the training counties, and of ten hospitals."""
    _, bags, model = counties()
    new = county_table(400, seed=2).drop(columns="vote")
    rng = np.random.default_rng(1)
    patients = pd.DataFrame({"county": np.repeat([f"hospital {k}" for k in range(10)], 200)})
    patients = patients.assign(
        age=rng.normal(76, 8, 2000), income=np.exp(rng.normal(10, 0.6, 2000)), region="town"
    )
    figure, ax = axes(1, 5.6, 3.2)
    for table, colour, text in (
        (new, BLUE, "400 new counties"),
        (patients, ORANGE, "10 hospitals"),
    ):
        groups = Bags.from_dataframe(table, "county", like=bags)
        p = model.familiarity(groups)["familiarity"].to_numpy()
        ax.plot(groups.sizes, p, ".", color=colour, ms=5, label=text)
        print(f"{text}: {np.sum(p <= 0.05)} at most 0.05, {np.sum(p <= 0.01)} at most 0.01")
    ax.axhline(0.01, color="black", lw=0.8, ls="--")
    ax.set(
        xlabel="points per group", ylabel="p-value", xscale="log", yscale="log", ylim=(5e-4, 1.3)
    )
    ax.legend(frameon=False, loc="lower left")
    return png(figure)
