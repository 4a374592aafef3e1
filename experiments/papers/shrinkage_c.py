"""Shrinkage C of Law et al. (2018): the prior of the embeddings is a convolution of the kernel."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from bdr_stan import RBF, Shrinkage
from bdr_stan.kernels import Kernel, check_bandwidth
from bdr_stan.models.embedding_model import penalised_evidence
from bdr_stan.parameters import estimator
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.types import Array, ArrayLike

# Range of the search for the measure scale, in logarithms of the ratio to the landmarks' spread:
# from a seventh to twenty times that. The evidence hardly changes within a twentieth.
LOG_RATIO_RANGE = (-2.0, 3.0)
LOG_RATIO_TOLERANCE = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Convolution(Kernel):
    """r(x, y), the integral of k(x, z) k(z, y) over z with weight exp(-|z - c|^2 / (2 l^2)).

    k is `kernel`, an `RBF` with numbers; c is `centre`, shape (p,), and l `measure_scale`, both in
    units of the points, or of the kernel if it has units.
    """

    kernel: Any
    centre: Any
    measure_scale: float
    variance: float = 1.0

    @classmethod
    def around(cls, landmarks: Array, kernel: Any, measure_scale: float) -> "Convolution":
        """With the mean of landmarks, shape (d, p), as the centre."""
        return cls(kernel, kernel.in_units(landmarks).mean(axis=0), measure_scale)

    def prepare(self, landmarks: ArrayLike) -> Array:
        return self.kernel.in_units(np.asarray(landmarks)) - self.centre

    def fill(self, points: Array, prepared: Array, out: Array) -> None:
        k = self.kernel
        x = self.prepare(points)
        out[:] = k.variance**2 * rbf_convolution(x, prepared, k.bandwidth, self.measure_scale)

    def diagonal(self, x: ArrayLike) -> Array:
        return np.array([self(point[None], point[None])[0, 0] for point in np.asarray(x)])


@estimator
class ShrinkageC(Shrinkage):
    """`Shrinkage` with the convolution of its kernel as the prior covariance of the embeddings.

    Parameters
    ----------
    kernel : "rbf" or RBF, default "rbf"
    measure_scale : float or "evidence", default "evidence"
        l of `Convolution`, in the units of the points; with bandwidth "scaled" in standard
        deviations of the columns. "evidence": the l of highest evidence. It is not a parameter of
        the Stan program because the joint basis, which makes gradients cheap, depends on it.

    Attributes
    ----------
    measure_scale_ : float
        The l that was used.
    convolution_ : Convolution
        The prior, as `embedding_prior` of `Shrinkage` with the same kernel and landmarks.

    Notes
    -----
    Source: Law et al. (2018), section 5 and Appendix A.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.papers.shrinkage_c import ShrinkageC
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(n, 1)) for mean, n in zip(y, [2, 60] * 20)]
    >>> bool(ShrinkageC(n_landmarks=6).fit(bags, y, seed=1).measure_scale_ > 0)
    True
    """

    kernel: str | Kernel = "rbf"
    _: KW_ONLY
    measure_scale: float | str = "evidence"

    def _model_by(self, model, training, *arguments, **options):
        """The model of the given scale, or of the scale of highest evidence."""

        def model_at(scale):
            return model.of_training(
                training,
                *arguments,
                embedding_prior=Convolution.around(training.landmarks, training.kernel, scale),
                prior_mean=self.prior_mean,
                chosen={"measure_scale": (scale, [])},
                **options,
            )

        scale = self.measure_scale
        if isinstance(scale, str):
            landmarks = training.kernel.in_units(training.landmarks)
            scale = scale_of_highest_evidence(model_at, landmarks)
        return model_at(scale)

    def _set_fitted(self, result):
        super()._set_fitted(result)
        self.measure_scale_ = float(result.constants["measure_scale"])
        self.convolution_ = Convolution.around(self.landmarks_, self.kernel_, self.measure_scale_)

    def check_parameters(self) -> None:
        super().check_parameters()
        if not (self.kernel == "rbf" or isinstance(self.kernel, RBF)):
            raise ValueError(
                f"ShrinkageC has the kernel 'rbf' or an RBF only, found {self.kernel!r}"
            )
        if self.embedding_prior != "empirical":
            raise ValueError("embedding_prior of ShrinkageC is its convolution: leave it out")
        if self.measure_scale != "evidence":
            check_bandwidth(self.measure_scale, "measure_scale", n_features=1)


def scale_of_highest_evidence(model_at: Any, landmarks: Array) -> float:
    """Measure scale of highest evidence; landmarks, in units of the kernel, of shape (d, p)."""
    spread = np.sqrt(landmarks.var(axis=0).mean())

    def objective(log_ratio):
        model = model_at(spread * np.exp(log_ratio))
        return -penalised_evidence(model, *most_probable_scales(model)[:2])

    best = minimize_scalar(
        objective, bounds=LOG_RATIO_RANGE, method="bounded", options={"xatol": LOG_RATIO_TOLERANCE}
    )
    return float(spread * np.exp(best.x))


def rbf_convolution(
    x: ArrayLike, y: ArrayLike, bandwidth: ArrayLike, measure_scale: ArrayLike
) -> Array:
    """Convolution r(x, y) = integral of k(x, z) k(z, y) exp(-|z|^2 / (2 l^2)) dz, k = `RBF`.

    It is a product over the features; with s and l the lengths of a feature, its factor is

        r(x, y) = sqrt(2 pi / (2/s^2 + 1/l^2))
                  exp(-(x - y)^2 / (4 s^2)) exp(-(x + y)^2 / (8 (s^2/2 + l^2)))

    of points x, shape (n, p), and y, (m, p), centred beforehand, as l is the scale of the measure
    around the origin; s and l are numbers or of shape (p,), in the units of the points.

    Source: Flaxman et al. (2016), "Bayesian learning of kernel embeddings", section 4.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    p = x.shape[1]
    check_bandwidth(bandwidth, n_features=p)
    check_bandwidth(measure_scale, "measure_scale", n_features=p)
    s, l = np.asarray(bandwidth), np.asarray(measure_scale)
    height = np.sqrt(np.prod(np.broadcast_to(2 * np.pi / (2 / s**2 + 1 / l**2), p)))
    of_difference = RBF(np.sqrt(2) * s)(x, y)
    of_sum = RBF(2 * np.sqrt(s**2 / 2 + l**2))(x, -y)
    return height * of_difference * of_sum
