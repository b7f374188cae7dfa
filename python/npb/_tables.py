"""Tables of columns of mixed kinds (crate npb-itf)."""

import json
import tomllib
from datetime import date, datetime, timezone

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from npb import _native
from npb._base import Base, check_names, count, differ, frame, is_missing, plain, unmasked, with_running_doc
from npb._classes import named
from npb._posterior import Sampled

_NUMBERS = {"real", "positive", "angle", "date", "count"}
_LEVELS = {"binary", "categorical", "ordinal"}
_EPOCH, _DAY = np.datetime64("1970-01-01", "us"), np.timedelta64(1, "D")


class _Column:
    """What a column measures, its levels in order, and how dates are written."""

    def __init__(self, name, measure, levels=None, moment=None):
        self.name, self.measure, self.levels = name, measure, levels
        self.kind = next(iter(measure)) if isinstance(measure, dict) and measure else measure
        if self.kind not in _NUMBERS | _LEVELS:
            raise ValueError(f"measures: column {name!r} is {self.kind!r}; known are {', '.join(sorted(_NUMBERS | _LEVELS))}")
        # The kind of Python's dates, and their zone.
        self.moment = moment
        # The same levels by their texts: a file of the command holds texts alone.
        self._place = {str(level): k for k, level in enumerate(levels or ())} | {level: k for k, level in enumerate(levels or ())}

    @classmethod
    def seen(cls, name, values, measure):
        """A column of training: of `measure`, or of what its values are."""
        known = [v for v in values if not is_missing(v)]
        categories = getattr(getattr(values, "dtype", None), "categories", None)
        if measure is None and hasattr(categories, "__len__"):
            measure = "ordinal" if getattr(values.dtype, "ordered", False) else "categorical"
        try:
            measure = measure or _guess(name, known, len(values))
            ordered = sorted(set(known))
        except TypeError as error:
            raise ValueError(f"column {name!r} holds values of kinds that do not go together ({error}); make texts or numbers of them") from None
        given = None
        if isinstance(measure, dict) and next(iter(measure), None) in _LEVELS:
            # {"ordinal": [levels from the lowest]}
            ((measure, given),) = measure.items()
        column = cls(name, measure)
        if column.kind == "date":
            return cls(name, measure, moment=_moment(known))
        if column.kind not in _LEVELS:
            return column
        levels = given or categories
        if not hasattr(levels, "__len__"):
            levels = ordered
            if measure == "ordinal" and any(isinstance(level, str) for level in levels):
                raise ValueError(
                    f"measures: column {name!r}: the order of {levels} is not known; "
                    'say it by {"ordinal": [levels from the lowest]}, or make it an ordered category of pandas or an Enum of polars'
                )
        levels = list(levels)
        if measure == "categorical" and len(levels) == 2:
            measure = "binary"
        if measure == "binary" and len(levels) != 2:
            raise ValueError(f"column {name!r} is binary, but has {len(levels)} levels")
        return cls(name, measure, levels)

    @classmethod
    def of_schema(cls, column):
        """A column of a schema, whose levels are texts (integers or truth values if all of them are)."""
        name, kind, levels = column["name"], column["kind"], column.get("levels")
        if kind == "angle":
            return cls(name, {"angle": {"period": column["period"]}})
        if kind == "date":
            if column.get("date", {}).keys() & {"unit", "since"}:
                raise ValueError(f"schema: column {name!r}: only dates in days since 1970-01-01 are read here")
            return cls(name, kind, moment=(datetime, None))
        if kind in _LEVELS and levels is None:
            raise ValueError(f"schema: column {name!r} has no levels; write them, or take the schema of the model file (npb export MODEL --part schema)")
        if levels is not None:
            truths = {"False": False, "True": True}
            levels = [truths[text] for text in levels] if set(levels) <= truths.keys() else named(levels).tolist()
        column = cls(name, kind, levels)
        if set(column._place) == {"false", "true"}:
            # The command's truth values.
            column._place |= {False: levels.index("false"), True: levels.index("true")}
        return column

    def schema(self):
        """The line of the schema."""
        text = lambda value: json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
        line = f"name = {text(self.name)}, kind = {text(self.kind)}"
        if self.kind == "angle":
            line += f", period = {float(self.measure['angle']['period'])!r}"
        if self.levels is not None:
            line += f", levels = [{', '.join(map(text, self.levels))}]"
        return f"  {{ {line} }},"

    def field(self, j):
        """What `npb_data::Field` says of the column."""
        return {"name": self.name, "measure": "real" if self.kind == "date" else self.measure, "columns": [j]}

    def read(self, values):
        """The values in the shape of `npb_data::MixedColumn`."""
        if self.levels is None:
            kind = "Count" if self.kind == "count" else "Real"
            return {kind: [None if is_missing(v) else self._number(row, v) for row, v in enumerate(values)]}
        codes = [None if is_missing(v) else self._code(row, v) for row, v in enumerate(values)]
        names = [str(level) for level in self.levels]
        if self.kind == "binary":
            return {"Binary": {"levels": names, "values": [None if c is None else c == 1 for c in codes]}}
        return {"Categorical": {"levels": names, "codes": codes}}

    def _number(self, row, value):
        try:
            number = _days(value) if self.kind == "date" else float(value)
        except (TypeError, ValueError) as error:
            what = "a date" if self.kind == "date" else "a number (the argument must be a string or a real number)"
            raise type(error)(f"row {row}, column {self.name!r}: {value!r} is not {what}") from None
        if not np.isfinite(number):
            raise ValueError(f"row {row}, column {self.name!r} is {number}; mark the cell as missing or correct it")
        if self.kind != "count":
            return number
        if number < 0 or number != int(number):
            raise ValueError(f"row {row}, column {self.name!r}: {value!r} is not a count")
        return int(number)

    def _code(self, row, value):
        for key in (value, str(value)):
            try:
                return self._place[key]
            except (KeyError, TypeError):
                pass
        raise ValueError(f"row {row}, column {self.name!r}: the category {value!r} was not in training; there are {self.levels}")

    def number(self, number):
        """A number of the model as Python's value."""
        if number is None or self.kind != "date":
            return number
        kind, zone = self.moment
        # Python's dates end with the year 9999.
        seconds = min(max(round(number * 86_400), -62_135_596_800), 253_402_214_400)
        moment = (_EPOCH + np.timedelta64(seconds, "s")).item()
        if zone is not None:
            moment = moment.replace(tzinfo=timezone.utc).astimezone(zone)
        return moment.date() if kind is date else moment

    def write(self, column):
        """Python's values from those of `npb_data::MixedColumn`."""
        ((_, values),) = column.items()
        if self.levels is None:
            return [self.number(value) for value in values]
        codes = values.get("codes", values.get("values"))
        return [None if c is None else self.levels[int(c)] for c in codes]


