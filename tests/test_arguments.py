"""arguments: what is said of an argument by another name."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import bdr_stan
from bdr_stan import BDR, BLR, Bags, BDRClassifier, InverseBDR, RBFNetwork, Stacked, plots, tune
from bdr_stan.cmdstan.programs import eject

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
        (lambda: BDRClassifier(label_noise="size"), "BLR, Shrinkage, BDR, InverseBDR take it"),
        (lambda: InverseBDR(covariates=["x"]), "BLR, "),
        (
            lambda: RBFNetwork().fit(BAGS, [0, 1], label_sd=[1, 1]),
            "takes no argument 'label_sd': BLR, Shrinkage, BDR, InverseBDR, AggregateRegressor",
        ),
        (lambda: RBFNetwork().predict(BAGS, return_interval=True), "use predict_table(bags), or"),
        (lambda: BLR().predict(BAGS, return_std_=True), "did you mean 'return_std'?"),
        (lambda: BLR().fit(BAGS, [0, 1], random_state=1), "it is called 'seed' here"),
        (lambda: BLR().fit(BAGS, [0, 1], target_accept=0.9), "it is called 'adapt_delta' here"),
        (lambda: BLR().fit(BAGS, [0, 1], iter=9), "it is called 'draws' here"),
        (lambda: BLR().fit(BAGS, [0, 1], cores=2), "it is called 'parallel_chains' here"),
        (lambda: BLR().fit(BAGS, [0, 1], control={}), "it is called 'adapt_delta' here"),
        (lambda: BLR().fit(BAGS, [0, 1], sample_weight=[1, 2]), "use label_sd, the standard"),
        (lambda: Stacked(random_state=1), "BLR, Shrinkage, BDR, BLRClassifier, ShrinkageC"),
        (lambda: Bags.from_rasters({}, None, weights=1), "it is called 'weight' here"),
        (lambda: BLR().fit(BAGS, [0, 1], kernel="rbf"), "it is a parameter of BLR(kernel=...)"),
        (lambda: BLR().fit(BAGS, [0, 1], nonsense=1), "its options are chains, warmup, draws, "),
        (lambda: Bags.from_dataframe(TABLE, group="county"), "it is called 'bag' here"),
        (lambda: Bags.from_dataframe(TABLE, "county", columns=["age"]), "called 'features' here"),
        (lambda: Bags.from_dataframe(TABLE), "give bag, the name of the column with the bag"),
        (lambda: Bags.from_anndata(None, use_rep="X_pca"), "it is called 'features' here"),
        (lambda: Bags.from_list(BAGS, names=["a", "b"]), "it is called 'ids' here"),
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
        (PREDICTIVE, "std", "'Predictive' object has no attribute 'std'; it is called 'sd' here"),
        (PREDICTIVE, "var", "; use sd ** 2"),
        (PREDICTIVE, "median", "; use quantile(q)"),
        (PREDICTIVE, "pdf", "; use log_prob(y)"),
        (PREDICTIVE, "rvs", "; use sample(size)"),
        (PREDICTIVE, "to_datframe", "; did you mean 'to_dataframe'?"),
        (Bags.from_list(BAGS), "n_bags", "no attribute 'n_bags'; use sizes and n_features"),
        (Bags.from_list(BAGS), "labels", "; it is called 'metadata' here"),
        (Bags.from_list(BAGS), "size", "; use sizes and n_features"),
        (Bags.from_list(BAGS), "feature_names", "; it is called 'features' here"),
        (
            Bags,
            "from_pandas",
            "type object 'Bags' has no attribute 'from_pandas'; it is called 'from_",
        ),
        (Bags, "read_csv", "; it is called 'from_csv' here"),
        (Bags, "from_lists", "; did you mean 'from_list'?"),
        (
            BLR(),
            "predict_interval",
            "; use predict_table(bags), or predictive(bags).interval(0.95)",
        ),
        (BLR(), "posterior", "no attribute 'posterior'; it is called 'idata' here"),
        (BLR(), "posterior_predict", "; use predictive(bags)"),
        (BLR(), "posterior_epred", "; use predictive(bags)"),
        (BLR(), "loo", "; use idata, as arviz.loo(model.idata)"),
        (BLR(), "pp_check", "; use report_html(path, bags)"),
        (BLR(), "ranef", "; use predict_terms(bags, groups)"),
        (BLR(), "to_netcdf", "; use save(path)"),
        (BLR(), "feature_importances_", "; use influence_table(bags)"),
        (Bags.from_list(BAGS), "query", "; use where(condition)"),
        (Bags.from_list(BAGS), "groupby", "; use to_dataframe()"),
        (Bags.from_list(BAGS), "plot", "; use to_dataframe()"),
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
        (lambda: plots.rate_map([1.0], [0], [0], log="no"), "log"),
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
