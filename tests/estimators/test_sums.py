"""Fits from sums: the model of all bags, whatever was added in whichever order."""

from dataclasses import replace

import dask
import numpy as np
import pandas as pd
import pytest
from builders.partitions import partitions
from builders.sites import COLUMNS, METADATA, bags_of, site
from numpy.testing import assert_allclose

from bdr_stan import BDR, BLR, Bags, Basis, BDRClassifier, InverseBDR, Shrinkage, Summary, load
from bdr_stan.bags.record import BagsRecord
from bdr_stan.embedding.mean_embedding import embed

PUBLIC = site(40, 9, first=9000)
SITES = [site(30 + 15 * k, k, first=1000 * k) for k in range(3)]
TOGETHER = pd.concat(SITES)
MODELS = {
    "default": BDR(12),
    "rbf": BDR(12, kernel="rbf"),
    "columns of bags": BDR(12, covariates=["beds", "region"]),
    "groups and smooths": BDR(12, kernel="rbf", groups=["region"], smooths=["beds"]),
    "noise of size": BDR(12, label_noise="size"),
    "lognormal": BDR(12, family="lognormal"),
    "kernel as prior": BDR(12, embedding_prior="kernel"),
    "exact embeddings": BLR(12, label_noise="size"),
    "linear regression": BLR(12),
}


@pytest.fixture(scope="module")
def basis():
    return BDR(8).basis(bags_of(PUBLIC)[0], seed=1)


@pytest.fixture(scope="module")
def summaries(basis):
    return [basis.summarise(*bags_of(table)) for table in SITES]


