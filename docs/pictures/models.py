"""Pictures of models: shrinkage of embeddings, and the total of one district."""

import numpy as np
from common import BLUE, GREEN, ORANGE, axes, png

from bdr_stan import BDR, Bags
from bdr_stan.datasets import county_table


def shrinkage():
    """Share of each coordinate that is kept, by bag size, in the example of the county table."""
    people = county_table(400, seed=1)
    bags = Bags.from_dataframe(people, bag="county", metadata=["vote"])
    model = BDR(method="laplace", random_state=1).fit(bags, "vote")
    ratios = np.asarray(model.stan_data(bags, "vote")["lambda"])
    eta = float(model.idata.posterior["eta"].mean())
    sizes = np.geomspace(1, 1_000, 200)
    figure, ax = axes(1, 6.5, 3.2)
    names = ("varies much (10%)", "median", "varies little (90%)")
    for share, name, colour in zip((0.1, 0.5, 0.9), names, (BLUE, ORANGE, GREEN), strict=True):
        ratio = np.quantile(ratios, share)
        ax.plot(sizes, eta / (eta + ratio / sizes), color=colour, label=name)
    ax.set(xscale="log", xlabel="points in the bag", ylabel="share kept, $s_{ik}$", ylim=(0, 1))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, title="coordinate", loc="center left", bbox_to_anchor=(1, 0.5))
    return png(figure)


def district():
    """One district: pixels with people and rates, and the total that is observed."""
    rng = np.random.default_rng(3)
    across, up = np.meshgrid(np.arange(12), np.arange(12))
    rate = 0.02 * np.exp(1.3 * np.sin(across / 3.5) + 0.8 * np.cos(up / 4))
    people = rng.gamma(0.7, 120, rate.shape).round()
    expected = (people * rate).sum()
    cases = rng.poisson(expected * rng.gamma(50, 0.02))
    panels = ((people, "people", "Blues"), (rate, "cases per person, unknown", "Oranges"))
    figure, (*both, last) = axes(3, 8, 2.9)
    for ax, (values, name, colours) in zip(both, panels, strict=True):
        shown = ax.imshow(values, cmap=colours, origin="lower")
        figure.colorbar(shown, ax=ax, shrink=0.8)
        ax.set(title=name, xticks=[], yticks=[])
    last.axis("off")
    sums = f"$\\lambda$ = sum of\npeople × rate = {expected:.0f}"
    text = f"expected total: {sums}\n\nreported: {cases} cases"
    last.text(0.5, 0.5, text, ha="center", va="center", transform=last.transAxes, fontsize=12)
    return png(figure)
