"""pandas and polars frames: the same bits, names checked, the caller's kind back."""

import numpy as np
import pytest
from conftest import QUICK

from npb import FactorAnalysis, IncompleteClassifier, IncompleteImputer, MultiLabelLatentFeatures

NAMES = ["length", "width", "height"]


def pandas_frame(X):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X, columns=NAMES)


def pandas_nullable(X):
    return pandas_frame(X).convert_dtypes()


def polars_frame(X):
    polars = pytest.importorskip("polars")
    return polars.DataFrame({name: [None if np.isnan(v) else v for v in X[:, j]] for j, name in enumerate(NAMES)})


FRAMES = [pandas_frame, pandas_nullable, polars_frame]


@pytest.mark.parametrize("frame", FRAMES)
def test_frames_give_the_bits_of_arrays(tmp_path, moons, frame):
    X, y, _ = moons
    plain = IncompleteClassifier(**QUICK).fit(X, y).predict_proba(X)
    model = IncompleteClassifier(**QUICK).fit(frame(X), y)
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(model.predict_proba(frame(X)), plain)
    # Names are in the file.
    model.save(tmp_path / "m")
    loaded = IncompleteClassifier.load(tmp_path / "m")
    assert loaded.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(loaded.predict_proba(frame(X)), plain)
    other_order = frame(X)[NAMES[::-1]]
    for fitted in (model, loaded):
        with pytest.raises(ValueError, match="feature names should match"):
            fitted.predict(other_order)


@pytest.mark.parametrize("frame", FRAMES)
def test_infinite_cells_are_named_by_column(moons, frame):
    X = moons[0].copy()
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"row 3, column 'width' is inf"):
        IncompleteImputer().fit(frame(X))


@pytest.mark.parametrize(("frame", "kind"), [(pandas_frame, "pandas"), (polars_frame, "polars")])
def test_frames_come_back(moons, frame, kind):
    X = frame(moons[0])
    imputer = IncompleteImputer(unlabelled_starts=[{"k_means": 2}]).set_output(transform=kind).fit(X)
    done = imputer.transform(X)
    assert type(done) is type(X) and list(done.columns) == NAMES
    scores = FactorAnalysis(atoms=3, sweeps={"burn_in": 10, "keep": 10, "thin": 1}).set_output(transform=kind).fit_transform(X)
    assert type(scores) is type(X) and list(scores.columns)[0] == "factoranalysis0"


def test_labels_as_series(moons):
    pandas = pytest.importorskip("pandas")
    X, y, _ = moons
    plain = IncompleteClassifier(**QUICK).fit(X, y).predict_proba(X)
    for kind in ("object", "category", "string"):
        np.testing.assert_array_equal(IncompleteClassifier(**QUICK).fit(X, pandas.Series(y, dtype=kind)).predict_proba(X), plain)
    holes = pandas.Series(y, dtype="string")
    holes[::2] = pandas.NA
    assert IncompleteClassifier(**QUICK).fit(X, holes).classes_.tolist() == ["flat", "tall"]


def test_labels_by_name(moons):
    pandas = pytest.importorskip("pandas")
    X, y, _ = moons
    Y = pandas.DataFrame({"flat": (y == "flat").astype(float), "size": X[:, 0]})
    model = MultiLabelLatentFeatures(numbers=["size"], max_iter=5).fit(pandas_frame(X), Y)
    assert model.label_names_ == ["flat", "size"]
