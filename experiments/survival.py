"""Times to events from bags of 1 to 5 points: calibration, and Cox regression on bag means.

A bag is a normal distribution with mean m ~ normal(0, 1) and standard deviation 0.5, of which 1 to
5 points are seen. Its log time is h + 0.5 log E with E standard exponential, where h is linear in
m or curved. About half of the times are censored at random. Late entry: bags come under observation
at random times, and those with an earlier event are never seen.
"""

import warnings

import numpy as np
import pandas as pd

from bdr_stan import BDR, Bags
from bdr_stan.metrics import concordance
from experiments.report import arguments, markdown, mean_and_error, write

SPREAD, SIGMA = 0.5, 0.5
PREDICTORS = {"linear": lambda m: m, "curved": lambda m: 1.0 - m**2}
N_BINS, N_TIMES = 5, 12


def survey(truth, n, rng, *, late=False):
    """Bags, times until the event or the end of observation, events, entries, true times and h."""
    m = rng.normal(size=n)
    h = PREDICTORS[truth](m)
    time = np.exp(h) * rng.exponential(size=n) ** SIGMA
    entry = rng.uniform(0, 1.5, n) * late
    end = entry + rng.exponential(1.6, n)
    seen = np.flatnonzero(time > entry)
    sizes = rng.integers(1, 6, n)[seen]
    points = rng.normal(np.repeat(m[seen], sizes), SPREAD)[:, None]
    observed, event = np.minimum(time, end)[seen], (time <= end)[seen]
    return Bags.from_points(points, sizes=sizes), observed, event, entry[seen], time[seen], h[seen]


def means_of(bags):
    """Average of the points of each bag, shape (n, 1)."""
    return np.array([bag.mean(axis=0) for bag in bags])


class Cox:
    """Cox regression by partial likelihood, with Breslow's baseline hazard."""

    def fit(self, x, time, event):
        order = np.argsort(-time)
        x, event = x[order], event[order].astype(float)
        self.beta = np.zeros(x.shape[1])
        for _ in range(30):
            risk = np.exp(x @ self.beta)
            total = np.cumsum(risk)  # of all that are at risk
            mean = np.cumsum(risk[:, None] * x, axis=0) / total[:, None]
            square = np.cumsum(risk[:, None, None] * x[:, :, None] * x[:, None], axis=0)
            variance = square / total[:, None, None] - mean[:, :, None] * mean[:, None]
            step = np.linalg.solve(np.tensordot(event, variance, 1), event @ (x - mean))
            self.beta = self.beta + step
        self.times, self.hazard = time[order][::-1], np.cumsum((event / total)[::-1])
        return self

    def survival(self, x, times):
        before = np.searchsorted(self.times, times, side="right")
        hazard = np.r_[0.0, self.hazard][before]
        return np.exp(-np.exp(x @ self.beta)[:, None] * hazard)


def true_survival(h, times):
    """Probability of no event until each of the times, shape (n, k)."""
    return np.exp(-((times / np.exp(h)[:, None]) ** (1 / SIGMA)))


def brier(survival, time, times):
    """Mean squared error of the probabilities of survival, averaged over the times."""
    return np.mean((survival - (time[:, None] > times)) ** 2)


def fitted(data, seed, sampling, family="weibull", *, with_entry=True):
    bags, time, event, entry, *_ = data
    known = {"entry": entry} if with_entry and entry.any() else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of short chains
        model = BDR(20, family=family).fit(
            bags, time, event=event, seed=seed, progress=False, **known, **sampling
        )
    return model.predictive


def compared(truth, sizes, seed, sampling):
    """A row of scores on new bags for each method, and of calibration at each horizon."""
    rng = np.random.default_rng([seed, len(truth)])
    data, new = (survey(truth, n, rng) for n in sizes)
    bags, _, _, _, time, h = new
    horizons = np.quantile(time, [0.25, 0.5, 0.75])
    grid = np.quantile(time, np.linspace(0.05, 0.9, N_TIMES))
    cox = Cox().fit(means_of(data[0]), *data[1:3])
    ranked = {"Cox regression on bag means": means_of(bags) @ cox.beta}
    curves = {"Cox regression on bag means": cox.survival(means_of(bags), grid)}
    rows = []
    for family in ("weibull", "lognormal"):
        predictive = fitted(data, seed, sampling, family)(bags)
        name = f'BDR(family="{family}")'
        curves[name] = predictive.survival(grid)
        ranked[name] = -curves[name].mean(axis=1)  # as the expected time until the last one
        if family == "weibull":
            rows = list(calibration(predictive, truth, time, h, horizons))
    scores = [
        {
            "truth": truth,
            "method": name,
            "concordance": concordance(new[1], new[2], risk),
            "Brier": brier(curves[name], time, grid),
            "censored": 1 - data[2].mean(),
        }
        for name, risk in ranked.items()
    ]
    return scores, rows


