"""Likelihoods: densities by SciPy, derivatives by differences, what Stan is told."""

import numpy as np
import pytest
from builders import reference, totals
from scipy.integrate import quad
from scipy.special import expit, gammaln

from bdr_stan.aggregate.likelihoods import LIKELIHOODS, likelihood_named
from bdr_stan.aggregate.likelihoods.counts import log_rising
from bdr_stan.aggregate.likelihoods.numbers import log_normaliser
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.labels import Labels

EVERY = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
WITH_EFFECTS = pytest.mark.parametrize("name", ["poisson", "exponential", "binomial"])


def problem(likelihood, n=6):
    """Labels, their means, what their density needs beside these, and SciPy's distribution."""
    p, true = totals.random_rates(
        np.random.default_rng(3), likelihood.name, likelihood.links[-1], n
    )
    scales = dict.fromkeys(likelihood.scales, 0.7)
    mean = totals.rate_means(p, true["w"], true["intercept"], np.zeros(n))
    law = totals.law_of_labels(p, true["w"], true["intercept"], **scales)
    noise = totals.point_rows(p).noise_factor
    return p, mean, {"trials": p.trials, "noise_factor": noise, **scales}, law


@EVERY
def test_density_of_labels_and_its_derivatives_in_the_mean(likelihood):
    p, mean, given, law = problem(likelihood)
    density = likelihood.label_density(p.y, **given)
    found = density(mean)
    log_density = law.logpmf if likelihood.is_count else law.logpdf
    assert found.value == pytest.approx(np.sum(log_density(p.y)))
    derivatives = {
        "value": found.score,
        "score": -found.curvature,
        "information": found.information_slope,
    }
    for name, expected in derivatives.items():
        by_step = reference.gradient(lambda x, n=name: np.sum(getattr(density(x), n)), mean, 1e-5)
        np.testing.assert_allclose(by_step, expected, rtol=1e-6, atol=1e-6, err_msg=name)


@EVERY
def test_distribution_is_scipys(likelihood):
    p, mean, given, law = problem(likelihood)
    if "sigma" in given:
        given["sigma"] *= given["noise_factor"]
    found = likelihood.distribution(mean, **given)
    np.testing.assert_allclose(found.cdf(p.y), law.cdf(p.y))
    assert likelihood.is_count == hasattr(found.dist, "logpmf")
    labels = found.rvs(size=(40_000, 6), random_state=1)
    expected = mean if p.trials is None else mean * p.trials
    np.testing.assert_allclose(labels.mean(axis=0), expected, rtol=0.05, atol=0.02)


@EVERY
def test_distribution_leaves_what_is_not_its_own(likelihood):
    """Callers pass the same arguments to all, None where there is nothing."""
    _, mean, given, _ = problem(likelihood)
    given = {name: given.get(name) for name in ("dispersion", "trials")}
    assert np.all(likelihood.distribution(mean, **given).var() > 0)


@pytest.mark.parametrize(
    "likelihood", [each for each in LIKELIHOODS.values() if each.is_positive], ids=repr
)
def test_cumulative_probability_and_density_of_positive_numbers(likelihood):
    mean, x = np.array([0.5, 2.0, 40.0]), np.array([0.7, 1.0, 100.0])
    scales = dict.fromkeys(likelihood.scales, 0.7)
    below, density = likelihood.cdf_and_density(x, mean, **scales)
    law = likelihood.distribution(mean, **scales)
    np.testing.assert_allclose(below, law.cdf(x), rtol=1e-14)
    np.testing.assert_allclose(density, law.pdf(x), rtol=1e-14)


def test_dispersion_near_none_is_poisson():
    p, mean, _, _ = problem(LIKELIHOODS["negative binomial"])
    counted = LIKELIHOODS["poisson"].label_density(p.y)(mean)
    spread = LIKELIHOODS["negative binomial"].label_density(p.y, dispersion=1e-4)(mean)
    for one, other in zip(counted, spread, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)


