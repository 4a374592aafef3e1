"""Programs stop at data that their types allow but that make no sense, with a sentence."""

import numpy as np
import pytest

from bdr_stan.families import FAMILIES, TIMES
from bdr_stan.posterior import sampling
from bdr_stan.posterior.model import StanInput
from bdr_stan.posterior.settings import SamplerSettings

LAST = max(family.program_number for family in {**FAMILIES, **TIMES}.values())
WHITENING = {
    "information": [0.0, 0.0],
    "linear_term": [0.0, 0.0],
    "axes": [[1.0, 0.0], [0.0, 1.0]],
    "intercept_centre": 0.0,
    "intercept_slope": [0.0, 0.0],
    "intercept_unit": 1.0,
    "gamma_centre": [],
    "gamma_slope": [],
    "gamma_unit": [],
}
PRIORS = {
    "intercept_location": 0.0,
    "intercept_scale": 1.0,
    "gamma_scale": 1.0,
    "rho_median": 1.0,
    "rho_log_sd": 0.5,
    "use_likelihood": 1,
}
OF_SIGMA = {
    "sigma_scale": 1.0,
    "sigma_point_scale": 1.0,
    "size_noise": 0,
    "known_variance": [0.0, 0.3],
}
OF_ETA = {"eta_median": 1.0, "eta_log_sd": 0.5}
NO_TERMS = {"B": 0, "U": 0, "L": 0, "term_columns": [[], [], [], []], "intercept_share": 1.0} | {
    name: []
    for name in (
        *("n_effects", "n_columns", "squared_frequency", "term_sd_location", "term_sd_scale"),
        *("term_length_median", "term_length_log_sd"),
        *("effect_information", "effect_linear_term", "cross_theta", "effect_cross"),
        "intercept_by_term",
    )
}
NO_MODE_SHIFT = {"scale_at_mode": [1.0, 1.0], "mode_shift": [[0.0, 0.0]] * 3}
Z = [[0.3, -0.2], [0.1, 0.5], [-0.4, 0.1], [0.0, -0.4]]
LABELS = [0.2, 1.3, -0.7, 0.4]
NONE = [[], [], [], []]  # covariates
ROWS = np.column_stack([Z, np.ones(4), LABELS]).tolist()
GROUPS = {"G": 2, "bag_size": [3.0, 8.0], "start": [1, 3], "length": [2, 2]}
EMBEDDINGS = {"lambda": [0.5, 0.2], "prior_factor": [[1.0, 0.3], [0.0, 1.0]]}
COUNTS = {
    "family": 5,
    "n_scales": 0,
    "scale_location": [],
    "scale_prior": [],
    "trials": [4, 4, 4, 4],
    "event": [1.0, 1.0, 1.0, 1.0],
    "entry": [0.0, 0.0, 0.0, 0.0],
    "known_part": [0.0, 0.0, 0.0, 0.0],
    "uncertain": 1,
    "label_information": [0.5, 0.5, 0.5, 0.5],
    "label_variance": [0.0, 0.0, 0.0, 0.0],
    "label_centre": [0.0, 0.0, 0.0, 0.0],
}
ONE_SAMPLE = {
    "M": 1,
    "sample": [1, 1],
    "bag_size": [[3.0, 8.0]],
    "rho_median": [1.0],
    "eta_median": [1.0],
    "eta_log_sd": [0.5],
    "block_cross": [[0.0, 0.0], [0.0, 0.0]],
}
# Four bags at two landmarks; those of points of two sizes in two groups.
DATA = {
    "blr": {"D": 2, "Q": 0, "T": 4, "rows": ROWS, "n_bags": [2, 2], "sign": [1, 1]}
    | (GROUPS | WHITENING | PRIORS | OF_SIGMA | NO_TERMS),
    "blr_logit": {"N": 4, "D": 2, "Q": 0, "z": Z, "x": NONE, "y": [0, 1, 1, 0]}
    | WHITENING
    | PRIORS,
    "bdr": {"D": 2, "Q": 0, "T": 4, "rows": ROWS, "n_bags": [2, 2], "sign": [1, 1]}
    | (GROUPS | EMBEDDINGS | WHITENING | PRIORS | OF_SIGMA | OF_ETA | NO_MODE_SHIFT)
    | NO_TERMS,
    "bdr_probit": {"N": 4, "D": 2, "Q": 0, "z": Z, "x": NONE, "y": [0, 1, 1, 0]}
    | (GROUPS | EMBEDDINGS | WHITENING | PRIORS | OF_ETA | {"latent_spread": 0.0}),
    "bdr_glm": {"N": 4, "D": 2, "Q": 0, "z": Z, "x": NONE, "y": [0.0, 3.0, 1.0, 2.0]}
    | {"K": 0, "node": [], "log_node_weight": []}
    | (GROUPS | EMBEDDINGS | WHITENING | PRIORS | COUNTS | NO_TERMS | ONE_SAMPLE),
}
SCALES = {
    "blr": {"sigma": 1.0, "rho": 1.0},
    "blr_logit": {"rho": 1.0},
    "bdr": {"sigma": 1.0, "rho": 1.0, "eta": 1.0},
    "bdr_probit": {"rho": 1.0, "eta": 1.0},
    "bdr_glm": {"rho": [1.0], "eta": [1.0], "scale": [], "e": np.zeros(4)},
}
NAN, INF = float("nan"), float("inf")
# One covariate, on which nothing depends.
ONE = {
    "Q": 1,
    "intercept_slope": [0.0, 0.0, 0.0],
    "gamma_centre": [0.0],
    "gamma_slope": [[0.0, 0.0]],
    "gamma_unit": [[1.0]],
}
GROUPED = ["blr", "bdr", "bdr_probit", "bdr_glm"]
SHRINKING = ["bdr", "bdr_probit", "bdr_glm"]
# Five bags of two sizes, two coordinates, two functions of the label: 1 and the label.
CURVES = {
    "K": 2,
    "J": 2,
    "S": 1,
    "G": 2,
    "bag_size": [3.0, 8.0],
    "n_bags": [2, 3],
    "gram": [[2.0, 3.0], [0.5, -0.5], [0.5, -0.5], [2.0, 3.0]],
    "cross": [[[0.3, 0.1], [0.2, -0.4]], [[1.0, 0.5], [0.8, -0.2]]],
    "squares": [[1.0, 2.0], [1.5, 2.5]],
    "lambda": [0.5, 0.2],
    "smooth": [1.0, 1.0],
    "level_scale": 1.0,
    "tau_scale": 1.0,
    "amplitude_median": 1.0,
    "amplitude_log_sd": 1.0,
    "curvature_median": 0.4,
    "curvature_log_sd": 1.0,
    "use_likelihood": 1,
}


