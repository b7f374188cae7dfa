"""On several processes, by joblib and by Dask: chains are the bits of one fit, answers over parts those for the whole table; a worker that is killed changes nothing."""

import os
import signal
import sys
import threading

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from conftest import QUICK
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

LONG = {"burn_in": 1500, "keep": 1500, "thin": 1}
SETTINGS = dict(sweeps={"burn_in": 60, "keep": 60, "thin": 1}, stored_draws=10, n_jobs=1)


def one_chain(X, chain, kill=None):
    """A chain; the first worker that takes the one to be killed dies of it."""
    if kill is not None and not os.path.exists(kill):
        with open(kill, "x"):
            os.kill(os.getpid(), signal.SIGKILL)
    return BayesianMatrixCompletion(**SETTINGS, chain=chain).fit(X)


def assert_same(models, X):
    whole = BayesianMatrixCompletion(**SETTINGS, chains=len(models)).fit(X)
    pooled = BayesianMatrixCompletion.pooled(models)
    np.testing.assert_array_equal(pooled.complete(), whole.complete())
    for name, values in whole.scalars().items():
        np.testing.assert_array_equal(pooled.scalars()[name], values)


def test_chains_by_joblib(low_rank):
    X = low_rank[0]
    models = joblib.Parallel(n_jobs=2)(joblib.delayed(one_chain)(X, chain) for chain in range(2))
    assert_same(models, X)
    with pytest.raises(ValueError, match="other entries"):
        BayesianMatrixCompletion.pooled([models[0], one_chain(X[:-1], 1)])
    with pytest.raises(ValueError, match="there is none"):
        BayesianMatrixCompletion.pooled([])


def test_folds_by_joblib(moons):
    X, y, _ = moons
    model = IncompleteClassifier(**QUICK, n_jobs=1)
    apart = cross_val_score(model, X, y, cv=3, n_jobs=2)
    np.testing.assert_array_equal(apart, cross_val_score(model, X, y, cv=3))


TABLE = {"unlabelled_starts": [{"k_means": 1}, {"k_means": 2}], "max_iter": 20}
SHORT = {"burn_in": 10, "keep": 10, "thin": 1}


def fits(moons, low_rank):
    """Estimators whose fits have several parts, or one, and what they are fitted to."""
    X, y, full = moons
    rng = np.random.default_rng(3)
    labels = np.stack([full[:, 0] > 0, full[:, 1] > 0], axis=1).astype(int)
    picture = rng.normal(0.5, 0.1, (16, 16))
    yield IncompleteClassifier(starts=[{"per_class": 1}, {"per_class": 2}], folds=3, max_iter=30), (X, y), {}
    yield IncompleteMixture(**TABLE), (X,), {}
    yield IncompleteImputer(**TABLE), (X,), {}
    yield MultiTaskClassifier(max_iter=10, folds=2), (X, y), {"tasks": np.arange(120) % 2}
    yield GroupedClassifier(), (full, y), {"groups": np.arange(120) % 6}
    yield BayesianMatrixCompletion(sweeps=SHORT, stored_draws=5, chains=3), (low_rank[0],), {}
    yield HybridRecommender(like_from=0.0), (low_rank[0],), {}
    yield MixedTableModel(sweeps=SHORT, chains=2), (X,), {}
    yield MultiLabelLatentFeatures(max_iter=5), (full, labels), {}
    yield MaxMarginTopics(topics=3, max_iter=5), (rng.integers(0, 3, (40, 12)), np.arange(40) % 2), {}
    yield BetaProcessDenoiser(sweeps=SHORT, chains=2), (picture,), {}
    yield FactorAnalysis(sweeps=SHORT, chains=2), (full,), {}


@pytest.mark.parametrize("number", range(12))
def test_a_fit_is_shared_out_by_joblib_to_the_same_bits(tmp_path, moons, low_rank, number):
    model, data, more = list(fits(moons, low_rank))[number]
    clone(model).fit(*data, **more).save(tmp_path / "here")
    with joblib.parallel_config("loky", n_jobs=2):
        clone(model).fit(*data, **more).save(tmp_path / "away")
    assert (tmp_path / "here").read_bytes() == (tmp_path / "away").read_bytes()


