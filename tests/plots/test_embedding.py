"""Shares of embeddings that shrinkage keeps, read back from the artists."""

from types import SimpleNamespace

import numpy as np
import pytest

from bdr_stan import BDR, BLR, plots


class Fitted:
    """A fit of these within-bag variances in the joint basis, and this posterior of eta."""

    def __init__(self, lam, eta):
        self.coordinates_ = SimpleNamespace(lam=lam)
        self.result_ = SimpleNamespace(has_draws=bool, draws=lambda name: np.array([eta]))


def test_shrinkage_spectrum_draws_eigenvalues_of_the_operator(rng):
    from scipy.linalg import eigvals

    from bdr_stan.embedding.shrinkage import joint_basis

    A, B = rng.normal(size=(2, 6, 9))
    Sigma, R, eta = A @ A.T, B @ B.T, 0.3
    lam, _ = joint_basis(Sigma, R)
    ax = plots.shrinkage_spectrum(Fitted(lam, eta), sizes=(1, 50))
    for line, size in zip(ax.lines, (1, 50)):
        operator = eta * R @ np.linalg.inv(eta * R + Sigma / size)
        expected = np.sort(eigvals(operator).real)[::-1]
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-8)
        assert line.get_label().endswith(f": {expected.sum():.1f}")
    labels = [text.get_text().split(":")[0] for text in ax.get_legend().get_texts()]
    assert labels == ["1 point", "50 points"]
    assert (
        ax.get_legend().get_title().get_text()
        == "points in a bag: effective number of coordinates, of 6"
    )


def small_bags(rng, n=15):
    return [rng.normal(i / 5, 1, size=(6, 3)) for i in range(n)], np.arange(n) / 5


def test_shrinkage_spectrum_of_a_fitted_model(rng):
    import matplotlib.pyplot as plt

    _, given = plt.subplots()
    model = BDR(4, method="optimize").fit(*small_bags(rng), seed=1)
    assert plots.shrinkage_spectrum(model, ax=given) is given and len(given.lines) == 5
    eta, lam = model.idata.posterior["eta"].values.item(), model.coordinates_.lam
    np.testing.assert_allclose(given.lines[0].get_ydata(), eta / (eta + lam))

    blr = BLR(4, method="exact").fit(*small_bags(rng), seed=1)
    with pytest.raises(ValueError, match="BLR does not shrink embeddings: pass a fitted BDR"):
        plots.shrinkage_spectrum(blr)
    with pytest.raises(ValueError, match="this BDR has no shrinkage to draw: pass a fitted BDR"):
        plots.shrinkage_spectrum(BDR())
    with pytest.raises(ValueError, match=r"at least 1 point, found sizes \[5, 0\]"):
        plots.shrinkage_spectrum(model, sizes=(5, 0))
