"""What records are made of: JSON's own types, and labelled arrays in NetCDF.

A NetCDF 4 file is an HDF5 file in which each dimension is a dimension scale, its own variable or an empty stand-in, to
which the variables are attached. It is written by h5py itself: xarray's own writer opens the file anew
for each group, and h5netcdf looks all dimensions up again for each variable, 3 ms for each of a hundred, to write as to
read. Source of the layout: Unidata, NetCDF-4 file format specification.
"""

import dataclasses
import enum
import hashlib
import itertools
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


_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable."  # and its length in ten places
_NO_COORDINATE = "_nc4_non_coord_"  # before the name of a variable that bears a dimension's name and is not its scale


def write_arrays(path: Path, arrays: "Mapping[str, xr.Dataset]") -> list[str]:
    """Write every dataset that holds anything, and return the names of their groups."""
    written = {group: dataset for group, dataset in arrays.items() if dataset.variables or dataset.attrs}
    path.write_bytes(to_netcdf(written))
    return list(written)


def to_netcdf(arrays: "Mapping[str, xr.Dataset]") -> bytes:
    """The file that holds each dataset as the group of its name.

    It is made in memory, so that a full disk is met by one plain write of its bytes.
    """
    import h5py
    import numpy as np

    # The core driver keeps the file in memory; the name is not used.
    with h5py.File("arrays.nc", "w", driver="core", backing_store=False, track_order=True) as file:
        file.attrs["_NCProperties"] = np.bytes_(f"version=2,hdf5={h5py.version.hdf5_version},h5py={h5py.__version__}")
        numbers = itertools.count()
        for name, dataset in arrays.items():
            group: Any = file
            for part in name.strip("/").split("/"):
                group = group[part] if part in group else group.create_group(part, track_order=True)
            _write_group(group, dataset, numbers)
        file.flush()
        return file.id.get_file_image()


def _write_group(group: Any, dataset: "xr.Dataset", numbers: Iterator[int]) -> None:
    import h5py
    import numpy as np

    scales: dict[str, Any] = {}
    own = {str(dim) for dim in dataset.sizes if dim in dataset.variables and dataset.variables[dim].dims == (dim,)}
    # As xarray does: what are coordinates beyond the dimensions' own is told by the variables that they go with.
    beyond = {str(c): set(dataset.variables[c].dims) for c in dataset.coords if c not in dataset.dims}
    told = set()

    def write(place: str, name: Any) -> Any:
        variable, attributes = dataset.variables[name], {}
        if name in dataset.data_vars and (along := [c for c, dims in beyond.items() if dims <= set(variable.dims)]):
            told.update(along)
            attributes["coordinates"] = " ".join(along)
        return _write_variable(group, place, str(name), variable, attributes)

    for dim, size in dataset.sizes.items():
        if (name := str(dim)) in own:
            made = write(name, dim)
            title = name.encode()
        else:
            # An empty dimension is one without a limit: NetCDF has no others.
            made = group.create_dataset(name, (size,), dtype=">f4", **({} if size else {"maxshape": (None,)}))
            title = _NO_VARIABLE + b"%10d" % size
        scales[name] = made
        made.attrs.create("_Netcdf4Dimid", next(numbers), dtype=np.int32)
        h5py.h5ds.set_scale(made.id, title)
    for key, variable in dataset.variables.items():
        if (name := str(key)) not in own:
            made = write(_NO_COORDINATE + name if name in scales else name, key)
            for axis, dim in enumerate(variable.dims):
                h5py.h5ds.attach_scale(made.id, scales[str(dim)].id, axis)
    attributes = _attributes(dataset.attrs)
    if rest := [c for c in beyond if c not in told]:
        attributes["coordinates"] = " ".join(rest)
    _put(group, attributes)


