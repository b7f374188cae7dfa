"""Classifiers of many groups: answers, files, errors."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from npb import GroupedClassifier, IncompleteImputer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def hospitals(n_groups=30, n=12, seed=0):
    """Groups of two kinds with opposite slopes, in units of their own: features, classes, groups, and the probability of "well"."""
    rng = np.random.default_rng(seed)
    group = np.repeat([f"h{g:02}" for g in range(n_groups)], n)
    kind = np.repeat(np.arange(n_groups) % 2, n)
    X = rng.normal(size=(len(group), 3)) * [5.0, 0.1, 1.0] + [100.0, 0.0, -3.0]
    score = np.where(kind == 0, 2.0, -2.0) * (X[:, 0] - 100) / 5 + 10 * X[:, 1]
    p = 1 / (1 + np.exp(-score))
    y = np.where(rng.random(len(p)) < p, "well", "ill")
    return X, y, group, p


@pytest.fixture(scope="module")
def model():
    X, y, group, _ = hospitals()
    return GroupedClassifier().fit(X, y, group)


def test_groups_teach_each_other(model):
    X, y, group, _ = hospitals()
    new_X, _, new_group, truth = hospitals(n=200, seed=1)
    assert model.classes_.tolist() == ["ill", "well"] and model.groups_.tolist() == np.unique(group).tolist()
    assert model.n_iter_ == len(model.elbo_) > 0

    def loss(p):
        return -np.mean(truth * np.log(p) + (1 - truth) * np.log(1 - p))

    proba = model.predict_proba(new_X, new_group)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    alone = np.empty(len(new_X))
    for one in np.unique(group):
        own = LogisticRegression(C=100.0, max_iter=5000).fit(X[group == one] - [100, 0, -3], y[group == one])
        alone[new_group == one] = own.predict_proba(new_X[new_group == one] - [100, 0, -3])[:, 1]
    pooled = LogisticRegression(max_iter=5000).fit(X, y).predict_proba(new_X)[:, 1]
    ours = loss(proba[:, 1])
    assert ours < loss(pooled) - 0.1 and ours < loss(np.clip(alone, 1e-6, 1 - 1e-6)) - 0.03
    best = model.predict(new_X, new_group)
    np.testing.assert_array_equal(best, model.classes_[(proba[:, 1] > 0.5).astype(int)])
    assert model.score(X, y, groups=group) > 0.75
    lower, upper = model.predict_interval(new_X, new_group, level=0.8)
    assert (lower < upper).all() and lower.min() >= 0 and upper.max() <= 1
    assert np.mean((lower[:, 1] <= truth) & (truth <= upper[:, 1])) > 0.8
    np.testing.assert_allclose(lower[:, 0], 1 - upper[:, 1])


def test_a_new_group_is_folded_in(model):
    X, y, group, truth = hospitals(n_groups=2, n=100, seed=2)
    for kind in ("h00", "h01"):
        rows = np.flatnonzero(group == kind)
        few, others = rows[:15], rows[15:]
        p = model.fold_in(X[few], y[few], X[others])
        assert np.corrcoef(p[:, 1], truth[others])[0, 1] > 0.8
    nothing = model.fold_in(X[:0], [], X[:5])
    assert nothing.shape == (5, 2) and np.abs(nothing - 0.5).max() < 0.35
    one_class = model.fold_in(X[:2], ["ill", "ill"], X[:1])
    assert 0 < one_class[0, 1] < 1
    # The fit is as it was, and its groups are not affected.
    assert len(model.groups_) == 30


def test_files_pickles_and_clones(tmp_path, model):
    X, y, group, _ = hospitals()
    whole = model.predict_proba(X, group)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X, group), whole)
    model.save(tmp_path / "m")
    loaded = GroupedClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X, group), whole)
    assert loaded.classes_.tolist() == ["ill", "well"] and loaded.groups_.tolist() == model.groups_.tolist()
    np.testing.assert_array_equal(loaded.fold_in(X[:9], y[:9], X), model.fold_in(X[:9], y[:9], X))
    again = clone(model).fit(X, y, group)
    np.testing.assert_array_equal(again.predict_proba(X, group), whole)
    np.testing.assert_array_equal(GroupedClassifier(n_jobs=1).fit(X, y, group).predict_proba(X, group), whole)
    numbers = GroupedClassifier().fit(X, (y == "well").astype(int), np.arange(len(y)) % 7)
    numbers.save(tmp_path / "n")
    loaded = GroupedClassifier.load(tmp_path / "n")
    assert loaded.classes_.tolist() == [0, 1] and loaded.groups_.tolist() == list(range(7))
    assert loaded.fold_in(X[:0], [], X[:1]).shape == (1, 2)
    bytes_ = (tmp_path / "m").read_bytes()
    (tmp_path / "short").write_bytes(bytes_[: len(bytes_) // 2])
    with pytest.raises(ValueError, match="short"):
        GroupedClassifier.load(tmp_path / "short")
    with pytest.raises(ValueError, match="hbrec/groups"):
        IncompleteImputer.load(tmp_path / "m")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames(model, kind):
    frames = pytest.importorskip(kind)
    X, y, group, _ = hospitals()
    names = ["age", "dose", "size"]
    frame = frames.DataFrame({name: X[:, j] for j, name in enumerate(names)})
    framed = GroupedClassifier().fit(frame, frames.Series(y), frames.Series(group))
    assert framed.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(framed.predict_proba(frame, frames.Series(group)), model.predict_proba(X, group))
    with pytest.raises(ValueError, match="feature names should match"):
        framed.predict(frame[names[::-1]], group)


def test_rows_with_holes_are_imputed_first():
    X, y, group, _ = hospitals()
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN: row 4, column 1 is missing; impute it first, by make_pipeline\(IncompleteImputer"):
        GroupedClassifier().fit(X, y, group)
    both = make_pipeline(IncompleteImputer(unlabelled_starts=[{"k_means": 1}], max_iter=20), GroupedClassifier())
    both.fit(X, y, groupedclassifier__groups=group)
    assert both.predict_proba(X, groups=group).shape == (len(X), 2)


def test_bad_input_is_named(model):
    X, y, group, _ = hospitals()
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="row 7, column 'dose' is missing"):
        holes = pandas.DataFrame(X, columns=["age", "dose", "size"])
        holes.loc[7, "dose"] = np.nan
        GroupedClassifier().fit(holes, y, group)
    for bad, message in ((np.nan, "row 2, column 0 is missing"), (np.inf, "row 2, column 0 is inf")):
        broken = X.copy()
        broken[2, 0] = bad
        with pytest.raises(ValueError, match=message):
            model.predict(broken, group)
        with pytest.raises(ValueError, match=message):
            model.fold_in(broken[:9], y[:9], X)
    with pytest.raises(ValueError, match="Only binary classification is supported. The type of the target is multiclass"):
        GroupedClassifier().fit(X, np.arange(len(X)) % 3, group)
    with pytest.raises(ValueError, match="1 class only"):
        GroupedClassifier().fit(X, np.zeros(len(X)), group)
    some = y.astype(object)
    some[5] = None
    with pytest.raises(ValueError, match="Input y contains NaN: row 5 has no label"):
        GroupedClassifier().fit(X, some, group)
    unknown = group.astype(object)
    unknown[6] = "elsewhere"
    with pytest.raises(ValueError, match="row 6 is of group elsewhere, which was not in training"):
        model.predict_proba(X, unknown)
    unknown[3] = None
    with pytest.raises(ValueError, match="groups: row 3 is of no group"):
        GroupedClassifier().fit(X, y, unknown)
    with pytest.raises(ValueError, match="the fit has 30 of them"):
        model.predict(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        GroupedClassifier().fit(X, y, group[:-1])
    with pytest.raises(ValueError, match="row 1 is of class 'dead'"):
        model.fold_in(X[:2], ["ill", "dead"], X)
    with pytest.raises(ValueError, match="row 0 has no label"):
        model.fold_in(X[:2], [None, "ill"], X)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.predict(X[:, :2], group)
    with pytest.raises(ValueError, match="level"):
        model.predict_interval(X, group, level=1.0)
    far = X.copy()
    far[1, 2] = 1e300
    with pytest.raises(ValueError, match="row 1, column 2.*too far"):
        model.predict(far, np.full(len(X), "h00"))
    for settings, named in ((dict(max_iter=0), "max_iterations"), (dict(weights={"tau": {"given": -1.0}}), "weights.tau"), (dict(weights={"taus": 1}), "taus")):
        with pytest.raises(ValueError, match=named):
            GroupedClassifier(**settings).fit(X, y, group)
    for ask in ("predict", "predict_proba", "predict_interval"):
        with pytest.raises(NotFittedError):
            getattr(GroupedClassifier(), ask)(X)
    with pytest.raises(NotFittedError):
        GroupedClassifier().fold_in(X, y, X)


def test_one_group_in_a_grid_search():
    X, y, group, _ = hospitals(n_groups=2, n=60)
    rows = group == "h00"
    search = GridSearchCV(GroupedClassifier(), {"max_iter": [5, 50]}, cv=3).fit(X[rows], y[rows])
    assert search.best_score_ > 0.75


def test_a_fit_is_stopped_and_goes_on_to_the_same_bits(tmp_path, model):
    X, y, group, _ = hospitals()
    path = tmp_path / "checkpoint"

    def stop(part, step, share):
        if share > 0.02:
            raise LookupError

    with pytest.raises(LookupError):
        GroupedClassifier(checkpoint=path, checkpoint_every=0.0, tol=0.0, progress=stop).fit(X, y, group)
    assert path.exists()
    heard = []
    resumed = GroupedClassifier(checkpoint=path, tol=0.0, progress=lambda *told: heard.append(told[2])).fit(X, y, group)
    whole = GroupedClassifier(tol=0.0).fit(X, y, group)
    np.testing.assert_array_equal(resumed.predict_proba(X, group), whole.predict_proba(X, group))
    assert not path.exists() and heard == sorted(heard) and heard[-1] == 1.0
