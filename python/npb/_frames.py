"""Columns of frames and arrays as the native reader takes them, and answers put back into the caller's kind."""

import datetime
import decimal
import numbers

import numpy as np

_EPOCH = datetime.datetime(1970, 1, 1)


def package(X):
    """The package that a value's type is of."""
    return type(X).__module__.partition(".")[0]


def is_missing(value):
    """None, NaN, NaT or pd.NA: all that is not equal to itself, or not known to be."""
    if value is None:
        return True
    same = value == value
    return not same if isinstance(same, (bool, np.bool_)) else True


def unmasked(X):
    """A masked array with NaN for what is masked; everything else as it is."""
    return X.astype(float).filled(np.nan) if np.ma.isMaskedArray(X) else X


def frame(X):
    """A table of Arrow (of pyarrow, any stream of record batches) as a frame of pandas or polars; everything else as it is."""
    if package(X) in ("pandas", "polars") or not hasattr(X, "__arrow_c_stream__"):
        return X
    try:
        import pandas  # noqa: F401
        import pyarrow

        return pyarrow.table(X).to_pandas()
    except ImportError:
        pass
    try:
        import polars
    except ImportError:
        raise ImportError("a table of Arrow needs pyarrow and pandas, or polars") from None
    return polars.DataFrame(X)


def unmarked(X, marker):
    """A table with holes where cells are equal to `marker`, a number or a text; what is missing in another way is an error, as in scikit-learn's imputers."""
    X = unmasked(frame(X))
    if hasattr(X, "columns"):
        series = [X.iloc[:, j] for j in range(X.shape[1])] if package(X) == "pandas" else X.get_columns()
        done = [_UNMARKED[package(X)](one, name, marker) for one, name in zip(series, X.columns, strict=True)]
        return _joined(X, done)
    array = np.asarray(X, dtype=object if isinstance(X, (list, tuple)) else None)
    # Anything else is refused by the checks of tables.
    if array.ndim != 2 or array.dtype.kind not in "biufOUS":
        return X
    if (array.dtype.kind in "biuf" and isinstance(marker, str)) or (array.dtype.kind in "US" and not isinstance(marker, str)):
        raise ValueError(f"missing_values={marker!r} is of another kind than X, whose dtype is {array.dtype}: both must be numbers, or both texts")
    if array.dtype.kind in "US":
        array = array.astype(str).astype(object)
    missing = np.isnan(array) if array.dtype.kind == "f" else _missing(array)
    for row, column in np.argwhere(missing)[:1]:
        raise _still_missing(row, int(column), marker)
    done = array.astype(object if array.dtype.kind == "O" else np.float64)
    done[_equal(array, marker)] = np.nan
    return done


def _missing(array):
    return np.frompyfunc(is_missing, 1, 1)(array).astype(bool) if array.dtype.kind == "O" else np.zeros(array.shape, dtype=bool)


def _equal(values, marker):
    """Which cells are equal to a marker: texts to texts, numbers to numbers."""
    if values.dtype.kind in "biuf":
        return values == marker if not isinstance(marker, str) else np.zeros(values.shape, dtype=bool)
    same = lambda value: isinstance(value, str) == isinstance(marker, str) and bool(value == marker)
    return np.frompyfunc(same, 1, 1)(values).astype(bool)


def _still_missing(row, column, marker):
    return ValueError(f"Input X contains NaN: row {row}, column {column!r} is missing, but missing_values={marker!r} says what a missing cell holds")


def _unmarked_pandas(series, name, marker):
    for row in np.flatnonzero(series.isna())[:1]:
        raise _still_missing(row, name, marker)
    values = series.to_numpy()
    hit = _equal(values if values.dtype.kind in "biuf" else series.to_numpy(object), marker)
    if hit.any() and hasattr(series, "cat"):
        # Nor is it one of the categories.
        return series.cat.remove_categories([marker])
    return series.mask(hit) if hit.any() else series


def _unmarked_polars(series, name, marker):
    import polars

    missing = series.is_null() | series.is_nan() if series.dtype.is_float() else series.is_null()
    for row in np.flatnonzero(missing.to_numpy())[:1]:
        raise _still_missing(row, name, marker)
    is_number = series.dtype.is_float() or series.dtype.is_integer()
    hit = _equal(series.to_numpy() if is_number else np.array([*series.to_list(), None], dtype=object)[:-1], marker)
    if not hit.any():
        return series
    done = polars.select(polars.when(polars.Series(~hit)).then(series).alias(name)).to_series()
    return done.cast(polars.Enum([one for one in series.dtype.categories if one != marker])) if series.dtype == polars.Enum else done


