"""Kernels as settings that a JSON file can hold."""

from dataclasses import fields
from typing import Any

import numpy as np

from bdr_stan.kernels.hilbert_space import HilbertProduct, HilbertSpace
from bdr_stan.kernels.kernel import Kernel, Product, Sum
from bdr_stan.kernels.linear_effects import LinearEffects
from bdr_stan.kernels.names import KERNELS
from bdr_stan.kernels.normal_scores import NormalScores
from bdr_stan.kernels.polynomial import Polynomial
from bdr_stan.kernels.quadratic_effects import QuadraticEffects

_BASES = (HilbertSpace, HilbertProduct)
_OTHERS = (LinearEffects, QuadraticEffects, Polynomial, NormalScores, Sum, Product, *_BASES)
_CLASSES = {kind.__name__: kind for kind in (*KERNELS.values(), *_OTHERS)}


def kernel_config(kernel: Any) -> dict[str, Any]:
    """A kernel as a dict that JSON can hold; `kernel_from_config` is the inverse."""
    values = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    for name, value in values.items():
        if isinstance(value, Kernel):
            values[name] = kernel_config(value)
        elif name == "columns" and value is not None:
            values[name] = [c.item() if isinstance(c, np.generic) else c for c in value]
        elif isinstance(value, (np.ndarray, np.generic)):
            values[name] = value.tolist()
    return {"kernel": type(kernel).__name__, **values}


def kernel_from_config(config: dict[str, Any]) -> Kernel:
    """The kernel of which `kernel_config` gave this dict."""
    values = {name: value for name, value in config.items() if name != "kernel"}
    for name, value in values.items():
        if isinstance(value, dict):
            values[name] = kernel_from_config(value)
        elif name == "columns" and value is not None:
            values[name] = tuple(value)
    return _CLASSES[config["kernel"]](**values)