def _write_variable(group: Any, place: str, name: str, variable: "xr.Variable", attributes: dict[str, Any]) -> Any:
    import h5py
    import numpy as np

    values, attributes = np.asarray(variable.values), _attributes(variable.attrs) | attributes
    kind = values.dtype.kind
    if kind == "b":  # NetCDF has no truth values; xarray's own mark for them
        values, attributes["dtype"] = values.astype(np.int8), "bool"
    elif kind in "OU":
        values = values.astype(object)
    elif kind not in "iuf":
        raise TypeError(f"`{name}` holds {values.dtype}, which a record cannot keep; use numbers, truth or text.")
    dtype = h5py.string_dtype() if kind in "OU" else values.dtype
    empty = {"maxshape": tuple(n or None for n in values.shape)} if 0 in values.shape else {}
    made = group.create_dataset(place, values.shape, dtype=dtype, data=values if values.size else None, **empty)
    _put(made, attributes)
    return made


def _put(place: Any, attributes: Mapping[str, Any]) -> None:
    import numpy as np

    for name, value in attributes.items():
        place.attrs[name] = value if isinstance(value, str) else np.atleast_1d(value)


def _attributes(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """NetCDF's attributes are text and numbers; whatever else there is becomes JSON text."""

    def attribute(value: Any) -> Any:
        if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        return json.dumps(plain(value))

    return {str(name): attribute(value) for name, value in attributes.items()}


def read_arrays(path: Path, sha256: str) -> "dict[str, xr.Dataset]":
    import h5py

    if not path.is_file():
        raise ValueError(f"`{path.name}` is missing")
    if (found := file_sha256(path)) != sha256:
        raise ValueError(f"`{path.name}` is damaged or cut short: its SHA-256 is {found}, and {sha256} was recorded")
    try:
        with h5py.File(path, "r") as file:
            made = {name: _read_group(group) for name, group in _groups(file)}
    except (OSError, KeyError) as error:
        raise ValueError(f"`{path.name}` cannot be opened as NetCDF: {error}") from None
    return {name: dataset for name, dataset in made.items() if dataset.variables or dataset.attrs}


def _groups(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every group of the file, by its path, in the order of writing where the file keeps it."""
    import h5py

    for part, inner in group.items():
        if isinstance(inner, h5py.Group):
            path = f"{name}/{part}" if name else part
            yield path, inner
            yield from _groups(inner, path)


def _read_group(group: Any) -> "xr.Dataset":
    """The group as `_write_group` wrote it, or xarray."""
    import h5py
    import numpy as np
    import xarray as xr

    attributes = _read_attributes(group)
    coordinates = set(str(attributes.pop("coordinates", "")).split())
    variables = {}
    for place, stored in group.items():
        if isinstance(stored, h5py.Group):
            continue
        if "CLASS" in stored.attrs:  # a dimension
            if stored.attrs["NAME"].startswith(_NO_VARIABLE):
                continue
            coordinates.add(place)
            dims = (place,)
        else:
            scales = stored.attrs.get("DIMENSION_LIST", ())
            dims = tuple(group[scale[0]].name.rpartition("/")[2] for scale in scales)
        name, notes = place.removeprefix(_NO_COORDINATE), _read_attributes(stored)
        coordinates |= set(str(notes.pop("coordinates", "")).split())
        values = np.asarray(stored[...])
        if notes.get("dtype") == "bool":
            del notes["dtype"]
            values = values.astype(bool)
        if values.dtype.kind == "O":
            values = _decoded(values)
        # `fastpath`: values are arrays already; else xarray would import the whole of Dask to see whether they are its.
        variables[name] = xr.Variable(dims, values, notes, fastpath=True)
    return xr.Dataset(variables, attrs=attributes).set_coords([name for name in variables if name in coordinates])


_NOT_OURS = {"CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_FillValue"}


def _read_attributes(place: Any) -> dict[str, Any]:
    """The attributes but for the layout's own; one number as a number, as xarray gives it."""
    made = {}
    for name in place.attrs:
        if name not in _NOT_OURS:
            value = place.attrs[name]
            made[name] = value[0] if getattr(value, "shape", None) == (1,) else value
    return made


def _decoded(values: Any) -> Any:
    """Text from the bytes in which HDF5 gives it, with the width of its longest entry, as xarray does."""
    import numpy as np

    text = [entry.decode() if isinstance(entry, bytes) else str(entry) for entry in values.ravel()]
    return np.array(text, dtype=str).reshape(values.shape)


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
