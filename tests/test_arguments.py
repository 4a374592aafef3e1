"""arguments: what is said of an argument by another name."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import bdr_stan
from bdr_stan import BDR, BLR, Bags, InverseBDR, NonlinearBDR, RBFNetwork
from bdr_stan.bags import base as bags_base
from bdr_stan.estimators import base as estimators_base
from bdr_stan.predictive import distributions

BAGS = [np.zeros((2, 1)), np.ones((3, 1))]
TABLE = pd.DataFrame({"county": ["a", "a", "b"], "age": [30.0, 40.0, 50.0]})


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: BDR(draws=10), "give it to fit: BDR(...).fit(bags, y, draws=...)"),
        (lambda: BDR(n_samples=10), "give it to fit: BDR(...).fit(bags, y, draws=...)"),
        (lambda: BDR(seed=1), "it is called 'random_state' here"),
        (lambda: BDR(n_landmark=10), "did you mean 'n_landmarks'?"),
        (lambda: BDR(lengthscale=1.0), "it is called 'bandwidth' here"),
        (lambda: BDR(nonsense=1), "its arguments are n_landmarks, kernel, "),
        (lambda: NonlinearBDR(label_noise="size"), "BLR, Shrinkage, BDR, InverseBDR take it"),
        (lambda: InverseBDR(covariates=["x"]), "BLR, "),
        (
            lambda: RBFNetwork().fit(BAGS, [0, 1], label_sd=[1, 1]),
            "takes no argument 'label_sd': BLR, Shrinkage, BDR, InverseBDR, AggregateRegressor",
        ),
        (lambda: RBFNetwork().predict(BAGS, return_interval=True), "use predict_table(bags), or"),
        (lambda: BLR().predict(BAGS, return_std_=True), "did you mean 'return_std'?"),
        (lambda: BLR().fit(BAGS, [0, 1], random_state=1), "it is called 'seed' here"),
        (lambda: BLR().fit(BAGS, [0, 1], target_accept=0.9), "it is called 'adapt_delta' here"),
        (lambda: BLR().fit(BAGS, [0, 1], kernel="rbf"), "it is a parameter of BLR(kernel=...)"),
        (lambda: BLR().fit(BAGS, [0, 1], nonsense=1), "its options are adapt_delta, "),
        (lambda: Bags.from_dataframe(TABLE, group="county"), "it is called 'bag' here"),
        (lambda: Bags.from_dataframe(TABLE, "county", columns=["age"]), "called 'features' here"),
        (lambda: Bags.from_dataframe(TABLE), "give bag, the name of the column with the bag"),
        (lambda: Bags.from_anndata(None, use_rep="X_pca"), "it is called 'features' here"),
        (lambda: Bags.from_list(BAGS, names=["a", "b"]), "its arguments are arrays, ids, weights"),
        (lambda: Bags(BAGS), "for a list of arrays use Bags.from_list(arrays)"),
        (lambda: BLR().fit(TABLE.groupby("county"), [0, 1]), "use Bags.from_dataframe(X, "),
    ],
)
def test_an_argument_by_another_name(call, says):
    with pytest.raises(TypeError) as raised:
        call()
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_method_that_other_estimators_have():
    with pytest.raises(AttributeError, match="'sensitivity': BLR, Shrinkage, BDR, BLRClassifier,"):
        RBFNetwork().sensitivity(BAGS)


def test_signatures_stay_those_of_the_functions():
    assert list(BLR().get_params())[:2] == ["bandwidth", "bandwidth_scale"]
    assert "bags" in bdr_stan.RBFNetwork.fit.__doc__
    assert Bags.from_list.__doc__.startswith("Bags from a list of arrays.")


PREDICTIVE = bdr_stan.Predictive(lambda i: (np.zeros((1, len(i))), np.ones((1, len(i)))), 2, 1)


@pytest.mark.parametrize(
    "owner, name, answer",
    [
        (PREDICTIVE, "std", "'Predictive' object has no attribute 'std'; use sd"),
        (PREDICTIVE, "var", "; use sd ** 2"),
        (PREDICTIVE, "median", "; use quantile(0.5)"),
        (PREDICTIVE, "pdf", "; use log_prob(y)"),
        (PREDICTIVE, "rvs", "; use sample(size)"),
        (PREDICTIVE, "to_datframe", "; did you mean 'to_dataframe'?"),
        (Bags.from_list(BAGS), "n_bags", "'Bags' object has no attribute 'n_bags'; use len(bags)"),
        (Bags.from_list(BAGS), "labels", "; use metadata, which has columns of the bags"),
        (Bags.from_list(BAGS), "size", "; use len(bags)"),
        (Bags.from_list(BAGS), "feature_names", "; use features"),
        (
            Bags,
            "from_pandas",
            "type object 'Bags' has no attribute 'from_pandas'; use from_datafra",
        ),
        (Bags, "read_csv", "; use from_csv"),
        (Bags, "from_lists", "; did you mean 'from_list'?"),
        (
            BLR(),
            "predict_interval",
            "; use predict_table(bags), or predictive(bags).interval(0.95)",
        ),
        (BLR(), "posterior", "'BLR' object has no attribute 'posterior'; use idata"),
        (BLR(), "predict_tables", "; did you mean 'predict_table'?"),
    ],
)
def test_an_attribute_by_another_name(owner, name, answer):
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError) as raised:
        getattr(owner, name)
    assert answer in str(raised.value)


@pytest.mark.parametrize("owner", [PREDICTIVE, Bags.from_list(BAGS), Bags, RBFNetwork()])
@pytest.mark.parametrize("name", ["nonsense", "__array_interface__", "predict_interval"])
def test_other_unknown_attributes_have_no_answer(owner, name):
    """Nor have those whose place something takes that the owner lacks."""
    with pytest.raises(AttributeError) as raised:
        getattr(owner, name)
    assert str(raised.value).endswith(f"has no attribute {name!r}")


def test_what_takes_the_place_of_an_attribute_is_there():
    model, bags = BLR(), Bags.from_list(BAGS)
    places = [
        (PREDICTIVE, distributions.USED_HERE),
        (bags, bags_base.USED_HERE),
        (Bags, bags_base.READERS),
        (model, estimators_base.USED_HERE),
    ]
    for owner, names in places:
        for name, used in names.items():
            assert not hasattr(owner, name), name
            first = re.match(r"\w+", used)[0]
            assert first == "len" or hasattr(type(owner), first) or hasattr(owner, first), used


def test_a_property_that_fails_keeps_its_own_error():
    with pytest.raises(NotFittedError, match="not fitted"):
        BLR().idata  # noqa: B018


def test_completions_are_those_of_users():
    model = BLR()
    assert {"fit", "predict", "predict_table", "report_html", "kernel"} <= set(dir(model))
    assert not {"takes_parts", "closed_form", "check_labels", "fit_features"} & set(dir(model))
    bags = Bags.from_list(BAGS)
    assert {"sizes", "ids", "metadata", "to_dataframe", "describe"} <= set(dir(bags))
    assert not {"read_checked", "map_parts", "sources"} & set(dir(bags))


@pytest.mark.parametrize("read", [Bags.from_csv, Bags.from_parquet])
def test_readers_with_options_of_pandas_answer_what_they_lack(read):
    with pytest.raises(TypeError, match="takes no argument 'group': it is called 'bag' here$"):
        read("people", group="county")
    with pytest.raises(FileNotFoundError, match="people"):  # an option, perhaps of pandas
        read("people", bag="county", groups=1)
