"""Parameters of a kernel, learned from totals of bags by maximising the evidence.

The slope of the evidence in a point's row phi_j = [psi_j, 1] has a closed form, so all parameters
share one search for the mode; how the rows change with a parameter is a difference of two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bdr_stan.aggregate.densities import Totals, aggregate_likelihood
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.kernels import Kernel, fields_of
from bdr_stan.kernels.feature_maps import slices_of
from bdr_stan.posterior.mode import Mode, blas_threads, find_mode
from bdr_stan.posterior.scales import ModeStarts, minimum_in_boxes
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

# Prior sds of the parameters' logarithms around their start: of lengths, and of variances, as many
# of the fields of a sum may have next to none.
_LOG_SD, _LOG_SD_OF_VARIANCES = 1.5, 3.0
_LOG_STEP = 1e-3  # of differences, on the log scale
_MODE_STEP_TOLERANCE = 1e-9
_EVIDENCE_TOLERANCE = 1e-5  # relative gain in evidence below which the search ends


def learn_kernel(
    kernel: Kernel,
    rows_at: Callable[[Kernel], AggregateRows],
    totals: Totals,
    *,
    intercept_prior: tuple[float, float],
    scales: Mapping[str, float],
    log_prior: Callable[..., float],
    together: Array | None = None,
) -> Kernel:
    """The kernel with the parameters under which the labels have the highest evidence.

    The search begins at `kernel` and at `scales` (rho and the likelihood's); `log_prior` is of
    their logarithms. Each parameter's logarithm has the prior N(start, 1.5^2), variances N(start,
    3^2). `rows_at` returns the bags' rows of a kernel, or of one of its fields. Parameters of one
    number in `together` keep their ratios. Warns if the search ends at its start.
    """
    log_parameters = kernel.log_parameters
    groups = np.arange(len(log_parameters)) if together is None else together
    first = np.unique(groups, return_index=True)[1]
    start = log_parameters[first]
    ratios = log_parameters - start[groups]
    n, names = len(start), list(scales)
    are_variances = [kernel.parameter_names[k].endswith("variance") for k in first]
    log_sds = np.where(are_variances, _LOG_SD_OF_VARIANCES, _LOG_SD)
    blocks = _Blocks(kernel, rows_at)
    starts = ModeStarts()  # with the square link there are several modes

    def kernel_at(x):
        return kernel.with_log_parameters(x[:n][groups] + ratios)

    def value_at(rows, x, theta):
        values = dict(zip(names, np.exp(x[n:]).tolist(), strict=True))
        exact = rows.weights is None
        density = aggregate_likelihood(rows, totals, exact_curvature=exact, **values)
        prior_factor, rho = np.eye(rows.rows.shape[1] - 1), values["rho"]
        mode = find_mode(
            density, prior_factor, intercept_prior, rho=rho, start=theta, tol=_MODE_STEP_TOLERANCE
        )
        return mode.log_evidence + log_prior(**values), mode, values

    def objective(x):
        kernel_of_x, nearest_mode = kernel_at(x), starts.nearest(x)
        rows, roots = rows_at(kernel_of_x), blocks.roots(kernel_of_x)
        theta = None if nearest_mode is None else nearest_mode / roots
        value, mode, values = value_at(rows, x, theta)
        slopes = slope_in_rows(rows, totals, mode, **values)

        def along(i, up, down):
            """Difference of the evidence and the prior of the scales between two x near by."""
            if i < n:
                return blocks.change(slopes, kernel_at(up), kernel_at(down))
            if names[i - n] != "rho":
                return np.subtract(*(value_at(rows, x, mode.theta)[0] for x in (up, down)))
            # In the evidence rho is a factor of the features.
            priors = (log_prior(**values | {"rho": float(np.exp(x[i]))}) for x in (up, down))
            growth = slopes.by_log_factor(slice(-1), rows.residual_variance)
            return growth * (up[i] - down[i]) + np.subtract(*priors)

        steps = _LOG_STEP * np.eye(len(x))
        slope = np.array([along(i, x + step, x - step) for i, step in enumerate(steps)])
        slope /= 2 * _LOG_STEP
        deviation = (x[:n] - start) / log_sds
        slope[:n] -= deviation / log_sds
        loss = 0.5 * deviation @ deviation - value
        starts.add(x, mode.theta * roots, loss)
        return loss, -slope

    x0 = np.append(start, np.log(list(scales.values())))
    with limited_blas(blas_threads(blocks.slices[-1].stop)):
        best = minimum_in_boxes(objective, x0, jac=True, ftol=_EVIDENCE_TOLERANCE, maxiter=100)
        if np.array_equal(best, x0):
            _warn_of_no_gain(*objective(x0))
    return kernel_at(best)


class _Blocks:
    """Columns of the points' rows that belong to the fields of a kernel."""

    def __init__(self, kernel, rows_at):
        self.rows_at = rows_at
        self.slices = slices_of(rows_at(field).rows.shape[1] - 1 for field in fields_of(kernel))

    def roots(self, kernel):
        """Root of the variance of each weight's field, and 1 for the intercept, (d + 1,)."""
        roots = np.ones(self.slices[-1].stop + 1)
        for block, field in zip(self.slices, fields_of(kernel), strict=True):
            roots[block] = np.sqrt(field.variance)
        return roots

    def change(self, slope, up, down):
        """Difference of the evidence of two kernels near by, from its slope in the rows."""
        change = 0.0
        for block, a, b in zip(self.slices, fields_of(up), fields_of(down), strict=True):
            if not np.array_equal(a.log_parameters, b.log_parameters):
                above, below = self.rows_at(a), self.rows_at(b)
                change += slope.along((above.rows - below.rows)[:, :-1], block)
                if slope.by_residual_variance is not None:
                    change += slope.by_residual_variance @ (
                        above.residual_variance - below.residual_variance
                    )
            elif a.variance != b.variance:  # features go with its root
                growth = np.log(a.variance / b.variance) / 2
                uses_variance = slope.by_residual_variance is not None
                residual_variance = self.rows_at(a).residual_variance if uses_variance else None
                change += growth * slope.by_log_factor(block, residual_variance)
        return change