def test_gamma_effects_of_poisson_labels_make_negative_binomial_ones():
    """Summed over an effect of mean 1 and sd 0.6, by quadrature."""
    from scipy import stats

    assert LIKELIHOODS["poisson"].gamma_effects == "negative binomial"
    effect, mean = stats.gamma(0.6**-2, scale=0.6**2), 3.7
    for y in (0, 2, 9):
        summed = quad(lambda g, y=y: stats.poisson.pmf(y, mean * g) * effect.pdf(g), 0, 20)[0]
        density = LIKELIHOODS["negative binomial"].label_density(np.array([y]), dispersion=0.6)
        assert np.exp(density(np.array([mean])).value) == pytest.approx(summed, rel=1e-6)


def with_effects(name, tau):
    """The likelihood, labels, means, and SciPy's law of labels whose effects are summed over."""
    from scipy import stats

    rng, shape = np.random.default_rng(5), tau**-2
    mean, trials = rng.uniform(0.1, 0.9, 8), None
    if name == "binomial":
        trials = rng.integers(1, 60, 8)
        y = 1.0 * rng.binomial(trials, mean)
        share = (y.sum() + 0.5) / (trials.sum() + 1)
        shape /= share * (1 - share)
        law = stats.betabinom(trials, shape * mean, shape * (1 - mean))
    elif name == "poisson":
        mean = 20 * mean
        y, law = 1.0 * rng.poisson(mean), stats.nbinom(shape, shape / (shape + mean))
    else:
        y, law = rng.exponential(mean), stats.lomax(shape, scale=shape * mean)
    return LIKELIHOODS[name], y, mean, trials, law


@WITH_EFFECTS
def test_density_of_labels_whose_effects_are_summed_over(name):
    likelihood, y, mean, trials, law = with_effects(name, 0.6)
    density = likelihood.label_density(y, trials=trials, tau=0.6)
    found = density(mean)
    log_density = law.logpmf if likelihood.is_count else law.logpdf
    assert found.value == pytest.approx(np.sum(log_density(y)))
    for slope_of, expected in {
        "value": found.score,
        "score": -found.curvature,
        "information": found.information_slope,
    }.items():
        by_step = reference.gradient(
            lambda x, of=slope_of: np.sum(getattr(density(x), of)), mean, 1e-5
        )
        np.testing.assert_allclose(by_step, expected, rtol=1e-6, atol=1e-6, err_msg=slope_of)


@WITH_EFFECTS
@pytest.mark.parametrize("tau", [1e-6, 1e-4])
def test_effects_near_none_change_nothing(name, tau):
    likelihood, y, mean, trials, _ = with_effects(name, 0.6)
    pair = (likelihood.label_density(y, trials=trials, tau=t)(mean) for t in (0.0, tau))
    for without, found in zip(*pair, strict=True):
        np.testing.assert_allclose(found, without, rtol=1e-4, atol=1e-4)


def test_effects_of_exponential_labels_are_inverse_gamma():
    """Summed over a gamma effect of mean 1 and sd 0.6 on the rate, by quadrature."""
    from scipy import stats

    effect, mean = stats.gamma(0.6**-2, scale=0.6**2), 3.7
    for y in (0.1, 2.0, 9.0):
        summed = quad(lambda g, y=y: stats.expon.pdf(y, scale=mean / g) * effect.pdf(g), 0, 20)[0]
        density = LIKELIHOODS["exponential"].label_density(np.array([y]), tau=0.6)
        assert np.exp(density(np.array([mean])).value) == pytest.approx(summed, rel=1e-6)


def test_dispersions_that_are_none():
    with pytest.raises(ValueError, match="dispersion must be > 0, found 0.0"):
        LIKELIHOODS["negative binomial"].label_density(np.ones(2))
    with pytest.raises(ValueError, match="dispersion must be > 0, found -1"):
        LIKELIHOODS["negative binomial"].constant(np.ones(2), dispersion=-1.0)