def test_shared_work_goes_on_where_it_was(tmp_path, low_rank):
    """Of three chains one has been made elsewhere and one was stopped half-way; checkpoints of another fit are refused."""
    X = low_rank[0]
    # Long enough for the second chain to be heard of: the progress function is called every 50 ms.
    settings = dict(sweeps=LONG, stored_draws=10, n_jobs=1, chains=3)
    model = BayesianMatrixCompletion(**settings, checkpoint=tmp_path / "run")
    whole = BayesianMatrixCompletion(**settings).fit(X)

    def stop(part, step, share):
        if part != "chain 0":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clone(model).set_params(progress=stop).fit(X)
    with joblib.parallel_config("loky", n_jobs=2):
        found = model.fit(X)
        np.testing.assert_array_equal(found.complete(), whole.complete())
        assert list(tmp_path.iterdir()) == []
        rows, *ends = found.fold_in_rows(X[:7])
        assert rows == list(range(7))
        for one, wanted in zip(ends, whole.fold_in_rows(X[:7])[1:], strict=True):
            np.testing.assert_array_equal(one, wanted)
        (tmp_path / "run.0").write_bytes(b"no checkpoint")
        with pytest.raises(ValueError, match="not a saved npb model"):
            model.fit(X)
        with pytest.raises(ValueError, match="sweeps.thin"):
            clone(model).set_params(sweeps={"thin": 0}, checkpoint=None).fit(X)


def test_chains_by_dask_when_a_worker_is_killed(tmp_path, low_rank):
    distributed = pytest.importorskip("distributed")
    X = low_rank[0]
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)) as cluster,
        distributed.Client(cluster) as client,
    ):
        kill = str(tmp_path / "killed")
        futures = [client.submit(one_chain, X, chain, kill if chain == 1 else None, pure=False) for chain in range(3)]
        models = client.gather(futures)
        # A worker dies in each of two rounds.
        killed = []

        def kill_one():
            killed.append(next(nanny.pid for nanny in cluster.workers.values() if nanny.pid))
            os.kill(killed[-1], signal.SIGKILL)

        timers = [threading.Timer(after, kill_one) for after in (0.5, 4.0)]
        with joblib.parallel_config("dask"):
            for timer in timers:
                timer.start()
            away = BayesianMatrixCompletion(**SETTINGS | {"sweeps": LONG}, chains=3).fit(X)
            for timer in timers:
                timer.join()
            ends = away.fold_in_rows(X[:5])
    assert len(killed) == 2
    np.testing.assert_array_equal(away.complete(), BayesianMatrixCompletion(**SETTINGS | {"sweeps": LONG}, chains=3).fit(X).complete())
    np.testing.assert_array_equal(ends[1], away.fold_in_rows(X[:5])[1])
    assert os.path.exists(kill)
    assert_same(models, X)


def questions():
    """The module, where what it needs is there."""
    pytest.importorskip("dask.dataframe")
    from npb import distributed

    return distributed


def by_parts(X, parts, index=None):
    """A frame of Dask's in so many parts, of which the last one is empty."""
    import dask.dataframe as dd
    import pandas

    X = pandas.DataFrame(X) if not hasattr(X, "columns") else X
    X = X.rename(columns=str)
    cuts = np.linspace(0, len(X), parts).astype(int)
    pieces = [X.iloc[a:b] for a, b in zip(cuts, [*cuts[1:], len(X)], strict=True)]
    return dd.from_map(lambda piece: piece, pieces, meta=X.iloc[:0])