_UNMARKED = {"pandas": _unmarked_pandas, "polars": _unmarked_polars}


def _joined(X, series):
    """A frame like X of other columns."""
    if package(X) == "polars":
        import polars

        return polars.DataFrame(series)
    import pandas

    done = pandas.concat(series, axis=1) if series else X.copy()
    done.columns = X.columns
    return done


def check_names(names):
    """Raises ValueError for a column name that occurs twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the column name {name!r} occurs twice")
        seen.add(name)


class Column:
    """The cells of a column: their kind, as `npb._native.Reader` takes it, and how what is filled in becomes a value of the caller's.

    Attributes
    ----------
    kind : "numbers", "whole", "booleans", "texts" or "times"
    known : array of bool
    order : the categories in their order, as texts; None for columns without categories
    labels : the same as the caller has them, or the distinct values of a column of texts
    ordered : whether the order means something
    """

    def __init__(self, name, values):
        self.name, self.values = name, values
        self.order, self.ordered, self.is_category = None, False, False
        try:
            read = _READERS.get(package(values), _of_array)
            self.kind, self.cells, self._back = read(self, values)
        except (TypeError, ValueError, OverflowError, ArithmeticError) as error:
            raise ValueError(f"column {name!r} cannot be read: {error}") from None
        if self.kind == "numbers":
            for row in np.flatnonzero(np.isinf(self.cells))[:1]:
                raise ValueError(f"row {row}, column {name!r} is {self.cells[row]}; mark the cell as missing (NaN) or correct it")

    @property
    def native(self):
        return self.name, self.kind, self.cells

    def value(self, column, value):
        """What a model says of a cell, as the caller's value. `column`: what the schema says of it; levels by their positions."""
        if column["levels"] is not None:
            level = column["levels"][int(value)]
            if self.kind == "times":
                return level
            try:
                return self._back(level)
            except ValueError:
                # Of a column of which nothing is known the type is not known, either.
                return level
        if column["kind"] != "date":
            as_text = self.kind == "texts" and all(isinstance(label, str) for label in self.labels)
            return text_of(value) if as_text else float(value) if self.kind == "texts" else self._back(float(value))
        seconds = 86_400 * value
        return self._back(seconds) if self.kind == "times" else _moment(seconds).isoformat(sep=" ").removesuffix(" 00:00:00")

    def levels(self, *, labels, codes, is_ordered=False):
        """Cells that are levels: what the native reader takes, and the way back."""
        texts = [text_of(label) for label in labels]
        back = dict(zip(texts, labels, strict=True))
        self.order, self.ordered, self.labels = texts, is_ordered, labels
        codes = np.ascontiguousarray(codes, dtype=np.int64)
        return "texts", (texts, codes, is_ordered), lambda text: back.get(text, text)


def columns_of(X):
    """The columns of a frame or a 2-D array; those of arrays are called x0, x1, ..."""
    if hasattr(X, "columns"):
        names = [str(name) for name in X.columns]
        check_names(names)
        series = [X.iloc[:, j] for j in range(len(names))] if package(X) == "pandas" else [X[name] for name in X.columns]
        return [Column(name, one) for name, one in zip(names, series, strict=True)]
    return [Column(f"x{j}", column) for j, column in enumerate(X.T)]


def is_plain(X):
    """Whether all columns of a frame are of a type of numbers that NumPy has as well, or truth values."""
    if package(X) == "pandas":
        return all(getattr(dtype, "kind", "O") in "iufb" and not hasattr(dtype, "fill_value") and not hasattr(dtype, "pyarrow_dtype") for dtype in X.dtypes)
    return all(dtype.is_float() or dtype.is_integer() or str(dtype) == "Boolean" for dtype in X.schema.values())


def numbers_of(X):
    """A frame of numbers, whatever their types, as an array with NaN where nothing is known."""
    columns = columns_of(X)
    table = np.full((len(X), len(columns)), np.nan)
    for j, column in enumerate(columns):
        if column.kind == "times":
            raise ValueError(f"column {column.name!r} holds dates: make numbers of them, such as days since the first")
        if column.kind == "numbers":
            table[:, j] = column.cells
        elif column.kind == "texts":
            table[:, j] = _numbers_of_texts(column)
        else:
            cells, known = column.cells
            table[known, j] = cells[known]
    return table


