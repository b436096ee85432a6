"""`omegalimit report` and `omegalimit list DIR`: records in, a page or a list out; nothing is run."""

import atexit
import gc
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from ._shared import Parser, complain, one_line

_ABOUT = """Makes one self-contained HTML page from stored records: of one record (`report.html` in it), of two side by
side, of all records of a folder (`comparison.html` in it), or of a sweep (`sweep.html` in it, with `table.csv` and
`table.parquet`). Nothing is run again."""


def command(arguments: list[str]) -> int:
    """Run `omegalimit report` with the arguments after it, and return its exit status."""
    parser = Parser(prog="omegalimit report", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("paths", metavar="DIR", nargs="+", help="a record, a folder of records or of a sweep; or two")
    parser.add_argument("--out", metavar="FILE", help="write the page here instead")
    atexit.register(gc.freeze)  # else Python looks through all that was drawn once more before it ends
    options = parser.parse_args(arguments)
    paths = [Path(path) for path in options.paths]
    if len(paths) > 2:
        raise ValueError(
            f"one or two records are compared; got {len(paths)}. Put more into one folder and give the folder."
        )
    place = None if options.out is None else Path(options.out)
    if place is not None and place.is_dir():
        raise ValueError(f"--out {options.out} is a folder; name a file, such as {place / 'page.html'}.")
    for path in paths:
        if not path.is_dir():
            raise ValueError(f"there is no folder {str(path)!r}: a record is a folder with `record.json` in it.")
    if len(paths) == 2:
        written = _two(paths, place)
    elif (paths[0] / "record.json").exists():
        written = _one(paths[0], place)
    else:
        written = _folder(paths[0], place)
    print(f"page: {written}")
    return 0


def listing(folder: str, *, as_json: bool) -> int:
    """Print what is in a folder of records, and how often each claim holds."""
    from ..report import table

    found = _open(Path(folder))
    if as_json:
        print(json.dumps(table.folder_document(found), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        table.show_folder(found, sys.stdout)
    return 0


def _one(path: Path, place: Path | None) -> Path:
    from ..record import read
    from ..report.page import page

    return _write(page(read(path)), place or path / "report.html")


def _two(paths: list[Path], place: Path | None) -> Path:
    from ..record import read
    from ..report.compare import comparison

    return _write(comparison([read(path) for path in paths]), place or Path("comparison.html"))


def _folder(path: Path, place: Path | None) -> Path:
    found = _open(path)
    if found.plan is None:
        from ..report.compare import comparison

        return _write(comparison(found), place or path / "comparison.html")
    from ..report.sweep_page import sweep_page

    written = _write(sweep_page(found), place or path / "sweep.html")
    for table in found.write_tables():
        print(f"table: {table}")
    return written


def _open(path: Path) -> Any:
    from ..store import open_folder

    found = open_folder(path)
    for name, reason in found.damaged.items():
        complain(f"warning: {name} is left out: {reason}", 0)
    if not (found.cells or found.failures or found.plan):
        raise ValueError(f"there is no record in {str(path)!r}; `omegalimit run NAME --out {path}` writes one.")
    return found


def _write(text: str, place: Path) -> Path:
    """Write the page, whole or not at all."""
    partial = place.with_name(f".{place.name}-{secrets.token_hex(4)}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, place)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ValueError(f"the page cannot be written to {str(place)!r}: {one_line(error)}.") from None
    return place
