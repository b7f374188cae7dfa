"""Fits of rows that lie on the workers of a Dask cluster: the bits of one process, whatever the parts, and whatever happens to the workers."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from npb import FactorAnalysis, IncompleteClassifier, IncompleteImputer, IncompleteMixture, _native, _on_workers, _rows_in_shards

pandas = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
questions = pytest.importorskip("npb.distributed")

COLUMNS = ["a", "b", "c"]
QUICK = dict(folds=2, starts=[{"per_class": 2}], max_iter=4, tol=1e-12, n_jobs=1)
ALONE = dict(unlabelled_starts=[{"k_means": 3}], max_iter=4, tol=1e-12, n_jobs=1)


def table(n):
    """Three clusters, a tenth of the cells missing, a class of each row but for some that have none."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3)) + 3.0 * rng.integers(3, size=n)[:, None]
    frame = pandas.DataFrame(np.where(rng.random(X.shape) < 0.1, np.nan, X), columns=COLUMNS)
    labels = np.where(X[:, 0] > X[:, 1], "more", "less").astype(object)
    labels[::11] = None
    return frame.assign(y=labels)


def cluster(n_workers, folder):
    return distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(folder))


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with cluster(2, tmp_path_factory.mktemp("dask")) as workers, distributed.Client(workers) as client:
        yield client


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(_rows_in_shards, "SHARD_ROWS", 500)


def cut(frame, parts):
    ends = np.linspace(0, len(frame), parts + 1).astype(int)
    return dd.concat([dd.from_pandas(frame.iloc[a:b], npartitions=1, sort=False) for a, b in zip(ends, ends[1:])]) if parts > 1 else dd.from_pandas(frame, npartitions=1)


def assert_empty(client):
    """Nothing is left to be done, and nothing held; the scheduler hears of it a little later."""
    for _ in range(100):
        if not any(client.processing().values()) and not any(client.who_has().values()):
            return
        time.sleep(0.1)
    raise AssertionError((client.processing(), client.who_has()))


def bits(model):
    return model._fit.to_bytes()


