"""Mixed tables: what columns are taken for, dates, files and schemas, fits that are pooled."""

import datetime

import numpy as np
import pytest

from npb import MixedTableModel

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SHORT = dict(sweeps={"burn_in": 30, "keep": 8, "thin": 1}, chains=1)
MOODS = ["low", "middle", "high"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    group = rng.integers(2, size=60)
    frame = pandas.DataFrame(
        {
            "since": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(300 * group + rng.integers(30, size=60), "D"),
            "wind": (90.0 * group + rng.normal(scale=20, size=60)) % 360,
            "mood": np.array(MOODS)[group + rng.integers(2, size=60)],
            "visits": rng.poisson(1 + 5 * group).astype(float),
            "member": group == 1,
            "place": np.array(["Oslo", "Bergen", 'a "Ø"'])[rng.integers(3, size=60)],
        }
    )
    holes = pandas.DataFrame(rng.random(frame.shape) < 0.15, columns=frame.columns)
    return frame.astype({"member": object}).mask(holes)


MEASURES = {"wind": {"angle": {"period": 360}}, "mood": {"ordinal": MOODS}}


@pytest.fixture(scope="module")
def model(table):
    return MixedTableModel(measures=MEASURES, **SHORT).fit(table)


def test_columns_are_taken_for_what_they_are(model):
    assert [column["kind"] for column in model._schema.columns] == ["date", "angle", "ordinal", "count", "binary", "categorical"]
    assert model._schema.columns[2]["levels"] == MOODS


def test_marks_are_ordinal_and_counts_are_not():
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"mark": np.clip(np.rint(rng.normal(6, 1.2, size=200)), 3, 9), "visits": rng.poisson(4, size=200), "x": rng.normal(size=200)})
    model = MixedTableModel(**SHORT).fit(frame)
    assert [column["kind"] for column in model._schema.columns] == ["ordinal", "count", "real"]
    assert [float(level) for level in model._schema.columns[0]["levels"]] == list(range(3, 10))
    pair = next(p for p in model.dependence(frame, permutations=199, level=0.05) if p["a"] == "mark")
    assert pair["least_p_value"] == 1 / 200 and pair["verdict"] in {"yes", "unexplained", "no"}


def test_dates_come_back(model, table):
    done = model.impute(table, training=True)
    assert done.dtypes["since"] == table.dtypes["since"] and not done.isna().any().any()
    assert (done["since"] > "2019-01-01").all() and (done["since"] < "2022-01-01").all()
    known = table["since"].notna()
    assert (done["since"] == table["since"])[known].all()
    cell = next(cell for cell in model.predict_cells(table) if cell["column"] == "since")
    assert cell["lower"] < cell["mean"] < cell["upper"] and isinstance(cell["mean"], datetime.datetime)


def test_dates_of_python_and_polars():
    polars = pytest.importorskip("polars")
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(k)) for k in np.random.default_rng(0).integers(400, size=40)]
    rows = polars.DataFrame({"day": [None, *days[1:]], "x": np.arange(40) % 7})
    model = MixedTableModel(**SHORT).fit(rows)
    done = model.impute(rows, training=True)
    assert done.schema["day"] == polars.Date and done["day"].to_list()[1:] == days[1:] and done["day"][0] is not None
    zone = datetime.timezone(datetime.timedelta(hours=5))
    zoned = [datetime.datetime(2024, 1, 1, 3, tzinfo=zone) + datetime.timedelta(days=k % 9, hours=k) for k in range(30)]
    array = np.array([zoned, list(range(30, 0, -2)) * 2], dtype=object).T
    array[4, 0] = None
    done = MixedTableModel(measures={"x1": "real"}, **SHORT).fit(array).impute(array)
    assert done[5, 0] == zoned[5] and done[4, 0].tzinfo == zone
    with pytest.warns(UserWarning, match='"noon" is not what the schema says it holds.*row 2'):
        assert model.impute(polars.DataFrame({"day": [None, None, "noon"], "x": [1, 2, 3]}))["day"][2] != "noon"


def test_files_and_schemas(tmp_path, model, table):
    model.save(tmp_path / "fit")
    loaded = MixedTableModel.load(tmp_path / "fit")
    assert loaded.schema() == model.schema() == (tmp_path / "fit.toml").read_text("utf-8")
    np.testing.assert_array_equal(loaded.score_samples(table), model.score_samples(table))
    pandas.testing.assert_frame_equal(loaded.impute(table, training=True), model.impute(table, training=True))
    (tmp_path / "other.toml").write_text('columns = [{ name = "x", kind = "real" }]')
    with pytest.raises(ValueError, match=r"schema: has the columns \['x'\]"):
        MixedTableModel.load(tmp_path / "fit", schema=tmp_path / "other.toml")
    (tmp_path / "fit.toml").unlink()
    with pytest.raises(FileNotFoundError, match="fit.toml"):
        MixedTableModel.load(tmp_path / "fit")


