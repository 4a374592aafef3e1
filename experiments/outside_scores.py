"""Scores on the benchmarks of other papers, each beside the best published one.

A benchmark is a function of `quick` that returns its `Comparison`s. Settings are chosen on
validation bags or are defaults; none is chosen by the scores that are shown.
"""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import poisson
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import StratifiedKFold, train_test_split

from bdr_stan import BDR, AggregateRegressor, Bags, BDRClassifier, InverseBDR
from bdr_stan.kernels import RBF, median_bandwidth
from data_gen.gamma import gamma_bags
from data_gen.mixtures import random_mixture
from data_gen.mode_mixtures import mode_mixtures
from data_gen.swiss_roll import swiss_roll
from experiments import aerosol, attenuation, gamma, gamma_fixed, kmse_density, kmse_loss
from experiments import swiss_roll as roll
from experiments.methods import OPTIMAL, fewer, fit_methods, predict, scores
from experiments.paper_data import load_misr1, load_musk1
from experiments.papers import SupportMeasureMachine
from experiments.papers.kernel_grids import set_kernels
from experiments.papers.projected_merr import ProjectedMERR

AHEAD, WITHIN, BEHIND = "ahead", "within one standard error", "behind"
MODELS = {
    "`BDR`": BDR(bandwidth="median", method="laplace"),
    "`InverseBDR`, additive": InverseBDR(kernel="additive", method="optimize"),
}
# Meunier et al. (2022): RMSE by points per bag, of the better sliced Wasserstein kernel.
MODES_OF_MEUNIER = {50: 0.485, 250: 0.502}
# Bachoc et al. (2023): best mean MSE over 20 draws at 256 mixtures of 128 points, by columns and
# largest number of components.
MODES_OF_BACHOC = {
    (2, 2): (0.143, "sliced Wasserstein"),
    (2, 10): (3.49, "sliced Wasserstein"),
    (10, 2): (0.159, "bag means"),
    (10, 10): (2.99, "Sinkhorn"),
}
LOSS_RATIO = 0.8  # Muandet et al. (2014), Figure 2: .04 / .05, read off
RUN = {"chains": 2, "warmup": 300, "draws": 1000}  # of the influence curve
MUSK = 0.924  # Dietterich et al. (1997), iterated-discrim APR; 7 errors of 92
MISR1_BLOB = "cf7b9876140f1a5ec5c656ab43fa5a0244fd75ea"  # `git hash-object` of the public file


@dataclass(frozen=True)
class Comparison:
    """One score beside the published one."""

    benchmark: str
    score: str
    published: float
    rival: str  # the published method
    ours: np.ndarray  # shape (n,), the score in each repetition
    model: str
    unit: str = "draws"  # what is repeated
    more_is_better: bool = False

    @property
    def mean(self):
        return float(np.mean(self.ours))

    @property
    def error(self):
        """Standard error of the mean."""
        return float(np.std(self.ours, ddof=1) / np.sqrt(len(self.ours)))

    @property
    def verdict(self):
        """Ahead or behind by more than one standard error, or neither."""
        lead = self.mean - self.published if self.more_is_better else self.published - self.mean
        if abs(lead) <= self.error:
            return WITHIN
        return AHEAD if lead > 0 else BEHIND


def gamma_varying(quick):
    """Figure 4 of Law et al. (2018), bags of 5 to 1000 points."""
    published = {name: by_share[25] for name, by_share in gamma.PUBLISHED.items()}
    return _gamma("gamma bags, 25% of 5 points", published, quick, s5=25)


def gamma_one_size(quick):
    """Table 1 of Law et al. (2018), bags of 1000 points."""
    published = {
        name: [float(text.split()[0]) if text else np.nan for text in texts]
        for name, texts in gamma_fixed.PUBLISHED.items()
    }
    size = 50 if quick else 1000
    return _gamma("gamma bags of 1000 points", published, quick, fixed_size=size, noise=1.0)


def _gamma(benchmark, published, quick, **bags):
    """MSE and NLL of each of `MODELS` over draws, settings chosen on the validation bags."""
    grid, seeds, models = (
        {"n_landmarks": (90,), "bandwidth_scale": (0.5, 1.0)},
        range(23, 27),
        MODELS,
    )
    if quick:
        grid, seeds = {"n_landmarks": (5,), "bandwidth_scale": (1.0,)}, (23,)
        models = {"`BDR`": MODELS["`BDR`"]}
    found = {name: [] for name in models}
    for data_seed in seeds:
        data = gamma_bags(data_seed, splits=("train", "validation", "test"), **bags)
        if quick:
            data = fewer(data, 40)
        fitted = fit_methods(models, data["train"], data["validation"], seed=0, grid=grid)
        bags_of_test, y = data["test"]
        for name, model in fitted.items():
            found[name].append(scores(predict(model, bags_of_test), y))
    comparisons = []
    for k, score in enumerate(("MSE", "NLL")):
        of_score = {
            name: values[k]
            for name, values in published.items()
            if name != OPTIMAL and not np.isnan(values[k])
        }
        rival = min(of_score, key=of_score.get)
        comparisons += [
            Comparison(benchmark, score, of_score[rival], rival, np.array(values)[:, k], name)
            for name, values in found.items()
        ]
    return comparisons


