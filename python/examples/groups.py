"""MovieLens 100k: what 300 users like, by genre and year of films, from 20 ratings each; then users who were not there.

Usage: NPB_DATA_DIR=... python groups.py [FOLDER] (a figure is written there)
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from npb import GroupedClassifier

folder = Path(os.environ["NPB_DATA_DIR"]) / "movielens-100k"
user, film, rating = np.loadtxt(folder / "u.data", dtype=int, usecols=(0, 1, 2)).T
fields = [line.split("|") for line in (folder / "u.item").read_text(encoding="latin-1").splitlines()]
films = np.array([[int(one[2][-4:] or 1995), *map(int, one[6:])] for one in fields], dtype=float)
films[:, 0] = (films[:, 0] - 1995) / 10
X, y = films[film - 1], np.where(rating >= 4, "like", "no")
LIKE = 0

rng = np.random.default_rng(0)
# Users with enough ratings to ask for.
users = rng.permutation([one for one in np.unique(user) if np.sum(user == one) >= 40])[:400]
rows = {one: rng.permutation(np.flatnonzero(user == one)) for one in users}
there, new = users[:300], users[300:]
seen, held_out = (np.concatenate([part(rows[one]) for one in there]) for part in (lambda r: r[:20], lambda r: r[20:]))


def score(rows, p):
    """AUC and log-likelihood of likes over all users, and the mean AUC within a user."""
    liked = y[rows] == "like"
    within = [roc_auc_score(liked[of], p[of]) for one in np.unique(user[rows]) if 0 < liked[of := user[rows] == one].mean() < 1]
    return roc_auc_score(liked, p), -log_loss(liked, p), np.mean(within)


model = GroupedClassifier().fit(X[seen], y[seen], user[seen])
pooled = LogisticRegression(max_iter=1000).fit(X[seen], y[seen])
apart = np.empty(len(held_out))
for one in there:
    own, of = rows[one][:20], user[held_out] == one
    if len(set(y[own])) == 2:
        apart[of] = LogisticRegression(max_iter=1000).fit(X[own], y[own]).predict_proba(X[held_out[of]])[:, LIKE]
    else:
        # Only likes, or none: as if there were one more of each.
        apart[of] = (np.sum(y[own] == "like") + 1) / 22
print(f"{len(there)} users, {len(seen)} ratings seen, {len(held_out)} held out")
answers = {
    "GroupedClassifier": model.predict_proba(X[held_out], user[held_out])[:, LIKE],
    "one logistic regression": pooled.predict_proba(X[held_out])[:, LIKE],
    "one for each user": apart,
}
for name, p in answers.items():
    print("{:24} AUC {:.3f}, log-likelihood {:.3f}, AUC within users {:.3f}".format(name, *score(held_out, p)))
first = held_out[:1]
lower, upper = model.predict_interval(X[first], user[first])
print(f"user {user[first[0]]} likes film {film[first[0]]} with probability {answers['GroupedClassifier'][0]:.2f}; 90% within {lower[0, LIKE]:.2f} to {upper[0, LIKE]:.2f}")

# Users who were not in training, by more and more ratings of their own.
numbers = [0, 1, 2, 5, 10, 20]
asked = np.concatenate([rows[one][20:] for one in new])
by_number = []
for n in numbers:
    p = [model.fold_in(X[rows[one][:n]], y[rows[one][:n]], X[rows[one][20:]])[:, LIKE] for one in new]
    by_number.append(score(asked, np.concatenate(p))[0])
    print(f"{len(new)} new users with {n:2} ratings: AUC {by_number[-1]:.3f}")
if len(sys.argv) > 1:
    ax = plt.subplots(layout="constrained")[1]
    ax.plot(numbers, by_number, "o-", label="GroupedClassifier.fold_in")
    ax.axhline(score(asked, pooled.predict_proba(X[asked])[:, LIKE])[0], color="grey", linestyle="--", label="one logistic regression")
    ax.set(xlabel="ratings of the new user", ylabel="AUC of the user's other ratings")
    ax.legend()
    ax.figure.savefig(Path(sys.argv[1]) / "groups-new-users.png", dpi=100)
