"""Segments of photographs (2,310 segments, 19 descriptors, 30% of the cells taken away): clusters, strange rows, few factors.

Usage: NPB_DATA_DIR=... python clusters.py [FOLDER] (figures are written there)
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from npb import FactorAnalysis, IncompleteImputer, IncompleteMixture, plots

table = pd.read_csv(Path(os.environ["NPB_DATA_DIR"]) / "segment" / "segment.csv", skipinitialspace=True)
kind, full = table.pop("label").to_numpy(), table.drop(columns="REGION-PIXEL-COUNT")
rng = np.random.default_rng(0)
hidden = rng.random(full.shape) < 0.3
X = full.mask(hidden)

mixture = IncompleteMixture(unlabelled_starts=[{"k_means": 20}]).fit(X)
clusters = mixture.predict(X)
print(f"{mixture.n_clusters_} clusters; adjusted Rand index with the seven kinds of segments {adjusted_rand_score(kind, clusters):.2f}")

# Rows made of the cells of different rows: every cell is usual, the row is not.
mixed = X.apply(lambda column: rng.permutation(column.to_numpy()))
scores = np.concatenate([mixture.score_samples(X), mixture.score_samples(mixed)])
print(f"AUC of log densities, rows against shuffled ones: {roc_auc_score(np.repeat([1, 0], len(X)), scores):.3f}")

scale = full.std().to_numpy()
analysis = FactorAnalysis(atoms=15, sweeps={"burn_in": 150, "keep": 100, "thin": 1}, stored_draws=10).fit(X / scale)
imputer = IncompleteImputer(unlabelled_starts=[{"k_means": 20}]).fit(X)
found = {"factors": analysis.impute(X / scale) * scale, "mixture": imputer.transform(X), "means": np.broadcast_to(X.mean(), X.shape)}
for name, done in found.items():
    error = np.abs((np.asarray(done) - full.to_numpy()) / scale)[hidden].mean()
    print(f"hidden cells by {name}: mean absolute error {error:.3f} standard deviations")
print(f"{analysis.n_used_.min()} to {analysis.n_used_.max()} factors of 15 used")
if len(sys.argv) > 1:
    out = Path(sys.argv[1])
    row, column = np.argwhere(hidden)[0]
    ax = plots.imputed_cell(imputer.sample_missing(X.iloc[[row]], 500)[:, 0, column])
    ax.axvline(full.iat[row, column], color="black", linestyle=":")
    ax.set_xlabel(f"{full.columns[column]} of row {row} (dotted: what was hidden)")
    ax.figure.savefig(out / "clusters-cell.png", dpi=100)
    ax = plt.subplots(layout="constrained")[1]
    ax.hist([scores[: len(X)], scores[len(X) :]], bins=60, range=(-150, 100), label=["rows", "shuffled rows"])
    ax.set(xlabel="log density of the observed cells (nats)", ylabel="rows")
    ax.legend()
    ax.figure.savefig(out / "clusters-density.png", dpi=100)
