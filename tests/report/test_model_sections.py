"""The appendix on how to reproduce a fit."""

import numpy as np

from bdr_stan import BLR
from bdr_stan.cmdstan.programs import eject


def test_paths_are_texts_in_the_call(tmp_path):
    program = tmp_path / "mine.stan"
    eject("blr", program)
    y = np.random.default_rng(0).normal(size=12)
    bags = [np.full((3, 1), mean) for mean in y]
    model = BLR(4, method="laplace", engine="stanli", stan_file=program).fit(bags, y, seed=1)
    model.report_html(tmp_path / "fit.html", bags)
    page = (tmp_path / "fit.html").read_text()
    assert "PosixPath" not in page and f"stan_file=&#39;{program}&#39;" in page
