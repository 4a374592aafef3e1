"""The public names of the package, and what they stand for."""

import pkgutil
from importlib import import_module

import bdr_stan

# Modules whose names are their own functions and classes, imported as `bdr_stan.metrics.crps`.
MODULES = ("datasets", "metrics", "model_selection", "skpro", "tuning", "types")


def public_packages():
    """bdr_stan and its packages; modules without ``__all__`` are the packages' own affair."""
    names = (m.name for m in pkgutil.walk_packages(bdr_stan.__path__, "bdr_stan.") if m.ispkg)
    return ["bdr_stan", *(name for name in names if hasattr(import_module(name), "__all__"))]


def public_objects():
    """Name -> object, each object once, by the name nearest to ``bdr_stan``."""
    found = {}
    for package in public_packages():
        module = import_module(package)
        for name in module.__all__:
            found.setdefault(
                id(getattr(module, name)), (f"{package}.{name}", getattr(module, name))
            )
    return dict(sorted(found.values()))


def inner_names():
    """Members that completions of a user's prompt omit, as they are for other modules."""
    bags = bdr_stan.Bags([[0.0]], [0, 1])
    models = (bdr_stan.BLR(), bdr_stan.AggregateRegressor())
    objects = (bags, bdr_stan.Samples({"x": bags}), *models)
    return {name for each in objects for name in set(object.__dir__(each)) - set(dir(each))}


def names_in_modules():
    """Names of what the public modules define, or say that they offer."""
    for module in (import_module(f"bdr_stan.{name}") for name in MODULES):
        for name, value in vars(module).items():
            own = getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
            if name in getattr(module, "__all__", ()) or (own and not hasattr(module, "__all__")):
                yield f"{module.__name__}.{name}"
