"""Columns of every type that frames have: read as a file of the same cells is, or as the plain numbers that they are."""

import datetime
import decimal
import pickle

import numpy as np
import pytest
from conftest import QUICK
from scipy import sparse

import npb

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Downcasting"),
]
SHORT = dict(sweeps={"burn_in": 10, "keep": 5, "thin": 1}, chains=1)
IMPUTER = dict(unlabelled_starts=[{"k_means": 2}], max_iter=60)
N = 40
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 2)).round(2)
HOLE = np.arange(N) % 7 == 3
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


def with_column(values, **names):
    return pandas.DataFrame({"a": values, "x": X[:, 1]})


NUMBERS = {
    "floats": np.where(HOLE, np.nan, X[:, 0]),
    "decimals": [None if h else decimal.Decimal(str(v)) for v, h in zip(X[:, 0], HOLE, strict=True)],
    "objects of several types": [None if h else (v if k % 2 else decimal.Decimal(str(v))) for k, (v, h) in enumerate(zip(X[:, 0], HOLE, strict=True))],
    "texts": [None if h else str(v) for v, h in zip(X[:, 0], HOLE, strict=True)],
    "strings": pandas.array([None if h else str(v) for v, h in zip(X[:, 0], HOLE, strict=True)], dtype="string"),
    "nullable": pandas.array(np.where(HOLE, np.nan, X[:, 0]), dtype="Float64"),
    "sparse": pandas.arrays.SparseArray(np.where(HOLE, np.nan, X[:, 0])),
    "of Arrow": pandas.array(np.where(HOLE, None, X[:, 0]), dtype="double[pyarrow]"),
    "decimals of Arrow": pandas.array(
        [None if h else decimal.Decimal(str(v)) for v, h in zip(X[:, 0], HOLE, strict=True)], dtype=pandas.ArrowDtype(pyarrow.decimal128(10, 2))
    ),
    "timedelta": pandas.to_timedelta(np.where(HOLE, np.nan, X[:, 0]), unit="s"),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_any_type_are_the_numbers_that_they_are(kind):
    frame = with_column(NUMBERS[kind])
    plain = with_column(NUMBERS["floats"])
    array = plain.to_numpy()
    model = npb.IncompleteImputer(**IMPUTER).fit(frame)
    found = model.transform(frame)
    np.testing.assert_array_equal(found, npb.IncompleteImputer(**IMPUTER).fit(array).transform(array))
    # Fitted to plain numbers, asked with these.
    np.testing.assert_array_equal(npb.IncompleteImputer(**IMPUTER).fit(plain).transform(frame), found)
    table = npb.MixedTableModel(measures={"a": "real", "x": "real"}, **SHORT)
    done = table.fit(frame).impute(frame)
    of_plain = table.fit(plain).impute(plain)
    seconds = done["a"].dt.total_seconds() if kind == "timedelta" else done["a"]
    np.testing.assert_allclose(seconds.astype(float), of_plain["a"], atol=1e-9 if kind == "timedelta" else 0.01 if "Arrow" in kind else 0)
    # What is known comes back as it was.
    known = frame[~HOLE]["a"]
    assert (done[~HOLE]["a"].astype(object) == known.astype(object)).all() and not done.isna().any().any()


@pytest.mark.parametrize("kind", ["boolean", "object", "bool[pyarrow]"])
def test_truth_values_with_holes(kind):
    truths = [None if h else bool(v > 0) for v, h in zip(X[:, 0], HOLE, strict=True)]
    frame = with_column(pandas.array(truths, dtype=kind) if kind != "object" else np.array(truths, dtype=object))
    numbers = with_column(np.array([np.nan if v is None else float(v) for v in truths]))
    np.testing.assert_array_equal(npb.IncompleteImputer(**IMPUTER).fit(frame).transform(frame), npb.IncompleteImputer(**IMPUTER).fit(numbers).transform(numbers))
    done = npb.MixedTableModel(**SHORT).fit(frame).impute(frame)
    assert set(done["a"]) <= {True, False} and [v for v, h in zip(done["a"], HOLE, strict=True) if not h] == [v for v in truths if v is not None]
    # As labels.
    labels = npb.MultiLabelLatentFeatures(max_iter=5)
    one = labels.fit(X, frame[["a"]]).predict_proba(X)
    np.testing.assert_array_equal(one, labels.fit(X, numbers[["a"]]).predict_proba(X))
    classes = npb.IncompleteClassifier(**QUICK).fit(X, frame["a"])
    assert classes.classes_.tolist() == [False, True]


def test_categories_become_columns_of_the_classifier(tmp_path):
    towns = np.array(["Oslo", "Bergen", "Hamar"])[np.arange(N) % 3].astype(object)
    towns[HOLE] = None
    codes = {name: np.where(HOLE, np.nan, (towns == name).astype(float)) for name in ("Hamar", "Oslo")}
    by_hand = pandas.DataFrame({"town=Hamar": codes["Hamar"], "town=Oslo": codes["Oslo"], "x": X[:, 1]})
    expected = npb.IncompleteClassifier(**QUICK).fit(by_hand, Y)
    for values in (towns, pandas.Categorical(towns), pandas.array(towns, dtype="string")):
        frame = pandas.DataFrame({"town": values, "x": X[:, 1]})
        model = npb.IncompleteClassifier(**QUICK).fit(frame, Y)
        np.testing.assert_array_equal(model.predict_proba(frame), expected.predict_proba(by_hand))
        assert model.feature_names_in_.tolist() == ["town", "x"] and model.n_features_in_ == 2
    rows = polars.DataFrame({"town": towns.tolist(), "x": X[:, 1]})
    for kind in (polars.String, polars.Categorical, polars.Enum(["Bergen", "Hamar", "Oslo"])):
        of_polars = rows.with_columns(polars.col("town").cast(kind))
        np.testing.assert_array_equal(npb.IncompleteClassifier(**QUICK).fit(of_polars, Y).predict_proba(of_polars), expected.predict_proba(by_hand))
    # Files and pickles know the categories.
    model.save(tmp_path / "m")
    for again in (npb.IncompleteClassifier.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert again.feature_names_in_.tolist() == ["town", "x"]
        np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
        with pytest.raises(ValueError, match="feature names should match"):
            again.predict(frame[["x", "town"]])
        with pytest.warns(UserWarning, match='"Tromsø" is no level.*row 5'):
            other = again.predict_proba(frame.assign(town=[*frame["town"][:5], "Tromsø", *frame["town"][6:]]))
        missing = again.predict_proba(frame.assign(town=[*frame["town"][:5], None, *frame["town"][6:]]))
        np.testing.assert_array_equal(other, missing)
    # A fit without categories leaves no file of theirs.
    npb.IncompleteClassifier(**QUICK).fit(X, Y).save(tmp_path / "m")
    assert npb.IncompleteClassifier.load(tmp_path / "m").n_features_in_ == 2


def test_names_of_the_columns_of_an_imputer():
    frame = pandas.DataFrame({"town": np.array(["A", "B", "C", None], dtype=object)[np.arange(N) % 4], "x": X[:, 1], "when": pandas.date_range("2024", periods=N)})
    imputer = npb.IncompleteImputer(**IMPUTER).set_output(transform="pandas").fit(frame)
    done = imputer.transform(frame)
    assert done.columns.tolist() == ["town=B", "town=C", "x", "when"]
    # Days since 1970.
    assert done["when"].tolist() == [19723.0 + k for k in range(N)]
    assert not done.isna().any().any()


def test_periods_and_times_of_day():
    months = pandas.period_range("2020-01", periods=N, freq="M")
    frame = with_column(pandas.Series(months).where(~HOLE))
    days = [np.nan if h else (m.to_timestamp() - pandas.Timestamp(1970, 1, 1)).days for m, h in zip(months, HOLE, strict=True)]
    plain = with_column(np.array(days, dtype=float))
    np.testing.assert_array_equal(npb.IncompleteImputer(**IMPUTER).fit(frame).transform(frame), npb.IncompleteImputer(**IMPUTER).fit(plain).transform(plain))
    done = npb.MixedTableModel(**SHORT).fit(frame).impute(frame)
    assert done["a"].dtype == frame["a"].dtype and (done["a"] == frame["a"])[~HOLE].all() and not done["a"].isna().any()
    clocks = [None if h else datetime.time(6 + k % 12, k) for k, h in enumerate(HOLE)]
    done = npb.MixedTableModel(**SHORT).fit(with_column(clocks)).impute(with_column(clocks))
    assert all(isinstance(v, datetime.time) for v in done["a"]) and done["a"][0] == clocks[0]


def test_known_cells_are_not_changed():
    """Fractions of seconds, zones, whole numbers beyond 2^53."""
    x = np.where(np.arange(N) == 5, np.nan, X[:, 1])
    times = pandas.Series(pandas.Timestamp("2024-03-01 12:00:00.250", tz="Asia/Tokyo") + pandas.to_timedelta(np.arange(N) * 1.75, "s")).where(np.arange(N) != 8).array
    large = pandas.array([None if k == 9 else 9_007_199_254_740_993 + 1000 * k * k for k in range(N)], dtype="Int64")
    frame = pandas.DataFrame({"t": times, "k": large, "x": x}, index=[f"r{k}" for k in range(N)])
    # Undeclared, long numbers that are all different are names.
    done = npb.MixedTableModel(measures={"k": "real"}, **SHORT).fit(frame).impute(frame)
    pandas.testing.assert_frame_equal(done.mask(frame.isna()), frame)
    assert not done.isna().any().any() and done.dtypes.tolist() == frame.dtypes.tolist()


def test_a_file_of_columns_with_types_and_its_frame_are_one(tmp_path):
    """What a frame is taken for is what its Parquet file is taken for by the command's reader, types that Parquet keeps."""
    table = pyarrow.table(
        {
            "price": pyarrow.array([decimal.Decimal(f"{v:.2f}") for v in 10 + X[:, 0]], type=pyarrow.decimal128(8, 2)),
            "n": pyarrow.array([None if h else int(k) % 5 for k, h in enumerate(HOLE)], type=pyarrow.int16()),
            "single": pyarrow.array(X[:, 1], type=pyarrow.float32()),
            "when": pyarrow.array([datetime.date(2024, 1, 1) + datetime.timedelta(days=k * k) for k in range(N)]),
            "took": pyarrow.array([datetime.timedelta(seconds=1.5 * k) for k in range(N)]),
        }
    )
    answers = []
    kinds = [table, table.to_pandas(), table.to_pandas(types_mapper=pandas.ArrowDtype), polars.from_arrow(table)]
    for one in kinds:
        answers.append(npb.MixedTableModel(**SHORT).fit(one))
    for model in answers[1:]:
        assert model.schema() == answers[0].schema()
        assert model._fit.to_bytes() == answers[0]._fit.to_bytes()


def test_sparse_labels_counts_and_ratings():
    labels = (np.c_[X > 0] * 1).astype(float)
    model = npb.MultiLabelLatentFeatures(max_iter=5)
    np.testing.assert_array_equal(model.fit(X, sparse.csr_matrix(labels)).predict_proba(X), model.fit(X, labels).predict_proba(X))
    counts = RNG.poisson(1.0, (N, 6))
    frame = pandas.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(counts), columns=[f"w{j}" for j in range(6)])
    topics = npb.MaxMarginTopics(topics=2, max_iter=5)
    np.testing.assert_array_equal(topics.fit(frame, Y).transform(frame), topics.fit(counts, Y).transform(counts))
    ratings = npb.BayesianMatrixCompletion(**SHORT)
    np.testing.assert_array_equal(ratings.fit(frame).complete(), ratings.fit(sparse.csr_matrix(counts)).complete())
    assert ratings.fit(frame).recommend(0, n=1)[0]["column"].startswith("w")


def test_names_of_columns_that_are_numbers():
    """2019, 2020, ... are names; 0, 1, ... in their order are none; a mixture is, too."""
    frame = pandas.DataFrame(np.c_[X, X[:, :1] ** 2], columns=[2019, 2020, "note"])
    model = npb.IncompleteImputer(**IMPUTER).fit(frame)
    assert model.feature_names_in_.tolist() == ["2019", "2020", "note"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[["note", 2020, 2019]])
    plain = pandas.DataFrame(np.c_[X, X[:, :1] ** 2])
    model = npb.IncompleteImputer(**IMPUTER).fit(plain)
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match=r"stand in the order \[2, 0, 1\]"):
        model.transform(plain[[2, 0, 1]])


