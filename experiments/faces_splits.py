"""Every method of Table 2 of Law et al. (2018), ages from photographs, on ten splits.

    python experiments/faces_splits.py              a stand-in of 2,000 people
    python experiments/faces_splits.py --features feats.npy --bags person.npy --ages age.npy
    python experiments/faces_splits.py --quick      300 people, 2 splits

A bag has the features of a person's images, its label is their mean age. On each random split
every method is tuned on the validation bags, fitted to the training bags and scored on the test
bags. ``--features`` is a .npy array (N_images, p), from the last layer but one of a network, in
which the images of a person lie together; ``--bags`` and ``--ages`` have the person and the age of
each image, as .npy or as .csv of one column with a header.
"""

import tempfile

import numpy as np
from sklearn.base import clone

from bdr_stan import RBFNetwork
from bdr_stan.bags import Bags
from data_gen.faces import best_predictive, draw_people, write_faces
from experiments import report
from experiments.faces import add_files, files_of
from experiments.methods import METHODS, OPTIMAL, fit_methods, predict, samples, scores, setting
from experiments.paper_data import image_values, load_faces, nested_split

AVERAGE = "average of images"
# Law et al. (2018), Table 2: RMSE and NLL. "Average" is that of the network's predictions.
PUBLISHED = {
    AVERAGE: (10.25, 3.80),
    "RBF network": (9.51, np.nan),
    "Freq-shrinkage": (9.22, np.nan),
    "Shrinkage": (9.28, 3.54),
    "BLR": (9.55, 3.68),
}
COMPARED = ("RBF network", "Freq-shrinkage", "Shrinkage", "BLR", "BDR")
BASE = "RBF network"  # with which the others are compared
MOST_IMAGES = 20_000  # that the average of images is trained on


def main():
    args = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        files, people = args.files, None
        if files is None:
            files = write_faces(folder, seed=args.seed, **args.size)
            people = draw_people(args.size["n_bags"], seed=args.seed)
        bags, y = load_faces(files["features"], files["bags"], files["ages"])
        ages = image_values(files["ages"], "age", len(bags.points), files["features"])
        print(f"{bags}\nlabels: mean {y.mean():.1f}, sd {y.std():.1f} years", flush=True)
        results, settings = {}, {}
        for seed in range(args.seed, args.seed + args.splits):
            split = nested_split(len(bags), seed=seed)
            fitted = fit_split(bags, y, ages, split, seed, args.grid)
            test = split["test"]
            predicted = {name: predict(model, bags[test]) for name, model in fitted.items()}
            if people is not None:
                predicted[OPTIMAL] = best_predictive(people, test)
            for name, prediction in predicted.items():
                mse, nll = scores(prediction, y[test])
                results.setdefault(name, []).append((np.sqrt(mse), nll))
                print(f"{name}: RMSE {np.sqrt(mse):.3f}, NLL {nll:.3f}", flush=True)
            settings[seed] = {name: setting(model) for name, model in fitted.items()}
        write_page(bags, y, split, results, settings, args)


