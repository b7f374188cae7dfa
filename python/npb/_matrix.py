"""Matrices most of whose entries are missing (crate npb-bsvd), recommenders (npb-hbrec)."""

import numbers
import warnings

import numpy as np
from scipy import sparse
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_is_fitted

from npb import _native
from npb._base import Base, _numbers, check_level, check_list, count, differ, first_text, with_running_doc
from npb._classes import named
from npb._frames import check_names, frame, is_missing, package
from npb._posterior import Sampled
from npb._schema import of_beside, to_beside, write_beside
from npb._shares import by_backend


# Beyond this squares of squares overflow.
_TOO_LARGE = 1e75


class Side:
    """The rows, or the columns, of a matrix: known by their names where X has names, else by their numbers from 0."""

    def __init__(self, what, names=None):
        self.what = what
        self.names = None if names is None else list(names)
        self._place = {} if names is None else {str(name): k for k, name in enumerate(names)} | {name: k for k, name in enumerate(names)}
        if names is not None and len(set(map(str, names))) < len(self.names):
            raise ValueError(f"{what}: a name occurs twice")

    def texts(self):
        return [] if self.names is None else [str(name) for name in self.names]

    def places(self, keys):
        """Numbers of these rows or columns."""
        if self.names is None:
            return _indices(self.what, keys)
        return np.array([self.place(key) for key in keys], dtype=np.uint32)

    def known(self, keys, size):
        """Numbers of these rows or columns, 0 for those that there are not, and which there are."""
        if self.names is None:
            places = _indices(self.what, keys)
            known = places < size
        else:
            found = [self._place.get(key, self._place.get(str(key))) for key in keys]
            known = np.array([place is not None for place in found], dtype=bool)
            places = np.array([place or 0 for place in found], dtype=np.uint32)
        return np.where(known, places, 0).astype(np.uint32), known

    def place(self, key):
        if self.names is None:
            return int(_indices(self.what, [key])[0])
        for name in (key, str(key)):
            if name in self._place:
                return self._place[name]
        raise ValueError(f"{self.what}: there is no {key!r}")

    def name(self, place):
        return place if self.names is None else self.names[place]

    def and_more(self, new, places):
        """This side and what another has beyond it, and places of the other there."""
        if (self.names is None) != (new.names is None):
            raise ValueError(f"{self.what}: the fit has {'no names' if self.names is None else 'names'} of them, X has {'none' if new.names is None else 'names'}")
        if self.names is None:
            return self, places
        names = list(self.names)
        at = np.empty(len(new.names), dtype=np.uint32)
        for k, name in enumerate(new.names):
            place = self._place.get(name, self._place.get(str(name)))
            at[k] = len(names) if place is None else place
            if place is None:
                names.append(name)
        return Side(self.what, names), at[places]


def entries(X):
    """Shape, rows, columns and values of the observed entries.

    X: an array or frame with NaN where nothing is known, a SciPy sparse matrix whose stored entries (zeros too) are the observed ones, or a tuple
    (rows, columns, values), whose rows and columns are names, texts or whole numbers, or (rows, columns, values, shape), whose whole numbers are places from 0.
    """
    return named_entries(X)[0]


