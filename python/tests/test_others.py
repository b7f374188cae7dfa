"""Matrices, recommenders, images, labels, topics."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import npb
from npb import (
    BayesianMatrixCompletion,
    BetaProcessDenoiser,
    FactorAnalysis,
    HybridRecommender,
    MaxMarginTopics,
    MixedTableModel,
    MultiLabelLatentFeatures,
)

SHORT = {"burn_in": 150, "keep": 150, "thin": 1}


def same_after_pickle_and_file(model, answer, path):
    whole = answer(model)
    np.testing.assert_array_equal(answer(pickle.loads(pickle.dumps(model))), whole)
    model.save(path)
    np.testing.assert_array_equal(answer(type(model).load(path)), whole)


def test_matrix_completion(tmp_path, low_rank):
    X, full = low_rank
    model = BayesianMatrixCompletion(sweeps=SHORT, chains=2).fit(X)
    hidden = np.isnan(X)
    assert np.sqrt(np.mean((model.complete() - full)[hidden] ** 2)) < 0.4 * full[hidden].std()
    rows, columns = np.nonzero(hidden)
    lower, upper = model.predict_interval(rows, columns, level=0.8)
    assert 0.6 < np.mean((lower <= full[hidden]) & (full[hidden] <= upper)) < 0.95
    assert model.diagnostics_ and model.rank_distribution_.argmax() == 2
    best = model.recommend(0, 3, exclude=[1])
    assert len(best) == 3 and 1 not in [b["column"] for b in best]
    listed = model.recommend(0, 20, exclude=[], like_from=0.5)
    scores = [b["exposure"] * b["liked"] for b in listed]
    assert len(listed) == min(20, X.shape[1]) and scores == sorted(scores, reverse=True)
    means = [b["mean"] for b in model.recommend(0, 5, by="mean")]
    assert means == sorted(means, reverse=True)
    mean, lower, upper = model.fold_in(np.arange(10), full[0, :10])
    assert np.corrcoef(mean, full[0])[0, 1] > 0.9 and (lower < upper).all()
    same_after_pickle_and_file(model, lambda m: m.complete(), tmp_path / "m")
    # Three ways to say the same.
    triplets = (*np.nonzero(~hidden), X[~hidden], X.shape)
    stored = sparse.coo_array((triplets[2], triplets[:2]), shape=X.shape).tocsr()
    for same in (triplets, stored):
        np.testing.assert_array_equal(BayesianMatrixCompletion(sweeps=SHORT, chains=2).fit(same).complete(), model.complete())


def test_matrix_errors(low_rank):
    X = low_rank[0].copy()
    with pytest.raises(NotFittedError):
        BayesianMatrixCompletion().predict([0], [0])
    X[3, 4] = np.inf
    with pytest.raises(ValueError, match="row 3, column 4 is inf"):
        BayesianMatrixCompletion().fit(X)
    with pytest.raises(ValueError, match="row 0, column 1"):
        BayesianMatrixCompletion().fit(([0, 0], [1, 1], [1.0, 2.0], (1, 2)))
    with pytest.raises(ValueError, match="rows"):
        BayesianMatrixCompletion().fit(([0.5], [1], [1.0]))
    with pytest.raises(ValueError, match="row_features has 2 rows"):
        BayesianMatrixCompletion().fit(low_rank[0], row_features=np.zeros((2, 1)))
    with pytest.raises(ValueError, match="burnin"):
        BayesianMatrixCompletion(sweeps={"burnin": 3}).fit(low_rank[0])
    model = BayesianMatrixCompletion(sweeps={"burn_in": 5, "keep": 5, "thin": 1}).fit(low_rank[0])
    with pytest.warns(UserWarning, match="there is no 99"):
        assert np.isnan(model.predict([99], [0])).all()


def test_recommender(tmp_path):
    rng = np.random.default_rng(2)
    taste, kind = rng.integers(2, size=60), rng.integers(2, size=30)
    liked = (taste[:, None] == kind[None, :]).astype(float)
    X = np.where(rng.random(liked.shape) < 0.6, np.nan, liked)
    features = kind[:, None] + 0.1 * rng.normal(size=(30, 1))
    model = HybridRecommender(like_from=1.0).fit(X, item_features=features)
    hits = [np.mean(liked[u, [b["item"] for b in model.recommend(u, 5)]]) for u in range(20)]
    assert np.mean(hits) > 0.8
    for by in ("choice", "like"):
        assert not set(np.flatnonzero(~np.isnan(X[0]))) & {b["item"] for b in model.recommend(0, 30, by=by)}
    chances = [b["probability"] for b in model.recommend(0, 30, by="like")]
    assert chances == sorted(chances, reverse=True) != [b["probability"] for b in model.recommend(0, 30)]
    new = model.predict_proba(liked=np.flatnonzero(kind == 1)[:3], disliked=np.flatnonzero(kind == 0)[:3])
    assert new[kind == 1].mean() > new[kind == 0].mean() + 0.3
    assert model.recommend(0, 3, explore=1) == model.recommend(0, 3, explore=1)
    same_after_pickle_and_file(model, lambda m: m.predict_proba(1), tmp_path / "m")
    with pytest.raises(ValueError, match="60"):
        model.predict_proba(60)
    with pytest.raises(NotFittedError):
        HybridRecommender().recommend(0)


def test_images(tmp_path):
    rng = np.random.default_rng(3)
    stripes = 100 + 50 * np.sin(np.arange(40)[:, None] / 3 + np.arange(40)[None, :] / 5)
    noisy = stripes + 10 * rng.normal(size=stripes.shape)
    noisy[rng.random(noisy.shape) < 0.2] = np.nan
    model = BetaProcessDenoiser(patch=(6, 6), atoms=16, sweeps={"burn_in": 15, "keep": 10, "thin": 1})
    done = model.fit_transform(noisy)
    assert done.shape == (40, 40) and np.sqrt(np.mean((done - stripes) ** 2)) < 7
    assert 5 < model.noise_sd_[0] < 15
    lower, upper = model.predict_interval(0.9)
    assert (lower < done).all() and (done < upper).all()
    same_after_pickle_and_file(model, lambda m: m.image_, tmp_path / "m")
    with pytest.raises(ValueError, match="height, width"):
        BetaProcessDenoiser().fit(np.zeros(5))
    with pytest.raises(NotFittedError):
        BetaProcessDenoiser().predict_interval()


def test_channels_of_images():
    rng = np.random.default_rng(6)
    grey = 100 + 50 * np.sin(np.arange(20)[:, None] / 3 + np.arange(18)[None, :] / 5) + 10 * rng.normal(size=(20, 18))
    settings = dict(atoms=16, sweeps={"burn_in": 5, "keep": 5, "thin": 1})
    plain = BetaProcessDenoiser(**settings).fit(grey)
    saved = BetaProcessDenoiser(**settings).fit(np.dstack([grey, grey, 0 * grey]))
    assert saved.image_.shape == (20, 18, 3) and (saved.image_[..., 2] == 0).all() and (saved.sd_[..., 2] == 0).all()
    for channel in (0, 1):
        np.testing.assert_array_equal(saved.image_[..., channel], plain.image_)
    assert saved.roles_[0] == "modelled" and saved.roles_[1]["copy_of"]["column"] == 0 and saved.roles_[2] == {"constant": {"value": 0.0}}
    # Alpha: holes where it is 0, and given back.
    alpha = np.full((20, 18), 255, np.uint8)
    alpha[3:5, 4:7] = 0
    picture = np.dstack([grey.astype(np.uint8), alpha])
    found = BetaProcessDenoiser(**settings).fit(picture)
    same = BetaProcessDenoiser(**settings).fit(np.where(alpha > 0, picture[..., 0], np.nan))
    np.testing.assert_array_equal(found.image_[..., 0], same.image_)
    np.testing.assert_array_equal(found.image_[..., 1], alpha)
    assert found.predict_interval()[0].shape == picture.shape
    np.testing.assert_array_equal(BetaProcessDenoiser(alpha=True, **settings).fit(picture.astype(float)).image_, found.image_)
    assert "modelled" == BetaProcessDenoiser(alpha=False, **settings).fit(picture).roles_[1]
    with pytest.raises(ValueError, match="last channel"):
        BetaProcessDenoiser(alpha=True).fit(grey)
    assert (BetaProcessDenoiser().fit(np.full((9, 5), 3.0)).image_ == 3).all()


def test_columns_that_say_nothing_of_their_own():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.5 * rng.normal(size=(60, 5))
    X[rng.random(X.shape) < 0.2] = np.nan
    settings = dict(atoms=6, sweeps=SHORT, stored_draws=5)
    full = FactorAnalysis(**settings).fit(X).impute(X)
    wide = np.column_stack([X, np.full(60, 3.0), 32 + 1.8 * X[:, 0], X])
    model = FactorAnalysis(**settings).fit(wide)
    np.testing.assert_array_equal(model.impute(wide)[:, :5], full)
    assert model.roles_[5] == {"constant": {"value": 3.0}} and all("copy_of" in role for role in model.roles_[6:])


def test_factor_analysis(tmp_path):
    rng = np.random.default_rng(4)
    full = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(80, 6))
    X = np.where(rng.random(full.shape) < 0.2, np.nan, full)
    model = FactorAnalysis(atoms=6, sweeps=SHORT, stored_draws=10).fit(X)
    hidden = np.isnan(X)
    assert np.sqrt(np.mean((model.impute(X) - full)[hidden] ** 2)) < 0.6 * full[hidden].std()
    scores = model.transform(X)
    assert scores.shape == (80, len(model.get_feature_names_out()))
    same_after_pickle_and_file(model, lambda m: m.transform(X), tmp_path / "m")


def test_many_labels(tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100, 5))
    scores = X @ rng.normal(size=(5, 4))
    Y = np.column_stack([(scores[:, :3] > 0).astype(float), scores[:, 3]])
    seen = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    model = MultiLabelLatentFeatures(numbers=[3], max_iter=30).fit(X, seen)
    found = model.predict(X)
    assert np.mean(found[:, :3] == Y[:, :3]) > 0.85
    assert np.corrcoef(found[:, 3], Y[:, 3])[0, 1] > 0.8
    assert {"feature", "expected_use", "columns", "drives"} == set(model.latent_features()[0])
    same_after_pickle_and_file(model, lambda m: m.predict(X), tmp_path / "m")
    p, log_odds = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(p[:, :3], 1 / (1 + np.exp(-log_odds[:, :3])), rtol=1e-12)
    assert np.isnan(p[:, 3]).all()
    right = np.mean(found[:, :3] == Y[:, :3], axis=0)
    r2 = 1 - np.sum((found[:, 3] - Y[:, 3]) ** 2) / np.sum((Y[:, 3] - Y[:, 3].mean()) ** 2)
    assert model.score(X, Y) == pytest.approx((right.sum() + r2) / 4)
    with pytest.raises(ValueError, match="row 0, column 'y3'"):
        MultiLabelLatentFeatures().fit(X, Y)
    with pytest.raises(NotFittedError):
        MultiLabelLatentFeatures().predict(X)


def test_labels_as_asked():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(200, 5))
    y = (X[:, 0] + X[:, 1] + rng.normal(size=200) > 2.4).astype(float)
    found = {}
    for name, settings in {
        "plain": dict(decisions="accuracy"),
        "balanced": dict(decisions="accuracy", class_weight="balanced"),
        "f1": dict(decisions="f1_macro"),
        "one cost": dict(cost=0.5, inputs="linear"),
        "paper": dict(inputs="none", cost=0.5),
    }.items():
        found[name] = MultiLabelLatentFeatures(**settings).fit(X, y)
    yeses = {name: model.predict(X).sum() for name, model in found.items()}
    assert yeses["plain"] < yeses["f1"] and yeses["plain"] < yeses["balanced"]
    assert found["plain"].predict_proba(X).shape == (200, 2)
    assert {member["cost"] for member in found["one cost"].members_} == {0.5}
    with pytest.raises(ValueError, match='inputs="none"'):
        found["paper"].predict_proba(X)
    with pytest.raises(ValueError, match="class_weight"):
        MultiLabelLatentFeatures(class_weight={0: 1}).fit(X, y)
    with pytest.warns(UserWarning, match="label y: all its known values are no"):
        MultiLabelLatentFeatures(inputs="linear").fit(X, np.zeros(200))


def test_topics(tmp_path):
    rng = np.random.default_rng(6)
    words = np.repeat(np.eye(2), 10, axis=1) + 0.1
    of_class = rng.integers(2, size=60)
    X = rng.poisson(3 * words[of_class])
    y = np.where(of_class == 1, "b", "a")
    model = MaxMarginTopics(topics=2).fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.95
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    shares = model.transform(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert len(model.top_words(0, 5)) == 5
    np.testing.assert_array_equal(MaxMarginTopics(topics=2).fit(sparse.csr_array(X), y).transform(sparse.csr_array(X)), shares)
    same_after_pickle_and_file(model, lambda m: m.transform(X), tmp_path / "m")
    assert MaxMarginTopics(topics=2).fit(X).transform(X).shape == (60, 2)
    numbers = MaxMarginTopics(topics=2).fit(X, 5.0 * of_class, numbers=True)
    assert np.corrcoef(numbers.predict(X), of_class)[0, 1] > 0.8
    with pytest.raises(ValueError, match="19 features"):
        model.predict(X[:, :19])
    with pytest.raises(NotFittedError):
        MaxMarginTopics().predict(X)


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_mixed_tables(kind):
    rng = np.random.default_rng(7)
    group = rng.integers(2, size=90)
    size = np.where(rng.random(90) < 0.2, None, 10 * group + rng.normal(size=90))
    colour = np.where(rng.random(90) < 0.2, None, np.array(["red", "blue", "grey"])[group + (rng.random(90) < 0.05)])
    seats = rng.poisson(2 + 6 * group)
    noise = rng.normal(size=90)
    columns = {"size": size.tolist(), "colour": colour.tolist(), "seats": seats.tolist(), "noise": noise.tolist()}
    if kind == "numpy":
        X = np.array(list(columns.values()), dtype=object).T
        columns = dict(zip(["x0", "x1", "x2", "x3"], columns.values(), strict=True))
    else:
        X = pytest.importorskip(kind).DataFrame(columns)
    names = list(columns)
    model = MixedTableModel(sweeps={"burn_in": 100, "keep": 20, "thin": 2}, chains=2).fit(X)
    done = model.impute(X, training=True)
    assert type(done) is type(X) and done.shape == X.shape
    cells = model.predict_cells(X, training=True)
    by_group = [cell["probabilities"]["red"] for cell in cells if cell["column"] == names[1] and group[cell["row"]] == 0]
    assert np.mean(by_group) > 0.7
    sizes = [(cell["lower"], group[cell["row"]] * 10, cell["upper"]) for cell in cells if cell["column"] == names[0]]
    assert np.mean([low < truth < high for low, truth, high in sizes]) > 0.6
    dependent = {(p["a"], p["b"]): p["dependent"] for p in model.dependence(X)}
    assert dependent[(names[0], names[1])] and not dependent[(names[0], names[3])]
    assert len(model.sample_missing(X, 3)) == 3 and model.score_samples(X).shape == (90,)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    if kind == "pandas":
        other = X.copy()
        other.loc[4, "colour"] = "pink"
        # A new category, and what no count can be, are missing.
        with pytest.warns(UserWarning, match="column .colour.: .pink. is no level.*first in row 4"):
            assert model.impute(other)["colour"][4] in ("red", "blue", "grey")
        with pytest.raises(ValueError, match="feature names should match"):
            model.impute(X[names[::-1]])
        with pytest.warns(UserWarning, match="column .seats.: .1.5. is not what the schema says it holds.*90 such rows, first in row 0"):
            assert (model.impute(X.assign(seats=[1.5] * 90))["seats"] % 1 == 0).all()
    with pytest.raises(NotFittedError):
        MixedTableModel().impute(X)


@pytest.mark.parametrize("name", npb.__all__)
def test_every_parameter_is_a_setting(name):
    cls = getattr(npb, name)
    model = cls()
    clone(model)
    defaults = cls.default_config()
    running = {"random_state", "n_jobs", "progress", "checkpoint", "checkpoint_every", "numbers", "measures", "alpha", "class_weight", "config", "missing_values", "add_indicator", "keep_empty_features"}
    for parameter in set(model.get_params()) - running:
        place, config = model._place(parameter, defaults), defaults
        for key in place:
            assert key in config, f"{parameter} is no setting of {name}"
            config = config[key]
    assert all(f"{parameter} :" in cls.__doc__ or f"{parameter}," in cls.__doc__ or f", {parameter} " in cls.__doc__ for parameter in model.get_params()), name


def test_whole_numbers_are_names_unless_the_shape_is_given():
    users = [u for u in (11, 12, 13, 14, 15, 40_000_000) for _ in range(3)]
    items = [(101, 205, 999, 1500)[(u + k) % 4] for u in users[::3] for k in range(3)]
    stars = [5.0 if (u + i) % 2 else 2.0 for u, i in zip(users, items)]
    sweeps = {"burn_in": 20, "keep": 20, "thin": 1}
    by_number = BayesianMatrixCompletion(sweeps=sweeps).fit((users, items, stars))
    assert by_number.shape_ == (6, 4)
    assert {r["column"] for r in by_number.recommend(11, n=4)} <= {101, 205, 999, 1500}
    # Places given by hand are the same model, in the same bits.
    order = {name: k for k, name in enumerate(sorted(set(users)))}, {name: k for k, name in enumerate(sorted(set(items)))}
    places = [order[0][u] for u in users], [order[1][i] for i in items]
    by_place = BayesianMatrixCompletion(sweeps=sweeps).fit((*places, stars, (6, 4)))
    assert by_place.shape_ == (6, 4)
    np.testing.assert_array_equal(by_number.predict(users, items), by_place.predict(*places))
    with pytest.warns(UserWarning, match="there is no 7"):
        assert np.isnan(by_number.predict([7], [101])).all()


def test_update_of_a_matrix_finds_its_rows_by_their_names():
    rng = np.random.default_rng(6)
    users, items = [f"u{i}" for i in range(30)], [f"f{j}" for j in range(12)]
    full = rng.normal(size=(30, 1)) @ rng.normal(size=(1, 12)) + 0.1 * rng.normal(size=(30, 12))
    cells = [(i, j) for i in range(30) for j in range(12) if (i + 2 * j) % 3]
    triplets = lambda cells: ([users[i] for i, _ in cells], [items[j] for _, j in cells], [full[i, j] for i, j in cells])
    settings = {"chains": 2, "sweeps": {"burn_in": 40, "keep": 40, "thin": 1}, "stored_draws": 20, "random_state": 2}
    first = [cell for cell in cells if cell[0] >= 10 and cell[1] >= 3]
    model = npb.BayesianMatrixCompletion(**settings).fit(triplets(first))
    old = model._rows.names[:]
    assert model.update(triplets(cells)) is model
    assert model.shape_ == (30, 12) and model._rows.names[:20] == old and set(model._rows.names) == set(users)
    hidden = [(i, j) for i in range(30) for j in range(12) if (i + 2 * j) % 3 == 0]
    rows, columns, truth = triplets(hidden)
    assert np.mean((model.predict(rows, columns) - truth) ** 2) < 0.3 * np.var(truth)
    again = npb.BayesianMatrixCompletion(**settings).fit(triplets(first)).set_params(n_jobs=1).update(triplets(cells[::-1]))
    assert again.shape_ == (30, 12)
    seed = model._fit.config()["seed"]
    assert model.update(triplets(cells))._fit.config()["seed"] != seed
    with pytest.raises(ValueError, match="where the fit had one"):
        model.update(triplets(cells[1:]))
    with pytest.raises(ValueError, match="no names"):
        npb.BayesianMatrixCompletion(**settings).fit(full).update(triplets(cells))
    with pytest.raises(ValueError, match="that of the fit"):
        model.set_params(rank_a=3.0).update(triplets(cells))
