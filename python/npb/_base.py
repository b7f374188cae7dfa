"""What all estimators share: settings, seeds, threads, progress, files."""

import html
import numbers
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from npb import _native, _shares
from npb._classes import labelled
from npb._frames import check_names, columns_of, frame, is_missing, is_plain, no_number, numbers_of, package, unmasked
from npb._schema import Schema, read_beside, write_beside

# scikit-learn's names of settings, and where they stand in configurations of the Rust crates.
_SKLEARN_NAMES = {"max_iter": "max_iterations", "tol": "tolerance"}
# Parameters that say how a fit is run, not what is fitted.
_RUNNING = ("config", "random_state", "n_jobs", "progress", "checkpoint", "checkpoint_every")

RUNNING_DOC = """
    config : dict, optional
        Any setting of the Rust configuration, in the shape of `default_config()` or of a file that the command takes by `--config`; what is not in it has its
        default. Parameters that are given win over it (so does `random_state` over its `seed`, unless it is 0, its default).
    random_state : int, RandomState or None, default=0
        Seed of all random numbers: an int is the `seed` of the Rust configuration, and gives the same bits there. None draws one from NumPy's.
    n_jobs : int or None, default=None
        Threads; None (or -1) for one on each core. Results do not depend on it. Inside `joblib.parallel_config`, of Dask's backend or another, `fit` shares its
        chains, starts and folds out to the processes there, each on one thread, to the same bits.
    progress : bool or callable, default=False
        True shows a progress bar (by tqdm, if it is installed); a function is called with part, step and the share of the work done (0 to 1).
    checkpoint : path or None, default=None
        A fit that is stopped or killed goes on from this file when it is called again with the same data and settings, and ends in the same bits.
        It is removed when the fit ends by itself.
    checkpoint_every : float, default=60
        Seconds between checkpoints.
"""


def with_running_doc(cls):
    """Puts the parameters that all estimators share into a docstring, where `{running}` stands."""
    cls.__doc__ = cls.__doc__.replace("\n    {running}\n", RUNNING_DOC)
    return cls


