"""Questions to fitted estimators over parts: a `dask.dataframe`, or Parquet files, that no process need hold whole.

    from npb import IncompleteImputer, distributed

    mean, sd = distributed.impute(IncompleteImputer().fit(sample), dask.dataframe.read_parquet("rows/*.parquet"))
    mean.to_parquet("completed")

Answers are those of the estimator for the whole table, row by row, as Dask's collections with the index of what was asked: nothing is computed before they are. An
estimator is sent to each worker once; with `n_jobs=None` it uses one thread for each part there, as Dask works on several parts at once. Needs `npb[dask]`.
"""

import functools
import pickle
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted

from npb._native import VERSION

__all__ = ["fit", "impute", "predict", "predict_interval", "predict_proba", "recommend", "score_samples", "transform"]


def fit(model, X, y=None, *, columns=None, client=None):
    """Fits an :class:`~npb.IncompleteClassifier`, :class:`~npb.IncompleteMixture`, :class:`~npb.IncompleteImputer` or :class:`~npb.BayesianMatrixCompletion` to rows that stay on the
    workers of a cluster.

    Workers hold the rows in shards of 131,072, and answer each iteration with sums over their rows, which are added here in the order of the shards: the fit has the bits
    of `model.fit` of the whole table, whatever the parts and whoever computes them. A worker that dies is replaced. A table of no more rows than a shard is fitted by one worker.
    What passes through this process: sums, a sample of as many rows as a shard has, and for each label a number or more. Of a matrix workers hold the entries of some rows and of some
    columns, and factors pass through.

    Parameters
    ----------
    model : estimator; its settings say how, its `progress` and `checkpoint` are of this process
    X : `dask.dataframe`, or Parquet file or list of them; columns of numbers, NaN or null is missing; of a matrix an entry in each row
    y : name of the column of `X` that holds the labels, or a series with the parts of `X`; missing for rows without a label
    columns : of a matrix, names of the columns of users, items and values; by default these three
    client : `distributed.Client`; by default the one that is current

    Returns
    -------
    model, fitted
    """
    from npb import BayesianMatrixCompletion, IncompleteClassifier, IncompleteImputer, IncompleteMixture, _ratings_in_shards, _rows_in_shards

    is_matrix = isinstance(model, BayesianMatrixCompletion)
    if not isinstance(model, (BayesianMatrixCompletion, IncompleteClassifier, IncompleteImputer, IncompleteMixture)):
        raise TypeError(
            f"{type(model).__name__} has no fit over parts: IncompleteClassifier, IncompleteMixture, IncompleteImputer and BayesianMatrixCompletion have one"
        )
    if is_matrix and y is not None:
        raise ValueError("y: a matrix has no labels")
    if columns is not None and not is_matrix:
        raise ValueError("columns: they are those of a matrix; give X with the columns that are to be fitted")
    client = _client(client)
    if is_matrix:
        return _ratings_in_shards.fit(model, _Parts.of(X), client, columns)
    return _rows_in_shards.fit(model, _Parts.of(X), y, client)


def _client(client):
    import distributed

    try:
        client = distributed.get_client() if client is None else client
    except ValueError:
        raise ValueError("there is no Dask client: make one, distributed.Client(...), or give client=") from None
    if not isinstance(client, distributed.Client):
        raise TypeError(f"client is {type(client).__name__}: it must be a distributed.Client")
    if client.asynchronous:
        raise ValueError("client: a fit waits for its answers; give a client without asynchronous=True")
    if client.status != "running":
        raise RuntimeError(f"the Dask client is {client.status}: give one that is connected")
    return client


def predict(model, X, **by_row):
    """The most probable class (cluster) of each row: a series.

    `X` is a `dask.dataframe`, or a Parquet file or a list of them; `by_row` are series with the parts of `X`, such as `tasks` and `groups`.
    """
    return _series(model, X, "predict", by_row)


def score_samples(model, X):
    """Log density of the observed cells of each row: a series."""
    return _series(model, X, "score_samples", {})


def predict_proba(model, X, **by_row):
    """Probabilities of the classes (clusters), a column for each: a frame. `by_row` as in :func:`predict`."""
    return _frames(model, X, "predict_proba", _classes(model), by_row)


