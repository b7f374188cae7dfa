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
    one, two = (MixedTableModel(measures=MEASURES, **SHORT, random_state=seed).fit(table) for seed in (1, 2))
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
