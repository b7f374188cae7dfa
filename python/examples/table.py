"""Heart disease in four hospitals (920 patients, 14 findings and the hospital, 15% missing): missing findings, and which columns depend on each other.

Usage: NPB_DATA_DIR=... python table.py [FOLDER] (figures are written there)
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from npb import MixedTableModel, plots

NAMES = ["age", "sex", "chest_pain", "blood_pressure", "cholesterol", "sugar", "ecg", "heart_rate", "angina", "depression", "slope", "vessels", "thal", "disease"]
folder = Path(os.environ["NPB_DATA_DIR"]) / "heart-disease"
hospitals = ["cleveland", "hungarian", "switzerland", "va"]
parts = [pd.read_csv(folder / f"processed.{place}.data", names=NAMES, na_values="?").assign(hospital=place) for place in hospitals]
table = pd.concat(parts, ignore_index=True)
# A cholesterol of 0 was not measured.
table["cholesterol"] = table["cholesterol"].replace(0, np.nan)
kinds = dict.fromkeys(["sex", "sugar", "angina"], "binary") | dict.fromkeys(["chest_pain", "ecg", "thal"], "categorical")
kinds |= dict.fromkeys(["slope", "vessels", "disease"], "ordinal")

# One in ten of the known cells is held out, to see what is said of them.
rng = np.random.default_rng(0)
held_out = table.notna().to_numpy() & (rng.random(table.shape) < 0.1)
seen = table.mask(held_out)
model = MixedTableModel(measures=kinds, sweeps={"burn_in": 400, "keep": 50, "thin": 5}, chains=2).fit(seen)

inside, right, common, errors, plain = [], [], [], {}, {}
for cell in model.predict_cells(seen, training=True):
    row, name = cell["row"], cell["column"]
    if not held_out[row, NAMES.index(name) if name in NAMES else len(NAMES)]:
        continue
    truth = table.at[row, name]
    if "mean" in cell:
        inside.append(cell["lower"] <= truth <= cell["upper"])
        errors.setdefault(name, []).append((cell["mean"] - truth) ** 2)
        plain.setdefault(name, []).append((seen[name].mean() - truth) ** 2)
    else:
        right.append(max(cell["probabilities"], key=cell["probabilities"].get) == truth)
        common.append(seen[name].mode()[0] == truth)
print(f"{np.mean(right):.1%} of {len(right)} held-out categories right ({np.mean(common):.1%} by the most common one)")
for name in errors:
    print(f"  {name}: error {np.sqrt(np.mean(errors[name])):.3g} ({np.sqrt(np.mean(plain[name])):.3g} of the mean)")
print(f"{np.mean(inside):.1%} of {len(inside)} held-out numbers within their 90% intervals")

print(f"R-hat of the log likelihood: {model.diagnostics_['ln_likelihood']['rhat']:.2f}")

pairs = model.dependence(seen)
best = sorted((pair for pair in pairs if pair["dependent"]), key=lambda pair: -pair["information"])
print(f"{len(best)} of {len(pairs)} pairs of columns depend on each other, most of all")
for pair in best[:5]:
    print(f"  {pair['a']} and {pair['b']}: {pair['information']:.2f} +- {pair['sd']:.2f} nats")
if len(sys.argv) > 1:
    out = Path(sys.argv[1])
    plots.dependence(pairs).figure.savefig(out / "table-dependence.png", dpi=100)
    row = int(np.flatnonzero(held_out[:, NAMES.index("heart_rate")])[0])
    draws = [done.at[row, "heart_rate"] for done in model.sample_missing(seen, 200, training=True)]
    ax = plots.imputed_cell(draws)
    ax.axvline(table.at[row, "heart_rate"], color="black", linestyle=":")
    ax.set_xlabel(f"heart rate of patient {row} (dotted: what was held out)")
    ax.figure.savefig(out / "table-cell.png", dpi=100)
    plots.rank(model, "ln_likelihood", bins=10).figure.savefig(out / "table-rank.png", dpi=100)
