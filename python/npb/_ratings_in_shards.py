"""Fits of a matrix whose entries lie on the workers of a Dask cluster, in shards of rows and shards of columns that stay there: factors go to and fro, entries do not."""

import operator
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from npb import _native
from npb._base import _listener, threads
from npb._matrix import _TOO_LARGE, BayesianMatrixCompletion, Side, _keys, _values
from npb._on_workers import OnWorkers, check_version, in_part

_COLUMNS = ("user", "item", "value")
# Parts whose names are put together by one task.
_AT_ONCE = 8


def fit(model, parts, client, columns=None, shards=None):
    """`model`, fitted to the entries in `parts`: the bits of `fit` for all of them in one process.

    Parameters
    ----------
    model : BayesianMatrixCompletion of the Gaussian likelihood
    parts : a `_Parts` of `npb.distributed`, with an entry in each row
    columns : names of the columns of rows, columns and values; by default user, item and value, or the three that there are
    shards : of rows, and of columns; by default one of each for every worker
    """
    import dask

    settings = _settings(model)
    # Factors are sent in each sweep.
    quiet = dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"})
    with quiet, _Sets(client, model.checkpoint is not None) as workers:
        found = _Found(workers, parts, columns, shards)
        model.__dict__.pop("_fit", None)
        workers.hold(found, model.n_jobs)
        listen, close = _listener(model.progress)
        how = {"threads": threads(model.n_jobs), "progress": listen, "checkpoint": model.checkpoint, "every": float(model.checkpoint_every), "share": None}
        try:
            fitted = _native.fit_ratings_in_shards(*found.cuts, tuple(names.astype(str).tolist() for names in found.of), workers, settings, how)
        finally:
            close()
    model._take(fitted)
    # Names that are texts of whole numbers come back as numbers.
    sides = zip((model._rows, model._columns), map(np.ndarray.tolist, found.of), strict=True)
    model._name(*(side if side.names == names else Side(side.what, names) for side, names in sides))
    if trouble := model._trouble(fitted):
        warnings.warn(f"{type(model).__name__}: {trouble}", ConvergenceWarning, stacklevel=3)
    return model


def _settings(model):
    if not isinstance(model, BayesianMatrixCompletion):
        raise TypeError(f"{type(model).__name__}: entries in parts are for BayesianMatrixCompletion")
    settings = model._settings()
    if settings["likelihood"] != "gaussian":
        raise ValueError(f'likelihood={settings["likelihood"]!r}: must be "gaussian" for entries in parts')
    return settings


class _Found:
    """What is known of all parts: names of rows and columns, and where these are cut into shards."""

    def __init__(self, workers, parts, columns, shards):
        self.workers, self.parts, self.columns = workers, parts, columns
        found = [workers.submit(_names, _native.VERSION, name, part, columns) for name, part in self._frames()]
        while len(found) > 1:
            found = [workers.submit(_joint, found[k : k + _AT_ONCE]) for k in range(0, len(found), _AT_ONCE)]
        # The names of all stay where they are, for those who number entries.
        self.names = found[0]
        ((rows, row_counts), (columns, column_counts)), _ = workers.gathered(found)[0]
        if not len(row_counts):
            raise ValueError("there is no entry in any part")
        self.of = rows, columns
        n = max(1, len(workers.addresses())) if shards is None else shards
        self.sizes = len(rows), len(columns)
        self.cuts = tuple(_native.cuts_of_ratings(counts, n) for counts in (row_counts, column_counts))

    def _frames(self):
        """Names of the parts, and futures of what they hold: computed anew for every use, and held by nobody."""
        return [(name, self.workers.compute(part)) for name, part in zip(self.parts.names, self.parts.frames, strict=True)]

    def shards(self):
        """Futures of the shards, by rows and then by columns, each from what all parts have of it."""
        submit, addresses = self.workers.submit, self.workers.addresses()
        by_part = [submit(_split, name, part, self.columns, self.names, self.cuts) for name, part in self._frames()]
        made = []
        for side, cuts in enumerate(self.cuts):
            for k, cut in enumerate(cuts):
                pieces = [submit(operator.itemgetter(len(made)), part) for part in by_part]
                # Evenly over the workers that there are, and on another where one is lost.
                where = {"workers": [addresses[k % len(addresses)]], "allow_other_workers": True} if addresses else {}
                made.append(submit(_shard, side == 0, cut, self.sizes[1 - side], self.names, pieces, **where))
        return made


class _Sets(OnWorkers):
    """Sets of shards on workers, asked by the threads of a fit."""

    def __init__(self, client, has_checkpoint):
        super().__init__(client, has_checkpoint)
        self.sets, self.threads = {}, None

    def __exit__(self, *raised):
        self.sets = {}
        super().__exit__(*raised)

    def addresses(self):
        return sorted(self.client.nthreads())

    def hold(self, found, n_jobs):
        self.sets[0], self.threads = found.shards(), n_jobs

    def __call__(self, interrupted, kind, number, question, own):
        if kind == "release":
            self.sets.pop(number, None)
            return []
        shards = self.sets[number if kind == "ask" else 0]
        question = self.broadcast(question)
        if kind == "derive":
            self.sets[number] = self._of_each(_derived, shards, question, own)
            self.gathered([self.submit(_is_there, shard) for shard in self.sets[number]], interrupted)
            return []
        return self.gathered(self._of_each(_answer, shards, question, own, self.threads), interrupted)

    def _of_each(self, task, shards, question, own, *more):
        futures = []
        while own:
            # What is on its way is let go of.
            shard, told = own.pop(0)
            futures.append(self.submit(task, shards[shard], question, told, *more))
        return futures