def plain(value):
    """NumPy's numbers and arrays as Python's, for the native side."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def threads(n_jobs):
    """Threads of the native side; 0 for one on each core."""
    if n_jobs is None or n_jobs == -1:
        return 0
    if not isinstance(n_jobs, numbers.Integral) or not 1 <= n_jobs <= 4096:
        raise ValueError(f"n_jobs={n_jobs!r}: must be from 1 to 4096, or None (or -1) for one thread on each core")
    return int(n_jobs)


def _listener(progress):
    """A function of part, step, share, and one to be called at the end."""
    if callable(progress):
        return progress, lambda: None
    if not progress:
        return None, lambda: None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs the package tqdm; or give a function of part, step and share") from None
    bar = tqdm(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining} {postfix}")

    def listen(part, step, share):
        bar.set_postfix_str(f"{part}, step {step}", refresh=False)
        bar.update(share - bar.n)

    return listen, bar.close


class Base(BaseEstimator):
    """An estimator over a fit of the native module.

    `_native` is the class of the fit; `_inside` are the parts of its configuration in which settings stand that are not at the top; `_own` are the parameters
    that are no settings of it.
    """

    _native = None
    _inside = ()
    _own = ()
    # Kind of model, as the command calls it.
    _kind = None

    @classmethod
    def default_config(cls):
        """The configuration of the Rust crate with its defaults, as a dict: what parameters that are None stand for, and what `config` may change."""
        return cls._native.defaults()

    def _place(self, name, config):
        """Where a parameter stands in the configuration: a tuple of keys."""
        name = _SKLEARN_NAMES.get(name, name)
        for part in ((), *self._inside):
            found = config
            for key in part:
                found = found.get(key) if isinstance(found, dict) else None
            if isinstance(found, dict) and name in found:
                return (*part, name)
        return (name,)

    def _settings(self, config=None):
        """The configuration: defaults, on top of them `config`, on top of both the parameters that were given."""
        config = on_top(self.default_config() if config is None else config, checked_config(self.config))
        for name, value in self.get_params(deep=False).items():
            if value is not None and name not in _RUNNING and name not in self._own:
                config = on_top(config, _at(self._place(name, config), plain(value)), shown=f"{name}={value!r}")
        if not self._has_default_seed():
            config = on_top(config, _at(self._place("seed", config), self._seed()))
        return config

    def _has_default_seed(self):
        # Nobody need have said it: a seed in `config` stands.
        return isinstance(self.random_state, numbers.Integral) and self.random_state == 0

    def _seed(self):
        state = self.random_state
        if isinstance(state, numbers.Integral):
            if not 0 <= state < 2**63:
                raise ValueError(f"random_state={state}: must be between 0 and 2^63")
            return int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _fit_native(self, *arguments, settings=None, before=None):
        """Fits on a thread of its own, with a progress bar if asked; or goes on with a fit, which stays if that does not end."""
        # A fit that does not end leaves nothing to ask: what is known of the data is of this fit already, not of the one before.
        if before is None:
            self.__dict__.pop("_fit", None)
        listen, close = _listener(self.progress)
        how = {
            "threads": threads(self.n_jobs),
            "progress": listen,
            "checkpoint": self.checkpoint,
            "every": float(self.checkpoint_every),
            "share": None,
        }
        arguments = (*arguments, self._settings() if settings is None else settings)
        try:
            if before is not None:
                fit = before.further(*arguments, how)
            elif _shares.backend_is_chosen():
                fit = _shares.fit(self._native, arguments, how)
            else:
                fit = self._native.fit(*_shares.native_of(arguments), how)
        finally:
            close()
        if trouble := self._trouble(fit):
            warnings.warn(f"{type(self).__name__}: {trouble}", ConvergenceWarning, stacklevel=3)
        return fit

    def _trouble(self, fit):
        """Why a fit has not settled, or None if it has or cannot be judged."""
        return None if fit.has_converged() else "the bound was still rising after the last iteration; raise max_iter"

    def _threads(self):
        return threads(self.n_jobs)

    def save(self, path):
        """Writes the fit to a file that `load` and the Rust crate read, with a checksum; a file that is there is replaced when the new one is whole."""
        check_is_fitted(self)
        self._fit.save(path)

    @classmethod
    def load(cls, path):
        """A fitted estimator from a file that `save`, or the Rust crate, has written.

        The file holds the fit, not the parameters of the estimator: they have their defaults. Class names come back as texts, or as integers if all are.
        """
        self = cls()
        self._take(cls._loaded(path))
        return self

    @classmethod
    def _loaded(cls, path):
        """The fit in a file."""
        try:
            return cls._native.load(path)
        except ValueError as error:
            if '"npb-cli/' not in str(error):
                raise
        raise ValueError(f"{path}: is a model file of the command; `npb export {path} --part model --out fit.npb` makes the file that is loaded here")

    def report(self, path, X=None, y=None, seed=0, **parts):
        """Writes a page about the fit: settings, whether it has settled, what it found, how it does on rows; one HTML file that loads nothing, with warnings.

        Parameters
        ----------
        path : the file to write
        X : rows to try the model on, best such as it has not seen; for models of rows of columns
        y : their labels, where the model predicts classes
        seed : of rows and cells that are drawn
        tasks, groups : with :class:`MultiTaskClassifier` and :class:`GroupedClassifier`, the task or group of each row
        """
        check_is_fitted(self)
        if self._kind is None:
            raise ValueError(f"{type(self).__name__} has no page")
        told = {"name": type(self).__name__, "n_rows": None, "schema": None, "rows": None, "x": None, "names": []}
        told |= {"labels": texts_of(y), "parts": None, "seed": count("seed", seed, least=0, most=2**63 - 1), "threads": self._threads()}
        told |= self._told(X, **parts)
        n_rows = 0 if X is None else len(X if told["x"] is None else told["x"])
        if y is not None and len(told["labels"]) != n_rows:
            raise ValueError(f"y: has {len(told['labels'])} labels, X {n_rows} rows")
        page = _native.report(self._kind, self._fit.to_bytes(), told)
        Path(path).write_text(page, encoding="utf-8")

    def _told(self, X):
        """What a page is told of rows."""
        if X is not None:
            raise ValueError(f"X: {type(self).__name__} has a page about the fit alone")
        return {}

    def _take(self, fit):
        """Sets what is known of a fit."""
        self._fit = fit

    def _found(self):
        """What a fit has found, in a few short lines for notebooks."""
        return []

    def _found_html(self):
        if not hasattr(self, "_fit"):
            return ""
        lines = [str(line) for line in self._found()]
        if trouble := self._trouble(self._fit):
            lines.append(f"Warning: {trouble}")
        return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>" if lines else ""

    def _repr_html_inner(self):
        """scikit-learn's picture of the estimator, and after a fit what it has found."""
        return super()._repr_html_inner() + self._found_html()

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._found_html()
        return bundle

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_fit")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def stop_line(model):
    """How an iteration has ended."""
    return f"{'converged' if model.converged_ else 'stopped'} after {model.n_iter_} iterations"