def run(name, data, method="optimize"):
    """Fit a program as the estimators do."""
    return started(name, data, {"t": np.zeros(3), **SCALES[name]}, method)


def run_curves(**changed):
    start = {"tau": [1.0, 1.0], "amplitude": [1.0, 1.0], "curvature": []}
    return started("inverse", CURVES | changed, start, "optimize")


def started(name, data, start, method):
    settings = SamplerSettings(method, chains=1, warmup=50, draws=50, seed=1, progress=False)
    return sampling.run(name, StanInput(data, [start]), settings)[0]


def message(name, **changed):
    """What Python hears of data with some entries changed, in the shape that they have there."""
    for key, value in changed.items():
        if np.size(value) == np.size(DATA[name].get(key, [])):
            changed[key] = np.reshape(value, np.shape(DATA[name][key])).tolist()
    with pytest.raises(RuntimeError) as caught:
        run(name, DATA[name] | changed)
    return str(caught.value)


@pytest.mark.parametrize("name", DATA)
def test_consistent_data_run(name):
    assert np.isfinite(run(name, DATA[name])["rho"])


@pytest.mark.parametrize("method", ["nuts", "laplace"])
def test_the_sentence_is_heard_from_every_method(method):
    with pytest.raises(RuntimeError, match=r"bag_size\[2\] must be > 0, found 0"):
        run("bdr", DATA["bdr"] | {"bag_size": [3.0, 0.0]}, method)


@pytest.mark.parametrize("name", DATA)
def test_scales_must_be_positive(name):
    scales = ["intercept_unit", "intercept_scale", "gamma_scale", "rho_median", "rho_log_sd"]
    others = ("sigma_scale", "sigma_point_scale", "eta_median", "eta_log_sd")
    scales += [k for k in others if k in DATA[name]]
    for scale in scales:
        said = message(name, **{scale: 0.0})
        assert scale in said and "must be > 0, found [" in said


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("value", [NAN, INF])
def test_embeddings_and_labels_must_be_finite(name, value):
    of = "rows" if "rows" in DATA[name] else "z"
    values = np.array(DATA[name][of])
    values[2, -1] = value
    said = message(name, **{of: values.tolist()})
    assert f"row 3 of {of} must hold finite numbers, found [-0.4" in said


@pytest.mark.parametrize("name", DATA)
def test_each_covariate_has_a_coordinate(name):
    x = np.full((4, 1), 0.5)
    columns = {"rows": np.column_stack([Z, x, np.ones(4), LABELS]).tolist()}
    columns = columns if "rows" in DATA[name] else {"x": x.tolist()}
    if "mode_shift" in DATA[name]:
        columns["mode_shift"] = [[0.0, 0.0]] * 4
    said = message(name, **ONE | columns | {"gamma_unit": [[0.0]]})
    assert "gamma_unit[1, 1] must be > 0, found 0" in said


