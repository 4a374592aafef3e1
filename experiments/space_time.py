"""Monthly cases of districts: a field in space and time against maps that do not share months.

A generated country (``data_gen/space_time.py``) of 100 districts and 36 months, whose true rate is
known at each pixel. Held out are three months, a fifth of the districts, and the last six months,
which are forecast. From month 18 on one district is two.
"""

import tempfile
import textwrap
import time
import warnings

import numpy as np

from bdr_stan import AggregateRegressor, Bags, Matern32
from bdr_stan.kernels import HilbertProduct, HilbertSpace, LinearEffects, kernel_text, map_kernel
from bdr_stan.metrics import calibration
from data_gen.malaria import load_country, write_country
from data_gen.space_time import COVARIATES, DISPERSION, N_MONTHS, months_of
from experiments.report import arguments, map_array, markdown, peak_memory, pyplot, write

SPACE, SEASON = ["x", "y"], ["season_cos", "season_sin"]
HORIZON = 6
SPLIT = 18
GAPS = (5, 13, 22)  # months held out
SPECKLE = """*In the dry north-east the estimated and forecast maps have a block of speckle that the
true maps lack. Rainfall and vegetation decrease together there, and totals of districts hardly
separate them. With four landmarks per covariate the curve of rainfall is too smooth, and the fit
attributes a part of its steep effect to vegetation, which varies between neighbouring pixels. With
`--seeds 5 --landmarks 8 --products 300` the speckle is faint.*"""
BOTH, CONSTANT, EACH = "space x time", "constant in time", "a map per month"


def space_kernel(args):
    """Lines and curves in the covariates and in rain, and a field in space."""
    return map_kernel([*COVARIATES, "rain"], SPACE, n_functions=args.functions)


def kernels(args):
    """Kernel of each model of all months."""
    constant = space_kernel(args) + LinearEffects(columns=SEASON)
    place = HilbertSpace(Matern32(columns=SPACE), n_functions=300)
    month = HilbertSpace(Matern32(columns=["month"]), n_functions=40, horizon=HORIZON)
    return {
        BOTH: constant + HilbertProduct(place, month, n_functions=args.products),
        CONSTANT: constant,
    }


def fitted(args, data, seed, **options):
    """A model of counts, and the seconds that its fit took."""
    start = time.perf_counter()
    model = AggregateRegressor(
        link="exp",
        n_landmarks=args.landmarks,
        thin=args.thin,
        method=args.method,
        learn_kernel=not args.quick,
        random_state=seed,
    )
    model.set_params(**options).fit(data.bags, data.y, **args.run)
    return model, time.perf_counter() - start


def learned(model):
    """Parameters that give another fit the kernel and landmarks of this one."""
    return {"kernel": model.kernel_, "landmarks": model.landmarks_, "learn_kernel": False}


class Parts:
    """Masks of district-months: those of the fit, and those held out."""

    def __init__(self, data, held_out):
        table = data.bags.metadata
        self.month = table["month"].to_numpy()
        self.district = table["district"].to_numpy()
        out, gap = np.isin(self.district, held_out), np.isin(self.month, GAPS)
        later = self.month >= N_MONTHS - HORIZON
        self.fit = ~(out | gap | later)
        self.tests = {
            "months held out": gap & ~out,
            "districts held out": out & ~gap & ~later,
            "forecasts": later & ~out,
        }


class MapPerMonth:
    """A model for each month of the fit; another month has that of the last one before it."""

    def __init__(self, args, data, month, seed):
        self.models, options = {}, {"kernel": space_kernel(args)}
        for now in np.unique(month):
            self.models[now], _ = fitted(args, data.part(month == now), seed, **options)
            options = learned(self.models[now])  # of the first

    def by_month(self, data):
        """Which of the bags, and their predictive distribution, for each month."""
        month = data.bags.metadata["month"].to_numpy()
        known = np.array(list(self.models))
        for now in np.unique(month):
            which = month == now
            model = self.models[known[known <= now].max()]
            yield which, model.predictive(data.bags[which], district=False)


def predictives(model, data):
    """As `MapPerMonth.by_month`, of any model."""
    if isinstance(model, MapPerMonth):
        yield from model.by_month(data)
    else:
        yield np.ones(len(data.y), bool), model.predictive(data.bags, district=False)


def scores(model, data):
    """NLL of the labels, coverage of 95% intervals, and RMSE of log expected totals."""
    log_prob, holds, mean = (np.empty(len(data.y)) for _ in range(3))
    samples = None
    for which, predictive in predictives(model, data):
        y = data.y[which]
        low, high = predictive.interval(0.95)
        log_prob[which], mean[which] = predictive.log_prob(y), predictive.mean
        holds[which] = (low <= y) & (y <= high)
        drawn = predictive.sample(seed=0)
        samples = np.empty((len(drawn), len(data.y))) if samples is None else samples
        samples[:, which] = drawn
    true = data.bags.sums(data.bags.weights * data.rate)
    return {
        "NLL": -log_prob.mean(),
        "95% coverage": holds.mean(),
        "RMSE of log totals": np.sqrt(np.mean(np.log(mean / true) ** 2)),
        "95% coverage of sums over months": sums_hold(data, samples),
    }


