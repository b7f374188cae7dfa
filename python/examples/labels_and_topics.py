"""Yeast (14 functions of genes by 103 measurements) by latent features; four newsgroups by topics.

Usage: NPB_DATA_DIR=... python labels_and_topics.py
"""

import gzip
import os
from pathlib import Path

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
