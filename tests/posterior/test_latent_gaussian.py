"""Models of normal weights: the most probable scales, and labels far from zero."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from builders.scales import mode_at
from builders.training import labelled_bags, training_of

from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.embedding.terms import Terms
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel, BLRModel
from bdr_stan.posterior import sampling
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.posterior.priors import log_prior_of_scales, prior_centres
from bdr_stan.posterior.sampling import sample_posterior
from bdr_stan.posterior.scales import maximise_evidence
from bdr_stan.posterior.settings import SamplerSettings


@pytest.fixture
def embedded(rng):
    bags, y = labelled_bags(rng)
    return embed(bags, LandmarkFeatures(RBF(1.5), rng.normal(size=(3, 3)))), y


# ---------------------------------------------------------------- most probable scales


@pytest.mark.parametrize("with_priors", [True, False])
def test_most_probable_scales_are_those_of_highest_evidence(rng, with_priors):
    bags, y = labelled_bags(rng)
    model = BDRModel.of_training(training_of(bags, "sum", rng.normal(size=(4, 3))), Labels(y))
    found = most_probable_scales(model, with_priors=with_priors)
    expected = maximise_evidence(
        partial(mode_at, (model.likelihood, model.prior_factor, model.intercept_prior)),
        prior_centres(model.priors, model.scales),
        log_prior=log_prior_of_scales(model.priors) if with_priors else None,
    )
    # The search by differences ends at rounding of the labels less their level, or of all.
    assert tuple(found[0]) == model.scales and found[0] == pytest.approx(expected[0], rel=1e-3)
    np.testing.assert_allclose(found[2](), expected[2](), rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(found[1].theta, expected[1].theta, rtol=1e-3, atol=1e-4)


def test_priors_of_the_scales_count_only_if_asked(embedded):
    best = most_probable_scales(BLRModel(embedded[0], Labels(embedded[1])), with_priors=False)[0]
    sure = {"rho_median": best["rho"] / 5, "rho_log_sd": 1e-3}
    strict = BLRModel(embedded[0], Labels(embedded[1]), prior=sure)
    with_priors, without = (most_probable_scales(strict, with_priors=w)[0] for w in (True, False))
    assert with_priors["rho"] == pytest.approx(sure["rho_median"], rel=1e-3)
    assert without == pytest.approx(best, rel=1e-2)


# ---------------------------------------------------------------- labels far from zero


@pytest.mark.parametrize("level", [1e4, 1e8])
def test_labels_far_from_zero_lose_no_more_digits_than_they_have(embedded, level):
    """A label of 1e8 is known to 1.5e-8; the search for the scales makes some 100 times that."""
    embedding, y = embedded
    y = y + level - level  # as far as y + level keeps it
    near, far = (
        sample_posterior(BLRModel(embedding, Labels(labels)), SamplerSettings("optimize")).draws
        for labels in (y, y + level)
    )
    digits = 100 * np.spacing(level) + 1e-8
    np.testing.assert_allclose(far["intercept"] - level, near["intercept"], atol=digits)
    for name in ("w", "sigma", "rho"):
        np.testing.assert_allclose(far[name], near[name], atol=digits * np.abs(far[name]).max())


def test_effects_of_terms_are_those_of_labels_less_their_level(embedded, rng):
    embedding, y = embedded
    terms = Terms({"state": ["a", "b", "c"]}, [])
    x = np.eye(3)[rng.integers(0, 3, len(y))]
    near, far = (
        BLRModel(replace(embedding, covariates=x), Labels(labels), terms=terms).stan_input(
            SamplerSettings("optimize")
        )
        for labels in (y - y.mean(), y - y.mean() + 1000)
    )
    for name, expected in near.data.items():
        np.testing.assert_allclose(far.data[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_program_of_the_users_own_takes_labels_as_they_are(embedded, monkeypatch):
    embedding, y = embedded
    model = BLRModel(embedding, Labels(y + 100), lossless=False)
    given = []

    def run(program, stan_input, settings):
        given.append(stan_input.data)
        w = np.zeros((1, 1, stan_input.data["D"]))
        return {"w": w, "intercept": np.zeros((1, 1)), "sigma": np.ones((1, 1))}, {}, {}

    monkeypatch.setattr(sampling, "run", run)
    intercepts = [
        float(sample_posterior(model, SamplerSettings(stan_file=path)).draws["intercept"].item())
        for path in ("mine.stan", None)
    ]
    mine, stock = given
    np.testing.assert_array_equal(mine["rows"][:, -1], y + 100)
    np.testing.assert_allclose(stock["rows"][:, -1], y - y.mean(), atol=1e-12)
    for name in ("intercept_location", "intercept_centre"):
        assert mine[name] - stock[name] == pytest.approx((y + 100).mean())
    assert intercepts == [0, pytest.approx((y + 100).mean())]