def _numbers_of_texts(column):
    texts, codes, _ = column.cells
    values = np.full(len(texts) + 1, np.nan)
    for k, text in enumerate(texts):
        try:
            values[k] = float(text)
        except ValueError:
            raise no_number(np.flatnonzero(codes == k)[0], column.name, text) from None
    return values[codes]


def no_number(row, name, text):
    """The error for a text where a number is needed."""
    return ValueError(
        f"row {row}, column {name!r}: could not convert string to float: {text!r}; encode categories as numbers "
        "(scikit-learn's OneHotEncoder, OrdinalEncoder), or give a frame to an estimator that reads them, such as MixedTableModel"
    )


def text_of(value):
    """The text that a value would have in a file."""
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and float(value).is_integer() and abs(value) < 1e16:
        return str(int(value))
    return str(value)


def _whole(text):
    """A level of whole numbers, or a number of the model, as one: whole where it is."""
    value = float(text) if not isinstance(text, str) else int(text)
    return int(value) if float(value).is_integer() else value


def _of_whole(values, known):
    low, high = (int(values[known].min()), int(values[known].max())) if known.any() else (0, 0)
    if not -(2**63) <= low <= high < 2**63:
        raise ValueError("it holds a whole number of 2^63 or more: make numbers or texts of it")
    return "whole", (np.ascontiguousarray(np.where(known, values, 0), dtype=np.int64), known), _whole


def _of_numbers(values):
    return "numbers", np.ascontiguousarray(values, dtype=np.float64), float


def _of_bools(values, known):
    return "booleans", (np.ascontiguousarray(np.where(known, values, False), dtype=bool), known), lambda text: text == "true" if isinstance(text, str) else bool(text)


