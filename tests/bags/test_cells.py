"""Cells of an AnnData object as bags: where features lie, how they are stored, what is refused."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from bdr_stan.bags import Bags
from bdr_stan.bags.cells import cell_values

anndata = pytest.importorskip("anndata")  # of the extra "anndata"

N, GENES = 30, ["CD3E", "CD8A", "MS4A1", "NKG7"]


@pytest.fixture
def counts(rng):
    return rng.poisson(1.0, (N, len(GENES))).astype(np.float32)


@pytest.fixture
def obs(rng):
    donor = rng.permutation(np.repeat(["d2", "d10", "d1"], [14, 6, 10]))
    age = pd.Series(donor).map({"d1": 30, "d2": 50, "d10": 70})
    return pd.DataFrame(
        {"donor": pd.Categorical(donor), "age": age.to_numpy(), "batch": np.arange(N) % 2},
        index=[f"cell{i}" for i in range(N)],
    )


@pytest.fixture
def adata(counts, obs, rng):
    return anndata.AnnData(
        sparse.csr_matrix(counts),
        obs=obs,
        var=pd.DataFrame(index=GENES),
        obsm={
            "X_pca": rng.normal(size=(N, 3)),
            "frame": pd.DataFrame(
                rng.normal(size=(N, 2)), index=obs.index, columns=["first", "second"]
            ),
        },
        layers={"log": np.log1p(counts)},
    )


def by_donor(values, obs):
    return [values[(obs["donor"] == donor).to_numpy()] for donor in ("d1", "d10", "d2")]


def assert_bags(bags, values, obs):
    assert list(bags.ids) == ["d1", "d10", "d2"]
    for found, expected in zip(bags, by_donor(values, obs), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_obsm_key_is_the_default(adata, obs):
    bags = Bags.from_anndata(adata, "donor", metadata=["age"])
    assert_bags(bags, adata.obsm["X_pca"], obs)
    assert list(bags.features) == ["X_pca_1", "X_pca_2", "X_pca_3"]
    assert list(bags.metadata["age"]) == [30, 70, 50] and list(bags.metadata.index) == list(
        bags.ids
    )


def test_frames_layers_and_variables(adata, obs, counts):
    frame = Bags.from_anndata(adata, "donor", "frame")
    assert_bags(frame, adata.obsm["frame"].to_numpy(), obs)
    assert list(frame.features) == ["first", "second"]
    layer = Bags.from_anndata(adata, "donor", "log")
    assert_bags(layer, np.log1p(counts), obs)
    assert list(layer.features) == GENES
    chosen = Bags.from_anndata(adata, "donor", ["NKG7", "CD8A"])
    assert_bags(chosen, counts[:, [3, 1]], obs)
    assert list(chosen.features) == ["NKG7", "CD8A"]


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
@pytest.mark.parametrize("backed", [None, "r"])
def test_x_of_any_storage(adata, obs, counts, store, backed, tmp_path):
    adata.X = store(counts)
    folder = tmp_path / "my project (copy)"
    folder.mkdir()
    adata.write_h5ad(folder / "cells.h5ad")
    read = anndata.read_h5ad(folder / "cells.h5ad", backed=backed)
    bags = Bags.from_anndata(read, "donor", "X")
    assert_bags(bags, counts, obs)
    assert bags.points.dtype == np.float32
    some = (obs["batch"] == 1).to_numpy()
    assert_bags(Bags.from_anndata(read[some], "donor", ["CD8A"]), counts[some][:, [1]], obs[some])


def test_chunks_of_a_file_are_put_together(adata, counts, tmp_path):
    adata.write_h5ad(tmp_path / "cells.h5ad")
    order = np.arange(N)[::-1]
    read = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    for columns in (None, np.array([2, 0])):
        found = cell_values(read, ("X", None), columns, order, chunk_bytes=7 * 8 * len(GENES))
        expected = counts if columns is None else counts[:, columns]
        np.testing.assert_array_equal(found, expected[order])


def mistakes(adata):
    twice = anndata.AnnData(adata.X, obs=adata.obs, var=pd.DataFrame(index=["a", "a", "b", "c"]))
    without = adata.copy()
    without.obs["donor"] = without.obs["donor"].where(np.arange(N) != 4)
    empty = anndata.AnnData(obs=adata.obs)
    both = adata.copy()
    both.obsm["log"] = both.obsm["X_pca"]
    words = adata.copy()
    words.obsm["frame"]["second"] = "text"
    gap = adata.copy()
    gap.obsm["X_pca"][3, 1] = np.nan
    return [
        (adata, {"bag": "donr"}, "adata.obs has no column 'donr': did you mean 'donor'"),
        (adata, {"metadata": ["sex"]}, "no column 'sex': it has 'donor', 'age', 'batch'"),
        (adata, {"metadata": "age"}, r"pass \['age'\]"),
        (adata, {"metadata": ["batch"]}, "column 'batch' is not constant in bag"),
        (adata, {"features": "X_pac"}, "obsm key or layer 'X_pac': did you mean 'X_pca'"),
        (adata, {"features": "CD8A"}, r"pass \['CD8A'\]"),
        (adata, {"features": ["CD8B"]}, "no variable 'CD8B': did you mean 'CD8A'"),
        (adata, {"features": ["CD8A", "CD8A"]}, "names the variable 'CD8A' twice"),
        (adata, {"features": []}, "features is empty"),
        (twice, {"features": ["a"]}, "var_names_make_unique"),
        (without, {}, "cell 4 has no bag: column 'donor' of adata.obs is missing"),
        (empty, {"features": "X"}, "adata.X is empty"),
        (empty, {"features": ["a"]}, "adata.X is empty"),
        (both, {"features": "log"}, "both an obsm key and a layer 'log'"),
        (words, {"features": "frame"}, "adata.obsm.'frame'. holds object, not numbers"),
        (gap, {}, "X_pca_2"),
        (adata[:0], {}, "adata has no cells"),
        (adata.obs, {}, "must be an AnnData object, found a DataFrame"),
        ("cells.h5ad", {}, "anndata.read_h5ad.path, backed='r'"),
    ]


def test_what_cannot_be_read_is_told_in_a_sentence(adata):
    for given, change, message in mistakes(adata):
        with pytest.raises((TypeError, ValueError), match=message) as error:
            Bags.from_anndata(given, **{"bag": "donor", **change})
        assert "\n" not in str(error.value)


def test_without_anndata_the_extra_is_named(adata, monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(ImportError, match=r"pip install 'bdr-stan\[anndata\]'"):
        Bags.from_anndata(adata, "donor")


def test_metadata_keep_the_order_of_their_categories(adata):
    stages = ["early", "middle", "late"]
    stage = adata.obs["donor"].map({"d1": "late", "d2": "early", "d10": "middle"}).astype(str)
    adata.obs["stage"] = pd.Categorical(stage, stages, ordered=True)
    found = Bags.from_anndata(adata, "donor", metadata=["stage"]).metadata["stage"]
    expected = Bags.from_dataframe(
        adata.obs[["donor", "age", "stage"]], "donor", ["age"], metadata=["stage"]
    ).metadata["stage"]
    pd.testing.assert_series_equal(found, expected)
    assert found.cat.ordered and found.cat.categories.to_list() == stages
