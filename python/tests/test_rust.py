"""The same data, settings and seed give the same bits by the command `npb`, whose models are read here.

Needs the command: on the path, or named by NPB_COMMAND.
"""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from conftest import QUICK

from npb import (
    BayesianMatrixCompletion,
    BetaProcessDenoiser,
    HybridRecommender,
    IncompleteClassifier,
    IncompleteMixture,
    MixedTableModel,
    MultiLabelLatentFeatures,
    MultiTaskClassifier,
)

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
    npb("fit", "classifier", table, "--label", "class", "--quiet", "--out", model, *chosen(settings))
    npb("export", model, "--part", "model", "--out", fit)
    of_command = IncompleteClassifier.load(fit)
    here = IncompleteClassifier(**QUICK).fit(pandas.DataFrame(X, columns=NAMES), y)
    np.testing.assert_array_equal(of_command.predict_proba(X), here.predict_proba(X))
    assert of_command._fit.to_bytes() == here._fit.to_bytes()
    assert of_command.classes_.tolist() == ["flat", "tall"] and of_command.feature_names_in_.tolist() == NAMES
    with pytest.raises(ValueError, match="iqgme"):
        MultiTaskClassifier.load(fit)


def chosen(settings):
    lists = {f"{key}.{part}": value for key, group in settings.items() if isinstance(group, dict) for part, value in group.items()}
    lists |= {key: value for key, value in settings.items() if not isinstance(value, dict)}
    return [argument for key, value in lists.items() for argument in ("--set", f"{key}={value}")]


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
    settings = dict(sweeps={"burn_in": 20, "keep": 10, "thin": 1}, chains=1)
    npb("fit", "table", file, "--quiet", "--out", model, *chosen(settings))
    fit, schema = exported(model, tmp_path)
    of_command = MixedTableModel.load(fit, schema)
    here = MixedTableModel(**settings).fit(table)
    assert of_command._fit.to_bytes() == here._fit.to_bytes()
    pandas.testing.assert_frame_equal(of_command.impute(table), here.impute(table))

    def asked(*question):
        npb(*question, "--quiet", "--out", tmp_path / "answer.csv")
        return pandas.read_csv(tmp_path / "answer.csv", dtype=str)

    odd, cells = asked("score", model, file, "--cells"), here.score_cells(table)
    assert odd["column"].tolist() == [cell["column"] for cell in cells]
    for name in ("surprisal", "excess"):
        assert odd[name].map(float).tolist() == [cell[name] for cell in cells], name
    predicted = asked("predict", model, file, "--target", "size", "--interval", "0.8")
    cells = here.predict_columns("size", table, level=0.8)
    for name, here_name in (("size", "mean"), ("lower(size)", "lower"), ("epistemic(size)", "epistemic")):
        assert predicted[name].map(float).tolist() == [cell[here_name] for cell in cells], name
    made = here.simulate(20, given={"colour": "red"})
    assert asked("simulate", model, "-n", "20", "--given", "colour=red")["size"].map(float).tolist() == made["size"]
    alike = asked("similar", model, file, "--row", "3", "--top", "4")
    assert (alike["row"].map(int) - 1).tolist() == [one["row"] for one in here.similar(2, n=4)]
    labels = asked("clusters", model, file, "--rows", "--column", "colour").iloc[:, 1].map(int) - 1
    assert labels.tolist() == here.clusters(table, columns="colour")[0]["labels"].tolist()
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
    npb("fit", "ratings", file, "--row", "user", "--column", "film", "--value", "stars", "--quiet", "--out", model, *chosen({"sweeps": sweeps}))
    npb("export", model, "--part", "model", "--out", tmp_path / "fit")
    of_command = BayesianMatrixCompletion.load(tmp_path / "fit")
    here = BayesianMatrixCompletion(sweeps=sweeps).fit((users, films, stars))
    assert of_command._rows.names == here._rows.names and of_command._columns.names == here._columns.names
    assert of_command._fit.to_bytes() == here._fit.to_bytes()
    assert of_command.predict(["u03"], ["f20"])[0] == here.predict(["u03"], ["f20"])[0]


def csv(path, names, X, *more):
    """A file of numbers with holes, and further columns (name, values)."""
    lines = [",".join([*names, *(name for name, _ in more)])]
    for k, row in enumerate(X):
        lines.append(",".join(["" if np.isnan(v) else repr(float(v)) for v in row] + [str(values[k]) for _, values in more]))
    path.write_text("\n".join(lines) + "\n")
    return path


def assert_same_bits(folder, here):
    npb("export", folder / "model", "--part", "model", "--out", folder / "fit")
    assert type(here).load(folder / "fit")._fit.to_bytes() == here._fit.to_bytes()


