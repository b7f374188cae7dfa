"""What cannot be, asked of mixed tables, mixtures and classifiers: an error that names the place, or a right answer; never nan, never a panic."""

import numpy as np
import pytest

from npb import IncompleteClassifier, IncompleteMixture, MixedTableModel

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore")
N = 40
SHORT = dict(sweeps={"burn_in": 20, "keep": 6, "thin": 1}, chains=1)


def frame():
    rng = np.random.default_rng(3)
    kind = rng.integers(2, size=N)
    return pandas.DataFrame(
        {
            "x": 6.0 * kind + rng.normal(size=N),
            "visits": rng.poisson(2 + 5 * kind),
            "size": np.exp(kind + rng.normal(size=N)),
            "town": np.where(kind == 1, "A", "B"),
            "member": rng.integers(2, size=N).astype(bool),
        }
    )


TABLE = frame()
NUMBERS = TABLE[["x", "visits", "size"]].astype(float)


@pytest.fixture(scope="module")
def models():
    return MixedTableModel(**SHORT).fit(TABLE), IncompleteMixture().fit(NUMBERS), IncompleteClassifier().fit(NUMBERS, TABLE["town"])


def questions(models):
    """Of a table, by name: the model's frame and the question."""
    table, mixture, classifier = models
    asked = {f"table {name}": (TABLE, getattr(table, name)) for name in ("impute", "predict_cells", "sample_missing", "score_samples", "score", "score_cells", "clusters", "dependence", "update")}
    asked["table predict_columns"] = TABLE, lambda X: table.predict_columns("visits", X)
    names = ("impute", "predict", "predict_proba", "predict_interval", "sample_missing", "score_samples", "score_cells", "update")
    asked |= {f"mixture {name}": (NUMBERS, getattr(mixture, name)) for name in names}
    asked |= {f"classifier {name}": (NUMBERS, getattr(classifier, name)) for name in ("predict", "predict_proba", "predict_interval", "score_cells")}
    asked["classifier score"] = NUMBERS, lambda X: classifier.score(X, ["A"] * len(X))
    for name, of, model in (("table", TABLE, table), ("mixture", NUMBERS, mixture), ("classifier", NUMBERS, classifier)):
        asked[f"{name} report"] = of, lambda X, model=model: model.report("never.html", X)
    return asked


def cell(column, value):
    def change(X):
        X = X.astype({column: object})
        X.loc[2, column] = value
        return X

    return change


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda X: pandas.concat([X, X[["x"]]], axis=1), "'x' occurs twice"),
        (lambda X: pandas.DataFrame({"a": [1.0], "b": [2.0]}), "- a\n- b"),
        (lambda X: X.drop(columns="x"), "now missing:\n- x|expecting 3 features"),
        (lambda X: X[list(X)[::-1]], "same order"),
        (lambda X: X[[]], "now missing|0 features|0 feature"),
        (lambda X: np.zeros((2, 2, 2)), "3"),
        (lambda X: "X", "2D array|could not convert"),
        (cell("x", np.inf), "row 2, column 'x' is inf"),
        (cell("x", [1, 2]), r"column 'x' cannot be read: .*\[1, 2\] in row 2"),
    ],
)
def test_tables_that_cannot_be_are_named_by_every_question(models, change, message):
    for name, (X, ask) in questions(models).items():
        with pytest.raises((ValueError, TypeError), match=message):
            print(name, ask(change(X)))


def finite(answer):
    if isinstance(answer, dict):
        # How sure an answer is is not known where one draw has all say.
        return all(finite(value) for key, value in answer.items() if key != "epistemic")
    if isinstance(answer, (list, tuple)):
        return all(map(finite, answer))
    if isinstance(answer, pandas.DataFrame):
        return finite(answer.to_dict("list"))
    if isinstance(answer, np.ndarray):
        return finite(answer.tolist())
    return not isinstance(answer, float) or np.isfinite(answer)


@pytest.mark.parametrize("change", [cell("size", 1e308), lambda X: X.mask(X.notna()), lambda X: X.head(1), lambda X: X.head(0), cell("x", 1e308), cell("visits", -1.0), cell("x", "strong")])
def test_answers_are_finite_or_errors(models, change, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answered = 0
    for name, (X, ask) in questions(models).items():
        if name.endswith("update"):
            continue  # It would change the model.
        try:
            answer = ask(change(X))
        except (ValueError, TypeError) as error:
            assert any(word in str(error) for word in ("row 2", "row 0", "rows", "0 sample")), (name, error)
            continue
        answered += 1
        assert finite(answer), name
    assert answered > 0


def test_values_that_cannot_be_given_are_named(models):
    table = models[0]
    for given, message in (
        ({"x": np.inf}, "column 'x' is inf"),
        ({"x": 1e308}, 'column "x": .*1e308'),
        ({"x": [1]}, r"column 'x' cannot be read: .*\[1\]"),
        ({"x": "strong"}, 'column "x": "strong" is not a number'),
        ({"x": 1 + 2j}, "column 'x' cannot be read"),
        ({"visits": -1}, 'column "visits": "-1" is not a count'),
        ({"visits": 2.5}, '"2.5" is not a count'),
        ({"visits": 10**30}, "column 'visits' cannot be read"),
        ({"size": 0.0}, 'column "size": "0" is not above 0'),
        ({"town": "C"}, 'column "town": "C" is not one of the declared levels "A", "B"'),
        ({"member": 2}, 'column "member": "2"'),
        ({"price": 1}, "no column 'price'"),
        ({3: 1}, "no column 3"),
    ):
        target = "town" if "town" not in given else "member"
        for ask in (lambda: table.predict_columns(target, given=given), lambda: table.simulate(2, given=given)):
            with pytest.raises(ValueError, match=message):
                ask()
    for value in (None, np.nan, pandas.NA, ""):
        assert table.simulate(3, given={"x": value}) == table.simulate(3)
        assert table.predict_columns("town", given={"x": value}) == table.predict_columns("town", given={})
    assert finite(table.predict_columns(list(TABLE), given={})) and finite(table.predict_columns(list(TABLE), TABLE))
    assert finite(table.simulate(3, given={"x": 1e20, "visits": 10**9, "size": 1e-300}))


def test_numbers_of_rows_that_cannot_be_are_named(models):
    table, mixture, _ = models
    for n in (0, -1, 2.5, True, "3", np.nan, 10**12, 2**70):
        for ask, name in (
            (table.simulate, "n"),
            (mixture.sample, "n_samples"),
            (lambda n: table.similar(0, n=n), "n"),
            (lambda n: table.sample_missing(TABLE, n), "n_draws"),
            (lambda n: mixture.sample_missing(NUMBERS, n), "n_draws"),
        ):
            with pytest.raises(ValueError, match=f"^{name}={n!r}: must be a whole number from 1"):
                ask(n)
        if n != 0 and (isinstance(n, bool) or not isinstance(n, int) or not 0 <= n < N):
            with pytest.raises(ValueError, match=r"^row=.*must be a row of the fit, from 0 to 39"):
                table.similar(n)
    with pytest.raises(ValueError, match="no rows"):
        table.score(TABLE.head(0))
    assert table.score_cells(TABLE.head(0)) == []
