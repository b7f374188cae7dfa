"""Fits of a table whose rows lie on the workers of a Dask cluster, in shards that stay there: sums come back, rows do not."""

import warnings

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from npb import _native
from npb._base import _listener, _names_rows, _with_names, threads
from npb._classes import encoded, labelled
from npb._frames import check_names, is_plain, unmasked
from npb._on_workers import OnWorkers, check_version, in_part

SHARD_ROWS = _native.SHARD_ROWS


def fit(model, parts, y, client):
    """`model`, fitted to the rows of `parts` (a `_Parts` of `npb.distributed`); `y`: the name of the column of labels, a series by part, or None."""
    with OnWorkers(client, model.checkpoint is not None) as workers:
        whole = _Whole(model, parts, y, workers)
        if whole.n_rows <= SHARD_ROWS:
            return whole.fit_by_one_worker()
        return whole.fit_in_shards()


class _Whole:
    """What is known of all parts, and how they are cut into shards."""

    def __init__(self, model, parts, y, workers):
        self.model, self.parts, self.workers = model, parts, workers
        self.by_name = isinstance(y, (str, int))
        self._check_model(y)
        self._check_columns(y)
        self.y = y if self.by_name or y is None else y.to_delayed()
        self.features = [name for name in parts.meta.columns if not (self.by_name and name == y)]
        _check_plain(parts.meta[self.features], "X")
        described = [workers.submit(_describe, _native.VERSION, name, *part) for name, part in zip(parts.names, self._parts(), strict=True)]
        described = workers.gathered(described)
        self.lengths = [length for length, _ in described]
        self.n_rows = sum(self.lengths)
        if not self.n_rows:
            raise ValueError("X has no rows in any part")
        self.classes = None if y is None else _joint_classes([classes for _, classes in described])

    def _check_model(self, y):
        own = self.model
        threads(own.n_jobs)
        if getattr(own, "add_indicator", False) or not _is_nan(getattr(own, "missing_values", np.nan)):
            raise ValueError("add_indicator and missing_values are for tables that are here; of parts missing is what is NaN or null")
        if y is not None and not is_classifier(own):
            raise ValueError(f"y: {type(own).__name__} has no labels")
        if y is None and is_classifier(own):
            raise ValueError("requires y to be passed, but the target y is None")

    def _check_columns(self, y):
        meta = self.parts.meta
        if not hasattr(meta, "columns"):
            raise TypeError("X is a series: it must be a frame, as X[[name]] is one")
        check_names([str(name) for name in meta.columns])
        if not len(meta.columns) - self.by_name:
            raise ValueError("X has no column of numbers")
        if self.by_name and y not in meta.columns:
            raise ValueError(f"y={y!r}: there is no such column; there are {list(meta.columns)}")
        if self.by_name or y is None:
            return
        if not (hasattr(y, "to_delayed") and hasattr(y, "divisions")):
            raise TypeError(f"y is {type(y).__name__}: it must be the name of a column of X, or a series with the parts of X")
        if y.npartitions != len(self.parts.frames):
            raise ValueError(f"y has {y.npartitions} parts, X has {len(self.parts.frames)}; take both from one frame")

    def _parts(self):
        """Futures of the frames and of the labels; the parts are computed anew for every use, and held by none."""
        compute = self.workers.compute
        labels = [self.y] * len(self.parts.frames) if self.y is None or self.by_name else [compute(one) for one in self.y]
        return [(compute(frame), y, self.features) for frame, y in zip(self.parts.frames, labels, strict=True)]

    def fit_by_one_worker(self):
        """A table no larger than a shard is fitted whole."""
        here = {"progress": False, "checkpoint": None, "n_jobs": 1}
        before = {name: getattr(self.model, name) for name in here}
        pieces = [piece for piece, length in zip(self._parts(), self.lengths, strict=True) if length]
        columns = [[piece[0] for piece in pieces], [piece[1] for piece in pieces]]
        alone = clone(type(self.model)(**{**self.model.get_params(deep=False), **here}))
        fitted = self.workers.gathered([self.workers.submit(_fit_whole, alone, *columns, self.features)])[0]
        self.model.__dict__.update(fitted.set_params(**before).__dict__)
        if trouble := self.model._trouble(self.model._fit):
            warnings.warn(f"{type(self.model).__name__}: {trouble}", ConvergenceWarning, stacklevel=4)
        return self.model

    def shards(self):
        """Futures of the shards, each from pieces of the parts that hold its rows."""
        size, submit = SHARD_ROWS, self.workers.submit
        parts, firsts = self._parts(), np.concatenate([[0], np.cumsum(self.lengths)]).tolist()
        futures = []
        for first in range(0, self.n_rows, size):
            pieces = []
            for k, part in enumerate(parts):
                start, stop = max(first - firsts[k], 0), min(first + size - firsts[k], self.lengths[k])
                if start < stop:
                    pieces.append(submit(_piece, self.parts.names[k], *part, self.classes, start, stop))
            classes = [] if self.classes is None else [str(one) for one in self.classes]
            where = self.workers.evenly(-(-self.n_rows // size))[len(futures)]
            futures.append(submit(_shard, _native.VERSION, first, classes, self.model._names(), pieces, **where))
        return futures

    def fit_in_shards(self):
        model, ask = self.model, _Shards(self)
        model.__dict__.pop("_fit", None)
        model.__dict__.pop("_schema", None)
        validate_data(model, _with_names(self.parts.meta[self.features], True), reset=True, skip_check_array=True)
        listen, close = _listener(model.progress)
        how = {"threads": threads(model.n_jobs), "progress": listen, "checkpoint": model.checkpoint, "every": float(model.checkpoint_every), "share": None}
        try:
            found = _native.fit_in_shards(ask.n_shards, ask, model._settings(), how)
        finally:
            close()
        if self.classes is not None:
            model.classes_ = self.classes
        model._take(found)
        if hasattr(model, "missing_values"):
            model.indicator_ = None
        if trouble := model._trouble(found):
            warnings.warn(f"{type(model).__name__}: {trouble}", ConvergenceWarning, stacklevel=4)
        return model


class _Shards:
    """Shards on workers, asked by the threads of a fit."""

    def __init__(self, whole):
        self.whole, self.workers = whole, whole.workers
        self.n_shards = -(-whole.n_rows // SHARD_ROWS)
        self.rows, self.prepared, self.kept = None, {}, {}

    def __call__(self, interrupted, kind, scale, run, question, own):
        if kind == "forget":
            self.kept.pop(run, None)
            return []
        answers = getattr(self, f"_{kind}")(kind, scale, run, self.workers.broadcast(question), own or [b""] * self.n_shards)
        return self.workers.gathered(answers, interrupted)

    def _anyone(self, kind, scale, run, question, own):
        return [self.workers.submit(_native.answer_of_sample, question, one) for one in own]

    def _describe(self, kind, scale, run, question, own):
        self.rows = self.whole.shards()
        return self._of_rows(kind, question, own)

    def _sample(self, kind, scale, run, question, own):
        answers = self._of_rows(kind, question, own)
        self.rows = None
        return answers

    def _of_rows(self, kind, question, own):
        return [self.workers.submit(_answer_of_rows, rows, kind, question, of_shard) for rows, of_shard in zip(self.rows, own, strict=True)]

    def _prepare(self, kind, scale, run, question, own):
        # Read again, shard by shard: the rows as they are and those made ready are never all there at once.
        placed = zip(self.whole.shards(), self.workers.evenly(self.n_shards), strict=True)
        made = [self.workers.submit(_prepare, rows, question, **where) for rows, where in placed]
        self.prepared[scale] = self.workers.parts_of((both, 0) for both in made)
        return self.workers.parts_of((both, 1) for both in made)

    def _begin(self, kind, scale, run, question, own):
        self.kept[run] = [(None, b"")] * self.n_shards
        return self._step(kind, scale, run, question, own)

    def _step(self, kind, scale, run, question, own):
        # What is kept is the answer with what it leaves: the next step is a task of this one.
        self.kept[run] = self._of_run(kind, scale, run, question, own)
        return self.workers.parts_of((both, 0) for both in self.kept[run])

    def _tell(self, kind, scale, run, question, own):
        return self.workers.parts_of((both, 0) for both in self._of_run(kind, scale, run, question, own))

    def _of_run(self, kind, scale, run, question, own):
        each = zip(self.prepared[scale], self.kept[run], own, self.workers.evenly(self.n_shards), strict=True)
        return [self.workers.submit(_answer_of_run, shard, kind, kept, question, of_shard, **where) for shard, kept, of_shard, where in each]


def _joint_classes(by_part):
    """The classes of all parts, as those of one table."""
    found = [classes for classes in by_part if len(classes)]
    if len({classes.dtype.kind in "US" for classes in found}) > 1:
        raise ValueError("y: some labels are texts and some are not; make them all texts, y.astype(str)")
    every = np.concatenate(found) if found else np.empty(0)
    # Four times: there are fewer classes than rows.
    return encoded(np.tile(every, 4), 4 * len(every))[0]


def _is_nan(value):
    return isinstance(value, (float, np.floating)) and np.isnan(value)


def _check_plain(frame, name):
    if not is_plain(frame):
        strange = [column for column in frame.columns if not is_plain(frame[[column]])]
        raise ValueError(
            f"{name}: column {strange[0]!r} is of type {frame.dtypes[strange[0]]}: a fit over parts takes columns of numbers; make it one, or leave it out"
        )


# What follows is done by workers.


def _describe(version, name, frame, y, features):
    """Number of rows and classes of a part."""
    check_version(version)
    return _described(name, frame, y, features)


@in_part
def _described(name, frame, y, features):
    if not hasattr(frame, "columns"):
        raise ValueError(f"it is {type(frame).__name__}, not a frame")
    _check_plain(frame[features], "X")
    if len(frame) and _names_rows(frame[features]):
        raise ValueError("a column holds names or numbers of rows by its name: leave it out")
    if y is None:
        return len(frame), None
    return len(frame), np.unique(_known_labels(frame, y)[0])


def _known_labels(frame, y):
    """The labels that are known, and whether each row has one."""
    y, known = labelled(y if hasattr(y, "iloc") else frame[y])
    if len(y) != len(frame):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[len(frame), len(y)]}")
    labels = y[known]
    # Labels that were objects only because some are missing.
    return np.array(labels.tolist()) if labels.dtype.kind == "O" and len(labels) else labels, known


@in_part
def _piece(name, frame, y, features, classes, start, stop):
    """Numbers and codes of some rows of a part."""
    part = frame.iloc[start:stop]
    X = check_array(_with_names(unmasked(part[features]), True), dtype=np.float64, order="C", ensure_all_finite=False, ensure_min_samples=0)
    if not np.isfinite(X.sum()) and np.isinf(X).any():
        row, column = np.argwhere(np.isinf(X))[0]
        raise ValueError(f"row {start + row}, column {features[column]!r} is {X[row, column]}; mark the cell as missing (NaN) or correct it")
    codes = np.full(len(X), -1, dtype=np.int64)
    if classes is not None:
        labels, known = _known_labels(part, y.iloc[start:stop] if hasattr(y, "iloc") else y)
        codes[known] = np.searchsorted(classes, labels) if known.any() else 0
    return X, codes


def _shard(version, first_row, classes, names, pieces):
    check_version(version)
    X = np.ascontiguousarray(np.concatenate([X for X, _ in pieces]))
    return _native.ShardOfRows.of(first_row, X, np.concatenate([codes for _, codes in pieces]), classes, names)


def _answer_of_rows(rows, kind, question, own):
    return rows.answer(kind, question, own)


def _prepare(rows, question):
    return rows.prepare(question)


def _answer_of_run(shard, kind, kept, question, own):
    """The answer, and what is kept for the run."""
    return shard.answer(kind, kept[1], question, own)


def _fit_whole(model, frames, labels, features):
    import pandas

    X = pandas.concat([frame[features] for frame in frames])
    if labels[0] is None:
        y = None
    else:
        y = pandas.concat([y if hasattr(y, "iloc") else frame[y] for frame, y in zip(frames, labels, strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_params(progress=_cancelled()).fit(X, y).set_params(progress=False)


def _cancelled():
    """A progress function that ends the work of a task that nobody waits for any more."""
    import distributed
    from distributed.worker import thread_state

    worker, key = distributed.get_worker(), thread_state.key

    def listen(part, step, share):
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise RuntimeError("nobody waits for this fit any more")

    return listen
