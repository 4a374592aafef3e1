"""Simulation-based calibration: whether true values rank anywhere among the draws of their fits.

Parameters from their priors, labels from the model, a fit, and the rank of each true value among
the fit's draws: uniform if simulator, program and data builder tell the same model (Talts et al.
2018, arXiv:1804.06788). The log likelihood is ranked as well: unlike the parameters alone it also
notices a posterior that forgets the data (Modrak et al. 2023, arXiv:2211.02383).
"""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import cmdstanpy
import numpy as np
from scipy import stats

from bdr_stan.posterior.model import StanInput
from bdr_stan.posterior.sampling import run
from bdr_stan.posterior.settings import SamplerSettings
from builders import reference

LANDMARKS = 3  # whose weights are ranked
THIN, KEPT = 3, 59  # ranks 0 .. 59
FALSE_ALARM = 1e-4
# Normal scores of the ranks, of mean 0 and variance 1 if the ranks are uniform.
SCORES = stats.norm.ppf((np.arange(KEPT + 1) + 0.5) / (KEPT + 1))
SCORES /= SCORES.std()


def thinned(model, data, start, seed):
    """Draws of a fit that are nearly independent, name -> array, shape (KEPT, ...)."""
    # Of hundreds of simulated data sets some have next to no noise, where steps diverge; what
    # that costs shows in the ranks, which is what is tested.
    draws = reference.sample(
        model, data, start, chains=1, warmup=150, draws=THIN * KEPT, seed=seed,
        divergent=1, adapt_delta=0.9,
    )  # fmt: skip
    return {name: values[0, ::THIN] for name, values in draws.items()}


class OnStanli:
    """A program that stanli runs, with as much of CmdStanPy's model as `thinned` uses."""

    def __init__(self, program):
        self.program = program

    def sample(
        self, data, *, inits, chains, iter_warmup, iter_sampling, seed, adapt_delta, **others
    ):
        assert set(others) <= {"parallel_chains", "sig_figs", "show_progress", "output_dir"}
        settings = SamplerSettings(
            chains=chains,
            warmup=iter_warmup,
            draws=iter_sampling,
            seed=seed,
            progress=False,
            engine="stanli",
            options={"adapt_delta": adapt_delta},
        )
        draws, stats, _ = run(self.program, StanInput(data, [inits]), settings)
        flat = {name: v.reshape(-1, *v.shape[2:]) for name, v in draws.items()}
        return SimpleNamespace(divergences=stats["diverging"].sum(1), stan_variables=lambda: flat)


def quantities(p, parameters, log_likelihood, together):
    """Numbers whose ranks are taken, one row a draw."""
    if together:
        log_likelihoods = log_likelihood(p, **parameters)
    else:
        draws = [dict(zip(parameters, values)) for values in zip(*parameters.values())]
        log_likelihoods = np.array([log_likelihood(p, **draw) for draw in draws])
    return {
        **{name: values for name, values in parameters.items() if name != "weights"},
        **{f"weight {k}": parameters["weights"][:, k] for k in range(LANDMARKS)},
        "log likelihood": log_likelihoods,
    }


def ranks(model, simulate, fit, log_likelihood, n_sims, seed, together=False):
    """Rank of each true value among the draws of its fit: name -> array, shape (n_sims,).

    simulate(rng) gives a problem and its true parameters, "weights" among them;
    fit(model, problem, seed) gives draws of parameters with these names, shape (KEPT, ...);
    log_likelihood(problem, **parameters) is that of one draw, or those of all of them `together`.
    """

    def one(number):
        p, true = simulate(np.random.default_rng([seed, number]))
        draws = fit(model, p, seed=number + 1)
        truth = quantities(p, {k: np.array([v]) for k, v in true.items()}, log_likelihood, together)
        found = quantities(p, {name: draws[name] for name in true}, log_likelihood, together)
        return {name: int(np.sum(found[name] < truth[name])) for name in truth}

    # the outer context, as cmdstanpy's own is not made for threads
    with cmdstanpy.disable_logging(), ThreadPoolExecutor(2) as pool:
        # stanli runs only in the main thread
        several = map if isinstance(model, OnStanli) else pool.map
        each = list(several(one, range(n_sims)))
    return {name: np.array([ranked[name] for ranked in each]) for name in each[0]}


def p_value(of_one):
    """Whether ranks, shape (..., n_sims), are uniform: the lesser of two tests, times two.

    The mean of their normal scores is 0, and the sum of squares has a chi-square distribution
    (Cook, Gelman and Rubin 2006, doi:10.1198/106186006X136976). tests/sbc/test_calibration.py has
    false alarms and power.
    """
    scores = SCORES[of_one]
    n_sims, squares = scores.shape[-1], (scores**2).sum(axis=-1)
    of_mean = 2 * stats.norm.sf(np.abs(scores.sum(axis=-1)) / np.sqrt(n_sims))
    of_spread = 2 * np.minimum(stats.chi2.sf(squares, n_sims), stats.chi2.cdf(squares, n_sims))
    return np.minimum(1, 2 * np.minimum(of_mean, of_spread))


def p_values(ranked):
    """`p_value` of each quantity."""
    return {name: float(p_value(values)) for name, values in ranked.items()}
