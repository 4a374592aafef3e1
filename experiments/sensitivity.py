"""How wrong predictions can be where points were selected, or where districts have their own rates.

Selection: generated surveys of counties, in which people of high or low values answer more often,
so that weights are wrong by up to a factor G. `model.sensitivity` bounds the labels; the script
counts the intervals that hold the true label, and compares the bounds with linear programming.

Totals: generated districts of urban and rural people, whose rates depend on the district as well by
a share k. `model.bounds` and `model.context` are compared with the true rates of urban people.
"""

import warnings

import numpy as np
from scipy.optimize import linprog

from bdr_stan import BDR, AggregateRegressor, Bags
from bdr_stan.questions.sensitivity import extreme_means
from experiments.report import arguments, pyplot, rows, write

FACTORS = (1.0, 1.25, 1.5, 2.0)
SHARES = (0.0, 0.25, 0.5)
PEOPLE = 2000  # of a county or district


def counties(seed, n, factor):
    """Samples of the people of n counties, and the average opinion of all of them.

    A person's chance of an answer is up to `factor` times as high, or as low, as the average: in
    half of the counties it grows with the opinion, in the other half it falls.
    """
    rng = np.random.default_rng(seed)
    centre, spread = rng.normal(size=(n, 2)), np.exp(0.2 * rng.normal(size=(n, 1)))
    people = centre[:, None] + spread[:, None] * rng.normal(size=(n, PEOPLE, 2))
    opinion = np.sin(people[..., 0]) + 0.3 * people[..., 1]
    above = opinion > np.median(opinion, axis=1, keepdims=True)
    direction = rng.choice([-1, 1], size=(n, 1))
    chance = factor ** np.where(above, direction, -direction).astype(float)
    bags = []
    for each, p, size in zip(people, chance, rng.integers(20, 300, n), strict=True):
        bags.append(each[rng.choice(PEOPLE, size, replace=False, p=p / p.sum())])
    return bags, opinion.mean(axis=1) + 0.05 * rng.normal(size=n)


def selection(n, chains):
    """Share of true labels in the intervals, and their mean width: (true, assumed) -> pair."""
    bags, y = counties(1, n, 1.0)
    model = BDR(kernel="rbf").fit(bags, y, seed=1, **chains)
    found = {}
    for true in FACTORS:
        new, truth = counties(2, n, true)
        bounds = model.sensitivity(new, selection=FACTORS)
        held = (bounds.lower <= truth) & (truth <= bounds.upper)
        width = bounds.upper - bounds.lower
        for k, assumed in enumerate(FACTORS):
            found[true, assumed] = held[k].mean(), width[k].mean()
    return found, model


def error_of_bounds(n_problems):
    """Largest difference between the bounds and those of `linprog`, on random problems."""
    worst = 0.0
    for seed in range(n_problems):
        rng = np.random.default_rng(seed)
        m, factor = int(rng.integers(2, 60)), 1 + rng.gamma(1.0)
        weights, f = rng.gamma(1.0, size=m), rng.normal(size=m)
        _, extremes = extreme_means(lambda w=weights, f=f: [(w, f[:, None])], np.array([factor]))
        # u = v / sum v and s = 1 / sum v are linear: w s / G <= u <= G w s, sum u = 1.
        limits = np.block([[np.eye(m), -factor * weights[:, None]],
                           [-np.eye(m), weights[:, None] / factor]])  # fmt: skip
        sums = np.append(np.ones(m), 0.0)[None]
        for sign, found in zip((1, -1), extremes, strict=True):
            cost = sign * np.append(f, 0.0)
            exact = linprog(cost, limits, np.zeros(2 * m), sums, [1.0], bounds=(0, None))
            worst = max(worst, abs(sign * exact.fun - found.item()))
    return worst


def districts(seed, n, share):
    """Urban and rural people of n districts, the ill of each, and those among the urban."""
    rng = np.random.default_rng(seed)
    urban_share = rng.beta(0.7, 0.7, size=(n, 1))  # some nearly all urban, some nearly all rural
    urban = rng.random((n, PEOPLE)) < urban_share
    rate = (1 - share) * (0.1 + 0.3 * urban) + share * (0.1 + 0.3 * urban.mean(1, keepdims=True))
    ill = rng.random((n, PEOPLE)) < rate
    bags = Bags.from_points(
        urban.reshape(-1, 1).astype(float),
        sizes=np.full(n, PEOPLE),
        ids=np.arange(n),
        features=["urban"],
    )
    return bags, ill.sum(1), ill, urban