def sums_hold(data, samples):
    """Share of districts whose total over all months is in its interval, from joint draws."""
    district = data.bags.metadata["district"].to_numpy()
    holds = []
    for name in np.unique(district):
        which = district == name
        low, high = np.quantile(samples[:, which].sum(axis=1), [0.025, 0.975])
        holds.append(low <= data.y[which].sum() <= high)
    return np.mean(holds)


def split_rows(args, model, whole, held_out, country, seed):
    """How predictions change when one district is two from some month on."""
    data = months_of(country, split=SPLIT, seed=seed)
    parts = Parts(data, held_out)
    other, _ = fitted(args, data.part(parts.fit), seed, **learned(model))
    same = np.isin(data.bags.ids, whole.bags.ids)
    new = data.part(~same & parts.fit)
    old = data.part(same & ~np.isin(parts.district, np.unique(new.bags.metadata["district"])))
    before, after = (each.predictive(old.bags, district=False) for each in (model, other))
    away = np.abs(np.log(after.mean / before.mean))
    low, high = other.predictive(new.bags, district=False).interval(0.95)
    return {
        "largest change of a log mean": away.max(),
        "median": np.median(away),
        "median sd of the log count": np.median(before.sd / before.mean),
        "halves in 95% intervals": np.mean((low <= new.y) & (new.y <= high)),
    }


def country_rows(args, size, seed):
    """Scores of each model on each part, what the split changes, and what figures need."""
    with tempfile.TemporaryDirectory() as folder:
        write_country(folder, seed=seed, **size)
        country = load_country(folder)
        data = months_of(country, seed=seed)
        names = np.unique(data.bags.metadata["district"])
        order = np.random.default_rng(seed).permutation(np.argsort(country.bags.sizes)[:-1])
        held_out = names[order[: len(names) // 5]]  # not the largest, which is split
        parts = Parts(data, held_out)
        fit = data.part(parts.fit)
        rows, models, costs = [], {}, []
        for name, kernel in kernels(args).items():
            models[name], seconds = fitted(args, fit, seed, kernel=kernel)
            print(f"{name}: {seconds:.0f} s, {max(peak_memory()):.1f} GB", flush=True)
            costs.append({"seconds": seconds, "memory": max(peak_memory())})
        models[EACH] = MapPerMonth(args, fit, fit.bags.metadata["month"].to_numpy(), seed)
        for part, chosen in parts.tests.items():
            for name, model in models.items():
                found = scores(model, data.part(chosen))
                rows.append({"part": part, "model": name, "country": seed, **found})
                print(rows[-1], flush=True)
        split = split_rows(args, models[BOTH], data, held_out, country, seed)
        grid = country.row, country.col
        return rows, {"country": seed, **costs[0], **split}, models[BOTH], data, parts, grid


def of_month(data, month):
    """The pixels of a month and their rates, in the order of the country's pixels."""
    return data.part(data.bags.metadata["month"].to_numpy() == month)


def draw_maps(model, data, grid, path):
    """True and estimated rates of three months, the last of which is forecast."""
    from matplotlib.colors import LogNorm

    maps = {}
    for month in (3, 15, N_MONTHS - 2):
        now = of_month(data, month)
        maps[f"month {month}, true rate"] = now.rate
        called = "forecast" if month >= N_MONTHS - HORIZON else "estimated"
        rate = model.predict_points(now.bags, district=False)
        maps[f"month {month}, {called}"] = rate.quantile(0.5)
    drawn = map_array(maps, *grid).plot(
        col="map",
        norm=LogNorm(),
        yincrease=False,
        size=2.7,
        cbar_kwargs={"label": "cases per 1,000 people"},
    )
    drawn.set_titles("{value}")
    drawn.fig.savefig(path, dpi=100)


def draw_forecasts(model, data, parts, path):
    """Counts of four districts with 95% intervals."""
    plt = pyplot()
    known = np.unique(parts.district[parts.tests["forecasts"]])
    typical = {name: np.median(data.y[parts.district == name]) for name in known}
    ranked = sorted(typical, key=typical.get)
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.5), sharex=True, layout="constrained")
    for axis, share in zip(axes.ravel(), (0.2, 0.5, 0.75, 0.95)):
        name = ranked[int(share * len(ranked))]
        own = data.part(parts.district == name)
        month = own.bags.metadata["month"].to_numpy()
        predictive = model.predictive(own.bags, district=False)
        axis.fill_between(month, *predictive.interval(0.95), alpha=0.3, label="95% interval")
        axis.plot(month, predictive.mean, label="mean")
        of_fit = parts.fit[parts.district == name]
        axis.plot(month[of_fit], own.y[of_fit], "k.", label="cases of the fit")
        axis.plot(month[~of_fit], own.y[~of_fit], "o", mfc="none", c="C3", label="held out")
        axis.axvline(N_MONTHS - HORIZON - 0.5, c="grey", lw=0.8)
        axis.set(title=name, ylim=(0, None))
    axes[0, 0].legend(fontsize="small")
    for axis in axes[1]:
        axis.set_xlabel("month")
    figure.savefig(path, dpi=100)


