"""Labels of any family: normal labels that stand for them, and bags with several samples."""

from dataclasses import replace

import numpy as np
import pytest
from builders.kernels import COLUMNS
from builders.training import labelled_bags, training_of
from scipy.special import roots_hermitenorm

from bdr_stan import Bags, Samples
from bdr_stan.embedding.training import features_by_sample
from bdr_stan.families import FAMILIES
from bdr_stan.labels import Labels
from bdr_stan.models import bdr_glm
from bdr_stan.models.bdr_glm import FamilyModel, deviation_nodes, samples_model
from bdr_stan.posterior.latent_gaussian import most_probable_scales

POISSON = FAMILIES["poisson"]


def counts(rng, n=24):
    bags, level = labelled_bags(rng, n)
    return bags, rng.poisson(np.exp(level / 3)).astype(float)


def features(rng, bags):
    return training_of(bags, "rbf", rng.normal(size=(4, 3)))


def two_samples(rng):
    """Counts of bags with points and with points of another unit, which some bags lack."""
    bags, y = counts(rng)
    names = [f"{i:02}" for i in range(len(y))]
    others = Bags.from_list(list(labelled_bags(rng)[0])[1:], ids=names[1:], features=COLUMNS)
    samples = Samples(
        {"points": Bags.from_list(list(bags), ids=names, features=COLUMNS), "others": others}
    )
    training = features_by_sample(samples, lambda _, own: features(rng, own), None)
    alone = {
        name: FamilyModel.of_training(each, Labels(y[training.record.has(name)]), POISSON)
        for name, each in training.samples.items()
    }
    return training, y, alone


def models(rng):
    bags, y = counts(rng)
    training, labels, alone = two_samples(rng)
    return {
        "uncertain": FamilyModel.of_training(features(rng, bags), Labels(y), POISSON),
        "exact": FamilyModel(features(rng, bags).embedding, Labels(y), POISSON),
        "samples": samples_model(training, Labels(labels), POISSON, alone),
    }


@pytest.mark.parametrize("name", ["uncertain", "exact", "samples"])
def test_normal_labels_have_the_moments_of_predictors_given_the_labels(rng, name):
    """Of a normal label of this precision and centre, and of the label by quadrature."""
    model = models(rng)[name]
    scales, mode, _ = most_probable_scales(model)
    data = model.data | model.whitening(scales, mode)
    mean, variance = predictors(data, mode.theta, scales)
    information, centre = data["label_information"], data["label_centre"]
    of_normal = variance / (1 + variance * information)
    node, weight = roots_hermitenorm(60)
    h = mean[:, None] + np.sqrt(variance)[:, None] * node
    density = weight * np.exp(POISSON.terms(data["y"][:, None], h).value)
    density /= density.sum(axis=1, keepdims=True)
    expected = np.sum(density * h, axis=1)
    np.testing.assert_allclose(mean + of_normal * information * (centre - mean), expected)
    spread = np.sum(density * (h - expected[:, None]) ** 2, axis=1)
    np.testing.assert_allclose(of_normal, spread, atol=1e-12)


def test_labels_without_information_have_a_centre(rng):
    """Counts of 0 where none is expected, as at the first steps of a search."""
    model = models(rng)["uncertain"]
    scales, mode, _ = most_probable_scales(model)
    theta = np.append(0 * mode.theta[:-1], -800.0)
    data = model.whitening(scales, replace(mode, theta=theta))
    np.testing.assert_array_equal(data["label_information"], 0)
    np.testing.assert_array_equal(data["label_centre"], -800)


def test_nodes_of_deviations_are_those_of_the_labels(rng, monkeypatch):
    monkeypatch.setattr(bdr_glm, "_MOST_DEVIATIONS", 10)
    model = models(rng)["uncertain"]
    scales, mode, _ = most_probable_scales(model)
    data = model.data | model.whitening(scales, mode)
    mean, variance = predictors(data, mode.theta, scales)
    given = (data[name] for name in ("label_information", "label_centre"))
    expected = deviation_nodes(POISSON, Labels(data["y"]), mean, variance, *given)
    np.testing.assert_array_equal(data["node"], expected["node"])
    assert len(model.initial["e"]) == 0


def test_samples_share_the_prior_variance_that_each_has_alone(rng):
    training, y, alone = two_samples(rng)
    model = samples_model(training, Labels(y), POISSON, alone)
    for name, one in alone.items():
        median = model.priors[f"rho_median[{name}]"]
        assert 2 * median**2 == pytest.approx(one.priors["rho_median"] ** 2)


def predictors(data, theta, scales):
    """Mean and variance of each row's linear predictor, bag by bag."""
    d, lam = data["D"], data["lambda"]
    mean, variance = np.full(data["N"], theta[-1]), np.zeros(data["N"])
    for group, (start, length) in enumerate(zip(data["start"], data["length"], strict=True)):
        for i in range(start - 1, start - 1 + length):
            for k in range(d):
                m = data["sample"][k] - 1
                names = [name for name in scales if name.startswith("eta")]
                N, eta = data["bag_size"][m, group], scales[names[m]] if names else 1.0
                share = N * eta / (N * eta + lam[k])
                mean[i] += share * data["z"][i, k] * theta[k]
                variance[i] += eta * (1 - share) * theta[k] ** 2 * data["uncertain"]
    return mean, variance