def totals(n, chains):
    """Of each true share: rates in their bounds, in intervals at each assumed share, errors."""
    lines = []
    for true in SHARES:
        bags, y, ill, urban = districts(3, n, true)
        model = AggregateRegressor(n_landmarks=2, learn_kernel=False).fit(bags, y, seed=1, **chains)
        subset = bags.where(urban=1)
        rate = (ill & urban).sum(1)[subset.ids] / subset.totals
        bounds = model.bounds(bags, y, subset, highest_rate=1)
        lowest, highest = bounds["lowest"], bounds["highest"]
        held = np.mean((lowest <= rate) & (rate <= highest))
        context = model.context(bags, y, subset, shares=SHARES)
        errors = [
            np.sqrt(np.mean((context.xs(k, level="share")["mean"] - rate) ** 2)) for k in SHARES
        ]
        apart = np.mean(bounds["inside"] < 0.025)
        lines.append([
            f"{true:g}", f"{held:.0%}", f"{np.mean(highest - lowest):.2f}", f"{apart:.0%}",
            *(f"{error:.3f}" for error in errors),
        ])  # fmt: skip
    return lines


def example(model, n):
    """Reasons to doubt that one of two counties of middling predictions is above the other."""
    bags, _ = counties(2, n, 1.0)
    order = np.argsort(model.predict(bags))
    return str(model.doubts(bags, above=(order[2 * n // 3], order[n // 3])))


def figure(model, folder):
    """Bounds of two counties by the factor, and the factor at which they meet."""
    bags, _ = counties(2, 60, 1.0)
    order = np.argsort(model.predictive(bags).mean)[[18, 42]]
    factors = np.linspace(1, 2, 21)
    bounds = model.sensitivity([bags[i] for i in order], selection=factors)
    fails = bounds.fails_at(1, 0)
    draw(factors, bounds, fails).savefig(folder / "sensitivity.png", dpi=200)
    return fails


def draw(factors, bounds, fails):
    """Figure of expected opinions, dark, and of predictive intervals, light."""
    fig, ax = pyplot().subplots(figsize=(7, 3.8), layout="constrained")
    names, colours = ("lower\ncounty", "upper\ncounty"), ("#0072b2", "#d55e00")
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        ax.fill_between(factors, bounds.lower[:, i], bounds.upper[:, i], color=colour, alpha=0.2)
        ax.fill_between(factors, bounds.lowest[:, i], bounds.highest[:, i], color=colour, alpha=0.5)
        middle = (bounds.lowest[-1, i] + bounds.highest[-1, i]) / 2
        ax.text(2.02, middle, name, va="center", color=colour, weight="bold")
    ax.fill_between([], [], [], color="0.4", alpha=0.7, label="expected opinion")
    ax.fill_between([], [], [], color="0.4", alpha=0.2, label="95% predictive interval")
    if fails < 2:
        text = f"G = {fails:.2f}: opinions may be equal"
        ax.axvline(fails, color="black", lw=1, ls="--", label=text)
    ax.set(xlabel="G: weights may be wrong by up to this factor", xlim=(1, 2))
    ax.set_ylabel("average opinion")
    fig.legend(loc="outside upper center", ncols=3, frameon=False)
    return fig


def main():
    args = arguments(
        __doc__,
        quick="few counties and districts, short chains",
        output="folder for sensitivity.md",
    ).parse_args()
    n = 40 if args.quick else 400
    chains = {"chains": 2, "warmup": 100, "draws": 100} if args.quick else {}
    warnings.simplefilter("ignore", UserWarning)
    error = error_of_bounds(20 if args.quick else 200)
    print(f"largest difference of the bounds from linear programming: {error:.1g}")
    found, model = selection(n, chains)
    of_selection = [
        [f"{true:g}", *(f"{found[true, g][0]:.0%} ({found[true, g][1]:.2f})" for g in FACTORS)]
        for true in FACTORS
    ]
    heads = ["true G", *(f"bounds at G = {g:g}" for g in FACTORS)]
    by_selection = rows(heads, of_selection, right=slice(1, None))
    print(by_selection)
    heads = ["true k", "rates in the bounds", "mean width of the bounds", "model contradicted"]
    heads += [f"RMSE at k = {k:g}" for k in SHARES]
    by_context = rows(heads, totals(n // 4, chains), right=slice(1, None))
    print(by_context)
    if args.output is not None:
        args.output.mkdir(parents=True, exist_ok=True)
        fails = figure(model, args.output)
        text = TEXT.format(
            n=n, error=f"{error:.0e}", selection=by_selection, context=by_context,
            districts=n // 4, people=PEOPLE, fails=f"{fails:.2f}", doubts=example(model, n),
        )  # fmt: skip
        write(args.output, "sensitivity.md", text)


TEXT = """\
# Sensitivity to selection bias and context effects

## Robustness table

[Robustness](../robustness.md) describes the use of the methods on this page. `model.doubts(new,
above=(a, b))` lists the reasons to doubt that the label of bag a is above the label of bag b. For
two counties of the generated survey below it is:

```text
{doubts}
```

`AggregateRegressor.doubts(districts, cases, subset)` assesses the rate of a subset of points with
the methods of the last section.

## Selection bias

`model.sensitivity(bags, selection=[1, 1.25, 1.5, 2])` assumes that the right weights of the points
are between 1/G and G times the given weights, and nothing else. `lowest` and `highest` are the
expected labels under the worst weights, `lower` and `upper` the ends of their predictive intervals;
at G = 1 they are the prediction. `fails_at` returns the tipping point, the smallest G at which a
statement is no longer certain.

![Bounds of two counties by the factor](sensitivity.png)

*Predicted labels of two counties. Dark: expected labels; light: 95% predictive intervals. The
statement that the upper county is above the lower one fails at G = {fails}.*

Given a draw, the linear predictor of a bag is the mean over its points of a function f
([partial dependence](../explanation/model.md#quantities-computed-from-a-fit)), shrunk in `BDR`
like the embedding of the bag. Its largest
value over all such weights is a linear-fractional programme, which a threshold solves: points with
f above it have G times their weight, the others 1/G. The bounds are exact: they differ from the
results of `scipy.optimize.linprog` by at most {error} on 200 random problems. For families of
labels and for classes, the expected label, or probability, increases with the predictor, so bounds
of the predictor give bounds of the expected label. Sources: Aronow and Lee (2013), "Interval
estimation of population means under unknown but bounded probabilities of sample selection",
Biometrika; Miratrix, Wager and Zubizarreta (2018), "Shape-constrained partial identification of a
population mean under unknown probabilities of sample selection", Biometrika.

Generated surveys of {n} counties, with 20 to 300 of {people} people each. In the new counties
people above the median opinion answer G times as often as the average and others 1/G times, or the
other way round. The table shows the share of the true labels in the intervals `lower` to `upper`,
and the mean width of these intervals:

{selection}

Intervals cover the truth if the assumed G is at least the true G, and are then wider than
necessary: bounds are for the worst case, in every county at once.

The bounds do not include three effects: selection in the training bags, which changes f itself;
people whom no weight represents; and the smaller effective size of a selected sample (effective
sizes stay as given).

## Rates of people from totals of districts

Methods of [`AggregateRegressor`](../rates.md) for the rate of a subset of the people:

- `bounds` (Duncan and Davis 1953): let y be the total, P_S the weight of the subset, P_rest the
  weight of the others, and let rates lie between 0 and r. Then the rate of the subset lies between
  max(0, (y - r P_rest) / P_S) and min(r, y / P_S), whatever the model. The table also reports the
  posterior and `inside`, its probability within the bounds: if counts are large and `inside` is
  near 0, the data contradict the model. Bounds are narrow if nearly all points belong to the
  subset.
- `context` (neighbourhood effects): the rate of a person is (1 - k) times the rate of the model
  plus k times the rate of the whole district. All k fit the totals equally well, so k cannot be
  estimated from them: compare the conclusion at several k.
- `check_context` (Mundlak 1978): slopes of the districts' effects in the districts' means. A slope
  away from 0 contradicts the model. Slopes near 0 are only weak evidence for it, because the rates
  of the model absorb most of such a dependence.

Generated districts, {districts} of {people} people each, in which rates depend on the district by a
share k. "Model contradicted": districts where the posterior has less than 2.5% of its probability
between the bounds. "RMSE" refers to the estimated rate of urban people in each district, at the
share k that `context` assumes.

{context}

The bounds contain all true rates, but are too wide to reveal that rates depend on the district:
they contradict the model in 1% of districts, whether or not rates depend on the district. The error
is smallest if the assumed k is the true k, which no fit to the totals can find. If people's rates
depend on their district, the error at k = 0 can be more than twice the error at the true k.

Reproduce: `python experiments/sensitivity.py --output docs/validation`
"""


if __name__ == "__main__":
    main()