def calibration(predictive, truth, time, h, horizons):
    """A row per horizon: survival of new bags as predicted, as observed, and in its intervals."""
    mean, lower, upper = predictive.survival(horizons, level=0.95)
    exact = true_survival(h, horizons)
    for k, name in enumerate(("25%", "50%", "75%")):
        alive, p = time > horizons[k], mean[:, k]
        bins = np.array_split(np.argsort(p), N_BINS)
        gaps = [alive[i].mean() - p[i].mean() for i in bins]
        yield {
            "truth": truth,
            "horizon": f"{name} have had the event",
            "predicted": p.mean(),
            "observed": alive.mean(),
            "largest difference in a fifth": np.abs(gaps).max(),
            "true probability in 95% intervals": np.mean(
                (lower[:, k] <= exact[:, k]) & (exact[:, k] <= upper[:, k])
            ),
        }


def late_entry(sizes, seed, sampling):
    """A row for a fit with the entries, and for one that ignores them."""
    rng = np.random.default_rng([seed, 99])
    data = survey("linear", 2 * sizes[0], rng, late=True)
    bags, _, _, _, time, _ = survey("linear", sizes[1], rng)
    horizons = np.quantile(time, [0.25, 0.5, 0.75])
    for with_entry in (True, False):
        survival = fitted(data, seed, sampling, with_entry=with_entry)(bags).survival(horizons)
        errors = survival.mean(axis=0) - (time[:, None] > horizons).mean(axis=0)
        yield {
            "fit": "with entry=" if with_entry else "without",
            "bags": len(data[1]),
            **dict(zip(("error at 25%", "at 50%", "at 75%"), errors, strict=True)),
        }


def main():
    parser = arguments(__doc__, quick="one small data set", output="folder of survival.md")
    parser.add_argument("--data-sets", type=int, default=3)
    parser.add_argument("--bags", type=int, default=300, help="to fit to")
    parser.add_argument("--new", type=int, default=600, help="new bags")
    args = parser.parse_args()
    sampling = {"chains": 2, "draws": 300, "parallel_chains": 1}
    if args.quick:
        args.data_sets, args.bags, args.new = 1, 60, 100
        sampling = {"chains": 1, "warmup": 150, "draws": 100}
    scores, rows, late = [], [], []
    for seed in range(1, args.data_sets + 1):
        for truth in PREDICTORS:
            each, of_horizons = compared(truth, (args.bags, args.new), seed, sampling)
            scores, rows = scores + each, rows + of_horizons
            print(pd.DataFrame(each).round(3).to_string(header=seed == 1), flush=True)
        late += late_entry((args.bags, args.new), seed, sampling)
    scores, rows, late = map(pd.DataFrame, (scores, rows, late))
    tables = {
        "scores": joined(scores.drop(columns="censored"), ["truth", "method"], "log times, method"),
        "horizons": joined(rows, ["truth", "horizon"], "log times, horizon"),
        "late": joined(late, ["fit"], "fit"),
    }
    print(*(table.to_string() for table in tables.values()), sep="\n\n")
    print(f"share of censored times: {scores['censored'].mean():.2f}")
    if args.output is not None and not args.quick:
        shown = {name: markdown(table) for name, table in tables.items()}
        censored = f"{scores['censored'].mean():.0%}"
        text = TEXT.format(
            n=args.bags, new=args.new, sets=args.data_sets, censored=censored, **shown
        )
        write(args.output, "survival.md", text)


def joined(rows, keys, name):
    """Means and standard errors over the data sets, a row for each combination of the keys."""
    table = rows.groupby(keys, sort=False).agg(mean_and_error)
    names = [key if isinstance(key, str) else ", ".join(key) for key in table.index]
    return table.set_axis(pd.Index(names, name=name))


TEXT = """\
# Times to events

`BDR` with `family="weibull"` and `"lognormal"` on generated data, see [families of
labels](../families.md#times-to-events). A bag is a normal distribution with mean m ~ normal(0, 1)
and standard deviation 0.5, of which 1 to 5 points are seen. Its log time is h + 0.5 log E with E
standard exponential, so times are Weibull distributed. h is m ("linear") or 1 - m^2 ("curved").
{censored} of the times are censored. {sets} data sets of {n} bags to fit to and {new} new bags;
means with their standard errors over the data sets.

## Compared with Cox regression

Cox regression takes the average of the points of a bag as its covariate. Harrell's concordance is
of the new bags' times, of which as many are censored; 0.5 is chance. The Brier score is the mean
squared error of the probability of survival, averaged over 12 times between the 5% and the 90%
quantiles of the true times, which are known here; lower is better.

{scores}

With curved log times, an average of points with a linear effect misses most of the differences
between bags, whereas the mean embedding does not. With linear ones all methods rank bags equally.

## Calibration

Probabilities of survival of the new bags from the Weibull fits, at the times when 25%, 50% and 75%
of these bags have had the event. The largest difference between the observed and the predicted
share of survivors is over fifths of the bags by predicted survival; each difference has a standard
error by chance of up to 0.05. The last column is the share of bags whose true probability, which
depends on the mean m, is in the interval of `survival(times, level=0.95)`.

{horizons}

Intervals cover as they should. With curved log times, the model's normal distribution of the
linear predictor is an approximation, as 1 - m^2 has an upper bound and a long tail. There, late
survival is predicted somewhat too high.

## Left truncation

Bags come under observation at a time that is uniform between 0 and 1.5, and are in the data only if
their event is later. Errors are the average predicted minus the average true survival, for new bags
that were not selected, at the same three times.

{late}

Reproduce: `python experiments/survival.py --output docs/validation`
"""


if __name__ == "__main__":
    main()
