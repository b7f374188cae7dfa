"""Tables of columns of mixed kinds (crate npb-itf)."""

import numbers
import warnings
from collections.abc import Mapping

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from npb import _native
from npb._base import Base, check_level, check_list, checked_config, count, differ, names_differ, on_top, plain, with_running_doc
from npb._frames import Column, check_names, columns_of, filled, frame, unmasked
from npb._posterior import Sampled
from npb._schema import Schema, write_beside
from npb._shares import Reading


def _checked(X):
    """A frame, or an array of two dimensions that are not empty."""
    X = unmasked(frame(X))
    if sparse.issparse(X):
        raise TypeError("Sparse data was passed, but a dense table is required: use X.toarray()")
    if hasattr(X, "columns"):
        check_names(map(str, X.columns))
        return X
    X = np.asarray(X, dtype=object if not isinstance(X, np.ndarray) else None)
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead")
    for size, name in zip(X.shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(f"Found array with 0 {name}(s) (shape={X.shape}) while a minimum of 1 is required.")
    return X


@with_running_doc
class MixedTableModel(Sampled, Base):
    """A table of columns of mixed kinds (numbers, counts, categories), by infinite tensor factorisation: missing cells, and which columns depend on each other.

    `fit` takes no `sample_weight`: the sampler puts every row into one cluster, where it counts once.

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    measures : dict, optional
        What columns measure, by name: "real", "positive", {"angle": {"period": p}}, "count", "date", "binary", "categorical", "ordinal", or
        {"ordinal": [levels from the lowest]}; what a column cannot be is then an error. Others are taken for what the command `npb schema` takes them for:
        small whole numbers for counts, skewed numbers above 0 for positive ones, codes for categories. Columns that only name the rows are left out, with a
        warning, and so are missing what such a column cannot be and levels that were not in training.
    structure : str, optional
        Which clusterings the columns have.
    sweeps : dict, optional
        {"burn_in": b, "keep": k, "thin": t}: sweeps before the first draw, draws kept of each chain, sweeps between them.
    chains : int, optional
    {running}

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : array of str, for tables with named columns
    diagnostics_ : dict
        R-hat and effective sample sizes of the monitored scalars.
    """

    _native = _native.Itf
    _kind = "table"
    _own = ("measures",)

    def __init__(
        self,
        *,
        measures=None,
        structure=None,
        sweeps=None,
        chains=None,
        config=None,
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
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y=None):
        """Fits the table: a pandas or polars frame, or an array of shape (n, n_features); None, NaN and pd.NA are missing."""
        X = _checked(X)
        if len(X) == 0:
            raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
        if self.measures is not None and not isinstance(self.measures, Mapping):
            raise ValueError(f"measures={self.measures!r}: must be a dict of column names and what they measure")
        columns = columns_of(X)
        names = [column.name for column in columns]
        measures = {str(name): plain(measure) for name, measure in (self.measures or {}).items()}
        for name in measures:
            if name not in names:
                raise ValueError(f"measures: there is no column {name!r}")
        schema = Schema.guessed(columns, measures, type(self).__name__)
        rows = schema.read(columns, type(self).__name__)
        self._schema = Schema(rows.reader(), schema.strict)
        if not self._schema.features():
            raise ValueError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required: no column says anything")
        self._name(names, hasattr(X, "columns"))
        reading = Reading(rows, schema.reader, [column.native for column in columns], schema.strict)
        self._take(self._fit_native(reading, settings=self._settings()))
        return self

    def update(self, X):
        """Goes on with the chains of the fit on its table and new rows below it: with those of the present draws, into which new rows are drawn first.

        X is the whole table: the rows of the fit as they were, in their order, then the new ones; columns, levels and units stay those of the fit. `sweeps` are
        made anew, burn-in included (a short one serves where few rows are new), and `sweeps` and `random_state` may be set before; other settings may not.
        """
        check_is_fitted(self)
        X = _checked(X)
        columns = self._matched(X, [])
        with_levels = [column["name"] for column in self._schema.features() if column["levels"] is not None]
        rows = Schema(self._schema.reader, {*self._schema.strict, *with_levels}).read(columns, type(self).__name__)
        self._take(self._fit_native(rows, settings=self._settings(self._fit.config()), before=self._fit))
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
        pooled._of(models[0]._schema, cls._native.pooled([model._fit for model in models]))
        return pooled

    def schema(self):
        """What the columns are, as the workspace's schema (TOML): `npb import FIT --schema` makes a model file of it and what `save` writes."""
        check_is_fitted(self)
        return self._schema.text()

    def save(self, path):
        """Writes the fit to a file that the Rust crate reads, and beside it what the columns are, `path` + ".toml"."""
        super().save(path)
        write_beside(path, self.schema())

    @classmethod
    def load(cls, path, schema=None):
        """A fitted estimator from the two files that `save` has written, or that `npb export` makes of a model file (`--part model`, `--part schema`).

        Parameters
        ----------
        path : file of the fit
        schema : file of the schema; None for `path` + ".toml"

        What a schema says of columns is declared: what they cannot be is an error in them. In one that `save` has written it is as it was at the fit.
        """
        beside = schema or f"{path}.toml"
        try:
            with open(beside, encoding="utf-8") as file:
                found = Schema.of_text(file.read())
        except FileNotFoundError:
            what = "save writes it beside the fit, `npb export MODEL --part schema` makes it of a model file"
            raise FileNotFoundError(f"{beside}: there is no such file; it says what the columns are: {what}") from None
        except ValueError as error:
            raise ValueError(f"{beside} is no schema: {error}") from None
        fit = cls._loaded(path)
        features = [column["name"] for column in found.features()]
        if features != fit.column_names():
            raise ValueError(f"schema: has the columns {features}, the fit {fit.column_names()}")
        for column in found.columns:
            if column["kind"] in ("binary", "categorical", "ordinal") and column["role"] == "feature" and column["levels"] is None:
                name = column["name"]
                raise ValueError(f"schema: column {name!r} has no levels; write them, or take the schema of the model file (npb export MODEL --part schema)")
            if (column["date"] or {}).get("unit", "days") != "days" or (column["date"] or {}).get("since", "1970-01-01") != "1970-01-01":
                raise ValueError(f"schema: column {column['name']!r}: only dates in days since 1970-01-01 are read here")
        if found.reader.has_blocks():
            raise ValueError("schema: has blocks of columns, which are for Rust and the command alone")
        self = cls()
        self._of(found, fit)
        return self

    def _of(self, schema, fit):
        self._schema = schema
        names = self._expected()
        # Columns without names are called x0, x1, ... in files.
        self._name(names, names != [f"x{j}" for j in range(len(names))])
        self._take(fit)

    def _name(self, names, are_given):
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = len(names)
        if are_given:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _expected(self):
        """Names of the columns of the fit, in their order."""
        return [column["name"] for column in self._schema.columns if column["role"] in ("feature", "ignored")]

    def _ask(self, X, training, targets=()):
        """The question as a frame or array, its columns, and for the native side. Frames need not have the targets."""
        check_is_fitted(self)
        if not isinstance(training, (bool, np.bool_)):
            raise ValueError(f"training={training!r}: must be True or False")
        X = _checked(X)
        columns = self._matched(X, targets)
        if training and len(X) != self._fit.n_rows():
            raise ValueError(f"training=True: the table has {len(X)} rows, that of the fit {self._fit.n_rows()}; give the whole table in its order")
        return X, columns, self._schema.read(columns, type(self).__name__)

    def _matched(self, X, targets):
        """The columns of a table, whose names are checked as scikit-learn does it; targets and columns that the model does not use may be left out."""
        who, columns, expected = type(self).__name__, columns_of(X), self._expected()
        names, features = [column.name for column in columns], {column["name"] for column in self._schema.features()}
        has_names, had_names = hasattr(X, "columns"), hasattr(self, "feature_names_in_")
        if has_names and had_names:
            absent = [name for name in targets if name in features and name not in names]
            if not set(names) <= set(expected) or [n for n in names if n in features] != [n for n in expected if n in features and n not in absent]:
                raise names_differ(names, expected)
            return columns + [Column(name, np.full(len(X), np.nan)) for name in absent]
        if len(names) != len(expected):
            raise ValueError(f"X has {len(names)} features, but {who} is expecting {len(expected)} features as input")
        if has_names != had_names:
            what = f"X has feature names, but {who} was fitted without feature names" if has_names else f"X does not have valid feature names, but {who} was fitted with feature names"
            warnings.warn(what, UserWarning, stacklevel=4)
        for column, name in zip(columns, expected, strict=True):
            column.name = name
        return columns

    def _completed(self, X, columns, rows, tables):
        """Completed tables in the kind of X."""
        place = {column.name: k for k, column in enumerate(columns)}
        missing = rows.missing()
        for table in tables:
            fills = {}
            for feature, cells, which in zip(self._schema.features(), table["columns"], missing, strict=True):
                ((_, values),) = cells.items()
                if isinstance(values, dict):
                    values = values.get("codes", values.get("values"))
                # A column without a value in training stays as it is.
                which = [row for row in which if values[row] is not None]
                k = place[feature["name"]]
                if which:
                    fills[k] = which, [columns[k].value(feature, values[row]) for row in which]
            yield filled(X, columns, fills)

    def impute(self, X, training=False):
        """X with missing cells filled in: means, rounded means of counts, most probable categories; in the kind of X.

        `training` says that X is the whole table of the fit, its rows in the same order: they are then seen as they were clustered there.
        """
        X, columns, rows = self._ask(X, training)
        table = self._fit.impute(rows, 0.9, training, self._threads())[0]
        return next(self._completed(X, columns, rows, [table]))

    def predict_cells(self, X, level=0.9, training=False):
        """What is believed of each missing cell.

        Returns
        -------
        list of dict with `row`, `column` and, for numbers, `mean`, `lower`, `upper` (central intervals); for categories `level` (the most
        probable one) and `probabilities` by category; `epistemic`: the share of the uncertainty that more data would take away, 0 to 1 (as in `predict_columns`)
        """
        check_level(level)
        _, columns, rows = self._ask(X, training)
        return self._cells(columns, self._fit.impute(rows, level, training, self._threads())[1])

    def _cells(self, columns, cells):
        place = {column.name: column for column in columns}
        features = self._schema.features()
        return [_cell(row, features[j], place[features[j]["name"]], *told) for row, j, *told in cells]

    def _given(self, given):
        """One row of which only this is known: its columns, and for the native side."""
        check_is_fitted(self)
        if not isinstance(given, Mapping):
            raise ValueError(f"given={given!r}: must be a dict of column names and values")
        features = [column["name"] for column in self._schema.features()]
        for name in given:
            if name not in features:
                raise ValueError(f"given: there is no column {name!r} in the fit; columns are {', '.join(features)}")
        cells = {name: np.full(1, np.nan, dtype=object) for name in features}
        for name, value in given.items():
            cells[name][0] = value  # As it is: a list is one value that cannot be.
        columns = [Column(name, cell if name in given else np.array([np.nan])) for name, cell in cells.items()]
        strict = Schema(self._schema.reader, [name for name in given])
        return columns, strict.read(columns, type(self).__name__)

    def predict_columns(self, columns, X=None, given=None, level=0.9):
        """What is believed of some columns given the other known cells of a row: of each row of `X`, or in one question of a row of which `given` is known.

        Parameters
        ----------
        columns : name of a column, or a list of names
        X : table like that of the fit; what it has of `columns` is not looked at, and a frame need not have them
        given : dict of values by column name, instead of `X`; None and nan say nothing
        level : probability that intervals hold

        Returns
        -------
        list of dict as `predict_cells` gives, row by row. `epistemic` is, of numbers, the variance of the posterior draws' means over the whole predictive
        variance (of positive numbers of the logarithm); of levels the mutual information of draw and level over the level's entropy. nan, not known, where one draw
        outweighs the others: what is known is far from all that the fit has seen.
        """
        check_level(level)
        if (X is None) == (given is None):
            raise ValueError("predict_columns: give X, or given=... for one question")
        names = [columns] if isinstance(columns, str) else columns
        check_list("columns", names, "names of columns")
        names = [str(name) for name in names]
        _, asked, rows = self._ask(X, False, names) if given is None else (None, *self._given(given))
        for name in names if given is not None else ():
            if name in given:
                raise ValueError(f"given: {name!r} is what is to be predicted; leave it out")
        return self._cells(asked, self._fit.predict_columns(rows, names, level, self._threads()))

    def simulate(self, n=1000, given=None):
        """Rows that the model makes up, drawn from the posterior predictive; `sample_missing` draws the missing cells of the rows of a table.

        Parameters
        ----------
        n : number of rows
        given : dict of values by column name that all rows have; None and nan say nothing

        Returns
        -------
        dict of lists by column name, of which `pandas.DataFrame` makes a frame: numbers, counts, levels as numbers where they are and else as texts, dates as
        texts; row k is the same for every n. Columns without any value in training are None.
        """
        count("n", n)
        columns, rows = self._given({} if given is None else given)
        known = {feature["name"] for feature, which in zip(self._schema.features(), rows.missing(), strict=True) if not len(which)}
        drawn = self._fit.simulate(rows, n, self._threads())["columns"]
        made = {}
        for feature, column, cells in zip(self._schema.features(), columns, drawn, strict=True):
            ((_, values),) = cells.items()
            if isinstance(values, dict):
                values = values.get("codes", values.get("values"))
            name = feature["name"]
            if name not in known:
                column = Column(name, np.array([np.nan]))
            value = int if feature["kind"] == "count" else lambda v, column=column, feature=feature: column.value(feature, v)
            made[name] = [given[name]] * n if name in known else [None if v is None else value(v) for v in values]
        return made

    def sample_missing(self, X, n_draws=10, training=False):
        """Completed tables, each a joint draw of the missing cells, in the kind of X: a list."""
        X, columns, rows = self._ask(X, training)
        drawn = self._fit.impute_draws(rows, count("n_draws", n_draws), training, self._threads())
        return list(self._completed(X, columns, rows, drawn))

    def score_samples(self, X, training=False):
        """Log predictive density of the observed cells of each row: array of shape (n,)."""
        rows = self._ask(X, training)[2]
        return self._fit.ln_density(rows, training, self._threads())

    def score_cells(self, X, training=False):
        """How odd each known cell is given the other known cells of its row, the oddest first.

        `training` says that X is the whole table of the fit, its rows in the same order.

        Returns
        -------
        list of dict with `row`, `column`, `surprisal` (-ln of the probability of a cell, of numbers of the density in their own units; in nats) and `excess`,
        that less what is usual of the column: its mean in rows that the model makes up. Cells stand in the order of `excess`; it is nan
        in columns without any value in training.
        """
        X, _, rows = self._ask(X, training)
        if len(X) == 0:
            return []
        cells, usual = self._fit.surprisals(rows, training, self._threads())
        names = [feature["name"] for feature in self._schema.features()]
        found = [{"row": row, "column": names[j], "surprisal": surprisal, "excess": surprisal - usual[j]} for row, j, surprisal in cells]
        return sorted(found, key=lambda cell: np.inf if np.isnan(cell["excess"]) else -cell["excess"])

    def score(self, X, y=None):
        """Mean log predictive density of the observed cells of a row."""
        scores = self.score_samples(X)
        if len(scores) == 0:
            raise ValueError("score: X has no rows, of which there is no mean")
        return float(np.mean(scores))

    def _found(self):
        return [f"{self._fit.n_rows()} rows, {len(self._schema.features())} columns", *super()._found()]

    def _told(self, X):
        rows = None if X is None else self._ask(X, False)[2]
        return {"n_rows": self._fit.n_rows(), "schema": self._schema.text(), "rows": rows}

    def _names_of(self, columns):
        """Names of columns of the fit, all for None."""
        check_is_fitted(self)
        if columns is None:
            return []
        names = [columns] if isinstance(columns, str) else columns
        check_list("columns", names, "names of columns")
        features = [column["name"] for column in self._schema.features()]
        for name in names:
            if name not in features:
                raise ValueError(f"columns: there is no column {name!r} in the fit; columns are {', '.join(features)}")
        return list(names)

    def similar(self, row, columns=None, n=10):
        """The rows of the fit that are most often in one cluster with a row of it.

        Parameters
        ----------
        row : position of the row in the table of the fit
        columns : name, or list of names, of the columns by whose clusterings rows are alike; None for all
        n : number of rows

        Returns
        -------
        list of dict with `row` and `similarity`, the share of columns and posterior draws in which both are in one cluster; the most similar first
        """
        names = self._names_of(columns)
        count("n", n)
        if isinstance(row, (bool, np.bool_)) or not isinstance(row, numbers.Integral) or not 0 <= row < self._fit.n_rows():
            raise ValueError(f"row={row!r}: must be a row of the fit, from 0 to {self._fit.n_rows() - 1}")
        alike = self._fit.similar_rows(names, int(row), self._threads())
        others = sorted((other for other in range(len(alike)) if other != row), key=lambda other: -alike[other])
        return [{"row": other, "similarity": alike[other]} for other in others[:n]]

    def clusters(self, X, columns=None):
        """The clusters of rows that columns have, one clustering that stands for all draws each.

        Parameters
        ----------
        X : the table of the fit
        columns : name, or list of names; None for all. Columns with a joint law have one clustering.

        Returns
        -------
        list of dict with `columns`, `labels` (of the rows, 0 for the largest cluster), `support` (of the rows: the mean probability of being together with the
        others of the cluster) and `clusters`: of each a dict with `size` and `columns`, what its cells are column by column, that in which it is least like the
        whole table first: a dict with `column`, `divergence` (Kullback-Leibler, in nats) and, of numbers, `mean` and `sd` (of dates in days since 1970), of levels
        `shares` by level
        """
        names = self._names_of(columns)
        asked, rows = self._ask(X, True)[1:]
        features, column_of = self._schema.features(), {column.name: column for column in asked}
        together = {}
        for feature, place in zip(features, self._fit.places(), strict=True):
            together.setdefault(place, []).append(feature["name"])
        found = []
        for of_one in together.values():
            if names and not set(names) & set(of_one):
                continue
            labels, support, clusters = self._fit.clusters(rows, of_one[0], self._threads())
            labels = np.array(labels)
            told = [{"size": int(np.sum(labels == k)), "columns": _described(cluster, features, column_of)} for k, cluster in enumerate(clusters)]
            found.append({"columns": of_one, "labels": labels, "support": np.array(support), "clusters": told})
        return found

    def dependence(self, X, level=None, training=True, permutations=None, given=None, config=None):
        """Which columns depend on each other: list of dict with `a`, `b`, `rows` (where both are known), `information` (mutual, in nats) with its `sd` and 90%
        interval (`lower`, `upper`: the first and the last of `quantiles`), `same_block`, `p_value`, `adjusted_p_value`, `least_p_value` (what `permutations` can give at least: a p-value equal to it is an
        upper bound), `dependent` (the test rejects independence), `verdict`: "yes", "no", or "unexplained" where the test rejects but most draws of the fit share
        no information, so that how strong the dependence is is not known (`information` is nan).

        X: the table of the fit (or, with `training=False`, another one). `given`: name, or list of names, of columns that are taken as known: pairs are those of
        the others, `information` is that given them, and the test that of dependence as such. `level` (0.01), `permutations` (999) and all else that the question can be told
        stand in `config`, in the shape of `default_dependence()`; what is given beside it wins.
        """
        rows = self._ask(X, training)[2]
        settings = on_top(self.default_dependence(), checked_config(config))
        given = None if given is None else self._names_of(given)
        for name, value in (("level", level), ("permutations", permutations), ("given", given)):
            if value is not None:
                settings = on_top(settings, {name: plain(value)})
        return self._fit.dependence(rows, settings, training, self._threads())

    @classmethod
    def default_dependence(cls):
        """The configuration of `dependence` with its defaults, as a dict."""
        return cls._native.dependence_defaults()


def _described(cluster, features, columns):
    """What the cells of a cluster are, column by column, in the caller's levels."""
    told = []
    for feature, (name, divergence, moments, shares) in zip(features, cluster, strict=True):
        one = {"column": name, "divergence": divergence}
        if moments is not None:
            one |= dict(zip(("mean", "sd"), moments, strict=True))
        if shares is not None:
            one["shares"] = {columns[name].value(feature, k): share for k, share in enumerate(shares)}
        told.append(one)
    return sorted(told, key=lambda one: -one["divergence"])


def _cell(row, feature, column, expected, lower, upper, epistemic):
    """What is believed of a cell, in the caller's values."""
    cell = {"row": row, "column": feature["name"], "epistemic": epistemic[0]}
    if feature["levels"] is None:
        if feature["kind"] == "count":
            lower, upper = [max(0.0, np.floor(lower[0]))], [max(0.0, np.ceil(upper[0]))]
        values = {"mean": expected[0], "lower": lower[0], "upper": upper[0]}
        return cell | {name: column.value(feature, value) for name, value in values.items()}
    if len(expected) < len(feature["levels"]):
        expected = [1 - expected[0], expected[0]]
    levels = [column.value(feature, k) for k in range(len(feature["levels"]))]
    return cell | {"level": levels[int(np.argmax(expected))], "probabilities": dict(zip(levels, expected, strict=True))}
