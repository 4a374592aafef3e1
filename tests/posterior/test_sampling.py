"""Sampling a model: every method of CmdStan, what is refused."""

import numpy as np
import pytest
from builders import reference
from builders.scales import blr_closed_form
from builders.training import labelled_bags
from cmdstanpy import CmdStanModel

from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel
from bdr_stan.posterior.latent_gaussian import Role, most_probable_scales
from bdr_stan.posterior.model import StanInput
from bdr_stan.posterior.sampling import Posterior, run, sample_posterior
from bdr_stan.posterior.settings import METHODS, SamplerSettings

SHORT = {"chains": 2, "warmup": 200, "draws": 300, "seed": 1}


@pytest.fixture
def embedded(rng):
    bags, y = labelled_bags(rng)
    return embed(bags, LandmarkFeatures(RBF(1.5), rng.normal(size=(3, 3)))), y


@pytest.fixture
def model(embedded):
    return BLRModel(embedded[0], Labels(embedded[1]))


def test_the_first_metric_has_the_squares_of_known_widths():
    start = StanInput({}, [{"a": 1.0, "b": np.zeros((2, 2))}], {"b": [0.1, 0.2, 0.3, 0.4]})
    np.testing.assert_allclose(start.first_metric("ba"), [0.01, 0.04, 0.09, 0.16, 1.0])
    assert start.first_metric("abc") is None


# ---------------------------------------------------------------- methods


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_draws_of_the_model(model, method):
    posterior = sample_posterior(model, SamplerSettings(method, **SHORT))
    shape = {"nuts": (2, 300), "optimize": (1, 1)}.get(method, (1, 300))
    assert set(posterior.draws) >= {"w", "intercept", "sigma", "rho", "beta"}
    assert not set(posterior.draws) & set(model.arrays(Role.SAMPLER))
    assert posterior.draws["w"].shape == posterior.draws["beta"].shape == (*shape, 3)
    for name in ("intercept", "sigma", "rho"):
        assert posterior.draws[name].shape == shape
    np.testing.assert_allclose(
        posterior.draws["beta"], posterior.draws["w"] @ model.weight_basis.T, rtol=1e-12
    )
    assert posterior.attrs["inference_method"] == method
    for values in posterior.stats.values():
        assert values.shape[:2] == shape
    flat = posterior.flat()
    assert flat["w"].shape == (np.prod(shape), 3)
    np.testing.assert_array_equal(flat["w"][-1], posterior.draws["w"][-1, -1])


@pytest.mark.parametrize("method", ["optimize", "laplace"])
def test_approximations_hold_rho_at_its_marginal_mode(model, method):
    rho = most_probable_scales(model)[0]["rho"]
    np.testing.assert_allclose(
        sample_posterior(model, SamplerSettings(method, **SHORT)).draws["rho"], rho, rtol=0.01
    )


@pytest.mark.parametrize("method", ["optimize", "laplace"])
def test_a_search_that_loses_its_first_step_tries_a_longer_one(model, method, monkeypatch):
    search, by_stan = CmdStanModel.optimize, ["Exception: no density", "Line search failed"]
    lost = f"{by_stan[0]}\nconsole log output:\n\n  {by_stan[1]}\n"

    def loses_short_steps(self, **options):
        if options.get("init_alpha", 0.001) < longest:
            raise RuntimeError(f"Error during optimization! Command 'x' failed: {lost}")
        return search(self, **options)

    monkeypatch.setattr(CmdStanModel, "optimize", loses_short_steps)
    longest = 0.0
    usual = sample_posterior(model, SamplerSettings(method, **SHORT)).draws
    longest = 1.0
    found = sample_posterior(model, SamplerSettings(method, **SHORT)).draws
    for name in ("w", "intercept", "sigma", "rho"):
        np.testing.assert_allclose(found[name], usual[name], rtol=1e-3, atol=1e-3)
    longest = 2.0
    with pytest.raises(RuntimeError) as error:
        sample_posterior(model, SamplerSettings(method, **SHORT))
    assert str(error.value) == f"Stan's {method} of blr failed: " + "\n".join(by_stan)


