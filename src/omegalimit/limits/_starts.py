"""Parameters of regularisers, checked and kept as logarithms, and functions that neither overflow nor cancel.

Arrays have no axis or shape `(d,)`.
"""

import math

import numpy as np

from .._checks import check_finite, shape_text, to_float64

LOG2 = math.log(2)


def parameter(value, name):
    """A read-only array of no or one axis, in double precision."""
    array, _ = to_float64(value, name)
    if array.ndim > 1:
        raise ValueError(f"`{name}` must be a number or have shape (d,); got {shape_text(array.shape)}.")
    array.flags.writeable = False
    return array


def logarithms(value, logs, name, *, signed):
    """The logarithm of a positive parameter, or of the size of one that must not be zero."""
    if logs is not None:
        array = parameter(logs, name if value is None and name.startswith("log_") else f"log_{name}")
        check_finite(array, f"log_{name}")
        return array
    if value is None:
        raise ValueError(f"Pass `{name}` or `log_{name}`.")
    array = parameter(value, name)
    check_finite(array, name)
    bad = array == 0 if signed else ~(array > 0)
    if bad.any():
        need = "it must not be zero" if signed else "it must be positive"
        raise ValueError(f"{entry(name, array, bad)}; {need}: what starts at zero stays there.")
    return np.log(np.abs(array))


def entry(name, array, bad):
    where = _first(bad)
    value = float(array[where])
    index = f"[{where[0]}]" if where else ""
    return f"`{name}{index}` is {value:g}"


def _first(mask):
    return tuple(int(i) for i in np.argwhere(mask)[0]) if mask.ndim else ()


def at(mask):
    where = _first(np.asarray(mask))
    return f" at coordinate {where[0]}" if where else ""


def alike(a, b):
    return a.ndim == 0 or b.ndim == 0 or a.shape == b.shape


def broadcast(name, array, d):
    if array.ndim and array.shape != (d,):
        raise ValueError(f"`{name}` must be a number or hold one for each of the {d} columns of `X`; got {array.size}.")
    return np.ascontiguousarray(np.broadcast_to(array, (d,)))


def expm1_less(x):
    """`e^x - 1 - x` without cancellation, for `|x| <= 1`."""
    total, term = np.zeros_like(x), x * x / 2
    for n in range(3, 21):
        total, term = total + term, term * x / n
    return total


def scaled_expm1(log_factor, x):
    """`e^log_factor (e^x - 1)`."""
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.exp(log_factor + x) - np.exp(log_factor)
        return np.where(np.abs(x) < 1, np.exp(log_factor) * np.expm1(np.clip(x, -1, 1)), far)


def scaled_expm1_less(log_factor, x):
    """`e^log_factor (e^x - 1 - x)`."""
    near = np.abs(x) < 1
    with np.errstate(over="ignore", invalid="ignore"):
        factor = np.exp(log_factor)
        far = np.exp(log_factor + x) - factor * (1 + x)
        return np.where(near, factor * expm1_less(np.where(near, x, 0.0)), far)


def log_abs(k):
    with np.errstate(divide="ignore"):
        return np.log(np.abs(k))


def log_cosh(a):
    b = np.abs(a)
    small = b < 1
    half = np.sinh(np.where(small, b, 0.0) / 2)
    return np.where(small, np.log1p(2 * half * half), b + np.log1p(np.exp(-2 * b)) - LOG2)


def log_2_sinh(a):
    """`log(2 sinh a)` for `a >= 0`; minus infinity at zero."""
    with np.errstate(divide="ignore"):
        return a + np.log(-np.expm1(-2 * a))


def atanh(s):
    with np.errstate(divide="ignore"):
        return np.arctanh(np.clip(s, -1, 1))
