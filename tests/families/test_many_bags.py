"""Fits of so many bags that a part of them begins the search, and deviations are integrated out.

Fewer bags take this way here.
"""

import numpy as np
import pytest
from builders.log_density import log_density_of

from bdr_stan import BDR, Shrinkage, load
from bdr_stan.models import bdr_glm

N = 400
RNG = np.random.default_rng(6)
CENTRES, SIZES = RNG.normal(size=N), RNG.integers(2, 30, N)
BAGS = [RNG.normal(m, 1, (n, 1)) for m, n in zip(CENTRES, SIZES, strict=True)]
TRIALS = RNG.integers(20, 200, N)
Y = RNG.binomial(TRIALS, 1 / (1 + np.exp(-0.3 - 0.6 * CENTRES)))
OPTIONS = {"trials": TRIALS, "seed": 1, "progress": False}
FAMILY = {"n_landmarks": 8, "family": "binomial", "kernel": "rbf"}
SHORT = {"seed": 1, "chains": 2, "warmup": 300, "draws": 500, "progress": False}


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr(bdr_glm, "_FIRST_BAGS", 150)
    monkeypatch.setattr(bdr_glm, "_MOST_BAGS_OF_LAPLACE", 150)


def test_a_part_of_the_bags_leads_to_the_same_mode(monkeypatch):
    whole = Shrinkage(**FAMILY).fit(BAGS, Y, **OPTIONS)
    monkeypatch.setattr(bdr_glm, "_FIRST_BAGS", 150)
    found = Shrinkage(**FAMILY).fit(BAGS, Y, **OPTIONS)
    for name in ("rho", "eta"):
        np.testing.assert_allclose(found.result_.draws(name), whole.result_.draws(name), rtol=1e-2)
    np.testing.assert_allclose(
        found.predict(BAGS, trials=TRIALS), whole.predict(BAGS, trials=TRIALS), rtol=2e-3
    )


COUNTS = RNG.poisson(np.exp(0.5 + 0.6 * CENTRES))
ANY = {"binomial": (Y, {"trials": TRIALS}, N), "poisson": (COUNTS, {}, N // 2)}


def nuts(family):
    """A fit by NUTS to the first bags: their labels, and how many, by family."""
    y, known, n = ANY[family]
    known = {name: values[:n] for name, values in known.items()}
    model = BDR(n_landmarks=8, family=family, kernel="rbf").fit(BAGS[:n], y[:n], **known, **SHORT)
    assert model.diagnostics()["divergences"] < 7  # of 1,000
    return model


@pytest.fixture(scope="module")
def sampled():
    """Fits by family whose deviations are parameters."""
    return {family: nuts(family) for family in ANY}


@pytest.mark.slow
def test_laplace_without_stan_is_near_nuts(sampled, few_are_many):
    laplace = BDR(method="laplace", **FAMILY).fit(BAGS, Y, draws=2000, **OPTIONS)
    fits = laplace, sampled["binomial"]
    assert laplace.idata.posterior.attrs["inference_method"] == "laplace"
    assert np.isnan(laplace.diagnostics()["pareto_k"])
    # Means differ by 0.1 sds at most, with a standard error of 0.04: five away from the bound.
    for name in ("intercept", "rho", "eta"):
        ours, theirs = (np.log(np.abs(m.result_.draws(name))) for m in fits)
        assert abs(ours.mean() - theirs.mean()) < 0.3 * theirs.std(), name
        # Densities of log scales are skew with so few bags.
        assert ours.std() == pytest.approx(theirs.std(), rel=0.75), name
    a, b = (m.influence(np.linspace(-2, 2, 9)[:, None]) for m in fits)
    assert np.all(np.abs(a.mean - b.mean) < 0.3 * b.sd)
    np.testing.assert_allclose(a.sd, b.sd, rtol=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ANY)
def test_nuts_with_deviations_integrated_out_is_nuts_of_all(sampled, family, monkeypatch):
    monkeypatch.setattr(bdr_glm, "_MOST_DEVIATIONS", 100)
    integrated = nuts(family)
    for name in ("intercept", "rho", "eta"):
        a, b = (np.log(np.abs(m.result_.draws(name))) for m in (sampled[family], integrated))
        assert abs(a.mean() - b.mean()) < 0.25 * a.std(), name
        assert b.std() == pytest.approx(a.std(), rel=0.2), name


@pytest.mark.parametrize("family, deviations", [("poisson", 0), ("negative_binomial", N)])
def test_deviations_of_some_families_are_integrated_out(family, deviations, monkeypatch):
    monkeypatch.setattr(bdr_glm, "_MOST_DEVIATIONS", N - 1)
    model = BDR(n_landmarks=8, family=family, kernel="rbf", method="optimize")
    density = log_density_of(model, BAGS, COUNTS, seed=1, progress=False)
    assert deviations <= density.program.n_unconstrained < deviations + 20


def test_its_fit_saves_and_predicts(few_are_many, tmp_path):
    model = BDR(method="laplace", **FAMILY).fit(BAGS, Y, draws=100, **OPTIONS)
    assert dict(model.idata.posterior.sizes)["draw"] == 100
    model.save(tmp_path / "fit.nc")
    again = load(tmp_path / "fit.nc").predictive(BAGS, trials=TRIALS)
    np.testing.assert_allclose(again.mean, model.predict(BAGS, trials=TRIALS))
    assert np.mean(again.cdf(Y) < 0.5) == pytest.approx(0.5, abs=0.1)
