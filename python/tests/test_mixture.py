"""Classifier, mixture, imputer: answers, files, errors."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import QUICK
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from npb import IncompleteClassifier, IncompleteImputer, IncompleteMixture, MultiTaskClassifier


@pytest.fixture(scope="module")
def classifier(moons):
    X, y, _ = moons
    return IncompleteClassifier(**QUICK).fit(X, y)


def test_classifies_rows_with_holes(moons, classifier):
    X, y, _ = moons
    assert classifier.classes_.tolist() == ["flat", "tall"]
    assert classifier.score(X, y) > 0.9
    proba = classifier.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)
    lower, upper = classifier.predict_interval(X[:5])
    assert ((lower <= proba[:5] + 1e-9) & (proba[:5] <= upper + 1e-9)).mean() > 0.8


def test_rows_without_labels_take_part(moons):
    X, y, _ = moons
    some = y.astype(object)
    some[::2] = None
    model = IncompleteClassifier(**QUICK).fit(X, some)
    assert model.classes_.tolist() == ["flat", "tall"]
    assert model.score(X, y) > 0.85
    codes = np.where(y == "flat", 0.0, 1.0)
    codes[::2] = np.nan
    numbers = IncompleteClassifier(**QUICK).fit(X, codes)
    np.testing.assert_array_equal(numbers.predict_proba(X), model.predict_proba(X))


def test_imputes_better_than_means(moons):
    X, _, full = moons
    missing = np.isnan(X)
    imputer = IncompleteImputer(unlabelled_starts=[{"k_means": 4}]).fit(X)
    done = imputer.transform(X)
    np.testing.assert_array_equal(done[~missing], X[~missing])
    error = np.sqrt(np.mean((done - full)[missing] ** 2))
    means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    assert error < 0.95 * np.sqrt(np.mean((means - full)[missing] ** 2))
    mean, sd = imputer.impute(X)
    assert (sd[missing] > 0).all() and (sd[~missing] == 0).all()
    lower, upper = imputer.predict_interval(X, level=0.8)
    covered = ((lower <= full) & (full <= upper))[missing].mean()
    assert 0.65 < covered < 0.95
    draws = imputer.sample_missing(X, 40)
    assert draws.shape == (40, *X.shape)
    np.testing.assert_allclose(draws.mean(axis=0)[missing].mean(), mean[missing].mean(), atol=0.2)


def test_what_is_not_known_stays_missing(moons):
    X = moons[0].copy()
    X[:, 1] = np.nan
    model = IncompleteImputer(unlabelled_starts=[{"k_means": 2}]).fit(X)
    done = model.impute(X)[0]
    assert np.isnan(done[:, 1]).all() and not np.isnan(done[:, [0, 2]]).any()
    # As a transformer it leaves out what it knows nothing of, as scikit-learn's imputers do.
    with pytest.warns(UserWarning, match="Skipping features"):
        np.testing.assert_array_equal(model.transform(X), done[:, [0, 2]])
    zeros = model.set_params(keep_empty_features=True).transform(X)
    np.testing.assert_array_equal(zeros, np.where(np.isnan(done), 0.0, done))


def test_clusters_and_densities(moons):
    X, _, full = moons
    model = IncompleteMixture().fit(full)
    assert 3 <= model.n_clusters_ <= 6
    assert model.weights_.sum() <= 1 + 1e-9
    assert model.score_samples(full + 20).mean() < model.score_samples(full).mean() - 10
    drawn = model.sample(500)
    assert drawn.shape == (500, 3)
    np.testing.assert_allclose(drawn.mean(axis=0), full.mean(axis=0), atol=0.6)


def test_odd_cells_stand_first(moons):
    X = moons[0]
    model = IncompleteMixture(unlabelled_starts=[{"k_means": 2}]).fit(X)
    row = int(np.flatnonzero(~np.isnan(X).any(axis=1))[0])
    wrong = X.copy()
    wrong[row, 1] = 60.0
    cells = model.score_cells(wrong)
    assert cells[0]["row"] == row and len(cells) == np.count_nonzero(~np.isnan(X))
    cell = next(cell for cell in cells if (cell["row"], cell["column"]) == (row, 1))
    rest = wrong.copy()
    rest[row, 1] = np.nan
    assert cell["surprisal"] == (model.score_samples(rest) - model.score_samples(wrong))[row]
    assert all(a["excess"] >= b["excess"] for a, b in zip(cells, cells[1:]))


def test_in_pipelines_and_searches(moons):
    X, y, _ = moons
    model = make_pipeline(StandardScaler(), IncompleteClassifier(**QUICK))
    assert cross_val_score(model, X, y, cv=3, n_jobs=2).mean() > 0.85
    search = GridSearchCV(IncompleteClassifier(**QUICK), {"truncation": [1, 10]}, cv=3).fit(X, y)
    assert search.best_params_ == {"truncation": 10}


def test_pickle_and_files_give_the_same_bits(tmp_path, moons, classifier):
    X, y, _ = moons
    proba = classifier.predict_proba(X)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(X), proba)
    classifier.save(tmp_path / "model.npb")
    loaded = IncompleteClassifier.load(tmp_path / "model.npb")
    np.testing.assert_array_equal(loaded.predict_proba(X), proba)
    assert loaded.predict(X).tolist() == classifier.predict(X).tolist()
    assert clone(classifier).get_params() == classifier.get_params()
    # In another process.
    np.save(tmp_path / "x.npy", X)
    program = (
        "import sys, numpy as np; from npb import IncompleteClassifier\n"
        "m = IncompleteClassifier.load(sys.argv[1] + '/model.npb')\n"
        "np.save(sys.argv[1] + '/p.npy', m.predict_proba(np.load(sys.argv[1] + '/x.npy')))"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), proba)


def test_the_seed_alone_decides(moons):
    X, y, _ = moons
    fit = lambda **how: IncompleteClassifier(**{**QUICK, "starts": [{"k_means": 3}], **how}).fit(X, y).predict_proba(X)
    one = fit(n_jobs=1)
    np.testing.assert_array_equal(fit(n_jobs=2), one)
    np.testing.assert_array_equal(fit(random_state=0), one)
    as_list = [[None if np.isnan(v) else v for v in row] for row in X]
    np.testing.assert_array_equal(IncompleteClassifier(**{**QUICK, "starts": [{"k_means": 3}]}).fit(as_list, y).predict_proba(X), one)


def test_unknown_integers_come_back_as_integers(tmp_path, moons):
    X, y, _ = moons
    model = IncompleteClassifier(**QUICK).fit(X, np.where(y == "flat", 10, 9))
    model.save(tmp_path / "m")
    assert IncompleteClassifier.load(tmp_path / "m").classes_.tolist() == [9, 10]


def test_bad_files(tmp_path, classifier):
    classifier.save(tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    (tmp_path / "short").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="short"):
        IncompleteClassifier.load(tmp_path / "short")
    with pytest.raises(OSError):
        IncompleteClassifier.load(tmp_path / "nowhere")
    with pytest.raises(OSError):
        classifier.save(tmp_path / "no" / "such" / "folder")
    with pytest.raises(ValueError, match="iqgme"):
        MultiTaskClassifier.load(tmp_path / "m")


def test_bad_input_is_named(moons, classifier):
    X, y, _ = moons
    infinite = X.copy()
    infinite[7, 2] = -np.inf
    with pytest.raises(ValueError, match=r"row 7, column 2 is -inf"):
        IncompleteClassifier(**QUICK).fit(infinite, y)
    with pytest.raises(ValueError, match=r"row 7, column 2 is -inf"):
        classifier.predict(infinite)
    with pytest.raises(ValueError, match="X has 2 features"):
        classifier.predict(X[:, :2])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        IncompleteClassifier(**QUICK).fit(X, y[:-1])
    with pytest.raises(ValueError, match="1 class"):
        IncompleteClassifier(**QUICK).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="NaN in all rows"):
        IncompleteClassifier(**QUICK).fit(X, np.full(len(X), np.nan))
    for ask in ("predict", "predict_proba", "score_samples", "predict_interval"):
        with pytest.raises(NotFittedError):
            getattr(IncompleteClassifier(), ask)(X)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (dict(truncation=0), "truncation"),
        (dict(truncation="many"), "truncation"),
        (dict(mean_strength=-1.0), "mean_strength"),
        (dict(concentration={"shape": 1.0, "rte": 1.0}), "rte"),
        (dict(starts=[{"kmeans": 1}]), "kmeans"),
        (dict(tol=-1.0), "tolerance"),
        (dict(folds=1), "folds"),
        (dict(n_jobs=0), "n_jobs"),
        (dict(random_state=-1), "random_state"),
        (dict(checkpoint_every=-1), "checkpoint_every"),
    ],
)
def test_bad_settings_are_named(moons, settings, named):
    X, y, _ = moons
    with pytest.raises(ValueError, match=named):
        IncompleteClassifier(**{**QUICK, **settings}).fit(X, y)


def test_settings_reach_the_fit(moons):
    X, y, _ = moons
    model = IncompleteClassifier(**QUICK, truncation=7, concentration={"shape": np.float64(2.0)}, random_state=5).fit(X, y)
    config = model._fit.config()
    assert (config["truncation"], config["seed"], config["limits"]["max_iterations"]) == (7, 5, 60)
    assert config["concentration"] == {"shape": 2.0, "rate": 0.05}


def test_tasks_share(moons):
    X, y, full = moons
    tasks = np.arange(len(X)) % 3
    model = MultiTaskClassifier(folds=0, starts=[{"separate_per_class": 1}], max_iter=50).fit(X, y, tasks)
    assert model.tasks_.tolist() == [0, 1, 2]
    assert np.mean(model.predict(X, tasks) == y) > 0.75
    similarity = model.similarity()
    assert similarity.shape == (3, 3) and np.allclose(np.diag(similarity), 1)
    with pytest.raises(ValueError, match="row 4 is of task 9"):
        model.predict(X, np.where(np.arange(len(X)) == 4, 9, tasks))


def test_update_of_a_mixture_is_a_warm_start():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 2)) + np.where(np.arange(120) % 3 == 0, 5, -2)[:, None]
    X[::7, 0] = np.nan
    model = IncompleteMixture().fit(X[:80])
    with pytest.raises(ValueError, match="others among the first 80"):
        model.update(X[::-1])
    assert model.update(X).n_clusters_ == 2 and len(model.labels_) == 120
    elbo = model._fit.trace()
    assert np.all(np.diff(np.asarray(elbo).reshape(len(elbo), -1)[:, 0]) >= -1e-9)
    with pytest.raises(ValueError, match="only limits may change"):
        model.set_params(truncation=4).update(X)
