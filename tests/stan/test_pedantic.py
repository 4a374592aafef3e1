"""stanc's pedantic mode finds nothing in the programs but what is known to be false."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from bdr_stan import cmdstan
from bdr_stan.cmdstan.programs import fast_directory, program_names, program_path

# Programs, what the warning says, and why it is false.
FALSE = [
    (
        ".*",
        r"The parameter (t|e|t_effect|sigma|sigma_point|rho|eta|tau|scale|amplitude|curvature|"
        r"survey_dispersion|term_sd|term_length|effect_sd|effect_factor) "
        "has no priors",
        "the numbers of their priors are data, and t, e, t_effect have those of what they become",
    ),
    (
        "bdr|bdr_probit|bdr_glm",
        r"Left-hand side of distribution statement \(~\) may contain a non-linear transform",
        "prior_factor * w is linear in w, so the Jacobian is constant",
    ),
    (
        "bdr|blr|bdr_glm",
        "The variable effect may not have been assigned a value",
        "effects of earlier terms are assigned before those of later ones",
    ),
    (
        "bdr_glm",
        "The parameter y is on the left-hand side of more than one tilde statement",
        "normal labels and those of other families are on different branches",
    ),
    (
        "aggregate_.*",
        r"The variable \w+_log_density may not have been assigned a value",
        "it is a function that reduce_sum is given",
    ),
]


def warnings_of(name):
    """What stanc says of a program, a line a warning."""
    stanc = cmdstan.setup(progress=False) / "bin" / "stanc"
    options = ["--warn-pedantic", f"--include-paths={fast_directory()}", "--o=/dev/null"]
    said = subprocess.run(
        [stanc, *options, program_path(name)], check=True, capture_output=True, text=True
    )
    parts = re.split(r"^Warning", said.stderr, flags=re.MULTILINE)[1:]
    return [" ".join(part.split()) for part in parts]


@pytest.fixture(scope="module")
def found():
    names = program_names()
    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(warnings_of, names), strict=True))


def test_only_false_warnings(found):
    def is_false(name, said):
        return any(re.fullmatch(of, name) and re.search(text, said) for of, text, _ in FALSE)

    doubtful = [f"{name}: {s}" for name, of in found.items() for s in of if not is_false(name, s)]
    assert doubtful == []


def test_each_exception_is_still_needed(found):
    for of, text, reason in FALSE:
        said = [s for name, all_ in found.items() if re.fullmatch(of, name) for s in all_]
        assert any(re.search(text, s) for s in said), reason


def test_a_slip_is_found(tmp_path):
    """The mode is on: a division of integers is one of its warnings."""
    program = tmp_path / "slip.stan"
    program.write_text("parameters {\n  real x;\n}\nmodel {\n  x ~ normal(0, 1 / 2);\n}\n")
    command = [cmdstan.setup(progress=False) / "bin" / "stanc", "--warn-pedantic", program]
    said = subprocess.run([*command, "--o=/dev/null"], capture_output=True, text=True, check=True)
    assert "Warning" in said.stderr
