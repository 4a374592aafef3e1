"""Errors for unknown arguments and attributes, with the names that they have here."""

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

# Arguments of other libraries, and those of this one that take their place.
_CALLED_HERE = {
    **dict.fromkeys(("group", "groups", "groupby", "by"), "bag"),
    **dict.fromkeys(("bag_id", "bag_column", "id_column", "sample_key", "key"), "bag"),
    **dict.fromkeys(("columns", "cols", "feature_names", "use_rep", "obsm", "layer"), "features"),
    **dict.fromkeys(("x", "X", "data", "samples"), "bags"),
    **dict.fromkeys(("label", "labels", "target"), "y"),
    **dict.fromkeys(("weights", "sample_weights"), "weight"),
    **dict.fromkeys(("covariates", "label", "labels", "target", "y", "obs"), "metadata"),
    "y_err": "label_sd",
    "yerr": "label_sd",
    "random_state": "seed",
    "seed": "random_state",
    "n_chains": "chains",
    "num_chains": "chains",
    "tune": "warmup",
    "num_warmup": "warmup",
    "n_warmup": "warmup",
    "num_samples": "draws",
    "n_samples": "draws",
    "n_draws": "draws",
    "cores": "parallel_chains",
    "n_jobs": "parallel_chains",
    "target_accept": "adapt_delta",
    "n_components": "n_landmarks",
    "gamma": "bandwidth",
    "length_scale": "bandwidth",
    "lengthscale": "bandwidth",
    "priors": "prior",
    "verbose": "progress",
}
# What to call instead of an argument of another library.
_CALLED_INSTEAD = {
    "return_interval": "use predict_table(bags), or predictive(bags).interval(0.95)",
    "return_quantiles": "use predictive(bags).quantile([0.1, 0.9])",
    "return_cov": "use predictive(bags)",
}


def answered(function: F) -> F:
    """Decorate a method so that an unknown keyword raises TypeError with the right name.

    A method that takes any keyword answers those that are another name of an argument it lacks.
    """
    signature = inspect.signature(function)
    known = signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in [each for each in kwargs if each not in known]:
            if not takes_any or _CALLED_HERE.get(name) in _not_given(signature, args, kwargs):
                owner = args[0] if isinstance(args[0], type) else type(args[0])
                raise TypeError(_answer(owner, function.__name__, name, list(known)))
        return function(*args, **kwargs)

    return cast(F, checked)


def _not_given(signature, args, kwargs):
    """Names of the arguments without defaults that a call does not give."""
    given = signature.bind_partial(*args, **kwargs).arguments
    return [
        name
        for name, p in signature.parameters.items()
        if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty and name not in given
    ]


def called_here(name: str, known: Collection[str]) -> str | None:
    """The argument out of `known` that takes the place of `name`; None if there is none."""
    called = _CALLED_HERE.get(name)
    return called if called in known else _misspelt(name, known)


def _misspelt(name, known):
    return _closest(name, tuple(known))


@functools.lru_cache(maxsize=1000)  # getattr with a default asks again and again
def _closest(name, known):
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.8)), None)


def _answer(owner, method, name, known):
    """The message: what to write instead of the argument `name` of a method of `owner`."""
    call = owner.__name__ if method == "__init__" else f"{owner.__name__}.{method}"
    called = _CALLED_HERE.get(name)
    of_fit = _parameters(owner, "fit") if method == "__init__" else []
    if name in _CALLED_INSTEAD:
        answer = _CALLED_INSTEAD[name]
    elif called in known:
        answer = f"it is called {called!r} here"
    elif of_fit and (given := name if name in of_fit else called_here(name, of_fit)):
        answer = f"give it to fit: {owner.__name__}(...).fit(bags, y, {given}=...)"
    elif takers := _estimators_with(name, method):
        answer = f"{', '.join(takers)} take{'s' * (len(takers) == 1)} it"
    elif meant := _misspelt(name, known):
        answer = f"did you mean {meant!r}?"
    else:
        answer = (
            f"its arguments are {', '.join(each for each in known if each not in ('self', 'cls'))}"
        )
    return f"{call}() takes no argument {name!r}: {answer}"


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
    if name.startswith("_"):
        return []
    return [each.__name__ for each in _estimators() if callable(getattr(each, name, None))]


def _is_there(owner, name):
    """Whether an object has a method, or once it is fitted a property, of this name."""
    is_property = isinstance(getattr(type(owner), name, None), property)
    return name == "len" or is_property or hasattr(owner, name)


def unknown_attribute(owner: Any, name: str, used_here: Mapping[str, str]) -> Any:
    """Raise AttributeError for an attribute that `owner` lacks, with what to use instead.

    For `__getattr__`; `used_here` has attributes of other libraries, and what takes their place.
    """
    if hasattr(type(owner), name):  # a property, whose own error this is
        return object.__getattribute__(owner, name)
    is_class = isinstance(owner, type)
    known = dir(owner) if is_class else [*dir(type(owner)), *vars(owner)]
    answer, used = "", used_here.get(name)
    if used and _is_there(owner, re.findall(r"\w+", used)[0]):
        answer = f"; use {used}"
    elif hasattr(type(owner), "fit") and (with_it := _with_attribute(name)):
        answer = f": {', '.join(with_it)} have it"
    elif not name.startswith("_") and (meant := _misspelt(name, known)):
        answer = f"; did you mean {meant!r}?"
    kind = f"type object {owner.__name__!r}" if is_class else f"{type(owner).__name__!r} object"
    raise AttributeError(f"{kind} has no attribute {name!r}{answer}")
