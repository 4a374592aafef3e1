"""What tests of several programs share."""

import pytest
from builders import reference

from bdr_stan.cmdstan.programs import compile_program


@pytest.fixture(scope="session")
def twin():
    """A plain program of regressions on embeddings with known moments."""
    return compile_program(reference.PLAIN, progress=False)
