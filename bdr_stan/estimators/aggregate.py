"""Rates at points, learned from totals of bags (Law et al. 2018, aggregate outputs)."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, replace
from typing import Any, ClassVar, Self

import numpy as np

from bdr_stan.aggregate.densities import Totals
from bdr_stan.aggregate.outside_basis import warn_of_omitted_totals
from bdr_stan.aggregate.thinning import thinning_error
from bdr_stan.aggregate.training import training_features
from bdr_stan.bags import BagsLike, PartitionedBags, as_bags
from bdr_stan.estimators.own_program import is_plain
from bdr_stan.estimators.program_of_totals import check_in_memory
from bdr_stan.estimators.rates import RatePredictions, effect_columns_of, thetas
from bdr_stan.estimators.validation import LANDMARKS, check_bag_effects, check_landmarks
from bdr_stan.kernels import FieldFeatures, Kernel, check_kernel
from bdr_stan.models.aggregate import aggregate_model
from bdr_stan.models.overdispersion import WIDER_TOTALS, overdispersion
from bdr_stan.models.plain import data_of_points
from bdr_stan.models.totals import TotalsWithEffects
from bdr_stan.parameters import estimator
from bdr_stan.posterior.priors import RATES
from bdr_stan.posterior.sampling import sample_posterior
from bdr_stan.posterior.settings import METHODS
from bdr_stan.progress import status
from bdr_stan.questions.doubts_of_totals import DoubtedRates
from bdr_stan.questions.ecological import EcologicalInference
from bdr_stan.questions.ranking import Ranking
from bdr_stan.results.result import Result
from bdr_stan.threads import limited_blas
from bdr_stan.types import ArrayLike, check_counts, check_flags
from bdr_stan.user_warnings import warn

_OF_EFFECTS = ("effect_column", "other_column")  # dimensions of draws
_THINNING_DRAWS = 20
_WARNED_THINNING_ERROR = 0.02  # on average over draws and bags


@estimator
class AggregateRegressor(Ranking, EcologicalInference, DoubtedRates, RatePredictions):
    """Rates at points from totals of bags: malaria at a pixel from counts of districts.

    The function f = f0 + (a Gaussian process, by Nystrom features at landmarks) gives the rate at
    a point through the link. A bag's label y_a has the mean lambda_a = sum_j p_j rate(x_aj), p_j
    the weights of the bag's points (populations; 1 if the bags have none).

    Parameters
    ----------
    likelihood : {"negative_binomial", "poisson", "normal", "gamma", "exponential", "binomial"}
        "negative_binomial" (default): counts of mean lambda and variance
        lambda + dispersion^2 lambda^2. "poisson": counts of mean and variance lambda; real counts
        seldom are, and a fit warns if they are not. "gamma": positive totals of mean lambda and
        standard deviation dispersion lambda, "exponential": the same at dispersion 1. "binomial":
        counts out of `trials`, of probability lambda / sum_j p_j. "normal": totals of individual
        outcomes N(f_j, sigma^2), y_a ~ N(lambda_a, sigma^2 sum_j p_j^2); weights 1/N_a make them
        means.
    link : {"square", "exp", "logit", "identity"}, optional
        The rate is f^2, exp(f), logistic(f) or f. "square" (default) and "exp" for counts
        and positive totals; "logit" for binomial, "identity" for normal. With "square" and
        "identity" the points are compressed without loss; "exp" and "logit" cost Stan all points
        (see `thin`).
    n_landmarks : int, default 60
        For each field; at most 10 for a field of one column. Ignored if `landmarks` is an array or
        "one per bag".
    kernel : str or Kernel, default "rbf"
        A name of `bdr_stan.kernels.KERNELS`, or a kernel with columns, sums and products:
        ``RBF("ard", columns=[...]) + Matern32(columns=["lon", "lat"])``. Each summand is a field
        with its own features: landmarks in its columns, sines (`HilbertSpace`, or a product of two,
        for example of space and time), or the columns themselves (`LinearEffects`). `map_kernel`
        makes one for maps. A name begins with the median rule on columns divided by their standard
        deviations.
    learn_kernel : bool, default True
        Maximise the evidence (with Laplace's method) over bandwidths and variances of summands,
        with at most about 10,000 weighted points representing all. A kernel by name has a length
        for each column (the columns of a category share one), long if a column does not matter; a
        given kernel keeps its lengths: ``RBF()`` one for all. False uses the given ones or the
        median rule.
    landmarks : {"kmeans", "random", "one per bag"} or array, shape (d, p), default "kmeans"
        k-means on columns divided by their standard deviations.
    bag_effects : bool or list of columns, default False
        Whether each bag has an i.i.d. normal effect on the log rate or the log odds, with NUTS. The
        negative binomial likelihood has gamma effects without it: see `district` of
        `predict_points`. For the normal likelihood the effect is on the rate, and columns (names or
        numbers) have coefficients that also differ between bags, with learned standard deviations
        and correlations, like ``(1 + columns | bag)`` in a multilevel model. A bag's label then
        updates the rates inside it; with the share of a group as a column's weights and `bounds`
        this is ecological inference.
    thin : int, optional
        "exp" and "logit" only: represent each bag by at most this many weighted points;
        `thinning_error_` reports the error. With "exp" thinned totals are too low and rates are too
        high by as much, as the rate at an average is below the average rate; a fit warns of more
        than 2%.
    method : {"nuts", "vb", "laplace", "optimize"}, default "nuts"
        "optimize" is the mode (the paper's Nystrom MAP), "vb" the variational posterior VBAgg, for
        models without bag_effects. All but NUTS fix rho and the dispersion at their marginal modes
        ("vb": rho at the mode of the bound).
    stan_file : path, optional
        Your edited ``totals_square.stan``, ``totals_exp.stan``, ``totals_identity.stan`` or a
        variant, from ``bdr-stan eject``. It uses all points of a bag, without `thin`, and with the
        normal likelihood no `bag_effects`. Predictions are its `y_new` for new bags and `rate_new`
        for new points, with the stock model's kernel and landmarks. Variants of the accelerated
        programs give draws, but no predictions.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept (f0), w (component), rho in units of f; beta (landmark) if one field
        has all landmarks; sigma, dispersion, tau and effect (bag), or effect_sd (effect_column),
        effect_correlation and effect (bag, effect_column), if the model has them.
    kernel_ : Kernel
        With the parameters that were learned.
    landmarks_ : array, shape (d, p)
        With several fields, NaN in columns on which a landmark's field does not depend.
    feature_map_ : FieldFeatures
        psi, with f(x) = intercept + psi(x)' w.
    bound_ : float
        With "vb": the evidence lower bound (with the Taylor term of the square link: nearly).
    log_evidence_ : float
        Except with "vb" and `stan_file`: log density of the labels at the most probable scales, the
        weights integrated out with Laplace's method.
    thinning_error_ : array, shape (about 20, n)
        With `thin`: relative errors of the training bags' means, a row for each of some draws.

    Notes
    -----
    The headers of the programs in ``stan/`` state the models. A point may be in several bags. Under
    the square link, f and -f have the same likelihood: the prior of the intercept decides, and NUTS
    starts at the mode above zero. If rates come near zero f may cross it, and the sign of each
    region is then not identified: NUTS warns, and "exp" has no such modes. scikit-learn's searches
    and folds split `trials` with the bags if it is a column of their metadata; an array needs
    metadata routing (`set_fit_request`, `set_predict_request`, `set_score_request`), and
    `cross_val_predict` passes nothing to `predict`. Source: Law, Sejdinovic, Cameron, Lucas,
    Flaxman, Battle, Fukumizu (2018), "Variational learning on aggregate outputs with Gaussian
    processes".

    Examples
    --------
    Cases are counted by district, and the rate at each point is wanted.

    >>> import numpy as np
    >>> from bdr_stan import AggregateRegressor, Bags
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.uniform(size=(1000, 1))
    >>> districts = Bags.from_points(rain, bag=(rain[:, 0] * 20).astype(int))
    >>> cases = rng.poisson(districts.sums(5 * districts.points[:, 0]))  # the rate is 5 x rain
    >>> model = AggregateRegressor(n_landmarks=6, method="laplace")
    >>> model = model.fit(districts, cases, draws=200, seed=1)
    >>> rate = model.predict_points([[0.2], [0.8]])
    >>> bool(np.abs(rate.mean - [1, 4]).max() < 0.5)
    True
    >>> sorted(model.ranking(districts, top=3).index[:3].tolist())
    [17, 18, 19]
    """

    likelihood: str = "negative_binomial"
    link: str | None = None
    n_landmarks: int | None = 60
    kernel: str | Kernel = "rbf"
    _: KW_ONLY
    learn_kernel: bool = True
    landmarks: str | ArrayLike = "kmeans"
    bag_effects: bool | Sequence[str | int] = False
    thin: int | None = None

    takes_label_sd = True
    methods: ClassVar[tuple[str, ...]] = (*METHODS, "vb")
    closed_form: ClassVar[tuple[str, ...]] = ("vb",)

    def fit(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        trials: ArrayLike | str | None = None,
        label_sd: ArrayLike | str | None = None,
        chains: int = 4,
        warmup: int | None = None,
        draws: int = 1000,
        seed: int | None = None,
        progress: bool | None = None,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
        **cmdstan_options: Any,
    ) -> Self:
        """Fit to bags and their totals.

        Parameters
        ----------
        trials : array, shape (n,), or str, optional
            For the binomial likelihood: people asked in each bag, or the column of the bags'
            metadata with them, which predictions then also use.
        label_sd : array, shape (n,), or str, optional
            Known standard error of each label, units of y, or the column of the bags' metadata with
            them, for example of totals that a survey estimates (a 90% margin of error divided by
            1.645). For the normal, negative binomial and gamma likelihoods. For the latter two the
            error is relative; it is 1 if a label is below its `label_sd`. Predicted totals exclude
            this error.
        """
        started = time.monotonic()
        bags = as_bags(bags, in_parts=self.takes_parts)
        labels = self.read_labels(bags, y, trials=trials, label_sd=label_sd, stan_data=stan_data)
        settings = self._settings(chains, warmup, draws, seed, progress, **cmdstan_options)
        return self._fit_bags(bags, labels, settings, started)

    def _fit_bags(self, bags, labels, settings, started, **surveys):
        """Fit to bags with labels that were checked, and to surveys."""
        visible = settings.progress is not False
        with status("Choosing the kernel, compressing the points", visible, after=10):
            training = self._training_features(bags, labels, settings.seed, **surveys)
        self._fit_labels(training, labels, settings, started, bags)
        if self._link.name == "exp" and self.stan_file is None:
            counts = labels.y if self._family.is_count else None
            warn_of_omitted_totals(bags, counts, self.feature_map_, self.draws())
        return self

    def _training_features(self, bags, labels, seed):
        """Landmarks, kernel and rows of bags with labels that were checked."""
        features = training_features(
            bags,
            Totals(labels, self._family, self._link),
            kernel=self.kernel,
            learn=self.learn_kernel,
            n_landmarks=self.n_landmarks,
            landmarks=self.landmarks,
            prior=self.prior,
            bag_effects=self.bag_effects,
            thin=self.thin,
            seed=seed,
        )
        if not is_plain(self.stan_file):
            return features
        return replace(features, plain_data=data_of_points(bags, features.feature_map))

    def _fit_labels(self, training, labels, settings, started, bags):
        """Fit to the rows of `bags` with labels that were checked."""
        self._forget()
        # Matrices this small gain nothing from BLAS's threads, and lose much on a busy machine.
        with limited_blas():
            model = self._model(training, labels)
        if is_plain(self.stan_file):
            model = self._plain_model(model, training, labels)
        if self.method == "vb":
            posterior = model.variational_fit(draws=settings.draws, seed=settings.seed)
        else:
            posterior = sample_posterior(model, settings)
        program = self._own_program_of(posterior, labels, settings)
        groups, of_predictions = self._training_groups(
            posterior, training, labels, settings.seed, program
        )
        return self._finish(
            model,
            posterior,
            training.record,
            labels,
            settings,
            constants=self._constants(training, posterior) | of_predictions,
            coordinates=self._coordinates(model, training),
            program=program,
            groups=groups,
            kernel=training.feature_map.kernel,
            **self._thinning(bags, training, posterior),
            **self._overdispersion(training, labels, posterior),
            seconds=time.monotonic() - started,
        )

    def _constants(self, training, posterior):
        """What predictions need of the training bags: name -> (values, dimensions)."""
        constants = {"landmarks": (training.feature_map.landmarks, ["landmark", "feature"])}
        if training.mean_points is not None:
            constants["mean_point"] = (training.mean_points, ["bag", "feature"])
        if np.any(training.rows.known_variance):
            constants[self._name_of_errors] = np.sqrt(training.rows.known_variance), ["bag"]
        if training.effect_columns is not None:
            for part in ("index", "centre", "scale"):
                values = getattr(training.effect_columns, part)
                constants[f"effect_{part}"] = values, ["effect_column"]
        return constants

    def _coordinates(self, model, training):
        """Names of entries along the dimensions of draws."""
        columns = training.effect_columns
        return {} if columns is None else dict.fromkeys(_OF_EFFECTS, columns.names)

    def _model(self, training, labels, likelihood=None):
        """The model of these rows, with Stan's data; by default of the estimator's likelihood."""
        shared = {"prior": self.prior, "weight_basis": training.feature_map.projection}
        totals = Totals(labels, likelihood or self._family, self._link)
        columns = training.effect_columns
        if columns is not None:
            sums = columns.sums(training.mean_points, training.rows.total)
            return TotalsWithEffects(training.rows, totals, sums, columns.names, **shared)
        return aggregate_model(training.rows, totals, bag_effects=bool(self.bag_effects), **shared)

    def report(self) -> str:
        """As for other estimators, and the likelihood, with the dispersion of the counts; a str.

        For Poisson and binomial counts it states whether they scatter more than such numbers do.
        """
        return f"{super().report()}\nLikelihood: {self.likelihood_text()}"

    def _check_bags(self, bags, label_data):
        """Raise if a fit needs points in memory, or would ignore replicates of weights."""
        if bags.design is not None:
            raise ValueError(
                "AggregateRegressor takes the points of a bag as all that are there, not as a "
                f"sample: leave {bags.design} out of the bags"
            )
        if not isinstance(bags, PartitionedBags):
            return
        if is_plain(self.stan_file):
            check_in_memory(self.stan_file, bags)
        if self._link.can_thin:
            raise TypeError(
                f"link {self._link.name!r} needs all points in memory, but these bags are in "
                "partitions: pass bags.load(), or use the link 'square' or 'identity'"
            )
        if self.learn_kernel:
            raise TypeError(
                "learn_kernel=True needs points in memory, but these bags are in "
                "partitions: fit to some of them, as bags[:500].load(), then to all with the "
                "kernel_ of that fit and learn_kernel=False"
            )
        self._check_effects_in_parts(bags)

    def _check_effects_in_parts(self, bags):
        if self.bag_effects and isinstance(bags, PartitionedBags):
            raise TypeError(
                "bag_effects need the points of each bag in memory, but these bags are in "
                "partitions: pass bags.load()"
            )

    def check_parameters(self) -> None:
        likelihood, link = self._family, self._link
        super().check_parameters()
        check_kernel(self.kernel)
        check_landmarks(self.landmarks, self.n_landmarks, (*LANDMARKS, "one per bag"))
        check_flags(learn_kernel=self.learn_kernel)
        check_bag_effects(self.bag_effects, link.is_linear)
        if self.bag_effects and likelihood.bag_effects_error is not None:
            raise ValueError(f"the {likelihood.name} likelihood {likelihood.bag_effects_error}")
        if self.bag_effects and self.method == "vb":
            raise ValueError("method='vb' takes no bag_effects: use 'nuts' or 'laplace'")
        if self.bag_effects and self.method != "nuts" and not link.is_linear:
            raise ValueError(
                f"method={self.method!r} takes no bag_effects, whose joint mode is at no scatter: "
                "use method='nuts', or the negative binomial likelihood"
            )
        if self.method == "vb" and not (link.is_linear or link.name in likelihood.expected_terms):
            raise ValueError(
                f"method='vb' has no bound for the {likelihood.name} likelihood: use another method"
            )
        if self.thin is not None:
            if not link.can_thin:
                raise ValueError(
                    f"link {link.name!r} needs no thinning: it is compressed without loss"
                )
            check_counts(thin=self.thin)
        if is_plain(self.stan_file):
            self._check_program_options(self.stan_file)

    def _thinning(self, bags, training, posterior):
        """What thinning changes at some of the draws, as a setting of the result."""
        if self.thin is None or self.stan_file is not None:
            return {}
        theta = thetas(posterior.flat())
        some = theta[:: max(1, len(theta) // _THINNING_DRAWS)]
        error = thinning_error(bags, training.feature_map, training.rows, some, self._link.rate)
        if abs(error.mean()) > _WARNED_THINNING_ERROR:
            warn(
                f"thin={self.thin} changes the totals of bags by {error.mean():+.1%} on average, "
                "and rates by about as much in the other direction: raise thin"
            )
        return {"thinning_error": error}

    def _overdispersion(self, training, labels, posterior):
        """Whether counts scatter more, as a setting of the result; warns if they do."""
        wider = WIDER_TOTALS.get(self._family.name)
        if wider is None or self.bag_effects or self.stan_file is not None:
            return {}
        effects = {"narrow": "binomial", "remedy": 'bag_effects=True with method="nuts"'}
        result = overdispersion(
            self._model(training, labels, wider),
            lambda: self._model(training, labels),
            posterior.attrs.get("log_evidence"),
            {"rho": float(np.median(posterior.draws["rho"]))},
            **(effects if self._family.has_trials else {}),
        )
        if result.is_clear:
            warn(result.text[0].upper() + result.text[1:])
        return {"overdispersion": asdict(result)}

    @property
    def prior_texts(self) -> dict[str, tuple[str, str, str]]:
        scales = {
            name: (f"half-normal(0, {{{name}_scale:.4g}})", scale.meaning, scale.unit)
            for name, scale in self._family.scales.items()
        }
        of_effects = {name: RATES[name] for name in ("tau", "effect_sd", "effect_correlation")}
        return {"intercept": RATES["intercept"], "rho": RATES["rho"], **scales, **of_effects}

    # ------------------------------------------------------------ state

    def _set_fitted(self, result: Result) -> None:
        self.landmarks_ = result.constants["landmarks"]
        self.kernel_ = result.settings["kernel"]
        self.feature_map_ = FieldFeatures(self.kernel_, self.landmarks_)
        self.effect_columns_ = effect_columns_of(result)
        bound = result.groups["posterior"].attrs.get("bound")
        if bound is not None:
            self.bound_ = float(bound)
        if "thinning_error" in result.settings:
            self.thinning_error_ = result.settings["thinning_error"]
        log_evidence = result.groups["posterior"].attrs.get("log_evidence")
        if log_evidence is not None:
            self.log_evidence_ = float(log_evidence)
