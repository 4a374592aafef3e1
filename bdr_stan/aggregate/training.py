"""From bags and their totals to the inputs of a fit: landmarks, kernel, and the bags' rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.aggregate.densities import Totals
from bdr_stan.aggregate.effect_columns import EffectColumns, effect_columns
from bdr_stan.aggregate.kernel_learning import learn_kernel
from bdr_stan.aggregate.outside_basis import record_with_horizon
from bdr_stan.aggregate.rows import AggregateRows, mean_points, point_rows, weighted_sums
from bdr_stan.aggregate.thinning import thinned_bags
from bdr_stan.bags import Bags, PartitionedBags
from bdr_stan.bags.record import BagsRecord
from bdr_stan.embedding.landmarks import UNITS_SAMPLE, check_kernel_reaches, landmarks_of_fields
from bdr_stan.kernels import FieldFeatures, Kernel, fields_of, resolve_kernel
from bdr_stan.kernels.fields import field_names, has_landmarks, landmarks_of_field
from bdr_stan.kernels.names import is_additive
from bdr_stan.models.aggregate import aggregate_model
from bdr_stan.models.totals import TotalsWithEffects
from bdr_stan.posterior.priors import log_prior_of_scales, prior_centres
from bdr_stan.types import Array, ArrayLike, Seed
from bdr_stan.user_warnings import warn

# Parameters of the kernel are learned from about this number of points, and at least this number
# per bag unless fewer represent it in the fit itself.
LEARNING_POINTS = 10_000
LEARNING_POINTS_PER_BAG = 10
_WARNED_RESIDUAL_SHARE = 0.5  # of a field's variance


@dataclass(frozen=True)
class AggregateFeatures:
    """What a fit needs of the training bags: features of a kernel, and the bags' rows in them."""

    feature_map: FieldFeatures  # also of new points and bags
    rows: AggregateRows  # as the link needs them
    record: BagsRecord
    mean_points: Array | None = None  # of bags in memory, shape (n, p)
    effect_columns: EffectColumns | None = None  # with coefficients that differ between bags
    plain_data: Mapping[str, Any] | None = None  # of the points, for a program of the user's own


def training_features(
    bags: Bags,
    totals: Totals,
    *,
    kernel: str | Kernel,
    learn: bool,
    n_landmarks: int | None,
    landmarks: str | ArrayLike,
    prior: Mapping[str, float] | None = None,
    bag_effects: bool | Sequence[Any] = False,
    thin: int | None = None,
    seed: Seed = None,
) -> AggregateFeatures:
    """Choose landmarks and the kernel's parameters, and compress the bags' points to rows.

    With `learn` parameters maximise the evidence in the model with `prior` and `bag_effects`, else
    they are as given, or from the median rule. `n_landmarks` is used if `landmarks` is a name, see
    `choose_landmarks`. At most `thin` weighted points represent a bag.
    """
    link, known_variance = totals.link, totals.error_variance
    columns = effect_columns(bags, bag_effects) if link.is_linear and bag_effects else None
    # A kernel by name learns a length for each column, long for irrelevant columns; the levels of a
    # category share theirs. An additive kernel already has a length for each.
    by_column = learn and isinstance(kernel, str) and not is_additive(kernel)
    kernel = resolve_kernel(kernel, "ard" if by_column else "scaled", bags, seed=seed)
    together = np.unique(bags.sources, return_inverse=True)[1] if by_column else None
    chosen = landmarks_of_fields(kernel, bags, n_landmarks, method=landmarks, seed=seed)
    sample = bags.sample_points(UNITS_SAMPLE, np.random.default_rng(seed))
    for field in filter(has_landmarks, fields_of(kernel)):
        check_kernel_reaches(field, field(sample, landmarks_of_field(field, chosen)))
    if learn and len(kernel.log_parameters):
        errors: dict[str, Any] = {"known_variance": known_variance}
        if link.is_linear:
            features = FieldFeatures(kernel, chosen)
            errors = _known_noise(bags, features, totals, columns, prior)
        kernel = _learned_kernel(
            kernel,
            chosen,
            bags,
            totals,
            prior=prior,
            bag_effects=bag_effects,
            errors=errors,
            together=together,
            at_least=min(thin or LEARNING_POINTS_PER_BAG, LEARNING_POINTS_PER_BAG),
        )
    feature_map = FieldFeatures(kernel, chosen)
    _warn_of_few_features(feature_map, sample, bags.features)
    rows = replace(link.rows(bags, feature_map, thin=thin), known_variance=known_variance)
    means = None if isinstance(bags, PartitionedBags) else mean_points(bags).points
    record = record_with_horizon(BagsRecord.from_bags(bags), kernel)
    return AggregateFeatures(feature_map, rows, record, means, columns)


def _warn_of_few_features(feature_map, points, names):
    """Warn if the residual variance of a field is large: too few features for its lengths."""
    residual_variances = feature_map.residual_variance_of_fields(points, feature_map(points))
    called = field_names(feature_map.kernel, names, feature_map.n_inputs)
    for field, name, variance in zip(feature_map.fields, called, residual_variances, strict=True):
        share = variance.mean() / field.diagonal(points).mean()
        if share > _WARNED_RESIDUAL_SHARE:
            more = "n_landmarks" if has_landmarks(field) else "n_functions"
            warn(
                f"the features of {name} leave out {share:.0%} of its variance: raise {more}; "
                "intervals of points allow for it, their means only with link='square'"
            )


def _known_noise(bags, feature_map, totals, columns, prior):
    """Noise of labels that includes effects of bags and known errors, if there are any."""
    if columns is None and not np.any(totals.error_variance):
        return {}
    rows = replace(weighted_sums(bags, feature_map), known_variance=totals.error_variance)
    sums, names = np.empty((len(bags), 0)), []
    if columns is not None:
        sums, names = columns.sums(mean_points(bags).points, bags.totals), columns.names
    model = TotalsWithEffects(rows, totals, sums, names, prior=prior)
    return {"noise_factor": model.noise_of_labels()}


def _learned_kernel(
    kernel, landmarks, bags, totals, *, prior, bag_effects, errors, together, at_least
):
    """The kernel of highest evidence, on fewer points if there are many, `at_least` so many a bag.

    Rows have the attributes `errors`; columns of one number in `together` share a length.
    """
    link = totals.link
    if link.is_linear:  # effects are in the noise
        rows_of, bag_effects = link.rows, False
        prior = {n: value for n, value in (prior or {}).items() if not n.startswith("effect_")}
    else:
        rows_of = partial(point_rows, with_residual_variance=link.uses_residual_variance)
        if len(bags.points) > LEARNING_POINTS:
            bags = thinned_bags(bags, max(LEARNING_POINTS // len(bags), at_least))

    def rows_at(kernel):
        return replace(rows_of(bags, FieldFeatures(kernel, landmarks)), **errors)

    model = aggregate_model(rows_at(kernel), totals, prior=prior, bag_effects=bool(bag_effects))
    return learn_kernel(
        kernel,
        rows_at,
        totals.minus(model.level * bags.totals),
        intercept_prior=model.prior_above_level,
        scales=prior_centres(model.priors, model.scales),
        log_prior=log_prior_of_scales(model.priors),
        together=together,
    )
