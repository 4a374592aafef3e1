"""Errors for unknown arguments and attributes, with the name that is nearest."""

import functools
import inspect
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from bdr_stan.types import check_flags

F = TypeVar("F", bound=Callable[..., Any])

# The commonest guesses, each with the name that it has here, or with code that begins so.
_GUESSES = {
    "seed": "random_state",
    "random_state": "seed",
    "iter": "draws",
    "n_samples": "draws",
    "tune": "warmup",
    "cores": "parallel_chains",
    "control": "adapt_delta",
    "target_accept": "adapt_delta",
    "sample_weight": "label_sd, the standard error of each label",
    "weights": "weight",
    "group": "bag",
    "columns": "features",
    "length_scale": "bandwidth",
    "predict_interval": "predictive(bags).interval(0.95)",
    "posterior_predict": "predictive(bags)",
    "posterior_epred": "predictive(bags)",
    "ranef": "predict_terms(bags, groups)",
    "feature_importances_": "influence_table(bags)",
    "loo": "idata, as arviz.loo(model.idata)",
    "pp_check": "report_html(path, bags)",
    "to_netcdf": "save(path)",
    "std": "sd",
    "query": "where(condition)",
    "groupby": "to_dataframe()",
    "plot": "to_dataframe()",
    "gaussian": "normal",
    "cumulative": "ordinal",
    "negbinomial": "negative_binomial",
}


@functools.lru_cache(maxsize=1000)  # getattr with a default repeats the lookup
def near(name: str, possible: tuple[str, ...], n: int = 1, cutoff: float = 0.8) -> list[str]:
    """Suggestions for an unknown name: of a common guess its meaning, else n similar names."""
    guess = _GUESSES.get(name, "")
    if re.split(r"\W", guess)[0] in possible:
        return [guess]
    return get_close_matches(name, possible, n=n, cutoff=cutoff)


def answered(function: F) -> F:
    """Decorate a method: TypeError for an unknown keyword, ValueError for a flag not of bool."""
    accepted = inspect.signature(function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    flags = [name for name, p in accepted.items() if p.annotation in (bool, bool | None)]
    is_constructor = function.__name__ == "__init__"

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        unknown = () if takes_any else [name for name in kwargs if name not in accepted]
        if unknown:
            owner: Any = args[0] if isinstance(args[0], type) else type(args[0])
            method = owner.__name__ if is_constructor else f"{owner.__name__}.{function.__name__}"
            answer = _answer(
                unknown[0],
                tuple(accepted)[1:],
                getattr(owner, "fit", None) if is_constructor else None,
            )
            raise TypeError(f"{method}() takes no argument {unknown[0]!r}: {answer}")
        values = {**dict(zip(accepted, args)), **kwargs}
        if not is_constructor:  # which checks nothing, as scikit-learn requires
            check_flags(**{name: values[name] for name in flags if values.get(name) is not None})
        return function(*args, **kwargs)

    return cast(F, checked)


def _answer(name, accepted, fit):
    """Replacement of the argument `name`; `fit` is the method that may accept it."""
    if meant := near(name, accepted):
        return f"did you mean {meant[0]!r}?"
    if fit and (meant := near(name, tuple(inspect.signature(fit).parameters))):
        return f"give {meant[0]} to fit"
    return f"its arguments are {', '.join(accepted)}"


def unknown_attribute(owner: Any, name: str) -> Any:
    """Raise AttributeError for an attribute that `owner` lacks; for `__getattr__`."""
    kind = type(owner)
    if hasattr(kind, name):  # a property that raised this error
        return object.__getattribute__(owner, name)
    accepted = tuple(each for each in [*dir(kind), *vars(owner)] if not each.startswith("_"))
    meant = [] if name.startswith("_") else near(name, accepted)
    advice = f"; did you mean {meant[0]!r}?" if meant else ""
    raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{advice}")
