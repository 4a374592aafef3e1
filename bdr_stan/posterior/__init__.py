"""Priors, mode and evidence of the weights, whitening, and Stan's samplers."""
