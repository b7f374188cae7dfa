"""Small tables with known structure."""

import os
import signal

import numpy as np
import pytest


def two_moons(n=120, missing=0.2, seed=0):
    """Two classes in four clusters, with holes, and the complete table."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-3.0, 0.0, 1.0], [3.0, 0.0, -1.0], [0.0, 3.0, 0.5], [0.0, -3.0, -0.5]])
    cluster = rng.integers(4, size=n)
    full = centres[cluster] + rng.normal(size=(n, 3))
    y = np.where(cluster < 2, "flat", "tall")
    X = np.where(rng.random(full.shape) < missing, np.nan, full)
    return X, y, full


@pytest.fixture(scope="session")
def moons():
    return two_moons()


@pytest.fixture(scope="session")
def low_rank():
    """A rank-2 matrix with 40% of its entries seen, and itself."""
    rng = np.random.default_rng(1)
    full = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 25)) + 0.05 * rng.normal(size=(40, 25))
    return np.where(rng.random(full.shape) < 0.6, np.nan, full), full


# Fits that take a fraction of a second; what is tested here is the way to them.
QUICK = dict(folds=0, normal_scores=False, starts=[{"per_class": 2}], max_iter=60)


@pytest.fixture
def ctrl_c():
    """A progress function that presses Ctrl-C, which means what it does in a fresh interpreter."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda part, step, share: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)
