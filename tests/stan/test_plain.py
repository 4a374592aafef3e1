"""Plain programs: short, taken by both engines, with the posterior of the accelerated ones."""

import re
import subprocess

import numpy as np
import pytest
from builders import plain, reference
from scipy.special import roots_hermitenorm

from bdr_stan import cmdstan
from bdr_stan.cmdstan.programs import compile_program, program_names, program_path
from bdr_stan.posterior.stanli import constrained, load

MOST_LINES, MOST_COLUMNS = 60, 80
N_DRAWS = 20_000
# The numbers of priors are data; prior_factor * w is linear in w, so that its Jacobian is constant.
NOT_SO = r"The parameter \w+ has no priors|may contain a non-linear transform of a parameter"


def plain_model(name, data):
    return load(program_path(name, fast=False), data)


def at(values):
    """Parameters as `unconstrain` takes them: numbers and lists."""
    return {name: v.tolist() if np.ndim(v) else float(v) for name, v in values.items()}


# ---------------------------------------------------------------- the programs


@pytest.mark.parametrize("name", program_names(fast=False))
def test_a_program_is_short(name):
    lines = program_path(name, fast=False).read_text().splitlines()
    assert lines[0].startswith(f"// {name}: ")
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= MOST_COLUMNS
    assert "#include" not in "\n".join(lines)


@pytest.mark.parametrize("name", program_names(fast=False))
def test_stanc_takes_it_and_warns_of_nothing_that_is_so(name):
    stanc = cmdstan.find() / "bin" / "stanc"
    command = [stanc, "--warn-pedantic", "--o=/dev/null", program_path(name, fast=False)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    warnings = re.split(r"^Warning", said.stderr, flags=re.MULTILINE)[1:]
    doubtful = [" ".join(each.split()) for each in warnings]
    assert [each for each in doubtful if not re.search(NOT_SO, each)] == []


@pytest.mark.parametrize("options", [True, False])
@pytest.mark.parametrize("name", plain.PROGRAMS)
def test_stanli_takes_it_with_and_without_covariates_and_new_bags(name, options, recwarn):
    data = plain.plain_data(plain.stock(name, options=options), new=[0, 3] if options else [])
    assert (data["Q"], data["N_new"]) == ((2, 2) if options else (0, 0))
    model = plain_model(name, data)
    value, slope = model.log_prob_grad(np.linspace(-0.5, 0.5, model.n_unconstrained))
    assert np.isfinite(value) and np.all(np.isfinite(slope))
    draws, _ = constrained(model, np.zeros((1, model.n_unconstrained)))
    assert ("y_new" in draws, "log_lik" in draws) == (options, options)
    assert not [w for w in recwarn if "stanli" in str(w.message)]


# ---------------------------------------------------------------- the accelerated programs


class Image:
    """Points of the plain program that are those of the accelerated one."""

    def __init__(self, stock, data):
        self.stock, self.model = stock, plain_model(stock.program, data)

    def __call__(self, q):
        parameters, _ = plain.parameters_of(self.stock, q)
        return self.model.unconstrain(at(parameters))

    def log_jacobian(self, q):
        return plain.parameters_of(self.stock, q)[1]

    def slope(self, q):
        """Slope at q of the plain program's log density, by the chain rule."""
        _, of_image = self.model.log_prob_grad(self(q))
        by_q = reference.gradient(lambda x: of_image @ self(x), q)
        return by_q + reference.gradient(self.log_jacobian, q)

    def value(self, q):
        return self.model.log_prob_grad(self(q))[0] + self.log_jacobian(q)


CASES = [
    *[(name, options, False) for name in plain.PROGRAMS for options in (False, True)],
    *[(name, True, True) for name in plain.OF_FAMILIES],
]


@pytest.mark.parametrize("name, options, exact", CASES)
def test_log_density_and_gradient_are_those_of_the_accelerated_program(name, options, exact):
    """Of exact embeddings the plain program has lambda = 0, and eta and u that say nothing.

    The image of a point is differentiated by central differences of fourth order, whose error is
    that of rounding over the step, 1e-16 / 2e-4 of its largest number.
    """
    stock = plain.stock(name, options=options, exact=exact)
    image = Image(stock, plain.plain_data(stock))
    accelerated = load(stock.model.program, stock.data)
    gaps, sizes = [], []
    for q in plain.points(stock, 5):
        value, slope = accelerated.log_prob_grad(q)
        gaps.append(value - image.value(q))
        sizes.append(abs(value))
        np.testing.assert_allclose(image.slope(q), slope, rtol=0, atol=1e-8 * np.abs(slope).max())
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=1e-10 * max(sizes))


@pytest.mark.parametrize("name", plain.PROGRAMS)
def test_points_are_those_of_the_accelerated_program(name):
    stock = plain.stock(name, options=True)
    accelerated = load(stock.model.program, stock.data)
    for q in plain.points(stock, 3):
        found, _ = plain.parameters_of(stock, q)
        drawn = {n: v[0, 0] for n, v in constrained(accelerated, q[None])[0].items()}
        level = stock.model.level if name in plain.WITH_LABEL_SD else 0.0
        for each in ("w", "gamma"):
            np.testing.assert_allclose(found[each], drawn[each], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found["intercept"], drawn["intercept"] + level, rtol=1e-9)