@pytest.fixture
def named(moons):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(moons[0], columns=NAMES)


def test_a_mixture_has_the_same_bits(tmp_path, moons, named):
    file = csv(tmp_path / "table.csv", NAMES, moons[0])
    npb("fit", "mixture", file, "--quiet", "--out", tmp_path / "model", *chosen({"unlabelled_starts": "[{k_means = 3}]", "truncation": 8}))
    assert_same_bits(tmp_path, IncompleteMixture(unlabelled_starts=[{"k_means": 3}], truncation=8).fit(named))


def test_tasks_have_the_same_bits(tmp_path, moons, named):
    X, y, _ = moons
    tasks = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
    file = csv(tmp_path / "table.csv", NAMES, X, ("task", tasks), ("class", y))
    settings = {"single.folds": 0, "single.limits.max_iterations": 40}
    npb("fit", "tasks", file, "--task", "task", "--label", "class", "--quiet", "--out", tmp_path / "model", *chosen(settings))
    assert_same_bits(tmp_path, MultiTaskClassifier(folds=0, max_iter=40).fit(named, y, tasks))


def test_labels_have_the_same_bits(tmp_path, moons, named):
    pandas = pytest.importorskip("pandas")
    X, y, _ = moons
    Y = pandas.DataFrame({"flat": (y == "flat") * 1, "long": (moons[2][:, 0] > 0) * 1})
    names = [f"r{k}" for k in range(len(X))]
    file = csv(tmp_path / "table.csv", NAMES, X, ("row", names))
    labels = csv(tmp_path / "labels.csv", [], np.empty((len(X), 0)), ("row", names), *((label, Y[label]) for label in Y))
    labels.write_text(labels.read_text().replace(",row", "row"))
    npb("fit", "labels", file, "--labels", labels, "--id", "row", "--quiet", "--out", tmp_path / "model", *chosen({"latent.limits.max_iterations": 10}))
    assert_same_bits(tmp_path, MultiLabelLatentFeatures(max_iter=10).fit(named, Y))


def test_recommenders_give_the_same_answers(tmp_path):
    rng = np.random.default_rng(2)
    users, items = (index.ravel() for index in np.indices((12, 9)))
    # The diagonal is rated, so that users and items appear in the order of their numbers.
    order = np.argsort(np.maximum(users, items), kind="stable")
    rated = order[(rng.random(len(users)) < 0.7)[order] | (users == items)[order]]
    users, items = users[rated], items[rated]
    likes = ((users + items + rng.integers(3, size=len(users))) % 4 > 1) * 1
    file = tmp_path / "likes.csv"
    file.write_text("user,item,like\n" + "".join(f"u{u:02},i{i},{like}\n" for u, i, like in zip(users, items, likes, strict=True)))
    npb("fit", "groups", file, "--group", "user", "--item", "item", "--value", "like", "--liked", 1, "--quiet", "--out", tmp_path / "model")
    npb("recommend", tmp_path / "model", "--row", "u03", "--exclude", file, "--top", 3, "--format", "json", "--quiet", "--out", tmp_path / "best.json")
    of_command = json.loads((tmp_path / "best.json").read_text())
    here = HybridRecommender(like_from=1).fit(([f"u{u:02}" for u in users], [f"i{i}" for i in items], likes))
    best = here.recommend("u03", n=3)
    assert len(of_command) == len(best) > 0
    for one, other in zip(of_command, best, strict=True):
        # The command folds the user in again.
        assert other["item"] == one["item"]
        np.testing.assert_allclose(other["probability"], one["P(like)"], rtol=1e-6)


def test_images_are_the_same(tmp_path):
    files = pytest.importorskip("PIL.Image")

    rng = np.random.default_rng(3)
    picture = np.clip(np.add.outer(np.arange(24) % 12 * 15, np.arange(24) * 3) + rng.normal(scale=10, size=(24, 24)), 0, 255).astype(np.uint8)
    files.fromarray(picture).save(tmp_path / "noisy.png")
    sweeps = {"burn_in": 10, "keep": 5, "thin": 1}
    npb("denoise", tmp_path / "noisy.png", "--quiet", "--out", tmp_path / "clean.png", "--seed", 4, *chosen({"model.sweeps": sweeps}))
    clean = np.asarray(files.open(tmp_path / "clean.png"), dtype=float)
    here = BetaProcessDenoiser(sweeps=sweeps, random_state=4).fit_transform(picture)
    # The command rounds.
    assert np.abs(clean - np.clip(here, 0, 255)).max() <= 0.5 + 1e-3
