"""Conformal regions from fits: tables, coverage, which fits have them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from bdr_stan import (
    BDR,
    BLR,
    MERR,
    Bags,
    BDRClassifier,
    BLRClassifier,
    InverseBDR,
    InverseBDRClassifier,
    RBFNetwork,
    Samples,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
)
from bdr_stan.predictive import ConformalClasses, ConformalIntervals

SIZES = [1, 2, 4, 8, 16, 100]


def location_bags(seed, n, prefix="t"):
    """Bags of normal points, and their centres."""
    rng = np.random.default_rng(seed)
    centre, sizes = rng.normal(size=n), rng.choice(SIZES, size=n)
    points = [rng.normal(mean, 1, size=(size, 2)) for mean, size in zip(centre, sizes, strict=True)]
    return Bags.from_list(points, ids=[f"{prefix}{i}" for i in range(n)]), centre


def labels_of(family, centre, seed):
    rng = np.random.default_rng(seed)
    if family == "class":
        return np.where(centre + 0.3 * rng.normal(size=len(centre)) > 0, "well", "sick")
    if family == "ordinal":
        return np.digitize(centre + 0.3 * rng.normal(size=len(centre)), [-1, 0, 1]).astype(float)
    if family == "poisson":
        return rng.poisson(np.exp(centre + 2)).astype(float)
    if family in ("gamma", "lognormal"):
        return np.exp(10 + centre + 0.3 * rng.normal(size=len(centre)))
    return centre + 0.3 * rng.normal(size=len(centre))


MODELS = {
    "BLR": (BLR(8, method="exact"), "normal"),
    "BDR": (BDR(8, method="laplace"), "normal"),
    "Shrinkage": (Shrinkage(8, method="laplace"), "normal"),
    "InverseBDR": (InverseBDR(8, method="laplace"), "normal"),
    "lognormal": (BDR(8, method="laplace", family="lognormal"), "lognormal"),
    "poisson": (BDR(8, kernel="rbf", method="laplace", family="poisson"), "poisson"),
    "gamma": (BLR(8, kernel="rbf", method="laplace", family="gamma"), "gamma"),
    "ordinal": (BLR(8, kernel="rbf", method="laplace", family="ordinal"), "ordinal"),
    "BDRClassifier": (BDRClassifier(8, method="laplace"), "class"),
    "BLRClassifier": (BLRClassifier(8, method="laplace"), "class"),
    "ShrinkageClassifier": (ShrinkageClassifier(8, method="laplace"), "class"),
    "InverseBDRClassifier": (InverseBDRClassifier(8, method="laplace"), "class"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_estimator_with_draws(name):
    model, family = MODELS[name]
    bags, centre = location_bags(1, 150)
    new, new_centre = location_bags(2, 100, "n")
    model = model.fit(bags, labels_of(family, centre, 3), seed=1, draws=200)
    regions = model.conformal(new, 0.8)
    y = pd.Series(labels_of(family, new_centre, 4), index=new.ids)
    within = regions.contains(y.sample(frac=1, random_state=0))  # matched by ids
    assert within.mean() > 0.8 - 3 * np.sqrt(0.8 * 0.2 / 100)
    table = regions.to_dataframe()
    assert table.index.tolist() == list(new.ids)
    assert set(table["size_class"]) == {1, 2, 3, 4}
    is_classes = family in ("class", "ordinal")
    assert isinstance(regions, ConformalClasses if is_classes else ConformalIntervals)
    if is_classes:
        assert set(np.concatenate(regions.labels)) <= set(model.classes_)
    else:
        assert (table["lower"] < table["upper"]).all()
        own = np.subtract(*model.predictive(new).interval(0.8)[::-1])
        assert 0.7 < np.mean(table["upper"] - table["lower"]) / own.mean() < 1.4
    assert np.isnan(table["pareto_k"]).all() == (not model.has_likelihood)


@pytest.fixture(scope="module")
def fitted():
    bags, centre = location_bags(1, 150)
    return BLR(8, method="exact").fit(bags, centre, seed=1), *location_bags(2, 40, "n")


def test_regions_of_a_bag_do_not_depend_on_the_others(fitted):
    model, new, _ = fitted
    together = model.conformal(new, 0.9).to_dataframe()
    alone = pd.concat([model.conformal(new[i : i + 1], 0.9).to_dataframe() for i in range(5)])
    columns = ["lower", "upper", "pareto_k"]
    assert_allclose(alone[columns], together[columns].head(5), rtol=1e-6, atol=1e-6)
    assert alone["sizes"].tolist() == together["sizes"].head(5).tolist()


def test_saved_fits_have_the_same_regions(fitted, tmp_path):
    model, new, _ = fitted
    model.save(tmp_path / "fit.nc")
    again = BLR.load(tmp_path / "fit.nc").conformal(new, 0.9)
    assert_allclose(again.lower, model.conformal(new, 0.9).lower)


def test_classes_of_sizes(fitted):
    model, new, _ = fitted
    one = model.conformal(new, 0.9, by_size=False)
    assert set(one.size_class) == {1}
    assert set(one.n_like) == {150}
    two = model.conformal(new, 0.9, by_size=2).to_dataframe()
    assert set(two["size_class"]) == {1, 2}
    small = two["size_class"] == 1
    assert new.sizes[small].max() < new.sizes[~small].min()
    width = two["upper"] - two["lower"]
    # BLR takes small bags as exact, which regions correct.
    assert width[small].mean() > 1.5 * width[~small].mean()
    assert repr(model.conformal(new, 0.9, by_size=2)).startswith(
        "ConformalIntervals(40 bags, level 0.9, 2 size classes;"
    )


def test_wider_regions_at_higher_levels(fitted):
    model, new, _ = fitted
    low, high = (model.conformal(new, level, by_size=False) for level in (0.5, 0.9))
    assert np.all(high.lower < low.lower)
    assert np.all(low.upper < high.upper)


def test_warns_where_weights_are_unreliable():
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(3, 2)) for _ in range(30)]
    model = BLR(25, method="exact", kernel="linear + rbf").fit(
        bags, np.array([bag.mean() for bag in bags]), seed=1
    )
    with pytest.warns(UserWarning, match="regions of 1 of 1 bags .* ask fit for more draws"):
        model.conformal([np.full((3, 2), 30.0)], 0.9)


def test_several_samples():
    bags, centre = location_bags(1, 60)
    pair = Samples({"a": bags, "b": bags.take(np.arange(60))})
    model = BDR(6, method="laplace").fit(pair, centre, seed=1, draws=200)
    regions = model.conformal(pair, 0.8, by_size=2)
    assert len(regions) == 60
    assert regions.sizes_like.min() == 2  # points of both samples


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (Shrinkage(5), ValueError, "has one draw, .* method='nuts' or 'laplace'"),
        (MERR(), AttributeError, "'MERR' object has no attribute 'conformal'$"),
        (RBFNetwork(5), AttributeError, "'RBFNetwork' object has no attribute 'conformal'$"),
        (
            Stacked([BLR(5, method="exact"), BLR(4, method="exact")]),
            AttributeError,
            "'Stacked' object has no attribute 'conformal'$",
        ),
    ],
)
def test_fits_without_regions(model, error, message):
    bags, centre = location_bags(1, 30)
    model.fit(bags, centre)
    with pytest.raises(error, match=message):
        model.conformal(bags, 0.8)


def test_labels_with_known_errors():
    bags, centre = location_bags(1, 30)
    model = BLR(5, method="exact").fit(bags, centre, label_sd=np.full(30, 0.1), seed=1)
    with pytest.raises(ValueError, match="fit without label_sd"):
        model.conformal(bags, 0.8)
