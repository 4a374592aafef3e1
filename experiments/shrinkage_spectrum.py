"""Spectrum of the shrinkage operator: Appendix C of Law et al. (2018).

The eigenvalues of R_eta (R_eta + Sigma / N)^-1 on the gamma bags, for several bag sizes N and three
prior covariances R of the embeddings: the kernel, the convolution kernel and the estimated
covariance between bags. eta and the convolution's length scale maximise the posterior density of
`Shrinkage`. Prints the sum of the eigenvalues: the effective number of coordinates that a bag of N
points identifies.
"""

import numpy as np

from bdr_stan import Shrinkage
from bdr_stan.embedding.shrinkage import shrinkage_factors
from data_gen.gamma import gamma_bags
from experiments import report
from experiments.papers.shrinkage_c import ShrinkageC

SIZES = (1, 5, 20, 100, 1000)


def fit_each(bags, y, n_landmarks, seed):
    """Shrinkage with the same landmarks and each prior of the embeddings."""
    models = {}
    for prior, model in {
        "kernel": Shrinkage(n_landmarks, embedding_prior="kernel"),
        "convolution": ShrinkageC(n_landmarks),
        "empirical": Shrinkage(n_landmarks),
    }.items():
        models[prior] = model.set_params(bandwidth="median").fit(bags, y, seed=seed)
        print(f"fitted with the prior {prior!r}: eta {eta_of(model):.3g}", flush=True)
    return models


def eta_of(model):
    return model.idata["posterior"]["eta"].values.item()


def variances_within(model):
    """Within-bag variance of each coordinate of the joint basis."""
    return model.idata["constant_data"]["lambda"].values


def effective_numbers(models):
    """Effective number of coordinates by bag size, as a Markdown table."""
    columns = [
        shrinkage_factors(SIZES, variances_within(m), eta_of(m)).sum(axis=1)
        for m in models.values()
    ]
    lines = [
        [size, *(f"{value:.1f}" for value in values)]
        for size, values in zip(SIZES, np.transpose(columns), strict=True)
    ]
    return report.rows(["points in a bag", *models], lines, right=slice(None))


def draw(models, path):
    from bdr_stan import plots

    figure, axes = report.pyplot().subplots(
        1, len(models), figsize=(5 * len(models), 4.6), sharey=True, layout="constrained"
    )
    for ax, (prior, model) in zip(axes, models.items()):
        plots.shrinkage_spectrum(model, sizes=SIZES, ax=ax)
        ax.set_title(f"prior: {prior}")
        ax.label_outer()
    figure.savefig(path, dpi=90)


def main():
    parser = report.arguments(
        __doc__,
        quick="300 bags, 20 landmarks",
        output="folder for shrinkage_spectrum.png and .md",
    )
    parser.add_argument("--s5", type=int, default=25, help="percent of bags with 5 points")
    parser.add_argument("--landmarks", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="for landmarks and Stan")
    args = parser.parse_args()

    bags, y = gamma_bags(s5=args.s5, splits=("train",))["train"]
    n_landmarks = args.landmarks
    if args.quick:
        bags, y, n_landmarks = bags[:300], y[:300], 20
    models = fit_each(bags, y, n_landmarks, args.seed)
    table = effective_numbers(models)
    print(f"\nEffective number of coordinates, of {n_landmarks}:\n\n{table}")
    if args.output is not None:
        report.write(
            args.output,
            "shrinkage_spectrum.md",
            TEXT.format(landmarks=n_landmarks, bags=len(bags), table=table),
        )
        draw(models, args.output / "shrinkage_spectrum.png")


TEXT = """\
# Spectrum of the shrinkage operator

This is the spectrum on {bags} training gamma bags with {landmarks} landmarks (Law et al. 2018,
Appendix C).

The mean embedding of a small bag is uncertain, and shrinkage pulls it towards the average embedding
of all bags. A bag of N points keeps the share eta / (eta + lambda_k / N) of coordinate k, whose
variance between the points of a bag is lambda_k: 1 where the points identify the coordinate, 0
where they carry no information. The sum of the shares is the effective number of coordinates that
the bag identifies. The prior covariance of the embeddings is the kernel, the smoother convolution
kernel of [`ShrinkageC`](papers.md) or the estimated covariance between bags
([the model](../explanation/model.md)); its scale eta maximises the posterior density.

Effective number of coordinates, of {landmarks}:

{table}

![Share of each coordinate kept, by bag size and prior](shrinkage_spectrum.png)

Reproduce: `python experiments/shrinkage_spectrum.py --output docs/validation`
"""


if __name__ == "__main__":
    main()
