"""Embeddings of shrunk kernel means against the estimators on kernel matrices, bag by bag."""

import numpy as np
import pytest
from builders.location_family import location_family

from bdr_stan.bags import Bags
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernel_means.shrinkage import f_kmse, s_kmse
from bdr_stan.kernels import RBF, LandmarkFeatures, Matern32
from experiments.papers.fourier_features import FourierFeatures
from experiments.papers.shrunk_embedding import shrink_embedding


@pytest.mark.parametrize("kernel", [RBF(1.4), Matern32(2.0)], ids=repr)
@pytest.mark.parametrize("kind", ["landmarks", "fourier"])
@pytest.mark.parametrize(("estimator", "weights_of"), [("s-kmse", s_kmse), ("f-kmse", f_kmse)])
def test_shrunk_embedding_has_the_weights_of_the_kernel_mean(estimator, weights_of, kind, kernel):
    arrays, _ = location_family(11, 40, largest=30)
    bags, rows = Bags.from_list(arrays), np.concatenate(arrays)[::50]
    features = LandmarkFeatures(kernel, rows) if kind == "landmarks" else FourierFeatures(rows, 1.4)
    plain = embed(bags, features)
    shrunk = shrink_embedding(plain, bags, features, kernel, estimator=estimator)
    for i, bag in enumerate(arrays):
        weights, shrinkage = weights_of(kernel(bag, bag))
        name = f"bag {i}"
        np.testing.assert_allclose(
            shrunk.mean[i], weights @ features(bag), rtol=1e-7, atol=1e-12, err_msg=name
        )
        np.testing.assert_allclose(
            shrunk.shrinkage[i], shrinkage, rtol=1e-7, atol=1e-14, err_msg=name
        )
    alone = np.flatnonzero(bags.sizes == 1)
    np.testing.assert_array_equal(shrunk.shrinkage[alone], 0)
    np.testing.assert_allclose(shrunk.mean[alone], plain.mean[alone], rtol=1e-12)
    assert np.all(shrunk.shrinkage[bags.sizes > 1] > 0)
    threads = shrink_embedding(plain, bags, features, kernel, estimator=estimator, n_jobs=1)
    np.testing.assert_array_equal(threads.mean, shrunk.mean)
