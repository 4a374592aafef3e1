"""Kernel means of samples and bags, their shrinkage, and kernels and ridge regression on them."""
