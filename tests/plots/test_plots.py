"""plots: what each picture shows, read back from its artists."""

import sys

import numpy as np
import pytest
from scipy import stats

from bdr_stan import BDR, BLR, Bags, plots

matplotlib = pytest.importorskip("matplotlib")


class Normal:
    """Normal predictive distributions, one a bag."""

    def __init__(self, mean, sd):
        self.mean, self.sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)

    def interval(self, level):
        return stats.norm(self.mean, self.sd).interval(level)

    def cdf(self, y):
        return stats.norm(self.mean, self.sd).cdf(y)

    def log_prob(self, y):
        return stats.norm(self.mean, self.sd).logpdf(y)


@pytest.fixture(autouse=True)
def without_screen():
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture
def case(rng):
    """Labels, calibrated predictions and sizes; 200 bags of 2 and 300 bags of 50 points."""
    sizes = np.repeat([2, 50], [200, 300])
    sd = np.where(sizes == 2, 2.0, 0.5)
    mean = rng.uniform(0, 10, 500)
    return rng.normal(mean, sd), Normal(mean, sd), sizes


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_prediction_by_size(case):
    y, predictive, sizes = case
    axes = plots.prediction_by_size(y, predictive, sizes)
    assert [ax.get_title() for ax in axes] == ["2 points (200 bags)", "50 points (300 bags)"]
    drawn = axes[0].collections[0]
    np.testing.assert_array_equal(
        drawn.get_offsets(), np.column_stack([y, predictive.mean])[sizes == 2]
    )
    np.testing.assert_array_equal(drawn.get_array(), predictive.sd[sizes == 2])
    assert drawn.get_clim() == axes[1].collections[0].get_clim() == (0.5, 2.0)
    assert axes[0].get_xlim() == axes[0].get_ylim() == axes[1].get_xlim()
    lower, upper = predictive.interval(0.95)
    share = ((lower <= y) & (y <= upper))[sizes == 2].mean()
    assert texts(axes[0]) == [f"{share:.0%} in their 95% interval"]
    assert len(axes[0].figure.axes) == 3  # two panels and one colour bar


def test_prediction_by_size_draws_into_given_axes(case):
    import matplotlib.pyplot as plt

    _, given = plt.subplots(1, 2)
    axes = plots.prediction_by_size(*case, axes=given)
    assert list(axes) == list(given)
    with pytest.raises(ValueError, match="there are 2 classes of bag sizes, but 1 axes"):
        plots.prediction_by_size(*case, axes=given[0])


def bars(ax):
    """Intervals drawn: where they hold the truth, and where they miss it."""
    return [lines.get_segments() for lines in ax.collections if hasattr(lines, "get_segments")]


def test_compare_by_size_shows_who_is_wrong(case):
    y, good, sizes = case
    bad = Normal(good.mean, np.full(500, 0.5))  # right for bags of 50, far too sure for 2
    figure = plots.compare_by_size({"BLR": bad, "BDR": good}, y, sizes)
    *panels, colour_bar = figure.axes
    assert colour_bar.get_ylabel() == "predictive sd"
    axes = np.reshape(panels, (2, 2))
    assert axes[0, 0].get_title() == "2 points (200 bags)"
    assert axes[1, 0].get_title() == "" and axes[1, 0].get_xlabel() == "true label"
    assert [ax.get_ylabel().split("\n")[0] for ax in axes[:, 0]] == ["BLR", "BDR"]
    assert [ax.texts[0].get_color() for ax in axes.ravel()] == [
        plots.MISSES, plots.COVERS, plots.COVERS, plots.COVERS
    ]  # fmt: skip
    for ax in axes.ravel():
        hit, miss = bars(ax)
        assert len(hit) + len(miss) == plots.BARS_PER_PANEL
        assert all(bar[0, 1] <= bar[0, 0] <= bar[1, 1] for bar in hit)
        assert not any(bar[0, 1] <= bar[0, 0] <= bar[1, 1] for bar in miss)
    assert len(bars(axes[0, 0])[1]) > 30 and len(bars(axes[1, 0])[1]) < 12
    assert len({ax.get_ylim() for ax in axes.ravel()}) == 1


def test_compare_by_size_needs_a_model(case):
    with pytest.raises(ValueError, match="no model to draw: pass at least one"):
        plots.compare_by_size({}, case[0], case[2])


def test_calibration(case):
    y, predictive, sizes = case
    ax = plots.calibration(y, predictive, sizes)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["2 points", "50 points", "all bags"]
    for line in ax.lines[:3]:
        level, share = line.get_data()
        assert np.abs(share - level).max() < 0.12
    import matplotlib.pyplot as plt

    _, given = plt.subplots()
    assert plots.calibration(y, predictive, ax=given) is given
    assert len(given.get_legend().get_texts()) == 1


def test_one_bag_a_class_can_be_drawn():
    predictive = Normal([1.0, 1.0], [1.0, 1.0])
    plots.prediction_by_size([1.0, 1.0], predictive, [1, 7])[0].figure.canvas.draw()
    plots.compare_by_size({"BLR": predictive}, [1.0, 1.0], [1, 7]).canvas.draw()


# ---------------------------------------------------------------- shrinkage, landmarks