def _of_times(stamps, back):
    """Times from datetime64 in UTC."""
    known = ~np.isnat(stamps)
    unit = np.datetime_data(stamps.dtype)
    if unit[0] in ("Y", "M", "W", "D", "h", "m", "generic") or unit[1] != 1:
        stamps = stamps.astype("M8[s]")
        unit = ("s", 1)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.get(unit[0])
    if per_second is None:
        raise ValueError(f"times in units of {unit[0]} are too fine: make nanoseconds of them")
    ticks = np.where(known, stamps.view(np.int64) if stamps.dtype.isnative else stamps.astype(np.int64), 0)
    seconds, rest = np.divmod(ticks, per_second)
    cells = (np.ascontiguousarray(seconds), np.ascontiguousarray(rest * (10**9 // per_second)), known)
    return "times", cells, back


def _seconds(spans):
    """Seconds from timedelta64."""
    unit, step = np.datetime_data(spans.dtype)
    if unit not in ("s", "ms", "us", "ns") or step != 1:
        spans, unit = spans.astype("m8[s]"), "s"
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    return np.where(np.isnat(spans), np.nan, spans.astype(np.int64) / per_second)


def _moment(seconds):
    """A time of Python, to the second; its dates end with the year 9999."""
    return _EPOCH + datetime.timedelta(seconds=min(max(round(seconds), -62_135_596_800), 253_402_214_400))


def _of_array(column, values):
    """A column of an array, by its type."""
    kind = values.dtype.kind
    known = np.ones(len(values), dtype=bool)
    if kind == "f":
        # A single-precision number is the number that its shortest text says, as in files.
        values = values.astype(str).astype(np.float64) if values.dtype.itemsize < 8 else values
        return _of_numbers(values)
    if kind in "iu":
        return _of_whole(values, known)
    if kind == "b":
        return _of_bools(values, known)
    if kind == "M":
        return _of_times(values, lambda s: np.datetime64(_moment(s)).astype(values.dtype))
    if kind == "m":
        return "numbers", _seconds(values), lambda s: np.timedelta64(round(s * 1e9), "ns").astype(values.dtype)
    if kind in "OUST":
        return _of_objects(column, np.asarray(values, dtype=object))
    raise ValueError(f"it is of type {values.dtype}, which is not read")


def _of_objects(column, values):
    """A column of Python's objects, by what the known ones are."""
    known = ~np.frompyfunc(is_missing, 1, 1)(values).astype(bool)
    kinds = {_kind_of(value) for value in values[known]}
    if kinds <= {"whole"} and kinds:
        return _of_whole(values, known)
    if kinds == {"bool"}:
        return _of_bools(values, known)
    if kinds <= {"whole", "number", "decimal"}:
        _, cells, _ = _of_numbers(np.array([float(v) if k else np.nan for v, k in zip(values, known, strict=True)], dtype=np.float64))
        only = kinds == {"decimal"}
        return "numbers", cells, (lambda v: decimal.Decimal(repr(float(v)))) if only else _whole_or_float(kinds)
    if kinds == {"time"}:
        zone = getattr(values[known][0], "tzinfo", None)
        days = all(isinstance(v, datetime.date) and not isinstance(v, datetime.datetime) for v in values[known])
        stamps = np.array([_utc(v) if k else np.datetime64("NaT") for v, k in zip(values, known, strict=True)], dtype="M8[us]")
        return _of_times(stamps, lambda s: _of_moment(s, zone, days))
    if kinds == {"clock"}:
        cells = [v.hour * 3600 + v.minute * 60 + (v.second + v.microsecond / 1e6) if k else np.nan for v, k in zip(values, known, strict=True)]
        return "numbers", np.array(cells), lambda s: (_EPOCH + datetime.timedelta(seconds=min(max(s, 0), 86_399.0))).time()
    if kinds == {"span"}:
        cells = [float(v / np.timedelta64(1, "s")) if isinstance(v, np.timedelta64) else v.total_seconds() if k else np.nan for v, k in zip(values, known, strict=True)]
        return "numbers", np.array(cells), lambda s: datetime.timedelta(seconds=s)
    if None in kinds or len(kinds - {"text", "whole", "number", "decimal", "bool"}):
        rows = np.flatnonzero(known)
        first = None if None in kinds else _kind_of(values[rows[0]])
        row = next(row for row in rows if (_kind_of(values[row]) is None) == (first is None) and (first is None or _kind_of(values[row]) != first))
        raise ValueError(f"it holds values of kinds that do not go together, such as {values[row]!r} in row {row}; make texts or numbers of them")
    codes, labels = np.full(len(values), -1), {}
    for row in np.flatnonzero(known):
        # Of 1 and "1" the first.
        codes[row] = labels.setdefault(text_of(values[row]), (len(labels), values[row]))[0]
    found = column.levels(labels=[label for _, label in labels.values()], codes=codes)
    column.order = None
    return found


def _whole_or_float(kinds):
    return _whole if kinds == {"whole"} else float


def _kind_of(value):
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (str, bytes)):
        return "text"
    if isinstance(value, numbers.Integral):
        return "whole"
    if isinstance(value, decimal.Decimal):
        return "decimal"
    if isinstance(value, numbers.Real):
        return "number"
    if isinstance(value, (datetime.timedelta, np.timedelta64)):
        return "span"
    if isinstance(value, (datetime.date, np.datetime64)):
        return "time"
    return "clock" if isinstance(value, datetime.time) else None


def _utc(value):
    """A date or time as datetime64, in UTC."""
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return np.datetime64(value, "us")


def _of_moment(seconds, zone, days):
    moment = _moment(seconds)
    if zone is not None:
        moment = moment.replace(tzinfo=datetime.timezone.utc).astimezone(zone)
    return moment.date() if days else moment


def _of_pandas(column, series):
    import pandas

    dtype = series.dtype
    known = np.asarray(series.notna(), dtype=bool)
    if isinstance(dtype, pandas.ArrowDtype) and dtype.kind not in "iufb":
        # Dates, times, decimals, dictionaries of Arrow as pandas has them.
        series = series.array.__arrow_array__().to_pandas()
        dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        column.is_category = True
        return column.levels(labels=list(dtype.categories), codes=series.cat.codes, is_ordered=bool(dtype.ordered))
    if isinstance(dtype, pandas.SparseDtype):
        return _of_pandas(column, series.sparse.to_dense())
    if isinstance(dtype, pandas.PeriodDtype):
        starts = series.dt.to_timestamp().to_numpy("M8[s]")
        return _of_times(starts, lambda s: pandas.Period(_moment(s), freq=dtype.freq))
    kind = getattr(dtype, "kind", "O")
    if kind == "M":
        zone = getattr(series.dt, "tz", None)
        plain = series.dt.tz_convert("UTC").dt.tz_localize(None) if zone is not None else series
        unit = getattr(plain.dt, "unit", "ns")
        return _of_times(plain.to_numpy(f"M8[{unit}]"), lambda s: pandas.Timestamp(_of_moment(s, zone, False)))
    if kind == "m":
        return "numbers", _seconds(series.to_numpy("m8[ns]")), lambda s: pandas.Timedelta(seconds=s)
    if kind in "iu":
        values = series.to_numpy(np.int64 if kind == "i" else object, na_value=0) if not known.all() else series.to_numpy()
        return _of_whole(values, known)
    if kind == "f":
        return _of_array(column, series.to_numpy(np.float32 if dtype.itemsize == 4 else np.float64, na_value=np.nan))
    if kind == "b":
        return _of_bools(series.to_numpy(bool, na_value=False), known)
    return _of_objects(column, series.to_numpy(object))


def _of_polars(column, series):
    import polars

    kind, known = series.dtype, np.asarray(series.is_not_null().to_numpy(), dtype=bool)
    if kind in (polars.Categorical, polars.Enum):
        labels = kind.categories.to_list() if kind == polars.Enum else sorted(set(series.drop_nulls().to_list()))
        places = {label: k for k, label in enumerate(labels)}
        column.is_category = True
        return column.levels(labels=labels, codes=[-1 if v is None else places[v] for v in series.to_list()])
    if kind.is_float():
        return _of_array(column, series.fill_null(float("nan")).to_numpy())
    if kind.is_integer():
        return _of_whole(series.fill_null(0).to_numpy(), known)
    if kind == polars.Boolean:
        return _of_bools(series.fill_null(False).to_numpy(), known)
    if kind == polars.Datetime and kind.time_zone is not None:
        zone = kind.time_zone
        plain = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        import zoneinfo

        return _of_times(plain.to_numpy(), lambda s: _of_moment(s, zoneinfo.ZoneInfo(zone), False))
    if kind in (polars.Datetime, polars.Date):
        return _of_times(series.to_numpy(), lambda s: _of_moment(s, None, kind == polars.Date))
    if kind == polars.Duration:
        return "numbers", _seconds(series.to_numpy()), lambda s: datetime.timedelta(seconds=s)
    if kind.is_nested() or kind == polars.Binary:
        raise ValueError(f"it is of type {kind}, which is not read: leave it out")
    return _of_objects(column, np.array([*series.to_list(), None], dtype=object)[:-1])


_READERS = {"pandas": _of_pandas, "polars": _of_polars}


def filled(X, columns, fills):
    """X with cells filled in: `fills` are rows and values by position of the column. Every other cell is as it was."""
    if package(X) == "pandas":
        return _joined(X, [_filled_pandas(X.iloc[:, j], *fills.get(j, ((), ()))) for j in range(len(columns))])
    if package(X) == "polars":
        return _joined(X, [_filled_polars(X[name], *fills.get(j, ((), ()))) for j, name in enumerate(X.columns)])
    has_texts = any(_are_texts(values) for _, values in fills.values())
    done = X.astype(object) if has_texts and X.dtype.kind in "biuf" else X.copy()
    for j, (rows, values) in fills.items():
        done[rows, j] = values
    is_number = X.dtype.kind == "O" and not has_texts and all(column.kind in ("numbers", "whole") for column in columns)
    return done.astype(float) if is_number else done


def _are_texts(values):
    return any(isinstance(value, str) for value in values)


def _filled_pandas(series, rows, values):
    import pandas

    if not len(rows):
        return series
    dtype = series.dtype
    if isinstance(dtype, pandas.SparseDtype):
        return _filled_pandas(series.sparse.to_dense(), rows, values)
    if _are_texts(values) and getattr(dtype, "kind", "O") in "biuf":
        series, dtype = series.astype(object), np.dtype(object)
    if getattr(dtype, "kind", "O") in "iu" and not all(float(v).is_integer() for v in values):
        # Beyond 2^53 known numbers would change as floats.
        small = abs(series.dropna()).max() <= 2**53 if series.notna().any() else True
        series = series.astype("Float64") if small else series
        values = values if small else [round(v) for v in values]
    done = series.copy()
    try:
        done.iloc[rows] = values
    except (TypeError, ValueError):
        done = series.astype(object)
        done.iloc[rows] = values
    return done


def _filled_polars(series, rows, values):
    import polars

    if not len(rows):
        return series
    cells = series.to_list()
    if _are_texts(values) and (series.dtype.is_numeric() or series.dtype == polars.Null):
        series = series.cast(polars.String)
    if series.dtype.is_integer() and not all(float(v).is_integer() for v in values):
        known = [abs(v) for v in cells if v is not None]
        small = max(known, default=0) <= 2**53
        series = series.cast(polars.Float64) if small else series
        cells = series.to_list()
        values = values if small else [round(v) for v in values]
    for row, value in zip(rows, values, strict=True):
        cells[row] = value
    return polars.Series(series.name, cells, dtype=series.dtype, strict=False)
