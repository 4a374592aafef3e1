"""Kernel means of samples and bags, their shrinkage, and kernels and ridge regression on them.

`kernel_mean`, `shrinkage`, `shrunk_embedding`
    The kernel mean of a sample, its shrinkage estimators, mean embeddings of shrunk means.
`covariance_operators`, `kernel_pca`
    Covariance operators, shrunk alike, and principal components of them.
`gaussian_mixtures`, `density_matching`
    Exact kernel means of mixtures of Gaussians, and the mixture whose mean is nearest.
`bag_means`, `set_kernels`, `distance_histograms`
    Kernel means of bags, inner products between them, and those of a whole grid of kernels.
`outer_kernels`
    Kernels of the distance between kernel means.
`ridge_path`, `stacking`, `support_vectors`
    Ridge regression for all penalties at once, weighted averages of regressions, decisions of
    support vector machines.
"""
