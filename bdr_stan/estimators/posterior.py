"""Base of the estimators that draw from a posterior."""

import secrets
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.bags.record import BagsRecord
from bdr_stan.bags.samples import by_name
from bdr_stan.embedding.covariates import Covariates
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.estimators.own_program import (
    OwnProgram,
    check_declares,
    check_own_data,
    is_plain,
    own_data_of_new_bags,
    with_own_data,
)
from bdr_stan.estimators.validation import check_prior, check_stan_file
from bdr_stan.kernels import kernel_text
from bdr_stan.labels import OF_NEW_BAGS, Labels
from bdr_stan.models.plain import StanData
from bdr_stan.parameters import estimator
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import table
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.posterior.settings import (
    METHODS,
    WARMUP,
    WARMUP_OF_VARIANTS,
    SamplerSettings,
    check_options,
)
from bdr_stan.posterior.stanli import check_engine
from bdr_stan.results.advice import FEW_BAGS, headline, report, sampling_warnings
from bdr_stan.results.diagnostics import diagnostics, summary
from bdr_stan.results.result import Result
from bdr_stan.threads import limited_blas
from bdr_stan.types import ArrayLike, PathName, check_counts
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    import pandas as pd


@estimator
class PosteriorEstimator(BagEstimator):
    """Base of the estimators that draw from a posterior.

    Parameters
    ----------
    method : {"nuts", "optimize", "laplace"}, default "nuts"
        All but NUTS fix rho, and the scales of a `family`, at their marginal modes.
    prior : dict, optional
        Numbers that replace the data-scaled defaults; `priors()` shows them after a fit.
    stan_file : path, optional
        Your variant of the Stan program, from ``bdr-stan eject``.
    engine : {"cmdstan", "stanli"}, optional
        What runs the Stan program: CmdStan, compiled, or stanli, an interpreter that needs no
        compiler (extra "stanli"). Default: CmdStan; stanli, with a warning, if CmdStan is not set
        up and stanli is installed.
    """

    _: KW_ONLY
    method: str = "nuts"
    prior: Mapping[str, float] | None = None
    stan_file: PathName | None = None
    engine: str | None = None
    random_state: int | None = None

    takes_parts = True
    samples_posterior = True
    methods: ClassVar[tuple[str, ...]] = METHODS
    closed_form: ClassVar[tuple[str, ...]] = ()  # methods without a Stan program
    # Names of data that fits pass to a plain program, without the "_new" of new bags.
    program_data: ClassVar[tuple[str, ...]] = ()
    program_ran_here = False  # whether the user's program ran in this session, and so may again
    _default_warmup: ClassVar[int] = WARMUP  # of the package's own program

    def fit(self, bags: BagsLike, y: ArrayLike, *args: Any, **kwargs: Any) -> Self:
        """Fit to bags and their labels.

        Parameters
        ----------
        y : array, shape (n,), or str
            Label of each bag, or the name of a column of the bags' metadata. A pandas Series is
            matched to the ids of the bags by its index, which must contain them all; anything
            else, and a Series with the default index, is in the order of the bags.
        chains, warmup, draws : int, default 4, 300, 1000
            Chains, and iterations of each before and after warmup; warmup is 1000 by default for
            BDRClassifier and for a model with a `stan_file`. Laplace, "vb" and the exact method
            return one chain of `draws`; optimisation one draw.
        progress : bool, optional
            Progress on stderr, with the remaining time: by default for steps longer than ten
            seconds, and for compiling, which happens once; True shows it from the first second,
            False never.
        stan_data : dict, optional
            Data that your own program, `stan_file`, declares in addition to the data of every fit:
            by name a column of the bags' metadata, or an array. A declared name followed by "_new"
            has the values of new bags, from the same column.
        **cmdstan_options
            Arguments of the cmdstanpy method: for NUTS adapt_delta, max_treedepth, step_size, thin,
            metric, inv_metric, adapt_engaged, inits, parallel_chains and, for the links "exp" and
            "logit" of totals, threads_per_chain; for optimisation iter, history_size, jacobian and
            inits.

        Raises
        ------
        RuntimeError
            Stan's message if it fails.

        Warns
        -----
        UserWarning
            Poor diagnostics, with their values and advice.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\n{headline(self.diagnostics())}" if "result_" in vars(self) else text

    def summary(self, var_names: list[str] | None = None) -> "pd.DataFrame":
        """Posterior mean, sd, central 95% interval and, after NUTS, ESS and R-hat: a DataFrame.

        For the parameters `var_names`, for example ["sigma", "rho"]; by default all.
        """
        return summary(self.idata, var_names)

    def diagnostics(self) -> dict[str, Any]:
        """Diagnostics of the sampler, as a dict.

        NUTS: divergences, R-hat, ESS, E-BFMI, tree depth; Laplace: Pareto k-hat.
        """
        return diagnostics(self.idata)

    def report(self) -> str:
        """Diagnostics with the usual thresholds and advice, and the kernel; a str.

        The kernel's length scale is in the units of each column.
        """
        lines = [report(self.diagnostics())]
        kernel = getattr(self, "kernel_", None)
        if kernel is not None:
            for name, of_sample in self.result_.samples.items():
                text = kernel_text(by_name(kernel)[name], of_sample.get("feature_names"))
                text = text.replace(" + ", "\n  + ").replace(" x ", "\n    x ")
                lines.append(f"Kernel of {name}: {text}" if name else f"Kernel: {text}")
        return "\n".join(lines)

    def report_html(
        self,
        path: PathName,
        bags: BagsLike | None = None,
        *,
        label: str | None = None,
        title: str | None = None,
        author: str | None = None,
    ) -> None:
        """Write an HTML report of the fit for readers who did not run it.

        A summary in sentences, with ridge regression on means as a baseline; predictions and their
        calibration by bag size, leave-one-out if the fit allows it; robustness of conclusions, see
        `doubts`; maps of rates, the influence of each column, the effect of shrinkage; data and
        model; in an appendix diagnostics with advice, posterior, priors, the call, seed and
        versions. Needs the extra "report".

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete. It needs no network.
        bags : Bags, list of arrays or table, optional
            Those of the fit, matched by their ids. A fit does not keep its points: without them
            the report lists the sections that it omits.
        label : str, optional
            Description of the labels with their unit, such as "age, years". Default: the name of
            the column or Series passed to `fit`, else "label".
        title, author : str, optional
            Title of the report, by default "Report of a fit" and the label.

        Raises
        ------
        ImportError
            Jinja2 or matplotlib is not installed.
        FileNotFoundError, NotADirectoryError, IsADirectoryError
            The path is a directory, or its parent does not exist.
        TypeError, ValueError
            The bags are not the training bags; the label is not a str.
        """
        from bdr_stan.report.document import write_report

        check_is_fitted(self, "result_")
        if label is None:
            label = self.result_.settings.get("label_name") or "label"
        for name, text in {"label": label, "title": title, "author": author}.items():
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{name} must be a str, found {text!r}")
        bags = None if bags is None else self.like_training(bags)
        write_report(self, path, bags, label, title, author)

    def stan_data(self: Any, bags: BagsLike, y: ArrayLike, **label_data: Any) -> StanData:
        """Data of the plain Stan program of this model, for CmdStan, R or Julia.

        Its new bags are the training bags: the program then draws their y_new and log_lik, and of
        totals rate_new.

        Parameters
        ----------
        bags, y : as for `fit`
        **label_data
            label_sd, trials, exposure, offset, event, entry and stan_data as for `fit`.

        Returns
        -------
        StanData
            A dict, name -> number or array, as ``docs/programs.md`` describes them; its
            `write_json(path)` writes the data file of every interface to Stan.

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters, bags with several samples, and options that plain
            programs do not have.
        """
        bags = as_bags(bags, in_parts=True, samples=self.takes_samples)
        labels = self.read_labels(bags, y, **label_data)
        training = self._plain_training(bags, labels)
        model = clone(self)
        if labels.classes is not None:
            model.classes_ = labels.classes
        with limited_blas():
            plain = model._plain_model(model._model(training, labels), training, labels)
        data = plain.stan_input(SamplerSettings(method="nuts", seed=0, progress=False)).data
        return StanData({**data, **plain.new_bags})

    def priors(self, as_table: bool = True) -> "pd.DataFrame | dict[str, float]":
        """The priors of this fit, in the units of y.

        Parameters
        ----------
        as_table : bool, default True
            A pandas DataFrame to read, with `stan_file` of one row, as that program has its own
            priors; False returns the numbers by name, in the form of the parameter `prior`.
        """
        check_is_fitted(self, "result_")
        priors = self.result_.settings["priors"]
        if not as_table:
            return dict(priors)
        if self.stan_file is None:
            return table(priors, self.prior_texts)
        import pandas as pd

        columns = {"prior": [f"see {self.stan_file}"], "meaning": [""], "unit": [""]}
        return pd.DataFrame(columns, pd.Index(["all parameters"], name="parameter"))

    def _html_repr(self) -> str:
        """For notebooks: scikit-learn's, and after a fit with a posterior the text of `report`."""
        html = super()._html_repr()
        if "result_" not in vars(self):
            return html
        bags = self.result_.n_bags
        return f"{html}<pre>Fitted to {bags} bags. {escape(self.report())}</pre>"

    # ------------------------------------------------------------ parts of a fit

    def check_parameters(self) -> None:
        if self.method not in self.methods:
            raise ValueError(
                f"{type(self).__name__} has no method {self.method!r}; "
                f"there are: {', '.join(self.methods)}"
            )
        check_prior(self.prior)
        if self.stan_file is not None and self.method in self.closed_form:
            raise ValueError(f"method={self.method!r} runs no Stan program: leave stan_file out")
        check_stan_file(self.stan_file)
        if self.engine is not None and self.method in self.closed_form:
            raise ValueError(f"method={self.method!r} runs no Stan program: leave engine out")
        check_engine(self.engine)

    def _check_program(
        self, needed: Mapping[str, str], stan_data: Mapping[str, Any] | None = None
    ) -> None:
        """Raise, or warn, if a user's program does not declare `needed` data, name -> text."""
        self._check_stan_data(stan_data)
        if is_plain(self.stan_file):
            needed = {name: text for name, text in needed.items() if text}
            check_declares(self.stan_file, needed, stan_data, self.program_data)

    def _check_stan_data(self, stan_data: Mapping[str, Any] | None) -> None:
        """Raise TypeError or ValueError unless the user's program declares these data."""
        if stan_data is not None:
            check_own_data(self.stan_file, stan_data, self.program_data)

    def _settings(
        self,
        chains: int = 4,
        warmup: int | None = None,
        draws: int = 1000,
        seed: int | None = None,
        progress: bool | None = None,
        **options: Any,
    ) -> SamplerSettings:
        """Settings of the sampler from the arguments of `fit`, checked."""
        if warmup is None:
            warmup = self._default_warmup if self.stan_file is None else WARMUP_OF_VARIANTS
        seed = self.checked_seed(seed)
        if seed is None:  # drawn here so that the fit keeps it and can be repeated
            seed = secrets.randbelow(2**31)
        settings = SamplerSettings(
            method=self.method,
            chains=chains,
            warmup=warmup,
            draws=draws,
            seed=seed,
            progress=progress,
            stan_file=self.stan_file,
            engine=self.engine,
            options=options,
        )
        check_counts(**settings.iterations)
        misplaced = [name for name in options if name in self.get_params(deep=False)]
        if misplaced and misplaced[0] != "random_state":  # which `fit` has by another name
            name, cls = misplaced[0], type(self).__name__
            raise TypeError(f"fit takes no {name}: it is a parameter of {cls}({name}=...)")
        check_options(self.method, options, warmup=warmup)
        return settings

    def _own_program_of(
        self, posterior: Posterior, labels: Labels, settings: SamplerSettings
    ) -> OwnProgram | None:
        """The user's plain program as it ran, if there is one."""
        if not is_plain(self.stan_file):
            return None
        program = OwnProgram.of_fit(self.stan_file, posterior.program_data, labels)
        return replace(program, seed=cast(int, settings.seed), engine=self.engine)

    def _finish(
        self,
        model: Model,
        posterior: Posterior,
        record: BagsRecord,
        labels: Labels,
        settings: SamplerSettings,
        *,
        covariates: Covariates | None = None,
        program: OwnProgram | None = None,
        **kept: Any,
    ) -> Self:
        """Set the result of a fit, with what is `kept` as in `Result.of_fit`; warn of trouble."""
        if covariates is not None:
            kept["covariates"] = covariates.config()
            names = {**kept["coordinates"], **covariates.coordinates}
            if settings.stan_file is not None:  # its gamma has all columns of x, in sds
                names["covariate"] = [*names.get("covariate", ()), *names.get("effect", ())]
            elif "gamma" in posterior.draws:
                gamma = covariates.in_given_units(posterior.draws["gamma"])
                posterior = replace(posterior, draws={**posterior.draws, "gamma": gamma})
            kept["coordinates"] = names
        if program is not None:
            kept["program"] = program.kept()
        # A user's program may have other priors.
        texts = dict(self.prior_texts) if settings.stan_file is None else {}
        self.program_ran_here = True
        result = Result.of_fit(
            model, posterior, record, labels, settings, prior_texts=texts, **kept
        )
        self.set_result(result, {})
        n_bags = labels.n
        for trouble in sampling_warnings(self.diagnostics()):
            warn(f"{trouble} {FEW_BAGS.format(n=n_bags)}" if n_bags < 20 else trouble)
        return self

    def read_labels(
        self: Any,
        bags: Any,
        y: ArrayLike,
        *,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
        **label_data: Any,
    ) -> Labels:
        """Labels of training bags, or of their record, with all that belongs to them, checked."""
        self._check_bags(bags, {"y": y, **label_data})
        self.check_parameters()
        labels = self.label_model.read(bags, y, **label_data)
        self._check_program(self._needed_data(labels), stan_data)
        return with_own_data(labels, self.stan_file, bags, stan_data)

    def _model(self, training: Any, labels: Labels) -> Any:
        """The statistical model with its data, priors and constants."""
        raise NotImplementedError

    def _plain_model(self, stock: Any, training: Any, labels: Labels) -> Any:
        """The model of the plain program in the place of a stock model."""
        raise NotImplementedError

    def labels_of_new(
        self,
        bags: Any,
        *,
        stan_data: Mapping[str, ArrayLike | str] | None = None,
        **label_data: ArrayLike | str | None,
    ) -> Labels:
        """What labels of `bags` to predict need, by default from columns that the fit named."""
        bags.check_order(**label_data)
        self._check_stan_data(stan_data)
        required = dict.fromkeys(self._required)
        passed = {name: values for name, values in label_data.items() if values is not None}
        classes = getattr(self, "classes_", None)
        labels = self.label_model.of_new(
            bags, required | self._label_columns | passed, required, classes
        )
        if self.own_program is None:
            return labels
        data = own_data_of_new_bags(self.own_program.columns, bags, stan_data)
        return replace(labels, program_data=data)

    @property
    def prior_texts(self) -> Mapping[str, tuple[str, str, str]]:
        """Priors in words, by parameter: see `bdr_stan.posterior.priors`."""
        return self.label_model.prior_texts

    @property
    def _required(self):
        """What came with each training label, and so must come with those to predict."""
        constants = self.result_.constants
        takes = [name for name in self.label_model.takes if name in OF_NEW_BAGS]
        return [name for name in takes if name == "trials" or name in constants]

    @property
    def _label_columns(self):
        """Columns of the bags' metadata that the fit named, by what they are."""
        fitted = vars(self).get("result_")
        return {} if fitted is None else fitted.settings.get("label_columns", {})

    @property
    def needs_trials(self) -> bool:
        """Whether predictions need trials, exposure or offset that the fit took from no column."""
        return not set(self._required) <= set(self._label_columns)

    @property
    def columns_of_bags(self) -> list[str]:
        """Columns of the bags' metadata that predictions need."""
        program = self.own_program
        of_program = [] if program is None else filter(None, program.columns.values())
        return [*super().columns_of_bags, *self._label_columns.values(), *of_program]

    @property
    def by_program(self) -> bool:
        """Whether predictions come from a user's Stan program."""
        return self.stan_file is not None or self.own_program is not None

    @property
    def own_program(self) -> OwnProgram | None:
        """The user's plain program as the fit ran it."""
        fitted = vars(self).get("result_")
        program = None if fitted is None else fitted.settings.get("program")
        return None if program is None else OwnProgram(**program)

    @property
    def _n_draws(self) -> int:
        """Draws of all chains."""
        sizes = self.result_.groups["posterior"].sizes
        return sizes["chain"] * sizes["draw"]