def _warn_of_no_gain(loss, slope):
    """Warn if a search ended at its start, though the evidence rises from there."""
    if np.abs(slope).max() > _EVIDENCE_TOLERANCE * (1 + abs(loss)):
        warn(
            "the search for the kernel's parameters ended where it began, though the evidence "
            "rises from there: start from other lengths (bandwidth_scale), or keep them as they "
            "are with learn_kernel=False"
        )


@dataclass(frozen=True)
class SlopeInRows:
    """Slope of the log evidence in row j of bag a: by_f[j] theta + slopes[j] by_slope[a]."""

    rows: AggregateRows
    theta: Array  # shape (d + 1,)
    by_f: Array  # shape (T,)
    slopes: Array  # shape (T,)
    by_slope: Array  # shape (n, d + 1)
    by_residual_variance: Array | None  # slope in each bag's residual variance, shape (n,)

    def by_log_factor(self, columns: slice, residual_variance: Array | None) -> float:
        """Slope in the log of a factor on these columns; `residual_variance` has its square."""
        growth = self.along(self.rows.rows[:, columns], columns)
        if residual_variance is None:
            return growth
        return growth + 2 * float(self.by_residual_variance @ residual_variance)

    def along(self, change: Array, columns: slice) -> float:
        """How the evidence changes with a small change of these columns of the rows, (T, k)."""
        of_bags = self.rows.combined(self.slopes, change)
        by_means = self.by_f @ (change @ self.theta[columns])
        return by_means + np.vdot(self.by_slope[:, columns], of_bags)


def slope_in_rows(
    rows: AggregateRows, totals: Totals, mode: Mode, *, rho: float = 0.0, **scales: float
) -> SlopeInRows:
    """Slope of the log evidence in the entries of the points' rows, the mode following them.

    H is the Fisher information plus prior precision and C the curvature of the log posterior. g_a
    is the slope of bag a's mean in theta; l_a, i_a and c_a are its label's log density, information
    and curvature in the mean. With h the slope of log |H| in theta and v = -C^-1 h / 2,

        d log evidence = sum_a [ l_a' - i_a' g_a' H^-1 g_a / 2 - c_a v'g_a ] d lambda_a
                         + (l_a' v - i_a H^-1 g_a)' d g_a
    """
    X, theta, H, link = rows.rows, mode.theta, mode.precision, totals.link
    bag, shares = rows.bag, link.shares(rows)
    rates, slopes, curvatures = (shares * part for part in link.derivatives(X @ theta))
    means = np.add.reduceat(rates, rows.start) + link.residual_mean(rows, rho)
    _, score, information, curvature, change = totals.density(rows, **scales)(means)
    g = rows.combined(slopes)
    solved = np.linalg.solve(H, g.T).T
    spread = np.sum(g * solved, axis=1)
    h = g.T @ (change * spread)
    h += 2 * X.T @ (information[bag] * curvatures * rows.along(solved))
    density = aggregate_likelihood(rows, totals, exact_curvature=True, rho=rho, **scales)
    fisher, hessian = density(theta)[2:]
    C = H + hessian - fisher  # both have the prior's precision
    v = -0.5 * np.linalg.solve(C, h)
    by_mean = score - 0.5 * change * spread - curvature * (g @ v)
    by_slope = score[:, None] * v - information[:, None] * solved
    by_f = by_mean[bag] * slopes + curvatures * rows.along(by_slope)
    by_residual_variance = None if rows.residual_variance is None else by_mean * rho**2
    return SlopeInRows(rows, theta, by_f, slopes, by_slope, by_residual_variance)