def test_fits_of_several_seeds_are_pooled(table):
    one, two = (MixedTableModel(measures=MEASURES, **SHORT, random_state=seed).fit(table) for seed in (2, 3))
    both = MixedTableModel.pooled([one, two])
    for name, draws in both.scalars().items():
        np.testing.assert_array_equal(draws, np.concatenate([one.scalars()[name], two.scalars()[name]]))
    mean = np.logaddexp(one.score_samples(table), two.score_samples(table)) - np.log(2)
    np.testing.assert_allclose(both.score_samples(table), mean)
    with pytest.raises(ValueError, match="models 0 and 1 have the same seed"):
        MixedTableModel.pooled([one, one])


def test_what_is_no_column_of_a_model_is_named():
    n = 40
    for names, why in (([f"n{k}" for k in range(n)], "a different one in every row"), (np.arange(100, 100 + n), "consecutive")):
        frame = pandas.DataFrame({"id": names, "x": [None, *(np.arange(1, n) % 5)]})
        with pytest.warns(UserWarning, match=f"column 'id'.*{why}.*left out"):
            model = MixedTableModel(**SHORT).fit(frame)
        # It is given back as it is, and need not be there.
        done = model.impute(frame)
        assert done["id"].tolist() == frame["id"].tolist() and not done["x"].isna().any()
        assert model.impute(frame[["x"]])["x"].tolist() == done["x"].tolist()
    with pytest.raises(ValueError, match="'mood': the order of"):
        MixedTableModel(measures={"mood": "ordinal"}).fit(pandas.DataFrame({"mood": MOODS * 4}))
    with pytest.raises(ValueError, match="column 'x' is 'size'"):
        MixedTableModel(measures={"x": "size"}).fit(pandas.DataFrame({"x": [1.0, 2.5]}))
    ordered = pandas.DataFrame({"mood": pandas.Categorical(MOODS * 4, categories=MOODS, ordered=True)})
    assert MixedTableModel(measures={"mood": "ordinal"}, **SHORT).fit(ordered)._schema.columns[0]["levels"] == MOODS


def test_columns_are_predicted_given_others(model, table):
    told = model.predict_columns(["visits", "place"], table)
    assert [(cell["row"], cell["column"]) for cell in told[:2]] == [(0, "visits"), (0, "place")] and len(told) == 120
    for cell in told:
        assert 0 <= cell["epistemic"] <= 1
        if cell["column"] == "place":
            assert cell["probabilities"][cell["level"]] == max(cell["probabilities"].values()) and sum(cell["probabilities"].values()) == pytest.approx(1)
    # What the rows have of the targets is not looked at.
    other = table.assign(visits=3.0, place="Oslo")
    assert model.predict_columns(["visits", "place"], other) == told
    assert model.predict_columns(["visits", "place"], table.drop(columns=["visits", "place"])) == told
    (one,) = model.predict_columns("visits", given={"member": True, "mood": "high"})
    (few,) = model.predict_columns("visits", given={"member": False, "mood": "low"})
    assert few["mean"] < one["mean"]
    row = pandas.DataFrame({"since": [pandas.NaT], "wind": [np.nan], "mood": ["high"], "visits": [np.nan], "member": [True], "place": [None]})
    assert model.predict_columns("visits", row)[0]["mean"] == one["mean"]
    (date,) = model.predict_columns("since", given={"member": True})
    assert date["mean"].startswith("202")


def test_simulated_rows_keep_what_is_given(model):
    made = pandas.DataFrame(model.simulate(300, given={"mood": "high"}))
    assert set(made["mood"]) == {"high"} and not made.isna().any(axis=None)
    assert made["visits"].dtype.kind == "i" and made["wind"].between(0, 360).all() and set(made["place"]) <= {"Oslo", "Bergen", 'a "Ø"'}
    assert pandas.DataFrame(model.simulate(5, given={"mood": "high"})).equals(made.head())
    assert np.isfinite(model.score_samples(pandas.DataFrame(model.simulate(20)))).all()


