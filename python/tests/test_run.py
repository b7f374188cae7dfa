"""Fits that are watched, stopped, resumed; threads and memory."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from conftest import QUICK

import npb
from npb import (
    BayesianMatrixCompletion,
    BetaProcessDenoiser,
    FactorAnalysis,
    GroupedClassifier,
    HybridRecommender,
    IncompleteClassifier,
    IncompleteImputer,
    IncompleteMixture,
    MaxMarginTopics,
    MixedTableModel,
    MultiLabelLatentFeatures,
    MultiTaskClassifier,
)

# Fits that would take minutes.
LONG = dict(sweeps={"burn_in": 10_000_000, "keep": 10, "thin": 1})


def threads():
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else threading.active_count()


def are_back(before):
    """Whether there are no more threads than before: one that has been joined is listed for a moment longer."""
    for _ in range(50):
        if threads() <= before:
            return True
        time.sleep(0.02)
    return False


def test_progress_rises_to_one(low_rank):
    heard = []
    sweeps = {"burn_in": 200, "keep": 200, "thin": 1}
    BayesianMatrixCompletion(sweeps=sweeps, progress=lambda *told: heard.append(told)).fit(low_rank[0])
    shares = [share for _, _, share in heard]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert heard[-1][1] == 400


def test_an_error_of_the_progress_function_ends_the_fit(low_rank):
    def fail(part, step, share):
        raise LookupError("enough")

    before = threads()
    with pytest.raises(LookupError, match="enough"):
        BayesianMatrixCompletion(**LONG, progress=fail).fit(low_rank[0])
    assert are_back(before)


def interrupted(fit):
    """Seconds from Ctrl-C to KeyboardInterrupt."""
    pressed = []

    def press():
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    before = threads()
    timer = threading.Timer(1.0, press)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            fit()
        late = time.perf_counter() - pressed[0]
    finally:
        # A fit that failed at once must not end the tests that follow.
        timer.cancel()
        timer.join()
    assert are_back(before)
    return late


def test_ctrl_c_ends_a_fit_and_keeps_its_checkpoint(tmp_path, low_rank):
    path = tmp_path / "checkpoint"
    model = BayesianMatrixCompletion(**LONG, checkpoint=path, checkpoint_every=0.1)
    interrupted(lambda: model.fit(low_rank[0]))
    assert path.exists() and not hasattr(model, "_fit")


def long_fits():
    """A fit of every estimator that would take minutes, on small tables."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(400, 6))
    y = np.where(X[:, 0] * X[:, 1] > 0, "a", "b")
    likes = np.where(rng.random((300, 200)) < 0.3, (rng.random((300, 200)) < 0.5).astype(float), np.nan)
    sweeps, endless = {"burn_in": 10_000_000, "keep": 10, "thin": 1}, dict(max_iter=100_000, tol=1e-300)
    many = dict(restarts=500, **endless)
    table = np.column_stack([X, np.round(5 + X[:, 0])])
    return {
        "IncompleteClassifier": lambda: IncompleteClassifier(starts=[{"k_means": 3}], **many).fit(X, y),
        "IncompleteMixture": lambda: IncompleteMixture(unlabelled_starts=[{"k_means": 8}], **many).fit(X),
        "IncompleteImputer": lambda: IncompleteImputer(unlabelled_starts=[{"k_means": 8}], **many).fit(X),
        "MultiTaskClassifier": lambda: MultiTaskClassifier(**many).fit(X, y, tasks=np.repeat(["s", "t"], 200)),
        "GroupedClassifier": lambda: GroupedClassifier(max_iter=10_000_000, tol=0.0).fit(X, y, np.repeat(np.arange(20), 20)),
        "BayesianMatrixCompletion": lambda: BayesianMatrixCompletion(**LONG).fit(X),
        "HybridRecommender": lambda: HybridRecommender(base={"learned": {"limits": {"max_iterations": 100_000, "tolerance": 0.0}}}).fit(likes),
        "MultiLabelLatentFeatures": lambda: MultiLabelLatentFeatures(inputs="none", **endless).fit(X, (X[:, :3] > 0).astype(float)),
        "MaxMarginTopics": lambda: MaxMarginTopics(topics=8, **endless).fit(rng.poisson(1.0, size=(400, 300)), y),
        "BetaProcessDenoiser": lambda: BetaProcessDenoiser(sweeps=sweeps).fit(rng.normal(size=(64, 64))),
        "FactorAnalysis": lambda: FactorAnalysis(sweeps=sweeps).fit(X),
        "MixedTableModel": lambda: MixedTableModel(sweeps=sweeps).fit(table),
    }


def test_every_estimator_has_a_long_fit():
    assert sorted(long_fits()) == sorted(npb.__all__)


@pytest.mark.parametrize("name", npb.__all__)
def test_ctrl_c_ends_every_fit(name):
    # To be read with `pytest -rP`; a fit that does not hear of it would go on for minutes and raise nothing.
    print(f"{name}: {interrupted(long_fits()[name]):.2f} s from Ctrl-C to KeyboardInterrupt")


def test_a_fit_goes_on_from_its_checkpoint(tmp_path, low_rank):
    X, path = low_rank[0], tmp_path / "checkpoint"
    settings = dict(sweeps={"burn_in": 300, "keep": 300, "thin": 1}, stored_draws=10)
    whole = BayesianMatrixCompletion(**settings).fit(X).complete()

    def stop(part, step, share):
        if share > 0.3:
            raise LookupError

    with pytest.raises(LookupError):
        BayesianMatrixCompletion(**settings, checkpoint=path, checkpoint_every=0.0, progress=stop).fit(X)
    assert path.exists()
    with pytest.raises(ValueError, match="other data or another configuration"):
        BayesianMatrixCompletion(**settings, random_state=1, checkpoint=path).fit(X)
    resumed = BayesianMatrixCompletion(**settings, checkpoint=path).fit(X)
    np.testing.assert_array_equal(resumed.complete(), whole)
    assert not path.exists()


def test_no_thread_is_left_behind(moons):
    before = threads()
    model = IncompleteMixture(unlabelled_starts=[{"k_means": 2}]).fit(moons[0])
    model.score_samples(moons[0])
    assert are_back(before)


def test_other_threads_run_while_a_fit_does(low_rank):
    count = 0
    done = threading.Event()

    def tick():
        nonlocal count
        while not done.is_set():
            count += 1
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    BayesianMatrixCompletion(sweeps={"burn_in": 1000, "keep": 100, "thin": 1}).fit(low_rank[0])
    done.set()
    ticker.join()
    assert count > 10


def test_a_float64_table_is_not_copied_in_python(moons):
    X = np.ascontiguousarray(moons[2])
    model = IncompleteMixture(unlabelled_starts=[{"k_means": 2}]).fit(X)
    assert np.shares_memory(model._table(X), X)


def test_memory_mapped_and_transposed_tables(tmp_path, moons):
    X, y, _ = moons
    fit = lambda table: IncompleteClassifier(**QUICK).fit(table, y).predict_proba(table)
    whole = fit(X)
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(fit(np.load(tmp_path / "x.npy", mmap_mode="r")), whole)
    np.testing.assert_array_equal(fit(np.asfortranarray(X)), whole)
    single = X.astype(np.float32)
    np.testing.assert_array_equal(fit(single), fit(single.astype(np.float64)))