def predict_interval(model, X, level=0.9, **more):
    """Lower and upper ends of central intervals that hold `level`: two frames, of class probabilities for a classifier, of the cells of `X` for other models.

    `more`: settings of the method, and series by row as in :func:`predict`.
    """
    columns = _classes(model) if hasattr(model, "classes_") else _features(model)
    return _frames(model, X, "predict_interval", columns, {"level": level, **more}, 2)


def impute(model, X):
    """`X` with its missing cells filled in. Of a :class:`~npb.MixedTableModel` a frame like `X`; of models of numbers two frames, means and standard deviations."""
    if not hasattr(model, "predict_cells"):
        return _frames(model, X, "impute", _features(model), {}, 2)
    parts = _Parts.of(X)
    kinds = {name: "Float64" for name, dtype in parts.meta.dtypes.items() if dtype.kind in "iu" and hasattr(dtype, "na_value")}
    meta = parts.meta.astype(kinds)
    return parts.ask(model, lambda model, part: model.impute(part).astype(meta.dtypes), [meta])[0]


def transform(model, X):
    """What `transform` gives for each row, with the names of its columns: a frame."""
    check_is_fitted(model)
    return _frames(model, X, "transform", list(model.get_feature_names_out()), {})


def recommend(model, users, n=10, **settings):
    """The `n` best columns for each user: a frame with `user` and what `recommend` of the model says of each of its choices, the best first.

    `users` is a series of Dask's, names or numbers of rows of the fit; `settings` are those of the method.
    """
    check_is_fitted(model)
    import pandas

    def lists(model, users):
        found = [{"user": user, **choice} for user in users.tolist() for choice in model.recommend(user, n, **settings)]
        return pandas.DataFrame(found, columns=columns)

    one = model._rows.name(0) if hasattr(model, "_rows") else model._users.name(0)
    columns = ["user", *model.recommend(one, 1, **settings)[0]]
    meta = lists(model, pandas.Series([one])).iloc[:0]
    # A list has no row of the question's index.
    parts = _Parts.of(users)
    return _Parts(parts.names, parts.frames, parts.meta, (None,) * (len(parts.names) + 1)).ask(model, lists, [meta])[0]


def _classes(model):
    check_is_fitted(model)
    if hasattr(model, "classes_"):
        return list(model.classes_)
    unknown = np.full((1, len(model._fit.column_names())), np.nan)
    return list(range(model._fit.responsibilities(unknown, 1).shape[1]))


def _features(model):
    check_is_fitted(model)
    return model._names() or list(range(model.n_features_in_))


def _series(model, X, method, settings):
    import pandas

    check_is_fitted(model)
    dtype = model.classes_.dtype if method == "predict" and hasattr(model, "classes_") else np.int64 if method == "predict" else np.float64

    def ask(model, part, **by_row):
        return pandas.Series(getattr(model, method)(part, **by_row), index=part.index)

    return _Parts.of(X).ask(model, ask, [lambda index: pandas.Series(np.empty(0, dtype), index=index)], settings)[0]


def _frames(model, X, method, columns, settings, count=1):
    """As many frames of numbers with these columns as the method gives arrays."""
    import pandas

    def ask(model, part, **settings):
        found = getattr(model, method)(part, **settings)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(pandas.DataFrame(np.asarray(one), index=part.index, columns=columns) for one in found)

    def meta(index):
        return pandas.DataFrame(np.empty((0, len(columns))), index=index, columns=columns)

    answers = _Parts.of(X).ask(model, ask, [meta] * count, settings)
    return answers if count > 1 else answers[0]


class _Shipped:
    """An estimator on its way to workers, which must have the same version of npb."""

    def __init__(self, model):
        running = {} if model.n_jobs is not None else {"n_jobs": 1}
        model = pickle.loads(pickle.dumps(model)).set_params(**running)
        self.version, self.data = VERSION, pickle.dumps(model)

    @functools.cached_property
    def model(self):
        if self.version != VERSION:
            raise RuntimeError(f"the estimator is of npb {self.version}, this worker has npb {VERSION}: install the same on all machines")
        return pickle.loads(self.data)

    def __getstate__(self):
        return {"version": self.version, "data": self.data}