def test_exact_embeddings_have_no_deviations():
    stock = plain.stock("bdr_poisson", options=True, exact=True)
    image = Image(stock, plain.plain_data(stock))
    q = next(plain.points(stock, 1))
    _, slope = image.model.log_prob_grad(image(q))
    np.testing.assert_allclose(slope[-plain.N :], -plain.SILENT["u"], atol=1e-12)


# ---------------------------------------------------------------- the formulas


@pytest.mark.parametrize("name", plain.PROGRAMS)
def test_log_density_is_that_of_the_formulas(name):
    stock = plain.stock(name, options=True)
    data = plain.plain_data(stock)
    model, gaps, sizes = plain_model(name, data), [], []
    for q in plain.points(stock, 5):
        parameters, _ = plain.parameters_of(stock, q)
        value, _ = model.log_prob_grad(model.unconstrain(at(parameters)))
        gaps.append(value - plain.log_density(name, data, parameters))
        sizes.append(abs(value))
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=1e-10 * max(sizes))


# ---------------------------------------------------------------- predictions


def draws_at(name, data, parameters, number, seed=1):
    """y_new and log_lik, both (20, number / 20, N_new), drawn again and again at one point."""
    model = plain_model(name, data)
    return plain.generated_at(model, at(parameters), number, ("y_new", "log_lik"), seed)


def drawn_point(stock):
    """Parameters in the middle of the posterior, with labels whose variance has a variance."""
    parameters, _ = plain.parameters_of(stock, 0.3 * next(plain.points(stock, 1)))
    return parameters | {n: 12.0 for n in ("df_above_2",) if n in parameters}


NEW = [0, 3, 5]
NODES, WEIGHTS = roots_hermitenorm(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@pytest.mark.parametrize("name", plain.PROGRAMS)
def test_new_labels_have_the_moments_of_the_distribution(name):
    stock = plain.stock(name, options=True)
    data, parameters = plain.plain_data(stock, NEW), drawn_point(stock)
    y_new, _ = draws_at(name, data, parameters, N_DRAWS)
    h, nu = plain.moments_of_predictor(name, data, parameters, new=True)
    means, variances = [], []
    for i in range(len(NEW)):
        if name not in plain.OF_FAMILIES:
            mean, variance = plain.mean_and_variance(name, data, parameters, i, h[i], nu[i])
        else:
            each = h[i] + np.sqrt(nu[i]) * NODES
            given, within = plain.mean_and_variance(name, data, parameters, i, each, 0.0)
            mean = WEIGHTS @ given
            variance = WEIGHTS @ (within + (given - mean) ** 2)
        means.append(mean)
        variances.append(variance)
    reference.assert_moments(y_new, means, variances, [f"y_new[{i}]" for i in range(len(NEW))])


@pytest.mark.parametrize("name", plain.PROGRAMS)
def test_log_lik_is_the_log_density_of_new_labels(name):
    """Of families at embeddings that are exact, where there is no deviation to draw."""
    stock = plain.stock(name, options=True, exact=name in plain.OF_FAMILIES)
    data = plain.plain_data(stock, NEW)
    for q in plain.points(stock, 2):
        parameters, _ = plain.parameters_of(stock, q)
        _, log_lik = draws_at(name, data, parameters, 20)
        h, nu = plain.moments_of_predictor(name, data, parameters, new=True)
        for i in range(len(NEW)):
            y = data["y_at"][i]
            expected = plain.log_density_of_label(
                name, data, parameters, i, y, h[i], nu[i], new=True
            )
            np.testing.assert_allclose(log_lik[..., i], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", plain.OF_FAMILIES)
def test_log_lik_of_families_has_deviations_integrated_out(name):
    stock = plain.stock(name, options=True)
    data, parameters = plain.plain_data(stock, NEW), drawn_point(stock)
    _, log_lik = draws_at(name, data, parameters, 20)
    h, nu = plain.moments_of_predictor(name, data, parameters, new=True)
    for i in range(len(NEW)):
        each = [
            plain.log_density_of_label(name, data, parameters, i, data["y_at"][i], at, 0.0, True)
            for at in h[i] + np.sqrt(nu[i]) * NODES
        ]
        expected = np.log(WEIGHTS @ np.exp(each))
        np.testing.assert_allclose(log_lik[..., i], expected, rtol=1e-8)


@pytest.mark.slow
def test_cmdstan_takes_bags_without_covariates_and_new_bags():
    """One program for all: stanc takes each of them, and stanli runs it."""
    name = "bdr_ordinal"
    stock = plain.stock(name)
    model = compile_program(program_path(name, fast=False), progress=False)
    for new in ([], NEW):
        data = plain.plain_data(stock, new)
        draws = reference.sample(model, data, None, chains=1, warmup=300, draws=100, divergent=1)
        assert draws["w"].shape == (1, 100, data["D"])
        assert "gamma" not in draws
        for each in ("y_new", "log_lik"):
            assert np.shape(draws.get(each)) == ((1, 100, len(new)) if new else ())
