"""What scikit-learn's imputers have, ours has: their own common tests, and tables that have little in them."""

import types

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.utils.estimator_checks import check_set_output_transform_pandas, check_transformer_get_feature_names_out

from npb import IncompleteImputer

common = pytest.importorskip("sklearn.impute.tests.test_common")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
QUICK = dict(unlabelled_starts=[{"k_means": 1}, {"k_means": 2}], max_iter=60)
NAN = np.nan
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def with_ours(test):
    """A test of scikit-learn's with our imputer in its list, or None if it is of no dense imputers."""
    theirs = {type(imputer) for imputer in common.imputers()}
    marks, found = [], False
    for mark in test.pytestmark:
        if mark.name == "parametrize" and mark.args[0] == "imputer" and {type(one) for one in mark.args[1]} == theirs:
            mark, found = pytest.mark.parametrize("imputer", [*mark.args[1], IncompleteImputer()], ids=lambda one: type(one).__name__).mark, True
        marks.append(mark)
    ours = types.FunctionType(test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__)
    ours.pytestmark = marks
    return ours if found else None


OURS = {name: with_ours(test) for name, test in vars(common).items() if name.startswith("test_")}
# Collected as tests of this module.
globals().update({f"{name}_of_scikit_learn": test for name, test in OURS.items() if test is not None})


def test_there_are_common_tests():
    assert sum(test is not None for test in OURS.values()) >= 6


def hidden(marker):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3)).round(2) + 5
    X[:, 1] += X[:, 0]
    return np.where(rng.random(X.shape) < 0.2, marker, X)


def test_a_marker_is_a_hole():
    plain = IncompleteImputer(**QUICK)
    expected = plain.fit_transform(hidden(NAN))
    marked = IncompleteImputer(**QUICK, missing_values=-1)
    X = hidden(-1.0)
    before, names = X.copy(), list("abc")
    for kind in (X, X.tolist(), pandas.DataFrame(X, columns=names), polars.DataFrame(X, schema=names), pandas.DataFrame(X, columns=names).convert_dtypes()):
        np.testing.assert_array_equal(marked.fit_transform(kind), expected)
        # The other questions, too.
        np.testing.assert_array_equal(marked.impute(kind)[0], expected)
        assert marked.sample_missing(kind, 2).shape == (2, 40, 3)
    np.testing.assert_array_equal(X, before)
    for none in (NAN, None, pandas.NA, np.float64("nan")):
        np.testing.assert_array_equal(IncompleteImputer(**QUICK, missing_values=none).fit_transform(hidden(NAN)), expected)
    assert plain.__sklearn_tags__().input_tags.allow_nan and not marked.__sklearn_tags__().input_tags.allow_nan


def test_texts_are_markers():
    X = hidden(NAN)
    texts = np.where(np.isnan(X), "?", X.astype(str)).astype(object)
    expected = IncompleteImputer(**QUICK).fit_transform(X)
    marked = IncompleteImputer(**QUICK, missing_values="?")
    for kind in (texts, texts.astype(str), pandas.DataFrame(texts, columns=list("abc")), polars.DataFrame(texts.tolist(), schema=list("abc"), orient="row")):
        np.testing.assert_array_equal(marked.fit_transform(kind), expected)
    towns = np.array(["Oslo", "Bergen", "?"])[np.arange(40) % 3]
    for town in (towns.astype(object), pandas.Categorical(towns)):
        frame = pandas.DataFrame({"town": town, "x": hidden(0.5)[:, 0]})
        model = IncompleteImputer(**QUICK, missing_values="?", add_indicator=True).set_output(transform="pandas").fit(frame)
        done = model.transform(frame)
        assert list(done) == ["town", "x", "missingindicator_town"]
        assert done["missingindicator_town"].tolist() == (towns == "?").astype(float).tolist()


@pytest.mark.parametrize("kind", [np.asarray, lambda X: X.tolist(), lambda X: X.astype(object), pandas.DataFrame, polars.DataFrame])
def test_other_holes_than_the_marker_are_refused_as_by_scikit_learn(kind):
    X = hidden(-1.0)
    X[5, 1] = NAN
    with pytest.raises(ValueError, match="Input X contains NaN"):
        SimpleImputer(missing_values=-1).fit(X)
    with pytest.raises(ValueError, match="Input X contains NaN: row 5"):
        IncompleteImputer(**QUICK, missing_values=-1).fit(kind(X))


def test_settings_of_holes_are_checked():
    X = hidden(NAN)
    for settings, message in (
        (dict(missing_values=[1]), r"missing_values=\[1\]: must be a number"),
        (dict(missing_values="?"), "missing_values='\\?' is of another kind than X"),
        (dict(add_indicator="no"), "add_indicator='no': must be True or False"),
        (dict(keep_empty_features=3), "keep_empty_features=3: must be True or False"),
    ):
        with pytest.raises(ValueError, match=message):
            IncompleteImputer(**QUICK, **settings).fit(X)
    model = IncompleteImputer(**QUICK).fit(X).set_params(add_indicator=True)
    with pytest.raises(ValueError, match="the fit was made without it"):
        model.transform(X)