def differ(models):
    """Raises ValueError if two fits that are to be pooled have the same draws: they would pass for twice as many."""
    models = list(models)
    if not models:
        raise ValueError("models: there is none")
    for model in models:
        check_is_fitted(model)
    seen = {}
    for k, model in enumerate(models):
        config = model._fit.config()
        before = seen.setdefault((config["seed"], config.get("chain")), k)
        if before != k:
            raise ValueError(f"models {before} and {k} have the same seed and chain, so the same draws")
    return models


def checked_config(config):
    """Settings that were given as a dict (or another mapping); None for none."""
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise ValueError(f"config={config!r}: must be a dict of settings, such as default_config() gives")
    _check_keys(config)
    return plain(config)


def _check_keys(config):
    for key, value in config.items():
        if not isinstance(key, str):
            raise ValueError(f"config: the key {key!r} is no text; keys are names of settings")
        if isinstance(value, Mapping):
            _check_keys(value)


def on_top(below, above, shown=None, path=()):
    """Settings on top of others, as the command puts them: dicts are merged, everything else is replaced.

    Two dicts of one key each are two choices of one setting. Numbers and truth values are checked here, as the native side would say no value, or take any.
    """
    if wanted := _other_type(below, above):
        raise ValueError(f"{shown or '.'.join(map(str, path)) + '=' + repr(above)}: must be {wanted}")
    if not isinstance(below, dict) or not isinstance(above, dict) or (len(below) == len(above) == 1 and below.keys() != above.keys()):
        return above
    return below | {key: on_top(below.get(key), value, shown, (*path, key)) for key, value in above.items()}


def _other_type(below, above):
    """What a setting must be that is not of the type of its default; None where it is, and where only the native side can tell."""
    if isinstance(below, bool):
        return None if isinstance(above, bool) else "True or False"
    if above is None or not isinstance(below, (int, float)):
        return None
    if isinstance(below, int):
        return None if isinstance(above, numbers.Integral) else "a whole number"
    return None if isinstance(above, numbers.Real) else "a number"


def _at(place, value):
    """A value at its place in a configuration, and nothing else."""
    for key in reversed(place):
        value = {key: value}
    return value


def names_differ(found, expected):
    """The error for names of columns that are not those of the fit, in scikit-learn's words."""
    unseen, missing = (sorted(set(one) - set(other)) for one, other in ((found, expected), (expected, found)))
    listed = lambda names: "".join(f"- {name}\n" for name in names[:5]) + ("- ...\n" if len(names) > 5 else "")
    text = "The feature names should match those that were passed during fit.\n"
    if unseen:
        text += f"Feature names unseen at fit time:\n{listed(unseen)}"
    if missing:
        text += f"Feature names seen at fit time, yet now missing:\n{listed(missing)}"
    if not unseen and not missing:
        text += "Feature names must be in the same order as they were in fit.\n"
    return ValueError(text)