class _Parts:
    """Frames by part: what they are called in errors, themselves (not there yet), an empty one like them, and where their indices part."""

    def __init__(self, names, frames, meta, divisions):
        self.names, self.frames, self.meta, self.divisions = names, frames, meta, divisions

    @classmethod
    def of(cls, X):
        if hasattr(X, "to_delayed") and hasattr(X, "divisions"):
            frames = X.to_delayed()
            return cls([f"part {k}" for k in range(len(frames))], frames, X._meta, X.divisions)
        if isinstance(X, (str, Path)) or (isinstance(X, (list, tuple)) and X and all(isinstance(one, (str, Path)) for one in X)):
            return cls._of_files([X] if isinstance(X, (str, Path)) else X)
        what = "an empty list" if isinstance(X, (list, tuple)) and not X else type(X).__name__
        raise TypeError(f"X is {what}: it must be a dask.dataframe, a Parquet file or a list of Parquet files; ask the estimator itself about tables that are here")

    @classmethod
    def _of_files(cls, files):
        """A part for each row group; rows are numbered over all files."""
        dask = _dask()
        from pyarrow import parquet

        names, frames, first, meta = [], [], 0, None
        for file in files:
            whole = _opened(parquet, file)
            empty = whole.schema_arrow.empty_table().to_pandas()
            meta = empty if meta is None else meta
            _check_same(file, empty, files[0], meta)
            for group in range(whole.num_row_groups):
                if not whole.metadata.row_group(group).num_rows:
                    continue
                names.append(f"{file}, row group {group}")
                frames.append(dask.delayed(_row_group)(str(file), group, first))
                first += whole.metadata.row_group(group).num_rows
        if not names:
            raise ValueError(f"{files[0]}: there are no rows")
        return cls(names, frames, meta, (None,) * (len(names) + 1))

    def ask(self, model, question, metas, settings=None):
        """The answers to a question by part, one collection for each of `metas`: empty answers, or what makes one for an index."""
        dask = _dask()
        check_is_fitted(model)
        by_row = {name: _Parts.of(value).frames for name, value in (settings or {}).items() if hasattr(value, "to_delayed")}
        fixed = {name: value for name, value in (settings or {}).items() if name not in by_row}
        for name, frames in by_row.items():
            if len(frames) != len(self.frames):
                raise ValueError(f"{name}: it has {len(frames)} parts, X has {len(self.frames)}; take both from one frame")
        metas = [meta(self.meta.index[:0]) if callable(meta) else meta for meta in metas]
        shipped = dask.delayed(_Shipped(model), pure=False)
        one = dask.delayed(functools.partial(_answer, question, metas), nout=len(metas), pure=False)
        answers = [
            one(shipped, name, frame, fixed, {key: frames[k] for key, frames in by_row.items()})
            for k, (name, frame) in enumerate(zip(self.names, self.frames, strict=True))
        ]
        return tuple(
            dask.dataframe.from_delayed([answer[k] for answer in answers], meta=meta, divisions=self.divisions, prefix="npb")
            for k, meta in enumerate(metas)
        )


def _opened(parquet, file):
    hint = "of a folder or a pattern: list the files, or give dask.dataframe.read_parquet(...)"
    try:
        return parquet.ParquetFile(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{file}: there is no such file; {hint}") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: cannot be read as Parquet ({error}){'' if Path(file).is_file() else '; ' + hint}") from None


def _dask():
    try:
        import dask
        import dask.dataframe
    except ImportError:
        raise ImportError("questions over parts need the packages dask, pandas and pyarrow: pip install npb[dask]") from None
    return dask


def _answer(question, metas, shipped, name, part, fixed, by_row):
    """The answers for a part, on a worker."""
    if not len(part):
        return tuple(metas)
    model = shipped.model
    try:
        found = question(model, part, **fixed, **by_row)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
    return found if isinstance(found, tuple) else (found,)


def _row_group(file, group, first):
    from pyarrow import parquet

    part = parquet.ParquetFile(file).read_row_group(group).to_pandas()
    part.index = range(first, first + len(part))
    return part


def _check_same(file, empty, first_file, first):
    """Raises ValueError for a file with other columns, or columns of other types, than the first."""
    if list(empty.columns) != list(first.columns):
        raise ValueError(f"{file}: its columns are {list(empty.columns)}, those of {first_file} {list(first.columns)}")
    for name in empty.columns:
        if empty.dtypes[name] != first.dtypes[name]:
            raise ValueError(f"{file}: column {name!r} is of type {empty.dtypes[name]}, in {first_file} of type {first.dtypes[name]}")