def named_entries(X, sides=("rows", "columns"), duplicates="error"):
    """The entries, and the sides of the matrix, which errors call so; `duplicates` says what becomes of a cell that is given twice."""
    if duplicates not in ("error", "last", "mean"):
        raise ValueError(f'duplicates={duplicates!r}: must be "error", "last" or "mean"')
    names = (None, None)
    of_frame, X = X, sparse_frame(X)
    if isinstance(X, tuple) and len(X) in (3, 4):
        (rows, of_rows), (columns, of_columns) = (_keys(side, keys, len(X) == 4) for side, keys in zip(sides, X[:2], strict=True))
        names = (of_rows, of_columns)
        values = _values(X[2])
        if not len(rows) == len(columns) == len(values):
            raise ValueError(f"{len(rows)} rows, {len(columns)} columns, {len(values)} values: there must be one of each for every entry")
        shape = _shape(X[3]) if len(X) == 4 else tuple(int(index.max()) + 1 if len(index) else 0 for index in (rows, columns))
    elif sparse.issparse(X):
        coo = X.tocoo()
        if X.ndim != 2 or X.dtype.kind == "c":
            raise ValueError(f"a sparse matrix of real numbers has two dimensions, found {X.ndim} of {X.dtype}")
        rows, columns = coo.row.astype(np.uint32), coo.col.astype(np.uint32)
        values, shape = np.ascontiguousarray(coo.data, dtype=np.float64), coo.shape
        if of_frame is not X:
            names = _names_of(of_frame)
    else:
        X = frame(X)
        if hasattr(X, "columns"):
            check_names(X.columns)
            names = _names_of(X)
        X = _numbers(X)
        try:
            X = check_array(X, dtype=np.float64, ensure_all_finite=False)
        except ValueError as error:
            raise first_text(X) or error from None
        rows, columns = np.nonzero(~np.isnan(X))
        values, shape = X[rows, columns], X.shape
        rows, columns = rows.astype(np.uint32), columns.astype(np.uint32)
    found = tuple(map(Side, sides, names))
    for k in np.flatnonzero(~(np.abs(values) < _TOO_LARGE))[:1]:
        what = "contains infinity or NaN" if not np.isfinite(values[k]) else "has a value that is too large"
        row, column = (side.name(int(place)) for side, place in zip(found, (rows[k], columns[k]), strict=True))
        raise ValueError(f"Input X {what}: row {row!r}, column {column!r} is {values[k]}; leave the entry out or correct it")
    if duplicates == "error":
        if isinstance(X, tuple) or sparse.issparse(X):
            _check_once(rows, columns, found)
        return (shape, rows, columns, values), found
    return (shape, *_once(rows, columns, values, duplicates)), found


