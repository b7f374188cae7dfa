"""Bad input of every kind, to every estimator: the exceptions that scikit-learn's users expect, which name row and column."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import QUICK
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import npb

SHORT = {"burn_in": 10, "keep": 10, "thin": 1}
TABLES = {
    "IncompleteClassifier": (QUICK, True),
    "IncompleteMixture": (dict(unlabelled_starts=[{"k_means": 2}], max_iter=60), False),
    "IncompleteImputer": (dict(unlabelled_starts=[{"k_means": 2}], max_iter=60), False),
    "MultiTaskClassifier": (dict(folds=0, starts=[{"separate_per_class": 1}]), True),
    "MultiLabelLatentFeatures": (dict(max_iter=40), True),
    "FactorAnalysis": (dict(atoms=3, sweeps=SHORT), False),
    "MixedTableModel": (dict(sweeps={"burn_in": 10, "keep": 5, "thin": 1}, chains=1), False),
}
ASK = {"IncompleteImputer": "transform", "FactorAnalysis": "transform", "MixedTableModel": "impute"}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fitted(name, X, y):
    settings, with_y = TABLES[name]
    model = getattr(npb, name)(**settings)
    return model.fit(X, (y == "flat").astype(float)) if with_y else model.fit(X)


def with_cell(frame, row, column, value):
    frame = frame.astype({column: object})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize("name", TABLES)
def test_tables(name, moons):
    X, y, full = moons
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = fitted(name, frame, y)
    ask = getattr(model, ASK.get(name, "predict"))
    assert len(ask(frame)) == len(X)
    with pytest.raises(ValueError, match="feature names should match"):
        ask(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match="feature names should match|2 features"):
        ask(frame[["a", "b"]])
    with pytest.raises(ValueError, match="row 4, column 'a' is inf"):
        ask(with_cell(frame, 4, "a", np.inf))
    text = with_cell(frame, 5, "b", "tall")
    if name == "MixedTableModel":
        # A column that was guessed to hold numbers: taken as missing.
        with pytest.warns(UserWarning, match='"b": "tall" is not what.*row 5'):
            assert isinstance(ask(text)["b"][5], float)
    else:
        with pytest.raises(ValueError, match="row 5, column 'b'.*'tall'"):
            ask(text)
    plain = fitted(name, X, y)
    with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 3 features as input"):
        getattr(plain, ASK.get(name, "predict"))(X[:, :2])
    with pytest.raises(ValueError, match="Expected 2D array"):
        getattr(plain, ASK.get(name, "predict"))(X[:, 0])
    with pytest.raises(NotFittedError):
        getattr(getattr(npb, name)(), ASK.get(name, "predict"))(X)


@pytest.mark.parametrize("name", TABLES)
def test_kinds_of_tables_give_the_same_bits(name, moons):
    pandas, polars, pyarrow = (pytest.importorskip(package) for package in ("pandas", "polars", "pyarrow"))
    X, y, _ = moons
    names = ["a", "b", "c"]
    frame = pandas.DataFrame(X, columns=names)
    holes = [[None if np.isnan(v) else float(v) for v in row] for row in X]
    kinds = {
        "pandas": frame,
        "nullable": frame.convert_dtypes(),
        "pd.NA": frame.astype(object).mask(frame.isna(), pandas.NA),
        "polars": polars.DataFrame(holes, schema=names, orient="row"),
        "arrow": pyarrow.Table.from_pylist([dict(zip(names, row, strict=True)) for row in holes]),
        "stream": pyarrow.Table.from_pylist([dict(zip(names, row, strict=True)) for row in holes]).to_reader,
        "lists": holes,
        "masked": np.ma.masked_invalid(X),
        "fortran": np.asfortranarray(X),
    }
    answers = {}
    for kind, table in kinds.items():
        # A stream can be read once.
        read = table if callable(table) else lambda table=table: table
        model = fitted(name, read(), y)
        answers[kind] = np.asarray(getattr(model, ASK.get(name, "predict"))(read()), dtype=object)
    model = fitted(name, X, y)
    array = np.asarray(getattr(model, ASK.get(name, "predict"))(X), dtype=object)
    for kind, found in answers.items():
        assert found.tolist() == array.tolist(), kind


def test_a_contiguous_matrix_is_not_copied(moons):
    X = np.ascontiguousarray(moons[0])
    model = npb.IncompleteImputer(unlabelled_starts=[{"k_means": 2}])
    assert np.shares_memory(model._table(X, reset=True), X)
    before = X.copy()
    model.fit(X).transform(X)
    np.testing.assert_array_equal(X, before)


def test_images():
    image = np.random.default_rng(0).random((20, 20))
    model = npb.BetaProcessDenoiser(sweeps=SHORT, patch=6)
    holes = np.ma.masked_array(image, mask=np.zeros(image.shape, dtype=bool))
    holes[3, 4] = np.ma.masked
    with_nan = image.copy()
    with_nan[3, 4] = np.nan
    np.testing.assert_array_equal(model.fit_transform(holes), model.fit_transform(with_nan))
    assert model.dictionary_.shape[1:3] == (6, 6)
    image[2, 5] = np.inf
    with pytest.raises(ValueError, match="row 2, column 5"):
        model.fit(image)
    for wrong, message in ((np.zeros(5), "shape"), (np.full((20, 20), "a"), "numbers"), (np.full((20, 20), np.nan), "no entry is observed")):
        with pytest.raises(ValueError, match=message):
            model.fit(wrong)
    with pytest.raises(NotFittedError):
        npb.BetaProcessDenoiser().predict_interval()


def test_topics():
    counts = np.random.default_rng(0).poisson(1.0, size=(30, 6)).astype(float)
    y = np.arange(30) % 2
    model = npb.MaxMarginTopics(topics=2, max_iter=5).fit(counts, y)
    for value, message in ((-1, "document 3, word 2 is -1"), (np.nan, "NaN"), (np.inf, "infinity")):
        broken = counts.copy()
        broken[3, 2] = value
        for use in (model.transform, lambda X: npb.MaxMarginTopics().fit(X, y)):
            with pytest.raises(ValueError, match=message):
                use(broken)
    with pytest.raises(ValueError, match="expecting 6 features"):
        model.predict(counts[:, :5])
    with pytest.raises(ValueError, match="row 7; every document needs a class"):
        npb.MaxMarginTopics().fit(counts, np.where(np.arange(30) == 7, np.nan, y))
    with pytest.raises(NotFittedError):
        npb.MaxMarginTopics().transform(counts)


def test_matrices_and_recommenders_by_name(low_rank):
    pandas = pytest.importorskip("pandas")
    X = low_rank[0]
    users, items = [f"u{k}" for k in range(40)], [f"i{k}" for k in range(25)]
    frame = pandas.DataFrame(X, index=users, columns=items)
    settings = dict(sweeps={"burn_in": 60, "keep": 60, "thin": 1}, chains=1)
    model = npb.BayesianMatrixCompletion(**settings).fit(frame)
    plain = npb.BayesianMatrixCompletion(**settings).fit(X)
    np.testing.assert_array_equal(model.complete(), plain.complete())
    for by in ("choice", "mean"):
        best = model.recommend("u3", 4, by=by)
        assert [one["column"] for one in best] == [items[one["column"]] for one in plain.recommend(3, 4, by=by)]
        assert all(np.isnan(frame.at["u3", one["column"]]) for one in best)
    assert model.predict(["u3"], ["i7"])[0] == plain.predict([3], [7])[0]
    assert len(model.recommend("u3", 25, exclude=[])) == 25
    with pytest.raises(ValueError, match="rows: there is no 'u99'"):
        model.recommend("u99")
    rows, columns = np.nonzero(~np.isnan(X))
    long = (np.array(users)[rows], np.array(items)[columns], X[rows, columns])
    by_pairs = npb.BayesianMatrixCompletion(**settings).fit(long)
    assert by_pairs.predict(["u3"], ["i7"]).shape == (1,) and by_pairs._rows.names == sorted(users)
    stars = (long[0], long[1], (long[2] > 0).astype(float))
    recommender = npb.HybridRecommender(like_from=1).fit(stars)
    seen = set(long[1][long[0] == "u3"])
    assert all(one["item"] in items and one["item"] not in seen for one in recommender.recommend("u3", 4))
    assert recommender.recommend(liked=["i1"], n=2)[0]["item"] in items
    with pytest.raises(ValueError, match="items: there is no 'i99'"):
        recommender.recommend(liked=["i99"])
    for broken, message in (
        ((rows, columns, np.full(len(rows), np.inf)), "infinity or NaN: row 0"),
        ((rows, columns[:-1], X[rows, columns]), "one of each"),
        ((np.append(rows, rows[0]), np.append(columns, columns[0]), np.append(X[rows, columns], 1.0)), "row 0"),
        (frame.astype(object).replace(frame.at["u0", items[columns[0]]], "good"), "'good'"),
    ):
        with pytest.raises(ValueError, match=message):
            npb.BayesianMatrixCompletion(**settings).fit(broken)


def test_names_and_files_of_matrices(tmp_path, low_rank):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(low_rank[0], index=[f"u{k}" for k in range(40)])
    model = npb.BayesianMatrixCompletion(sweeps=SHORT, chains=1).fit(frame)
    model.save(tmp_path / "m")
    loaded = npb.BayesianMatrixCompletion.load(tmp_path / "m")
    assert loaded.predict(["u3"], [4])[0] == model.predict(["u3"], [4])[0]
    # The file knows what was observed.
    for by in ("choice", "mean"):
        assert loaded.recommend("u3", by=by) == model.recommend("u3", by=by)
    assert loaded.next_cells(3) == model.next_cells(3)


def test_the_next_cells_to_ask_for(low_rank):
    X = low_rank[0].copy()
    X[7, 3:] = np.nan
    model = npb.BayesianMatrixCompletion(sweeps={"burn_in": 100, "keep": 100, "thin": 1}, chains=1).fit(X)
    most = model.next_cells(5, how="largest_sd")
    assert [one["row"] for one in most] == [7] * 5 and sorted((one["sd"] for one in most), reverse=True) == [one["sd"] for one in most]
    apart = model.next_cells(5)
    assert apart[0]["sd"] == most[0]["sd"] and all(one["remaining_sd"] <= one["sd"] for one in apart)
    assert np.isnan([X[one["row"], one["column"]] for one in apart]).all()
    assert [one["row"] for one in model.next_cells(9, [1, 2], [0, 0])] in ([1, 2], [2, 1])
    with pytest.raises(ValueError, match="give both or neither"):
        model.next_cells(2, rows=[1])
    with pytest.raises(ValueError, match="how="):
        model.next_cells(2, how="random")


def test_ordinal_levels_are_those_of_the_data():
    stars = np.random.default_rng(0).integers(1, 6, size=(20, 10)).astype(float)
    model = npb.BayesianMatrixCompletion(likelihood="ordinal", sweeps=SHORT, chains=1).fit(stars)
    assert model._fit.config()["likelihood"] == {"ordinal": {"levels": 5}}


def test_labels_are_matched_by_index(moons):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(moons[0])
    Y = pandas.DataFrame({"flat": (moons[1] == "flat") * 1.0})
    with pytest.raises(ValueError, match="different indexes"):
        npb.MultiLabelLatentFeatures().fit(X, Y[::-1])
    with pytest.raises(ValueError, match="row 2, column 'flat': could not convert string to float: 'no'"):
        npb.MultiLabelLatentFeatures().fit(X, with_cell(Y, 2, "flat", "no"))


def test_settings_of_the_wrong_type_are_named(low_rank):
    for settings, message in (
        (dict(sweeps=200), "sweeps: must be a dict"),
        (dict(chains=-1), "chains: must not be negative"),
        (dict(likelihood="poisson"), "likelihood: unknown variant `poisson`"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            npb.BayesianMatrixCompletion(**settings).fit(low_rank[0])


def test_fits_that_have_not_settled_warn(moons, low_rank):
    X, y, _ = moons
    with pytest.warns(ConvergenceWarning, match="IncompleteClassifier: the bound was still rising.*max_iter"):
        npb.IncompleteClassifier(**{**QUICK, "max_iter": 2}).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="the chains have not met"):
        npb.BayesianMatrixCompletion(sweeps={"burn_in": 0, "keep": 6, "thin": 1}).fit(low_rank[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        npb.IncompleteMixture().fit(X)


def test_accuracy_is_over_rows_with_labels(moons):
    X, y, _ = moons
    model = npb.IncompleteClassifier(**QUICK).fit(X, y)
    some = y.astype(object)
    some[::2] = None
    assert model.score(X, some) == np.mean(model.predict(X)[1::2] == y[1::2])


def test_sparse_tables_are_refused():
    X = sparse.csr_array(np.eye(5))
    for name in TABLES:
        with pytest.raises(TypeError, match="[Ss]parse"):
            getattr(npb, name)().fit(X, np.arange(5) % 2)


def test_named_columns_after_loading(tmp_path, moons):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(moons[0], columns=["a", "b", "c"])
    for name in TABLES:
        model = fitted(name, frame, moons[1])
        model.save(tmp_path / name)
        loaded = type(model).load(tmp_path / name)
        ask = ASK.get(name, "predict")
        # A file of labels does not say whether Y was a list or a table of one column.
        answers = [np.ravel(np.asarray(getattr(one, ask)(frame), dtype=object)).tolist() for one in (loaded, model)]
        assert answers[0] == answers[1], name
        with pytest.raises(ValueError, match="feature names should match"):
            getattr(loaded, ask)(frame[["b", "a", "c"]])


def test_dates_are_no_numbers():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    days = np.array([["2020-01-01", "2020-01-02"], ["NaT", "2020-01-05"]] * 10, dtype="M8[D]")
    with pytest.raises(ValueError, match="holds dates"):
        npb.IncompleteImputer().fit(days)
    # In a frame they are days since 1970, as in files.
    imputer = npb.IncompleteImputer(**TABLES["IncompleteImputer"][0])
    for table in (pandas.DataFrame(days.astype("M8[s]"), columns=["a", "b"]), polars.DataFrame({"a": days[:, 0].tolist(), "b": days[:, 1].tolist()})):
        assert imputer.fit(table).transform(table)[0].tolist() == [18262.0, 18263.0]


def test_labels_that_are_masked_missing_or_mixed(moons):
    X, y, _ = moons
    codes = np.ma.masked_array(np.where(np.arange(len(X)) < 100, y == "flat", 7), mask=np.arange(len(X)) >= 100)
    assert npb.IncompleteClassifier(**QUICK).fit(X, codes).classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="some labels are texts and some are not"):
        npb.IncompleteClassifier(**QUICK).fit(X, np.array([1, "1"] * 60, dtype=object))


def test_a_fit_that_does_not_end_leaves_nothing(moons):
    X, y, _ = moons
    model = npb.IncompleteClassifier(**QUICK).fit(X, y)

    def stop(part, step, share):
        raise KeyboardInterrupt

    model.progress = stop
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], np.where(y == "flat", "dog", "cat"))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_what_was_taken_without_a_word(moons, low_rank):
    pandas = pytest.importorskip("pandas")
    X, y, _ = moons
    labels = (y == "flat").astype(float)
    likes = (low_rank[0] > 0).astype(float)
    mixed = pandas.DataFrame({"size": X[:, 0], "kind": y})
    table = npb.MixedTableModel(**TABLES["MixedTableModel"][0]).fit(mixed)
    imputer = npb.IncompleteImputer(**TABLES["IncompleteImputer"][0]).fit(X)
    matrix = npb.BayesianMatrixCompletion(sweeps=SHORT, chains=1).fit(low_rank[0])
    recommender = npb.HybridRecommender(like_from=1).fit(likes)
    for wrong, message in (
        (lambda: npb.MultiLabelLatentFeatures(numbers=["zz"]).fit(X, labels), "numbers: Y has no column 'zz'"),
        (lambda: npb.MultiLabelLatentFeatures().fit(X, np.zeros((len(X), 2, 2))), "Y: must have one column for each label"),
        (lambda: npb.BayesianMatrixCompletion(row_noise="no").fit(X), "row_noise='no': must be True or False"),
        (lambda: npb.BayesianMatrixCompletion().fit(X * 1e200), "too large: row 0"),
        (lambda: npb.BayesianMatrixCompletion().fit((["a", None], ["x", "y"], [1.0, 2.0])), "rows: entry 1 has no name"),
        (lambda: npb.BayesianMatrixCompletion(chains=10**9).fit(X), "chains = 1000000000: must be between 1 and 4096"),
        (lambda: npb.BayesianMatrixCompletion().fit(sparse.coo_array(np.eye(3) * 1j)), "a sparse matrix of real numbers"),
        (lambda: recommender.recommend(0, liked=[1]), "ask as a new user"),
        (lambda: recommender.recommend(0, n=-1), "n=-1: must be a whole number from 1"),
        (lambda: matrix.recommend(99), "rows: there is no 99"),
        (lambda: matrix.recommend(0, by="best"), "by='best': must be"),
        (lambda: matrix.recommend(0, by="mean", like_from=4), "like_from: goes with"),
        (lambda: matrix.recommend(0, like_from=np.nan), "like_from"),
        (lambda: recommender.recommend(0, by="best"), "by='best': must be"),
        (lambda: imputer.sample_missing(X, 0), "n_draws=0"),
        (lambda: table.sample_missing(mixed, 10**10), "n_draws=10000000000"),
        (lambda: table.impute(mixed[:5], training=True), "the table has 5 rows, that of the fit 120"),
        (lambda: npb.IncompleteImputer().fit(pandas.DataFrame(X, columns=["a", "b", "a"])), "'a' occurs twice"),
        (lambda: npb.IncompleteImputer(n_jobs=10**9).fit(X), "n_jobs=1000000000: must be from 1 to 4096"),
        (lambda: npb.MixedTableModel().fit(pandas.DataFrame({"a": [1, "x", (2,)] * 5})), "column 'a' cannot be read: it holds values of kinds"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            wrong()


def test_tables_of_odd_columns():
    pandas = pytest.importorskip("pandas")
    settings = TABLES["MixedTableModel"][0]
    # Numbers for names, categories that are numbers, one level, counts near 0.
    table = pandas.DataFrame({0: pandas.Categorical([1, None, 2, 5] * 10), 1: ["a", None] * 20, "n": [0, None, 3, 1] * 10})
    model = npb.MixedTableModel(measures={1: "categorical"}, **settings).fit(table)
    done = model.impute(table)
    assert done.columns.tolist() == [0, 1, "n"] and not done.isna().any().any() and done.dtypes[0] == table.dtypes[0]
    cells = model.predict_cells(table)
    assert all(cell["lower"] >= 0 and cell["lower"] == round(cell["lower"]) for cell in cells if cell["column"] == "n")
    assert {cell["column"] for cell in cells} == {"0", "1", "n"}


def test_schemas_that_are_none(tmp_path, moons):
    model = npb.MixedTableModel(**TABLES["MixedTableModel"][0]).fit(moons[0])
    model.save(tmp_path / "fit")
    for text, message in (("columns = [", "is no schema"), ("x = 1", "(?s)is no schema.*unknown field `x`"), ("columns = 3", "(?s)is no schema.*expected a sequence")):
        (tmp_path / "fit.toml").write_text(text)
        with pytest.raises(ValueError, match=message):
            npb.MixedTableModel.load(tmp_path / "fit")


def test_parts_by_number(moons):
    X, y, _ = moons
    tasks = np.arange(len(X)) % 2 + 1
    model = npb.MultiTaskClassifier(folds=0, starts=[{"separate_per_class": 1}], max_iter=20).fit(X, y, tasks)
    np.testing.assert_array_equal(model.predict_proba(X, tasks.astype(float)), model.predict_proba(X, tasks))


def test_what_cannot_be_is_named(moons, low_rank):
    X, y, _ = moons
    model = npb.IncompleteClassifier(**QUICK).fit(X, y)
    matrix = npb.BayesianMatrixCompletion(sweeps=SHORT, chains=1).fit(low_rank[0])
    several = npb.MultiTaskClassifier(folds=0, starts=[{"separate_per_class": 1}]).fit(X, y, np.arange(len(X)) % 2)
    for question, message in (
        (lambda: model.predict_interval(X, level="x"), "level='x': must be between 0 and 1"),
        (lambda: matrix.predict_interval([0], [0], level=None), "level=None: must be between 0 and 1"),
        (lambda: npb.IncompleteClassifier().fit(X, y[:3]), f"inconsistent numbers of samples: [{len(X)}, 3]"),
        (lambda: model.score(X, [None] * len(X)), "Input y contains NaN in all rows"),
        (lambda: matrix.predict(0, 0), "rows=0: must be a list of rows"),
        (lambda: matrix.fold_in([0, 1], [1.0]), "2 columns, 1 values"),
        (lambda: matrix.fold_in([0], [1e308]), "values: column 0 is 1e+308"),
        (lambda: matrix.fit((["a"], ["b"], ["much"])), "values: entry 0 is 'much', which is no number"),
        (lambda: matrix.fit((["a", "a"], ["b", "c"], [1.0, np.nan])), "row 'a', column 'c' is nan"),
        (lambda: matrix.fit(([0], [0], [1.0], "2x2")), "shape='2x2': must be two whole numbers"),
        (lambda: several.predict(X), "tasks: the fit has 2 of them"),
        (lambda: several.predict(X, "ab"), "tasks: must be a list, the task of each row"),
        (lambda: npb.IncompleteClassifier(config={"folds": "x"}).fit(X, y), "folds='x': must be a whole number"),
        (lambda: npb.IncompleteClassifier(tol="x").fit(X, y), "tol='x': must be a number"),
        (lambda: npb.IncompleteClassifier(config={1: 2}).fit(X, y), "config: the key 1 is no text"),
        (lambda: npb.MultiLabelLatentFeatures(numbers="y0").fit(X, y == "flat"), "numbers='y0': must be a list of columns of Y"),
        (lambda: npb.MaxMarginTopics().fit(["some words"] * 3), "X holds texts: count their words first"),
        (lambda: npb.MixedTableModel(measures=["w"]).fit(X), "measures=['w']: must be a dict"),
        (lambda: npb.MixedTableModel().fit(np.full((3, 2), np.nan)), "no column says anything"),
        (lambda: npb.BetaProcessDenoiser(patch=2.5).fit(np.eye(16)), "patch=2.5: must be a whole number, or two"),
        (lambda: npb.BetaProcessDenoiser().fit(np.full((16, 16), 1e300)), "the pixel at (0, 0) is 1e+300: too large"),
        (lambda: npb.IncompleteMixture(**TABLES["IncompleteMixture"][0]).fit(X).sample(0), "n_samples=0: must be a whole number from 1"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            question()
    with pytest.raises(TypeError, match=re.escape("row 1, column 0: float() argument must be a string or a real number, not 'dict'")):
        model.predict([[1, 2, 3], [{}, 2, 3]])


def test_a_column_of_which_nothing_is_known_is_filled_with_levels():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"w": [4.0, 30.0, 500.0] * 8, "animal": ["cat", "dog", "horse"] * 8})
    model = npb.MixedTableModel(sweeps={"burn_in": 10, "keep": 5, "thin": 1}, chains=1).fit(frame)
    for unknown in (None, np.nan, pandas.NA):
        row = pandas.DataFrame({"w": [4.0], "animal": [unknown]})
        filled = model.impute(row)
        assert filled["animal"].tolist()[0] in ("cat", "dog", "horse") and filled["w"].tolist() == [4.0]
        assert set(model.predict_cells(row)[0]["probabilities"]) == {"cat", "dog", "horse"}
    polars = pytest.importorskip("polars")
    filled = model.impute(polars.DataFrame({"w": [4.0], "animal": [None]}))
    assert filled["animal"][0] in ("cat", "dog", "horse")


def test_a_model_file_of_the_command_is_told_from_a_fit():
    kept = Path(__file__).parents[2] / "crates/npb-cli/tests/models/classifier.npb"
    with pytest.raises(ValueError, match="is a model file of the command; `npb export"):
        npb.IncompleteClassifier.load(kept)
