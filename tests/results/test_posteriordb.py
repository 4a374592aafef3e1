"""export: a posterior that posteriordb and any other Stan read as this fit had it."""

import json
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from builders.training import labelled_bags

import bdr_stan
from bdr_stan import BDR, BLR, AggregateRegressor, Bags
from bdr_stan.cmdstan.programs import eject
from bdr_stan.estimators import posterior as estimators
from bdr_stan.posterior import stanli
from bdr_stan.results import posteriordb as module

SMALL = {"chains": 2, "warmup": 100, "draws": 50, "seed": 1}
NAME = "my_project_copy"


@pytest.fixture
def data(rng):
    """Bags with a covariate in dollars and a state, and labels far from zero."""
    bags, y = labelled_bags(rng)
    table = {"income": 30_000 + 9_000 * rng.normal(size=len(y)), "state": list("abc") * 8}
    bags = Bags.from_list(list(bags), metadata=pd.DataFrame(table))
    return bags, 2000 + y + bags.metadata["income"] / 9_000


@pytest.fixture
def rich():
    return BDR(4, covariates=["income"], groups=["state"], label_noise="size")


def zipped(path):
    with ZipFile(f"{path}.zip") as archive:
        return json.loads(archive.read(path.name))


def program(folder, name):
    """The exported program with the exported data, on stanli."""
    return stanli.load(
        folder / f"models/stan/{name}.stan", zipped(folder / f"data/data/{NAME}.json")
    )


def check_density(fit, folder, name, rng):
    exported, density = program(folder, name), fit.log_density()
    for point in rng.normal(scale=0.3, size=(3, density.dimension)):
        for ours, theirs in zip(density(point), exported.log_prob_grad(point)):
            np.testing.assert_allclose(theirs, ours, rtol=1e-13)


def test_a_loaded_fit_exports_the_density_of_its_fit(data, rich, rng, tmp_path):
    fit = rich.fit(*data, **SMALL)
    fit.save(tmp_path / "fit.nc")
    folder = tmp_path / "my project (copy)"
    bdr_stan.load(tmp_path / "fit.nc").export(folder)
    check_density(fit, folder, "bdr", rng)
    assert "#include" not in (folder / "models/stan/bdr.stan").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.nc", folder.name]


def test_rates_and_approximations_have_no_reference_draws(rng, tmp_path):
    bags = [rng.uniform(size=(15, 1)) for _ in range(20)]
    counts = rng.poisson([3 * bag.sum() for bag in bags])
    model = AggregateRegressor("poisson", n_landmarks=4, method="laplace")
    fit, folder = model.fit(bags, counts, draws=100, seed=1), tmp_path / NAME
    folder.mkdir()  # empty
    fit.export(folder, author="A. Nother")
    check_density(fit, folder, "aggregate_square", rng)
    about = json.loads((folder / f"posteriors/{NAME}-aggregate_square.json").read_text())
    assert about["reference_posterior_name"] is None and about["added_by"] == "A. Nother"
    assert not (folder / "reference_posteriors").exists()


def test_reference_draws_are_those_of_the_exported_program(data, rich, tmp_path):
    """The same means as an independent run of the exported program with the exported data."""
    folder = tmp_path / NAME
    rich.fit(*data, seed=1).export(folder)
    again = program(folder, "bdr").sample(chains=4, warmup=300, samples=1000, seed=2, refresh=0)
    draws = zipped(folder / f"reference_posteriors/draws/draws/{NAME}-bdr.json")
    assert len(draws) == 4 and len(draws[0]["sigma"]) == 1000
    checked = set()
    for name in ("intercept", "gamma", "w", "sigma", "sigma_point", "eta", "term_effect"):
        values = np.reshape(again.draws(name), (4000, -1))
        for k, own in enumerate(values.T, 1):
            key = f"{name}[{k}]" if f"{name}[1]" in draws[0] else name
            theirs = np.concatenate([chain[key] for chain in draws])
            assert abs(theirs.mean() - own.mean()) < 0.25 * own.std(), key
            checked.add(key)
    assert {"intercept", "gamma[1]", "sigma_point[1]", "term_effect[3]"} <= checked