def page(rows, splits, model, data, args, size):
    """The text of the page."""
    import pandas as pd

    values = [column for column in rows.columns if column not in ("part", "model", "country")]
    groups = rows.groupby(["part", "model"], sort=False)[values]
    means = groups.mean()
    means.insert(2, "lowest", groups.min()["95% coverage"])
    means.index = [": ".join(both) for both in means.index]
    means.index.name = "part: model"
    split = pd.DataFrame(splits)
    cost = f"{split.pop('seconds').max():.0f} s and {split.pop('memory').max():.1f} GB"
    split.index = split.pop("country").map("country {}".format)
    kernel = kernel_text(model.kernel_, data.bags.features)
    for sign in (" + ", " x Matern"):
        kernel = kernel.replace(sign, f"\n    {sign.strip()}" + " " * (sign == " + "))
    paragraphs = [
        f"""Countries of {size["n_pixels"]:,} pixels in {size["n_districts"]} districts over
        {N_MONTHS} months (`data_gen/space_time.py`), seeds {", ".join(map(str, args.seeds))}.
        Counts are Poisson times reporting of standard deviation {DISPERSION}. Of the first
        {N_MONTHS - HORIZON} months {len(GAPS)} are held out, of the districts a fifth, and the last
        {HORIZON} months are forecast. The model has {args.functions} functions in space and
        {args.products} products in space and time, {args.thin} points per bag, method
        "{args.method}".""",
        markdown(means),
        f"""Means over the countries; "lowest" is the coverage in the country where it is lowest.
        "{EACH.capitalize()}" is a model for each month, whose map serves for the month held out
        after it and for forecasts; "{CONSTANT}" has the covariates, rain, the season and a field in
        space. Sums over months are those of each district over the months of the part, by joint
        draws.""",
        f"""The fit with the field in space and time, its kernel learned, took at most {cost} (on
        two cores that were shared with other work). Of pixels and months of the last country, 95%
        intervals of the rate contain {point_share(model, data):.0%} of the true rates. Its
        kernel:""",
        f"    {kernel}",
        f"""One district, of the fit, is two from month {SPLIT} on, and the fit with the kernel kept
        is compared with that to the whole district, at all district-months of the others:""",
        markdown(split),
        "![True and estimated rates of three months](space_time_maps.png)",
        *([] if args.quick else [SPECKLE]),
        "![Counts of four districts with their intervals](space_time_forecasts.png)",
        f"""*Month {N_MONTHS - 2} of the maps, and the months right of the lines, are forecast.
        Intervals are those of counts, which reporting is a part of.*""",
    ]
    head = "# Monthly counts in space and time"
    quick = " --quick" if args.quick else ""
    command = f"Reproduce: `python experiments/space_time.py{quick} --output docs/validation`"
    filled = (text if text[0] in "| !" else fill(text) for text in paragraphs)
    return "\n\n".join([head, *filled, command]) + "\n"


def fill(text):
    """A paragraph in lines of at most 100 columns."""
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False)


def point_share(model, data):
    """Share of some pixels whose 95% interval contains the true rate."""
    rows = np.arange(0, len(data.rate), 37)
    points = Bags(data.bags.points[rows], [0, len(rows)], features=data.bags.features)
    rate = model.predict_points(points)
    return calibration(data.rate[rows], rate, (0.95,))["coverage"].iloc[0]


def main():
    import pandas as pd

    parser = arguments(
        __doc__,
        quick="one country of 400 pixels and 10 districts, few functions, no kernel learned",
        output="folder for space_time_results.md and its figures",
    )
    parser.add_argument("--functions", type=int, default=120, help="basis functions in space")
    parser.add_argument("--products", type=int, default=1000, help="pairs in space and time")
    parser.add_argument("--landmarks", type=int, default=4, help="per covariate")
    parser.add_argument("--thin", type=int, default=8, help="points per district and month")
    parser.add_argument("--method", default="laplace")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    args = parser.parse_args()
    args.run, size = {"draws": 1000, "progress": False}, {"n_pixels": 10_000, "n_districts": 100}
    if args.quick:
        args.functions, args.products, args.landmarks, args.thin = 6, 8, 2, 2
        args.seeds = args.seeds[:1]
        args.run["draws"], size = 100, {"n_pixels": 400, "n_districts": 10}
    rows, splits = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what fits say of their approximations
        for seed in args.seeds:
            found, split, *last = country_rows(args, size, seed)
            rows += found
            splits.append(split)
        model, data, parts, grid = last
        text = page(pd.DataFrame(rows), splits, model, data, args, size)
        print(text)
        if args.output is not None:
            write(args.output, "space_time_results.md", text)
            draw_maps(model, data, grid, args.output / "space_time_maps.png")
            draw_forecasts(model, data, parts, args.output / "space_time_forecasts.png")


if __name__ == "__main__":
    main()