def centred(bags):
    """Each bag moved to mean 0."""
    means = bags.sums(bags.points) / bags.sizes[:, None]
    return Bags(bags.points - np.repeat(means, bags.sizes, axis=0), bags.offsets)


MODE_FORMS = {"bags as given": lambda bags: bags, "bags centred": centred}


def modes_of_meunier(quick):
    """Number of components, 1 or 2, of mixtures in the plane: RMSE of the rounded prediction."""
    draws, n_bags = (1, 30) if quick else (20, 100)
    comparisons = []
    for n_points, published in MODES_OF_MEUNIER.items():
        found = {form: [] for form in MODE_FORMS}
        for seed in range(draws):
            bags, y = mode_mixtures(1000 + seed, n_bags=2 * n_bags, n_points=n_points)
            train, test = np.arange(n_bags), np.arange(n_bags, 2 * n_bags)
            for form, moved in MODE_FORMS.items():
                predicted = fitted_modes(moved(bags[train]), y[train]).predict(moved(bags[test]))
                rounded = np.clip(np.round(predicted), 1, 2)
                found[form].append(np.sqrt(mean_squared_error(y[test], rounded)))
        comparisons += [
            Comparison(
                f"modes of mixtures, {n_points} points",
                "RMSE",
                published,
                "sliced Wasserstein kernel",
                np.array(values),
                f"`ProjectedMERR`, {form}",
            )
            for form, values in found.items()
        ]
    return comparisons


def modes_of_bachoc(quick):
    """Number of components, at most 2 or 10, in 2 or 10 dimensions: MSE on the authors' splits."""
    draws, n_bags, n_points = (1, 30, 20) if quick else (20, 256, 128)
    comparisons = []
    for (d, most), (published, rival) in list(MODES_OF_BACHOC.items())[: 1 if quick else None]:
        found = {form: [] for form in MODE_FORMS}
        for seed in range(draws):
            bags, y = mode_mixtures(seed, n_bags=n_bags, n_points=n_points, most=most, n_features=d)
            train, test = train_test_split(np.arange(n_bags), test_size=0.5, random_state=42 + seed)
            for form, moved in MODE_FORMS.items():
                predicted = fitted_modes(moved(bags[train]), y[train]).predict(moved(bags[test]))
                found[form].append(mean_squared_error(y[test], predicted))
        comparisons += [
            Comparison(
                f"modes of mixtures, up to {most} in {d} columns",
                "MSE",
                published,
                rival,
                np.array(values),
                f"`ProjectedMERR`, {form}",
            )
            for form, values in found.items()
        ]
    return comparisons


def fitted_modes(bags, y):
    """Ridge regression with a Gaussian kernel of kernel means, penalty by leave-one-out."""
    return ProjectedMERR().fit(bags, y.astype(float), seed=0)


def rolls(quick):
    """Rates inside bags on the Swiss rolls of Law et al. (2018), by the variational bound."""
    sizes, n_landmarks = {"n_bags": 100, "n_test": 500}, 30
    if quick:
        sizes, n_landmarks = {"n_bags": 10, "n_test": 10, "mean_size": 20, "size_sd": 8}, 5
    nll, mse = roll.PUBLISHED["VBAgg-Sq"][2:4]
    found = []
    for data_seed in range(1 if quick else 5):
        data = swiss_roll(data_seed, **sizes)
        train, test = data["train"], data["test"]
        model = AggregateRegressor(
            "poisson", "square", n_landmarks, method="vb", learn_kernel=not quick
        )
        model.fit(train.bags, train.y, seed=data_seed)
        rate = roll.mean_rates(model, test.bags.points)
        likelihood = -poisson.logpmf(test.outcomes, rate).mean() - roll.stirling_gap(test.outcomes)
        found.append((mean_squared_error(test.rate, rate), likelihood))
    both = zip(("individual MSE", "individual NLL"), (mse, nll), np.transpose(found), strict=True)
    return [
        Comparison(
            "Swiss roll, counts of 100 bags",
            score,
            value,
            "VBAgg-Sq",
            ours,
            '`AggregateRegressor(method="vb")`',
            "rolls",
        )
        for score, value, ours in both
    ]


def kernel_mean_losses(quick):
    """Loss of S-KMSE relative to that of the plain mean, at 20 points in 20 dimensions."""
    ratios = {name: [] for name in ("as printed", "a third")}
    rng = np.random.default_rng(0)
    for _ in range(5 if quick else 30):
        distribution = random_mixture(20, seed=rng)
        x = distribution.sample(20, seed=rng)
        widest = np.sqrt(2) * median_bandwidth([x])  # bandwidth^2 = median squared distance
        for name, bandwidth in zip(ratios, (widest, widest / 3), strict=True):
            losses = kmse_loss.Sample(distribution, x, RBF(bandwidth)).chosen()
            ratios[name].append(losses[kmse_loss.SIMPLE] / losses[kmse_loss.KME])
    return [
        Comparison(
            "loss of kernel means, RBF",
            "loss / loss of KME",
            LOSS_RATIO,
            "S-KMSE",
            np.array(values),
            f'`KernelMean(estimator="s-kmse")`, bandwidth {name}',
            "distributions",
        )
        for name, values in ratios.items()
    ]


