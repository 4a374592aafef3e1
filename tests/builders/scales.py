"""Problems as the search for the mode and for the scales takes them."""

from functools import partial

import numpy as np

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.mode import find_mode
from builders import reference

SCALES = {"sigma": 0.5, "rho": 0.9, "eta": 0.6}
BLR_SCALES = {"sigma": 0.5, "rho": 0.9}
INTERCEPT = (reference.PRIORS["intercept_location"], reference.PRIORS["intercept_scale"])


def bdr_arguments(p):
    """Arguments of `maximise_evidence`, and the basis that leads back to landmark weights."""
    lam, V = joint_basis(p.Sigma, p.R)
    rows = compress((p.mu - p.m0) @ V, p.y, p.sizes)
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    return (partial(normal_likelihood, rows, lam), factor, INTERCEPT), V


def blr_arguments(p):
    d = p.mu.shape[1]
    rows = compress(p.mu - p.m0, p.y, np.ones(len(p.y)))
    return partial(normal_likelihood, rows, np.zeros(d)), np.eye(d), INTERCEPT


def mode_at(arguments, scales, **options):
    likelihood_at, *prior = arguments
    rest = {name: value for name, value in scales.items() if name != "rho"}
    return find_mode(likelihood_at(**rest), *prior, rho=scales["rho"], **options)


def blr_closed_form(p, sigma, rho, intercept_prior=INTERCEPT):
    """Mean and covariance of [beta; intercept] given the scales."""
    d = p.mu.shape[1]
    X = np.c_[p.mu - p.m0, np.ones(len(p.y))]
    prior = np.diag(np.r_[np.full(d, rho**-2.0), intercept_prior[1] ** -2.0])
    covariance = np.linalg.inv(X.T @ X / sigma**2 + prior)
    shift = prior @ np.r_[np.zeros(d), intercept_prior[0]]
    return covariance @ (X.T @ p.y / sigma**2 + shift), covariance
