"""Landmines (radar images of 29 fields, 9 features): what fields share when 40 objects of each were dug up.

Usage: NPB_DATA_DIR=... python tasks.py [FOLDER] (figures are written there)
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from npb import MultiTaskClassifier, plots

table = np.loadtxt(Path(os.environ["NPB_DATA_DIR"]) / "landmine" / "landmine.csv.gz", delimiter=",", skiprows=1)
# The 19 fields of the paper: 1 to 10 with foliage, 16 to 24 bare.
table = table[np.isin(table[:, 0], [*range(1, 11), *range(16, 25)])]
field, y, X = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2:]
rng = np.random.default_rng(0)
seen = np.zeros(len(y), dtype=bool)
for one in np.unique(field):
    # As many mines as among all of them, but at least one.
    for label in (0, 1):
        rows = np.flatnonzero((field == one) & (y == label))
        seen[rng.permutation(rows)[: max(1, round(40 * len(rows) / np.sum(field == one)))]] = True

model = MultiTaskClassifier().fit(X[seen], y[seen], field[seen])
mine = model.predict_proba(X[~seen], field[~seen])[:, 1]
apart, pooled = np.empty(len(mine)), LogisticRegression(max_iter=1000).fit(X[seen], y[seen]).predict_proba(X[~seen])[:, 1]
for one in np.unique(field):
    own = LogisticRegression(max_iter=1000).fit(X[seen & (field == one)], y[seen & (field == one)])
    apart[field[~seen] == one] = own.predict_proba(X[~seen & (field == one)])[:, 1]


def auc(p):
    """Mean over fields."""
    return np.mean([roc_auc_score(y[~seen & (field == one)], p[field[~seen] == one]) for one in np.unique(field)])


print(f"{seen.sum()} rows of {len(y)} seen; mean AUC of {len(model.tasks_)} fields: {auc(mine):.3f}; logistic regressions {auc(apart):.3f} apart, {auc(pooled):.3f} pooled")
similarity = model.similarity()
foliage = model.tasks_ <= 10
print(f"similarity of fields with foliage {similarity[np.ix_(foliage, foliage)].mean():.2f}, of bare ones {similarity[np.ix_(~foliage, ~foliage)].mean():.2f}, "
      f"of one with the other {similarity[np.ix_(foliage, ~foliage)].mean():.2f}")
if len(sys.argv) > 1:
    out = Path(sys.argv[1])
    plots.calibration(y[~seen], mine).figure.savefig(out / "tasks-calibration.png", dpi=100)
    ax = plt.subplots(layout="constrained")[1]
    image = ax.imshow(similarity, vmin=0, vmax=1)
    ax.set_xticks(range(len(model.tasks_)), model.tasks_)
    ax.set_yticks(range(len(model.tasks_)), model.tasks_)
    ax.figure.colorbar(image, ax=ax, label="similarity of fields")
    ax.figure.savefig(out / "tasks-similarity.png", dpi=100)
