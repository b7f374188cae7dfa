"""Names of users, items, words and classes: checked, and kept by files and pickles; what is not known or given twice."""

import pickle

import numpy as np
import pytest
from scipy import sparse

import npb

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SHORT = dict(sweeps={"burn_in": 20, "keep": 20, "thin": 1}, chains=1)
USERS = [u for u in range(11, 23) for _ in range(4)]
FILMS = [(101, 205, 999, 1500, 1501, 1600)[(u + k) % 6] for u in range(11, 23) for k in range(4)]
STARS = [5.0 if (u + f) % 2 else 2.0 for u, f in zip(USERS, FILMS, strict=True)]


def again(model, path):
    """A model from its file, and from its pickle."""
    model.save(path)
    return type(model).load(path), pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("names", ["texts", "numbers", "frame"])
def test_recommenders_keep_names(tmp_path, names):
    users, films = (USERS, FILMS) if names != "texts" else ([f"u{u}" for u in USERS], [f"f{f}" for f in FILMS])
    ratings = (users, films, STARS)
    if names == "frame":
        ratings = pandas.DataFrame({"u": users, "f": films, "s": STARS}).pivot(index="u", columns="f", values="s")
    for estimator, column in ((npb.HybridRecommender(like_from=4), "item"), (npb.BayesianMatrixCompletion(**SHORT), "column")):
        model = estimator.fit(ratings)
        best = model.recommend(users[0], n=2)
        assert model.shape_ == (12, 6) and {one[column] for one in best} <= set(films)
        for other in again(model, tmp_path / "m"):
            assert other.recommend(users[0], n=2) == best
            with pytest.raises(ValueError, match="there is no"):
                other.recommend(999_999)


def test_a_file_of_names_of_another_fit_is_refused(tmp_path):
    npb.HybridRecommender(like_from=4).fit((USERS, FILMS, STARS)).save(tmp_path / "a")
    npb.HybridRecommender(like_from=4).fit((USERS[:-4], FILMS[:-4], STARS[:-4])).save(tmp_path / "b")
    (tmp_path / "b.toml").replace(tmp_path / "a.toml")
    with pytest.raises(ValueError, match="has 11 users, the fit 12"):
        npb.HybridRecommender.load(tmp_path / "a")
    (tmp_path / "a.toml").unlink()
    assert npb.HybridRecommender.load(tmp_path / "a").recommend(0, n=1)[0]["item"] in range(6)


def test_topics_know_their_words(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"w{j}" for j in range(12)]
    low, high = [3] * 6 + [0.1] * 6, [0.1] * 6 + [3] * 6
    X = pandas.DataFrame(np.vstack([rng.poisson(low, (30, 12)), rng.poisson(high, (30, 12))]), columns=words)
    y = np.repeat(["sport", "law"], 30)
    model = npb.MaxMarginTopics(topics=2).fit(X, y)
    assert model.feature_names_in_.tolist() == words and model.top_words(0, 1)[0][0] in words
    assert {word for word, _ in model.top_words(0, 6)} in (set(words[:6]), set(words[6:]))
    for one in (model, *again(model, tmp_path / "m")):
        assert one.predict(X).tolist() == model.predict(X).tolist() and one.classes_.tolist() == ["law", "sport"]
        with pytest.raises(ValueError, match="feature names should match"):
            one.predict(X[words[::-1]])
        assert one.top_words(1, 3) == model.top_words(1, 3)
    # Of a matrix: as CountVectorizer has them.
    counts = sparse.csr_matrix(X.to_numpy())
    of_matrix = npb.MaxMarginTopics(topics=2).fit(counts, y, words=np.array(words))
    assert of_matrix.top_words(0, 4) == model.top_words(0, 4)
    np.testing.assert_array_equal(of_matrix.transform(counts), model.transform(X))
    with pytest.raises(ValueError, match="there are 3 names for 12 words"):
        npb.MaxMarginTopics().fit(counts, y, words=words[:3])


def test_classes_and_labels_after_loading(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    truths = X[:, 0] > 0
    model = npb.IncompleteClassifier(folds=0, normal_scores=False, starts=[{"per_class": 1}]).fit(X, truths)
    for one in again(model, tmp_path / "m"):
        assert one.classes_.tolist() == [False, True] and (one.predict(X) == model.predict(X)).all()
    labels = npb.MultiLabelLatentFeatures(max_iter=5).fit(X, truths.astype(int))
    for one in again(labels, tmp_path / "l"):
        assert one.predict(X).shape == (60,) and (one.predict_proba(X) == labels.predict_proba(X)).all()


def test_one_unknown_film_does_not_fail_all():
    model = npb.BayesianMatrixCompletion(**SHORT).fit((USERS, FILMS, STARS))
    alone = model.predict([11, 12], [101, 205], return_sd=True)
    with pytest.warns(UserWarning, match="columns: there is no 7; 2 of 4 cells"):
        found = model.predict([11, 11, 12, 999], [101, 7, 205, 101], return_sd=True)
    for one, all_ in zip(alone, found, strict=True):
        assert all_[[0, 2]].tolist() == one.tolist() and np.isnan(all_[[1, 3]]).all()
    places = npb.BayesianMatrixCompletion(**SHORT).fit(np.where(np.eye(8) > 0, np.nan, 1.0 + np.arange(8)))
    with pytest.warns(UserWarning, match="rows: there is no 8"):
        assert np.isnan(places.predict([8, 0], [0, 0])).tolist() == [True, False]


def test_cells_that_are_given_twice():
    users, films, stars = [*USERS, 11, 11], [*FILMS, FILMS[0], FILMS[0]], [*STARS, 1.0, 3.0]
    for estimator, what in ((npb.BayesianMatrixCompletion(**SHORT), "row 11, column"), (npb.HybridRecommender(like_from=4), "user 11, item")):
        with pytest.raises(ValueError, match=rf"{what} {FILMS[0]} is given twice \(entries 0 and 48\).*duplicates="):
            estimator.fit((users, films, stars))
        with pytest.raises(ValueError, match='must be "error", "last" or "mean"'):
            estimator.fit((users, films, stars), duplicates="first")
    model = npb.BayesianMatrixCompletion(**SHORT)
    for how, value in (("last", 3.0), ("mean", (STARS[0] + 4.0) / 3)):
        found = model.fit((users, films, stars), duplicates=how).complete()
        np.testing.assert_array_equal(found, model.fit((USERS, FILMS, [value, *STARS[1:]])).complete())


def test_many_new_rows_are_folded_in_as_one_by_one():
    model = npb.BayesianMatrixCompletion(**SHORT).fit((USERS, FILMS, STARS))
    new = (["x", "x", "y", "y"], [205, 999, 101, 1500], [5.0, 1.0, 2.0, 4.0])
    names, *ends = model.fold_in_rows(new, level=0.8)
    assert names == ["x", "y"]
    one = model.fold_in([205, 999], [5.0, 1.0], level=0.8)
    for all_, alone in zip(ends, one, strict=True):
        np.testing.assert_array_equal(all_[0], alone)
    with pytest.raises(ValueError, match="columns: there is no 7"):
        model.fold_in_rows((["x"], [7], [1.0]))
