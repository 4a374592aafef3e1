"""How strong an omitted cause must be to change a contrast: `Contrast.robustness`.

1. Brute force. 50 generated problems: bags of one column, a covariate, labels; the contrast is
   between the bags with all points higher by 0.5 and as they are. An omitted column of c_y = c_d =
   the robustness value is made of the labels' residuals, the Riesz representer of the contrast, and
   noise. With it as a further column of the same least-squares problem (weights and prior of the
   fit) the contrast must be 0; with it as a covariate of a new fit it should be near 0, as such a
   fit estimates sigma, rho and eta again.
2. Towns. Education raises turnout, and educated towns are younger; a fit without education
   understates the effect of age. Its robustness, benchmarks, and where education itself lies.
"""

import warnings
from textwrap import wrap

import numpy as np
import pandas as pd
from scipy.optimize import root
from sklearn.base import clone

from bdr_stan import BDR, BLR, Bags, plots
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.predictive.robustness import robustness_value
from experiments.report import arguments, markdown, pyplot, write

PROBLEMS, N_BAGS, STEP = 50, 150, 0.5
METHODS = {"BLR": BLR(10, method="exact"), "BDR": BDR(10, kernel="rbf")}
SIZES = {"BLR": [50], "BDR": [3, 10, 50]}  # points per bag, at random
FIGURE = "omitted_causes.png"
YEARS = 2


class WorkingRegression:
    """The regression of a fit at posterior means of its scales, with the prior of the weights."""

    def __init__(self, model, bags, changed, y):
        draws, coordinates = model.result_.draws, model.coordinates_
        first, second = (model.embed(each) for each in (bags, changed))
        z, of_changed = (coordinates.transform(each.mean) for each in (first, second))
        shrunk, lost = np.ones_like(z), 0.0
        if model.result_.has_draws("eta"):
            eta = draws("eta").mean()
            shrunk = shrinkage_factors(first.sizes, coordinates.lam, eta)
            lost = eta * (1 - shrunk) @ np.mean(draws("w") ** 2, axis=0)
        self.X = np.column_stack([shrunk * z, first.x, np.ones(len(z))])
        self.weight = 1 / (np.mean(draws("sigma") ** 2) + lost) * np.ones(len(z))
        steps = of_changed - z  # a changed bag is the same bag, moved
        self.step = np.append(steps.mean(axis=0), np.zeros(self.X.shape[1] - z.shape[1]))
        factor = coordinates.prior_factor / draws("rho").mean()
        self.prior = np.zeros((self.X.shape[1],) * 2)
        self.prior[: len(factor), : len(factor)] = factor.T @ factor
        self.precision = (self.X.T * self.weight) @ self.X + self.prior
        b = self.coefficients(y)
        self.e = y - self.X @ b
        self.squares = self.weight @ self.e**2 + b @ self.prior @ b
        self.variance = self.step @ np.linalg.solve(self.precision, self.step)
        self.exact_value = robustness_value((self.step @ b) ** 2 / (self.squares * self.variance))

    def coefficients(self, y):
        return np.linalg.solve(self.precision, (self.X.T * self.weight) @ y)

    def strengths(self, u):
        """c_y and c_d of an omitted column u."""
        of_u = self.coefficients(u)
        rest = self.weight @ (u - self.X @ of_u) ** 2 + of_u @ self.prior @ of_u
        slope = (self.weight * u) @ self.e / rest
        gain = (self.step @ of_u) ** 2 / rest / self.variance
        return slope**2 * rest / self.squares, gain / (1 + gain)

    def theta(self, y, u):
        """The contrast by least squares with u as a further column."""
        X = np.column_stack([self.X, u])
        prior = np.pad(self.prior, (0, 1))
        b = np.linalg.solve((X.T * self.weight) @ X + prior, (X.T * self.weight) @ y)
        return float(np.append(self.step, 0) @ b)

    def column_of(self, strength, theta, rng):
        """An omitted column of c_y = c_d = strength that brings the contrast towards 0."""
        noise = rng.normal(size=len(self.e))
        noise -= self.X @ self.coefficients(noise)
        representer = np.sign(theta) * self.X @ np.linalg.solve(self.precision, self.step)
        e, representer, noise = (v / np.std(v) for v in (self.e, representer, noise))

        def made(x):
            x = np.exp(np.clip(x, -12, 12))
            return e + x[0] * representer + x[1] * noise

        def differences(x):
            return np.subtract(self.strengths(made(x)), strength)

        for start in np.ndindex(4, 4):
            found = root(differences, np.subtract(start, 2.0), tol=1e-12)
            if np.max(np.abs(differences(found.x))) < 1e-9:
                return made(found.x)
        raise RuntimeError("no omitted column of this strength was found")