def assert_answer(found, wanted, index, columns=None):
    """What is computed of an answer has the kind that was promised, and these values."""
    done = found.compute(scheduler="synchronous")
    assert list(done.index) == list(index)
    np.testing.assert_array_equal(done.to_numpy(), wanted)
    if columns is not None:
        assert list(done.columns) == list(found.columns) == list(columns)
        assert list(done.dtypes) == list(found.dtypes)
    else:
        assert done.dtype == found.dtype


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_questions_over_parts(moons, parts):
    distributed = questions()
    import pandas

    X = pandas.DataFrame(moons[0], columns=["a", "b", "c"], index=np.arange(1000, 1120))
    split = by_parts(X, parts)
    model = IncompleteClassifier(**QUICK).fit(X, moons[1])
    assert_answer(distributed.predict(model, split), model.predict(X), X.index)
    assert_answer(distributed.predict_proba(model, split), model.predict_proba(X), X.index, ["flat", "tall"])
    assert_answer(distributed.score_samples(model, split), model.score_samples(X), X.index)
    for found, wanted in zip(distributed.predict_interval(model, split, level=0.8), model.predict_interval(X, 0.8), strict=True):
        assert_answer(found, wanted, X.index, ["flat", "tall"])
    for found, wanted in zip(distributed.impute(model, split), model.impute(X), strict=True):
        assert_answer(found, wanted, X.index, X.columns)
    mixture = IncompleteMixture(unlabelled_starts=[{"k_means": 2}], max_iter=20).fit(X)
    assert_answer(distributed.predict(mixture, split), mixture.predict(X), X.index)
    assert_answer(distributed.predict_proba(mixture, split), mixture.predict_proba(X), X.index, range(mixture.predict_proba(X).shape[1]))
    for found, wanted in zip(distributed.predict_interval(mixture, split), mixture.predict_interval(X), strict=True):
        assert_answer(found, wanted, X.index, X.columns)
    imputer = IncompleteImputer(unlabelled_starts=[{"k_means": 2}], max_iter=20, add_indicator=True).fit(X)
    assert_answer(distributed.transform(imputer, split), imputer.transform(X), X.index, imputer.get_feature_names_out())


def test_series_by_row_go_along(moons):
    distributed = questions()
    import pandas

    tasks = np.where(np.arange(120) % 3 == 0, "one", "two")
    X = pandas.DataFrame(moons[0], columns=["a", "b", "c"])
    model = MultiTaskClassifier(max_iter=20, folds=0).fit(X, moons[1], tasks=tasks)
    both = by_parts(X.assign(task=tasks), 4)
    split = both[["a", "b", "c"]]
    assert_answer(distributed.predict_proba(model, split, tasks=both["task"]), model.predict_proba(X, tasks), X.index, ["flat", "tall"])
    with pytest.raises(ValueError, match="tasks: it has 3 parts, X has 4"):
        distributed.predict_proba(model, split, tasks=by_parts(X.assign(task=tasks), 3)["task"])


def test_a_mixed_table_over_parts():
    distributed = questions()
    import pandas

    rng = np.random.default_rng(2)
    town = rng.choice(["north", "south"], 90)
    frame = pandas.DataFrame({
        "town": pandas.Categorical(np.where(rng.random(90) < 0.1, None, town)),
        "area": np.where(rng.random(90) < 0.2, np.nan, rng.normal(60, 10, 90) + 30 * (town == "north")),
        "rooms": pandas.array(np.where(rng.random(90) < 0.2, None, rng.integers(1, 9, 90)), dtype="Int64"),
    })
    model = MixedTableModel(sweeps={"burn_in": 20, "keep": 20, "thin": 1}, chains=1).fit(frame)
    split = by_parts(frame, 5)
    wanted, found = model.impute(frame), distributed.impute(model, split)
    done = found.compute(scheduler="synchronous")
    assert dict(done.dtypes) == dict(found.dtypes)
    assert done["town"].tolist() == wanted["town"].tolist()
    for name in ("area", "rooms"):
        np.testing.assert_array_equal(done[name].to_numpy(float), wanted[name].to_numpy(float))
    assert_answer(distributed.score_samples(model, split), model.score_samples(frame), frame.index)


