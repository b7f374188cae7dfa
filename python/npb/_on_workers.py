"""Work on a Dask cluster for a fit of this process: tasks whose results stay on the workers, and what is asked of them."""

import functools
import operator
import weakref

from npb import _native

_POLL = 0.2


class OnWorkers:
    """Tasks for workers, and their results. Nothing is left on the cluster when it is closed."""

    def __init__(self, client, has_checkpoint):
        # What an interrupted fit has reached is written to its checkpoint, if it has one: that takes the answers of an iteration.
        self.client, self.waits = client, has_checkpoint
        self._made = weakref.WeakSet()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        _release(self._made)

    def compute(self, delayed):
        return self._noted(self.client.compute(delayed))

    def submit(self, task, *arguments, **where):
        return self._noted(self.client.submit(task, *arguments, pure=False, **where))

    def evenly(self, n):
        """Where each of `n` equal tasks is best done: what is made there is asked again and again, and idle workers would take it away. Where a worker is gone, another does its tasks."""
        addresses = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not addresses:
            return [{}] * n
        return [{"workers": [addresses[k * len(addresses) // n]], "allow_other_workers": True} for k in range(n)]

    def _noted(self, future):
        self._made.add(future)
        return future

    def parts_of(self, pairs):
        """The parts of results that are tuples, as results of their own: `pairs` of a result and a position."""
        return [self.submit(operator.itemgetter(k), both) for both, k in pairs]

    def broadcast(self, data):
        """One task that holds bytes: where a worker is lost, they are there for what is done again."""
        return self.submit(_Holds(data))

    def gathered(self, futures, interrupted=None):
        """The results of tasks; ends early when the fit is interrupted."""
        import distributed

        try:
            while True:
                # One that has lost its scheduler for a moment is connecting.
                if self.client.status in ("closed", "closing"):
                    raise RuntimeError(f"the Dask client is {self.client.status}: give one that is connected")
                try:
                    distributed.wait(futures, timeout=_POLL)
                    return self.client.gather(futures)
                except TimeoutError:
                    if interrupted is not None and interrupted() and not self.waits:
                        raise RuntimeError("interrupted") from None
        except BaseException:
            _release(futures)
            raise


def _release(futures):
    """Nobody waits for these any more: what is not begun is not done, and what is there is forgotten."""
    # A client's `cancel` trips over what was cancelled along with something else.
    for future in list(futures):
        future.release()


class _Holds:
    """A task that gives bytes."""

    def __init__(self, data):
        self.data = data

    def __call__(self):
        return self.data


def check_version(version):
    """Raises RuntimeError on a worker with another version of npb than the client's."""
    if version != _native.VERSION:
        raise RuntimeError(f"the client has npb {version}, this worker has npb {_native.VERSION}: install the same on all machines")


def in_part(question):
    """A task whose errors name the part that is its first argument."""

    @functools.wraps(question)
    def named(name, *arguments):
        try:
            return question(name, *arguments)
        except (TypeError, ValueError, LookupError) as error:
            raise ValueError(f"{name}: {error}") from None

    return named
