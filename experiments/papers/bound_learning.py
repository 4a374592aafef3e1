"""Landmarks and length scales of a rate f^2, learned by the variational bound, all by one gradient.

The bound of VBAgg is maximised over landmarks u, length scales l of an RBF kernel, mean and factor
of the Gaussian of theta = [w; f0], and its scale rho together, by L-BFGS. Law et al. (2018),
section 3.3, do this by stochastic gradients. With rows phi_j = [psi(x_j), 1], h_j = phi_j' m and
u_j = F' phi_j a bag's total has, with G_a = sum_j p_j u_j u_j' and g_a = sum_j p_j h_j u_j,

    M_a = sum_j p_j (h_j^2 + |u_j|^2)        V_a = 4 |g_a|^2 + 2 |G_a|^2
    dM_a = 2 sum_j p_j (h_j dh_j + u_j' du_j)
    dV_a = 8 sum_j p_j (g_a' u_j dh_j + (h_j g_a + G_a u_j)' du_j)

The features are psi = k L'^-1, K = L L'; with A the slope in psi, B = A L^-1 is the slope in k, and
the slope in K is the symmetric part of -L'^-1 Phi(L' T) L^-1, T the lower triangle of B'psi and Phi
halving the diagonal of a lower triangle.

Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian processes",
section 3.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from bdr_stan.aggregate.densities import Totals
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.variational import divergence_from_prior, variational_posterior
from bdr_stan.bags import Bags
from bdr_stan.kernels import RBF, FieldFeatures
from bdr_stan.kernels.feature_maps import NYSTROM_JITTER
from bdr_stan.labels import Labels
from bdr_stan.models.aggregate import aggregate_model
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array
from experiments.learned_landmarks import kernel_slopes

# A search with held-out bags ends after this many steps without a smaller loss of theirs.
PATIENCE = 25


@dataclass(frozen=True)
class Learned:
    """Landmarks and kernel at the end of a search, and the bound there."""

    landmarks: Array  # shape (d, p)
    kernel: RBF  # with a length scale per column
    bound: float  # on the log evidence given rho, with all constants
    steps: int


def learn_by_bound(
    bags: Bags,
    y: Array,
    landmarks: Array,
    lengths: Array,
    *,
    held_out: tuple[Bags, Array] | None = None,
    max_iter: int = 200,
) -> Learned:
    """Landmarks and length scales of the highest bound near those given, for Poisson counts.

    With `held_out`, bags and counts, the step at which these have the smallest negative log density
    at their mean totals counts, and the search ends 25 steps after it.
    """
    search = _Search.at(bags, y, landmarks, lengths)
    x, losses, steps = search.start, [], []

    def watch(x):
        held_out_bags, counts = held_out
        losses.append(search.loss_of(held_out_bags, counts, x))
        steps.append(x.copy())
        if len(losses) - 1 - np.argmin(losses) > PATIENCE:
            raise StopIteration

    with limited_blas():
        end = minimize(
            search.objective,
            x,
            jac=True,
            method="L-BFGS-B",
            callback=None if held_out is None else watch,
            options={"maxiter": max_iter, "maxcor": 20, "maxfun": 2 * max_iter},
        )
    best = end.x if held_out is None else steps[int(np.argmin(losses))]
    u, lengths, mean, factor, log_rho = search.unpacked(best)
    bound = search.bound(u, lengths, mean, factor, log_rho)[0]
    return Learned(u, RBF(lengths), bound, end.nit if held_out is None else int(np.argmin(losses)))


@dataclass(frozen=True)
class _Search:
    """The bound as a function of one vector x, whose first numbers are landmarks and lengths.

    Landmarks are in units of the first lengths, lengths relative to these, the Gaussian relative to
    the one that is best at the start: mean and lower factor of t, theta = centre + spread t.
    """

    bags: Bags
    totals: Totals
    priors: dict[str, float]
    first_landmarks: Array
    first_lengths: Array
    centre: Array
    spread: Array
    first_log_rho: float

    @classmethod
    def at(cls, bags, y, landmarks, lengths):
        totals = Totals(Labels(np.asarray(y, float)), LIKELIHOODS["poisson"], LINKS["square"])
        features = FieldFeatures(RBF(lengths), landmarks)
        model = aggregate_model(totals.link.rows(bags, features), totals)
        scales, mode, _ = most_probable_scales(model)
        gaussian = variational_posterior(
            model.rows, totals, priors=model.priors, rho=scales["rho"], mode=mode
        )
        log_rho = float(np.log(gaussian.rho))
        return cls(bags, totals, model.priors, landmarks, lengths, gaussian.mean, gaussian.factor,
                   log_rho)  # fmt: skip

    @property
    def start(self):
        D = len(self.centre)
        u = (self.first_landmarks / self.first_lengths).ravel()
        zeros = np.zeros(len(self.first_lengths) + D + D * (D + 1) // 2)
        return np.concatenate([u, zeros, [self.first_log_rho]])

    def unpacked(self, x):
        """Landmarks, lengths, mean and factor of theta, and log rho."""
        (d, p), D = self.first_landmarks.shape, len(self.centre)
        u, log_ratios, t, packed, log_rho = np.split(x, np.cumsum([d * p, p, D, D * (D + 1) // 2]))
        return (
            u.reshape(d, p) * self.first_lengths,
            self.first_lengths * np.exp(log_ratios),
            self.centre + self.spread @ t,
            self.spread @ _triangle(packed, D),
            log_rho.item(),
        )

    def objective(self, x):
        """Minus the bound and the log prior density of log rho, and its slope in x."""
        D = len(self.centre)
        u, lengths, mean, factor, log_rho = self.unpacked(x)
        value, by_u, by_log_lengths, by_mean, by_factor, by_log_rho = self.bound(
            u, lengths, mean, factor, log_rho
        )
        deviation = (log_rho - np.log(self.priors["rho_median"])) / self.priors["rho_log_sd"]
        by_triangle = self.spread.T @ by_factor
        triangle = _triangle(x[-1 - D * (D + 1) // 2 : -1], D)
        by_triangle[np.diag_indices(D)] *= triangle.diagonal()
        slope = np.concatenate(
            [
                (by_u * self.first_lengths).ravel(),
                by_log_lengths,
                self.spread.T @ by_mean,
                by_triangle[np.tril_indices(D)],
                [by_log_rho - deviation / self.priors["rho_log_sd"]],
            ]
        )
        return 0.5 * deviation**2 - value, -slope

    def bound(self, u, lengths, mean, factor, log_rho):
        """The bound, and its slopes in landmarks, log lengths, mean, factor and log rho."""
        kernel = RBF(lengths)
        L, k, psi = _features(kernel, u, self.bags.points)
        X = np.column_stack([psi, np.ones(len(psi))])
        value, by_X, by_mean, by_factor = self._expected(X, mean, factor)
        divergence, *slopes = divergence_from_prior(mean, factor, log_rho, self.priors)
        by_k = solve_triangular(L, by_X[:, :-1].T, lower=True, trans="T").T
        by_K = _slope_in_gram(L, -np.tril(by_k.T @ psi))
        moves, stretches = kernel_slopes(by_k * k, self.bags.points, u, lengths)
        of_gram = kernel_slopes(by_K * kernel(u, u), u, u, lengths)
        # Each landmark has a row and a column of the symmetric matrix.
        return (
            value - divergence,
            (moves + 2 * of_gram[0]) / lengths,
            stretches + of_gram[1],
            by_mean - slopes[0],
            by_factor - slopes[1],
            -slopes[2],
        )

    def _expected(self, X, mean, factor):
        """Expected log density of the counts, and its slopes in the rows X, mean and factor."""
        p, start, bag = self.bags.point_weights, self.bags.offsets[:-1], _bag_of_points(self.bags)
        h, U = X @ mean, X @ factor
        total, G, g = _moments(p, h, U, start)
        variance = 4 * np.sum(g**2, axis=1) + 2 * np.sum(G**2, axis=(1, 2))
        terms = self.totals.likelihood.expected_terms["square"]
        value, by_total, by_variance = terms(self.totals.y, total, variance)
        along_g = np.einsum("jk,jk->j", U, g[bag])
        along_G = np.concatenate(
            [U[a:b] @ G_a for a, b, G_a in zip(start, self.bags.offsets[1:], G, strict=True)]
        )
        by_total, by_variance = p * 2 * by_total[bag], p * 8 * by_variance[bag]
        by_h = by_total * h + by_variance * along_g
        along_G += h[:, None] * g[bag]
        by_U = by_total[:, None] * U + by_variance[:, None] * along_G
        value = value.sum() + self.totals.likelihood.constant(self.totals.y)
        return value, np.outer(by_h, mean) + by_U @ factor.T, X.T @ by_h, X.T @ by_U

    def loss_of(self, bags, y, x):
        """Mean negative log density, but for log y!, of counts at the mean totals of their bags."""
        u, lengths, mean, factor, _ = self.unpacked(x)
        psi = _features(RBF(lengths), u, bags.points)[2]
        X = np.column_stack([psi, np.ones(len(psi))])
        rates = (X @ mean) ** 2 + np.sum((X @ factor) ** 2, axis=1)
        totals = bags.sums(bags.point_weights * rates)
        return np.mean(totals - y * np.log(totals))


def _triangle(packed, D):
    """Lower triangle from its entries row by row, the diagonal's as logarithms."""
    T = np.zeros((D, D))
    T[np.tril_indices(D)] = packed
    T[np.diag_indices(D)] = np.exp(T.diagonal())
    return T


