"""What kernels and kernel means refuse."""

import numpy as np
from builders.mistakes import BAGS, NARROW, POINTS, check_call, mistakes

from bdr_stan import RBF, KernelMean, Matern32, Polynomial
from bdr_stan.embedding.landmarks import choose_landmarks
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernel_means.shrinkage import f_kmse, s_kmse
from bdr_stan.kernels import (
    ConcatenatedFeatures,
    LandmarkFeatures,
    RationalQuadratic,
    StudentT,
    median_bandwidth,
)
from data_gen.mixtures import GaussianMixture
from experiments.papers.covariance_operators import CovarianceOperator
from experiments.papers.density_matching import kmeans_mixture
from experiments.papers.fourier_features import draw_frequencies
from experiments.papers.gaussian_mixtures import MixtureMean
from experiments.papers.kernel_grids import set_kernels
from experiments.papers.kernel_pca import KernelPCA
from experiments.papers.support_measures import bag_weights

MIXTURE = GaussianMixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
AT_LANDMARKS = LandmarkFeatures(RBF(1.0), POINTS[:3])

KERNELS = [
    ("a bandwidth of 0", lambda: RBF(0), "bandwidth"),
    ("a bandwidth of text", lambda: RBF("wide"), "bandwidth"),
    ("a bandwidth that is None", lambda: RBF(None), "bandwidth"),
    ("a bandwidth of NaN", lambda: Matern32([1.0, np.nan]), "bandwidth"),
    ("no columns", lambda: RBF(columns=[]), "columns"),
    ("a column twice", lambda: RBF(columns=["x", "x"]), "'x'"),
    ("columns that are one", lambda: RBF(columns=3), "columns"),
    ("a variance of 0", lambda: RBF(variance=0), "variance"),
    ("a variance of text", lambda: RBF(variance="a"), "variance"),
    ("a degree of 0", lambda: Polynomial(0), "degree"),
    ("a degree of text", lambda: Polynomial("a"), "degree"),
    ("a negative constant", lambda: Polynomial(2, -1.0), "constant"),
    ("a sum with text", lambda: RBF(1.0) + "rbf", "'rbf'"),
    ("a median that is not a number yet", lambda: RBF()(POINTS, POINTS), "scaled"),
    ("points of other columns", lambda: RBF([1.0, 2.0])(POINTS[:, :1], POINTS), "feature"),
    ("a column that is not there", lambda: RBF(columns=[7]).on(None, 2), "7"),
    ("the median of one point", lambda: median_bandwidth([POINTS[:1]]), "one point"),
    ("Fourier features of no frequency", lambda: draw_frequencies(0, 2), "n_frequencies"),
    ("Fourier features of text", lambda: draw_frequencies("a", 2), "n_frequencies"),
    ("feature maps of none", lambda: ConcatenatedFeatures([]), "map"),
    ("landmarks in a row", lambda: LandmarkFeatures(RBF(1.0), [1.0]), "landmarks"),
    ("no kernel of that name", lambda: KernelMean(POINTS, "gauss"), "kernel"),
    ("no points of a mean", lambda: KernelMean(POINTS[:0]), "point"),
    ("text for points of a mean", lambda: KernelMean([["a"]]), "not numbers"),
    ("no estimator of that name", lambda: KernelMean(POINTS, estimator="best"), "estimator"),
    ("a mean of a negative bandwidth", lambda: KernelMean(POINTS, bandwidth=-1.0), "bandwidth"),
    ("a mean at points of other columns", lambda: KernelMean(POINTS)(POINTS[:, :1]), "points"),
    ("means of two kernels",
     lambda: KernelMean(POINTS, bandwidth=1.0).distance(KernelMean(POINTS, bandwidth=2.0)),
     "kernel"),
    ("the distance from a number", lambda: KernelMean(POINTS).distance(3), "mean"),
    ("a target that is no mean",
     lambda: KernelMean(POINTS, estimator="s-kmse", target=0), "target"),
    ("a target of another kernel", lambda: KernelMean(POINTS, bandwidth=1.0, estimator="s-kmse",
     target=KernelMean(POINTS, bandwidth=2.0)), "kernel"),
    ("a target without shrinkage",
     lambda: KernelMean(POINTS, target=KernelMean(POINTS)), "target"),
    ("an operator of no such estimator",
     lambda: CovarianceOperator(POINTS, estimator="best"), "estimator"),
    ("no components", lambda: KernelPCA(0).fit(POINTS), "n_components"),
    ("components of text", lambda: KernelPCA("two").fit(POINTS), "n_components"),
    ("components before a fit", lambda: KernelPCA().transform(POINTS), "not fitted"),
    ("points of a mixture by text", lambda: MIXTURE.sample("a"), "n must be"),
    ("a mixture of no component", lambda: kmeans_mixture(POINTS, 0), "n_components"),
    ("the mean of a mixture by another kernel",
     lambda: MixtureMean(MIXTURE, Matern32(1.0)), "Matern32"),
    ("no set kernels", lambda: set_kernels(BAGS, []), "kernels"),
    ("set kernels by name", lambda: set_kernels(BAGS, ["rbf"]), "kernels"),
    ("set kernels with other columns", lambda: set_kernels(BAGS, [RBF(1.0)], NARROW), "others"),
    ("weights of no such estimator", lambda: bag_weights(BAGS, RBF(1.0), "best"), "estimator"),
    ("landmarks by no such method", lambda: choose_landmarks(BAGS, 3, method="grid"), "method"),
    ("landmarks of a number", lambda: choose_landmarks(3, 3), "bags"),
    ("an embedding of other columns", lambda: embed(NARROW, AT_LANDMARKS), "columns"),
    ("degrees of freedom of text", lambda: StudentT(1.0, degree="a"), "degree"),
    ("a negative alpha", lambda: RationalQuadratic(1.0, alpha=-1), "alpha"),
    ("a constant of text", lambda: Polynomial(2, "a"), "constant"),
    ("a gram matrix in a row", lambda: s_kmse(np.ones(3)), "kernel matrix"),
    ("a gram matrix that is not square", lambda: f_kmse(np.ones((2, 3))), "kernel matrix"),
]  # fmt: skip


@mistakes(KERNELS)
def test_kernels(call, words):
    check_call(call, words)
