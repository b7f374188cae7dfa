"""Hepatitis (155 patients, 19 findings, 6% of them missing): who dies, how sure is that, and what the missing findings may be.

Usage: NPB_DATA_DIR=... python classify.py [FOLDER] (figures are written there)
"""

import os
import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from npb import IncompleteClassifier, IncompleteImputer, plots

file = Path(os.environ["NPB_DATA_DIR"]) / "hepatitis" / "hepatitis.data"
table = np.genfromtxt(file, delimiter=",", missing_values="?", filling_values=np.nan)
y, X = np.where(table[:, 0] == 1, "dies", "lives"), table[:, 1:]
print(f"{X.shape[0]} rows, {X.shape[1]} columns, {np.isnan(X).mean():.1%} missing")

folds = StratifiedKFold(5, shuffle=True, random_state=0)
proba = cross_val_predict(IncompleteClassifier(), X, y, cv=folds, method="predict_proba")
print(f"AUC of 5 folds: {roc_auc_score(y == 'dies', proba[:, 0]):.3f}")

model = IncompleteClassifier().fit(X, y)
lower, upper = model.predict_interval(X[:5])
for row, (p, low, high) in enumerate(zip(model.predict_proba(X[:5])[:, 0], lower[:, 0], upper[:, 0], strict=True)):
    print(f"row {row}: P(dies) = {p:.2f}, 90% within {low:.2f} to {high:.2f}")

imputer = IncompleteImputer().fit(X)
mean, sd = imputer.impute(X)
row, column = np.argwhere(np.isnan(X))[0]
print(f"row {row}, column {column} is missing: {mean[row, column]:.3g}, give or take {sd[row, column]:.2g}")
if len(sys.argv) > 1:
    out = Path(sys.argv[1])
    plots.calibration(y == "dies", proba[:, 0], bins=6).figure.savefig(out / "classify-calibration.png", dpi=100)
    ax = plots.imputed_cell(imputer.sample_missing(X[[row]], 500)[:, 0, column])
    ax.set_xlabel(f"finding {column} of patient {row}, which is missing")
    ax.figure.savefig(out / "classify-cell.png", dpi=100)