def features_of(basis, table, **columns):
    """Training features and labels of all bags of a table, in the features of the basis."""
    bags, y = bags_of(table, **columns)
    model, features = basis.estimator, basis.features
    embedding = embed(bags, features.feature_map, covariance=True)
    if features.covariates is not None:
        embedding = replace(embedding, covariates=features.covariates.transform(bags))
    features = replace(features, record=BagsRecord.from_bags(bags), embedding=embedding)
    if features.are_tested(embedding.sizes.sum(), len(bags)):
        features = features.with_varying_effects(embedding)
    return features, model.read_labels(bags, y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_log_density_of_sums_is_that_of_all_bags(rng, kind, weighted):
    columns = {"weight": "w"} if weighted else {}
    basis = MODELS[kind].basis(bags_of(PUBLIC, **columns)[0], seed=1)
    total = sum(basis.summarise(*bags_of(table, **columns)) for table in SITES)
    model = basis.estimator
    of_bags = model._model(*features_of(basis, TOGETHER, **columns))
    of_sums = model._model(total.features, total.labels)
    assert of_sums.priors == pytest.approx(of_bags.priors, rel=1e-9)
    assert of_sums.chosen.keys() == of_bags.chosen.keys()
    for name, (value, _) in of_bags.chosen.items():
        assert of_sums.chosen[name][0] == pytest.approx(value)
    d = len(of_bags.coordinates.lam)
    n_others = of_bags.rows.rows.shape[1] - d - 1
    values = []
    for _ in range(20):  # weights of the landmarks, of covariates and effects, intercept
        beta, others = rng.normal(size=d), rng.normal(size=n_others)
        scales = {"sigma": rng.gamma(2), "sigma_point": rng.gamma(2), "eta": rng.gamma(2)}
        if model.label_noise == "constant":
            scales.pop("sigma_point")
        if isinstance(model, BLR):
            scales.pop("eta")
        for one in (of_bags, of_sums):
            theta = np.r_[np.linalg.solve(one.coordinates.basis, beta), others]
            values.append(one.likelihood(**scales)(theta)[0])
    assert_allclose(values[1::2], values[::2], rtol=1e-10)


@pytest.mark.parametrize("kind", ["default", "groups and smooths"])
def test_sites_are_all_bags_together(kind):
    basis = MODELS[kind].basis(bags_of(PUBLIC)[0], seed=1)
    parts = [basis.summarise(*bags_of(table)) for table in SITES]
    together = basis.summarise(*bags_of(TOGETHER))
    one, other, all_at_once = sum(parts), parts[2] + (parts[1] + parts[0]), together
    assert one.n_bags == other.n_bags == together.n_bags == TOGETHER["ward"].nunique()
    new = bags_of(PUBLIC)[0]
    same = ("kernel", "groups", "smooths")
    model = Shrinkage(12, **{name: getattr(basis.estimator, name) for name in same})
    expected = model.fit(all_at_once, seed=1).predict(new)
    for total in (one, other):
        assert_allclose(model.fit(total, seed=1).predict(new), expected, rtol=1e-4)


def test_partitions_have_the_sums_of_bags_in_memory(basis):
    table = pd.concat(SITES)
    with dask.config.set(scheduler="synchronous"):
        bags = Bags.from_dask(partitions(table, 4), **COLUMNS, metadata=METADATA)
        lazy = basis.summarise(bags, bags.metadata["stay"])
    whole = basis.summarise(*bags_of(table))
    for name in ("powers", "by_points", "scatter"):
        value, here = (
            one.scatter if name == "scatter" else getattr(one.sums, name) for one in (whole, lazy)
        )
        assert_allclose(here, value, atol=1e-12 * np.abs(value).max())


@pytest.fixture(scope="module")
def fit(summaries):
    return BDR(8).fit(summaries[0] + summaries[1], chains=2, draws=200, warmup=200, seed=3)


def test_update_is_a_fit_to_the_old_and_the_new_bags(fit, summaries, tmp_path):
    fit.save(tmp_path / "fit.nc")
    again = load(tmp_path / "fit.nc")
    assert again.summary_.n_bags == fit.summary_.n_bags == 75
    again.update(*bags_of(SITES[2]))
    assert (
        repr(again.summary_) == f"Summary(135 bags in 3 parts, basis {fit.summary_.basis.digest})"
    )
    expected = BDR(8).fit(sum(summaries), chains=2, draws=200, warmup=200, seed=3)
    new = bags_of(PUBLIC)[0]
    assert_allclose(again.predict(new), expected.predict(new), rtol=1e-12)
    assert "Fitted to 135 bags" in str(again)


def test_intervals_contain_new_labels(fit):
    bags, y = bags_of(site(400, 50))
    low, high = fit.predictive(bags).interval(0.9)
    # 0.9 +- four standard errors, and errors of a fit to 75 bags
    assert 0.8 < np.mean((low <= y) & (y <= high)) < 0.98


def test_files_are_small_and_complete(summaries, tmp_path):
    basis = BDR(60).basis(bags_of(PUBLIC)[0], seed=1)
    basis.save(tmp_path / "basis.nc")
    here = Basis.load(tmp_path / "basis.nc")
    assert here.digest == basis.digest
    summary = here.summarise(*bags_of(TOGETHER))
    summary.save(tmp_path / "all.sums")
    assert (tmp_path / "all.sums").stat().st_size < 2e6
    loaded = Summary.load(tmp_path / "all.sums")
    assert loaded.parts == summary.parts
    assert (loaded.sums.rows.rows == summary.sums.rows.rows).all()


def test_labels_of_few_bags_can_be_computed_from_a_summary(basis):
    """Why `min_bags` is there: the rows of three bags, up to sign and order."""
    bags, y = bags_of(SITES[0])
    some = [1, 4, 7]
    rows = basis.summarise(bags[some], y.iloc[some], min_bags=1).sums.rows
    grams = [
        s * rows.rows[a : a + m].T @ rows.rows[a : a + m]
        for s, a, m in zip(rows.sign, rows.start, rows.length, strict=True)
    ]
    axes = np.linalg.svd(rows.rows)[2][:3].T
    first, second = (
        axes.T @ sum(weight * gram for weight, gram in zip(weights, grams, strict=True)) @ axes
        for weights in (np.ones(len(grams)), np.log(rows.bag_size))
    )
    recovered = np.linalg.inv(np.linalg.eig(np.linalg.solve(first, second))[1]).real @ axes.T
    labels = recovered[:, -1] / recovered[:, -2]
    assert_allclose(np.sort(labels), np.sort(y.iloc[some]), rtol=1e-6)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("bags_and_labels", "message"),
    [
        (lambda: tuple(x[:5] for x in bags_of(SITES[0])), "5 bags are too few for a summary"),
        (lambda: bags_of(site(30, 0)), "points, but the largest bag of the basis may have 20:"),
        (
            lambda: (Bags.from_dataframe(SITES[0], "ward", features=["age"]), np.zeros(30)),
            "have 1 features per point",
        ),
        (lambda: bags_of(SITES[0].replace({"sex": {"f": "x"}})), "has 'sex=x', which"),
    ],
)
def test_bags_unlike_the_basis_are_refused(bags_and_labels, message):
    basis = BDR(6).basis(bags_of(PUBLIC)[0], largest_size=20, seed=1)
    bags, y = bags_and_labels()
    with pytest.raises(ValueError, match=message):
        basis.summarise(bags, y)


def test_levels_that_are_new_or_of_one_bag_are_refused():
    basis = BDR(6, groups=["region"]).basis(bags_of(PUBLIC)[0], seed=1)
    one = SITES[0].assign(region=np.where(SITES[0]["ward"] == 3, "north", "south"))
    with pytest.raises(ValueError, match="'north' of 'region' occurs once"):
        basis.summarise(*bags_of(one))
    assert basis.summarise(*bags_of(one), min_bags=1).n_bags == 30
    with pytest.raises(ValueError, match="is 'east', which the basis does not have"):
        basis.summarise(*bags_of(one.assign(region="east")))
    lacks_north = basis.summarise(*bags_of(one.assign(region="south")))
    assert (lacks_north + basis.summarise(*bags_of(SITES[1]))).n_bags == 75


