"""What an estimator does with bags of several samples of points, such as residents and houses."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import Samples
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.samples import SamplesFeatures
from bdr_stan.families import NormalNumbers
from bdr_stan.labels import Labels
from bdr_stan.models.bdr_glm import samples_model
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.questions.protocol import Fit
from bdr_stan.results.result import Result

_OF_SAMPLES = ("kernel", "bandwidth", "n_landmarks", "landmarks")  # may be dicts, one for each


class SeveralSamples(Fit):
    """Parameters for each sample of the points, and a fit seen as one to a single sample."""

    exact_embeddings: ClassVar[bool] = True  # whether bags of all sizes have equal variances

    def _named_samples(self):
        """Names of samples in parameters that are dicts."""
        values = (getattr(self, parameter) for parameter in _OF_SAMPLES)
        return sorted({name for value in values if isinstance(value, Mapping) for name in value})

    def for_sample(self: Any, name: str) -> Any:
        """An estimator of only the sample `name` of bags, without covariates and terms."""
        named = {parameter: getattr(self, parameter) for parameter in _OF_SAMPLES}
        others = {"prior": None, "stan_file": None, **dict.fromkeys(self._columns())}
        of_sample = {p: value[name] for p, value in named.items() if isinstance(value, Mapping)}
        params = self.get_params(deep=False)
        one = type(self)(
            **{**params, **{k: v for k, v in others.items() if k in params}, **of_sample}
        )
        if "classes_" in vars(self):
            one.classes_ = self.classes_
        return one

    def check_samples(self: Any, bags: Samples | SamplesFeatures, label_sd: Any) -> None:
        """Raise if the parameters do not match the samples of the bags."""
        if self.stan_file is not None:
            raise ValueError("stan_file is for bags with one sample: leave it out")
        for parameter in _OF_SAMPLES:
            value = getattr(self, parameter)
            if isinstance(value, Mapping) and set(value) != set(bags.samples):
                raise ValueError(
                    f"{parameter} is given for {', '.join(value)}, but the samples of the bags are "
                    f"{', '.join(bags.samples)}: pass one for each sample, or one for all"
                )
        for_one_sample = {
            "label_sd": label_sd is not None,
            "label_noise='size'": self.label_noise == "size",
            "method='exact'": self.method == "exact",
        }
        for name in (name for name, is_given in for_one_sample.items() if is_given):
            raise ValueError(f"{name} is for bags with one sample: leave it out")
        self.check_complete(bags, bags.samples)

    def check_complete(self: Any, bags: Samples | SamplesFeatures, names: Iterable[str]) -> None:
        """Raise ValueError if a bag lacks a sample, but embeddings are taken as exact."""
        for name in names if self.exact_embeddings else ():
            lacking = np.flatnonzero(~bags.has(name))
            if len(lacking):
                raise ValueError(
                    f"{bags.name(lacking[0])} has no {name!r} ({len(lacking)} in total), but "
                    f"{type(self).__name__} takes embeddings as exact: use BDR or Shrinkage"
                )

    def _model_of_samples(
        self: Any, training: SamplesFeatures, labels: Labels
    ) -> LatentGaussianModel:
        """The model of bags with several samples, from one model per sample."""
        alone, y = {}, labels.y
        for name, features in training.samples.items():
            has = training.has(name)
            if has.sum() < 2 or np.ptp(y[has]) == 0:
                raise ValueError(
                    f"the {has.sum()} bags with {name!r} do not have different labels: leave this "
                    "sample out"
                )
            alone[name] = self.for_sample(name)._model(features, labels.take(has))
        family = self.label_model.distribution or NormalNumbers()
        of_model = self.label_model.of_model(labels)
        return samples_model(training, of_model, family, alone, prior=self.prior)

    def fit_of_sample(self: Any, sample: str | None) -> Any:
        """If bags have several samples, this fit as a fit to only this sample."""
        check_is_fitted(self, "result_")
        result = self.result_
        samples = result.settings.get("samples")
        if samples is None:
            if sample is not None:
                raise ValueError(f"the bags have one sample: leave sample={sample!r} out")
            return self
        if sample not in samples:
            raise ValueError(
                f"sample must be one of {', '.join(map(repr, samples))}, found {sample!r}"
            )
        m = list(samples).index(sample)
        columns = np.flatnonzero(self.coordinates_.sample == m)
        has = np.flatnonzero(result.constants["bag_size"][:, m])
        where: dict[str, Any] = dict.fromkeys(("landmark", "component", "component_row"), columns)
        where |= {"sample": m, "bag": has}
        names = ("posterior", "constant_data", "observed_data")
        groups = {name: result.groups[name].isel(where, missing_dims="ignore") for name in names}
        one: Any = self.with_result(Result(groups, samples[sample]))
        one.coordinates_ = replace(Coordinates.from_constants(one.result_.constants), sample=None)
        one.kernel_, one.landmarks_ = self.kernel_[sample], self.landmarks_[sample]
        one.feature_map_, one.covariates_ = self.feature_map_[sample], None
        for role in self._columns():
            setattr(one, role, None)
        return one
