"""Colours, axes and titles of all plots; matplotlib is imported when a plot is drawn."""

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from bdr_stan.bags.checks import as_vector
from bdr_stan.extras import require
from bdr_stan.metrics import Prediction, size_classes
from bdr_stan.types import Array, ArrayLike, Axes

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

COVERS, MISSES, GUIDE = "#0072B2", "#D55E00", "0.6"  # of Okabe and Ito, for colour-blind readers
MODELS = (MISSES, COVERS, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP"  # one shape per colour, for black-and-white prints
FEW_BAGS = 20  # below it a share can have a standard error above 0.11


def pyplot() -> ModuleType:
    """matplotlib.pyplot, imported late; ImportError with the install command if it is missing."""
    require(
        "plots need matplotlib, which is not installed: pip install 'bdr-stan[plots]'",
        "matplotlib.pyplot",
    )
    import matplotlib.pyplot as plt

    return plt


def names_as_written(draw: F) -> F:
    """Decorate a function that draws names of users: "$" in a name begins no formula."""

    @functools.wraps(draw)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        with pyplot().rc_context({"text.parse_math": False}):
            return draw(*args, **kwargs)

    return cast(F, drawn)


def shades(n: int) -> Array:
    """Colours of n ordered classes, shape (n, 4), of contrast 3 with white or, inverted, black."""
    return pyplot().get_cmap("viridis")(np.linspace(0.05, 0.6, n))


def panels(n_rows: int, n_columns: int) -> Array:
    """A grid of Axes on common scales, shape (n_rows, n_columns)."""
    _, axes = pyplot().subplots(
        n_rows,
        n_columns,
        figsize=(2.6 * n_columns + 0.9, 2.6 * n_rows + 0.6),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    return axes


def diagonal(ax: "Axes", limits: tuple[float, float]) -> None:
    """Draw the dashed line y = x."""
    ax.plot(limits, limits, "--", color=GUIDE, lw=1, zorder=0)


def one_axes(size: tuple[float, float] = (4.5, 4.5)) -> "Axes":
    """Axes of a new figure, size in inches."""
    return pyplot().subplots(figsize=size, layout="constrained")[1]


def size_title(name: str, n: int | None = None) -> str:
    """Title of a class of bag sizes, with its number of bags."""
    title = f"{name} point" if name == "1" else f"{name} points"
    return title if n is None else f"{title} ({n} bags)"


def of_each_model(predictives: Any, table: Callable[[Prediction], T]) -> dict[str, T]:
    """``table(predictive)`` by the names of models; raises unless the predictives are so named."""
    if not isinstance(predictives, Mapping):
        raise TypeError(
            "predictives must be a dict from the names of models to predictive distributions, such "
            f'as {{"BDR": model.predictive(bags)}}, found a {type(predictives).__name__}'
        )
    if not predictives:
        raise ValueError("there is no model to draw: pass at least one predictive")
    return {name: table(predictive) for name, predictive in predictives.items()}


def titled_classes(
    sizes: ArrayLike | None, edges: ArrayLike | None, n_bags: int
) -> dict[str, Array]:
    """Title and mask, shape (n_bags,), of each class of bag sizes; without sizes, of all bags."""
    if sizes is None:
        return {"all bags": np.ones(n_bags, bool)}
    classes = size_classes(as_vector(sizes, n_bags, "sizes", "bag"), edges)
    return {size_title(name, mask.sum()): mask for name, mask in classes.items()}
