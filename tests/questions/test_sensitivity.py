"""Bounds of labels under unknown selection, for each estimator that is linear in the embedding."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from builders.location_family import location_family

from bdr_stan import BDR, BLR, Bags, BDRClassifier, BLRClassifier, Samples, Shrinkage
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.questions import sensitivity

BAGS, Y = location_family(3, 40, largest=30)
RNG = np.random.default_rng(1)
WEIGHTED = Bags.from_list(
    BAGS,
    weights=[RNG.gamma(2.0, size=len(bag)) for bag in BAGS],
    ids=[f"c{i:02}" for i in range(40)],
    metadata=pd.DataFrame({"state": ["N", "S"] * 20, "people": RNG.integers(50, 900, 40)}),
)
COUNTS = RNG.poisson(WEIGHTED.metadata["people"] * np.exp(Y - 5))
QUICK = {"n_landmarks": 5, "kernel": "rbf"}
FITS = {
    "BLR, exact": lambda: BLR(5, method="exact").fit(WEIGHTED, Y, seed=1),
    "BDR": lambda: BDR(**QUICK, method="laplace").fit(WEIGHTED, Y, draws=200, seed=1),
    "BDR, groups": lambda: BDR(**QUICK, method="laplace", groups=["state"]).fit(
        WEIGHTED, Y, draws=200, seed=1
    ),
    "Shrinkage": lambda: Shrinkage(**QUICK).fit(WEIGHTED, Y, seed=1),
    "lognormal": lambda: BDR(**QUICK, method="laplace", family="lognormal").fit(
        WEIGHTED, np.exp(Y), draws=200, seed=1
    ),
    "poisson": lambda: Shrinkage(**QUICK, family="poisson").fit(
        WEIGHTED, COUNTS, exposure="people", seed=1
    ),
    "binomial": lambda: BLR(5, method="laplace", family="binomial").fit(
        WEIGHTED, np.minimum(COUNTS, 50), trials=np.full(40, 50), draws=200, seed=1
    ),
    "BDRClassifier": lambda: BDRClassifier(**QUICK, method="laplace").fit(
        WEIGHTED, Y > 3, draws=200, seed=1
    ),
    "BLRClassifier": lambda: BLRClassifier(5, method="laplace").fit(
        WEIGHTED, Y > 3, draws=200, seed=1
    ),
}


@pytest.fixture(scope="module", params=FITS)
def fitted(request):
    trials = {"trials": np.full(40, 50)} if request.param == "binomial" else {}
    return FITS[request.param](), trials


def expected_by_draw(model, embedding, labels):
    """Expected label of each bag under each draw, (S, n)."""
    found = model.predictive_of_draws(model.coordinates_, embedding, labels, model.draws())
    return found.expected(np.arange(len(found)))


def expected_bounds(bounds, i, factors):
    """Least and largest expected labels of bags i under each draw, each (K, S, len(i))."""
    pairs = bounds._predictives(i, np.array(factors))
    return np.array([[each.expected(np.arange(len(i))) for each in p] for p in pairs]).swapaxes(
        0, 1
    )


def test_bounds_cover_the_prediction_by_any_weights_within_the_factor(fitted):
    model, trials = fitted
    bounds = model.sensitivity(WEIGHTED, selection=[1, 1.5], **trials, n_draws=5000)
    labels = model.labels_of_new(WEIGHTED, **trials)
    embedding = model.embedding_of(WEIGHTED)
    low, high = expected_bounds(bounds, np.arange(40), [1.0, 1.5])
    plain = expected_by_draw(model, embedding, labels)
    np.testing.assert_allclose(low[0], plain, rtol=1e-12)
    np.testing.assert_allclose(high[0], plain, rtol=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(20):
        factor = 1.5 ** rng.choice([-1, 1], size=WEIGHTED.n_points)
        other = Bags(WEIGHTED.points, WEIGHTED.offsets, weights=WEIGHTED.weights * factor)
        # Sizes are as given: selection is a matter of what the points show, not of their number.
        moved = replace(embedding, mean=embed(other, model.feature_map_).mean)
        drawn = expected_by_draw(model, moved, labels)
        tolerance = 1e-10 * np.abs(plain).max()
        assert np.all((low[1] - tolerance <= drawn) & (drawn <= high[1] + tolerance))


def test_without_selection_it_is_the_prediction(fitted):
    model, trials = fitted
    bounds = model.sensitivity(WEIGHTED, selection=1, **trials, n_draws=5000)
    predictive = model.predictive(WEIGHTED, **trials)
    # The exact method's prediction needs no draws, of which there are 1000.
    rough = {"rtol": 0, "atol": 0.1 * predictive.mean.std()}
    near = rough if model.method == "exact" else {"rtol": 1e-9}
    np.testing.assert_allclose(bounds.lowest[0], predictive.mean, **near)
    np.testing.assert_array_equal(bounds.lowest, bounds.highest)
    lower, upper = predictive.interval(0.95)
    np.testing.assert_allclose(bounds.lower[0], lower, **near)
    np.testing.assert_allclose(bounds.upper[0], upper, **near)


def test_bounds_widen_with_the_factor(fitted):
    model, trials = fitted
    bounds = model.sensitivity(WEIGHTED, **trials, n_draws=100)
    assert bounds.selection.tolist() == [1, 1.25, 1.5, 2]
    assert np.all(np.diff(bounds.lowest, axis=0) <= 0)
    assert np.all(np.diff(bounds.highest, axis=0) >= 0)
    assert np.all(bounds.lower <= bounds.lowest)
    assert np.all(bounds.upper >= bounds.highest)
    several = WEIGHTED.sizes > 1  # a single point is what it is
    assert np.all(bounds.lowest[-1, several] < bounds.highest[-1, several])
    np.testing.assert_allclose(bounds.lowest[-1, ~several], bounds.highest[-1, ~several])


@pytest.fixture(scope="module")
def model():
    return FITS["BDR"]()


def test_blocks_of_points_do_not_matter(model, monkeypatch):
    whole = model.sensitivity(WEIGHTED)
    monkeypatch.setattr(sensitivity, "_NUMBERS_PER_BLOCK", 1)
    monkeypatch.setattr(sensitivity, "_NUMBERS_KEPT", 1000)  # bags of more than 5 points are reread
    in_blocks = model.sensitivity(WEIGHTED)
    np.testing.assert_allclose(in_blocks.lowest, whole.lowest, rtol=1e-10)
    np.testing.assert_allclose(in_blocks.upper, whole.upper, rtol=1e-10)


def test_the_factor_at_which_a_statement_fails(model):
    order = np.argsort(model.predictive(WEIGHTED).mean)
    order = order[WEIGHTED.sizes[order] > 10]
    low, high = (WEIGHTED.ids[order[k]] for k in (2, -3))
    bounds = model.sensitivity(WEIGHTED, level=0.9)
    fails = bounds.fails_at(high, low)
    assert 1.05 < fails < 20
    i = np.array([order[-3], order[2]])
    for factor, holds in ((fails / 1.03, True), (fails * 1.03, False)):
        ((lowest, highest),) = bounds._predictives(i, np.array([factor]))
        drawn = (  # by default a label per draw, so that both share the parameters
            lowest.sample(seed=seed)[:, 0] > highest.sample(seed=1000 + seed)[:, 1]
            for seed in range(200)
        )
        probability = np.mean(list(drawn))
        assert (probability > 0.89) if holds else (probability < 0.91)
    assert bounds.fails_at(low, high) == 1
    assert bounds.fails_at(high, value=-100) == np.inf
    assert bounds.fails_at(high, value=100) == 1
    assert 1 < bounds.fails_at(high, value=np.median(model.predict(WEIGHTED))) < np.inf


def test_statements_on_classes_are_on_probabilities():
    model = FITS["BDRClassifier"]()
    p = model.predict_proba(WEIGHTED)[:, 1]
    bounds = model.sensitivity(WEIGHTED, level=0.9)
    a, b = (WEIGHTED.ids[each] for each in (np.argmax(p), np.argmin(p)))
    assert bounds.fails_at(a, b) > 1.01
    assert bounds.fails_at(b, a) == bounds.fails_at(a, value=1.0) == 1
    assert np.all((bounds.lower >= 0) & (bounds.upper <= 1))


def test_an_offset_adds_to_the_bounds():
    model = FITS["poisson"]()
    plain = model.sensitivity(WEIGHTED)
    moved = model.sensitivity(WEIGHTED, offset=np.full(40, 0.5))
    np.testing.assert_allclose(moved.highest, np.exp(0.5) * plain.highest, rtol=1e-9)


def test_a_table_of_the_bounds(model):
    table = model.sensitivity(WEIGHTED, selection=[2, 1]).to_dataframe()
    assert table.index.names == ["bag", "selection"]
    assert table.columns.tolist() == ["lowest", "highest", "lower", "upper"]
    assert table.loc[("c03", 2.0), "lowest"] < table.loc[("c03", 1.0), "lowest"]
    assert len(table) == 80


def test_bags_of_several_samples_add_what_each_may_hide():
    people = Bags.from_list(BAGS, ids=np.arange(40))
    houses = Bags.from_list([bag[:, :1] + 1 for bag in BAGS[5:]], ids=np.arange(5, 40))
    model = Shrinkage(**QUICK).fit({"people": people, "houses": houses}, Y, seed=1)
    bounds = model.sensitivity({"people": people, "houses": houses}, selection=[1, 2])
    both = model.predictive(Samples({"people": people, "houses": houses})).mean
    np.testing.assert_allclose(bounds.lowest[0], both, rtol=1e-9)
    width = bounds.highest[1] - bounds.lowest[1]
    with pytest.warns(UserWarning, match="no bag has points of 'houses'"):
        one = model.sensitivity({"people": people}, selection=[2])
    of_people = one.highest[0] - one.lowest[0]
    np.testing.assert_allclose(width[:5], of_people[:5], rtol=1e-6)
    several = people.sizes[5:] > 1
    assert np.all(width[5:][several] > of_people[5:][several])


def test_subgroups_are_warned_of_as_by_predictions(model):
    to_one_side = Bags.from_points(
        WEIGHTED.points + 3.0, sizes=WEIGHTED.sizes, weights=WEIGHTED.weights
    )
    with pytest.warns(UserWarning, match="lie to one side of the training bags"):
        model.sensitivity(to_one_side, selection=1)


def test_neither_order_nor_scale_of_weights_nor_other_bags_matter(model):
    whole = model.sensitivity(WEIGHTED)
    some = np.array([30, 4, 17])
    turned = [WEIGHTED[i][::-1] for i in some]
    scaled = [7.0 * WEIGHTED.weights[slice(*WEIGHTED.offsets[i : i + 2])][::-1] for i in some]
    alone = model.sensitivity(Bags.from_list(turned, weights=scaled))
    for name in ("lowest", "highest", "lower", "upper"):
        np.testing.assert_allclose(getattr(alone, name), getattr(whole, name)[:, some], rtol=1e-6)
