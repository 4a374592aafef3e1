"""Checks of a posterior sample: meaning of each diagnostic, and advice if it is bad."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri


@dataclass(frozen=True)
class Check:
    """One diagnostic of a sample: its value, the good range, and advice if it is `bad`."""

    quantity: str
    measured: str
    good: str
    bad: bool
    trouble: str
    advice: str


# With fewer draws per chain, R-hat and effective sample sizes are too noisy to judge a fit: twice
# the effective sample size required per chain.
MIN_DRAWS = 200
# tests/results/test_advice.py tries all advice. A narrower prior of sigma would make things worse.
FEW_BAGS = "The fit has {n} labelled bags: so few hardly identify the scales; more bags help most."
_NARROW_PRIORS = "narrow the priors of the scales (in prior: rho_log_sd and other ..._log_sd)"
_WITHOUT_CHECKS = {
    "optimize": "The posterior mode, a single point: it carries no uncertainty in the "
    "parameters, and its distance from the posterior is not measured.",
    "exact": "Independent draws from the exact posterior of the weights at the scales of highest "
    "evidence: no convergence to check; uncertainty in the scales is not included.",
}


def checks(diagnostics: dict[str, Any]) -> list[Check]:
    """Diagnostics of a sample as checks; empty for a method without diagnostics.

    Source: the thresholds are from Vehtari et al. (2021), R-hat 1.01 (more for few chains or draws)
    and an ESS of 100 per chain, of Stan's own diagnose command, E-BFMI 0.3, and of Vehtari et al.
    (2024), k-hat 0.7.
    """
    if diagnostics.get("method") == "nuts":
        return _nuts_checks(diagnostics)
    return [_pareto_check(diagnostics)] if "pareto_k" in diagnostics else []


def _nuts_checks(d):
    total = d["n_chains"] * d["n_draws"]
    divergences = Check(
        "divergences",
        f"{d['divergences']}",
        "0",
        d["divergences"] > 0,
        f"{d['divergences']} of {total} transitions diverged, so the draws may miss part of "
        "the posterior.",
        f"Raise adapt_delta (0.95, then 0.99); if some remain, {_NARROW_PRIORS}.",
    )
    agreement = [_few_draws(d)] if d["n_draws"] < MIN_DRAWS else _agreement_checks(d)
    return [divergences, *agreement, *_movement_checks(d)]


def _few_draws(d):
    """The check that replaces R-hat and ESS in a short, exploratory run."""
    return Check(
        "draws",
        f"{d['n_draws']} per chain",
        f">= {MIN_DRAWS}",
        True,
        f"{d['n_chains']} chain{'s' * (d['n_chains'] > 1)} of {d['n_draws']} draws are too few to "
        "assess convergence: this is an exploratory run.",
        f"Use at least draws={MIN_DRAWS}, better 1000, before you rely on the results.",
    )


def _agreement_checks(d):
    """Checks of R-hat, bulk ESS and tail ESS."""
    enough = 100 * d["n_chains"]
    largest = _largest_r_hat(d["n_chains"], d["n_draws"])
    all_checks = [
        Check(
            "R-hat",
            _value(d, "max_r_hat", ".3f"),
            f"<= {largest:.4g}",
            d["max_r_hat"] > largest,
            f"R-hat of {_parameter(d['max_r_hat_of'])} is {d['max_r_hat']:.3f} (at most "
            f"{largest:.4g} is good): the chains, and predictions from each, do not agree yet.",
            "Raise warmup and draws; if it stays high, look for several modes or for parameters "
            "that the data do not identify.",
        )
    ]
    for part, estimate in [("bulk", "its mean"), ("tail", "its interval")]:
        ess, element = d[f"min_ess_{part}"], d[f"min_ess_{part}_of"]
        all_checks.append(
            Check(
                f"{part} ESS",
                _value(d, f"min_ess_{part}", ".0f"),
                f">= {enough}",
                ess < enough,
                f"The {part} effective sample size of {_parameter(element)} is {ess:.0f} (at least "
                f"{enough} is good): {estimate} is imprecise.",
                "Raise draws.",
            )
        )
    return all_checks


def _largest_r_hat(n_chains, n_draws):
    """1.01, or the level reached by chance: few chains of few draws have a noisy R-hat.

    Split R-hat - 1 is about (chi2_k / k - 1) / n with k = 2 chains - 1 for n independent draws per
    chain: its upper 1e-4 quantile, as the largest of many parameters counts, for n half the draws.
    """
    k = 2 * n_chains - 1
    return 1 + max(0.01, 2 * (chdtri(k, 1e-4) / k - 1) / n_draws)


def _movement_checks(d):
    """Checks of E-BFMI and tree depth."""
    e_bfmi, at_max_depth = d["min_e_bfmi"], d["share_at_max_tree_depth"]
    return [
        Check(
            "E-BFMI",
            "unknown" if np.isnan(e_bfmi) else f"{e_bfmi:.2f}",
            ">= 0.3",
            e_bfmi < 0.3,
            f"The smallest E-BFMI of a chain is {e_bfmi:.2f} (at least 0.3 is good): the chains "
            "change energy slowly and may not reach the tails.",
            # A longer warmup does not help.
            f"N{_NARROW_PRIORS[1:]}; in your own program, use a non-centred parametrisation.",
        ),
        Check(
            "tree depth",
            f"{at_max_depth:.1%} at {d['max_tree_depth']}",
            "none",
            at_max_depth > 0,
            f"{at_max_depth:.1%} of the transitions stopped at the largest tree depth "
            f"{d['max_tree_depth']}, before they had moved far: R-hat and effective sample sizes "
            "suffer.",
            f"Raise max_treedepth, or {_NARROW_PRIORS}.",
        ),
    ]


def _pareto_check(d):
    k = d["pareto_k"]
    return Check(
        "Pareto k-hat",
        "unknown" if np.isnan(k) else f"{k:.2f}",
        "<= 0.7",
        k > 0.7,
        f"Pareto k-hat of the {d['method']} approximation is {k:.2f} (at most 0.7 is good): it is "
        "far from the posterior.",
        'Use method="nuts".',
    )


def _value(d, name, form):
    element = d[f"{name}_of"]
    return "unknown" if element is None else f"{d[name]:{form}} of {_parameter(element)}"


_VECTOR_NAMES = {"w": "the weights", "beta": "the weights", "effect": "the bags' effects"}


def _parameter(element):
    """Label of a vector's entry: the whole vector, as single entries mean nothing to readers."""
    name, bracket, _ = str(element).partition("[")
    return _VECTOR_NAMES.get(name, element) if bracket else element


