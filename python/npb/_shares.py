"""Work that is shared out to other processes by the backend of joblib that is in force: parts of a fit, questions about many items."""

import copy
import tempfile
from pathlib import Path

import joblib
import numpy as np

from npb._native import Elsewhere


def backend_is_chosen():
    """Whether somebody has chosen where work of joblib is done: inside `joblib.parallel_config("dask")`, say."""
    return joblib.parallel.get_active_backend()[1] not in (None, 1)


def _n_processes():
    backend, n_jobs = joblib.parallel.get_active_backend()
    return backend.effective_n_jobs(n_jobs)


def by_backend(question, model, items):
    """A list of answers about a list of items, in shares of these by the backend, if somebody has chosen one."""
    if not backend_is_chosen() or len(items) < 2:
        return question(model, items)
    alone = copy.copy(model).set_params(n_jobs=1)
    shares = np.array_split(np.arange(len(items)), min(len(items), 4 * _n_processes()))
    ask = joblib.delayed(question)
    return [answer for answers in joblib.Parallel()(ask(alone, [items[k] for k in share]) for share in shares) for answer in answers]


class Reading:
    """Rows of the native side, which are read anew in each process."""

    def __init__(self, rows, reader, columns, strict):
        self.rows, self._again = rows, (reader, columns, strict)

    def __reduce__(self):
        return _read_again, self._again


def _read_again(reader, columns, strict):
    return Reading(reader.read(columns, strict)[0], reader, columns, strict)


def native_of(arguments):
    """Arguments as the native side takes them."""
    return [argument.rows if isinstance(argument, Reading) else argument for argument in arguments]


def fit(native, arguments, how):
    """A fit whose parts (chains, starts, folds) are dealt out to as many processes as the backend has; the bits of one in one process.

    In each round a process makes those of its own parts that can be made from what all have made before, and answers with a checkpoint of them; the fit is put
    together here once nothing is missing. With `checkpoint=path` the answers of the last round stand in `path` + ".0" and so on, from which the same call goes on.
    """
    n = _n_processes()
    with tempfile.TemporaryDirectory(prefix="npb-") as folder:
        place = Path(folder, "fit") if how["checkpoint"] is None else Path(how["checkpoint"])
        found = {file for file in (place, *(place.with_name(f"{place.name}.{own}") for own in range(4096))) if file.exists()}
        # Of a part that one process had half made the whole one counts: the file of a fit that was not shared comes last.
        in_order = lambda: sorted(found, key=lambda file: (file == place, file))
        while True:
            answers = [file.read_bytes() for file in in_order()]
            made = joblib.Parallel()(joblib.delayed(_share_of_fit)(native, arguments, (own, n), answers) for own in range(n))
            for own, answer in enumerate(made):
                if answer is not None:
                    file = place.with_name(f"{place.name}.{own}")
                    file.write_bytes(answer)
                    found.add(file)
            try:
                whole = native.fit(*native_of(arguments), how | {"checkpoint": None, "share": (n, n, [str(file) for file in in_order()])})
            except Elsewhere:
                if made == [None] * n:
                    raise
                continue
            for file in found:
                file.unlink()
            return whole


def _share_of_fit(native, arguments, share, answers):
    """What a process makes of a fit in a round: its checkpoint; None where it has made nothing more."""
    with tempfile.TemporaryDirectory(prefix="npb-") as folder:
        found = [Path(folder, f"found-{k}") for k in range(len(answers))]
        for place, answer in zip(found, answers, strict=True):
            place.write_bytes(answer)
        own = Path(folder, "own")
        how = {"threads": 1, "progress": None, "checkpoint": str(own), "every": float("inf"), "share": (*share, [str(place) for place in found])}
        try:
            native.fit(*native_of(arguments), how)
        except Elsewhere:
            pass
        return own.read_bytes() if own.exists() else None