def _days(value):
    """Days since 1970-01-01, in UTC for dates with a zone."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    if not isinstance(value, (date, np.datetime64)):
        raise ValueError
    return float((np.datetime64(value, "us") - _EPOCH) / _DAY)


def _moment(known):
    first = known[0] if known else None
    only_days = isinstance(first, date) and not isinstance(first, datetime)
    return date if only_days else datetime, getattr(first, "tzinfo", None)


def _guess(name, known, n_rows):
    if known and all(isinstance(v, (date, np.datetime64)) for v in known):
        return "date"
    kinds = {bool if isinstance(v, (bool, np.bool_)) else str if isinstance(v, str) else int if isinstance(v, (int, np.integer)) else float for v in known}
    if kinds == {bool}:
        return "binary" if len(set(known)) == 2 else "categorical"
    if str in kinds or bool in kinds:
        _check_identifier(name, known, len(set(known)))
        return "categorical"
    if kinds == {float} and len(known) < n_rows and all(v == int(v) for v in known if np.isfinite(v)):
        # Whole numbers, which pandas keeps as floats when some are missing.
        kinds = {int}
    if kinds != {int} or min(known) < 0:
        return "real"
    if len(known) == n_rows >= 20 and len(set(known)) == n_rows == max(known) - min(known) + 1:
        _check_identifier(name, known, n_rows)
    return {"ordinal": sorted({int(v) for v in known})} if _are_grades(known) else "count"


def _are_grades(known):
    """Few whole numbers, none left out, that vary half as much as counts of chance events do, or less; as in the schemas of the command."""
    values, n = set(known), len(known)
    filled = max(values) - min(values) + 1 == len(values)
    little = np.var(known) < np.mean(known) * min(0.5, 1 - 2 * (2 / max(n, 1)) ** 0.5)
    return bool(filled and 3 <= len(values) <= 12 and n >= 20 and little)


def _check_identifier(name, known, levels):
    """A column that names the rows says nothing of others; as in the schemas of the command."""
    n = len(known)
    if (levels == n >= 20) or (levels > 50 and levels > 0.9 * n):
        raise ValueError(f"column {name!r} has {levels} different values in {n} rows, as identifiers have: leave it out, or say in `measures` what it is")


def _columns(X):
    """Names and values of the columns of a frame or an array."""
    X = unmasked(X)
    if sparse.issparse(X):
        raise TypeError("Sparse data was passed, but a dense table is required: use X.toarray()")
    if hasattr(X, "columns"):
        check_names(map(str, X.columns))
        return [str(name) for name in X.columns], [X[name] for name in X.columns]
    X = np.asarray(X, dtype=object if not isinstance(X, np.ndarray) else None)
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead")
    for size, name in zip(X.shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(f"Found array with 0 {name}(s) (shape={X.shape}) while a minimum of 1 is required.")
    return [f"x{j}" for j in range(X.shape[1])], list(X.T)


@with_running_doc
class MixedTableModel(Sampled, Base):
    """A table of columns of mixed kinds (numbers, counts, categories), by infinite tensor factorisation: missing cells, and which columns depend on each other.

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    measures : dict, optional
        What columns measure, by name: "real", "positive", {"angle": {"period": p}}, "count", "date", "binary", "categorical", "ordinal", or
        {"ordinal": [levels from the lowest]}. Others are taken for what their values are: whole numbers from 0 are counts (few of them that vary little, such as marks from 1 to 10, ordinal), other numbers real, dates dates,
        everything else categories.
    structure : str, optional
        Which clusterings the columns have.
    sweeps : dict, optional
        {"burn_in": b, "keep": k, "thin": t}: sweeps before the first draw, draws kept of each chain, sweeps between them.
    chains : int, optional
    {running}

    Attributes
    ----------
    feature_names_in_ : array of str
    diagnostics_ : dict
        R-hat and effective sample sizes of the monitored scalars.
    """

    _native = _native.Itf

    def __init__(
        self,
        *,
        measures=None,
        structure=None,
        sweeps=None,
        chains=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.measures = measures
        self.structure = structure
        self.sweeps = sweeps
        self.chains = chains
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y=None):
        """Fits the table: a pandas or polars frame, or an array of shape (n, n_features); None, NaN and pd.NA are missing."""
        X = frame(X)
        names, values = _columns(X)
        measures = {str(name): measure for name, measure in (self.measures or {}).items()}
        for name in measures:
            if name not in names:
                raise ValueError(f"measures: there is no column {name!r}")
        self._columns = [_Column.seen(name, v, plain(measures.get(name))) for name, v in zip(names, values, strict=True)]
        self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
        settings = self._settings(leave_out=("measures",))
        self._take(self._fit_native(*self._table(X), settings=settings))
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _take(self, fit):
        super()._take(fit)
        self.diagnostics_ = fit.diagnostics()

    @classmethod
    def pooled(cls, models):
        """One fitted model of several of the same table and settings that differ in `random_state` alone, run apart."""
        models = differ(models)
        if any(model.schema() != models[0].schema() for model in models):
            raise ValueError("models: must be fits of one table")
        pooled = cls(**models[0].get_params(deep=False))
        pooled._of(models[0]._columns, cls._native.pooled([model._fit for model in models]))
        return pooled

    def schema(self):
        """What the columns are, as the workspace's schema (TOML): `npb import FIT --schema` makes a model file of it and what `save` writes."""
        check_is_fitted(self)
        return "\n".join(["columns = [", *(column.schema() for column in self._columns), "]", ""])

    def save(self, path):
        """Writes the fit to a file that the Rust crate reads, and beside it what the columns are, `path` + ".toml"."""
        super().save(path)
        with open(f"{path}.toml", "w", encoding="utf-8") as file:
            file.write(self.schema())

    @classmethod
    def load(cls, path, schema=None):
        """A fitted estimator from the two files that `save` has written, or that `npb export` makes of a model file (`--part model`, `--part schema`).

        Parameters
        ----------
        path : file of the fit
        schema : file of the schema; None for `path` + ".toml"

        The levels of categories come back as texts, or as integers or truth values if all are.
        """
        with open(schema or f"{path}.toml", "rb") as file:
            try:
                found = tomllib.load(file)
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ValueError(f"{file.name} is no schema: {error}") from None
        rows = found.get("columns")
        if not isinstance(rows, list) or not all(isinstance(row, dict) and {"name", "kind"} <= row.keys() for row in rows):
            raise ValueError(f"{schema or f'{path}.toml'} is no schema: it has no list of columns with name and kind")
        if found.get("blocks"):
            raise ValueError("schema: has blocks of columns, which are for Rust and the command alone")
        used = [column for column in found["columns"] if column.get("role", "feature") == "feature" and column["kind"] != "identifier"]
        fit = cls._native.load(path)
        columns = [_Column.of_schema(column) for column in used]
        if [column.name for column in columns] != fit.column_names():
            raise ValueError(f"schema: has the columns {[column.name for column in columns]}, the fit {fit.column_names()}")
        self = cls()
        self._of(columns, fit)
        return self

    def _of(self, columns, fit):
        self._columns = columns
        self.feature_names_in_, self.n_features_in_ = np.array([column.name for column in columns], dtype=object), len(columns)
        self._take(fit)

    def _table(self, X):
        names, values = _columns(X)
        if len(names) != self.n_features_in_:
            raise ValueError(f"X has {len(names)} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input")
        if names != list(self.feature_names_in_):
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"found {names}, expected {list(self.feature_names_in_)}, in this order"
            )
        table = {"column_names": names, "columns": [c.read(v) for c, v in zip(self._columns, values, strict=True)]}
        return table, [column.field(j) for j, column in enumerate(self._columns)]

    def _like(self, X, table):
        """A table in the kind of X."""
        columns = {c.name: c.write(v) for c, v in zip(self._columns, table["columns"], strict=True)}
        if type(X).__module__.startswith("pandas"):
            import pandas

            kinds = {str(c): t for c, t in X.dtypes.items() if t.kind in "OM" or t.name == "category"}
            done = pandas.DataFrame(columns, index=X.index).astype(kinds)
            done.columns = X.columns
            return done
        if type(X).__module__.startswith("polars"):
            import polars

            return polars.DataFrame(columns, schema_overrides={c: t for c, t in X.schema.items() if t.is_temporal() or t == polars.Categorical})
        done = np.array(list(columns.values()), dtype=object).T
        return done.astype(float) if all(c.levels is None and c.kind != "date" for c in self._columns) else done

    def _ask(self, X, training):
        """The question as a frame or array, and for the native side."""
        check_is_fitted(self)
        X = frame(X)
        table, fields = self._table(X)
        if training and len(X) != self._fit.n_rows():
            raise ValueError(f"training=True: the table has {len(X)} rows, that of the fit {self._fit.n_rows()}; give the whole table in its order")
        return X, table, fields

    def impute(self, X, training=False):
        """X with missing cells filled in: means, rounded means of counts, most probable categories; in the kind of X.

        `training` says that X is the whole table of the fit, its rows in the same order: they are then seen as they were clustered there.
        """
        X, table, fields = self._ask(X, training)
        return self._like(X, self._fit.impute(table, fields, 0.9, training, self._threads())[0])

    def predict_cells(self, X, level=0.9, training=False):
        """What is believed of each missing cell.

        Returns
        -------
        list of dict with `row`, `column` and, for numbers, `mean`, `lower`, `upper` (central intervals); for categories `probabilities` by category
        """
        X, table, fields = self._ask(X, training)
        cells = self._fit.impute(table, fields, level, training, self._threads())[1]
        return [self._cell(*cell) for cell in cells]

    def _cell(self, row, j, expected, lower, upper):
        column = self._columns[j]
        cell = {"row": row, "column": column.name}
        if column.levels is None:
            if column.kind == "count":
                lower, upper = [max(0.0, np.floor(lower[0]))], [max(0.0, np.ceil(upper[0]))]
            return cell | {name: column.number(ends[0]) for name, ends in (("mean", expected), ("lower", lower), ("upper", upper))}
        if len(expected) < len(column.levels):
            expected = [1 - expected[0], expected[0]]
        return cell | {"probabilities": dict(zip(column.levels, expected, strict=True))}

    def sample_missing(self, X, n_draws=10, training=False):
        """Completed tables, each a joint draw of the missing cells, in the kind of X: a list."""
        X, table, fields = self._ask(X, training)
        drawn = self._fit.impute_draws(table, fields, count("n_draws", n_draws), training, self._threads())
        return [self._like(X, one) for one in drawn]

    def score_samples(self, X, training=False):
        """Log predictive density of the observed cells of each row: array of shape (n,)."""
        X, table, fields = self._ask(X, training)
        return self._fit.ln_density(table, fields, training, self._threads())

    def dependence(self, X, level=0.01, training=True, permutations=999):
        """Which columns depend on each other: list of dict with `a`, `b`, `rows` (where both are known), `information` (mutual, in nats) with its `sd` and 90%
        interval (`lower`, `upper`), `same_block`, `p_value`, `adjusted_p_value`, `least_p_value` (what `permutations` can give at least: a p-value equal to it is an
        upper bound), `dependent` (the test rejects independence), `verdict`: "yes", "no", or "unexplained" where the test rejects but most draws of the fit share
        no information, so that how strong the dependence is is not known (`information` is nan).

        X: the table of the fit (or, with `training=False`, another one).
        """
        X, table, fields = self._ask(X, training)
        return self._fit.dependence(table, fields, level, training, count("permutations", permutations), self._threads())
