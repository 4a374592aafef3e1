"""Kernel means of samples and bags, their shrinkage, and kernels and ridge regression on them.

`kernel_mean`, `shrinkage`
    The kernel mean of a sample and its shrinkage estimators.
`set_kernels`, `distance_histograms`
    Kernel means of bags, and their inner products, also for a whole grid of kernels.
`outer_kernels`
    Kernels of the distance between kernel means.
`ridge_path`
    Ridge regression for all penalties at once, weighted averages of regressions.
"""