@pytest.mark.skipif("NPB_DATA_DIR" not in os.environ, reason="NPB_DATA_DIR does not say where the data are")
def test_ionosphere_in_parts_has_the_bits_of_the_whole(client):
    file = Path(os.environ["NPB_DATA_DIR"]) / "ionosphere" / "ionosphere.data"
    frame = pandas.read_csv(file, header=None, names=[f"x{k}" for k in range(34)] + ["y"])
    here = IncompleteClassifier(n_jobs=1).fit(frame.drop(columns="y"), frame["y"])
    for parts in (1, 2, 3, 7):
        assert bits(questions.fit(IncompleteClassifier(n_jobs=1), cut(frame, parts), "y", client=client)) == bits(here), parts


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_bits_of_one_process(client, tmp_path):
    frame = table(_native.SHARD_ROWS + 9000)
    here = IncompleteClassifier(**QUICK).fit(frame[COLUMNS], frame["y"])
    alone = IncompleteMixture(**ALONE).fit(frame[COLUMNS])
    away = questions.fit(IncompleteClassifier(**QUICK), cut(frame, 3), "y", client=client)
    assert bits(away) == bits(here) and away.classes_.tolist() == ["less", "more"]
    assert away.feature_names_in_.tolist() == COLUMNS and away.n_iter_ == here.n_iter_
    np.testing.assert_array_equal(away.predict_proba(frame[COLUMNS][:50]), here.predict_proba(frame[COLUMNS][:50]))
    for k, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"{k}.parquet", row_group_size=20_000, index=False)
    files = [tmp_path / f"{k}.parquet" for k in range(3)]
    assert bits(questions.fit(IncompleteClassifier(**QUICK), files, "y", client=client)) == bits(here)
    away = questions.fit(IncompleteMixture(**ALONE), cut(frame[COLUMNS], 7), client=client)
    assert bits(away) == bits(alone)
    away.save(tmp_path / "fit.npb")
    assert bits(IncompleteMixture.load(tmp_path / "fit.npb")) == bits(alone)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_a_small_table_is_fitted_by_one_worker(client, parts):
    frame = table(300)
    here = IncompleteClassifier(**QUICK).fit(frame[COLUMNS], frame["y"])
    split = cut(frame, parts)
    away = questions.fit(IncompleteClassifier(**QUICK | {"n_jobs": 2}), split, "y")
    assert bits(away) == bits(here) and away.n_jobs == 2 and away.classes_.tolist() == here.classes_.tolist()
    assert bits(questions.fit(IncompleteClassifier(**QUICK), split[COLUMNS], split["y"], client=client)) == bits(here)
    imputed = questions.fit(IncompleteImputer(**ALONE), split[COLUMNS]).transform(frame[COLUMNS])
    np.testing.assert_array_equal(imputed, IncompleteImputer(**ALONE).fit(frame[COLUMNS]).transform(frame[COLUMNS]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_parts_need_not_have(client, small_shards):
    """An empty part, a part without a value of a column, a class of one part alone, labels that are numbers: bits do not depend on the parts."""
    frame = table(1600)
    frame.loc[:399, "b"] = np.nan
    frame["y"] = np.where(np.arange(1600) >= 1500, 7, np.where(frame["a"] > 3.0, 2, 1))
    one = questions.fit(IncompleteClassifier(**QUICK), cut(frame, 1), "y", client=client)
    split = dd.concat([cut(frame.iloc[:400], 1), cut(frame.iloc[:0], 1), cut(frame.iloc[400:], 4)])
    many = questions.fit(IncompleteClassifier(**QUICK), split, "y", client=client)
    assert bits(many) == bits(one) and many.classes_.tolist() == [1, 2, 7] and many.classes_.dtype.kind == "i"
    assert_empty(client)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_workers_that_are_killed(tmp_path, small_shards):
    frame = table(2500)
    settings = QUICK | {"max_iter": 60}
    with cluster(2, tmp_path) as workers, distributed.Client(workers) as client:
        whole = questions.fit(IncompleteClassifier(**settings), cut(frame, 3), "y", client=client)
        killed = []

        def kill(part, step, share):
            # One after some iterations, one more after others.
            if part == "member 0" and step >= (5, 25, np.inf)[len(killed)]:
                killed.append(next(nanny.pid for nanny in workers.workers.values() if nanny.pid and nanny.pid not in killed))
                os.kill(killed[-1], signal.SIGKILL)

        again = questions.fit(IncompleteClassifier(**settings, progress=kill), cut(frame, 3), "y", client=client)
    assert len(killed) == 2 and bits(again) == bits(whole)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_goes_on_when_the_whole_cluster_is_gone(tmp_path, client, small_shards):
    frame = table(1500)
    settings = QUICK | {"max_iter": 25}
    whole = questions.fit(IncompleteClassifier(**settings), cut(frame, 2), "y", client=client)
    path = tmp_path / "checkpoint"

    def stop(part, step, share):
        if step >= 8:
            raise KeyboardInterrupt

    stopped = IncompleteClassifier(**settings, checkpoint=path, progress=stop)
    with cluster(1, tmp_path / "first") as workers, distributed.Client(workers) as first:
        with pytest.raises(KeyboardInterrupt):
            questions.fit(stopped, cut(frame, 2), "y", client=first)
        assert_empty(first)
    assert path.exists() and not hasattr(stopped, "_fit")
    stopped.set_params(progress=False)
    away = questions.fit(stopped, cut(frame, 5), "y", client=client)
    assert bits(away) == bits(whole) and not path.exists()


def test_ctrl_c_leaves_no_work(client, small_shards, ctrl_c):
    """Pressed when the fit is under way, and long enough for that."""
    settings = ALONE | {"max_iter": 2000, "tol": 1e-300}
    model = IncompleteMixture(**settings, progress=ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        questions.fit(model, cut(table(3000)[COLUMNS], 2), client=client)
    assert_empty(client)


def test_what_is_wrong_is_said_with_its_part(tmp_path, client, small_shards):
    frame = table(1500)

    def message(X, y="y", model=None, error=ValueError):
        with pytest.raises(error) as raised:
            questions.fit(model or IncompleteClassifier(**QUICK), X, y, client=client)
        return str(raised.value)

    far = frame.copy()
    far.loc[1300, "b"] = np.inf
    assert "part 2: row 300, column 'b' is inf" in message(cut(far, 3))
    assert "column 'c' is of type" in message(cut(frame.assign(c="text"), 2))
    assert "there is no such column" in message(cut(frame, 2), "z")
    assert "y has 3 parts, X has 2" in message(cut(frame[COLUMNS], 2), cut(frame, 3)["y"])
    assert "1 class only, 'one'" in message(cut(frame.assign(y="one"), 2))
    assert "all rows" in message(cut(frame.assign(y=np.nan), 2))
    assert "target y is None" in message(cut(frame[COLUMNS], 2), None)
    assert "IncompleteMixture has no labels" in message(cut(frame, 2), "y", IncompleteMixture(**ALONE))
    assert "no rows in any part" in message(cut(frame.iloc[:0], 1))
    assert "add_indicator" in message(cut(frame[COLUMNS], 2), None, IncompleteImputer(add_indicator=True))
    assert "truncation" in message(cut(frame, 2), "y", IncompleteClassifier(truncation=0))
    assert "it must be a dask.dataframe" in message(frame, error=TypeError)
    assert "an empty list" in message([], error=TypeError)
    assert "it must be the name of a column of X" in message(cut(frame[COLUMNS], 2), frame["y"], error=TypeError)
    assert "y=3: there is no such column" in message(cut(frame, 2), 3)
    assert "X is a series" in message(cut(frame, 2)["a"], None, IncompleteMixture(**ALONE), TypeError)
    assert "no column of numbers" in message(cut(frame[["y"]], 2))
    assert "n_jobs='a'" in message(cut(frame[:200], 1), "y", IncompleteClassifier(n_jobs="a"))
    assert "none.parquet: there is no such file" in message(tmp_path / "none.parquet", error=FileNotFoundError)
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")
    assert "text.parquet: cannot be read as Parquet" in message(tmp_path / "text.parquet")
    assert "list the files" in message(tmp_path)
    with pytest.raises(TypeError, match="client is str"):
        questions.fit(IncompleteMixture(), cut(frame[COLUMNS], 2), client="tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match="columns: they are those of a matrix"):
        questions.fit(IncompleteMixture(), cut(frame[COLUMNS], 2), columns=["a"], client=client)
    assert "FactorAnalysis has no fit over parts" in message(cut(frame, 2), None, FactorAnalysis(), TypeError)
    for k, part in enumerate((frame, frame.assign(b=frame["b"].astype("float32")), frame.rename(columns={"b": "d"}))):
        part.to_parquet(tmp_path / f"{k}.parquet", row_group_size=400, index=False)
    assert "1.parquet: column 'b' is of type float32" in message([tmp_path / "0.parquet", tmp_path / "1.parquet"])
    assert "2.parquet: its columns are" in message([tmp_path / "0.parquet", tmp_path / "2.parquet"])
    far.to_parquet(tmp_path / "far.parquet", row_group_size=400, index=False)
    assert "far.parquet, row group 3: row 100, column 'b' is inf" in message(tmp_path / "far.parquet")
    with pytest.raises(RuntimeError, match="the client has npb 0, this worker has npb"):
        client.submit(_on_workers.check_version, "0").result()


def test_a_client_that_is_closed(tmp_path):
    with cluster(1, tmp_path) as workers:
        client = distributed.Client(workers)
        client.close()
        with pytest.raises(RuntimeError, match="the Dask client is closed"):
            questions.fit(IncompleteMixture(), cut(table(100)[COLUMNS], 1), client=client)
