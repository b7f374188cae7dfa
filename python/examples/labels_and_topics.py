"""Yeast (14 functions of genes by 103 measurements) by latent features; four newsgroups by topics.

Usage: NPB_DATA_DIR=... python labels_and_topics.py [FOLDER] (figures are written there)
"""

import gzip
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.metrics import f1_score

from npb import MaxMarginTopics, MultiLabelLatentFeatures

data = Path(os.environ["NPB_DATA_DIR"])


def arff(path):
    lines = path.read_text().splitlines()
    rows = lines[next(i for i, line in enumerate(lines) if line.lower().startswith("@data")) + 1 :]
    return np.array([[float(cell) for cell in row.split(",")] for row in rows if row])


train, test = (arff(data / "yeast" / f"yeast-{part}.arff") for part in ("train", "test"))
model = MultiLabelLatentFeatures(max_iter=20).fit(train[:400, :103], train[:400, 103:])
found = model.predict(test[:, :103])
print(f"yeast, 400 genes seen: F1 (micro) of {len(test)} others {f1_score(test[:, 103:], found, average='micro'):.3f}, "
      f"{len(model.latent_features())} latent features")


def documents(part, groups):
    """Counts of words and the group of each document."""
    cells, labels = [], []
    with gzip.open(data / "20newsgroups" / f"20news.{part}.txt.gz", "rt") as lines:
        for line in lines:
            label, *words = line.split()
            if int(label) in groups:
                cells += [(len(labels), *map(int, word.split(":"))) for word in words if ":" in word]
                labels.append(int(label))
    rows, words, counts = np.array(cells).T
    return rows, words, counts, np.array(labels)


groups = {0, 7, 15, 18}
rows, words, counts, y = documents("train", groups)
n_words = int(words.max()) + 1
X = sparse.csr_array((counts.astype(float), (rows, words)), shape=(len(y), n_words))
rows, words, counts, y_test = documents("test", groups)
known = words < n_words
X_test = sparse.csr_array((counts[known].astype(float), (rows[known], words[known])), shape=(len(y_test), n_words))
topics = MaxMarginTopics(topics=12, max_iter=20).fit(X, y)
print(f"newsgroups: {np.mean(topics.predict(X_test) == y_test):.1%} of {len(y_test)} documents right")
if len(sys.argv) > 1:
    out = Path(sys.argv[1])
    fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    features = sorted(model.latent_features(), key=lambda feature: -feature["expected_use"])
    weights = np.array([[dict(feature["drives"])[label] for label in model.label_names_] for feature in features])
    most = np.abs(weights).max()
    fig.colorbar(axes[0].imshow(weights, cmap="RdBu", vmin=-most, vmax=most, aspect="auto"), ax=axes[0])
    axes[0].set(xlabel="label", ylabel="latent feature, the most used first", title="yeast: weights of the features in the labels")
    shares = topics.transform(X_test)
    means = np.array([shares[y_test == group].mean(axis=0) for group in sorted(groups)])
    image = axes[1].imshow(means, vmin=0, aspect="auto")
    axes[1].set_yticks(range(len(groups)), sorted(groups))
    axes[1].set(xlabel="topic", ylabel="newsgroup", title="mean shares of topics")
    fig.colorbar(image, ax=axes[1])
    fig.savefig(out / "labels-and-topics.png", dpi=100)