def bags_with(points, **columns):
    return Bags.from_list(points, metadata=pd.DataFrame(columns))


def one_problem(name, seed, run):
    """Robustness of a generated problem, and the contrast with an omitted column of its value."""
    rng = np.random.default_rng(seed)
    mean, x = rng.normal(size=(2, N_BAGS))
    sizes = rng.choice(SIZES[name], N_BAGS)
    points = [rng.normal(m, 1.0, (n, 1)) for m, n in zip(mean, sizes, strict=True)]
    higher = [each + STEP for each in points]
    y = 0.5 * mean + 0.6 * x + rng.normal(size=N_BAGS)

    def fit_and_contrast(**columns):
        bags, changed = bags_with(points, **columns), bags_with(higher, **columns)
        model = clone(METHODS[name]).set_params(covariates=list(columns))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(bags, y, seed=seed, **(run if name == "BDR" else {"draws": 4000}))
        return WorkingRegression(model, bags, changed, y), model.contrast(
            changed, bags
        ).robustness()

    working, found = fit_and_contrast(x=x)
    column = working.column_of(working.exact_value, found.mean, rng)
    by_least_squares = working.theta(y, column) / found.mean
    column = working.column_of(found.value, found.mean, rng)
    _, refitted = fit_and_contrast(x=x, omitted=column)
    return {
        "value": found.value,
        "exact": working.exact_value,
        "least squares": abs(by_least_squares),
        "refit": refitted.mean / found.mean,
    }


def brute_force(n_problems, run):
    """Table of all problems by method."""
    lines = {}
    for name in METHODS:
        found = pd.DataFrame([one_problem(name, seed, run) for seed in range(1, n_problems + 1)])
        ratio = found["value"] / found["exact"]
        lines[name] = {
            "robustness value": f"{found['value'].min():.2f} to {found['value'].max():.2f}",
            "value / that of the regression": f"{ratio.mean():.3f} ({ratio.min():.3f} to "
            f"{ratio.max():.3f})",
            "least squares: largest share left": f"{found['least squares'].max():.0e}",
            "new fit: mean share left": f"{found['refit'].mean():.3f}",
            "smallest to largest": f"{found['refit'].min():.3f} to {found['refit'].max():.3f}",
        }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("method")


def towns(n_towns, seed=4):
    """Bags of ages, the same with all people two years older, turnout, and columns of towns."""
    rng = np.random.default_rng(seed)
    educated, income = rng.normal(size=(2, n_towns))
    columns = {"education": educated, "income": income, "coast": rng.random(n_towns) < 0.3}
    sizes = np.clip(rng.lognormal(5.0, 1.0, n_towns), 20, 3000).astype(int)
    centre = 45 - 2 * educated + 1.0 * income + rng.normal(0, 4, n_towns)
    ages = [np.clip(rng.normal(c, 15, (n, 1)), 18, 95) for c, n in zip(centre, sizes, strict=True)]
    older = [age + YEARS for age in ages]
    turnout = 60 + 0.5 * (centre - 45) + 1.5 * educated + income + 2 * columns["coast"]
    return ages, older, turnout + rng.normal(0, 3, n_towns), columns


def example(n_towns, run):
    """Fits without and with education, and the robustness of the first."""
    ages, older, turnout, columns = towns(n_towns)
    known = {name: columns[name] for name in ("income", "coast")}
    found = []
    for given in (known, columns):
        bags, changed = bags_with(ages, **given), bags_with(older, **given)
        model = BDR(20, kernel="rbf", covariates=list(given))
        model.fit(bags, turnout, seed=1, **run)
        found.append(model.contrast(changed, bags).robustness())
    return found


def picture(robust, strengths, path):
    plt = pyplot()
    ax = plots.robustness(robust, largest=0.4)
    c_y, c_d = strengths
    ax.plot(c_d, c_y, "*", ms=12, color="black")
    over_lines = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    ax.annotate("education", (c_d, c_y), (9, -4), textcoords="offset points", bbox=over_lines)
    ax.figure.savefig(path, dpi=200)
    plt.close(ax.figure)


