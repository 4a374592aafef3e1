"""Problems that tests of several models share."""

import numpy as np
import pytest
from builders import curves

from bdr_stan.embedding.label_functions import functions_of_classes


@pytest.fixture(params=["numbers", "classes"])
def problem(rng, request):
    """Embeddings given the label, of numbers and of three classes."""
    codes = rng.permutation(np.arange(24) % 3)
    has_classes = {"functions": functions_of_classes(3), "labels": codes}
    return curves.draw_problem(rng, **(has_classes if request.param == "classes" else {}))
