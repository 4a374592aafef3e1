"""Kernels beside the plain functions of two points that they stand for."""

import numpy as np

from bdr_stan import kernels

# Value at the distance r, in units of the bandwidth.
PROFILES = {
    "rbf": lambda r: np.exp(-(r**2) / 2),
    "exponential": lambda r: np.exp(-r),
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
    "cauchy": lambda r: 1 / (1 + r**2),
    "rational quadratic": lambda r: 1 / (1 + r**2 / 2),
    "inverse multiquadric": lambda r: 1 / np.sqrt(1 + r**2),
    "student t": lambda r: 1 / (1 + r),
}
COLUMNS = ["a", "b", "c"]  # of the points
LENGTHS = np.array([0.5, 1.0, 3.0])


def at_distance(profile, bandwidth, columns=(0, 1, 2)):
    """The function k(x, y) of two points with this profile, one column after the other."""
    lengths = np.broadcast_to(bandwidth, len(columns))

    def value(x, y):
        return profile(np.sqrt(sum(((x[c] - y[c]) / b) ** 2 for c, b in zip(columns, lengths))))

    return value


def of_absolute_differences(lengths):
    return lambda x, y: np.exp(-sum(abs(a - b) / length for a, b, length in zip(x, y, lengths)))


def inner_product(x, y):
    return sum(a * b for a, b in zip(x, y))


# Kernel -> its definition; the kernels' columns are named.
DEFINITIONS = {
    **{
        name: (kernels.kernel_named(name, 0.9), at_distance(profile, 0.9))
        for name, profile in PROFILES.items()
    },
    **{
        f"{name}, a length a column": (
            kernels.kernel_named(name, LENGTHS),
            at_distance(profile, LENGTHS),
        )
        for name, profile in PROFILES.items()
    },
    "rational quadratic of alpha 3": (
        kernels.RationalQuadratic(2.0, alpha=3),
        at_distance(lambda r: (1 + r**2 / 6) ** -3, 2.0),
    ),
    "student t of degree 1.7": (
        kernels.StudentT(0.8, degree=1.7),
        at_distance(lambda r: 1 / (1 + r**1.7), 0.8),
    ),
    "variance": (
        kernels.Matern52(0.8, variance=2.5),
        lambda x, y: 2.5 * at_distance(PROFILES["matern52"], 0.8)(x, y),
    ),
    "polynomial": (
        kernels.Polynomial(3, 0.5, variance=2),
        lambda x, y: 2 * (inner_product(x, y) + 0.5) ** 3,
    ),
    "linear": (kernels.Linear(), inner_product),
    "laplace": (kernels.Laplace(0.9), of_absolute_differences([0.9, 0.9, 0.9])),
    "laplace, a length a column": (kernels.Laplace(LENGTHS), of_absolute_differences(LENGTHS)),
    "laplace of two columns": (
        kernels.Laplace([0.5, 2.0], columns=["c", "a"], variance=2.5),
        lambda x, y: 2.5 * of_absolute_differences([2.0, np.inf, 0.5])(x, y),
    ),
    "columns": (
        kernels.Cauchy(0.8, columns=["c", "a"]),
        at_distance(PROFILES["cauchy"], 0.8, columns=[2, 0]),
    ),
    "columns, a length each": (
        kernels.RBF([0.5, 2.0], columns=["c", "a"]),
        at_distance(PROFILES["rbf"], [0.5, 2.0], columns=[2, 0]),
    ),
    "sum": (
        kernels.RBF(0.7, columns=["a"], variance=3.0)
        + kernels.Matern32([0.5, 1.5], columns=["c", "b"]),
        lambda x, y: (
            3 * at_distance(PROFILES["rbf"], 0.7, [0])(x, y)
            + at_distance(PROFILES["matern32"], [0.5, 1.5], [2, 1])(x, y)
        ),
    ),
    "product": (
        kernels.RBF(0.7, columns=["a"], variance=3.0)
        * kernels.Cauchy([0.5, 1.5], columns=["c", "b"]),
        lambda x, y: (
            3
            * at_distance(PROFILES["rbf"], 0.7, [0])(x, y)
            * at_distance(PROFILES["cauchy"], [0.5, 1.5], [2, 1])(x, y)
        ),
    ),
    "sum of a product": (
        kernels.RBF(0.7, columns=["a"]) * kernels.Matern52(2.0, columns=["b", "c"], variance=3.0)
        + kernels.Exponential([0.5, 1.5], columns=["c", "a"]),
        lambda x, y: (
            3
            * at_distance(PROFILES["rbf"], 0.7, [0])(x, y)
            * at_distance(PROFILES["matern52"], 2.0, [1, 2])(x, y)
            + at_distance(PROFILES["exponential"], [0.5, 1.5], [2, 0])(x, y)
        ),
    ),
}
assert {*PROFILES, "laplace"} == set(kernels.KERNELS)


def kernel_and_definition(name):
    """One of `DEFINITIONS`, its columns as indices."""
    kernel, definition = DEFINITIONS[name]
    return kernel.on(COLUMNS, len(COLUMNS)), definition


def gram(definition, x, y):
    """Values of a plain function between two stacks of points, shape (n, m), in long double."""
    x, y = np.asarray(x, np.longdouble), np.asarray(y, np.longdouble)
    return np.array([[definition(a, b) for b in y] for a in x])


def composed():
    """A sum of a product and a kernel, columns named."""
    return DEFINITIONS["sum of a product"][0]
