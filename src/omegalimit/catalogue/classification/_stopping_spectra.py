"""Spectra of `early_stopping`: the powers, the exponentials, and eigenvalues of one's own, as settings to draw from."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..._checks import check_finite, shape_text, to_float64
from ...data.mixture import Mixture
from ._stopping_draws import Setting

if TYPE_CHECKING:
    from .early_stopping import EarlyStopping

OWN = "own-spectrum"
MOST_ENTRIES = 20_000_000
"""Numbers in the rows of one sample."""
SPREAD = 1e100
"""The largest eigenvalue over the smallest, at most: products of what is made of them stay doubles."""
LOW, HIGH = 1e-290, 1e290
SMALLEST = 1e-60
"""Eigenvalues of an exponential spectrum are cut off here, relative to the first: far below what a sample shows."""
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf)", re.IGNORECASE | re.ASCII)
"""`float` alone would read `1_000`. What is not finite is told by its place in the list."""


def settings(system: "EarlyStopping") -> Iterator[Setting]:
    """One setting for each spectrum that was asked for; one's own eigenvalues stand alone."""
    options = {"r": system.r, "flips": system.flips, "decay": system.decay}
    training = {"n_steps": system.n_steps, "held_out": system.held_out}
    own = own_eigenvalues(system)
    if own is not None:
        if max(system.sizes) * own.size > MOST_ENTRIES:
            raise ValueError(
                f"{max(system.sizes)} rows of {own.size} numbers are too many: the product may be at most "
                f"{MOST_ENTRIES}."
            )
        yield Setting(name=OWN, mixture=Mixture.with_spectrum(own, **options), **training)
        return
    for a in dict.fromkeys(system.polynomial):
        yield Setting(
            name=f"polynomial-{shortest(a)}",
            mixture=Mixture.polynomial(system.dim, a=a, **options),
            rate=f"n^(-{shortest(a)}/{shortest(round(a + 1, 12))})",
            exponent=-a / (a + 1),
            **training,
        )
    low, high = min(system.sizes), max(system.sizes)
    for rate in dict.fromkeys(system.exponential):
        d = min(system.dim, 1 + math.floor(-math.log(SMALLEST) / rate))
        yield Setting(
            name=f"exponential-{shortest(rate)}",
            mixture=Mixture.exponential(d, rate=rate, **options),
            rate="log(n)/n",
            exponent=math.log(math.log(high) / math.log(low)) / math.log(high / low) - 1,
            **training,
        )


def shortest(number: float) -> str:
    """The shortest text that reads as this number, and as no other."""
    return repr(float(number)).removesuffix(".0")


def repeated(system: "EarlyStopping") -> list[str]:
    """A sentence on what was given more than once and is run once."""
    found = []
    for name in ("sizes", "polynomial", "exponential"):
        values = getattr(system, name)
        twice = [value for value in dict.fromkeys(values) if values.count(value) > 1]
        if twice and (name == "sizes" or own_eigenvalues(system) is None):
            found.append(f"given more than once, run once: `{name}` {', '.join(map(shortest, twice))}.")
    return found


def own_eigenvalues(system: "EarlyStopping") -> Float[np.ndarray, " d"] | None:
    """The eigenvalues given as a list or in a file, largest first; `None` when there are none.

    Raises `ValueError` for both at once, for what are no positive numbers, naming the first, and for eigenvalues that
    lie further apart, or nearer to the ends of what a double can hold, than a run can do.
    """
    if system.eigenvalues and system.spectrum is not None:
        raise ValueError("give your spectrum as `eigenvalues` or as a file, `spectrum`, and not both.")
    if system.spectrum is not None:
        name, array = f"`spectrum` {system.spectrum!r}", read_numbers(system.spectrum)
    elif system.eigenvalues:
        name, array = "`eigenvalues`", to_float64(system.eigenvalues, "eigenvalues")[0]
    else:
        return None
    check_finite(array, "eigenvalues")
    if not array.size:
        raise ValueError(f"{name} holds no numbers; give at least one eigenvalue.")
    if array.min() <= 0:
        i = int(np.argmin(array))
        raise ValueError(
            f"{name}: eigenvalue {i + 1} of {array.size} is {array[i]:g}; every one must be positive. Leave out the "
            "directions that do not vary."
        )
    low, high = float(array.min()), float(array.max())
    if low < high / SPREAD:
        raise ValueError(
            f"{name}: the smallest eigenvalue is {low:g} and the largest {high:g}; they may differ by a "
            f"factor of up to {SPREAD:g}. Leave out the smallest ones: no sample shows them."
        )
    if low < LOW or high > HIGH:
        raise ValueError(
            f"{name}: eigenvalues from {low:g} to {high:g}; choose units in which they lie between {LOW:g} and "
            f"{HIGH:g}."
        )
    return np.sort(array)[::-1]


def read_numbers(path: str) -> Float[np.ndarray, " d"]:
    """The numbers of a `.npy` file, or of a text file: separated by blanks, commas, semicolons or line ends.

    What follows a `#` in a line is skipped. Raises `ValueError` for a file that cannot be read, or holds anything else,
    with the line.
    """
    where = Path(path)
    try:
        if where.suffix == ".npy":
            array = to_float64(_read_npy(where, path), "spectrum")[0]
            if array.ndim != 1:
                raise ValueError(
                    f"`spectrum` {path!r} holds an array of shape {shape_text(array.shape)}; it must be a list."
                )
            return array
        text = where.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"`spectrum` {path!r} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ValueError(
            f"`spectrum` {path!r} is not text; give numbers in a text file, or an array in a .npy file."
        ) from None
    numbers = []
    for line, content in enumerate(text.splitlines(), 1):
        for field in content.split("#")[0].replace(",", " ").replace(";", " ").split():
            if not _NUMBER.fullmatch(field):
                raise ValueError(
                    f"`spectrum` {path!r}, line {line}: {field!r} is not a number; write eigenvalues only, separated "
                    "by blanks, commas or line ends."
                )
            numbers.append(float(field))
    return np.array(numbers)


def _read_npy(where: Path, path: str) -> np.ndarray:
    """The array of a `.npy` file; `ValueError` where it holds none that can be read."""
    with where.open("rb") as file:
        start = file.read(6)
        if start != b"\x93NUMPY":
            what = "is empty" if not start else "is no .npy file"
            raise ValueError(f"`spectrum` {path!r} {what}; write one with `numpy.save`, or numbers in a text file.")
        file.seek(0)
        try:
            return np.load(file, allow_pickle=False)
        except (ValueError, EOFError, SyntaxError, OverflowError, MemoryError):  # whatever the header leads it to
            raise ValueError(
                f"`spectrum` {path!r} is cut short, damaged, or holds Python objects; write it again with "
                "`numpy.save`, as an array of numbers."
            ) from None
