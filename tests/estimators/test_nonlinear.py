"""NonlinearBDR: what the curve brings, and what it needs."""

import warnings

import numpy as np
import pytest

from bdr_stan import BDR, Bags, NonlinearBDR
from bdr_stan.metrics import mse


def bent_problem(seed, n=120, sizes=(3, 30)):
    """Bags around centres, labels a parabola of these."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-1, 1, n)
    sizes = rng.choice(sizes, n)
    points = rng.normal(np.repeat(centre, sizes), 0.6)[:, None]
    return Bags.from_points(points, sizes=sizes), 2 * (centre + 0.4) ** 2 + rng.normal(0, 0.1, n)


def quiet(model, bags, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few draws
        return model.fit(bags, y, seed=1, **options)


@pytest.fixture(scope="module")
def fits():
    """A linear and a bent model on one feature, which grows with a bag's centre."""
    settings = {"landmarks": np.array([[2.5]]), "bandwidth": 2.0, "method": "laplace"}
    return [quiet(kind(**settings), *bent_problem(1), draws=200) for kind in (BDR, NonlinearBDR)]


def test_a_bent_function_is_found(fits):
    bags, y = bent_problem(2, n=400)
    linear, bent = (model.predictive(bags) for model in fits)
    assert mse(y, bent.mean) < 0.7 * mse(y, linear.mean)
    assert -bent.log_prob(y).mean() < -linear.log_prob(y).mean() - 0.3
    lower, upper = bent.interval(0.9)
    for size in (3, 30):
        of = bags.sizes == size
        assert 0.82 < np.mean((lower <= y)[of] & (y <= upper)[of]) < 0.97


def test_predictions_of_small_bags_are_skewed(fits):
    """At the parabola's lowest point a label can only be higher."""
    rng = np.random.default_rng(3)
    at_lowest = Bags.from_points(rng.normal(-0.4, 0.6, (3 * 50, 1)), sizes=np.full(50, 3))
    low, middle, high = fits[1].predictive(at_lowest).quantile([0.1, 0.5, 0.9])
    assert np.mean((high - middle) / (middle - low)) > 1.5
    low, middle, high = fits[0].predictive(at_lowest).quantile([0.1, 0.5, 0.9])
    np.testing.assert_allclose((high - middle) / (middle - low), 1, atol=0.1)


def test_what_is_held_is_told_and_kept(fits, tmp_path):
    model = fits[1]
    assert model.kappa_ > 0 and 0.1 < model.ell_ < 10
    model.save(tmp_path / "fit.nc")
    again = NonlinearBDR.load(tmp_path / "fit.nc")
    assert (again.kappa_, again.ell_) == (model.kappa_, model.ell_)
    assert "kappa" in model.priors().index and "eta" not in model.priors().index


def test_the_prior_of_the_length_is_the_users():
    bags, y = bent_problem(1)
    narrow = {"ell_median": 0.8, "ell_log_sd": 0.01}
    model = NonlinearBDR(4, method="optimize", prior=narrow).fit(bags, y, seed=1)
    assert model.ell_ == pytest.approx(0.8, rel=0.02)


def test_no_more_coordinates_are_curved_than_there_are():
    bags, y = bent_problem(1, n=40)
    model = NonlinearBDR(2, n_curved=3, n_functions=5, method="optimize").fit(bags, y, seed=1)
    assert model.coordinates_.frequencies.shape == (5, 2)
    assert np.isfinite(model.predict(bags)).all()