def test_a_category_of_one_point_is_refused():
    basis = BDR(6).basis(bags_of(PUBLIC)[0], seed=1)
    first = np.arange(len(SITES[0])) == 0
    table = SITES[0].assign(sex=np.where(first, "m", "f"))
    with pytest.raises(ValueError, match="sex=m occurs once"):
        basis.summarise(*bags_of(table))
    assert basis.summarise(*bags_of(table), min_bags=1).n_bags == 30


def test_other_units_are_warned_of(basis):
    with pytest.warns(UserWarning, match=r"'income'.*check that its units are the same"):
        basis.summarise(*bags_of(SITES[0].assign(income=SITES[0]["income"] / 1000)))


def test_summaries_that_do_not_add_up(basis, summaries):
    other = BDR(8).basis(bags_of(PUBLIC)[0], seed=2).summarise(*bags_of(SITES[1]))
    with pytest.raises(ValueError, match="different bases"):
        summaries[0] + other
    shuffled = SITES[0].sample(frac=1, random_state=5)
    with pytest.raises(ValueError, match="its bags would count twice"):
        summaries[0] + summaries[1] + basis.summarise(*bags_of(shuffled))
    with pytest.raises(TypeError):
        summaries[0] + 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (InverseBDR(), "InverseBDR needs each bag"),
        (BDRClassifier(), "BDRClassifier needs each bag"),
        (BDR(family="poisson"), "labels of family='poisson' have no sums"),
        (BDR(compress=False), "needs each bag"),
        (BDR(family="lognormal"), "sums are for family='normal'"),
        (BDR(groups=["region"]), "the model has groups"),
    ],
)
def test_models_of_which_there_are_no_sums(summaries, model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(summaries[0])


def test_labels_come_with_a_summary_and_with_bags_beside(summaries):
    with pytest.raises(TypeError, match="a Summary contains the labels: leave y out"):
        BDR(8).fit(summaries[0], np.zeros(30))
    with pytest.raises(TypeError, match="known errors of labels have no sums"):
        BDR(8).fit(summaries[0], label_sd=np.ones(30))
    with pytest.raises(TypeError, match="fit needs the labels y"):
        BDR(8).fit(bags_of(SITES[0])[0])


def test_bags_of_one_point_have_no_covariance():
    table = SITES[0].drop_duplicates("ward")
    basis = BDR(6).basis(bags_of(PUBLIC)[0], seed=1)
    summary = basis.summarise(*bags_of(table))
    with pytest.raises(ValueError, match="all bags have one point"):
        BDR(6).fit(summary)
    assert Shrinkage(6).fit(summary + basis.summarise(*bags_of(SITES[1])), seed=1)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        (lambda fit, bags, path: fit.familiarity(bags), "familiarity"),
        (lambda fit, bags, path: fit.conformal(bags), "conformal"),
        (lambda fit, bags, path: fit.report_html(path), "report_html"),
    ],
)
def test_questions_about_single_training_bags(fit, tmp_path, question, name):
    with pytest.raises(ValueError, match=f"{name} needs the label and embedding of each"):
        question(fit, bags_of(PUBLIC)[0], tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_fits_to_bags_have_no_sums():
    bags, y = bags_of(SITES[0])
    fit = Shrinkage(6).fit(bags, y, seed=1)
    with pytest.raises(AttributeError, match="the fit is to bags, not from sums"):
        fit.update(bags, y)


def test_files_of_something_else(fit, summaries, tmp_path):
    path = tmp_path / "a.sums"
    summaries[0].save(path)
    with pytest.raises(ValueError, match="holds no Basis"):
        Basis.load(path)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(ValueError, match="holds no Summary, or is cut short"):
        Summary.load(path)
    fit.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="holds no Summary: give a file that Summary.save"):
        Summary.load(tmp_path / "fit.nc")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Summary.load(tmp_path / "b.sums")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        summaries[0].save(tmp_path / "no" / "a.sums")


def test_a_file_of_a_version_with_other_contents(summaries, tmp_path, monkeypatch):
    path = tmp_path / "a.sums"
    config = summaries[0].config()
    monkeypatch.setattr(Summary, "config", lambda self: {**config, "cumulants": 1.0})
    summaries[0].save(path)
    with pytest.raises(ValueError, match=r"Summary of bdr_stan .*, which version .* cannot"):
        Summary.load(path)
