"""Spectra of `early_stopping`: the powers, the exponentials, and eigenvalues of one's own, as settings to draw from."""

import math
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
SMALLEST = 1e-60
"""Eigenvalues of an exponential spectrum are cut off here, relative to the first: far below what a sample shows."""


def settings(system: "EarlyStopping") -> Iterator[Setting]:
    """One setting for each spectrum that was asked for; one's own eigenvalues stand alone."""
    options = {"r": system.r, "flips": system.flips, "decay": system.decay}
    training = {"n_steps": system.n_steps, "held_out": system.held_out}
    own = own_eigenvalues(system)
    if own is not None:
        yield Setting(name=OWN, mixture=Mixture.with_spectrum(own, **options), **training)
        return
    for a in system.polynomial:
        yield Setting(
            name=f"polynomial-{a:g}",
            mixture=Mixture.polynomial(system.dim, a=a, **options),
            rate=f"n^(-{a:g}/{a + 1:g})",
            exponent=-a / (a + 1),
            **training,
        )
    low, high = min(system.sizes), max(system.sizes)
    for rate in system.exponential:
        d = min(system.dim, 1 + math.floor(-math.log(SMALLEST) / rate))
        yield Setting(
            name=f"exponential-{rate:g}",
            mixture=Mixture.exponential(d, rate=rate, **options),
            rate="log(n)/n",
            exponent=math.log(math.log(high) / math.log(low)) / math.log(high / low) - 1,
            **training,
        )


def own_eigenvalues(system: "EarlyStopping") -> Float[np.ndarray, " d"] | None:
    """The eigenvalues given as a list or in a file, largest first; `None` when there are none.

    Raises `ValueError` for both at once, and for what are no positive numbers, naming the first.
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
    return np.sort(array)[::-1]


def read_numbers(path: str) -> Float[np.ndarray, " d"]:
    """The numbers of a `.npy` file, or of a text file: separated by blanks, commas, semicolons or line ends.

    What follows a `#` in a line is skipped. Raises `ValueError` for a file that cannot be read, or holds anything else,
    with the line.
    """
    where = Path(path)
    try:
        if where.suffix == ".npy":
            array = to_float64(np.load(where, allow_pickle=False), "spectrum")[0]
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
            try:
                numbers.append(float(field))
            except ValueError:
                raise ValueError(
                    f"`spectrum` {path!r}, line {line}: {field!r} is not a number; write eigenvalues only, separated "
                    "by blanks, commas or line ends."
                ) from None
    return np.array(numbers)