# What follows is done by workers.


def _names(version, name, part, columns):
    """Names of rows and columns of a part with how many entries each has, and what these names are; with the name of the part."""
    check_version(version)
    return _names_of(name, part, columns)


@in_part
def _names_of(name, part, columns):
    rows, columns, values = _triplets(part, columns)
    for k in np.flatnonzero(~(np.abs(values) < _TOO_LARGE))[:1]:
        what = "contains infinity or NaN" if not np.isfinite(values[k]) else "has a value that is too large"
        raise ValueError(f"{what}: row {rows.tolist()[k]!r}, column {columns.tolist()[k]!r} is {values[k]}; leave the entry out or correct it")
    found = []
    for side, keys in (("rows", rows), ("columns", columns)):
        places, names = _keys(side, keys, False)
        if len(keys) and names is None:
            raise ValueError(f"{side}: their names must be whole numbers or texts, found {keys.dtype}")
        names = np.array(names or [], dtype=None if names else np.int64)
        found.append((names, np.bincount(places, minlength=len(names)).astype(np.uint32)))
    return found, name


def _triplets(part, columns):
    """Rows, columns and values of a frame, as arrays; names that are numbers as the whole numbers that they are."""
    if columns is None:
        columns = _COLUMNS if set(_COLUMNS) <= set(part.columns) else tuple(part.columns)
    missing = [column for column in columns if column not in part.columns]
    if missing or len(columns) != 3:
        raise ValueError(f"columns of users, items and values: there are {list(part.columns)}; say columns=(users, items, values)")
    rows, cols, values = (part[column] for column in columns)
    for column, keys in zip(columns[:2], (rows, cols), strict=True):
        if keys.isna().any():
            raise ValueError(f"column {column!r}: entry {int(np.flatnonzero(keys.isna())[0])} has no name")
    values = values.to_numpy(dtype=np.float64, na_value=np.nan) if values.dtype.kind in "iuf" else values.to_numpy()
    return _wide(np.asarray(rows)), _wide(np.asarray(cols)), _values(values)


def _wide(keys):
    """Whole numbers of one type in all parts."""
    return keys.astype(np.int64) if keys.dtype.kind in "iu" and keys.max(initial=0) < 2**63 else keys


def _joint(found):
    """The same of several parts, whose names must be of one kind."""
    (first, of), *more = sorted(found, key=lambda one: not len(one[0][0][0]))
    for other, name in more:
        for side, (names, _), (others, _) in zip(("rows", "columns"), first, other, strict=True):
            if len(others) and (names.dtype.kind in "iu") != (others.dtype.kind in "iu"):
                kinds = ["whole numbers" if one.dtype.kind in "iu" else "texts" for one in (others, names)]
                raise ValueError(f"{name}: its names of {side} are {kinds[0]}, those of {of} {kinds[1]}")
    joint = []
    for sides in zip(*(one for one, _ in found if len(one[0][0])), strict=True):
        names, places = np.unique(np.concatenate([names for names, _ in sides]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts for _, counts in sides]), minlength=len(names))
        joint.append((names, counts.astype(np.uint32)))
    return joint or first, of


@in_part
def _split(name, part, columns, names, cuts):
    """What each shard has of a part: rows, columns and values, by number."""
    (rows, columns), values = _numbered(part, columns, names)
    pieces = []
    for keys, ends in zip((rows, columns), cuts, strict=True):
        of_shard = np.searchsorted([end for _, end in ends], keys, side="right")
        order = np.argsort(of_shard, kind="stable")
        places = np.searchsorted(of_shard[order], np.arange(len(ends) + 1))
        pieces += [tuple(one[order[a:b]] for one in (rows, columns, values)) for a, b in zip(places[:-1], places[1:], strict=True)]
    return pieces


def _numbered(part, columns, names):
    rows, columns, values = _triplets(part, columns)
    if not len(values):
        return (np.empty(0, np.uint32),) * 2, values
    numbers = []
    for (known, _), keys in zip(names[0], (rows, columns), strict=True):
        keys = keys if keys.dtype.kind in "iu" else keys.astype(str)
        numbers.append(np.searchsorted(known, keys).astype(np.uint32))
    return numbers, values


def _shard(by_rows, ends, others, names, pieces):
    # What comes from another worker may begin anywhere in memory.
    pieces = [tuple(np.require(one, requirements=["C", "ALIGNED"]) for one in piece) for piece in pieces if len(piece[2])]
    try:
        return _native.ShardOfRatings.of(by_rows, ends, others, pieces)
    except ValueError as error:
        if len(error.args) != 3:
            raise
        row, column = (names[0][side][0][place] for side, place in enumerate(error.args[1:]))
        raise ValueError(f"row {row.item()!r}, column {column.item()!r} is given twice; keep one") from None


def _derived(shard, question, told):
    return shard.derive(question, told)


def _is_there(shard):
    return True


def _answer(shard, question, told, n_jobs):
    import distributed

    n_threads = distributed.get_worker().state.nthreads if n_jobs is None else threads(n_jobs)
    return shard.answer(question, told, n_threads)
