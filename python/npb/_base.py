"""What all estimators share: settings, seeds, threads, progress, files."""

import numbers
import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

# scikit-learn's names of settings, and where they stand in configurations of the Rust crates.
_SKLEARN_NAMES = {"max_iter": "max_iterations", "tol": "tolerance"}
# Parameters that say how a fit is run, not what is fitted.
_RUNNING = ("random_state", "n_jobs", "progress", "checkpoint", "checkpoint_every")

RUNNING_DOC = """
    random_state : int, RandomState or None, default=0
        Seed of all random numbers: an int is the `seed` of the Rust configuration, and gives the same bits there. None draws one from NumPy's.
    n_jobs : int or None, default=None
        Threads; None (or -1) for one on each core. Results do not depend on it.
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
    if isinstance(value, dict):
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

    `_native` is the class of the fit; `_inside` are the parts of its configuration in which settings stand that are not at the top.
    """

    _native = None
    _inside = ()

    @classmethod
    def default_config(cls):
        """The configuration of the Rust crate with its defaults, as a dict: what parameters that are None stand for."""
        return cls._native.defaults()

    def _place(self, name, config):
        """Where a parameter stands in the configuration: a tuple of keys."""
        name = _SKLEARN_NAMES.get(name, name)
        for part in ((), *self._inside):
            found = config
            for key in part:
                found = found.get(key, {})
            if name in found:
                return (*part, name)
        return (name,)

    def _settings(self, leave_out=(), config=None):
        """The configuration: defaults, and on top of them the settings that were given."""
        config = self.default_config() if config is None else config
        for name, value in self.get_params(deep=False).items():
            if value is not None and name not in _RUNNING and name not in leave_out:
                place = self._place(name, config)
                if isinstance(_at(config, place), bool) and not isinstance(value, (bool, np.bool_)):
                    raise ValueError(f"{name}={value!r}: must be True or False")
                _put(config, place, plain(value))
        _put(config, self._place("seed", config), self._seed())
        return config

    def _seed(self):
        state = self.random_state
        if isinstance(state, numbers.Integral):
            if not 0 <= state < 2**63:
                raise ValueError(f"random_state={state}: must be between 0 and 2^63")
            return int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _fit_native(self, *arguments, settings=None):
        """Fits on a thread of its own, with a progress bar if asked."""
        # A fit that does not end leaves nothing to ask: what is known of the data is of this fit already, not of the one before.
        self.__dict__.pop("_fit", None)
        listen, close = _listener(self.progress)
        how = {
            "threads": threads(self.n_jobs),
            "progress": listen,
            "checkpoint": self.checkpoint,
            "every": float(self.checkpoint_every),
        }
        try:
            fit = self._native.fit(*arguments, self._settings() if settings is None else settings, how)
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
        self._take(cls._native.load(path))
        return self

    def _take(self, fit):
        """Sets what is known of a fit."""
        self._fit = fit

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_fit")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


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


def _put(config, place, value):
    for key in place[:-1]:
        config = config.setdefault(key, {})
    below = config.get(place[-1])
    # Part of a group of settings: the others stay. Two dicts of one key each are two choices of one setting.
    if isinstance(below, dict) and isinstance(value, dict) and not (len(below) == len(value) == 1 and below.keys() != value.keys()):
        value = {**below, **value}
    config[place[-1]] = value


class TableBase(Base):
    """An estimator of a 2-D table of numbers with holes."""

    def _table(self, X, reset=False, **options):
        """The table as C-contiguous float64: the caller's own memory if it is that already.

        Missing: NaN, None, pd.NA. Infinite values are errors that name row and column.
        """
        if reset:
            self.__dict__.pop("_fit", None)
        else:
            check_is_fitted(self)
        X = _numbers(X)
        _check_columns(X)
        try:
            table = validate_data(self, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False, **options)
        except ValueError as error:
            raise first_text(X) or error from None
        self._check_infinite(table)
        return table

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
        names = getattr(self, "feature_names_in_", None)
        return f"{j}" if names is None else f"{names[j]!r}"

    def _names(self):
        names = getattr(self, "feature_names_in_", None)
        return [] if names is None else [str(name) for name in names]

    def _take(self, fit):
        super()._take(fit)
        names = fit.column_names()
        if not hasattr(self, "n_features_in_"):
            self.n_features_in_ = len(names)
            # Columns without names are called x0, x1, ... in files.
            if names != [f"x{j}" for j in range(len(names))]:
                self.feature_names_in_ = np.array(names, dtype=object)


def frame(X):
    """A table of Arrow (of pyarrow, any stream of record batches) as a frame of pandas or polars; everything else as it is."""
    if _package(X) in ("pandas", "polars") or not hasattr(X, "__arrow_c_stream__"):
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


def unmasked(X):
    """A masked array with NaN for what is masked; everything else as it is."""
    return X.astype(float).filled(np.nan) if np.ma.isMaskedArray(X) else X


def _package(X):
    return type(X).__module__.partition(".")[0]


def _at(config, place):
    for key in place:
        config = config.get(key) if isinstance(config, dict) else None
    return config


def check_names(names):
    """Raises ValueError for a column name that occurs twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the column name {name!r} occurs twice")
        seen.add(name)


def _check_columns(X):
    """Names once, and no dates, which NumPy would take for numbers, and what is missing of them for one of these."""
    if hasattr(X, "columns"):
        check_names(X.columns)
        for name in X.columns:
            if _of_dates(X[name].dtype):
                raise ValueError(f"column {name!r} holds dates: make numbers of them, such as days since the first, or use MixedTableModel, which knows dates")
    elif _of_dates(getattr(X, "dtype", None)):
        raise ValueError("X holds dates: make numbers of them, such as days since the first, or use MixedTableModel, which knows dates")


def _of_dates(dtype):
    return getattr(dtype, "kind", "") in ("M", "m") or getattr(dtype, "is_temporal", lambda: False)()


def count(name, value, least=1, most=100_000):
    """A whole number in a range, or ValueError."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral) or not least <= value <= most:
        raise ValueError(f"{name}={value!r}: must be a whole number from {least} to {most}")
    return int(value)


def first_text(X):
    """An error that names the first cell that is a text and no number, or None."""
    if hasattr(X, "columns"):
        columns = [(str(name), X[name]) for name in X.columns]
    else:
        columns = list(enumerate(np.asarray(X, dtype=object).T)) if np.ndim(X) == 2 else []
    for name, column in columns:
        for row, value in enumerate(column):
            if isinstance(value, str) and not _is_number(value):
                return ValueError(
                    f"row {row}, column {name!r}: could not convert string to float: {value!r}; encode categories as numbers "
                    "(scikit-learn's OneHotEncoder, OrdinalEncoder), or use MixedTableModel, which knows categories"
                )
    return None


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(X):
    """Objects with None or pd.NA as floats with NaN, masked cells as NaN, tables of Arrow as frames; everything else as it is."""
    X = unmasked(frame(X))
    if _package(X) == "pandas" and getattr(X, "ndim", 0) == 2:
        return X.where(X.notna(), np.nan) if (X.dtypes == object).any() else X
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


def is_missing(value):
    """None, NaN, NaT or pd.NA: all that is not equal to itself, or not known to be."""
    if value is None:
        return True
    same = value == value
    return not same if isinstance(same, (bool, np.bool_)) else True


def _object_numbers(array):
    missing = np.frompyfunc(is_missing, 1, 1)(array).astype(bool)
    if not missing.any():
        return array
    array = array.copy()
    array[missing] = np.nan
    return array