def test_odd_cells_stand_first(model, table):
    wrong = table.copy()
    row = int(np.flatnonzero((table["member"] == True) & table["visits"].notna() & table["since"].notna())[0])  # noqa: E712
    wrong.loc[row, "visits"] = 400.0
    cells = model.score_cells(wrong)
    assert (cells[0]["row"], cells[0]["column"]) == (row, "visits") and len(cells) == int(wrong.notna().sum().sum())
    assert all(a["excess"] >= b["excess"] for a, b in zip(cells, cells[1:]))
    one = next(cell for cell in cells if cell["column"] == "mood")
    rest = wrong.copy()
    rest.loc[one["row"], "mood"] = None
    difference = model.score_samples(rest)[one["row"]] - model.score_samples(wrong)[one["row"]]
    assert one["surprisal"] == pytest.approx(difference)


def test_rows_that_are_alike(model, table):
    alike = model.similar(4, columns=["member", "visits"], n=59)
    assert len(alike) == 59 and all(a["similarity"] >= b["similarity"] for a, b in zip(alike, alike[1:]))
    found = model.clusters(table)
    assert sorted(name for one in found for name in one["columns"]) == sorted(table)
    for one in found:
        assert [cluster["size"] for cluster in one["clusters"]] == np.bincount(one["labels"]).tolist()
        assert all(cluster["columns"][0]["divergence"] >= cluster["columns"][-1]["divergence"] for cluster in one["clusters"])
    pairs = model.dependence(table, permutations=99, level=0.05, given="member")
    assert len(pairs) == 10 and not any("member" in (pair["a"], pair["b"]) for pair in pairs)


def test_questions_that_cannot_be_are_named(model, table):
    everything = {"since": "2020-01-02", "wind": 3.0, "mood": "low", "visits": 2, "member": True, "place": "Oslo"}
    for ask, message in (
        (lambda: model.predict_columns("visits"), "give X, or given"),
        (lambda: model.predict_columns("price", table), "price"),
        (lambda: model.predict_columns([], table), "columns"),
        (lambda: model.predict_columns("visits", given={"visits": 3}), "'visits' is what is to be predicted"),
        (lambda: model.predict_columns("visits", given={"price": 3}), "there is no column 'price'"),
        (lambda: model.predict_columns("visits", given={"place": "Paris"}), "Paris"),
        (lambda: model.predict_columns("visits", given={"wind": "strong"}), "strong"),
        (lambda: model.predict_columns("visits", given=["place"]), "must be a dict"),
        (lambda: model.simulate(0), "n=0"),
        (lambda: model.simulate(3, given=everything), "leave a column out"),
        (lambda: model.similar(60), "row=60: must be a row of the fit, from 0 to 59"),
        (lambda: model.similar(0, columns="price"), "there is no column 'price'"),
        (lambda: model.clusters(table.head(9)), "the table has 9 rows"),
        (lambda: model.dependence(table, given=list(everything)), "so that two are left"),
        (lambda: MixedTableModel().simulate(3), "not fitted"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_update_goes_on_with_new_rows_and_knows_the_old_ones():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    kind = rng.integers(2, size=80)
    frame = pd.DataFrame({"x": kind * 6 + rng.normal(size=80), "y": np.where(kind == 1, "one", "two"), "n": rng.poisson(3 + 5 * kind)})
    frame.loc[[3, 44, 70], "x"] = np.nan
    settings = {"chains": 2, "sweeps": {"burn_in": 30, "keep": 20, "thin": 1}, "random_state": 3}
    model = MixedTableModel(**settings).fit(frame[:50])
    with pytest.raises(ValueError, match="row 4 is not that of the fit"):
        model.impute(frame.iloc[[*range(4), 9, *range(5, 9), 4, *range(10, 50)]], training=True)
    changed = frame[:50].copy()
    changed.loc[7, "n"] += 1
    for ask in (model.clusters, lambda X: model.score_cells(X, training=True), model.dependence):
        with pytest.raises(ValueError, match="row 7 is not that of the fit"):
            ask(changed)
    before = model.score(frame[50:])
    assert model.update(frame) is model
    assert model.impute(frame, training=True)["x"].notna().all()
    assert len(model.clusters(frame)[0]["labels"]) == 80
    assert model.score(frame[50:]) > before
    again = MixedTableModel(**settings).fit(frame[:50]).set_params(n_jobs=1).update(frame)
    assert again.score(frame) == model.score(frame)
    unknown = pd.concat([frame, frame[:1].assign(y="three")], ignore_index=True)
    for X, words in ((frame[:60], "has 60 rows"), (unknown, "three"), (frame[::-1].reset_index(drop=True), "row 0"), (frame.drop(columns="n"), "feature names")):
        with pytest.raises(ValueError, match=words):
            model.update(X)
    assert model.clusters(frame)  # It is as it was.
    with pytest.raises(ValueError, match="chains"):
        model.set_params(chains=3).update(frame)
