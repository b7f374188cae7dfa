"""Fits of a table whose rows lie on the workers of a Dask cluster, in shards that stay there: sums come back, rows do not."""

import functools
import operator
import warnings

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from npb import _native
from npb._base import _listener, _names_rows, _with_names, threads
from npb._classes import encoded, labelled
from npb._frames import is_plain, unmasked

_POLL = 0.2
SHARD_ROWS = _native.SHARD_ROWS


def fit(model, parts, y, client):
    """`model`, fitted to the rows of `parts` (a `_Parts` of `npb.distributed`); `y`: the name of the column of labels, a series by part, or None."""
    whole = _Whole(model, parts, y, client)
    if whole.n_rows <= SHARD_ROWS:
        return whole.fit_by_one_worker()
    with _OnWorkers(client, whole) as shards:
        return whole.fit_in_shards(shards)


class _Whole:
    """What is known of all parts, and how they are cut into shards."""

    def __init__(self, model, parts, y, client):
        self.model, self.parts, self.client = model, parts, client
        self.by_name = isinstance(y, str)
        self.y = y if self.by_name or y is None else y.to_delayed()
        if self.by_name and y not in parts.meta.columns:
            raise ValueError(f"y={y!r}: there is no such column; there are {list(parts.meta.columns)}")
        if not self.by_name and y is not None and len(self.y) != len(parts.frames):
            raise ValueError(f"y has {len(self.y)} parts, X has {len(parts.frames)}; take both from one frame")
        self._check_model()
        self.features = [name for name in parts.meta.columns if not (self.by_name and name == y)]
        _check_plain(parts.meta[self.features], "X")
        described = self._gathered([client.submit(_describe, _native.VERSION, name, *part, pure=False) for name, part in zip(parts.names, self._parts(), strict=True)])
        self.lengths = [length for length, _ in described]
        self.n_rows = sum(self.lengths)
        if not self.n_rows:
            raise ValueError("X has no rows in any part")
        self.classes = None if y is None else _joint_classes([classes for _, classes in described])

    def _check_model(self):
        own = self.model
        if getattr(own, "add_indicator", False) or not _is_nan(getattr(own, "missing_values", np.nan)):
            raise ValueError("add_indicator and missing_values are for tables that are here; of parts missing is what is NaN or null")
        if self.y is not None and not is_classifier(own):
            raise ValueError(f"y: {type(own).__name__} has no labels")
        if self.y is None and is_classifier(own):
            raise ValueError("requires y to be passed, but the target y is None")

    def _parts(self):
        """Futures of the frames and of the labels; the parts are computed anew for every use, and held by none."""
        frames = self.client.compute(self.parts.frames)
        if self.y is None or self.by_name:
            return [(frame, self.y, self.features) for frame in frames]
        return [(frame, labels, self.features) for frame, labels in zip(frames, self.client.compute(self.y), strict=True)]

    def _gathered(self, futures, interrupted=None):
        return gathered(self.client, futures, interrupted)

    def fit_by_one_worker(self):
        """A table no larger than a shard is fitted whole."""
        here = {"progress": False, "checkpoint": None, "n_jobs": 1}
        before = {name: getattr(self.model, name) for name in here}
        pieces = [piece for piece, length in zip(self._parts(), self.lengths, strict=True) if length]
        columns = [[piece[0] for piece in pieces], [piece[1] for piece in pieces]]
        alone = clone(self.model).set_params(**here)
        future = self.client.submit(_fit_whole, alone, *columns, self.features, pure=False)
        try:
            fitted = self._gathered([future])[0]
        except BaseException:
            self.client.cancel([future])
            raise
        self.model.__dict__.update(fitted.set_params(**before).__dict__)
        if trouble := self.model._trouble(self.model._fit):
            warnings.warn(f"{type(self.model).__name__}: {trouble}", ConvergenceWarning, stacklevel=4)
        return self.model

    def shards(self):
        """Futures of the shards, each from pieces of the parts that hold its rows."""
        size, submit = SHARD_ROWS, self.client.submit
        parts, firsts = self._parts(), np.concatenate([[0], np.cumsum(self.lengths)]).tolist()
        futures = []
        for first in range(0, self.n_rows, size):
            pieces = []
            for k, part in enumerate(parts):
                start, stop = max(first - firsts[k], 0), min(first + size - firsts[k], self.lengths[k])
                if start < stop:
                    pieces.append(submit(_piece, self.parts.names[k], *part, self.classes, start, stop, pure=False))
            classes = [] if self.classes is None else [str(one) for one in self.classes]
            futures.append(submit(_shard, _native.VERSION, first, classes, self.model._names(), pieces, pure=False))
        return futures

    def fit_in_shards(self, ask):
        model = self.model
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


