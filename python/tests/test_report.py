"""Pages about fits."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import npb

QUICK = {"starts": [{"per_class": 1}], "normal_scores": False, "folds": 0}
SCRIPT = "<script>alert(1)</script>"


def page_of(model, path, *given, **named):
    model.report(path, *given, **named)
    page = path.read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>") and len(page) < 2_000_000
    assert "<script" not in page and "NaN" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    return page


def rows(n=150, seed=1):
    rng = np.random.default_rng(seed)
    high = rng.random(n) < 0.4
    X = np.column_stack([4 * high + rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.where(rng.random(n) < 0.05, ~high, high)


def test_a_classifier_is_tried_on_the_rows_that_are_given(tmp_path):
    X, y = rows()
    model = npb.IncompleteClassifier(**QUICK).fit(X, y)
    new, truth = rows(seed=2)
    page = page_of(model, tmp_path / "p.html", new, truth)
    assert f"area {roc_auc_score(truth, model.predict_proba(new)[:, 1]):.4f}" in page
    assert "Which columns matter" in page and "Hidden numbers" in page
    alone = page_of(model, tmp_path / "p.html")
    assert "Give a file of rows with labels" in alone


def test_frames_are_read_as_other_questions_read_them(tmp_path):
    X, y = rows()
    frame = pd.DataFrame(X, columns=[SCRIPT, "b", "c"]).assign(town=np.where(y, "A", "B"))
    frame.loc[3, "town"] = None
    model = npb.IncompleteMixture(unlabelled_starts=[{"k_means": 2}]).fit(frame)
    page = page_of(model, tmp_path / "p.html", frame)
    assert "&lt;script&gt;" in page and "Both lines should have the same shares of levels" in page
    with pytest.raises(ValueError, match="feature names should match"):
        model.report(tmp_path / "p.html", frame.rename(columns={"b": "d"}))


def test_tasks_and_tables_have_pages(tmp_path):
    X, y = rows()
    tasks = np.where(np.arange(len(X)) % 2, "left", "right")
    model = npb.MultiTaskClassifier(folds=0).fit(X, y, tasks)
    page = page_of(model, tmp_path / "t.html", X, y, tasks=tasks)
    assert "Task by task" in page and "Similarity of the tasks" in page
    with pytest.raises(ValueError, match="of which each row is"):
        model.report(tmp_path / "t.html", X, y)
    frame = pd.DataFrame({"x": X[:, 0], "town": np.where(y, "A", "B")})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = npb.MixedTableModel(chains=2, sweeps={"burn_in": 50, "keep": 20, "thin": 1}).fit(frame)
    page = page_of(table, tmp_path / "m.html", frame)
    assert "Mutual information" in page and "The oddest cells" in page
    # The same rows, seed and threads or others: the same page.
    assert page_of(table.set_params(n_jobs=1), tmp_path / "n.html", frame) == page
    assert page_of(table, tmp_path / "n.html", frame, seed=7) != page


def test_what_cannot_be_is_named(tmp_path):
    X, y = rows()
    model = npb.IncompleteClassifier(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match="y: has 150 labels, X 140 rows"):
        model.report(tmp_path / "p.html", X[:140], y)
    with pytest.raises(ValueError, match="seed=-1: must be"):
        model.report(tmp_path / "p.html", seed=-1)
    ratings = npb.BayesianMatrixCompletion(chains=1, sweeps={"burn_in": 5, "keep": 5, "thin": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ratings.fit(([0, 1, 2, 0], [0, 1, 0, 1], [1.0, 2.0, 3.0, 2.0]))
    page_of(ratings, tmp_path / "r.html")
    with pytest.raises(ValueError, match="has a page about the fit alone"):
        ratings.report(tmp_path / "r.html", X)
