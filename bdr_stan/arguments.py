"""Errors for unknown arguments and attributes, with the names that they have here."""

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from bdr_stan.types import check_flags

F = TypeVar("F", bound=Callable[..., Any])

# What takes the place of the commonest guesses, if it is there.
_GUESSES = (
    ("bag", "group groups groupby by bag_id"),
    ("features", "columns cols feature_names feature_names_in_ use_rep"),
    ("bags", "X data"),
    ("y", "label labels target"),
    ("metadata", "label labels target y obs covariates"),
    ("weight", "weights sample_weight"),
    ("label_sd", "yerr y_err"),
    ("label_sd, the standard error of each label", "sample_weight weights"),
    ("random_state", "seed"),
    ("seed", "random_state"),
    ("draws", "iter n_samples num_samples n_draws"),
    ("warmup", "tune num_warmup n_warmup burn"),
    ("chains", "n_chains num_chains"),
    ("parallel_chains", "cores n_jobs"),
    ("adapt_delta", "control target_accept"),
    ("n_landmarks", "n_components"),
    ("bandwidth", "gamma length_scale lengthscale"),
    ("prior", "priors"),
    ("progress", "verbose"),
    ("predict_table(bags), or predictive(bags).interval(0.95)", "predict_interval return_interval"),
    ("predictive(bags).quantile([0.1, 0.9])", "predict_quantiles return_quantiles"),
    ("predictive(bags)", "posterior_predict posterior_epred posterior_predictive return_cov"),
    ("predict_terms(bags, groups)", "ranef random_effects"),
    ("influence_table(bags)", "feature_importances_"),
    ("idata", "posterior trace samples coef_"),
    ("idata, as arviz.loo(model.idata)", "loo waic"),
    ("report_html(path, bags)", "pp_check to_html plot"),
    ("save(path)", "to_netcdf dump"),
    ("sd", "std stddev scale"),
    ("sd ** 2", "var variance"),
    ("quantile(q)", "median quantiles ppf percentile"),
    ("interval(level)", "hdi confidence_interval"),
    ("log_prob(y)", "pdf logpdf log_pdf"),
    ("sample(size)", "rvs samples"),
    ("lower and upper", "interval"),
    ("where(condition)", "query filter"),
    ("ids", "names bag_ids groups"),
    ("points", "data values X"),
    ("sizes and n_features", "shape n_bags size"),
    ("to_dataframe()", "df to_df to_pandas head groupby plot"),
    ("from_dataframe", "from_pandas from_polars from_arrow from_df from_table"),
    ("from_points, or from_list for a list of arrays", "from_array from_numpy"),
    ("from_anndata", "from_h5ad read_h5ad"),
    ("from_csv", "read_csv"),
    ("from_parquet", "read_parquet"),
    ("normal", "gaussian"),
    ("ordinal", "cumulative"),
    ("negative_binomial", "negbinomial nbinom nb"),
)
_SHOWN = 6  # estimators in a message
_NO_DEFAULT = inspect.Parameter.empty


def guessed(name: str, known: Iterable[str]) -> str | None:
    """What takes the place of a common guess: a name out of `known`, or code that begins so."""
    known = set(known)
    used = (used for used, guesses in _GUESSES if name in guesses.split())
    return next((each for each in used if re.findall(r"\w+", each)[0] in known), None)


@functools.lru_cache(maxsize=1000)  # getattr with a default asks again and again
def instead(name: str, known: tuple[str, ...]) -> str | None:
    """Advice for an unknown name: what takes its place, or which of the known it misspells."""
    if used := guessed(name, known):
        return f"it is called {used!r} here" if used in known else f"use {used}"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return f"did you mean {near[0]!r}?" if near else None


