"""Input checks that any room may use: each message says what was wrong, the value seen, and what to do."""

import numpy as np
from jaxtyping import Float


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as the user writes it: `(6, 8, 10)`."""
    return str(tuple(int(k) for k in shape))


def to_float64(value: object, name: str) -> tuple[Float[np.ndarray, "..."], str | None]:
    """`value` as a new float64 array, and a note for the user where a conversion happened.

    float64 passes without a note, in any byte order. Narrower floats are converted, and the note says what rounding
    stays in the data; integers and booleans are converted, and the note says when some were too large to be exact.
    Raises `TypeError` for complex, object, text and date entries, and for floats wider than float64; `ValueError` for
    nested lists of uneven lengths, and for masked arrays with masked entries.
    """
    check_unmasked(value, name)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"`{name}` is not a rectangular array of numbers: its rows differ in length.") from None
    kind = array.dtype.kind
    if kind == "c":
        raise TypeError(
            f"`{name}` has complex entries ({array.dtype}); it must be real: pass `{name}.real` if that is meant."
        )
    if kind not in "fiub":
        what = {"O": "Python objects", "U": "text", "S": "bytes", "M": "dates", "m": "time spans"}.get(kind, "records")
        raise TypeError(f"`{name}` must hold real numbers; it holds {what} (dtype {array.dtype}).")
    if kind == "f" and array.dtype.itemsize > 8:
        raise TypeError(
            f"`{name}` came as {array.dtype}, wider than float64; round it yourself: `{name}.astype(float)`."
        )
    converted = np.array(array, dtype=np.float64, order="C")
    if kind == "f" and array.dtype.itemsize < 8:
        rounding = np.finfo(array.dtype).eps / 2
        return converted, (
            f"`{name}` came as {array.dtype} and was converted to float64: "
            f"its own rounding, about {rounding:.0e}, stays in the data."
        )
    if kind in "iub" and isinstance(value, np.ndarray):
        # A double holds every integer up to 2**53; beyond, the conversion rounds.
        if kind in "iu" and n_rounded(array, converted):
            return converted, (
                f"`{name}` came as {array.dtype} and was converted to float64: integers above 2**53 were rounded."
            )
        return converted, f"`{name}` came as {array.dtype} and was converted to float64, exactly."
    return converted, None


def check_unmasked(value: object, name: str) -> None:
    """Raise `ValueError` for a masked array with masked entries: what stands below the mask would be taken as data."""
    if not isinstance(value, np.ma.MaskedArray):
        return
    masked = np.ma.getmaskarray(value)
    if masked.any():
        where = ", ".join(str(int(k)) for k in np.argwhere(masked)[0])
        more = f" ({int(masked.sum())} such entries of {masked.size})" if masked.sum() > 1 else ""
        raise ValueError(
            f"`{name}{f'[{where}]' if where else ''}` is masked{more}; fill masked entries in, or leave out their rows."
        )


def n_rounded(integers: np.ndarray, doubles: Float[np.ndarray, "..."]) -> int:
    """How many of these integers are not the doubles that they were converted to."""
    large = np.flatnonzero(np.abs(doubles) >= 2.0**53)
    pairs = zip(integers.reshape(-1)[large].tolist(), doubles.reshape(-1)[large].tolist(), strict=True)
    return sum(x != int(y) for x, y in pairs)


def check_finite(array: Float[np.ndarray, "..."], name: str) -> None:
    """Raise `ValueError` with the index, the value and the count of entries that are NaN or infinite."""
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    where = tuple(int(k) for k in np.argwhere(bad)[0])
    n_bad = int(bad.sum())
    index = ", ".join(map(str, where))
    entry = f"`{name}[{index}]`" if where else f"`{name}`"
    more = f" ({n_bad} such entries of {array.size})" if n_bad > 1 else ""
    raise ValueError(f"{entry} is {float(array[where])}{more}; every entry must be finite.")


def check_ndim(array: Float[np.ndarray, "..."], name: str, *, axes: str) -> None:
    """Raise `ValueError` when `array` has not as many axes as `axes` names (`"n, L, d"`)."""
    n_axes = len(axes.split(","))
    if array.ndim != n_axes:
        written = f"({axes},)" if n_axes == 1 else f"({axes})"
        raise ValueError(f"`{name}` must have shape {written}; got {shape_text(array.shape)}.")


def check_same_length(
    first: Float[np.ndarray, "..."],
    second: Float[np.ndarray, "..."],
    names: tuple[str, str],
    *,
    axes: tuple[int, int],
    what: str,
) -> None:
    """Raise `ValueError`, naming both shapes, when the two axes differ in length; `what` says what they count."""
    a, b = first.shape[axes[0]], second.shape[axes[1]]
    if a != b:
        raise ValueError(
            f"`{names[0]}` has shape {shape_text(first.shape)} and `{names[1]}` has shape {shape_text(second.shape)}: "
            f"{a} {what} against {b}."
        )


def check_labels(y: Float[np.ndarray, " n"], name: str = "y") -> None:
    """Raise `ValueError` when a label is neither -1 nor +1; for labels in {0, 1} say how to convert."""
    bad = np.abs(y) != 1
    if not bad.any():
        return
    seen = np.unique(y)
    shown = ", ".join(f"{value:g}" for value in seen[:4]) + (", ..." if seen.size > 4 else "")
    remedy = (
        f"for labels in {{0, 1}} pass `2 * {name} - 1`"
        if set(seen) <= {0.0, 1.0}
        else "recode the two classes as -1 and +1"
    )
    first = int(np.flatnonzero(bad)[0])
    raise ValueError(
        f"`{name}` must hold only -1 and +1; `{name}[{first}]` is {y[first]:g} (values seen: {shown}); {remedy}."
    )


def check_count(value: object, name: str, *, least: int) -> int:
    """`value` as an `int`. Raises `TypeError` when it is not an integer, `ValueError` when it is below `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be an integer; got {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}; got {value}.")
    return int(value)


def check_number(value: object, name: str) -> float:
    """`value` as a `float`. Raises `TypeError` for no real number, `ValueError` for several, NaN or infinity."""
    array = to_float64(value, name)[0]
    if array.ndim:
        raise ValueError(f"`{name}` must be one number; got shape {shape_text(array.shape)}.")
    number = float(array)
    if not np.isfinite(number):
        raise ValueError(f"`{name}` must be finite; got {number!r}.")
    return number