class _OnWorkers:
    """Shards on workers, asked by the thread of a fit. Nothing is left on the cluster when it is closed."""

    def __init__(self, client, whole):
        self.client, self.whole = client, whole
        self.n_shards = -(-whole.n_rows // SHARD_ROWS)
        self.rows, self.prepared, self.kept = None, {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        held = [*(self.rows or ()), *(one for of in (self.prepared, self.kept) for futures in of.values() for one in futures)]
        self.rows, self.prepared, self.kept = None, {}, {}
        if self.client.status == "running":
            self.client.cancel(held)

    def __call__(self, interrupted, kind, scale, run, question, own):
        if kind == "forget":
            self.kept.pop(run, None)
            return []
        # What an interrupted fit has reached is written to its checkpoint, if it has one: that takes an answer or two.
        interrupted = None if self.whole.model.checkpoint is not None else interrupted
        own = own or [b""] * self.n_shards
        # One task holds what all shards are asked, so that a worker that is lost can be replaced.
        question = self.client.submit(operator.itemgetter(0), [question], pure=False)
        answers = getattr(self, f"_{kind}")(kind, scale, run, question, own)
        return gathered(self.client, answers, interrupted)

    def _describe(self, kind, scale, run, question, own):
        self.rows = self.whole.shards()
        return self._of_rows(kind, question, own)

    def _sample(self, kind, scale, run, question, own):
        answers = self._of_rows(kind, question, own)
        self.rows = None
        return answers

    def _of_rows(self, kind, question, own):
        return [self.client.submit(_answer_of_rows, rows, kind, question, of_shard, pure=False) for rows, of_shard in zip(self.rows, own, strict=True)]

    def _prepare(self, kind, scale, run, question, own):
        # Read again, shard by shard: the rows as they are and those made ready are never all there at once.
        made = [self.client.submit(_prepare, rows, question, pure=False) for rows in self.whole.shards()]
        self.prepared[scale] = [self.client.submit(operator.itemgetter(0), both, pure=False) for both in made]
        return [self.client.submit(operator.itemgetter(1), both, pure=False) for both in made]

    def _begin(self, kind, scale, run, question, own):
        return self._keeping(kind, scale, run, question, own, [(None, b"")] * self.n_shards)

    def _step(self, kind, scale, run, question, own):
        return self._keeping(kind, scale, run, question, own, self.kept[run])

    def _keeping(self, kind, scale, run, question, own, before):
        each = zip(self.prepared[scale], before, own, strict=True)
        self.kept[run] = [self.client.submit(_answer_of_run, shard, kind, kept, question, of_shard, pure=False) for shard, kept, of_shard in each]
        return [self.client.submit(operator.itemgetter(0), kept, pure=False) for kept in self.kept[run]]

    def _tell(self, kind, scale, run, question, own):
        each = zip(self.prepared[scale], self.kept[run], own, strict=True)
        made = [self.client.submit(_answer_of_run, shard, kind, kept, question, of_shard, pure=False) for shard, kept, of_shard in each]
        return [self.client.submit(operator.itemgetter(0), both, pure=False) for both in made]


def gathered(client, futures, interrupted=None):
    """The results of futures; ends early, with nothing left to be done for them, when `interrupted` says so."""
    import distributed

    try:
        while True:
            if client.status in ("closed", "closing"):
                raise RuntimeError(f"the Dask client is {client.status}: give one that is connected")
            try:
                distributed.wait(futures, timeout=_POLL)
                return client.gather(futures)
            except TimeoutError:
                if interrupted is not None and interrupted():
                    raise RuntimeError("interrupted") from None
    except BaseException:
        if client.status == "running":
            client.cancel(futures)
        raise


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


def check_version(version):
    if version != _native.VERSION:
        raise RuntimeError(f"the client has npb {version}, this worker has npb {_native.VERSION}: install the same on all machines")


def _in_part(question):
    """Errors of a part name it."""

    @functools.wraps(question)
    def named(name, *arguments):
        try:
            return question(name, *arguments)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from None

    return named


def _describe(version, name, frame, y, features):
    """Number of rows and classes of a part."""
    check_version(version)
    return _described(name, frame, y, features)


@_in_part
def _described(name, frame, y, features):
    _check_plain(frame[features], "X")
    if len(frame) and _names_rows(frame[features]):
        raise ValueError("a column holds names or numbers of rows by its name: leave it out")
    if y is None:
        return len(frame), None
    return len(frame), np.unique(_known_labels(frame, y)[0])


def _known_labels(frame, y):
    """The labels that are known, and whether each row has one."""
    y, known = labelled(frame[y] if isinstance(y, str) else y)
    if len(y) != len(frame):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[len(frame), len(y)]}")
    labels = y[known]
    # Labels that were objects only because some are missing.
    return np.array(labels.tolist()) if labels.dtype.kind == "O" and len(labels) else labels, known


@_in_part
def _piece(name, frame, y, features, classes, start, stop):
    """Numbers and codes of some rows of a part."""
    part = frame.iloc[start:stop]
    X = check_array(_with_names(unmasked(part[features]), True), dtype=np.float64, order="C", ensure_all_finite=False, ensure_min_samples=0)
    if not np.isfinite(X.sum()) and np.isinf(X).any():
        row, column = np.argwhere(np.isinf(X))[0]
        raise ValueError(f"row {start + row}, column {features[column]!r} is {X[row, column]}; mark the cell as missing (NaN) or correct it")
    codes = np.full(len(X), -1, dtype=np.int64)
    if classes is not None:
        labels, known = _known_labels(part, y if isinstance(y, str) else y.iloc[start:stop])
        codes[known] = np.searchsorted(classes, labels) if known.any() else 0
    return X, codes


def _shard(version, first_row, classes, names, pieces):
    check_version(version)
    X = np.ascontiguousarray(np.concatenate([X for X, _ in pieces]))
    return Held(_native.ShardOfRows(first_row, X, np.concatenate([codes for _, codes in pieces]), classes, names))


class Held:
    """A native object that can go to another worker."""

    def __init__(self, native):
        self.native = native

    def __sizeof__(self):
        return self.native.__sizeof__()

    def __reduce__(self):
        return _held, (type(self.native), self.native.to_bytes())


def _held(kind, data):
    return Held(kind.of_bytes(data))


def _answer_of_rows(rows, kind, question, own):
    return rows.native.answer(kind, question, own)


def _prepare(rows, question):
    made, answer = rows.native.prepare(question)
    return Held(made), answer


def _answer_of_run(shard, kind, kept, question, own):
    """The answer, and what is kept for the run."""
    answer, left = shard.native.answer(kind, kept[1], question, own)
    return answer, left


def _fit_whole(model, frames, labels, features):
    import pandas

    X = pandas.concat([frame[features] for frame in frames])
    if labels[0] is None:
        y = None
    else:
        y = pandas.concat([frame[y] if isinstance(y, str) else y for frame, y in zip(frames, labels, strict=True)])
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
