"""Surveys designed with a pilot: widths of intervals, power and allocation, expected and realised.

Widths: a fit to a sample of real groups chooses the size of a study, which is then made of other
groups of the same table. Power: the share of simulated studies that find an effect, beside studies
of the true process. Allocation: further members of groups, chosen one by one or as many for all.
"""

import warnings

import numpy as np
import pandas as pd

from bdr_stan import BDR, BLR, Bags
from experiments.real_tables import CHECKS, TABLES, made, read
from experiments.report import arguments, markdown, standard_error, write

OF_WIDTHS = {
    "lecturers, ratings": "lecturers, ratings",
    "schools, chemistry": "schools, chemistry",
    "workers, wages": "workers, wages",
    "people, hours": "check: people, hours",
    "classes, reading": "check: classes, reading",
}
OF_ALLOCATION = ("schools, mathematics", "schools, language", "schools, chemistry")
COSTS = {"cost_of_bag": 5, "cost_of_point": 1}
FACTORS = (0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3)  # of the width of the pilot's own intervals
MOST, LEAST, NEW, SHIFT = 30, 8, 100, 0.5  # members per group of a pilot, and in the table, ...
# Seed -> model, bags, points per bag, slope of the true function.
SETTINGS = {
    0: ("BDR", 40, 5, 0.3),
    1: ("BDR", 40, 20, 0.2),
    2: ("BLR", 40, 5, 0.35),
    3: ("BLR", 40, 20, 0.25),
    4: ("BLR", 100, 10, 0.13),
    5: ("BLR", 100, 10, 0.05),
}
MODELS = {
    "BDR": BDR(8, kernel="rbf", method="laplace"),
    "BLR": BLR(landmarks=np.linspace(-2.5, 2.5, 6)[:, None], bandwidth=1.5, method="exact"),
}


class Groups:
    """Members of the groups of a table, and labels, the means of a column, in their sds."""

    def __init__(self, name):
        if name is None:
            members, group, y, columns = made(np.random.default_rng(0), 80)
        else:
            members, group, columns, y = read(*(TABLES | CHECKS)[name])
        ids, counts = np.unique(members[group], return_counts=True)
        used = (counts >= LEAST) & np.isfinite(y)
        self.labels = pd.Series((y - y[used].mean()) / y[used].std(), ids)
        self.sizes, self.ids = pd.Series(counts, ids), ids[used]
        self.rows = dict(iter(members[columns].groupby(members[group])))

    def sample(self, ids, sizes, rng, *, replace=False):
        """Rows of so many members of these groups, with the column bag."""
        parts = [
            self.rows[i].sample(n, replace=replace, random_state=rng.integers(2**31)).assign(bag=i)
            for i, n in zip(ids, sizes, strict=True)
            if n
        ]
        return pd.concat(parts)

    def some_sizes(self, ids, rng):
        """Numbers from 1 to 30, log-uniform, at most the members of a group."""
        most = np.minimum(self.sizes[ids], MOST)
        return np.floor(np.exp(rng.uniform(0, np.log(most + 1)))).astype(int)

    def fit(self, ids, sizes, rng, args):
        """A model of the labels by a sample of members, and the sample."""
        rows = self.sample(ids, sizes, rng)
        bags = Bags.from_dataframe(rows, "bag")
        model = BDR(args.landmarks, method="laplace")
        return model.fit(bags, self.labels[bags.ids].to_numpy(), seed=1, progress=False), rows


def like(model, rows):
    """Bags with the columns of the fit; it may lack rare categories."""
    return Bags.from_dataframe(rows, "bag", like=model, unseen="other")


def mean_width(model, rows):
    lower, upper = model.predictive(like(model, rows)).interval(0.95)
    return float(np.mean(upper - lower))