def _values(values):
    """Values of entries, or ValueError that names the first that is no number."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        for k, value in enumerate(values if np.ndim(values) == 1 else ()):
            try:
                float(value)
            except (TypeError, ValueError):
                raise ValueError(f"values: entry {k} is {value!r}, which is no number") from None
        raise ValueError(f"values: must be a list of numbers: {error}") from None
    if array.ndim != 1:
        raise ValueError(f"values: must be a list of numbers, found an array of shape {array.shape}")
    return array


def _shape(shape):
    sizes = list(shape) if isinstance(shape, (tuple, list, np.ndarray)) else []
    if len(sizes) != 2 or any(isinstance(size, bool) or not isinstance(size, numbers.Integral) or size < 0 for size in sizes):
        raise ValueError(f"shape={shape!r}: must be two whole numbers, of rows and of columns")
    return int(sizes[0]), int(sizes[1])


def _check_once(rows, columns, sides):
    """Raises ValueError for the first cell that is given twice."""
    keys = rows.astype(np.uint64) << np.uint64(32) | columns
    order = np.argsort(keys, kind="stable")
    again = order[1:][keys[order[1:]] == keys[order[:-1]]]
    if len(again):
        k = again.min()
        cell = ", ".join(f"{side.what.removesuffix('s')} {side.name(place)!r}" for side, place in zip(sides, (int(rows[k]), int(columns[k])), strict=True))
        first = np.flatnonzero(keys == keys[k])[0]
        raise ValueError(f'{cell} is given twice (entries {first} and {k}); keep one, or say duplicates="last" or "mean"')


def _once(rows, columns, values, duplicates):
    """Every cell once, with the last or the mean of its values; cells in the order in which they come first."""
    keys = rows.astype(np.uint64) << np.uint64(32) | columns
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if duplicates == "mean":
        found = np.bincount(group, values) / np.bincount(group)
    else:
        found = np.empty(len(first))
        found[group] = values
    order = np.argsort(first)
    return rows[first[order]], columns[first[order]], found[order]


def _names_of(X):
    """Names of rows and columns of a frame; an index of pandas that only counts the rows is no name."""
    index = getattr(X, "index", None)
    only_counts = index is None or list(index) == list(range(len(X)))
    return None if only_counts else index, X.columns


def sparse_frame(X):
    """A frame of pandas whose columns are all sparse as a sparse matrix of what they store; everything else as it is."""
    if package(X) != "pandas" or getattr(X, "ndim", 0) != 2 or not all(hasattr(dtype, "fill_value") for dtype in X.dtypes):
        return X
    places = [(column.array.sp_index.to_int_index().indices, j, column.array.sp_values) for j, (_, column) in enumerate(X.items())]
    rows = np.concatenate([rows for rows, _, _ in places])
    columns = np.concatenate([np.full(len(rows), j) for rows, j, _ in places])
    values = np.concatenate([values for _, _, values in places]).astype(np.float64)
    known = ~np.isnan(values)
    return sparse.coo_array((values[known], (rows[known], columns[known])), shape=X.shape)


def _keys(what, keys, places):
    """Places, which whole numbers may be, or places of names, which are then sorted: as numbers, if they are."""
    array = np.asarray(keys)
    if array.ndim != 1 or array.dtype.kind not in "OUST":
        if places or array.ndim != 1 or array.dtype.kind not in "iu":
            return _indices(what, array), None
        names, found = np.unique(array, return_inverse=True)
        return found.astype(np.uint32), names.tolist()
    if array.dtype == object and np.frompyfunc(is_missing, 1, 1)(array).any():
        raise ValueError(f"{what}: entry {[is_missing(key) for key in array].index(True)} has no name")
    names, places = np.unique(array.astype(str), return_inverse=True)
    return places.astype(np.uint32), names.tolist()


def _indices(what, index):
    index = np.asarray(index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise ValueError(f"{what}: must be a list of whole numbers from 0")
    if index.size and not 0 <= index.min() <= index.max() < 2**32:
        raise ValueError(f"{what}: must be between 0 and 2^32, found {index.min()} and {index.max()}")
    return np.ascontiguousarray(index, dtype=np.uint32)


def _features(features, n, what):
    """Complete features of n rows or items, or None."""
    if features is None:
        return None
    features = check_array(features, dtype=np.float64, order="C", input_name=what)
    for row, column in np.argwhere(np.abs(features) > np.finfo(np.float32).max)[:1]:
        raise ValueError(f"{what}: row {row}, column {column} is {features[row, column]}: too large for single precision; rescale the column")
    if len(features) != n:
        raise ValueError(f"{what} has {len(features)} rows, there are {n}; where some have no entry, give (rows, columns, values, shape) with places from 0")
    return features


class _Entries(Base):
    """An estimator of observed entries, which may be sparse."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _name_features(self, side):
        """Names of columns, as scikit-learn has them: where all are texts."""
        self.__dict__.pop("feature_names_in_", None)
        if side.names is not None and all(isinstance(name, str) for name in side.names):
            self.feature_names_in_ = np.array(side.names, dtype=object)