def test_names_of_rows_are_left_out():
    frame = pandas.DataFrame({"Unnamed: 0": np.arange(N), "a": X[:, 0], "b": X[:, 1]})
    with pytest.warns(UserWarning, match="'Unnamed: 0': names or numbers of the rows"):
        model = npb.IncompleteClassifier(**QUICK).fit(frame, Y)
    expected = npb.IncompleteClassifier(**QUICK).fit(frame[["a", "b"]], Y)
    np.testing.assert_array_equal(model.predict_proba(frame), expected.predict_proba(frame[["a", "b"]]))
    with pytest.warns(UserWarning, match="'Unnamed: 0'"):
        table = npb.MixedTableModel(**SHORT).fit(frame)
    done = table.impute(frame)
    assert done["Unnamed: 0"].tolist() == list(range(N))


def test_a_guess_refuses_nothing_and_a_declaration_does():
    positive = np.exp(RNG.normal(scale=1.5, size=N))
    frame = pandas.DataFrame({"income": positive, "x": X[:, 0]})
    model = npb.MixedTableModel(**SHORT).fit(frame)
    assert model._schema.columns[0]["kind"] == "positive"
    later = frame.assign(income=[0.0, *positive[1:]])
    with pytest.warns(UserWarning, match='"income".*row 0'):
        assert model.impute(later)["income"][0] > 0
    declared = npb.MixedTableModel(measures={"income": "positive"}, **SHORT).fit(frame)
    again = pickle.loads(pickle.dumps(declared))
    for one in (declared, again):
        with pytest.raises(ValueError, match='row 0.*"income".*above 0'):
            one.impute(later)


def test_what_cannot_be_read_is_named():
    for values, message in (([[1], [2]] * 20, "'a' cannot be read: it holds values of kinds that do not go together"), ([1 + 2j] * N, "'a' cannot be read")):
        for model in (npb.MixedTableModel(**SHORT), npb.IncompleteImputer(**IMPUTER)):
            with pytest.raises(ValueError, match=message):
                model.fit(pandas.DataFrame({"a": values, "x": X[:, 0]}))
