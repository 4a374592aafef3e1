"""The p-values of new bags that estimators give."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bdr_stan
from bdr_stan import BDR, BLR, Bags, BLRClassifier, InverseBDR, Shrinkage

rng = np.random.default_rng(0)
LABELS = rng.normal(size=90)
SIZES = [2, 30, 400] * 30
BAGS = [rng.normal(mean, size=(n, 2)) for mean, n in zip(LABELS, SIZES, strict=True)]
NEW = Bags.from_list(
    [rng.normal(mean, size=(n, 2)) for n in (1, 400) for mean in (0.3, 9.0)],
    ids=["few", "few, elsewhere", "many", "many, elsewhere"],
)
QUICK = {"n_landmarks": 12, "kernel": "rbf", "method": "optimize"}
MODELS = [
    BDR(**QUICK),
    Shrinkage(**QUICK, family="student_t"),
    BLR(**QUICK),
    BLRClassifier(**QUICK),
    InverseBDR(**QUICK),
]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: type(model).__name__)
def fitted(request):
    y = LABELS > 0 if "Classifier" in type(request.param).__name__ else LABELS
    return request.param.fit(BAGS, y, seed=1)


@pytest.mark.filterwarnings("ignore:.*unlike all training bags")
def test_large_bags_from_elsewhere_are_unfamiliar(fitted):
    found = fitted.familiarity(NEW)
    assert list(found.index) == list(NEW.ids) and list(found) == ["familiarity", "distance"]
    p = found["familiarity"]
    assert p["many, elsewhere"] <= 0.002 and p["many"] > 0.05
    assert p["few, elsewhere"] > p["many, elsewhere"] or p["few, elsewhere"] <= 0.002
    assert_array_equal(fitted.predict_table(NEW)["familiarity"], p)


def test_saved_and_pickled(fitted, tmp_path):
    fitted.save(tmp_path / "fit.nc")
    for again in (bdr_stan.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(fitted))):
        pd.testing.assert_frame_equal(again.familiarity(NEW), fitted.familiarity(NEW))


def test_a_bag_by_itself_has_the_same_p_value(fitted):
    alone = pd.concat([fitted.familiarity(NEW[[i]]) for i in range(len(NEW))])
    assert_allclose(alone, fitted.familiarity(NEW), rtol=1e-8)


def test_inverse_models_warn_of_bags_that_mislead_them():
    model = InverseBDR(**QUICK).fit(BAGS, LABELS, seed=1)
    with pytest.warns(UserWarning, match="1 of 1 bags are unlike all training bags"):
        model.predict(NEW[[3]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(NEW[[0, 2]])
