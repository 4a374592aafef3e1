"""inference_data: groups with named dimensions and the object of the installed ArviZ."""

import numpy as np
import pytest
from builders.reference import elpd

from bdr_stan.results.inference_data import arviz, arviz_is_1, as_groups, build, dataset

DIMS = {"w": ["landmark"]}
COORDS = {"landmark": range(3), "bag": [f"county {i}" for i in range(12)]}


def test_dataset_names_axes_and_keeps_only_used_labels(rng):
    made = dataset({"w": rng.normal(size=(2, 5, 3)), "sigma": np.ones((2, 5))}, DIMS, COORDS)
    assert made["w"].dims == ("chain", "draw", "landmark")
    assert made["sigma"].dims == ("chain", "draw")
    assert set(made.coords) == {"chain", "draw", "landmark"}
    with pytest.raises(ValueError, match=r"'w' has shape \(2, 5\), expected axes \(chain, draw, l"):
        dataset({"w": np.ones((2, 5))}, DIMS, COORDS)


def test_build_gives_what_the_installed_arviz_works_on(groups):
    idata = build(groups)
    assert type(idata).__name__ == ("DataTree" if arviz_is_1() else "InferenceData")
    assert "posterior" in idata and idata.posterior["w"].sizes["landmark"] == 3
    for name, group in as_groups(idata).items():
        assert group.identical(groups[name])


@pytest.mark.filterwarnings("ignore")  # ArviZ's own
def test_arviz_functions_run(groups):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    az, idata = arviz(), build(groups)
    # With likelihoods of sd 0.1 around -1 in log, each bag's elpd is near -1.
    assert elpd(idata) == pytest.approx(-12, abs=0.5)
    assert len(az.summary(idata)) == 4
    assert float(az.rhat(idata)["sigma"]) == pytest.approx(1, abs=0.02)
    assert float(az.ess(idata)["sigma"]) > 500
    az.plot_trace(idata, var_names=["w"])
    (az.plot_ppc_dist if arviz_is_1() else az.plot_ppc)(idata)
    plt.close("all")