def widths_of(groups, args, seed):
    """The study chosen for a width, which groups outside of the pilot have; and its mean width."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(groups.ids)
    pilot, rest = np.split(ids, [min(args.pilot, len(ids) // 3)])
    model, _ = groups.fit(pilot, groups.some_sizes(pilot, rng), rng, args)
    some = rest[:NEW]
    base = mean_width(model, groups.sample(some, groups.some_sizes(some, rng), rng))
    for factor in FACTORS:
        try:
            studies = model.design(width=factor * base, **COSTS)
        except ValueError:  # the noise is wider
            continue
        for study in studies.itertuples():
            if study.points <= LEAST and args.fewest <= study.bags <= len(rest) - args.new:
                chosen, new = rest[: study.bags], rest[study.bags :][: 2 * NEW]
                final, _ = groups.fit(chosen, [study.points] * study.bags, rng, args)
                realised = mean_width(final, groups.sample(new, [study.points] * len(new), rng))
                return {
                    "pilot": len(pilot),
                    "bags": study.bags,
                    "points": study.points,
                    "expected": study.width,
                    "realised": realised,
                    "ratio": realised / study.width,
                }
    return None


def widths(args):
    """One row per table: averages over splits."""
    table = {}
    for title, name in OF_WIDTHS.items() if not args.quick else [("generated", None)]:
        groups = Groups(name)
        found = [widths_of(groups, args, seed) for seed in range(args.splits)]
        found = pd.DataFrame([row for row in found if row is not None])
        table[title] = found.mean()
        table[title]["pilots"] = len(found)
        if len(found) > 1:
            table[title]["s.e."] = standard_error(found["ratio"])
        print(title, found.round(3).to_string(), sep="\n", flush=True)
    table = pd.DataFrame(table).T.rename_axis("table")
    whole = ["pilot", "bags", "points", "pilots"]
    table = table.assign(**table[whole].map("{:.0f}".format))
    return table[[*whole, *table.columns.drop(whole)]]


def study_of_process(n, points, slope, rng):
    """Bags after their points rise by `SHIFT` and before, and labels: slope E(x + sin x) + noise.

    Points of a bag are normal with variance 1 around its mean, which is standard normal.
    """
    mean = rng.normal(size=n)
    x = rng.normal(np.repeat(mean, points))[:, None]
    label = slope * (mean + np.exp(-0.5) * np.sin(mean))
    cuts = np.arange(n + 1) * points
    y = label + 0.5 * rng.normal(size=n)
    return Bags(x + SHIFT, cuts, copy=False), Bags(x, cuts, copy=False), y


def power_of(seed, args):
    """Shares of intervals that exclude 0, of simulated and of true studies, for one setting."""
    name, n, points, slope = SETTINGS[seed]
    rng, model = np.random.default_rng(seed), MODELS[name]
    after, before, y = study_of_process(args.pilot_bags, args.pilot_points, slope, rng)
    pilot = model.fit(before, y, seed=1, progress=False)
    # E sin(x + c) - E sin(x) = exp(-v / 2) sin(c), v = 2 the variance of a point.
    effect = slope * (SHIFT + np.exp(-1) * np.sin(SHIFT))
    study = {"effect": effect, "bags": n, "points": points}
    found = pilot.power(after, before, **study, simulations=args.simulations, seed=1)
    hits = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(args.simulations):
            drawn = *study_of_process(n, points, slope, rng), int(rng.integers(2**31))
            lower, upper = np.quantile(model.quick_contrast(*drawn), [0.025, 0.975])
            hits.append(float(lower > 0 or upper < 0))
    row = {"model": name, "bags": str(n), "points": str(points), "effect": effect}
    row |= {"power": found["power"], "s.e.": found["standard_error"], "true": np.mean(hits)}
    row |= {"s.e. of true": standard_error(hits), "difference": row["power"] - row["true"]}
    print(row, flush=True)
    return row


def power(args):
    """One row per setting."""
    seeds = list(SETTINGS)[: 1 if args.quick else None]
    return pd.DataFrame([power_of(seed, args) for seed in seeds]).set_index("model")


def allocated(groups, args, seed, unequal):
    """Mean variances of expected labels: now, and with more members chosen or as many for all."""
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.permutation(groups.ids)[: args.pilot])
    model, rows = groups.fit(ids, groups.some_sizes(ids, rng), rng, args)
    bags = Bags.from_dataframe(rows, "bag")
    cost = np.exp(rng.uniform(0, np.log(20), len(ids))) if unequal else np.ones(len(ids))
    table = model.next_sample(bags, budget=5 * cost.sum(), cost_of_point=pd.Series(cost, bags.ids))
    noise = np.mean(model.result_.draws("sigma") ** 2)

    def realised(more):
        further = groups.sample(bags.ids, more, rng, replace=True)
        return np.mean(model.predictive(like(model, pd.concat([rows, further]))).sd ** 2) - noise

    means = table.mean()
    found = {n: means[n] for n in ("variance", "after", "after_equal")}
    chosen, equal = realised(table["more"]), realised(table["equal"])
    return {
        **found,
        "expected gain": 1 - means["after"] / means["after_equal"],
        "realised": chosen,
        "realised equal": equal,
        "realised gain": 1 - chosen / equal,
    }


def allocation(args):
    """One row per table and kind of costs: averages over samples."""
    table = {}
    for name in OF_ALLOCATION if not args.quick else [None]:
        groups = Groups(name)
        for kind, unequal in (("equal", False), ("unequal", True)):
            found = [allocated(groups, args, seed, unequal) for seed in range(args.samples)]
            table[f"{name}, {kind} costs"] = pd.DataFrame(found).mean()
            print(name, kind, table[f"{name}, {kind} costs"].round(3).to_dict(), flush=True)
    return pd.DataFrame(table).T.rename_axis("table, costs of points")


PARTS = {"widths": widths, "power": power, "allocation": allocation}


def main():
    parser = arguments(
        __doc__, quick="a generated table, few studies", output="folder of design.md"
    )
    parser.add_argument("--splits", type=int, default=6, help="pilots of a table, for widths")
    parser.add_argument("--samples", type=int, default=3, help="of a table, for allocation")
    parser.add_argument("--pilot", type=int, default=200, help="groups of a pilot")
    parser.add_argument("--landmarks", type=int, default=30)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--only", choices=list(PARTS))
    args = parser.parse_args()
    args.pilot_bags, args.pilot_points, args.new, args.fewest = 5000, 50, NEW, 50
    if args.quick:
        args.splits, args.samples, args.pilot, args.landmarks = 1, 1, 25, 6
        args.simulations = 4
        args.pilot_bags, args.pilot_points, args.new, args.fewest = 60, 10, 10, 10
    tables = {n: make(args) for n, make in PARTS.items() if args.only in (None, n)}
    print("Expected and realised", *(t.round(3).to_string() for t in tables.values()), sep="\n\n")
    if args.output is not None and not args.quick and args.only is None:
        shown = {name: markdown(table) for name, table in tables.items()}
        write(args.output, "design.md", page(shown, args))


def page(shown, args):
    """Text of the page with these tables."""
    numbers = {"splits": args.splits, "samples": args.samples, "groups": args.pilot}
    return TEXT.format(**shown, **numbers, simulations=args.simulations)


TEXT = """\
# Design of surveys

