"""Many records as one labelled dataset: their verdicts, or one group of their arrays."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .cells import Cell, cell_value, numbered, setting_name

if TYPE_CHECKING:
    import xarray as xr


def dataset_of_verdicts(cells: Sequence[Cell], varied: Sequence[str]) -> "xr.Dataset":
    """The verdicts over `cell` and `verdict`; NaN, with an empty outcome, where a cell lacks one."""
    import numpy as np
    import xarray as xr

    names = list(dict.fromkeys(name for cell in cells for name, _ in numbered(cell)))
    place = {name: index for index, name in enumerate(names)}
    shape = (len(cells), len(names))
    numbers = {name: np.full(shape, np.nan) for name in ("measured", "bound", "slack")}
    outcome = np.full(shape, "", dtype=object)
    for index, cell in enumerate(cells):
        for name, row in numbered(cell):
            outcome[index, place[name]] = row[4]
            for values, value in zip(numbers.values(), row[5:], strict=False):  # the numbers come first
                values[index, place[name]] = np.nan if value is None else value
    labels = ("claim", "parametrisation", "loss")
    made = xr.Dataset({name: (("cell", "verdict"), values) for name, values in numbers.items()})
    made["outcome"] = (("cell", "verdict"), outcome.astype(str))
    made = made.assign_coords({label: ("verdict", [n[i] for n in names]) for i, label in enumerate(labels)})
    return made.assign_coords(_along(cells, varied, made))


def dataset_of_group(everyone: Sequence[Cell], varied: Sequence[str], *, group: str, where: str) -> "xr.Dataset":
    """One group of arrays of all records that have it, padded along `cell`.

    Raises `ValueError` when none has it.
    """
    import numpy as np
    import xarray as xr

    cells, parts, lacking, damaged = [], [], [], {}
    for cell in everyone:
        try:
            part = cell.open().arrays.get(group)
        except ValueError as error:
            damaged[cell.key] = str(error)
            continue
        if part is None:
            lacking.append(cell.key)
        else:
            cells.append(cell)
            parts.append(part)
    if not cells and lacking:
        raise ValueError(f"no record in {where!r} has the group {group!r}.")
    if not cells:
        raise ValueError(f"no record in {where!r} can be read whole: {next(iter(damaged.values()))}")
    if any("cell" in part.variables or "cell" in part.dims for part in parts):
        raise ValueError(f"the group {group!r} has a `cell` of its own; open its records one by one.")
    # Numbered along dimensions without labels, so that records of other lengths are padded and not refused.
    bare = {str(dim) for part in parts for dim in part.sizes if dim not in part.indexes}
    parts = [p.assign_coords({d: np.arange(p.sizes[d]) for d in bare & set(map(str, p.sizes))}) for p in parts]
    whole = xr.concat(
        parts, dim="cell", join="outer", coords="different", compat="equals", combine_attrs="drop_conflicts"
    )
    whole = whole.drop_vars(bare)
    told = {name: list(keys) for name, keys in (("lacking", lacking), ("damaged", damaged)) if keys}
    return whole.assign_coords(_along(cells, varied, whole)).assign_attrs(told)


def _along(cells: Sequence[Cell], varied: Sequence[str], dataset: "xr.Dataset") -> dict[str, Any]:
    """What tells the cells apart, under names that the dataset does not have yet."""
    import pandas as pd

    taken = {str(name) for name in (*dataset.variables, *dataset.dims)}
    columns: dict[str, list[Any]] = {"cell_key" if "key" in taken else "key": [cell.key for cell in cells]}
    columns["cell_seed" if "seed" in taken else "seed"] = [cell.seed for cell in cells]
    for name in varied:
        values = [cell_value(cell.settings.get(name)) for cell in cells]
        columns[setting_name(name, taken | set(columns))] = values
    made = {}
    for name, values in columns.items():
        series = pd.Series(values, dtype=object).infer_objects()
        made[name] = ("cell", series.to_numpy() if series.dtype.kind in "iufb" else [str(v) for v in values])
    return made