@with_running_doc
class BayesianMatrixCompletion(Sampled, _Entries):
    """Predicts the missing entries of a matrix by a Bayesian singular value decomposition whose rank is inferred.

    `fit` takes no `sample_weight`: what makes entries of a row or column less sure than others is learned (`row_noise`, `column_noise`).

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    likelihood : str or dict, optional
        "gaussian", "binary" (entries 0 and 1), "ordinal" (entries 1, ..., L, where L is the largest) or {"ordinal": {"levels": L}}.
    candidates, max_candidates : int, optional
        Components at the start and at most. Those at the start are found from the entries, whatever is said here, unless both numbers are the same.
    rank_a, rank_b : float, optional
        Prior of the rank: about Poisson(rank_a / rank_b).
    noise : dict, optional
        Gamma prior of the noise precision, {"shape": s, "rate": r}.
    row_noise, column_noise : bool, optional
        Whether each row (column) has noise of its own.
    row_intercepts, column_intercepts : bool, optional
    sweeps : dict, optional
        {"burn_in": b, "keep": k, "thin": t}.
    stored_draws : int, optional
        Draws that stay in the fit, for predictions.
    chains : int, optional
    chain : int, optional
        Number of the first chain: chains of one seed that differ in it can be run apart, on several machines, and pooled by `pooled`.
    {running}

    Attributes
    ----------
    shape_ : (int, int)
    n_features_in_ : int
        Columns.
    feature_names_in_ : array of str
        Their names, where these are texts.
    diagnostics_ : dict
        R-hat and effective sample sizes of the monitored scalars.
    rank_distribution_ : array
        Posterior probabilities of ranks 0, 1, ...
    """

    _native = _native.Bsvd
    _kind = "ratings"

    def __init__(
        self,
        *,
        likelihood=None,
        candidates=None,
        max_candidates=None,
        rank_a=None,
        rank_b=None,
        noise=None,
        row_noise=None,
        column_noise=None,
        row_intercepts=None,
        column_intercepts=None,
        sweeps=None,
        stored_draws=None,
        chains=None,
        chain=None,
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.likelihood = likelihood
        self.candidates = candidates
        self.max_candidates = max_candidates
        self.rank_a = rank_a
        self.rank_b = rank_b
        self.noise = noise
        self.row_noise = row_noise
        self.column_noise = column_noise
        self.row_intercepts = row_intercepts
        self.column_intercepts = column_intercepts
        self.sweeps = sweeps
        self.stored_draws = stored_draws
        self.chains = chains
        self.chain = chain
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y=None, *, row_features=None, column_features=None, duplicates="error"):
        """Fits the observed entries.

        Parameters
        ----------
        X : array or frame of shape (n, p) with NaN where nothing is known; or a sparse matrix whose stored entries are the observed ones; or a tuple
            (rows, columns, values), where rows and columns are names, texts or whole numbers; or (rows, columns, values, shape), where whole numbers are places from 0
        row_features, column_features : arrays of shapes (n, q) and (p, r), complete, of like scales
        duplicates : {"error", "last", "mean"}
            What becomes of a cell that is given more than once.
        """
        (shape, *cells), sides = named_entries(X, duplicates=duplicates)
        rows = _features(row_features, shape[0], "row_features")
        columns = _features(column_features, shape[1], "column_features")
        settings = self._settings()
        if settings["likelihood"] == "ordinal":
            settings["likelihood"] = {"ordinal": {"levels": int(cells[2].max(initial=0))}}
        names = tuple(side.texts() for side in sides)
        self._take(self._fit_native(shape, *cells, rows, columns, names, settings=settings))
        self._name(*sides)
        return self

    def update(self, X, *, row_features=None, column_features=None, duplicates="error"):
        """Goes on with the chains of the fit, with its entries and further ones: arguments as of :meth:`fit`.

        X has all entries: those of the fit (values may have changed) and new ones, of its rows and columns or of others, which are known by their names, or have
        places after those of the fit. Units stay; `sweeps` are made anew, burn-in included (a short one serves), and `sweeps`, `stored_draws` and `random_state` may be
        set before, other settings may not.
        """
        check_is_fitted(self)
        (shape, rows, columns, values), found = named_entries(X, duplicates=duplicates)
        (all_rows, rows), (all_columns, columns) = (own.and_more(new, of) for own, new, of in ((self._rows, found[0], rows), (self._columns, found[1], columns)))
        shape = tuple(n if side.names is None else len(side.names) for n, side in zip(shape, (all_rows, all_columns), strict=True))
        of_rows, of_columns = _features(row_features, shape[0], "row_features"), _features(column_features, shape[1], "column_features")
        config = self._fit.config()
        settings = self._settings(config) | {key: config[key] for key in ("likelihood", "candidates")}
        names = (all_rows.texts(), all_columns.texts())
        self._take(self._fit_native(shape, rows, columns, values, of_rows, of_columns, names, settings=settings, before=self._fit))
        self._name(all_rows, all_columns)
        return self

    @classmethod
    def pooled(cls, models):
        """One fitted model of several of the same data and settings that differ in `chain` alone, run apart: the bits of one fit of all their chains."""
        models = differ(models)
        pooled = cls(**models[0].get_params(deep=False))
        pooled._take(cls._native.pooled([model._fit for model in models]))
        pooled._name(models[0]._rows, models[0]._columns)
        return pooled

    def _take(self, fit):
        super()._take(fit)
        self.shape_ = fit.shape()
        self.n_features_in_ = self.shape_[1]
        self.diagnostics_ = fit.diagnostics()
        self.rank_distribution_ = fit.rank_distribution()
        self._name(*(Side(what, named(names).tolist() if names else None) for what, names in zip(("rows", "columns"), fit.names(), strict=True)))
        counts, columns = fit.observed()
        places = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._seen = sparse.csr_array((np.ones(len(columns), dtype=bool), columns.astype(np.int64), places), shape=self.shape_)

    def _name(self, rows, columns):
        self._rows, self._columns = rows, columns
        self._name_features(columns)

    def _found(self):
        rank = int(self.rank_distribution_.argmax())
        likely = f"rank {rank} most probable ({self.rank_distribution_[rank]:.2f})"
        return [f"{self.shape_[0]} x {self.shape_[1]} matrix, {self._seen.nnz} entries", likely, *super()._found()]

    def _asked(self, X):
        """Entries that a question is about; a matrix without names has all columns of the fit."""
        check_is_fitted(self)
        found, sides = named_entries(X)
        if sides[1].names is None and not isinstance(X, tuple) and found[0][1] != self.n_features_in_:
            raise ValueError(f"X has {found[0][1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input")
        return found, sides

    def score(self, X, y=None):
        """R^2 of the posterior means at the entries of X, which is given as in :meth:`fit`: of held-out entries, not of those of the fit.

        Entries of rows and columns that were not in training are left out, with a warning.
        """
        (_, rows, columns, values), (of_rows, of_columns) = self._asked(X)
        found = self._cells([of_rows.name(i) for i in rows.tolist()], [of_columns.name(j) for j in columns.tolist()])[:, 0]
        known = ~np.isnan(found)
        if not known.any():
            raise ValueError("no entry of X is of a row and a column of the fit")
        return float(r2_score(values[known], found[known]))

    def _cells(self, rows, columns, level=0.9):
        check_is_fitted(self)
        n, p = self.shape_
        for name, keys in (("rows", rows), ("columns", columns)):
            check_list(name, keys, f"{name}, one for every cell")
        rows, columns = list(rows), list(columns)
        if len(rows) != len(columns):
            raise ValueError(f"{len(rows)} rows, {len(columns)} columns: there must be one of each for every cell")
        (i, known_rows), (j, known_columns) = self._rows.known(rows, n), self._columns.known(columns, p)
        known = known_rows & known_columns
        if not known.all():
            k = np.flatnonzero(~known)[0]
            what = f"rows: there is no {rows[k]!r}" if not known_rows[k] else f"columns: there is no {columns[k]!r}"
            warnings.warn(f"{what}; {(~known).sum()} of {len(known)} cells are of rows or columns that were not in training: NaN", UserWarning, stacklevel=3)
        found = np.full((len(known), 7), np.nan)
        if known.any():
            found[known] = self._fit.predict(i[known], j[known], level, self._threads())
        return found

    def predict(self, rows, columns, return_sd=False):
        """Posterior means of the cells at `rows` and `columns` (lists of equal lengths: numbers from 0, or names if X had them), and the standard deviations
        of new entries there if asked. NaN, with a warning, for rows and columns that were not in training: `fold_in` answers for a new row.
        """
        found = self._cells(rows, columns)
        return (found[:, 0], found[:, 4]) if return_sd else found[:, 0]

    def predict_interval(self, rows, columns, level=0.9):
        """Central intervals that hold `level` of new entries at these cells: lower and upper ends, arrays of shape (n_cells,)."""
        check_level(level)
        found = self._cells(rows, columns, level)
        return found[:, 5], found[:, 6]

    def complete(self):
        """Posterior means of all cells: array of shape (n, p)."""
        check_is_fitted(self)
        rows, columns = np.indices(self.shape_, dtype=np.uint32).reshape(2, -1)
        return self._fit.predict(rows, columns, 0.9, self._threads())[:, 0].reshape(self.shape_)

    def draws(self, rows, columns):
        """Noise-free values of cells in every stored draw: array of shape (n_draws, n_cells), single precision."""
        check_is_fitted(self)
        return self._fit.draws(self._rows.places(rows), self._columns.places(columns), self._threads())

    def recommend(self, row, n=10, exclude=None, by="choice", like_from=None):
        """A list of n columns for a row.

        Parameters
        ----------
        exclude : columns to leave out; None for those observed in the row
        by : "choice", for lists of everything open: by the chance that the row comes to have an entry in a column, learned from who has entries where,
            times the probability that it is a like; or "mean", the largest posterior means, which may be of columns that few have entries in
        like_from : entries of this or more are likes, with "choice"; None for the mean entry

        Returns
        -------
        list of dict with `column`, `mean`, `sd` (of the mean); by choice `exposure` and `liked`, the two chances; by mean `in_top`, the probability of
        being among the n best
        """
        check_is_fitted(self)
        row, n = self._rows.place(row), count("n", n)
        if by not in ("choice", "mean"):
            raise ValueError(f'by={by!r}: must be "choice" or "mean"')
        if row >= self.shape_[0]:
            raise ValueError(f"rows: there is no {row}, there are {self.shape_[0]}")
        left_out = self._seen.indices[slice(*self._seen.indptr[row : row + 2])] if exclude is None else self._columns.places(exclude)
        left_out = left_out.tolist()
        if by == "choice":
            names = ("column", "exposure", "liked", "mean", "sd")
            found = self._fit.recommend(row, n, None if like_from is None else float(like_from), left_out, self._threads())
        elif like_from is not None:
            raise ValueError('like_from: goes with by="choice"')
        else:
            names = ("column", "mean", "sd", "in_top")
            found = self._fit.top(row, n, left_out, self._threads())
        return [dict(zip(names, (self._columns.name(j), *rest), strict=True)) for j, *rest in found]

    def next_cells(self, n=10, rows=None, columns=None, how="uncorrelated"):
        """The cells whose values would teach most, in order: active learning.

        Parameters
        ----------
        rows, columns : the candidates, lists of equal lengths; None for cells that were not observed, 5,000 of them at random if there are more
        how : "uncorrelated", one after the other as if those before were known, or "largest_sd"

        Returns
        -------
        list of dict with `row`, `column`, `sd` of the noise-free value, and `remaining_sd` if those before were known
        """
        check_is_fitted(self)
        if (rows is None) != (columns is None):
            raise ValueError("rows and columns of the candidates: give both or neither")
        if rows is not None:
            rows, columns = self._rows.places(rows), self._columns.places(columns)
        else:
            rows, columns = self._unobserved(5_000)
        found = self._fit.next_cells(rows, columns, count("n", n), how, self._threads())
        return [{"row": self._rows.name(i), "column": self._columns.name(j), "sd": sd, "remaining_sd": rest} for i, j, sd, rest in found]

    def _unobserved(self, most):
        """Cells without an entry; so many at random if there are more."""
        n, p = self.shape_
        rng = np.random.default_rng(self._seed())
        cells = np.arange(n * p) if n * p < 20_000_000 else np.unique(rng.integers(n * p, size=4 * most))
        rows, columns = cells // p, cells % p
        coo = self._seen.tocoo()
        open_ = ~np.isin(cells, coo.row.astype(np.int64) * p + coo.col)
        rows, columns = rows[open_], columns[open_]
        if len(rows) > most:
            chosen = np.sort(rng.choice(len(rows), most, replace=False))
            rows, columns = rows[chosen], columns[chosen]
        return rows.astype(np.uint32), columns.astype(np.uint32)

    def fold_in(self, columns, values, features=(), level=0.9):
        """What is believed of a new row, by its entries at `columns`, without a new fit.

        Returns
        -------
        mean, lower, upper : arrays of shape (p,); the intervals are of new entries
        """
        check_is_fitted(self)
        check_level(level)
        check_list("columns", columns, "columns, one for every value")
        check_list("values", values, "numbers, one for every column")
        columns, values = list(columns), _values(list(values))
        if len(columns) != len(values):
            raise ValueError(f"{len(columns)} columns, {len(values)} values: there must be one of each for every entry")
        for k in np.flatnonzero(~(np.abs(values) < _TOO_LARGE))[:1]:
            raise ValueError(f"values: column {columns[k]!r} is {values[k]}; leave the entry out or correct it")
        pairs = [(self._columns.place(j), float(v)) for j, v in zip(columns, values, strict=True)]
        found = self._fit.fold_in(pairs, [float(x) for x in features], level, self._threads())
        return found[:, 0], found[:, 5], found[:, 6]

    def fold_in_rows(self, X, row_features=None, level=0.9):
        """What is believed of many new rows, by their entries, without a new fit.

        Parameters
        ----------
        X : entries as in :meth:`fit`, whose columns are columns of the fit (of a matrix without names: all of them, in their order)
        row_features : array of shape (n_new, q), where the fit has features of rows

        Returns
        -------
        rows : names or numbers of the new rows
        mean, lower, upper : arrays of shape (n_new, p); the intervals are of new entries
        """
        ((n, _), rows, columns, values), (new, given) = self._asked(X)
        features = _features(row_features, n, "row_features")
        names = np.array([given.name(j) for j in range(int(columns.max()) + 1 if len(columns) else 0)], dtype=object)
        order = np.argsort(rows, kind="stable")
        own = np.split(order, np.searchsorted(rows[order], np.arange(1, n)))
        new_rows = [(names[columns[k]], values[k], () if features is None else features[i], level) for i, k in enumerate(own[:n])]
        ends = by_backend(lambda model, new_rows: [model.fold_in(*new_row) for new_row in new_rows], self, new_rows)
        return [new.name(i) for i in range(n)], *(np.array(one).reshape(n, self.shape_[1]) for one in zip(*ends, strict=True))


