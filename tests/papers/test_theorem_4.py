"""The score of Theorem 4 against refits in plain loops."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from bdr_stan.kernel_means.shrinkage import f_kmse, f_kmse_score
from bdr_stan.kernels import RBF, Linear, Polynomial
from experiments.papers.theorem_4 import theorem_4_scores


@pytest.mark.parametrize("kernel", [RBF(2.0), Linear(), Polynomial(2)], ids=repr)
def test_score_of_theorem_4(rng, kernel):
    """Point i leaves the average, but stays among the functions; against plain loops."""
    x = rng.normal(size=(9, 3)) + 1
    gram, n = kernel(x, x), 9

    def plain(shrinkage):
        total = 0.0
        for i in range(n):
            others = np.delete(gram, i, axis=1).sum(axis=1) / n
            r = np.linalg.lstsq(
                (n - 1) / n * gram @ gram + n * shrinkage * gram, gram @ others, rcond=1e-12
            )[0]
            r[i] -= 1
            total += r @ gram @ r
        return total / n

    at = np.array([0.01, 0.3, 20.0])
    eigen = np.linalg.eigh(gram)
    np.testing.assert_allclose(theorem_4_scores(*eigen, at), [plain(v) for v in at], rtol=1e-8)
    # Where there is nearly nothing to filter, both scores are that of the plain mean.
    nearly = 1e-9 if isinstance(kernel, RBF) else 1e-12
    np.testing.assert_allclose(theorem_4_scores(*eigen, nearly), f_kmse_score(gram, 0.0), rtol=1e-5)
    chosen = f_kmse(gram, scores=theorem_4_scores)[1]
    found = minimize_scalar(
        lambda v: plain(np.exp(v)), bounds=np.log([chosen / 9, chosen * 9]), method="bounded"
    )
    np.testing.assert_allclose(theorem_4_scores(*eigen, chosen), found.fun, rtol=1e-7)
