"""Seconds per iteration of scikit-learn's BayesianGaussianMixture (the mixture alone, no labels, complete data), 20 components.

The rows are those of benches/iqgme.rs, setting "complete_16", up to the random numbers. One thread:
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python3 benches/scikit_learn.py
"""

import time
import warnings

import numpy as np
from sklearn.mixture import BayesianGaussianMixture

COMPONENTS, FEATURES, SPREAD = 20, 16, 3.0
SHORT, LONG = 2, 12

warnings.filterwarnings("ignore")  # Neither fit converges, and is not meant to.


def seconds(rows, iterations):
    model = BayesianGaussianMixture(
        n_components=COMPONENTS,
        max_iter=iterations,
        tol=0.0,
        init_params="random_from_data",
        random_state=0,
    )
    start = time.process_time()
    model.fit(rows)
    return time.process_time() - start


for n_rows in (10_000, 100_000):
    rng = np.random.default_rng(1)
    centres = SPREAD * rng.standard_normal((COMPONENTS, FEATURES))
    rows = centres[np.arange(n_rows) % COMPONENTS] + rng.standard_normal((n_rows, FEATURES))
    best = {n: min(seconds(rows, n) for _ in range(3)) for n in (SHORT, LONG)}
    print(n_rows, "rows:", (best[LONG] - best[SHORT]) / (LONG - SHORT), "s per iteration")