def test_gamma_of_dispersion_one_is_the_exponential():
    p, mean, _, _ = problem(LIKELIHOODS["exponential"])
    gamma, exponential = LIKELIHOODS["gamma"], LIKELIHOODS["exponential"]
    found, expected = gamma.label_density(p.y, dispersion=1.0), exponential.label_density(p.y)
    for one, other in zip(found(mean), expected(mean), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert gamma.constant(p.y, dispersion=1.0) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("dispersion", [1e-6, 1e-4])
def test_gamma_of_little_dispersion_is_nearly_normal(dispersion):
    mean = np.array([1e-4, 3.0, 1e9])
    y = mean * (1 + dispersion * np.array([-1.0, 0.5, 2.0]))
    expected = LIKELIHOODS["normal"].label_density(y, sigma=dispersion * mean)(mean)
    gamma = LIKELIHOODS["gamma"]
    found = gamma.label_density(y, dispersion=dispersion)(mean)
    assert found.value == pytest.approx(expected.value, abs=10 * dispersion)
    np.testing.assert_allclose(found.information, expected.information, rtol=1e-12)
    below = gamma.distribution(mean, dispersion=dispersion).cdf(y)
    normal = LIKELIHOODS["normal"].distribution(mean, sigma=dispersion * mean)
    np.testing.assert_allclose(below, normal.cdf(y), atol=1e-3)
    # The two ways to the same number meet.
    small, large = (gamma.label_density(y, dispersion=d)(y).value for d in (0.0100001, 0.0099999))
    assert small == pytest.approx(large, rel=1e-3)


def test_gammas_without_dispersion():
    with pytest.raises(ValueError, match="dispersion must be > 0, found 0.0"):
        LIKELIHOODS["gamma"].label_density(np.ones(2))


@EVERY
def test_links_scales_and_names(likelihood):
    for name in (likelihood.name, likelihood.name.replace(" ", "_")):
        assert likelihood_named(name) is likelihood
    assert likelihood.links and set(likelihood.links) <= set(LINKS)
    assert set(likelihood.expected_terms) <= set(likelihood.links)
    assert repr(likelihood) == f"{type(likelihood).__name__}()"


def test_unknown_names():
    with pytest.raises(ValueError, match="likelihood must be one of 'poisson', .*, found 'beta'"):
        likelihood_named("beta")


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name != "normal"])
def test_programs_are_told_what_they_declare(name):
    """All but blr.stan, which knows no other likelihood."""
    likelihood = LIKELIHOODS[name]
    p, _, _, _ = problem(likelihood)
    told = likelihood.program_data(Labels(p.y, trials=p.trials))
    names = {*told, "scale_prior"} if likelihood.scales else set(told)
    for link in likelihood.links:
        program = compile_program(LINKS[link].program, progress=False)
        assert names <= set(program.src_info()["inputs"])
    np.testing.assert_array_equal(told["y"], p.y)
    if likelihood.has_trials:
        assert told["y"].dtype.kind == told["trials"].dtype.kind == "i"
    else:
        assert told["likelihood"] == likelihood.program_number
        assert told["n_scales"] == len(likelihood.scales)


@EVERY
def test_scales_have_default_priors(likelihood):
    p, _, _, _ = problem(likelihood)
    priors = likelihood.default_priors(totals.point_rows(p), p.y)
    assert set(priors) == {f"{name}_scale" for name in likelihood.scales}
    assert all(value > 0 for value in priors.values())


@pytest.mark.parametrize("name", ["poisson", "exponential", "binomial"])
def test_labels_say_where_their_effects_are(name, rng):
    """The likelihood of an effect alone is highest at the target, and as curved as it is told."""
    likelihood, trials = LIKELIHOODS[name], np.array([900.0, 4000.0, 70_000.0])
    y = np.array([300.0, 900.0, 40_000.0])
    target, information = likelihood.label_on_log_scale(Labels(y, trials=trials))
    mean_of = expit if name == "binomial" else np.exp

    def log_density(effect):
        law = likelihood.distribution(mean_of(effect), trials=trials)
        return law.logpdf(y) if name == "exponential" else law.logpmf(y)

    step = information**-0.5
    at, above, below = (log_density(target + k * step) for k in (0, 1, -1))
    np.testing.assert_allclose((above + below) / 2 - at, -0.5, atol=0.06)
    np.testing.assert_allclose(above - below, 0, atol=0.4)


