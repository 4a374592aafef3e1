"""InverseBDR compared with BDR: sharper, and calibrated if bags are few?

Five tables, written to inverse.md:
1. Gamma bags of which 25% have 5 points (data seed 23): scores of the test bags, and coverage on
   10,000 fresh bags, by size. Settings chosen on the validation bags.
2. Gamma bags of 1000 points with noise (Law et al. 2018, Table 1), ten draws, settings chosen on
   the validation bags of each: paired Wilcoxon tests against BDR.
3. 150 training bags, gamma and digits, ten draws of each, with default settings.
4. The digits bags of the demonstration with its settings, by size.
5. Simulated faces, few and with default settings.
The first and fourth are fitted by NUTS, the others by Laplace's method, except BDR in the second
(NUTS) and InverseBDR in the second and third (posterior mode).
"""

import itertools
import tempfile
import warnings

import numpy as np
from scipy.stats import wilcoxon
from sklearn.base import clone

from bdr_stan import BDR, InverseBDR
from bdr_stan.datasets import digits_bags
from bdr_stan.demo import SETTINGS as DEMO
from bdr_stan.metrics import table_by_size
from data_gen.faces import write_faces
from data_gen.gamma import gamma_bags, optimal_predictive
from experiments.gamma import LEVELS, coverage_table, fresh_bags
from experiments.methods import OPTIMAL, fewer, fit_methods, predict, scores, setting
from experiments.paper_data import load_faces, nested_split
from experiments.report import arguments, markdown, write

MODELS = {
    "BDR": BDR(bandwidth="median"),
    "BDR, additive": BDR(kernel="additive"),
    "InverseBDR": InverseBDR(bandwidth="median"),
    "InverseBDR, additive": InverseBDR(kernel="additive"),
}


def fresh(args):
    """Scores of the test bags by size, and coverage on fresh bags."""
    data = gamma_bags(23, s5=25, splits=("train", "validation", "test"))
    if args.quick:
        data = fewer(data, 30)
    grid = {"bandwidth_scale": (0.75,), "n_landmarks": (10,)} if args.quick else None
    names = ["BDR, additive", "InverseBDR"] if args.quick else MODELS
    models = {name: at_mode(MODELS[name], args) for name in names}
    fitted = fit_methods(models, data["train"], data["validation"], seed=0, grid=grid)
    bags, y = data["test"]
    predicted = {name: predict(model, bags) for name, model in fitted.items()}
    rows = {}
    for name, predictive in {**predicted, OPTIMAL: optimal_predictive(bags)}.items():
        nll = -predictive.log_prob(y)
        by_size = {f"NLL, {n} points": nll[bags.sizes == n].mean() for n in np.unique(bags.sizes)}
        rows[name] = {**named(scores(predictive, y)), **by_size}
    for name, model in fitted.items():
        rows[name]["settings"] = setting(model)
        print(f"\n{name}\n{model.report()}", flush=True)
    others, y_others = fresh_bags(np.arange(1 if args.quick else 10) + 24, 25)
    if args.quick:
        others, y_others = others[:200], y_others[:200]
    of_others = {name: model.predictive(others) for name, model in fitted.items()}
    everywhere = {n: covered(p, y_others) for n, p in of_others.items()}
    by_size = coverage_table(of_others, y_others, others.sizes)
    return [
        "## Gamma bags of varying sizes",
        "Test bags, 25% of them with 5 points:",
        markdown(frame(rows)),
        f"Coverage of central intervals on {len(y_others)} fresh bags:",
        markdown(frame(everywhere)),
        markdown(by_size),
    ]


def fixed(args):
    """Scores over draws of bags of one size, and paired tests against BDR."""
    names = ("BDR", "InverseBDR, additive")
    results = {name: [] for name in (*names, OPTIMAL)}
    for data_seed in range(23, 24 if args.quick else 33):
        points = 100 if args.quick else 1000
        data = gamma_bags(
            data_seed, fixed_size=points, noise=1.0, splits=("train", "validation", "test")
        )
        if args.quick:
            data = fewer(data, 30)
        methods = {
            name: clone(at_mode(MODELS[name], args)).set_params(landmarks="random")
            for name in names
        }
        methods["InverseBDR, additive"].set_params(method="optimize")
        scales, n = ((1.0,), 30) if args.quick else ((0.5, 1.0, 1.5), 300)
        grid = {"n_landmarks": (10,) if args.quick else (60,), "bandwidth_scale": scales}
        fitted = fit_methods(
            methods,
            data["train"],
            data["validation"],
            seed=1,
            tune_by="nuts",
            grid={**grid, "chains": 2, "warmup": n, "draws": n},
        )
        bags, y = data["test"]
        for name, model in fitted.items():
            results[name].append(scores(predict(model, bags), y))
        results[OPTIMAL].append(scores(optimal_predictive(bags, noise=1.0), y))
        print(
            data_seed,
            {name: np.round(values[-1], 4) for name, values in results.items()},
            flush=True,
        )
    rows = {}
    for name, values in results.items():
        mean, sd = np.mean(values, axis=0), np.std(values, axis=0)
        rows[name] = {"MSE (sd)": f"{mean[0]:.4f} ({sd[0]:.4f})"}
        rows[name]["NLL (sd)"] = f"{mean[1]:.4f} ({sd[1]:.4f})"
        if name not in ("BDR", OPTIMAL):
            for k, score in enumerate(("MSE", "NLL")):
                p = wilcoxon(np.array(values)[:, k], np.array(results["BDR"])[:, k]).pvalue
                rows[name][f"{score} against BDR, p"] = f"{p:.3f}"
    return [
        "## Gamma bags of one size",
        f"{len(results[OPTIMAL])} draws, {points} points per bag (Law et al. 2018, Table 1):",
        markdown(frame(rows)),
    ]