def test_shrinkage_spectrum_draws_eigenvalues_of_the_operator(rng):
    from scipy.linalg import eigvals

    from bdr_stan.embedding.shrinkage import joint_basis

    A, B = rng.normal(size=(2, 6, 9))
    Sigma, R, eta = A @ A.T, B @ B.T, 0.3
    lam, _ = joint_basis(Sigma, R)
    ax = plots.shrinkage_spectrum(lam, eta, sizes=(1, 50))
    for line, size in zip(ax.lines, (1, 50)):
        operator = eta * R @ np.linalg.inv(eta * R + Sigma / size)
        expected = np.sort(eigvals(operator).real)[::-1]
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-8)
        assert line.get_label().endswith(f": {expected.sum():.1f}")
    said = [text.get_text().split(":")[0] for text in ax.get_legend().get_texts()]
    assert said == ["1 point", "50 points"]
    assert ax.get_legend().get_title().get_text() == "effective coordinates, of 6, in a bag of"


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
    for eta in (None, 0.0):
        with pytest.raises(ValueError, match=f"must be > 0, found {eta}"):
            plots.shrinkage_spectrum(lam, eta)
    with pytest.raises(ValueError, match=r"at least 1 point, found sizes \[5, 0\]"):
        plots.shrinkage_spectrum(lam, 1.0, sizes=(5, 0))


def test_landmarks_among_points(rng):
    bags = Bags.from_list(small_bags(rng)[0], features=["x", "y", "z"])
    chosen = bags.points[[3, 40, 80]]
    ax = plots.landmarks(bags, chosen, features=("z", 0), n_points=50)
    points, marks = (line.get_xydata() for line in ax.lines)
    np.testing.assert_array_equal(marks, chosen[:, [2, 0]])
    assert len(points) == 50
    assert {tuple(row) for row in points} <= {tuple(row) for row in bags.points[:, [2, 0]]}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("z", "x")
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["50 points", "3 landmarks"]


def test_landmarks_along_principal_axes(rng):
    import matplotlib.pyplot as plt

    _, given = plt.subplots()
    points = rng.normal(size=(200, 3)) * [1, 9, 4]
    ax = plots.landmarks(points, points[:5], "principal", ax=given)
    assert ax is given and len(ax.lines[0].get_xdata()) == 200
    np.testing.assert_array_equal(ax.lines[0].get_xydata()[:5], ax.lines[1].get_xydata())
    assert abs(np.corrcoef(ax.lines[0].get_xdata(), points[:, 1])[0, 1]) > 0.99
    share = 81 / (1 + 81 + 16)
    said = float(ax.get_xlabel().split("(")[1].split("%")[0])
    assert ax.get_xlabel().startswith("principal axis 1 (") and abs(said / 100 - share) < 0.05


def test_landmarks_that_cannot_be_drawn(rng):
    points = rng.normal(size=(20, 3))
    for features, text in [
        ((0, 3), "there is no feature 3; there are: \\[0, 1, 2\\]"),
        (("x", "y"), "there is no feature 'x'"),
        ((0, 1, 2), "features must be two columns or 'principal', found \\(0, 1, 2\\)"),
        ("first", "features must be two columns or 'principal', found 'first'"),
    ]:
        with pytest.raises(ValueError, match=text):
            plots.landmarks(points, points[:4], features)
    with pytest.raises(ValueError, match=r"landmarks have shape \(4, 2\), expected \(d, 3\)"):
        plots.landmarks(points, points[:4, :2])
    with pytest.raises(ValueError, match="the points have one feature"):
        plots.landmarks(points[:, :1], points[:4, :1])


class Classes:
    """Predictive probabilities of the second of two classes."""

    def __init__(self, p, classes):
        self.mean, self.classes = p, np.array(classes)


def test_reliability_shows_each_model_by_size(rng):
    sizes, p = np.repeat([1, 40], 500), rng.uniform(0, 1, 1000)
    y = np.where(rng.uniform(size=1000) < p, "yes", "no")
    models = {"right": Classes(p, ["no", "yes"]), "timid": Classes((1 + p) / 3, ["no", "yes"])}
    figure = plots.reliability(models, y, sizes, n_bins=4)
    left, right = figure.axes
    assert [ax.get_title() for ax in figure.axes] == ["1 point (500 bags)", "40 points (500 bags)"]
    assert left.get_ylabel() == 'share of "yes"'
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["right", "timid"]
    of = sizes == 40
    first, second = (c for c in right.collections if c.get_label() in models)
    predicted, observed = first.get_offsets().T
    assert len(predicted) == 4 and np.all(np.abs(predicted - observed) < 0.15)
    bins = (p[of] * 4).astype(int)
    np.testing.assert_allclose(
        observed, [np.mean(y[of][bins == k] == "yes") for k in range(4)]
    )
    areas = first.get_sizes()
    np.testing.assert_allclose(areas, 10 + 90 * np.bincount(bins) / 500)
    assert np.ptp(second.get_offsets()[:, 0]) < 0.5  # probabilities between 1/3 and 2/3


def test_reliability_needs_a_model():
    with pytest.raises(ValueError, match="there is no model to draw"):
        plots.reliability({}, [0, 1], [1, 2])


def test_missing_matplotlib_is_said(case, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (plots.calibration, plots.prediction_by_size):
        with pytest.raises(ImportError, match=r"plots need matplotlib.*pip install 'bdr-stan\[pl"):
            draw(*case)