def test_checks_are_those_of_posteriordb(data, tmp_path):
    def checks(name, **settings):
        BLR(3).fit(*data, **{"seed": 1} | settings).export(tmp_path / name)
        path = tmp_path / f"{name}/reference_posteriors/draws/info/{name}-blr.info.json"
        return json.loads(path.read_text())

    good = checks("good", chains=10, warmup=300, draws=4000, thin=4)
    diagnostics, made = good["diagnostics"], good["checks_made"]
    ess = [diagnostics[f"effective_sample_size_{part}"] for part in ("bulk", "tail")]
    # Whether all of so many lie within these bounds is a matter of chance.
    assert made.pop("ess_within_bounds") == (
        np.abs(np.array(ess) - 10_000).max() <= 4 * 70_000**0.5
    )
    assert all(made.values())
    assert diagnostics["ndraws"] == 10_000 and len(diagnostics["divergent_transitions"]) == 10
    names = diagnostics["diagnostic_information"]["names"]
    assert {"w[3]", "intercept", "sigma", "rho"} <= set(names)
    assert len(names) == len(diagnostics["r_hat"]) == len(diagnostics["mean_lag1_ac"])
    arguments = good["inference"]["method_arguments"]
    assert arguments["iter"] == 4300 and arguments["thin"] == 4 and arguments["control"] == {}
    few = checks("few", **SMALL)["checks_made"]
    assert not (few["ndraws_is_10k"] or few["nchains_is_gte_4"])


def test_posteriordb_reads_it(data, tmp_path):
    database = pytest.importorskip("posteriordb").PosteriorDatabase
    BLR(3).fit(*data, **SMALL).export(tmp_path / NAME)
    posterior = database(tmp_path / NAME).posterior(f"{NAME}-blr")
    assert posterior.posterior_info["dimensions"] == {"w": 3, "intercept": 1, "sigma": 1, "rho": 1}
    assert posterior.data.values()["D"] == 3
    assert posterior.model.information["title"].startswith("blr: Bayesian linear regression")
    assert posterior.model.implementation("stan").model_code == "models/stan/blr.stan"
    assert (
        len(posterior.reference_draws())
        == posterior.reference_draws_info()["diagnostics"]["nchains"]
    )


def test_the_program_is_that_of_the_fit_though_its_file_changes(data, rng, tmp_path):
    own = tmp_path / "my model.stan"
    eject("blr", own)
    text = own.read_text().replace("data {", "// #include functions/nothing.stan\ndata {", 1)
    own.write_text(text)
    fit = BLR(3, stan_file=own, engine="stanli", compress=False).fit(*data, **SMALL)
    own.write_text("changed")
    fit.export(tmp_path / NAME)
    exported = (tmp_path / NAME / "models/stan/my_model.stan").read_text()
    assert "// #include functions/nothing.stan" in exported
    assert exported.count("#include") == 1
    program(tmp_path / NAME, "my_model")


def test_an_export_that_fails_leaves_nothing(data, tmp_path, monkeypatch):
    fit = BLR(3, method="laplace").fit(*data, draws=50, seed=1)
    monkeypatch.setattr(module, "write_data", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fit.export(tmp_path / NAME)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused(data, tmp_path, monkeypatch):
    fit = BLR(3, method="laplace").fit(*data, draws=50, seed=1)
    (tmp_path / "file").write_text("")
    for folder, error, message in [
        (tmp_path, FileExistsError, "is not empty: name a new one"),
        (tmp_path / "file", NotADirectoryError, "is a file: name a new folder"),
        (tmp_path / "no" / "new", FileNotFoundError, "does not exist: create it first"),
        (3, TypeError, "folder"),
    ]:
        with pytest.raises(error, match=message):
            fit.export(folder)
    with pytest.raises(TypeError, match="author must be a str, found 3"):
        fit.export(tmp_path / "new", author=3)
    message = "export needs the data of a Stan program, which this fit by method='{}' has not kept"
    with pytest.raises(ValueError, match=message.format("exact")):
        BLR(3, method="exact").fit(*data, seed=1).export(tmp_path / "new")
    monkeypatch.setattr(estimators, "LARGEST_PROGRAM", 10)
    with pytest.raises(ValueError, match=message.format("laplace")):
        fit.fit(*data, draws=50, seed=1).export(tmp_path / "new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
