"""Chains on several processes, by joblib and by Dask: the bits of one fit; a worker that is killed changes nothing."""

import os
import signal

import joblib
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from conftest import QUICK
from npb import BayesianMatrixCompletion, IncompleteClassifier

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
    assert os.path.exists(kill)
    assert_same(models, X)