class TableBase(Base):
    """An estimator of a 2-D table of numbers with holes.

    Of a frame that holds other columns, too, a schema makes numbers as the command does: 0 and 1 for each level of a category but the first, days for dates.
    """

    _schema = None

    def _table(self, X, reset=False, **options):
        """The table as C-contiguous float64: the caller's own memory if it is that already.

        Missing: NaN, None, pd.NA. Infinite values are errors that name row and column.
        """
        if reset:
            self.__dict__.pop("_fit", None)
            self.__dict__.pop("_schema", None)
        else:
            check_is_fitted(self)
        X = unmasked(frame(X))
        if hasattr(X, "columns"):
            X = self._of_frame(X, reset)
            table = check_array(X, dtype=np.float64, order="C", ensure_all_finite=False, input_name="X", estimator=self, **options)
        else:
            X = _numbers(X)
            if getattr(getattr(X, "dtype", None), "kind", "") in ("M", "m"):
                raise ValueError("X holds dates: make numbers of them, such as days since the first, or give a frame")
            try:
                table = validate_data(self, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False, **options)
            except ValueError as error:
                raise first_text(X) or error from None
            except TypeError as error:
                raise _first_strange(X) or error from None
        self._check_infinite(table)
        return table

    def _of_frame(self, X, reset):
        """The numbers of a frame, whose names are checked."""
        X = _with_names(X, reset or not hasattr(self, "feature_names_in_"))
        validate_data(self, X, reset=reset, skip_check_array=True)
        who = type(self).__name__
        if reset and not (is_plain(X) and not _names_rows(X)):
            columns = columns_of(X)
            rows = Schema.of_numbers(columns, who).read(columns, who)
            self._schema = Schema(rows.reader(), ())
        elif self._schema is None:
            return X if is_plain(X) else numbers_of(X)
        else:
            rows = self._schema.read(columns_of(X), who)
        table, names = rows.numbers()
        if not names:
            raise ValueError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required: no column says anything")
        return table

    def _told(self, X):
        if X is None or self._schema is None:
            numbers = None if X is None else self._table(X)
            return {"x": numbers, "names": self._names()}
        X = _with_names(unmasked(frame(X)), False)
        validate_data(self, X, reset=False, skip_check_array=True)
        rows = self._schema.read(columns_of(X), type(self).__name__)
        return {"rows": rows, "schema": self._schema.text()}

    def _check_infinite(self, X):
        # A sum is infinite or NaN if a cell is, or if there are holes; only then is there something to look for.
        if np.isfinite(X.sum()):
            return
        infinite = np.isinf(X)
        if infinite.any():
            row, column = np.argwhere(infinite)[0]
            raise ValueError(
                f"Input X contains infinity: row {row}, column {self._column(column)} is {X[row, column]}; "
                "mark the cell as missing (NaN) or correct it"
            )

    def _column(self, j):
        names = self._names()
        return repr(names[j]) if names else f"{j}"

    def _names(self):
        """Names of the columns that the model sees."""
        if self._schema is not None:
            return self._schema.reader.number_names()
        names = getattr(self, "feature_names_in_", None)
        return [] if names is None else [str(name) for name in names]

    def _take(self, fit):
        super()._take(fit)
        names = fit.column_names()
        if hasattr(self, "n_features_in_"):
            return
        if self._schema is not None:
            names = [column["name"] for column in self._schema.columns if column["role"] in ("feature", "ignored")]
        self.n_features_in_ = len(names)
        # Columns without names are called x0, x1, ... in files.
        if names != [f"x{j}" for j in range(len(names))]:
            self.feature_names_in_ = np.array(names, dtype=object)

    def save(self, path):
        """Writes the fit to a file that `load` and the Rust crate read, with a checksum; a file that is there is replaced when the new one is whole.

        What columns are that are no numbers is written beside it, `path` + ".toml".
        """
        super().save(path)
        write_beside(path, None if self._schema is None else self._schema.text())

    @classmethod
    def load(cls, path, schema=None):
        """A fitted estimator from a file that `save`, or the Rust crate, has written.

        Parameters
        ----------
        path : file of the fit
        schema : file that says what the columns of frames are, as `npb export MODEL --part schema` writes it; None for `path` + ".toml", if there is one

        The file holds the fit, not the parameters of the estimator: they have their defaults. Class names come back as texts, or as integers if all are.
        """
        self = cls()
        text = read_beside(path) if schema is None else Path(schema).read_text("utf-8")
        fit = cls._loaded(path)
        if text is not None:
            self._schema = Schema.of_text(text)
            if self._schema.reader.number_names() != fit.column_names():
                raise ValueError(f"schema: becomes the columns {self._schema.reader.number_names()}, the fit has {fit.column_names()}")
        self._take(fit)
        return self