def sampling_warnings(diagnostics: dict[str, Any]) -> list[str]:
    """Problems of a sample and their fixes, one string per problem."""
    return [f"{check.trouble} {check.advice}" for check in checks(diagnostics) if check.bad]


def report(diagnostics: dict[str, Any]) -> str:
    """Diagnostics as text: a heading, and for NUTS and Laplace a line per quantity."""
    rows = [(c.quantity, c.measured, f"(good: {c.good})", verdict(c)) for c in checks(diagnostics)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["".join(f"  {cell:{width}}" for cell, width in zip(row, widths)) for row in rows]
    return "\n".join([heading(diagnostics), *(line.rstrip() for line in lines)])


def headline(diagnostics: dict[str, Any]) -> str:
    """Kind of sample, and which of its diagnostics are poor, in one line."""
    all_checks = checks(diagnostics)
    if not all_checks:
        return heading(diagnostics)
    poor = [f"{check.quantity} {check.measured}" for check in all_checks if check.bad]
    verdict = f"poor: {', '.join(poor)} (see report())" if poor else "all diagnostics good"
    return f"{heading(diagnostics)}; {verdict}"


def verdict(check: Check) -> str:
    """Advice, "ok", or empty if the quantity is unknown."""
    if check.bad:
        return check.advice
    return "" if check.measured == "unknown" else "ok"


def heading(diagnostics: dict[str, Any]) -> str:
    """Kind of sample and number of draws, as one sentence."""
    d = diagnostics
    if d["method"] == "nuts":
        return (
            f"NUTS: {d['n_chains']} chains x {d['n_draws']} draws, "
            f"{d['mean_n_steps']:.1f} leapfrog steps per draw"
        )
    if "pareto_k" in d:
        return f"{d['method'].capitalize()}: {d['n_draws']} draws of an approximation"
    return _WITHOUT_CHECKS.get(d["method"], f"There are no diagnostics of method {d['method']!r}.")