def kernel_mean_densities(quick):
    """Mixtures fitted to kernel means of wine and wdbc (Table 1), 10 random splits."""
    comparisons = []
    for set_name in ("wine",) if quick else ("wine", "wdbc"):
        points = kmse_density.load_points(set_name, 0)[: 60 if quick else None]
        found = [
            kmse_density.negative_log_likelihoods(points, seed, 2 if quick else 50)[0]
            for seed in range(1 if quick else 10)
        ]
        comparisons += [
            Comparison(
                f"density by kernel means, {set_name}, {kernel}",
                "NLL",
                kmse_density.PUBLISHED[set_name, kernel][2],
                "F-KMSE",
                np.array([by_estimator[kernel, "f-kmse"] for by_estimator in found]),
                "`match_mixture`, F-KMSE",
                "splits",
            )
            for kernel in kmse_density.KERNELS
        ]
    return comparisons


def curves_of_tang(quick):
    """L2 error of the influence curve; the method of Tang et al. runs on the same data."""
    sizes, n_bags, n_sets = ((10,), 60, 1) if quick else ((10, 250), 200, 20)
    run = RUN | {"warmup": 100, "draws": 100} if quick else RUN
    comparisons = []
    for n_points in sizes:
        found = [
            attenuation.one_data_set(seed, n_bags, n_points, run) for seed in range(1, n_sets + 1)
        ]
        theirs, ours = (
            np.array([methods[name]["l2"] for methods in found]) for name in (attenuation.GP, "BDR")
        )
        comparisons.append(
            Comparison(
                f"influence curve, {n_points} points",
                "L2 error",
                theirs.mean(),
                "Gaussian process of Tang et al., run here",
                ours,
                "`BDR`",
                "data sets",
            )
        )
    return comparisons


def musk(bags, y, quick):
    """Accuracy for the molecules of Musk 1, ten-fold cross-validation."""
    models = {
        "`BDRClassifier`": BDRClassifier(method="optimize" if quick else "laplace"),
        "`SupportMeasureMachine`": SupportMeasureMachine(outer="rbf", C=10.0),
    }
    repeats, n_folds = (1, 2) if quick else (2, 10)
    comparisons = []
    for name, model in models.items():
        right = np.zeros(len(y))
        for repeat in range(repeats):
            folds = StratifiedKFold(n_folds, shuffle=True, random_state=repeat)
            for train, test in folds.split(y, y):
                predicted = model.fit(bags[train], y[train], seed=0).predict(bags[test])
                right[test] += (predicted == y[test]) / repeats
        comparisons.append(
            Comparison(
                "Musk 1", "accuracy", MUSK, "iterated-discrim APR", right, name, "molecules", True
            )
        )
    return comparisons


def misr1(blob, bags, y, quick):
    """Error of aerosol optical depth, five-fold cross-validation; `blob` is the file's id."""
    grid = aerosol.kernel_grid(2.0 ** np.arange(1, 3 if quick else 8))
    products = set_kernels(aerosol.standardised(bags), [kernel for *_, kernel in grid])
    found = [
        aerosol.one_split(grid, products, y, split, aerosol.LAMBDAS)[0]
        for split in aerosol.splits_of(len(bags), 1 if quick else 2)
    ]
    return [
        Comparison(
            f"aerosol, {'MISR1' if blob == MISR1_BLOB else 'another file than MISR1'}",
            "100 x RMSE",
            float(aerosol.PUBLISHED[name].split()[0]),
            f"ridge regression, {name}",
            np.array([of_fold[name] for of_fold in found]),
            "`set_kernels`, the same",
            "folds",
        )
        for name in ("average of three", "average of all, nonlinear K")
    ]


def git_blob(path):
    """The id of a file's content in git."""
    content = Path(path).read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def benchmarks(wheel=None, aerosol_file=None):
    """Functions of `quick` by name: all benchmarks for which there are data; files are read."""
    found = {
        "gamma_varying": gamma_varying,
        "gamma_one_size": gamma_one_size,
        "modes_of_meunier": modes_of_meunier,
        "modes_of_bachoc": modes_of_bachoc,
        "rolls": rolls,
        "kernel_mean_losses": kernel_mean_losses,
        "kernel_mean_densities": kernel_mean_densities,
        "curves_of_tang": curves_of_tang,
    }
    if wheel is not None:
        found["musk"] = partial(musk, *load_musk1(wheel))
    if aerosol_file is not None:
        found["misr1"] = partial(misr1, git_blob(aerosol_file), *load_misr1(aerosol_file))
    return found
