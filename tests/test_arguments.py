"""arguments: what is said of unknown arguments and attributes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import bdr_stan
from bdr_stan import BDR, BLR, Bags, InverseBDR, RBFNetwork, Stacked, tune
from bdr_stan.cmdstan.programs import eject

BAGS = [np.zeros((2, 1)), np.ones((3, 1))]
TABLE = pd.DataFrame({"county": ["a", "a", "b"], "age": [30.0, 40.0, 50.0]})


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: BDR(draws=10), "give draws to fit"),
        (lambda: BDR(n_samples=10), "give draws to fit"),
        (lambda: BDR(seed=1), "did you mean 'random_state'?"),
        (lambda: BDR(n_landmark=10), "did you mean 'n_landmarks'?"),
        (lambda: BDR(length_scale=1.0), "did you mean 'bandwidth'?"),
        (lambda: BDR(nonsense=1), "BDR() takes no argument 'nonsense': its arguments are n_landm"),
        (lambda: Stacked(random_state=1), "its arguments are models"),
        (lambda: RBFNetwork().fit(BAGS, [0, 1], label_sd=[1, 1]), "its arguments are bags, y, "),
        (
            lambda: BLR().predict(BAGS, return_std_=True),
            "BLR.predict() takes no argument 'return_std_': did you mean 'return_std'?",
        ),
        (lambda: BLR().fit(BAGS, [0, 1], random_state=1), "did you mean 'seed'?"),
        (lambda: BLR().fit(BAGS, [0, 1], target_accept=0.9), "did you mean 'adapt_delta'?"),
        (lambda: BLR().fit(BAGS, [0, 1], iter=9), "did you mean 'draws'?"),
        (lambda: BLR().fit(BAGS, [0, 1], cores=2), "did you mean 'parallel_chains'?"),
        (lambda: BLR().fit(BAGS, [0, 1], control={}), "did you mean 'adapt_delta'?"),
        (lambda: BLR().fit(BAGS, [0, 1], sample_weight=[1, 2]), "mean 'label_sd, the standard"),
        (lambda: Bags.from_rasters({}, None, weights=1), "did you mean 'weight'?"),
        (lambda: BLR().fit(BAGS, [0, 1], kernel="rbf"), "it is a parameter of BLR(kernel=...)"),
        (lambda: BLR().fit(BAGS, [0, 1], nonsense=1), "its options are chains, warmup, draws, "),
        (lambda: Bags.from_dataframe(TABLE, group="county"), "did you mean 'bag'?"),
        (
            lambda: Bags.from_dataframe(TABLE, "county", columns=["age"]),
            "Bags.from_dataframe() takes no argument 'columns': did you mean 'features'?",
        ),
        (lambda: Bags.from_dataframe(TABLE), "give bag, the name of the column with the bag"),
        (lambda: Bags.from_csv("people", group="county"), "required positional argument: 'bag'"),
        (lambda: Bags(BAGS), "for a list of arrays use Bags.from_list(arrays)"),
    ],
)
def test_an_unknown_argument(call, says):
    with pytest.raises(TypeError) as raised:
        call()
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_signatures_stay_those_of_the_functions():
    assert list(BLR().get_params())[:2] == ["bandwidth", "bandwidth_scale"]
    assert "bags" in bdr_stan.RBFNetwork.fit.__doc__
    assert Bags.from_list.__doc__.startswith("Bags from a list of arrays.")


PREDICTIVE = bdr_stan.Predictive(lambda i: (np.zeros((1, len(i))), np.ones((1, len(i)))), 2, 1)


@pytest.mark.parametrize(
    "owner, name, answer",
    [
        (PREDICTIVE, "std", "'Predictive' object has no attribute 'std'; did you mean 'sd'?"),
        (PREDICTIVE, "to_datframe", "; did you mean 'to_dataframe'?"),
        (BLR(), "predict_interval", "; did you mean 'predictive(bags).interval(0.95)'?"),
        (BLR(), "posterior_predict", "; did you mean 'predictive(bags)'?"),
        (BLR(), "posterior_epred", "; did you mean 'predictive(bags)'?"),
        (BLR(), "loo", "; did you mean 'idata, as arviz.loo(model.idata)'?"),
        (BLR(), "pp_check", "; did you mean 'report_html(path, bags)'?"),
        (BLR(), "ranef", "; did you mean 'predict_terms(bags, groups)'?"),
        (BLR(), "to_netcdf", "; did you mean 'save(path)'?"),
        (BLR(), "feature_importances_", "; did you mean 'influence_table(bags)'?"),
        (BLR(), "predict_tables", "; did you mean 'predict_table'?"),
        (Bags.from_list(BAGS), "query", "; did you mean 'where(condition)'?"),
        (Bags.from_list(BAGS), "groupby", "; did you mean 'to_dataframe()'?"),
        (Bags.from_list(BAGS), "plot", "; did you mean 'to_dataframe()'?"),
        (Bags.from_list(BAGS), "weight", "; did you mean 'weights'?"),
    ],
)
def test_an_unknown_attribute(owner, name, answer):
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError) as raised:
        getattr(owner, name)
    assert answer in str(raised.value)


@pytest.mark.parametrize("owner", [PREDICTIVE, Bags.from_list(BAGS), RBFNetwork()])
@pytest.mark.parametrize("name", ["nonsense", "__array_interface__", "posterior_predict"])
def test_other_unknown_attributes_have_no_answer(owner, name):
    """Nor have those whose place something takes that the owner lacks."""
    with pytest.raises(AttributeError) as raised:
        getattr(owner, name)
    assert str(raised.value).endswith(f"has no attribute {name!r}")


FAMILIES = [("gaussian", "normal"), ("cumulative", "ordinal"), ("negbinomial", "negative_binomial")]


@pytest.mark.parametrize("family, here", FAMILIES)
def test_families_by_other_names(family, here):
    with pytest.raises(ValueError, match=f"classes are for BDRClassifier.*mean {here!r}\\?$"):
        BDR(family=family).fit(BAGS, [0, 1])


@pytest.mark.parametrize(
    "call, flag",
    [
        (lambda: BLR().predict(BAGS, groups="none"), "groups"),
        (lambda: BLR().predict(BAGS, groups=["state"]), "groups"),
        (lambda: BLR().predict(BAGS, 1), "return_std"),
        (lambda: BLR().predictive(BAGS, groups=1), "groups"),
        (lambda: BLR().population(BAGS, total="no"), "total"),
        (lambda: BLR().priors(as_table="no"), "as_table"),
        (lambda: BLR().fit(BAGS, [0, 1], progress="no"), "progress"),
        (lambda: tune(BAGS, [0, 1], cv=2, progress=0), "progress"),
        (lambda: Bags.from_points([[1.0]], sizes=[1], copy="no"), "copy"),
        (lambda: Bags([[1.0]], [0, 1], copy=0), "copy"),
        (lambda: Bags.from_parquet("people.parquet", "bag", lazy="no"), "lazy"),
        (lambda: Bags.from_rasters({}, None, fractional="no"), "fractional"),
        (lambda: eject("blr", "blr.stan", force="no"), "force"),
    ],
)
def test_flags_are_true_or_false(call, flag):
    with pytest.raises(ValueError, match=f"^{flag} must be True or False, found"):
        call()


def test_a_property_that_fails_keeps_its_own_error():
    with pytest.raises(NotFittedError, match="not fitted"):
        BLR().idata  # noqa: B018


def test_completions_are_those_of_users():
    model = BLR()
    assert {"fit", "predict", "predict_table", "report_html", "kernel"} <= set(dir(model))
    assert "label_distribution" in dir(InverseBDR())  # a parameter
    bags = Bags.from_list(BAGS)
    assert {"sizes", "ids", "metadata", "to_dataframe", "where"} <= set(dir(bags))
    assert not {"read_checked", "map_parts", "sources"} & set(dir(bags))
