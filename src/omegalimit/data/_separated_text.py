"""Tables of numbers in separated text (CSV): what is a name, what is a number, and what is neither, with its place.

The separator is found, not asked for: comma, semicolon, tab, bar or blanks, whichever cuts the lines into equally many
fields with the most numbers in them. Nothing is guessed about a value: a field is a decimal number in ASCII, or the
file is refused with the line and the column. `float` alone would read `1_000`, `nan`, `inf` and `1e400`. A column that
is asked for as labels may hold anything but gaps.
"""

import csv
import dataclasses
import io
import re
from typing import Any

import numpy as np
from jaxtyping import Float

from ._rows import check_unique, listed, shown
from .files import _Refused

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9]+(?:[. ][0-9]{3})*,[0-9]+(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "missing", "?", "-", "--", "."}
_NO_LABEL = _MISSING - {"none", "-", "--", "."}  # `+` and `-`, or `none` and `some`, are classes
_TINY = re.compile(r"[eE]-[0-9]{3}|0{300}")  # without one of these in the text, no number can underflow to zero
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}


@dataclasses.dataclass(frozen=True)
class _Record:
    """The fields of a row and the number of the line on which it starts."""

    line: int
    fields: list[str]


@dataclasses.dataclass(frozen=True)
class TextTable:
    """A table that is read as text: `names` of its columns, what was done in `notes`; values when they are asked for.

    Both ways of asking raise `_Refused` for a value that is not what is asked for, with its line and column.
    """

    names: tuple[str, ...]
    notes: tuple[str, ...]
    _records: list[_Record]
    _text: str

    def numbers(self, columns: list[int]) -> tuple[Float[np.ndarray, "n w"], list[str]]:
        """These columns as doubles, shape `(n, w)`, and sentences on what that did to them."""
        records = self._records
        if columns != list(range(len(self.names))):
            records = [_Record(record.line, [record.fields[j] for j in columns]) for record in records]
        return _values([self.names[j] for j in columns], records, self._text)

    def labels(self, column: int) -> list[Any]:
        """A column of any values: numbers where all of them are numbers, else text."""
        fields = [record.fields[column] for record in self._records]
        gaps = [i for i, field in enumerate(fields) if field.lower() in _NO_LABEL]
        if gaps:
            place = f"line {self._records[gaps[0]].line}, column `{shown(self.names[column])}`: "
            raise _Refused(missing(place, _gap(fields[gaps[0]]), len(gaps)))
        if not all(map(_is_number, fields)):
            return fields
        # Integers as they are: as doubles, those above 2**53 may be one class where they are two.
        return [int(field) if field.lstrip("+-").isdecimal() and len(field) < 99 else float(field) for field in fields]


def read_separated(content: bytes, *, header: bool | None, labels: bool = False) -> TextTable:
    """The table in separated text. `header`: whether the first line holds names; `None`: see for yourself.

    The first line holds names unless every field of it is a number, or where it counts the columns from 0 and some
    column below it has a decimal point in every field. Lines that start with `#` above the first row are
    skipped; the last of them gives the names when it has as many fields and the first row is all numbers, which is how
    `numpy.savetxt` writes them. With `labels`, some column may be text: the first line is a row, too, where everything
    in it that is no number occurs again below, in the same column. Raises `_Refused`.
    """
    text = _decoded(content)
    comments, text, first_line, separator = _preamble(text)
    if not text.strip():
        raise _Refused("the file has no rows; write one line for each." if comments else "the file is empty.")
    separator = separator or _separator(text)
    records, n_blank = _records(text, separator, first_line)
    notes = [f"blank lines among the rows were skipped: {n_blank}."] if n_blank else []
    width = len(records[0].fields)
    _check_widths(records, separator)
    names = _names_above(records[0], comments, separator) if header is None else None
    if names is None and header is None and _counts_columns(records):
        header = True
        notes.append(
            f"line {records[0].line} counts the columns from 0 and was read as their names, as the values below are "
            "written with a decimal point and it is not."
        )
    if names is not None:
        notes.append("the names are those of the comment above the rows.")
    else:
        if comments:
            notes.append(f"lines of comments above the rows were skipped: {len(comments)}.")
        if header is None:
            header = not (labels and _repeats_below(records)) and _first_holds_names(records[0])
        if header:
            names, records = records[0].fields, records[1:]
        else:
            names = [f"x{j}" for j in range(1, width + 1)]
            notes.append(f"the file has no names, so the columns are called `x1` to `x{width}`.")
    _check_names(names)
    if not records:
        raise _Refused(f"there are names ({listed(names)}) and no rows below them.")
    names, records, note = _without_counter(names, records)
    return TextTable(tuple(names), (*notes, *note), records, text)


