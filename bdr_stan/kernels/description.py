"""Kernels in words, for tables and reports, and as settings that a JSON file can hold."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from bdr_stan.kernels.hilbert_space import HilbertProduct, HilbertSpace
from bdr_stan.kernels.inner_products import LinearEffects, Polynomial, QuadraticEffects
from bdr_stan.kernels.kernel import Kernel, Product, Sum
from bdr_stan.kernels.normal_scores import NormalScores
from bdr_stan.kernels.shapes import KERNELS
from bdr_stan.kernels.stationary import BandwidthKernel
from bdr_stan.kernels.summands import fields_of

_MOST_SHOWN = 4  # lengths or columns, one by one
_EFFECTS = {LinearEffects: "linear", QuadraticEffects: "quadratic"}


def kernel_text(kernel: Kernel, names: Sequence[str] | None) -> str:
    """A resolved kernel in words: its columns, of these names if any, with its length in each."""
    if any(type(term) in _EFFECTS for term in fields_of(kernel)):
        return _effects_text(kernel, names)
    if isinstance(kernel, HilbertProduct):
        factors: Any = (kernel.first, kernel.second)
        text = " x ".join(kernel_text(factor.base, names) for factor in factors)
        n = kernel.n_functions if kernel.pairs is None else len(kernel.pairs)
        return f"{text} ({n} products of basis functions)"
    if isinstance(kernel, (Sum, Product)):
        sign = " + " if isinstance(kernel, Sum) else " x "
        return sign.join(kernel_text(part, names) for part in (kernel.first, kernel.second))
    if isinstance(kernel, NormalScores):
        return f"{kernel_text(kernel.base, None)} for scores of {_columns(kernel, names)[0]}"
    if isinstance(kernel, HilbertSpace):
        return f"{kernel_text(kernel.base, names)} ({kernel.n_functions} basis functions)"
    if not isinstance(kernel, BandwidthKernel):
        named: Any = kernel
        return repr(
            kernel if named.columns is None else replace(named, columns=_columns(kernel, names))
        )
    columns = _columns(kernel, names)
    lengths = np.atleast_1d(kernel.lengths)
    if len(lengths) > _MOST_SHOWN:
        text = f"lengths from {_plain(lengths.min())} to {_plain(lengths.max())}"
    elif len(lengths) == len(columns):
        pairs = zip(columns, lengths, strict=True)
        text = "lengths " + ", ".join(f"{name} {_plain(length)}" for name, length in pairs)
    else:
        text = f"length {', '.join(map(_plain, lengths))}"
        text += f" for {', '.join(columns)}" if 0 < len(columns) <= _MOST_SHOWN else ""
    if kernel.units is not None:
        text += f" ({kernel.bandwidth:.3g} sd of each column)"
    return f"{type(kernel).__name__}, {text}"


def _columns(kernel: Any, names: Sequence[str] | None) -> list[str]:
    """Names of the columns of a kernel of points, as far as they are known."""
    seen = range(len(names or ())) if kernel.columns is None else kernel.columns
    return [names[k] if names else f"column {k}" for k in seen]


def _effects_text(kernel, names):
    """A sum with linear and quadratic effects: their columns, then the other kernels."""
    effects: dict[str, list[str]] = {}
    others = []
    for term in fields_of(kernel):
        on_scores = isinstance(term, NormalScores)
        effect = _EFFECTS.get(type(term.base if on_scores else term))
        if effect is None:
            others.append(kernel_text(term, names))
            continue
        columns = [f"scores of {c}" if on_scores else c for c in _columns(term, names)]
        effects.setdefault(effect, []).extend(columns)
    by_columns: dict[str, list[str]] = {}
    for effect, c in effects.items():
        some = ", ".join(c[:_MOST_SHOWN])
        text = some if len(c) <= _MOST_SHOWN else f"{some}, ... ({len(c)} columns)"
        by_columns.setdefault(text, []).append(effect)
    listed = [f"{' and '.join(kinds)} in {text}" for text, kinds in by_columns.items()]
    return " + ".join([*listed, *others])


def _plain(length):
    """Four digits of a number, without an exponent."""
    return np.format_float_positional(length, 4, unique=False, fractional=False, trim="-")


_BASES = (HilbertSpace, HilbertProduct)
_OTHERS = (LinearEffects, QuadraticEffects, Polynomial, NormalScores, Sum, Product, *_BASES)
_KERNEL_CLASSES = {kind.__name__: kind for kind in (*KERNELS.values(), *_OTHERS)}


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
    """The kernel with this dict as its `kernel_config`."""
    values = {name: value for name, value in config.items() if name != "kernel"}
    for name, value in values.items():
        if isinstance(value, dict):
            values[name] = kernel_from_config(value)
        elif name == "columns" and value is not None:
            values[name] = tuple(value)
    return _KERNEL_CLASSES[config["kernel"]](**values)
