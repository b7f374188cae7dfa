"""MovieLens 100k: ratings completed, films recommended.

Usage: NPB_DATA_DIR=... python recommend.py [FOLDER] (figures are written there)
"""

import os
import sys
from pathlib import Path

import numpy as np

from npb import BayesianMatrixCompletion, HybridRecommender, plots

folder = Path(os.environ["NPB_DATA_DIR"]) / "movielens-100k"
user, film, rating = np.loadtxt(folder / "u.data", dtype=int, usecols=(0, 1, 2)).T
lines = (folder / "u.item").read_text(encoding="latin-1").splitlines()
titles = [line.split("|")[1] for line in lines]
genres = np.array([[int(mark) for mark in line.split("|")[5:]] for line in lines], dtype=float)
shape = (int(user.max()), len(titles))

held_out = np.random.default_rng(0).random(len(user)) < 0.1
seen = ~held_out
entries = (user[seen] - 1, film[seen] - 1, rating[seen], shape)
model = BayesianMatrixCompletion(sweeps={"burn_in": 50, "keep": 50, "thin": 1}).fit(entries)
rows, columns = user[held_out] - 1, film[held_out] - 1
error = model.predict(rows, columns) - rating[held_out]
lower, upper = model.predict_interval(rows, columns)
print(f"held-out ratings: RMSE {np.sqrt(np.mean(error**2)):.3f}, "
      f"{np.mean((lower <= rating[held_out]) & (rating[held_out] <= upper)):.1%} within their 90% intervals")

recommender = HybridRecommender(like_from=4.0).fit(entries, item_features=genres)
print("user 0 may like")
for best in recommender.recommend(0, 5):
    print(f"  {titles[best['item']]}: {best['probability']:.2f} +- {best['sd']:.2f}")
print("who likes Star Wars and not Scream may like")
liked, disliked = titles.index("Star Wars (1977)"), titles.index("Scream (1996)")
for best in recommender.recommend(liked=[liked], disliked=[disliked], n=5):
    print(f"  {titles[best['item']]}: {best['probability']:.2f} +- {best['sd']:.2f}")
if len(sys.argv) > 1:
    out = Path(sys.argv[1])
    ax = plots.recommendations(recommender.recommend(0, 10), titles)
    ax.figure.savefig(out / "recommend.png", dpi=100)
    plots.trace(model, "noise_sd").figure.savefig(out / "recommend-trace.png", dpi=100)