def _decoded(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _Refused("the text is in UTF-16; save it as UTF-8.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _Refused(
            f"the text is not UTF-8 (byte 0x{content[error.start]:02x} on line {line}); save it so."
        ) from None
    if "\x00" in text:
        raise _Refused("this is neither text nor a file of a known kind; give a CSV, Parquet or .npz file.")
    return text


def _preamble(text: str) -> tuple[list[str], str, int, str | None]:
    """Comments, the text below them, the number of its first line, and a separator that a spreadsheet's line names."""
    comments: list[str] = []
    skipped, separator = 0, None
    while match := re.match(r"(?:#([^\r\n]*)|sep=([^\r\n]))?(?:\r\n|\r|\n|$)", text):
        if not match.group():
            break
        if match.group(1) is not None:
            comments.append(match.group(1).strip())
        separator = match.group(2) or separator
        text = text[match.end() :]
        skipped += 1
    return comments, text, skipped + 1, separator


def _rows(text: str, separator: str):
    """`(line, fields)` of every record that is not blank, and `(line, None)` of every blank line."""
    # A blank as separator may stand in runs, and at the end of a line.
    lines = (line.rstrip() + "\n" if separator == " " else line for line in io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator != "\t", strict=True)
    line = 1
    for fields in reader:
        fields = [field.strip() for field in fields]
        yield line, fields if fields and fields != [""] else None
        line = reader.line_num + 1


def _separator(text: str) -> str:
    best, score = "", 0.0
    for separator in ",;\t|":
        try:
            rows = _sample(text, separator)
        except csv.Error:
            continue
        width = len(rows[0])
        fields = [field for row in rows[1:] or rows for field in row]
        numbers = sum(bool(_NUMBER.fullmatch(f) or _COMMA.fullmatch(f)) or f.lower() in _MISSING for f in fields)
        found = sum(len(row) == width for row in rows) / len(rows) + numbers / len(fields)
        # On a tie the semicolon wins over the comma: `1,5;2,5` is two numbers with decimal commas.
        if width > 1 and (found > score or (found == score and separator == ";")):
            best, score = separator, found
    return best or " "


def _sample(text: str, separator: str) -> list[list[str]]:
    """The first sixty rows, or fewer that hold some thousand fields."""
    rows: list[list[str]] = []
    for _, fields in _rows(text, separator):
        if fields:
            rows.append(fields)
        if len(rows) == 60 or (len(rows) > 1 and len(rows) * len(rows[0]) > 5000):
            break
    return rows


def _records(text: str, separator: str, first_line: int) -> tuple[list[_Record], int]:
    records: list[_Record] = []
    n_blank, pending, line = 0, 0, 0
    try:
        for line, fields in _rows(text, separator):
            if fields is None:
                pending += bool(records)
                continue
            n_blank, pending = n_blank + pending, 0  # blank lines at the end are none of these
            records.append(_Record(line + first_line - 1, fields))
    except csv.Error as error:
        what = str(error)
        if "end of data" in what:
            what = "a quote is never closed"
        elif "expected after" in what:
            what = "text follows a closing quote"
        place = f"the row after line {line + first_line - 1}" if line else "the first row"
        raise _Refused(f"{place} cannot be read: {what}.") from None
    return records, n_blank


def _check_widths(records: list[_Record], separator: str) -> None:
    width = len(records[0].fields)
    if width == 1:
        raise _Refused(
            f"there is one column, {listed(records[0].fields)}; give a column to predict and at least one to predict "
            "it from, separated by commas."
        )
    for record in records:
        if len(record.fields) != width:
            raise _Refused(
                f"line {record.line} has {len(record.fields)} fields and line {records[0].line} has {width} "
                f"(separated by {_SEPARATORS.get(separator, repr(separator))}); write equally many on every line."
            )


def _is_number(field: str) -> bool:
    return _NUMBER.fullmatch(field) is not None


def _names_above(first: _Record, comments: list[str], separator: str) -> list[str] | None:
    """Names in the last comment, where it has one for each field of a first line that is all numbers."""
    if not comments or not all(map(_is_number, first.fields)):
        return None
    above = [field.strip() for field in next(csv.reader([comments[-1]], delimiter=separator), [])]
    return above if len(above) == len(first.fields) and not any(map(_is_number, above)) else None


def _counts_columns(records: list[_Record]) -> bool:
    """Whether the first line counts 0, 1, ... and is no row: what writes `0` for a row's zero writes no `0.0` below.

    So pandas writes an array: the names 0 to w - 1, and numbers with a decimal point or an exponent in each field.
    """
    first, rest = records[0].fields, records[1:]
    if first != [str(j) for j in range(len(first))] or not rest:
        return False
    return any(
        all(_is_number(f) and not f.lstrip("+-").isdigit() for f in column)
        for column in zip(*(record.fields for record in rest), strict=True)
    )


def _repeats_below(records: list[_Record]) -> bool:
    """Whether the first line has numbers, and all else in it stands below too: names do not, values of a class do."""
    texts = {j: field for j, field in enumerate(records[0].fields) if not _is_number(field)}
    if not texts or len(texts) == len(records[0].fields):
        return False
    return all(any(record.fields[j] == field for record in records[1:]) for j, field in texts.items())


def _first_holds_names(first: _Record) -> bool:
    # A line of numbers, gaps and decimal commas is a row; what is wrong with it is told later.
    if all(_is_number(f) or _COMMA.fullmatch(f) or (f and f.lower() in _MISSING) for f in first.fields):
        if first.fields == [str(j) for j in range(len(first.fields))]:
            raise _Refused(
                f"line {first.line} counts from 0 to {len(first.fields) - 1}, and it is not clear whether these are "
                "names or numbers; give the columns other names (from Python you may also say `header=True` or "
                "`header=False`)."
            )
        return False
    if numbers := [field for field in first.fields if _is_number(field)]:
        raise _Refused(
            f"line {first.line} holds numbers ({listed(numbers)}) among names, and it is not clear whether it is a "
            "row; give the columns other names (from Python you may also say `header=True` or `header=False`)."
        )
    return True


def _check_names(names: list[str]) -> None:
    if gaps := [j for j, name in enumerate(names) if not name and j > 0]:
        raise _Refused(
            f"column {gaps[0] + 1} of {len(names)} has no name; give it one, or leave it out "
            "(does every line end in a separator?)."
        )
    try:
        check_unique(tuple(names))
    except ValueError as error:
        raise _Refused(str(error)) from None


def _without_counter(names: list[str], records: list[_Record]) -> tuple[list[str], list[_Record], list[str]]:
    """Without a first column that has no name and counts the rows: pandas and R write their index so."""
    if names[0]:
        return names, records, []
    first = [record.fields[0] for record in records]
    if not any(first == [str(i) for i in range(start, start + len(first))] for start in (0, 1)):
        raise _Refused("column 1 has no name, and it does not count the rows; give it a name, or leave it out.")
    if len(names) == 2:
        raise _Refused(f"there is one column, {listed(names[1:])}, beside one that counts the rows; give at least two.")
    kept = [_Record(record.line, record.fields[1:]) for record in records]
    return names[1:], kept, ["the first column has no name and counts the rows; it was left out."]


def _values(names: list[str], records: list[_Record], text: str) -> tuple[Float[np.ndarray, "n w"], list[str]]:
    values = np.empty((len(records), len(names)))
    try:
        for row, record in zip(values, records, strict=True):
            row[:] = np.fromiter(map(float, record.fields), float, len(names))
    except ValueError:
        _refuse_first(names, records)
    # What `float` reads and a table of decimal numbers does not hold: `nan`, `1_000`, digits of other scripts.
    if not np.isfinite(values).all() or "_" in text or not text.isascii():
        _refuse_first(names, records)
    if not values.all() and _TINY.search(text):
        for i, j in np.argwhere(values == 0):
            field = records[i].fields[j]
            if re.search("[1-9]", re.split("[eE]", field)[0]):
                raise _Refused(
                    f"line {records[i].line}, column `{shown(names[j])}`: {shown(field)!r} is too small for double "
                    "precision (at least 4.9e-324); use larger units."
                )
    large = np.argwhere(np.abs(values) >= 2.0**53)
    n_rounded = sum(
        int(records[i].fields[j]) != int(values[i, j]) for i, j in large if records[i].fields[j].lstrip("+-").isdigit()
    )
    return values, [f"integers above 2**53 were rounded ({n_rounded} of them)."] if n_rounded else []


def _refuse_first(names: list[str], records: list[_Record]) -> None:
    """Refuse the table for the first field that is no number; nothing where there is none."""
    for record in records:
        for name, field in zip(names, record.fields, strict=True):
            if _is_number(field) and np.isfinite(float(field)):
                continue
            place = f"line {record.line}, column `{shown(name)}`: "
            if field.lower() in _MISSING:
                n_missing = sum(f.lower() in _MISSING for r in records for f in r.fields)
                raise _Refused(missing(place, _gap(field), n_missing))
            if _INFINITE.fullmatch(field):
                raise _Refused(f"{place}the value is infinite ({shown(field)}); every value must be finite.")
            if _is_number(field):
                raise _Refused(f"{place}{shown(field)!r} is too large for double precision (at most 1.8e308).")
            if _COMMA.fullmatch(field):
                raise _Refused(f"{place}{shown(field)!r} has a decimal comma; write numbers with a decimal point.")
            raise _Refused(f"{place}{no_text(shown(repr(field)))}")


def _gap(field: str) -> str:
    return shown(repr(field)) if field else "nothing between separators"


def missing(place: str, what: str, n_missing: int) -> str:
    """A sentence on a value that is missing."""
    more = f" ({n_missing} such values)" if n_missing > 1 else ""
    return f"{place}the value is missing ({what}){more}; fill it in, or leave out the row or the column."


def no_text(what: str) -> str:
    """A sentence on text where a number must stand."""
    return f"{what} is not a number; code text as numbers (0 and 1 for each of its values), or leave the column out."
