"""arguments: what is said of an argument by another name."""

import numpy as np
import pandas as pd
import pytest

import bdr_stan
from bdr_stan import BDR, BLR, Bags, InverseBDR, NonlinearBDR, RBFNetwork

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
        (lambda: RBFNetwork().fit(BAGS, [0, 1], label_sd=[1, 1]), "BLR, Shrinkage, BDR, "),
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


def test_signatures_stay_those_of_the_functions():
    assert list(BLR().get_params())[:2] == ["bandwidth", "bandwidth_scale"]
    assert "bags" in bdr_stan.RBFNetwork.fit.__doc__
    assert Bags.from_list.__doc__.startswith("Bags from a list of arrays.")


@pytest.mark.parametrize(
    "name, called",
    [("std", "sd"), ("median", "quantile(0.5)"), ("pdf", "log_prob(y)"), ("rvs", "sample(size)")],
)
def test_an_attribute_of_a_distribution_by_another_name(name, called):
    predictive = bdr_stan.Predictive(lambda i: (np.zeros((1, len(i))), np.ones((1, len(i)))), 2, 1)
    with pytest.raises(AttributeError) as raised:
        getattr(predictive, name)
    assert str(raised.value).endswith(f"{name!r}; it is called {called} here")
    assert not hasattr(predictive, "probabilities")


def test_completions_are_those_of_users():
    model = BLR()
    assert {"fit", "predict", "predict_table", "report_html", "kernel"} <= set(dir(model))
    assert not {"takes_parts", "closed_form", "check_labels"} & set(dir(model))
    bags = Bags.from_list(BAGS)
    assert {"sizes", "ids", "metadata", "to_dataframe", "describe"} <= set(dir(bags))
    assert not {"read_checked", "map_parts", "sources"} & set(dir(bags))


@pytest.mark.parametrize("read", [Bags.from_csv, Bags.from_parquet])
def test_readers_with_options_of_pandas_answer_what_they_lack(read):
    with pytest.raises(TypeError, match="takes no argument 'group': it is called 'bag' here$"):
        read("people", group="county")
    with pytest.raises(FileNotFoundError, match="people"):  # an option, perhaps of pandas
        read("people", bag="county", groups=1)
