"""What records are made of: JSON's own types, and labelled arrays in NetCDF.

NetCDF is written and read by h5netcdf itself: xarray's own writer opens the file anew for each group, and its reader
takes twice as long.
"""

import dataclasses
import enum
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


def plain(value: Any) -> Any:
    """`value` in JSON's own types: numbers that are not finite become `None`, arrays and tuples lists, keys text.

    >>> from omegalimit.claims import Kind
    >>> plain({"gap": float("nan"), Kind.RATE: (1, 2.5)})
    {'gap': None, 'rate': [1, 2.5]}
    """
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, complex):
        return {"real": plain(value.real), "imag": plain(value.imag)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [plain(entry) for entry in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    tolist = getattr(value, "tolist", None)
    if callable(tolist):  # NumPy's arrays and scalars, and JAX's arrays
        return plain(tolist())
    return str(value)


def write_arrays(path: Path, arrays: "Mapping[str, xr.Dataset]") -> list[str]:
    """Write every dataset that holds anything, and return the names of their groups."""
    import h5netcdf

    written = {group: dataset for group, dataset in arrays.items() if dataset.variables or dataset.attrs}
    with h5netcdf.File(path, "w") as file:
        for group, dataset in written.items():
            _write_group(file.create_group(group), dataset)
    return list(written)


def _write_group(group: Any, dataset: "xr.Dataset") -> None:
    import numpy as np

    for name, size in dataset.sizes.items():
        group.dimensions[str(name)] = size
    for name, variable in dataset.variables.items():
        values, attributes = np.asarray(variable.values), _attributes(variable.attrs)
        kind = values.dtype.kind
        if kind == "b":  # NetCDF has no truth values; xarray's own mark for them
            values, attributes["dtype"] = values.astype(np.int8), "bool"
        elif kind in "OU":
            values = values.astype(object)
        elif kind not in "iuf":
            raise TypeError(f"`{name}` holds {values.dtype}, which a record cannot keep; use numbers, truth or text.")
        dims = tuple(map(str, variable.dims))
        made = group.create_variable(str(name), dims, dtype=_TEXT() if kind in "OU" else values.dtype)
        if values.size:
            made[...] = values if values.ndim else values[()]
        if kind == "f":
            attributes["_FillValue"] = values.dtype.type(np.nan)
        # As xarray does: what are coordinates beyond the dimensions' own is told by the variables that they go with.
        along = [str(c) for c in dataset.coords if c not in dataset.dims and set(dataset[c].dims) <= set(variable.dims)]
        if name in dataset.data_vars and along:
            attributes["coordinates"] = " ".join(along)
        made.attrs.update(attributes)
    loose = [str(c) for c in dataset.coords if c not in dataset.dims]
    told = {str(c) for name in dataset.data_vars for c in dataset[name].coords}
    attributes = _attributes(dataset.attrs)
    if rest := [c for c in loose if c not in told]:
        attributes["coordinates"] = " ".join(rest)
    group.attrs.update(attributes)


def _TEXT() -> Any:
    import h5py

    return h5py.string_dtype()


def _attributes(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """NetCDF's attributes are text and numbers; whatever else there is becomes JSON text."""

    def attribute(value: Any) -> Any:
        if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        return json.dumps(plain(value))

    return {str(name): attribute(value) for name, value in attributes.items()}


def read_arrays(path: Path, sha256: str) -> "dict[str, xr.Dataset]":
    import h5netcdf

    if not path.is_file():
        raise ValueError(f"`{path.name}` is missing")
    if (found := file_sha256(path)) != sha256:
        raise ValueError(f"`{path.name}` is damaged or cut short: its SHA-256 is {found}, and {sha256} was recorded")
    try:
        with h5netcdf.File(path, "r") as file:
            return {name: _read_group(group) for name, group in _groups(file) if group.variables or len(group.attrs)}
    except (OSError, KeyError) as error:
        raise ValueError(f"`{path.name}` cannot be opened as NetCDF: {error}") from None


def _groups(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every group of the file, by its path, in the order of writing where the file keeps it."""
    if name:
        yield name, group
    for part, inner in group.groups.items():
        yield from _groups(inner, f"{name}/{part}" if name else part)


def _read_group(group: Any) -> "xr.Dataset":
    """The group as `_write_group` wrote it, or xarray: by h5netcdf itself, in half the time of xarray's reader."""
    import numpy as np
    import xarray as xr

    variables, coordinates = {}, set(group.dimensions)
    attributes = dict(group.attrs)
    coordinates |= set(str(attributes.pop("coordinates", "")).split())
    for name, variable in group.variables.items():
        notes = {key: value for key, value in variable.attrs.items() if key != "_FillValue"}
        coordinates |= set(str(notes.pop("coordinates", "")).split())
        values = np.asarray(variable[...])
        if notes.get("dtype") == "bool":
            del notes["dtype"]
            values = values.astype(bool)
        if values.dtype.kind == "O":
            values = _decoded(values)
        variables[name] = (variable.dimensions, values, {key: _attribute(value) for key, value in notes.items()})
    made = xr.Dataset(variables, attrs={key: _attribute(value) for key, value in attributes.items()})
    return made.set_coords([name for name in variables if name in coordinates])


def _decoded(values: Any) -> Any:
    """Text from the bytes in which HDF5 gives it, with the width of its longest entry, as xarray does."""
    import numpy as np

    text = [entry.decode() if isinstance(entry, bytes) else str(entry) for entry in values.ravel()]
    return np.array(text, dtype=str).reshape(values.shape)


def _attribute(value: Any) -> Any:
    """An attribute as xarray gives it: one number as a number."""
    return value[0] if getattr(value, "shape", None) == (1,) else value


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