def _with_names(X, may_count):
    """A frame whose names are texts, or none where they only count the columns."""
    names = list(X.columns)
    if package(X) != "pandas" or all(isinstance(name, str) for name in names):
        check_names(names)
        return X
    whole = all(isinstance(name, numbers.Integral) for name in names)
    if may_count and whole and sorted(names) == list(range(len(names))):
        if names != sorted(names):
            raise ValueError(f"columns are numbered from 0, and stand in the order {names}: put them in order, X[sorted(X.columns)]")
        return X
    named = X.copy(deep=False)
    named.columns = [str(name) for name in names]
    check_names(named.columns)
    return named


def _names_rows(X):
    """Whether a column only names the rows, by its name."""
    if not len(X.columns) or not len(X):
        return False

    def found(part):
        return [names_rows for _, _, names_rows in _native.Reader.guess([column.native for column in columns_of(part)])[1]]

    return found(X[list(X.columns[:1])])[0] or any(found(X.head(5))[1:])


def count(name, value, least=1, most=100_000):
    """A whole number in a range, or ValueError."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral) or not least <= value <= most:
        raise ValueError(f"{name}={value!r}: must be a whole number from {least} to {most}")
    return int(value)


def texts_of(values):
    """Labels or names as texts, None where they are missing; None for none."""
    if values is None:
        return None
    values, known = labelled(values)
    return [str(value) if there else None for value, there in zip(values, known, strict=True)]


def check_level(level):
    """Raises ValueError for what is no probability of an interval."""
    if isinstance(level, (bool, np.bool_)) or not isinstance(level, numbers.Real) or not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r}: must be between 0 and 1")


def check_list(name, value, what):
    """Raises ValueError for what is no list of such things."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ValueError(f"{name}={value!r}: must be a list of {what}")


def _first_strange(X):
    """An error that names the first cell of an array that is neither a number nor a text, or None."""
    is_table = isinstance(X, (list, tuple, np.ndarray)) and np.ndim(X) == 2
    for row, cells in enumerate(np.asarray(X, dtype=object)) if is_table else ():
        for column, value in enumerate(cells):
            if not isinstance(value, (str, numbers.Real)):
                return TypeError(f"row {row}, column {column}: float() argument must be a string or a real number, not {type(value).__name__!r}")
    return None


def first_text(X):
    """An error that names the first cell of an array that is a text and no number, or None."""
    for name, column in enumerate(np.asarray(X, dtype=object).T) if np.ndim(X) == 2 else ():
        for row, value in enumerate(column):
            if isinstance(value, str) and not _is_number(value):
                return no_number(row, name, value)
    return None


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(X):
    """Objects with None or pd.NA as floats with NaN, masked cells as NaN, frames whose columns are of other types as arrays; everything else as it is."""
    X = unmasked(frame(X))
    if hasattr(X, "columns"):
        return X if is_plain(X) else numbers_of(X)
    if package(X) in ("pandas", "polars"):
        return numbers_of(X.to_frame())[:, 0]
    if isinstance(X, (list, tuple)):
        # None in lists of numbers.
        array = np.asarray(X, dtype=object) if _has_none(X) else None
    elif isinstance(X, np.ndarray) and X.dtype == object:
        array = X
    else:
        return X
    if array is None or array.ndim != 2:
        return X
    return _object_numbers(array)


def _has_none(rows):
    return any(cell is None for row in rows if isinstance(row, (list, tuple)) for cell in row)


def _object_numbers(array):
    missing = np.frompyfunc(is_missing, 1, 1)(array).astype(bool)
    if not missing.any():
        return array
    array = array.copy()
    array[missing] = np.nan
    return array