def test_indicators_have_names_and_survive_frames():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"a": rng.normal(size=30), "b": NAN, "c": rng.normal(size=30)})
    frame.loc[::4, "c"] = NAN
    model = IncompleteImputer(**QUICK, add_indicator=True).set_output(transform="pandas")
    with pytest.warns(UserWarning, match=r"Skipping features without any observed values: \['b'\]"):
        done = model.fit_transform(frame)
    assert list(done) == ["a", "c", "missingindicator_b", "missingindicator_c"] == model.get_feature_names_out().tolist()
    assert done["missingindicator_c"].tolist() == frame["c"].isna().tolist()
    model.set_params(keep_empty_features=True)
    done = model.fit_transform(frame)
    assert list(done)[:3] == ["a", "b", "c"] and (done["b"] == 0).all()
    # What the model itself is asked keeps all columns.
    assert model.impute(frame)[0].shape == (30, 3) and np.isnan(model.impute(frame)[0][:, 1]).all()


def test_a_file_knows_which_columns_were_empty(tmp_path):
    X = hidden(NAN)
    X[:, 1] = NAN
    model = IncompleteImputer(**QUICK).fit(X)
    model.save(tmp_path / "m")
    with pytest.warns(UserWarning, match="Skipping features"):
        done = IncompleteImputer.load(tmp_path / "m").transform(X)
    with pytest.warns(UserWarning, match="Skipping features"):
        np.testing.assert_array_equal(done, model.transform(X))
    assert done.shape == (40, 2)


@pytest.mark.parametrize("settings", [{}, dict(add_indicator=True), dict(keep_empty_features=True)])
def test_the_checks_of_transformers_hold(settings):
    model = IncompleteImputer(**QUICK, **settings)
    check_transformer_get_feature_names_out("IncompleteImputer", model)
    check_set_output_transform_pandas("IncompleteImputer", model)


def holes(values):
    return np.array(values, dtype=float)


# Of tables that say little: as scikit-learn's imputers answer, or an error of the same kind.
DULL = {
    "constant": holes([[1, 7], [2, NAN], [3, 7], [NAN, 7]]),
    "one row": holes([[1.5, 2.5]]),
    "one row with a hole": holes([[1.5, NAN]]),
    "one column": holes([[1], [NAN], [3]]),
    "an empty column": holes([[1, NAN], [2, NAN], [NAN, NAN]]),
    "all missing": holes([[NAN, NAN], [NAN, NAN]]),
    "equal rows": holes([[1, 2]] * 5 + [[1, NAN]]),
    "two rows": holes([[1, 2], [NAN, 4]]),
}


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("indicator", [True, False])
@pytest.mark.parametrize("name", DULL)
@pytest.mark.filterwarnings("ignore:Skipping features")
def test_dull_tables(name, indicator, keep):
    X = DULL[name]
    how = dict(add_indicator=indicator, keep_empty_features=keep)
    expected = SimpleImputer(**how).fit_transform(X)
    model = IncompleteImputer(**how)
    done = model.fit_transform(X)
    assert done.shape == expected.shape and np.isfinite(done).all()
    assert len(model.get_feature_names_out()) == done.shape[1]
    known = ~np.isnan(X)
    kept = np.ones(X.shape[1], dtype=bool) if keep else known.any(axis=0)
    width = kept.sum()
    np.testing.assert_array_equal(done[:, :width][known[:, kept]], X[:, kept][known[:, kept]])
    np.testing.assert_array_equal(done[:, width:], expected[:, width:])
    constant = [j for j in np.flatnonzero(kept) if len(np.unique(X[known[:, j], j])) <= 1]
    for j in constant:
        k = int(kept[:j].sum())
        np.testing.assert_array_equal(done[:, k], expected[:, k])


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.filterwarnings("ignore:Skipping features")
def test_empty_columns_of_any_type(keep):
    x = np.arange(12.0)
    for empty in (np.full(12, NAN), np.array([None] * 12), pandas.array([pandas.NA] * 12, dtype="Int64"), pandas.array([pandas.NA] * 12, dtype="string")):
        frame = pandas.DataFrame({"x": x, "none": empty})
        done = IncompleteImputer(keep_empty_features=keep).set_output(transform="pandas").fit_transform(frame)
        assert list(done) == (["x", "none"] if keep else ["x"]), frame.dtypes
        assert not keep or (done["none"] == 0).all()
    holes = polars.DataFrame({"x": x, "none": [None] * 12})
    assert IncompleteImputer(keep_empty_features=keep).fit_transform(holes).shape == (12, 1 + keep)


def test_columns_that_are_no_plain_numbers():
    numbers = np.array([1.0, 2, NAN, 4, 5, 7, 8, NAN, 3, 6])
    whole = pandas.array([None if np.isnan(v) else int(v) for v in numbers], dtype="Int64")
    other = np.arange(10.0)
    expected = IncompleteImputer().fit_transform(np.column_stack([numbers, other]))
    for column in (whole, np.array([None if np.isnan(v) else v for v in numbers], dtype=object), whole.astype("string"), whole.astype("Int8")):
        np.testing.assert_array_equal(IncompleteImputer().fit_transform(pandas.DataFrame({"n": column, "x": other})), expected)
    # An array of texts that are no numbers: as scikit-learn has it.
    for imputer in (SimpleImputer(), IncompleteImputer()):
        with pytest.raises(ValueError, match="could not convert string to float: 'a'"):
            imputer.fit(np.array([["a", 1], ["b", 2]], dtype=object))
        with pytest.raises(ValueError, match="Found array with 0 sample"):
            imputer.fit(np.empty((0, 2)))
        with pytest.raises(ValueError, match="Found array with 0 feature"):
            imputer.fit(np.empty((3, 0)))