def test_draws_come_from_the_seed(model):
    one, same, other = (
        sample_posterior(model, SamplerSettings(**SHORT | {"draws": 20, "seed": seed})).draws["w"]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_nuts_draws_from_the_posterior(embedded):
    """Both scales all but known: mean and covariance of the closed form."""
    embedding, y = embedded
    held = {"rho_median": 1.2, "rho_log_sd": 1e-4}
    model = BLRModel(embedding, Labels(y), prior=held)
    posterior = sample_posterior(model, SamplerSettings(chains=2, warmup=500, draws=1500, seed=2))
    flat = posterior.flat()
    p = reference.Problem(embedding.mean, embedding.sizes, y, None, None, None)
    each = [
        blr_closed_form(p, sigma, 1.2, model.intercept_prior)
        for sigma in np.quantile(flat["sigma"], np.linspace(0.005, 0.995, 100))
    ]
    mean = np.mean([m for m, _ in each], axis=0)
    covariance = np.mean([C for _, C in each], axis=0) + np.cov([m for m, _ in each], rowvar=False)
    draws = np.concatenate([posterior.draws["beta"], posterior.draws["intercept"][..., None]], -1)
    names = ["beta[0]", "beta[1]", "beta[2]", "intercept"]
    reference.assert_moments(draws, mean, np.diag(covariance), names)


def test_options_reach_cmdstan(model):
    posterior = sample_posterior(
        model, SamplerSettings(**SHORT, options={"max_treedepth": 1, "thin": 3})
    )
    assert posterior.draws["rho"].shape == (2, 100)
    assert posterior.stats["tree_depth"].max() == 1


@pytest.mark.parametrize(
    "engine, sampler", [("cmdstan", "cmdstanpy.CmdStanModel"), ("stanli", "stanli.Model")]
)
@pytest.mark.parametrize("cores, threads, at_once", [(4, 1, 3), (5, 2, 2), (1, 2, 1), (None, 1, 1)])
def test_as_many_chains_run_at_once_as_cores_have_threads_for(
    model, cores, threads, at_once, engine, sampler, monkeypatch
):
    def sample(self, **given):
        raise RuntimeError(f"{given['parallel_chains']} at once")

    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr(f"{sampler}.sample", sample)
    options = {"threads_per_chain": threads} if threads > 1 else {}
    settings = SamplerSettings(**SHORT | {"chains": 3}, options=options, engine=engine)
    with pytest.raises(RuntimeError, match=f": {at_once} at once"):
        sample_posterior(model, settings)


# ---------------------------------------------------------------- what is refused


def arguments(model):
    scales, mode, _ = most_probable_scales(model)
    data = model.data | model.whitening(scales, mode)
    return data, [{"t": np.zeros(4), **scales}]


@pytest.mark.parametrize("method", METHODS)
def test_stan_says_why_it_fails(model, method):
    data, inits = arguments(model)
    settings = SamplerSettings(method, chains=2, warmup=10, draws=10, seed=1, progress=False)
    message = (
        f"^Stan's {method} of blr failed: Exception: .*sigma_scale is -1, but must be greater than "
        r"or equal to 0.0* \(in 'blr.stan', line \d+, column 2 to column 28\)$"
    )
    with pytest.raises(RuntimeError, match=message):  # once, whatever the chains
        run("blr", StanInput(data | {"sigma_scale": -1.0}, 2 * inits), settings)


def test_all_chains_in_one():
    values = np.arange(12.0).reshape(2, 3, 2)
    flat = Posterior({"w": values, "rho": values[..., 0]}, {}, {}).flat()
    np.testing.assert_array_equal(flat["w"], values.reshape(6, 2))
    np.testing.assert_array_equal(flat["rho"], [0, 2, 4, 6, 8, 10])
