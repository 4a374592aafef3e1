"""Linear and quadratic effects of each column, beside a kernel of the distance."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import BDR, BLR, RBF, Bags, InverseBDR, Matern32, load
from bdr_stan.embedding.landmarks import landmarks_of_kernel
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import (
    LinearEffects,
    QuadraticEffects,
    check_kernel,
    kernel_text,
    landmark_features,
    resolve_kernel,
)
from bdr_stan.kernels.names import LINEAR_VARIANCE, QUADRATIC_VARIANCE
from bdr_stan.kernels.normal_scores import NormalScores
from bdr_stan.kernels.summands import fields_of

NAME = "linear + rbf"


def people(rng, n=1200, n_bags=40):
    return pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "income": np.exp(rng.normal(10, 1, n)),
            "urban": rng.random(n) < 0.3,
            "kind": rng.choice(list("abb"), n),
            "one": 1.0,
            "town": np.arange(n) % n_bags,
        }
    )


def bags_of(rng, columns, **options):
    return Bags.from_dataframe(people(rng, **options)[[*columns, "town"]], "town")


def features_of(bags, n_landmarks=5, name=NAME, **options):
    kernel = resolve_kernel(name, "scaled", bags, seed=0)
    landmarks = landmarks_of_kernel(kernel, bags, n_landmarks, seed=0, **options)
    return kernel, landmark_features(kernel, landmarks)


def spans(rows, function):
    """Whether values of a function are a linear combination of columns and a constant."""
    design = np.column_stack([rows, np.ones(len(rows))])
    fitted = design @ np.linalg.lstsq(design, function, rcond=None)[0]
    return np.allclose(fitted, function, rtol=0, atol=1e-8 * np.ptp(function))


# ---------------------------------------------------------------- quadratic effects


def test_quadratic_effects_are_squares_of_standardised_columns(rng):
    x, y = rng.normal(3, 2, (9, 3)), rng.normal(3, 2, (4, 3))
    centre, units = np.array([2.0, 3.0]), np.array([1.5, 2.5])
    kernel = QuadraticEffects([2, 0], 0.7, centre=centre, units=units)

    def q(points):
        z = np.clip((points[:, [2, 0]] - centre) / units, -3, 3)
        return (z**2 - 1) / np.sqrt(2)

    np.testing.assert_allclose(kernel(x, y), 0.7 * q(x) @ q(y).T)
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(kernel(x, x)))
    assert np.abs(kernel.standardised(np.full((1, 3), 1e6))).max() == pytest.approx(8 / np.sqrt(2))


def test_quadratic_effects_of_normal_points_have_mean_0_and_variance_1(rng):
    points = rng.normal(7, 5, (100_000, 1))
    values = QuadraticEffects().resolved([points]).standardised(points)
    assert values.mean() == pytest.approx(0, abs=0.12)
    assert values.std() == pytest.approx(1, abs=0.12)


# ---------------------------------------------------------------- the kernel by name


def test_its_parts(rng):
    bags = bags_of(rng, ["age", "income", "urban", "kind", "one"])
    parts = fields_of(resolve_kernel(NAME, "scaled", bags, seed=0))
    names = np.array(bags.features)
    linear = [names[list(k.columns)].tolist() for k in parts if type(k) is LinearEffects]
    assert linear == [["age"], ["income"], ["urban"], ["kind=a", "kind=b"]]
    squares = [names[list(k.columns)].tolist() for k in parts if type(k) is QuadraticEffects]
    assert squares == [["age"]]
    scored = [(type(k.base), names[k.columns[0]], k.variance) for k in parts
              if isinstance(k, NormalScores)]  # fmt: skip
    assert scored == [
        (LinearEffects, "income", LINEAR_VARIANCE),
        (QuadraticEffects, "income", QUADRATIC_VARIANCE),
    ]


def test_without_long_tails_the_last_part_is_the_kernel_of_that_name(rng):
    bags = bags_of(rng, ["age", "urban"])
    for name, kind in (("rbf", RBF), ("matern32", Matern32)):
        *effects, last = fields_of(resolve_kernel(f"linear + {name}", "scaled", bags, seed=0))
        plain = resolve_kernel(name, "scaled", bags, seed=0)
        assert type(last) is kind
        np.testing.assert_array_equal(last(bags.points, bags[0]), plain(bags.points, bags[0]))
        assert len(effects) == 3


def test_columns_with_long_tails_enter_the_kernel_by_their_values_and_scores(rng):
    bags = bags_of(rng, ["age", "income"])
    *_, of_scores, of_values = fields_of(resolve_kernel(NAME, "scaled", bags, seed=0))
    logs = np.column_stack([bags.points[:, 0], np.log(bags.points[:, 1])])
    plain = RBF().resolved([logs])
    near = np.abs(logs - logs.mean(axis=0)).max(axis=1) < 20  # in the tails scores end at 2.6
    found, expected = of_scores(bags.points, bags[0])[near], plain(logs, logs[: len(bags[0])])[near]
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.99
    plain = resolve_kernel("rbf", "scaled", bags, seed=0)
    np.testing.assert_array_equal(of_values(bags.points, bags[0]), plain(bags.points, bags[0]))
    numbers = fields_of(resolve_kernel(NAME, [10.0, 3e4], bags, seed=0))[-1]
    assert type(numbers) is RBF and numbers.columns is None  # bandwidths are of the values


def test_a_column_with_gaps_and_a_long_tail(rng):
    table = pd.DataFrame(
        {
            "town": np.repeat(np.arange(40), 20),
            "income": np.exp(10 + rng.normal(size=800)),
            "age": rng.normal(40, 10, 800),
        }
    )
    table.loc[rng.random(800) < 0.1, ["income", "age"]] = np.nan
    bags = Bags.from_dataframe(table, "town", missing="indicator")
    text = kernel_text(resolve_kernel(NAME, "scaled", bags, seed=0), bags.features)
    columns = "income, income missing, scores of income, age, ... (5 columns)"
    assert text.startswith(f"linear in {columns} + quadratic in scores of income, age + ")
    y = bags.sums(bags.points)[:, 2]
    model = BDR(20, method="optimize").fit(bags, y, seed=1)
    assert np.isfinite(model.predict(bags)).all()


def test_features_hold_means_and_variances_of_columns(rng):
    bags = bags_of(rng, ["age", "income", "urban", "kind"])
    _, features = features_of(bags)
    rows = embed(bags, features).mean
    for k in range(bags.n_features):
        assert spans(rows, np.array([bag[:, k].mean() for bag in bags]))
    age = np.clip((bags.points[:, 0] - bags.points[:, 0].mean()) / bags.points[:, 0].std(), -3, 3)
    squares = [np.mean(age[a:b] ** 2) for a, b in zip(bags.offsets, bags.offsets[1:])]
    assert spans(rows, np.array(squares))


def test_effects_count_among_the_landmarks(rng):
    bags = bags_of(rng, ["age", "income", "urban", "kind"])
    for asked, of_kernel in ((30, 22), (7, 3), (1, 1)):
        _, features = features_of(bags, asked)
        known = np.isfinite(features.landmarks)
        assert known.all(axis=1).sum() == of_kernel
        assert known.sum(axis=1)[:-of_kernel].tolist() == [1, 1, 1, 1, 1, 1, 2, 2]
    gram = features.gram()
    assert np.linalg.cond(gram[:-1, :-1]) < 1e4


def test_landmarks_are_spread_over_scores(rng):
    bags = bags_of(rng, ["age", "income"])
    _, features = features_of(bags, 35)
    incomes = np.log(features.landmarks[5:, 1])
    assert incomes.mean() == pytest.approx(10, abs=0.5)
    assert 0.6 < incomes.std() < 1.5


def test_given_landmarks_are_those_of_the_last_part(rng):
    bags = bags_of(rng, ["age", "urban"])
    given = np.array([[30.0, 0.0], [40.0, 1.0], [50.0, 0.0]])
    _, features = features_of(bags, None, method=given)
    np.testing.assert_array_equal(features.landmarks[-3:], given)
    again = landmarks_of_kernel(features.kernel, bags, None, method=features.landmarks)
    np.testing.assert_array_equal(again, features.landmarks)


def test_one_column_and_few_values(rng):
    frame = pd.DataFrame({"age": rng.normal(size=300), "town": np.arange(300) % 20})
    _, features = features_of(Bags.from_dataframe(frame, "town"), 6)
    assert features.landmarks.shape == (6, 1)
    codes = frame.assign(code=rng.integers(3, size=300), flag=rng.random(300) < 0.5)
    bags = Bags.from_dataframe(codes[["code", "flag", "town"]], "town")
    _, features = features_of(bags, 60)
    assert len(features.landmarks) == 2 + 1 + 6  # linear, quadratic; linear; all values


@pytest.mark.parametrize("name", ["linear + cosine", "linear +rbf", "linear + ", "linear"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="kernel must be a Kernel, 'auto' or one of"):
        check_kernel(name)


def test_its_text(rng):
    bags = bags_of(rng, ["age", "income", "urban", "kind"])
    kernel = resolve_kernel(NAME, "scaled", bags, seed=0)
    text = kernel_text(kernel, bags.features)
    assert text.startswith("linear in age, income, scores of income, urban, ... (6 columns) + ")
    assert " + quadratic in age, scores of income + RBF, length" in text
    assert text.count("RBF") == 3 and "for scores of income x RBF, lengths age" in text


# ---------------------------------------------------------------- fits


@pytest.mark.parametrize("model", [BDR, BLR, InverseBDR])
def test_estimators_take_it_and_save_it(rng, tmp_path, model):
    table, level = people(rng), rng.normal(size=40)
    table["age"] += 10 * level[table["town"]]
    bags = Bags.from_dataframe(table[["age", "income", "kind", "town"]], "town")
    y = np.array([bag[:, 0].mean() + 3 * np.log(bag[:, 1]).mean() for bag in bags])
    fit = model(8, kernel=NAME, method="optimize").fit(bags, y, seed=1)
    assert np.corrcoef(fit.predict(bags), y)[0, 1] > 0.9
    fit.save(tmp_path / "fit")
    np.testing.assert_array_equal(load(tmp_path / "fit").predict(bags), fit.predict(bags))


def test_a_label_that_is_linear_in_means_is_learned_from_few_bags(rng):
    """Ten columns, forty bags: the kernel of the distance alone does not find the direction."""
    means = rng.normal(size=(140, 10))
    bags = Bags.from_list([m + rng.normal(size=(50, 10)) for m in means])
    y = means @ rng.normal(size=10) + 0.1 * rng.normal(size=140)
    error = {
        kernel: np.mean(
            (BDR(kernel=kernel, method="optimize").fit(bags[:40], y[:40]).predict(bags[40:])
             - y[40:]) ** 2
        )
        for kernel in ("rbf", NAME)
    }  # fmt: skip
    assert error[NAME] < 0.1 * np.var(y)
    assert error[NAME] < 0.7 * error["rbf"]


def test_many_columns_have_linear_effects_alone_and_more_have_none(rng):
    def parts_of(p):
        bags = Bags.from_points(rng.normal(size=(2000, p)), sizes=[1000, 1000])
        return [type(part) for part in fields_of(resolve_kernel("auto", "scaled", bags, seed=0))]

    assert parts_of(30).count(QuadraticEffects) == 30
    assert parts_of(31) == [LinearEffects] * 31 + [RBF]
    assert parts_of(61) == [RBF]


@pytest.mark.parametrize(
    "tailored",
    [{"bandwidth": 2.0}, {"landmarks": [[1.0, 2.0], [3.0, 4.0]]}, {"embedding_prior": "kernel"}],
    ids=str,
)
def test_auto_is_rbf_where_its_parameters_are_set(rng, tailored):
    bags = Bags.from_points(rng.normal(size=(300, 2)), sizes=[150, 150])
    assert BDR().kernel_for(bags) == NAME
    assert BDR(**tailored).kernel_for(bags) == "rbf"
    assert BDR(kernel=NAME, **tailored).kernel_for(bags) == NAME


def test_effects_of_several_columns_by_themselves(rng):
    bags = bags_of(rng, ["age", "income"])
    kernel = LinearEffects() + QuadraticEffects()
    model = BDR(kernel=kernel, method="optimize").fit(bags, rng.normal(size=40), seed=1)
    assert model.landmarks_.shape == (4, 2)
    assert np.linalg.cond(landmark_features(model.kernel_, model.landmarks_).gram()) < 100
