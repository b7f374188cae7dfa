"""What the columns of a table are: the schema of the native reader, which guesses and reads frames as it does files."""

import json
import os
import re
import tomllib
import warnings
from collections.abc import Iterable

from npb import _native
from npb._frames import text_of

_KINDS = ("real", "positive", "angle", "count", "date", "binary", "categorical", "ordinal")
_LEVELS = ("binary", "categorical", "ordinal")
# The first line of a file of ours whose kinds were guessed: it says which were not.
_DECLARED = "# declared: "


class Schema:
    """A schema, and the columns whose kinds somebody has said: what these cannot be is an error, elsewhere it is missing."""

    def __init__(self, reader, strict):
        self.reader, self.strict = reader, list(strict)
        self.columns = reader.columns()

    @classmethod
    def guessed(cls, columns, measures=(), who=""):
        """Of the columns of a frame, `measures` by name on top."""
        reader, guesses = _native.Reader.guess([column.native for column in columns])
        found = reader.columns()
        for j, (column, (why, notable, _)) in enumerate(zip(columns, guesses, strict=True)):
            if column.name in measures:
                found[j] |= _declared(column, measures[column.name])
            elif column.is_category and found[j]["levels"] is None and found[j]["role"] == "feature":
                # Categories that are numbers are categories all the same.
                found[j] |= _declared(column, "ordinal" if column.ordered else "categorical")
            elif _is_news(notable, found[j], why):
                warnings.warn(f"{who}: column {column.name!r}: {why}", UserWarning, stacklevel=4)
        return cls(reader.with_columns(found), measures)

    @classmethod
    def of_numbers(cls, columns, who=""):
        """The same where a model sees numbers: what is a number stays what it is."""
        reader, guesses = _native.Reader.guess([column.native for column in columns])
        found = reader.columns()
        for one, column, (why, notable, names_rows) in zip(found, columns, guesses, strict=True):
            if not names_rows and _is_of_numbers(one, column):
                one |= {"kind": "real", "role": "feature", "levels": None, "period": None, "date": None}
            elif names_rows or (column.kind not in ("numbers", "whole") and _is_news(notable, one, why)):
                warnings.warn(f"{who}: column {column.name!r}: {why}", UserWarning, stacklevel=5)
        return cls(reader.with_columns(found), ())

    @classmethod
    def of_text(cls, text):
        """From TOML. Of a schema that says nothing of guesses, all is declared."""
        reader = _native.Reader(text)
        first = text.partition("\n")[0]
        names = json.loads(first.removeprefix(_DECLARED)) if first.startswith(_DECLARED) else [column["name"] for column in reader.columns()]
        return cls(reader, names)

    def text(self):
        return f"{_DECLARED}{json.dumps(self.strict)}\n{self.reader.to_toml()}"

    def features(self):
        return [column for column in self.columns if column["role"] == "feature"]

    def read(self, columns, who):
        """The rows of a table with these columns; what is missing because it was not expected is said."""
        try:
            rows, report = self.reader.read([column.native for column in columns], self.strict)
        except ValueError as error:
            raise ValueError(_in_python(str(error))) from None
        for line in report.splitlines():
            if not line.startswith("skipped"):
                warnings.warn(f"{who}: {_from_0(line)}", UserWarning, stacklevel=4)
        return rows


def _is_news(notable, column, why):
    """Whether somebody should hear what a column is taken for; of dates, which may differ in all rows, only if some cells are marks."""
    return notable and (column["kind"] != "date" or "but for" in why)


def _from_0(text):
    """Rows are counted from 0 in Python, from 1 in files."""
    return re.sub(r"\brow (\d+)", lambda row: f"row {int(row[1]) - 1}", text)


# What the command would say, and what helps here.
_WAYS = (
    ('make the column real in the schema, or let the option impossible_values be "missing"', 'or make the column "real" in `measures`'),
    ('add it to the levels, or let the option unseen_levels be "missing"', "or add it to the levels in `measures`"),
    ("correct it, or add it to the missing marks", "correct it, or make it None"),
)


def _in_python(text):
    """An error of the native reader: rows from 0, columns by their names, and ways that there are."""
    for found, here in _WAYS:
        text = text.replace(found, here)
    return re.sub(r'column \d+ \((".*?")\)', r"column \1", _from_0(text))


def _is_of_numbers(found, column):
    """Whether a column holds numbers, or nothing but texts of numbers."""
    if column.kind in ("numbers", "whole"):
        return True
    if column.kind != "texts" or column.is_category or found["role"] != "feature" or found["kind"] == "date":
        return False
    return found["levels"] is None or all(_is_plain_number(level) for level in found["levels"])


def _is_plain_number(text):
    # 02139 is a name.
    try:
        float(text)
    except ValueError:
        return False
    return not re.match(r"0\d", text)


def _declared(column, measure):
    """What a schema says of a column that is said to measure this."""
    given = None
    if isinstance(measure, dict) and len(measure) == 1:
        ((measure, given),) = measure.items()
    if measure not in _KINDS:
        raise ValueError(f"measures: column {column.name!r} is {measure!r}; known are {', '.join(sorted(_KINDS))}")
    found = {"kind": measure, "role": "feature", "levels": None, "period": None, "date": None}
    if measure == "angle":
        found["period"] = float(given["period"]) if isinstance(given, dict) and "period" in given else None
    elif measure == "date":
        found["date"] = {"order": "ymd"}
    elif measure in _LEVELS:
        if given is not None and (isinstance(given, (str, bytes)) or not isinstance(given, Iterable)):
            raise ValueError(f"measures: column {column.name!r}: {given!r} must be a list of levels")
        levels = [text_of(level) for level in given] if given is not None else column.order
        if levels is None and measure == "ordinal" and column.kind == "texts" and not all(map(_is_plain_number, column.cells[0])):
            raise ValueError(
                f"measures: column {column.name!r}: the order of {sorted(column.cells[0])} is not known; "
                'say it by {"ordinal": [levels from the lowest]}, or make it an ordered category of pandas or an Enum of polars'
            )
        found["levels"] = levels
    return found


def write_beside(path, text):
    """Writes what a fit's own file does not hold beside it; without text there is nothing, nor what was of an earlier fit."""
    beside = f"{os.fspath(path)}.toml"
    if text is None:
        if os.path.exists(beside):
            os.remove(beside)
        return
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)


def read_beside(path):
    """The text beside the file of a fit, or None."""
    try:
        with open(f"{os.fspath(path)}.toml", encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)}.toml is no text: {error}") from None


def to_beside(**names):
    """Lists of names as TOML; None without any."""
    quoted = lambda name: json.dumps(str(name), ensure_ascii=False).replace("\x7f", "\\u007f")
    lines = [f"{key} = [{', '.join(map(quoted, of))}]" for key, of in names.items() if of is not None]
    return "\n".join([*lines, ""]) if lines else None


def of_beside(path, **sizes):
    """The lists of names beside the file of a fit that has so many of each."""
    text = read_beside(path)
    try:
        found = tomllib.loads(text or "")
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}.toml holds no names: {error}") from None
    for key, size in sizes.items():
        if key in found and not (isinstance(found[key], list) and all(isinstance(name, str) for name in found[key])):
            raise ValueError(f"{path}.toml: {key} must be a list of texts")
        if key in found and len(found[key]) != size:
            raise ValueError(f"{path}.toml: has {len(found[key])} {key}, the fit {size}: it is not of this fit")
    return found