@pytest.mark.parametrize("name", ["blr_logit", "bdr_probit", "bdr_glm"])
def test_covariates_must_be_finite(name):
    said = message(name, **ONE, x=[[0.1], [NAN], [0.3], [0.4]])
    assert "row 2 of x must hold finite numbers, found [nan]" in said


@pytest.mark.parametrize("name", ["blr", "bdr"])
def test_signs_are_between_minus_one_and_one(name):
    assert "sign[2] is 2, but must be less than or equal to 1" in message(name, sign=[1, 2])


@pytest.mark.parametrize("name", ["blr", "bdr"])
def test_known_variances_are_finite(name):
    said = message(name, known_variance=[0.0, INF])
    assert "known_variance[2] must be finite, found inf" in said


@pytest.mark.parametrize("name", GROUPED)
def test_groups_follow_one_another_and_have_everything(name):
    for start, length, says in [
        ([2, 3], [1, 2], "start[1] must be 1, the first row that no group before it has"),
        ([1, 4], [2, 1], "start[2] must be 3, the first row that no group before it has"),
        ([1, 2], [2, 2], "start[2] must be 3"),
        ([1, 3], [2, 3], "group 2 ends with row 5, but there are 4"),
        ([1, 3], [2, 1], "row 4 belongs to no group"),
    ]:
        assert says in message(name, start=start, length=length)


@pytest.mark.parametrize("name", GROUPED)
def test_bags_have_points(name):
    assert "bag_size[1] must be > 0, found 0" in message(name, bag_size=[0.0, 8.0])


@pytest.mark.parametrize("name", SHRINKING)
@pytest.mark.parametrize("column", [[0.0, 0.0], [0.3, NAN], [INF, 1.0]])
def test_no_weight_has_a_flat_prior(name, column):
    factor = np.column_stack([[1.0, 0.0], column]).tolist()
    said = message(name, prior_factor=factor)
    assert "column 2 of prior_factor must hold finite numbers, not all of them 0" in said


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"family": LAST + 1}, f"family must be a number from 1 to {LAST}, found {LAST + 1}"),
        ({"family": 9}, "n_scales must be 1 where family is 9, found 0"),
        ({"family": 6}, "n_scales must be 1 where family is 6, found 0"),
        ({"known_part": [0.0, INF, 0.0, 0.0]}, "known_part[2] must be finite, found inf"),
        ({"known_part": [0.0, 0.0, NAN, 0.0]}, "known_part[3] must be finite, found nan"),
        ({"y": [0.0, 0.5, 1.0, 2.0]}, "y[2] must be a whole number"),
        (
            {"family": 8, "n_scales": 2, "scale_location": [0.0] * 2, "scale_prior": [1.0, 0.0]},
            "scale_prior must be > 0",
        ),
        (
            {"family": 10, "n_scales": 1, "scale_location": [0.0], "scale_prior": [1.0]}
            | {"K": 1, "node": [0.0], "log_node_weight": [0.0]},
            "K must be 0 where family is not 1 or 5, found 1",
        ),
    ],
)
def test_labels_belong_to_their_family(changed, says):
    assert says in message("bdr_glm", **changed)


# ---------------------------------------------------------------- curves


def test_consistent_data_of_curves_run():
    assert np.isfinite(run_curves()["tau"]).all()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"bag_size": [0.0, 8.0]}, "bag_size must be > 0, found [0,8]"),
        ({"smooth": [1.0, 0.0]}, "smooth must be > 0, found [1,0]"),
        ({"squares": [[1.0, 2.0], [1.5, INF]]}, "squares and gram of group 2 must hold finite"),
        ({"n_bags": [2.0, -3.0]}, "n_bags must be finite and have a sum > 0, found [2,-3]"),
        ({"gram": [[NAN, 3.0], *CURVES["gram"][1:]]}, "squares and gram of group 1 must hold"),
        (
            {"cross": [CURVES["cross"][0], [[1.0, 0.5], [NAN, -0.2]]]},
            "cross[2, 2] must hold finite numbers, found [nan,-0.2]",
        ),
        *(
            ({name: 0.0}, "curvature_median and curvature_log_sd must be > 0, found [")
            for name in CURVES
            if name.endswith(("_scale", "_median", "_log_sd"))
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_data_of_curves_must_be_usable(changed, says):
    with pytest.raises(RuntimeError) as caught:
        run_curves(**changed)
    assert says in str(caught.value)
