"""Kernel means of samples, their shrinkage, covariance operators and set kernels."""