def test_lists_over_parts(low_rank):
    distributed = questions()
    import pandas

    users = pandas.DataFrame({"user": [3, 0, 17, 39]})
    for model in (BayesianMatrixCompletion(**SETTINGS).fit(low_rank[0]), HybridRecommender(like_from=0.5).fit(low_rank[0])):
        found = distributed.recommend(model, by_parts(users, 3)["user"], n=4)
        done = found.compute(scheduler="synchronous")
        assert dict(done.dtypes) == dict(found.dtypes)
        wanted = [{"user": user, **choice} for user in users["user"] for choice in model.recommend(user, 4)]
        assert done.to_dict("records") == wanted


def test_files_over_parts_and_what_is_wrong_with_them(tmp_path, moons):
    distributed = questions()
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    import pyarrow

    X = pandas.DataFrame(moons[0], columns=["a", "b", "c"])
    model = IncompleteMixture(unlabelled_starts=[{"k_means": 2}], max_iter=20).fit(X)

    def written(name, frame):
        parquet.write_table(pyarrow.Table.from_pandas(frame, preserve_index=False), tmp_path / name, row_group_size=25)
        return tmp_path / name

    files = [written("one.parquet", X[:70]), written("two.parquet", X[70:])]
    assert_answer(distributed.score_samples(model, files), model.score_samples(X), range(120))
    assert_answer(distributed.score_samples(model, str(files[0])), model.score_samples(X[:70]), range(70))
    wrong = X[:60].copy()
    wrong.iloc[30, 1] = np.inf
    with pytest.raises(ValueError, match=r"wrong.parquet, row group 1: .*row 5, column .*b"):
        distributed.score_samples(model, [files[0], written("wrong.parquet", wrong)]).compute(scheduler="synchronous")
    with pytest.raises(ValueError, match=r"texts.parquet: column 'b' is of type"):
        distributed.score_samples(model, [files[0], written("texts.parquet", X.assign(b="x"))])
    with pytest.raises(ValueError, match=r"other.parquet: its columns are \['a', 'z', 'c'\]"):
        distributed.score_samples(model, [files[0], written("other.parquet", X.rename(columns={"b": "z"}))])
    with pytest.raises(ValueError, match=r"empty.parquet: there are no rows"):
        distributed.score_samples(model, written("empty.parquet", X[:0]))
    with pytest.raises(TypeError, match="X is ndarray: it must be a dask.dataframe"):
        distributed.score_samples(model, moons[0])
    with pytest.raises(FileNotFoundError):
        distributed.score_samples(model, tmp_path / "nowhere.parquet")


def test_questions_on_workers(tmp_path, moons):
    distributed = pytest.importorskip("distributed")
    asked = questions()
    X = moons[0]
    model = IncompleteImputer(unlabelled_starts=[{"k_means": 2}], max_iter=20).fit(X)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)) as cluster,
        distributed.Client(cluster),
    ):
        import pandas

        table = pandas.DataFrame(X, columns=["x0", "x1", "x2"])
        mean, sd = asked.impute(IncompleteImputer(unlabelled_starts=[{"k_means": 2}], max_iter=20).fit(table), by_parts(table, 6))
        wanted = model.impute(X)
        np.testing.assert_array_equal(mean.compute(), wanted[0])
        np.testing.assert_array_equal(sd.compute(), wanted[1])


def test_without_dask_it_is_said(monkeypatch, moons):
    from npb import distributed

    monkeypatch.setitem(sys.modules, "dask", None)
    model = IncompleteImputer(unlabelled_starts=[{"k_means": 1}], max_iter=5).fit(moons[0])
    with pytest.raises(ImportError, match=r"need the packages dask, pandas and pyarrow: pip install npb\[dask\]"):
        distributed.impute(model, "rows.parquet")


def test_another_version_on_a_worker_is_refused(moons):
    from npb import distributed

    shipped = distributed._Shipped(IncompleteImputer(unlabelled_starts=[{"k_means": 1}], max_iter=5).fit(moons[0]))
    shipped.version = "0.0.1"
    with pytest.raises(RuntimeError, match="the estimator is of npb 0.0.1, this worker has npb"):
        shipped.model
