"""Bags as hypothesis draws them: of one point or several, narrow or wide, with ties."""

import numpy as np
from hypothesis import strategies as st

from bdr_stan import Bags
from builders.problems import NAMES

# Within-bag standard deviations, where centres are standard normal.
SPREADS = 1e-3, 0.1, 1.0, 4.0


@st.composite
def bags(draw, n=(1, 6), largest=7, spreads=SPREADS):
    """Bags of two named columns; from n[0] to n[1] of them, of 1 to `largest` points.

    Hypothesis draws what a case is made of, the sizes, the spread and whether points coincide; the
    numbers themselves come from a seed that it draws, too.
    """
    sizes = np.array(draw(st.lists(st.integers(1, largest), min_size=n[0], max_size=n[1])))
    spread, with_ties = draw(st.sampled_from(spreads)), draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = np.repeat(rng.normal(size=(len(sizes), 2)), sizes, axis=0)
    points += spread * rng.normal(size=points.shape)
    if with_ties:
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)  # of the same bag
        again = rng.random(len(points)) < 0.3
        points[again] = points[first[again]]
    return Bags.from_points(points, sizes=sizes, features=NAMES)


@st.composite
def generators(draw):
    """A NumPy generator of random numbers."""
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
