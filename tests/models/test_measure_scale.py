"""The measure scale of the convolution prior: given, or of highest evidence."""

import numpy as np
import pytest
from builders.training import labelled_bags

from bdr_stan.bags import Bags
from bdr_stan.embedding.training import training_features
from bdr_stan.kernels import RBF
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel
from bdr_stan.models.two_classes import ProbitModel
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.posterior.priors import log_prior_of_scales

MODELS = pytest.mark.parametrize("make", [BDRModel, ProbitModel])


def labelled_training(rng, make, kernel, columns=slice(None), unit=1.0):
    """A training embedding of some columns of bags whose last column has this unit, and labels."""
    bags, y = labelled_bags(rng)
    points = (bags.points * [1, 1, unit])[:, columns]
    bags = Bags(points, bags.offsets, features=np.array(["a", "b", "c"])[columns].tolist())
    landmarks = points[rng.choice(len(points), 6, replace=False)]
    training = training_features(bags, kernel=kernel, landmarks=landmarks, covariance="average")
    return training, y if make is BDRModel else (y > np.median(y)).astype(int)


def scale_of(model):
    return model.constants["measure_scale"][0]


def height(model):
    """Log evidence of the most probable scales, and their log prior density."""
    scales, mode, _ = most_probable_scales(model)
    return mode.log_evidence + log_prior_of_scales(model.priors)(**scales)


@MODELS
def test_a_given_scale_is_used(rng, make):
    training, y = labelled_training(rng, make, RBF(1.0))
    model = make.of_training(training, Labels(y), embedding_prior="convolution", measure_scale=2.5)
    assert model.constants["measure_scale"] == (2.5, [])


@MODELS
def test_only_the_convolution_has_one(rng, make):
    training, y = labelled_training(rng, make, RBF(1.0))
    for embedding_prior in ("empirical", "kernel"):
        constants = make.of_training(training, Labels(y), embedding_prior=embedding_prior).constants
        assert "measure_scale" not in constants


@MODELS
def test_it_is_that_of_highest_evidence(rng, make):
    training, y = labelled_training(rng, make, RBF(1.0))
    model = make.of_training(training, Labels(y), embedding_prior="convolution")
    best, scale = height(model), scale_of(model)
    spread = np.sqrt(training.landmarks.var(axis=0).mean())
    assert np.exp(-2) <= scale / spread <= np.exp(3)
    for factor in (0.3, 0.6, 0.9, 1.1, 1.6, 3):
        other = make.of_training(
            training, Labels(y), embedding_prior="convolution", measure_scale=scale * factor
        )
        assert best > height(other) - 0.02, factor


@MODELS
def test_it_knows_nothing_of_columns_that_the_kernel_does_not_see(rng, make):
    """A column of huge values beside those of the kernel does not spread the search."""
    state = rng.bit_generator.state
    training, y = labelled_training(rng, make, RBF(1.0, columns=["a", "b"]), unit=1e4)
    rng.bit_generator.state = state
    alone, _ = labelled_training(rng, make, RBF(1.0), columns=slice(2))
    scales = [
        scale_of(make.of_training(each, Labels(y), embedding_prior="convolution"))
        for each in (training, alone)
    ]
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)
