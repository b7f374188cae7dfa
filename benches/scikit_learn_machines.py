"""Objectives of scikit-learn's linear machines (LIBLINEAR, no intercept), which crates/npb-regbayes/tests/it/machine.rs compares with.

python3 benches/scikit_learn_machines.py
"""

import warnings

import numpy as np
from sklearn.svm import LinearSVC, LinearSVR

ROWS, COLUMNS, CLASSES = 90, 7, 4
EXACT = dict(fit_intercept=False, tol=1e-9, max_iter=2_000_000, random_state=0)

warnings.filterwarnings("ignore")

n, j = np.arange(ROWS)[:, None], np.arange(COLUMNS)[None, :]
x = np.sin(1.3 * n + 0.7 * j * j + 0.1 * n * j)
score = x[:, 0] - 0.8 * x[:, 1] + np.cos(2.1 * np.arange(ROWS))
positive = score > 0.2
noise = np.cos(2.1 * np.arange(ROWS)[:, None] + 1.7 * np.arange(CLASSES)[None, :])
classes = np.argmax(x[:, :CLASSES] + 0.5 * noise, axis=1)
costs = np.where(positive, 2.0, 0.5) * (1 + np.arange(ROWS) % 3)


def hinge(w, c, squared):
    slack = np.maximum(0, 1 - np.where(positive, 1, -1) * (x @ w))
    return w @ w / 2 + c @ (slack**2 if squared else slack)


def insensitive(w, c, epsilon, squared):
    slack = np.maximum(0, abs(score - x @ w) - epsilon)
    return w @ w / 2 + c * np.sum(slack**2 if squared else slack)


def crammer_singer(w, c):
    f = x @ w.T
    rows = np.arange(ROWS)
    own = f[rows, classes].copy()
    f[rows, classes] = -np.inf
    return np.sum(w * w) / 2 + c * np.sum(np.maximum(0, 1 - own + f.max(axis=1)))


for squared in (False, True):
    for c in (0.1, 10.0):
        model = LinearSVC(C=c, loss="squared_hinge" if squared else "hinge", dual=True, **EXACT)
        model.fit(x, positive, sample_weight=costs)
        print("binary", squared, c, repr(hinge(model.coef_[0], c * costs, squared)))
        loss = "squared_epsilon_insensitive" if squared else "epsilon_insensitive"
        model = LinearSVR(C=c, epsilon=0.3, loss=loss, dual=True, **EXACT).fit(x, score)
        print("real", squared, c, repr(insensitive(model.coef_, c, 0.3, squared)))
for c in (0.1, 10.0):
    model = LinearSVC(C=c, multi_class="crammer_singer", **EXACT).fit(x, classes)
    print("classes", c, repr(crammer_singer(model.coef_, c)))