def test_labels_at_an_end_have_finite_log_odds():
    """None of the trials, and all of them, are opposites."""
    none, every = np.array([0.0, 0.0]), np.array([1.0, 70_000.0])
    below, above = (
        LIKELIHOODS["binomial"].label_on_log_scale(Labels(y, trials=every)) for y in (none, every)
    )
    np.testing.assert_allclose(below[0], np.log(0.5 / (every + 0.5)))
    np.testing.assert_allclose(above[0], -below[0])
    np.testing.assert_allclose(above[1], below[1])


def test_negative_binomial_without_dispersion_is_the_poisson():
    """Its logarithms of gamma functions have 17 digits before the point there."""
    wide, plain = LIKELIHOODS["negative binomial"], LIKELIHOODS["poisson"]
    y, mean = np.array([0.0, 1, 7, 400, 2e6]), np.array([0.3, 2.0, 5.0, 420.0, 2.001e6])
    for dispersion in (1e-8, 1e-12):
        found = wide.label_density(y, dispersion=dispersion)(mean)
        expected = plain.label_density(y)(mean)
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-9)
        np.testing.assert_allclose(found.score, expected.score, rtol=1e-6, atol=1e-9)
        assert wide.constant(y, dispersion=dispersion) == pytest.approx(plain.constant(y))
        law, poisson = wide.distribution(mean, dispersion=dispersion), plain.distribution(mean)
        np.testing.assert_allclose(law.logpmf(y), poisson.logpmf(y), rtol=1e-4)
        np.testing.assert_allclose(law.cdf(y), poisson.cdf(y), rtol=1e-4)
    # The two ways to the same number meet.
    small, large = (wide.label_density(y, dispersion=d)(mean).value for d in (0.0100001, 0.0099999))
    assert small == pytest.approx(large, rel=1e-3)


def test_labels_that_are_no_counts_are_told_which_likelihoods_take_them():
    with pytest.raises(ValueError, match="needs counts .* likelihood='normal' or 'exponential'"):
        likelihood_named("negative binomial").check_labels([np.zeros((2, 1))] * 2, [1.5, 2.0])


def test_noise_of_a_point_is_that_of_totals_over_their_factors(rng):
    """Totals at a common rate, but for noise of sd 3 per point of two, ten or 200."""
    sizes = np.array([2.0, 10.0, 200.0])
    noise = 3 * np.sqrt(sizes) * [1, -1, 1]
    noise -= sizes * noise.sum() / sizes.sum()  # no change of the common rate
    rows = AggregateRows(np.ones((3, 1)), np.ones(3, int), None, sizes, np.sqrt(sizes))
    found = LIKELIHOODS["normal"].default_priors(rows, 5 * sizes + noise)
    expected = np.sqrt(np.mean(noise**2 / sizes))
    assert found == {"sigma_scale": pytest.approx(expected)}


def test_the_normaliser_of_the_gamma_by_both_formulas():
    shape = np.array([9_999.0, 10_001.0, 50_000.0])
    expected = shape * np.log(shape) - shape - gammaln(shape)
    np.testing.assert_allclose(log_normaliser(shape), expected, atol=1e-9)


def test_the_rising_factorial_of_the_negative_binomial_by_both_formulas():
    """k (k + 1) .. (k + y - 1) / k^y."""
    for shape in (3.0, 9_999.0, 10_001.0, 1e9):
        expected = np.log1p(np.arange(300) / shape).sum()
        assert log_rising(300.0, shape) == pytest.approx(expected, rel=1e-9)