def _features(kernel, u, points):
    """Factor L of the landmarks' kernel matrix, kernel k at points, (T, d), and psi = k L'^-1."""
    gram = kernel(u, u)
    L = cholesky(gram + NYSTROM_JITTER * np.eye(len(u)), lower=True)
    k = kernel(points, u)
    return L, k, solve_triangular(L, k.T, lower=True).T


def _slope_in_gram(L, by_L):
    """Slope in K = L L' from the slope in its lower factor L."""
    half = np.tril(L.T @ by_L)
    half[np.diag_indices(len(L))] /= 2
    inner = solve_triangular(L, half, lower=True, trans="T")
    outer = solve_triangular(L, inner.T, lower=True, trans="T").T
    return (outer + outer.T) / 2


def _moments(p, h, U, start):
    """M_a, G_a and g_a of every bag."""
    scaled = p[:, None] * U
    blocks = zip(np.split(scaled, start[1:]), np.split(U, start[1:]), strict=True)
    G = np.array([scaled_a.T @ U_a for scaled_a, U_a in blocks])
    total = np.add.reduceat(p * h**2 + np.einsum("ij,ij->i", scaled, U), start)
    return total, G, np.add.reduceat(scaled * h[:, None], start)


def _bag_of_points(bags):
    return np.repeat(np.arange(len(bags)), bags.sizes)