def answered(function: F) -> F:
    """Decorate a method: TypeError for an unknown keyword, ValueError for a flag that is no bool.

    A method that takes any keyword answers the guesses of arguments that it needs and lacks.
    """
    known = inspect.signature(function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
    flags = [name for name, p in known.items() if p.annotation in (bool, bool | None)]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(known, args)), **kwargs}
        for name in [each for each in given if each not in known]:
            meant = (guessed(name, known) if takes_any else None) or ""
            needed = meant in known and meant not in given and known[meant].default is _NO_DEFAULT
            if needed or not takes_any:
                owner = args[0] if isinstance(args[0], type) else type(args[0])
                raise TypeError(_answer(owner, function.__name__, name, list(known)))
        if function.__name__ != "__init__":  # which checks nothing, as scikit-learn asks
            check_flags(**{name: given[name] for name in flags if given.get(name) is not None})
        return function(*args, **kwargs)

    return cast(F, checked)


def _answer(owner, method, name, known):
    """The message: what to write instead of the argument `name` of a method of `owner`."""
    call = owner.__name__ if method == "__init__" else f"{owner.__name__}.{method}"
    known = tuple(each for each in known if each not in ("self", "cls"))
    of_fit = _parameters(owner, "fit") if method == "__init__" else []
    given = name if name in of_fit else guessed(name, of_fit)
    if given and not guessed(name, known):
        answer = f"give it to fit: {owner.__name__}(...).fit(bags, y, {given}=...)"
    elif method == "predict" and (used := guessed(name, dir(owner))):
        answer = f"use {used}"
    elif not guessed(name, known) and (takers := _estimators_with(name, method)):
        answer = f"{_listed(takers)} take{'s' * (len(takers) == 1)} it"
    else:
        answer = instead(name, known) or f"its arguments are {', '.join(known)}"
    return f"{call}() takes no argument {name!r}: {answer}"


def _listed(names):
    more = f" and {len(names) - _SHOWN} others" * (len(names) > _SHOWN)
    return ", ".join(names[:_SHOWN]) + more


def _parameters(owner, method):
    """Names of the parameters of a method, or of the constructor; none without the method."""
    found = getattr(owner, method, None)
    return [] if found is None else list(inspect.signature(found).parameters)


def _estimators_with(name, method):
    """Names of the estimators whose method, or constructor, takes an argument."""
    return [
        each.__name__
        for each in _estimators()
        if name in _parameters(each, method) and getattr(each, f"takes_{name}", True)
    ]


def _estimators():
    import bdr_stan

    public = [getattr(bdr_stan, each) for each in bdr_stan.__all__]
    return [each for each in public if isinstance(each, type) and hasattr(each, "fit")]


@functools.cache
def _with_attribute(name):
    """Names of the estimators that have a public method of this name."""
    return [each.__name__ for each in _estimators() if callable(getattr(each, name, None))]


def unknown_attribute(owner: Any, name: str) -> Any:
    """Raise AttributeError for an attribute that `owner` lacks, with what to use instead.

    For `__getattr__`, also of a metaclass.
    """
    if hasattr(type(owner), name):  # a property, whose own error this is
        return object.__getattribute__(owner, name)
    is_class = isinstance(owner, type)
    kind = f"type object {owner.__name__!r}" if is_class else f"{type(owner).__name__!r} object"
    message = f"{kind} has no attribute {name!r}"
    if name.startswith("_"):
        raise AttributeError(message)
    known = dir(owner) if is_class else [*dir(type(owner)), *vars(owner)]
    advice = instead(name, tuple(each for each in known if not each.startswith("_")))
    if hasattr(type(owner), "fit") and (with_it := _with_attribute(name)):
        message += f": {_listed(with_it)} have it"
    elif advice and _is_there(owner, re.findall(r"(?:use |')(\w+)", advice)[0]):
        message += f"; {advice}"
    raise AttributeError(message)


def _is_there(owner, name):
    """Whether an object has a method, or once it is fitted a property, of this name."""
    return isinstance(getattr(type(owner), name, None), property) or hasattr(owner, name)