@with_running_doc
class HybridRecommender(_Entries):
    """Recommends items to users with few ratings, by other users and by the contents of items: nonparametric hierarchical Bayes.

    `fit` takes no `sample_weight`, and there is no `class_weight`: every rating is a like or none, and counts once.

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    like_from : float, optional
        Ratings of this or more are likes: 1 suits ratings of 0 and 1, 4 suits five stars.
    filter : str, optional
        "hybrid1" (other users and content), "hybrid2", "content_based" or "collaborative".
    base : str or dict, optional
        Base distribution: "standard", or {"learned": {...}}.
    identity : float, optional
        Share of the noise of a like that belongs to user and item for good.
    weights : dict, optional
        Weights of the users as atoms.
    most_ratings : int, optional
        Ratings of a user beyond this number are left out, chosen at random.
    {running}

    Attributes
    ----------
    shape_ : (int, int)
        Users and items.
    n_features_in_ : int
        Items.
    feature_names_in_ : array of str
        Their names, where these are texts.
    """

    _native = _native.Hbrec
    _kind = "groups"
    _inside = (("fit",),)

    def __init__(
        self,
        *,
        like_from=None,
        filter=None,
        base=None,
        identity=None,
        weights=None,
        most_ratings=None,
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.like_from = like_from
        self.filter = filter
        self.base = base
        self.identity = identity
        self.weights = weights
        self.most_ratings = most_ratings
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y=None, *, item_features=None, duplicates="error"):
        """Fits ratings.

        Parameters
        ----------
        X : ratings of users (rows) for items (columns), as in :meth:`BayesianMatrixCompletion.fit`
        item_features : array of shape (n_items, q), complete
        duplicates : {"error", "last", "mean"}
            What becomes of an item that a user has rated more than once.
        """
        (shape, *cells), sides = named_entries(X, ("users", "items"), duplicates)
        features = _features(item_features, shape[1], "item_features")
        self._take(self._fit_native(shape, *cells, features), sides)
        return self

    def save(self, path):
        """Writes the fit to a file that `load` and the Rust crate read; names of users and items beside it, `path` + ".toml"."""
        super().save(path)
        write_beside(path, to_beside(users=self._users.names, items=self._items.names))

    @classmethod
    def load(cls, path):
        """A fitted estimator from a file that `save`, or the Rust crate, has written; without the file of the names beside it users and items are numbers."""
        self = cls()
        fit = cls._loaded(path)
        n_users, n_items = fit.shape()
        found = of_beside(path, users=n_users, items=n_items)
        names = (named(found[key]).tolist() if key in found else None for key in ("users", "items"))
        self._take(fit, tuple(map(Side, ("users", "items"), names)))
        return self

    def _trouble(self, fit):
        """Not judged: the base distribution is learned by few iterations by design."""
        return None

    def _take(self, fit, sides):
        super()._take(fit)
        self._users, self._items = sides
        self._name_features(self._items)
        self.shape_ = fit.shape()
        self.n_features_in_ = self.shape_[1]

    def _found(self):
        return [f"{self.shape_[0]} users, {self.shape_[1]} items"]

    def _user(self, user, liked, disliked):
        check_is_fitted(self)
        if user is not None:
            if len(liked) or len(disliked):
                raise ValueError("user: its likes are those of the fit; for what it likes now ask as a new user, by liked and disliked alone")
            return self._users.place(user)
        check_list("liked", liked, "items")
        check_list("disliked", disliked, "items")
        return [(self._items.place(j), True) for j in liked] + [(self._items.place(j), False) for j in disliked]

    def predict_proba(self, user=None, *, liked=(), disliked=()):
        """Probabilities that a user likes the items: array of shape (n_items,).

        Parameters
        ----------
        user : a user of the fit (number from 0, or name if X had names); or None for a new one, by what it likes and does not like
        """
        user = self._user(user, liked, disliked)
        return self._fit.probabilities(user, self._threads())

    def recommend(self, user=None, n=10, *, liked=(), disliked=(), by="choice", explore=None):
        """The n best items that the user has not rated.

        Parameters
        ----------
        by : "choice", for lists of everything open: by the chance that the user comes to rate an item, learned from who rated what, times that of a like;
            or "like", by the chance of a like alone, which few ratings can make large
        explore : a seed; the list is then by one draw of the chances of a like (Thompson sampling)

        Returns
        -------
        list of dict with `item`, `probability` of a like, and its `sd`
        """
        user, n = self._user(user, liked, disliked), count("n", n)
        if by not in ("choice", "like"):
            raise ValueError(f'by={by!r}: must be "choice" or "like"')
        explore = None if explore is None else count("explore", explore, 0, 2**63 - 1)
        found = self._fit.top(user, n, by == "choice", explore, self._threads())
        return [{"item": self._items.name(j), "probability": p, "sd": sd} for j, p, sd in found]
