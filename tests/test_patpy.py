"""Donors in patpy: its conventions, their order and labels, few cells; skipped without patpy."""

import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("patpy.tl.supervised")

import anndata
from scipy.spatial.distance import pdist, squareform
from scipy.stats import spearmanr

from bdr_stan import BLR, RBF, Bags, BDRClassifier, InverseBDRClassifier, KernelMean
from bdr_stan.datasets import donor_cells
from bdr_stan.patpy import DistributionRegression, KernelMeans

EXACT = {"severity": BLR(20, method="exact")}


def cohort(n, seed=1):
    """AnnData of simulated donors, cells shuffled, with numbers and classes as labels."""
    cells = donor_cells(n, seed=seed).sample(frac=1, random_state=seed)
    features = cells.drop(columns=["donor", "severity"]).to_numpy()
    severity = cells["severity"].to_numpy()
    obs = pd.DataFrame(
        {
            "donor": cells["donor"].astype(str).to_numpy(),
            "severity": severity,
            "ill": np.where(severity > 0, "yes", "no"),
            "stage": pd.cut(severity, [-np.inf, -0.5, 0.5, np.inf], labels=["a", "b", "c"]),
        },
        index=[f"cell {i}" for i in range(len(cells))],
    )
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    return anndata.AnnData(obs=obs, obsm={"X_pca": scaled})


@pytest.fixture
def adata():
    return cohort(40)


def by_donor(adata, column):
    return adata.obs.groupby("donor")[column].first()


def test_distances_are_those_of_kernel_means():
    """Without shrinkage and with a landmark at every cell, by the definition from all cells."""
    rng = np.random.default_rng(2)
    donor = rng.permutation(np.repeat(["b", "a", "c"], [4, 5, 6]))
    obs = pd.DataFrame({"donor": donor}, index=[f"cell {i}" for i in range(15)])
    adata = anndata.AnnData(obs=obs, obsm={"X_pca": rng.normal(size=(15, 2))})
    method = KernelMeans("donor", n_landmarks=15, shrink=False)
    method.prepare_anndata(adata)
    found = method.calculate_distance_matrix()
    bags = Bags.from_anndata(adata, "donor")
    training = BLR(15, kernel="rbf", bandwidth="scaled").training_features(bags, seed=67)
    kernel = RBF(training.bandwidth)
    means = [KernelMean(adata.obsm["X_pca"][donor == name], kernel) for name in method.samples]
    expected = [[np.sqrt(max(a.distance(b) ** 2, 0)) for b in means] for a in means]
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_distances_are_kept_as_patpy_keeps_them(adata):
    method = KernelMeans("donor")
    with pytest.raises(RuntimeError, match="prepare_anndata"):
        method.calculate_distance_matrix()
    method.prepare_anndata(adata)
    distances = method.calculate_distance_matrix()
    np.testing.assert_array_equal(adata.uns[method.DISTANCES_UNS_KEY], distances)
    assert list(method.sample_representation.index) == list(adata.obs["donor"].unique())
    by_hand = squareform(pdist(method.sample_representation))
    np.testing.assert_allclose(distances, by_hand)
    adata.uns[method.DISTANCES_UNS_KEY] = 0 * distances
    assert not method.calculate_distance_matrix().any()
    np.testing.assert_array_equal(method.calculate_distance_matrix(force=True), distances)
    score = method.evaluate_representation("severity", n_neighbors=5, task="regression")["score"]
    assert score > 0.8
    probe = method.fit_linear_probe("severity", "regression")
    assert len(probe["severity_pred"]) == 8


def test_shrinkage_brings_distances_of_donors_with_few_cells_nearer_to_the_truth():
    adata = cohort(100)
    n_cells = adata.obs["donor"].value_counts()
    agreement = {}
    for shrink in (True, False):
        method = KernelMeans("donor", shrink=shrink)
        method.prepare_anndata(adata)
        distances = method.calculate_distance_matrix(force=True)
        severity = by_donor(adata, "severity").loc[method.samples].to_numpy()
        few = n_cells.loc[method.samples].to_numpy() < 50
        true = np.abs(severity[:, None] - severity)
        agreement[shrink] = spearmanr(distances[few].ravel(), true[few].ravel())[0]
    assert agreement[True] > agreement[False] + 0.1


