"""Tables of columns of mixed kinds (crate npb-itf)."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from npb import _native
from npb._base import Base, is_missing, plain, with_running_doc
from npb._posterior import Sampled

_NUMBERS = {"real", "positive", "angle"}
_LEVELS = {"binary", "categorical", "ordinal"}


class _Column:
    """What a column measures, and its levels in order."""

    def __init__(self, name, values, measure):
        self.name = name
        known = [v for v in values if not is_missing(v)]
        self.measure = measure or _guess(known)
        self.kind = next(iter(self.measure)) if isinstance(self.measure, dict) else self.measure
        if self.kind not in _NUMBERS | _LEVELS | {"count"}:
            raise ValueError(f"measures: column {name!r} is {self.kind!r}; known are real, positive, angle, count, binary, categorical, ordinal")
        categories = getattr(getattr(values, "dtype", None), "categories", None)
        self.levels = None
        if self.kind in _LEVELS:
            self.levels = list(categories) if categories is not None and hasattr(categories, "tolist") else sorted(set(known))
            if self.kind == "categorical" and len(self.levels) == 2:
                self.kind = self.measure = "binary"
            if self.kind == "binary" and len(self.levels) != 2:
                raise ValueError(f"column {name!r} is binary, but has {len(self.levels)} levels")

    def read(self, values):
        """The values in the shape of `npb_data::MixedColumn`."""
        if self.levels is None:
            kind = "Count" if self.kind == "count" else "Real"
            return {kind: [None if is_missing(v) else self._number(row, v) for row, v in enumerate(values)]}
        place = {level: k for k, level in enumerate(self.levels)}
        codes = [None if is_missing(v) else self._code(row, v, place) for row, v in enumerate(values)]
        names = [str(level) for level in self.levels]
        if self.kind == "binary":
            return {"Binary": {"levels": names, "values": [None if c is None else c == 1 for c in codes]}}
        return {"Categorical": {"levels": names, "codes": codes}}

    def _number(self, row, value):
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"row {row}, column {self.name!r}: {value!r} is not a number") from None
        if not np.isfinite(number):
            raise ValueError(f"row {row}, column {self.name!r} is {number}; mark the cell as missing or correct it")
        if self.kind != "count":
            return number
        if number < 0 or number != int(number):
            raise ValueError(f"row {row}, column {self.name!r}: {value!r} is not a count")
        return int(number)

    def _code(self, row, value, place):
        try:
            return place[value]
        except KeyError:
            raise ValueError(f"row {row}, column {self.name!r}: the category {value!r} was not in training; there are {self.levels}") from None

    def write(self, column):
        """Python's values from those of `npb_data::MixedColumn`."""
        ((_, values),) = column.items()
        if self.levels is None:
            return values
        codes = values.get("codes", values.get("values"))
        return [None if c is None else self.levels[int(c)] for c in codes]


def _guess(known):
    kinds = {bool if isinstance(v, (bool, np.bool_)) else str if isinstance(v, str) else int if isinstance(v, (int, np.integer)) else float for v in known}
    if kinds == {bool}:
        return "binary" if len(set(known)) == 2 else "categorical"
    if kinds == {int} and min(known) >= 0:
        return "count"
    return "categorical" if str in kinds or bool in kinds else "real"


def _columns(X):
    """Names and values of the columns of a frame or an array."""
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns], [X[name] for name in X.columns]
    X = np.asarray(X, dtype=object if not isinstance(X, np.ndarray) else None)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead")
    return [f"x{j}" for j in range(X.shape[1])], list(X.T)