def parse_arguments():
    parser = report.arguments(
        __doc__, quick="300 people, 2 splits", output="folder for faces_splits.md"
    )
    add_files(parser)
    parser.add_argument("--people", type=int, default=2000, help="people of the stand-in")
    parser.add_argument("--columns", type=int, default=256, help="features of the stand-in")
    parser.add_argument("--landmarks", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.files = files_of(parser, args)
    args.size = {"n_bags": args.people, "n_features": args.columns}
    args.grid = {"bandwidth_scale": (1.0, 2.0, 4.0), "n_landmarks": args.landmarks}
    if args.quick:
        args.size, args.splits = {"n_bags": 300, "n_features": 64}, 2
        args.grid = {"bandwidth_scale": (2.0,), "n_landmarks": (16,)}
    return args


def fit_split(bags, y, ages, split, seed, grid):
    """Each method, tuned on the validation bags and fitted to the training bags."""
    train, validation = split["train"], (bags[split["validation"]], y[split["validation"]])
    methods = {name: clone(METHODS[name]).set_params(landmarks="random") for name in COMPARED}
    for model in methods.values():
        if samples(model):
            model.set_params(method="laplace")
    fitted = fit_methods(methods, (bags[train], y[train]), validation, seed=seed, grid=grid)
    images = images_of(bags, train, seed)
    # Linear in the mean embedding: the prediction of a bag is the average of those of its images.
    of_images = {AVERAGE: RBFNetwork(bandwidth="median", landmarks="random")}
    points = Bags.from_points(bags.read_rows(images), sizes=np.ones(len(images), int))
    return fit_methods(of_images, (points, ages[images]), validation, seed=seed, grid=grid) | fitted


def images_of(bags, train, seed):
    """At most 20,000 images of the training bags, as ascending rows."""
    rows = np.flatnonzero(np.isin(np.repeat(np.arange(len(bags)), bags.sizes), train))
    return np.sort(np.random.default_rng(seed).permutation(rows)[:MOST_IMAGES])


def score_table(results):
    """Mean (sd) over splits, ours and published, and RMSE minus that of the RBF network."""
    base = np.array(results[BASE])[:, 0]
    lines = []
    for name, values in results.items():
        rmse, nll = np.transpose(values)
        change = rmse - base
        published = PUBLISHED.get(name, (np.nan, np.nan))
        theirs = published[0] - PUBLISHED[BASE][0]
        cells = [
            f"{rmse.mean():.2f} ({rmse.std(ddof=1):.2f})",
            f"{published[0]:.2f}",
            "" if name == BASE else f"{change.mean():+.3f} ± {report.standard_error(change):.3f}",
            "" if name == BASE else f"{theirs:+.2f}",
            f"{nll.mean():.3f} ({nll.std(ddof=1):.3f})",
            f"{published[1]:.2f}",
        ]
        lines.append([name, *("" if "nan" in cell else cell for cell in cells)])
    heads = ["RMSE", f"RMSE minus {BASE}", "NLL"]
    heads = ["method", *(head for ours in heads for head in (ours, "published"))]
    return report.rows(heads, lines, right=slice(1, None))


def write_page(bags, y, split, results, settings, args):
    import pandas as pd

    table = score_table(results)
    stand_in = "The features are from files."
    if args.files is None:
        stand_in = STAND_IN.format(people=len(bags), columns=bags.n_features)
    text = REPORT.format(
        stand_in=stand_in,
        n=len(bags),
        largest=bags.sizes.max(),
        one=(bags.sizes == 1).mean(),
        images=len(bags.points),
        sd=y.std(),
        parts=", ".join(f"{len(i):,} {name.replace('_', ' ')}" for name, i in split.items()),
        splits=len(settings),
        table=table,
        settings=report.markdown(pd.DataFrame(settings).T.rename_axis("split"), str),
        average=AVERAGE,
    )
    print(f"\nMean (sd) over {len(settings)} splits:\n\n{table}")
    if args.output is not None:
        report.write(args.output, "faces_splits.md", text)


STAND_IN = """\
**The images are simulated** (`data_gen/faces.py`), {people:,} people with {columns} features: the
order of the methods can be compared with the paper's, their errors cannot. Optimal is computed from
the simulator. `--people 19545 --columns 4096` has the size of the paper's data;
[one split of that size](faces.md) is on a page of its own."""

REPORT = """# IMDb-WIKI's protocol on ten splits

Law et al. (2018), section 5.2 and Table 2: the age of a person from the features of photographs.

{stand_in}

{n:,} bags of 1 to {largest} images ({one:.1%} with one), {images:,} images. The label is the mean
age of a bag's images, sd {sd:.1f} years. Each split is random:
{parts} bags. No method here stops early and needs the
second part.

{table}

Means over {splits} splits, in brackets the sd over splits; RMSE in years, NLL in nats. Differences
of RMSE are paired by split, with standard errors, which are somewhat too small as splits share
people. "{average}" is a regression on single images, whose predictions are averaged
in each bag; the published one is the average of a network's predictions. Methods without a
predictive density have no NLL.

As in the paper all shrinkage models are better than the RBF network and BLR, which are nearly
equal, and the average of images is worst. Freq-shrinkage gains less here than Shrinkage, whereas it
gains slightly more in the paper. BDR, which the paper did not run, predicts as Shrinkage does.

All methods have the RBF kernel at random training images. The bandwidth (in median distances /
sqrt(2)) and the number of landmarks are chosen on the validation bags, by NLL where the method has
a density, else by MSE; so is the amount of Freq-shrinkage. Posteriors use Laplace's method.

{settings}

Features of your own: `--features FILE --bags FILE --ages FILE`, an array (N_images, p) as .npy, the
images of a person next to each other, and the person and the age of each image as .npy or as .csv
of one column with a header.

Reproduce: `python experiments/faces_splits.py --output docs/validation`
"""

if __name__ == "__main__":
    main()