def main():
    args = arguments(
        __doc__,
        quick="a problem, 60 towns, short chains",
        output="folder for omitted_causes.md and its figure",
    ).parse_args()
    n_problems, n_towns, run = PROBLEMS, 400, {"chains": 2, "warmup": 300, "draws": 1000}
    if args.quick:
        n_problems, n_towns, run = 1, 60, {"chains": 2, "warmup": 100, "draws": 100}
    table = brute_force(n_problems, run)
    print(table.T.to_string())
    without, complete = example(n_towns, run)
    print(f"\nWithout education: {without}\n{without.benchmarks().to_string()}")
    print(f"\nWith education: {complete}\n{complete.benchmarks().to_string()}")
    if args.output is None:
        return
    args.output.mkdir(parents=True, exist_ok=True)
    gain, c_d = complete.strengths["education"]
    c_y = gain / (1 + gain)  # of the variance that the fit without education leaves
    picture(without, (c_y, c_d), args.output / FIGURE)
    text = TEXT.format(
        problems=n_problems,
        bags=N_BAGS,
        towns=n_towns,
        table=markdown(table),
        benchmarks=markdown(without.benchmarks()),
        sentence="> " + "\n> ".join(wrap(str(without), 96)),
        mean=without.mean,
        complete=complete.mean,
        complete_lower=complete.lower,
        complete_upper=complete.upper,
        c_y=c_y,
        c_d=c_d,
        bias=without.bias(c_y, c_d),
        changed=complete.mean - without.mean,
        figure=FIGURE,
        **run,
    )
    write(args.output, "omitted_causes.md", text)


TEXT = """\
# Omitted causes of a contrast

`model.contrast(a, b).robustness()` reports how strong unmeasured confounding must be to change a
contrast (*sensitivity analysis*, *omitted variable bias*);
[Robustness](../robustness.md#omitted-causes) describes its use. This page has an example, the
method and a check by simulation.

## An example

In {towns} generated towns turnout depends on the mean age, on education, income and the coast, and
educated towns are younger. A fit without education contrasts all people two years older with people
as they are:

{sentence}

The true change is 1. `c_y` is the share of the labels' residual variance that an omitted cause
explains. `c_d` is the share by which adjusting for it reduces the precision of the contrast; for
the coefficient of one column, `c_d` is the share of the column's residual variance that the omitted
cause explains. The robustness value is the strength at which both are equal and the contrast
can be 0. Each covariate of the fit is a benchmark: the table shows how an omitted cause of the same
strength could change the contrast (`mean`, moved towards 0) and its interval.

{benchmarks}

![Contours of the contrast that remains, by c_d and c_y]({figure})

*On the thick line an omitted cause can bring the contrast to 0, on the dashed line its 95%
interval. Dots are covariates of the fit, the star is education, which the fit omits.*

Education has c_y = {c_y:.3f} and c_d = {c_d:.3f}. With the noise and scales of the fit, the bound
for these strengths is a change of {bias:.2f}. A fit with education changes the contrast by
{changed:+.2f}, to {complete:.2f} (95% interval {complete_lower:.2f} to {complete_upper:.2f}).
The bound has no sign: an omitted cause of these strengths may raise or lower the contrast. The
change exceeds the bound because the fit with education learns another noise and other scales.

## Method

The contrast, averaged over the bags, is linear in the coefficients of the regression,
theta = Dbar' b. An omitted column changes it by

    bias^2 = c_y c_d / (1 - c_d) |y - X b|^2 Dbar' M^-1 Dbar,    M = X'WX + prior precision,

with W the precisions of the labels. This is the bound of Cinelli and Hazlett (2020) and, with Dbar'
M^-1 x as Riesz representer of theta, of Chernozhukov et al. (2022). The R packages `sensemakr`,
`dml.sensemakr` and `seine` compute the same bound. It is exact, not only a bound, for one omitted
column. The prior acts like further bags: with as many landmarks as bags X'WX is singular, and
without the prior every contrast would appear fragile. `Dbar' M^-1 Dbar` is the posterior variance
of theta given the scales sigma, rho and eta. At the scales of highest evidence |y - X b|^2 is the
number of bags minus one for each covariate and the intercept. The draws are therefore enough: the
value needs neither the training bags nor a new fit, and is the same after `save` and `load`. The
benchmarks condition the posterior on coefficients of 0, which is equivalent to omitting columns.

Contrasts of labels with links, of classes and of totals are not linear in a regression; for such
contrasts, `robustness()` raises a TypeError. Point columns cannot be benchmarks because their
effects are nonlinear; refit without the column.

## Check by simulation

{problems} generated problems per method, {bags} bags with a covariate. An omitted column with
c_y = c_d = robustness value is made of the residuals, the Riesz representer and noise.

{table}

*Value / that of the regression*: the value from the draws, relative to the formula above at
posterior means of sigma, rho and eta. *Least squares*: the contrast with the omitted column added
to the same regression, relative to the contrast without it; 0 is expected for a column with exactly
these strengths. *New fit*: the same ratio for a fit of the model with the column as a covariate,
which estimates sigma, rho and eta again ({chains} chains of {draws} draws for BDR).

Reproduce: `python experiments/omitted_causes.py --output docs/validation`
"""


if __name__ == "__main__":
    main()