[How many groups, how many people](../data_needed.md#how-many-groups-how-many-people) shows the
methods, and [the model](../explanation/model.md#design-of-a-survey) has their formulas.

## Widths of intervals

{splits} random pilots of {groups} groups (a third of the groups, if there are fewer) of each of
five [real tables](real_tables.md), of which groups with at least 8 members are used. Samples have 1
to 30 members, log-uniform. `BDR` with 30 landmarks is fitted with Laplace's method. `design` finds
the cheapest study, with a cost of 5 per group and 1 per member, among those with at least 50 groups
and at most 8 members that other groups of the table allow, for 0.9 to 1.3 times the mean width of
the intervals of the pilot. The study is then made of other groups, fitted by itself, and predicts
further groups. "pilots" counts the pilots with such a study, over which the other columns are
averages; "ratio" is the realised mean width of 95% intervals relative to the expected width.

{widths}

## Power

Bags have normal points of variance 1 around a standard normal mean; the label is a multiple of the
average of x + sin x over the distribution of the bag, plus noise with a standard deviation of 0.5.
The contrast raises all points by 0.5. "power" is from a pilot of 5,000 bags of 50 points, in
{simulations} simulated studies; "true" is the share of {simulations} studies of the true process
that find the effect, with the same quick fit. Each has its Monte-Carlo standard error. `BDR` has 8
landmarks and `kernel="rbf"`; `BLR` has 6 fixed landmarks.

{power}

## Allocation

{samples} samples of {groups} groups of each table, with 1 to 30 members each, log-uniform. The
budget is five times the cost of one more member of each group. Costs of a member are equal, or
differ between groups: log-uniform from 1 to 20.

"variance" is the mean variance of the expected label, in squared standard deviations of the labels,
"after" its expected value with members chosen by
`next_sample`, "after_equal" with as many for all groups. "realised" are the variances with members
that were then drawn from the groups, with replacement. A gain is 1 minus the ratio of the
variances.

{allocation}

Reproduce: `python experiments/design.py --output docs/validation`
"""


if __name__ == "__main__":
    main()