def few(args):
    """Scores of models fitted to 150 bags."""
    models = {
        "BDR": BDR(method="laplace"),
        "InverseBDR": InverseBDR(method="optimize"),
        "InverseBDR, additive": InverseBDR(kernel="additive", method="optimize"),
    }
    found = {}
    n_train, n_test = (30, 60) if args.quick else (150, 1000)
    kinds = ("digits",) if args.quick else ("gamma", "digits")
    for draw, kind in itertools.product(range(1 if args.quick else 10), kinds):
        if kind == "gamma":
            data = gamma_bags(23 + draw, s5=25, splits=("train", "test"))
            take = np.random.default_rng(draw).choice(1000, n_train, replace=False)
            (train, y), (test, truth) = data["train"], data["test"]
            train, y = train[take], y[take]
            test, truth = test[:n_test], truth[:n_test]
        else:
            train, y = digits_bags(n_train, seed=100 + draw, split="train")
            test, truth = digits_bags(n_test, seed=2, split="train")
        for name, model in models.items():
            if kind == "digits" and "additive" in name:  # 64 pixels, one kernel each
                continue
            fitted = quiet(at_mode(clone(model), args).set_params(random_state=draw), train, y)
            predictive = fitted.predictive(test)
            row = {**named(scores(predictive, truth)), **covered(predictive, truth)}
            found.setdefault(f"{kind}, {name}", []).append(row)
        print(kind, draw, flush=True)
    rows = {
        name: {key: np.mean([row[key] for row in draws]) for key in draws[0]}
        | {
            "lowest 95%": min(row["95%"] for row in draws),
            "highest NLL": max(r["NLL"] for r in draws),
        }
        for name, draws in found.items()
    }
    return [f"## {n_train} training bags", "Averages over the draws:", markdown(frame(rows))]


def digits(args):
    """Scores on the bags of the demonstration, by size."""
    n_train, n_test = (40, 40) if args.quick else (800, 1000)
    train, y = digits_bags(n_train, seed=1, split="train")
    test, truth = digits_bags(n_test, seed=2, split="train")
    parts = [
        "## Digits",
        f"The demonstration's {n_train} training and {n_test} test bags, by size:",
    ]
    for name, model in {"BDR": BDR(**DEMO), "InverseBDR": InverseBDR(**DEMO)}.items():
        at_mode(model, args).fit(train, y, seed=1, chains=4, warmup=500, draws=1000)
        print(f"\n{name}\n{model.report()}", flush=True)
        table = table_by_size(truth, model.predictive(test), test.sizes, level=0.95)
        parts += [f"{name}:", markdown(table)]
    return parts


def faces(args):
    """Scores on simulated faces."""
    n_bags, n_features = (100, 16) if args.quick else (3000, 256)
    with tempfile.TemporaryDirectory() as folder:
        files = write_faces(folder, n_bags=n_bags, n_features=n_features, seed=1)
        bags, y = load_faces(files["features"], files["bags"], files["ages"])
        split = nested_split(len(bags), seed=1)
        train, test = bags[split["train"]], bags[split["test"]]
        truth, rows = y[split["test"]], {}
        settings = {"bandwidth": "median", "method": "laplace"}
        if args.quick:
            settings["n_landmarks"] = 10
        models = {"BDR": BDR(**settings), "InverseBDR": InverseBDR(**settings)}
        for name, model in models.items():
            predictive = quiet(model, train, y[split["train"]]).predictive(test)
            rows[name] = {**named(scores(predictive, truth)), **covered(predictive, truth)}
            rows[name]["RMSE"] = np.sqrt(rows[name].pop("MSE"))
    return [
        "## Faces",
        f"A stand-in of {n_bags} people and {n_features} features, ages in years:",
        markdown(frame(rows)),
    ]


def at_mode(model, args):
    """The model; with ``--quick`` its mode, with few landmarks."""
    if not args.quick:
        return model
    return model.set_params(method="optimize", n_landmarks=10)


def quiet(model, bags, y):
    """A fit without warnings about the approximation, whose quality is measured here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(bags, y, seed=1)


def covered(predictive, y):
    """Coverage of central intervals."""
    away = np.abs(predictive.cdf(y) - 0.5)
    return {f"{level:.0%}": np.mean(away <= level / 2) for level in LEVELS}


def named(pair):
    return dict(zip(("MSE", "NLL"), pair))


def frame(rows):
    import pandas as pd

    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


PARTS = {"fresh": fresh, "fixed": fixed, "few": few, "digits": digits, "faces": faces}


def main():
    parser = arguments(
        __doc__,
        quick="small settings, short chains",
        output="folder for inverse.md",
        folder="inverse_output",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    args = parser.parse_args()
    text = ["# Embeddings given the label", HEAD]
    for name in args.parts:
        text += PARTS[name](args)
        write(args.output, "inverse.md", "\n\n".join([*text, REPRODUCE]) + "\n")
    print("\n\n".join(text))


REPRODUCE = "Reproduce: `python experiments/inverse.py --output docs/validation`"
HEAD = """\
`InverseBDR` models p(embedding
given label) and inverts it with Bayes' rule, with a power of the likelihood learned from held-out
bags ([model](../explanation/inverse.md)). "Additive" models have one kernel per column. Optimal is
the posterior of the label under the simulator."""


if __name__ == "__main__":
    main()
