"""The same data, settings and seed give the same bits by the command `npb`, whose models are read here.

Needs the command: on the path, or named by NPB_COMMAND.
"""

import os
import shutil
import subprocess

import numpy as np
import pytest
from conftest import QUICK

from npb import BayesianMatrixCompletion, IncompleteClassifier, MixedTableModel, MultiTaskClassifier

COMMAND = os.environ.get("NPB_COMMAND") or shutil.which("npb")
pytestmark = pytest.mark.skipif(not COMMAND, reason="the command npb is not there: name it by NPB_COMMAND")
NAMES = ["length", "width", "height"]


def npb(*arguments):
    subprocess.run([COMMAND, *map(str, arguments)], check=True)


def test_a_classifier_of_the_command_has_the_same_bits(tmp_path, moons):
    pandas = pytest.importorskip("pandas")
    X, y, _ = moons
    lines = [",".join([*NAMES, "class"])]
    lines += [",".join(["" if np.isnan(v) else repr(float(v)) for v in row] + [label]) for row, label in zip(X, y, strict=True)]
    table, model, fit = (tmp_path / name for name in ("table.csv", "model", "fit.npb"))
    table.write_text("\n".join(lines) + "\n")
    settings = {"folds": 0, "normal_scores": "false", "starts": "[{per_class = 2}]", "limits.max_iterations": 60}
    chosen = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    npb("fit", "classifier", table, "--label", "class", "--quiet", "--out", model, *chosen)
    npb("export", model, "--part", "model", "--out", fit)
    of_command = IncompleteClassifier.load(fit)
    here = IncompleteClassifier(**QUICK).fit(pandas.DataFrame(X, columns=NAMES), y)
    np.testing.assert_array_equal(of_command.predict_proba(X), here.predict_proba(X))
    assert of_command._fit.to_bytes() == here._fit.to_bytes()
    assert of_command.classes_.tolist() == ["flat", "tall"] and of_command.feature_names_in_.tolist() == NAMES
    with pytest.raises(ValueError, match="iqgme"):
        MultiTaskClassifier.load(fit)


def exported(model, folder):
    fit, schema = folder / "fit.npb", folder / "schema.toml"
    npb("export", model, "--part", "model", "--out", fit)
    schema.write_text(subprocess.run([COMMAND, "export", str(model), "--part", "schema"], check=True, capture_output=True, text=True).stdout)
    return fit, schema


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_mixed_table_goes_both_ways(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=50)
    table = pandas.DataFrame(
        {
            "size": (10 * group + rng.normal(size=50)).round(3),
            "colour": np.array(["blue", "grey", "red"])[group + rng.integers(2, size=50)],
            "seats": rng.poisson(2 + 4 * group),
        }
    )
    table = table.astype({"seats": "Int64"}).mask(rng.random(table.shape) < 0.15)
    file, model = tmp_path / "table.csv", tmp_path / "model"
    table.to_csv(file, index=False)
    settings = dict(burn_in=20, keep=10, thin=1, chains=1)
    chosen = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    npb("fit", "table", file, "--quiet", "--out", model, *chosen)
    fit, schema = exported(model, tmp_path)
    of_command = MixedTableModel.load(fit, schema)
    here = MixedTableModel(**settings).fit(table)
    assert of_command._fit.to_bytes() == here._fit.to_bytes()
    pandas.testing.assert_frame_equal(of_command.impute(table), here.impute(table))
    # And back.
    here.save(tmp_path / "here")
    npb("import", tmp_path / "here", "--schema", tmp_path / "here.toml", "--quiet", "--out", tmp_path / "imported")
    for of in ("model", "imported"):
        npb("impute", tmp_path / of, file, "--quiet", "--out", tmp_path / f"{of}.csv")
    assert (tmp_path / "imported.csv").read_text() == (tmp_path / "model.csv").read_text()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ratings_have_the_same_bits(tmp_path, low_rank):
    X, full = low_rank
    np.fill_diagonal(X := X.copy(), np.diag(full))
    rows, columns = np.nonzero(~np.isnan(X))
    users, films, stars = [f"u{k:02}" for k in rows], [f"f{k:02}" for k in columns], X[rows, columns]
    # The command numbers users and films as they appear, Python by their names: an order in which both are one.
    order = sorted(range(len(rows)), key=lambda k: max(rows[k], columns[k]))
    file, model = tmp_path / "ratings.csv", tmp_path / "model"
    file.write_text("user,film,stars\n" + "".join(f"{users[k]},{films[k]},{float(stars[k])!r}\n" for k in order))
    sweeps = {"burn_in": 20, "keep": 10, "thin": 1}
    chosen = [argument for key, value in sweeps.items() for argument in ("--set", f"sweeps.{key}={value}")]
    npb("fit", "ratings", file, "--row", "user", "--column", "film", "--value", "stars", "--quiet", "--out", model, *chosen)
    npb("export", model, "--part", "model", "--out", tmp_path / "fit")
    of_command = BayesianMatrixCompletion.load(tmp_path / "fit")
    here = BayesianMatrixCompletion(sweeps=sweeps).fit((users, films, stars))
    assert of_command._rows.names == here._rows.names and of_command._columns.names == here._columns.names
    assert of_command._fit.to_bytes() == here._fit.to_bytes()
    assert of_command.predict(["u03"], ["f20"])[0] == here.predict(["u03"], ["f20"])[0]