def test_numbers_are_predicted_for_donors_without_label(adata):
    truth = by_donor(adata, "severity")
    hidden = list(truth.index[[3, 8, 21]])
    adata.obs.loc[adata.obs["donor"].isin(hidden), "severity"] = np.nan
    model = DistributionRegression("donor", "severity", "regression", estimators=EXACT)
    with pytest.raises(RuntimeError, match="prepare_anndata"):
        model.predict("severity")
    model.prepare_anndata(adata)
    predicted = model.predict("severity")
    assert list(predicted.index) == list(adata.obs["donor"].unique())
    assert np.corrcoef(predicted, truth.loc[predicted.index])[0, 1] > 0.9
    assert np.abs(predicted[hidden] - truth[hidden]).max() < 1.5
    known = Bags.from_anndata(
        adata[~adata.obs["donor"].isin(hidden)], "donor", metadata=["severity"]
    )
    assert len(known) == model.models["severity"].idata["observed_data"].sizes["bag"] == 37
    score = model.get_sample_importance()
    np.testing.assert_array_equal(score["severity_importance"], predicted)


def test_influence_of_a_cell_is_its_own(adata):
    model = DistributionRegression("donor", "severity", "regression", estimators=EXACT)
    model.prepare_anndata(adata)
    importance = model.get_cell_importance()
    assert list(importance.index) == list(adata.obs_names)
    fitted, some = model.models["severity"], [0, 5, 700]
    expected = fitted.influence(adata.obsm["X_pca"][some]).mean
    np.testing.assert_allclose(importance["severity_importance"].iloc[some], expected)
    assert "severity_importance" in adata.obs
    adata.obs["severity_importance"] = 0.0
    assert not model.get_cell_importance().to_numpy().any()
    assert model.get_cell_importance(force=True).equals(importance)


def test_classes_have_probabilities_and_labels_join(adata):
    quick = {"ill": BDRClassifier(10, method="laplace"), **EXACT}
    model = DistributionRegression("donor", ["ill"], ["classification"], estimators=quick)
    model.prepare_anndata(adata, draws=100)
    predicted = model.predict("ill")
    assert list(predicted.columns) == ["prob_no", "prob_yes", "ill_pred"]
    np.testing.assert_allclose(predicted[["prob_no", "prob_yes"]].sum(axis=1), 1)
    truth = by_donor(adata, "ill").loc[predicted.index]
    assert np.mean(predicted["ill_pred"] == truth) > 0.9
    np.testing.assert_array_equal(
        model.get_sample_importance()["ill_importance"], predicted["prob_yes"]
    )
    model.fine_tune("severity", "regression")
    assert model.predict("ill").equals(predicted)
    both = model.get_sample_importance()
    assert list(both.columns) == ["average_importance", "ill_importance", "severity_importance"]
    assert list(model.get_cell_importance().columns) == list(both.columns)
    assert model.get_sample_representations().shape == (40, 60)
    assert model.calculate_distance_matrix().shape == (40, 40)


def test_more_than_two_classes(adata):
    quick = {"stage": InverseBDRClassifier(10, method="optimize")}
    model = DistributionRegression("donor", "stage", "classification", estimators=quick)
    model.prepare_anndata(adata)
    assert list(model.predict("stage").columns) == ["prob_a", "prob_b", "prob_c", "stage_pred"]
    with pytest.raises(NotImplementedError, match=r"'stage' has 3 classes.*use predict\('stage'\)"):
        model.get_sample_importance()


def test_mistakes_are_told(adata):
    with pytest.raises(ValueError, match="X_other"):
        KernelMeans("donor", layer="X_other").prepare_anndata(adata)
    with pytest.raises(ValueError, match="patient"):
        KernelMeans("patient").prepare_anndata(adata)
    for estimators, task, message in [
        ({"severty": EXACT["severity"]}, "regression", "'severty', which is no column"),
        (EXACT, "classification", "BLR for 'severity', whose task is 'classification'"),
    ]:
        model = DistributionRegression("donor", "severity", task, estimators=estimators)
        with pytest.raises(ValueError, match=message):
            model.prepare_anndata(adata)
    model = DistributionRegression("donor", "severity", "regression", estimators=EXACT)
    model.prepare_anndata(adata)
    with pytest.raises(ValueError, match=r"'ill' is not found .* call fine_tune\('ill', task\)"):
        model.predict("ill")


def test_without_patpy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "patpy.tl.supervised", None)
    monkeypatch.delitem(sys.modules, "bdr_stan.patpy")
    with pytest.raises(ImportError, match=r"pip install 'bdr-stan\[patpy\]'"):
        import_module("bdr_stan.patpy")