@with_running_doc
class MixedTableModel(Sampled, Base):
    """A table of columns of mixed kinds (numbers, counts, categories), by infinite tensor factorisation: missing cells, and which columns depend on each other.

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    measures : dict, optional
        What columns measure, by name: "real", "positive", {"angle": {"period": p}}, "count", "binary", "categorical", "ordinal". Others are taken for what
        their values are: whole numbers from 0 are counts, other numbers real, everything else categories.
    structure : str, optional
        Which clusterings the columns have.
    burn_in, keep, thin : int, optional
        Sweeps before the first draw, draws kept of each chain, sweeps between them.
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
        burn_in=None,
        keep=None,
        thin=None,
        chains=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.measures = measures
        self.structure = structure
        self.burn_in = burn_in
        self.keep = keep
        self.thin = thin
        self.chains = chains
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y=None):
        """Fits the table: a pandas or polars frame, or an array of shape (n, n_features); None, NaN and pd.NA are missing."""
        names, values = _columns(X)
        measures = dict(self.measures or {})
        for name in measures:
            if name not in names:
                raise ValueError(f"measures: there is no column {name!r}")
        self._columns = [_Column(name, v, plain(measures.get(name))) for name, v in zip(names, values, strict=True)]
        self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
        settings = self._settings(leave_out=("measures",))
        self._take(self._fit_native(*self._table(X), settings=settings))
        return self

    def _take(self, fit):
        super()._take(fit)
        self.diagnostics_ = fit.diagnostics()

    def save(self, path):
        """Writes the fit for the Rust crate. What the columns are is not in that file: to keep the estimator, pickle it."""
        super().save(path)

    @classmethod
    def load(cls, path):
        """Not possible: the file of the Rust crate does not hold what the columns are. Pickle the estimator."""
        raise NotImplementedError("files of this model do not hold the levels of categories: pickle the estimator")

    def _table(self, X):
        names, values = _columns(X)
        if names != list(self.feature_names_in_):
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"found {names}, expected {list(self.feature_names_in_)}, in this order"
            )
        table = {"column_names": names, "columns": [c.read(v) for c, v in zip(self._columns, values, strict=True)]}
        return table, [{"name": c.name, "measure": c.measure, "columns": [j]} for j, c in enumerate(self._columns)]

    def _like(self, X, table):
        """A table in the kind of X."""
        columns = {c.name: c.write(v) for c, v in zip(self._columns, table["columns"], strict=True)}
        if type(X).__module__.startswith("pandas"):
            import pandas

            return pandas.DataFrame(columns, index=X.index).astype({c: t for c, t in X.dtypes.items() if t.kind == "O" or t.name == "category"})
        if type(X).__module__.startswith("polars"):
            import polars

            return polars.DataFrame(columns)
        done = np.array(list(columns.values()), dtype=object).T
        return done.astype(float) if all(c.levels is None for c in self._columns) else done

    def _ask(self, X):
        check_is_fitted(self)
        return self._table(X)

    def impute(self, X, training=False):
        """X with missing cells filled in: means, rounded means of counts, most probable categories; in the kind of X.

        `training` says that X is the table of the fit: its rows are then seen as they were clustered there.
        """
        table, fields = self._ask(X)
        return self._like(X, self._fit.impute(table, fields, 0.9, training, self._threads())[0])

    def predict_cells(self, X, level=0.9, training=False):
        """What is believed of each missing cell.

        Returns
        -------
        list of dict with `row`, `column` and, for numbers, `mean`, `lower`, `upper` (central intervals); for categories `probabilities` by category
        """
        table, fields = self._ask(X)
        cells = self._fit.impute(table, fields, level, training, self._threads())[1]
        return [self._cell(*cell) for cell in cells]

    def _cell(self, row, j, expected, lower, upper):
        column = self._columns[j]
        cell = {"row": row, "column": column.name}
        if column.levels is None:
            return cell | {"mean": expected[0], "lower": lower[0], "upper": upper[0]}
        if len(expected) == 1:
            expected = [1 - expected[0], expected[0]]
        return cell | {"probabilities": dict(zip(column.levels, expected, strict=True))}

    def sample_missing(self, X, n_draws=10, training=False):
        """Completed tables, each a joint draw of the missing cells, in the kind of X: a list."""
        table, fields = self._ask(X)
        drawn = self._fit.impute_draws(table, fields, n_draws, training, self._threads())
        return [self._like(X, one) for one in drawn]

    def score_samples(self, X, training=False):
        """Log predictive density of the observed cells of each row: array of shape (n,)."""
        table, fields = self._ask(X)
        return self._fit.ln_density(table, fields, training, self._threads())

    def dependence(self, X, level=0.05, training=True):
        """Which columns depend on each other: list of dict with `a`, `b`, `information` (mutual, in nats), `sd`, `same_block`, `p_value`, `adjusted_p_value`, `dependent`.

        X: the table of the fit (or, with `training=False`, another one).
        """
        table, fields = self._ask(X)
        return self._fit.dependence(table, fields, level, training, self._threads())
