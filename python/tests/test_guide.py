"""The Python blocks of the guide, run as they stand there in a folder with copies of its data."""

import csv
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
COMMAND = os.environ.get("NPB_COMMAND") or shutil.which("npb")
pytestmark = pytest.mark.skipif(not GUIDE.is_dir(), reason=f"the guide is not there: {GUIDE}")


def blocks(page, language):
    parts = (GUIDE / f"{page}.md").read_text(encoding="utf-8").split(f"```{language}\n")[1:]
    return [part.split("```")[0] for part in parts]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the block of a page and gives what it defines."""

    def run(page):
        (code,) = blocks(page, "python")
        pytest.importorskip("pandas")
        if "plots" in code or "matplotlib" in code:
            pytest.importorskip("matplotlib").use("Agg")
        for file in (GUIDE / "data").iterdir():
            shutil.copy(file, tmp_path)
        monkeypatch.chdir(tmp_path)
        defined = {}
        exec(compile(code, f"{page}.md", "exec"), defined)
        return defined

    return run


def test_every_page_has_a_short_block():
    pages = sorted(path.stem for path in GUIDE.glob("*.md") if path.stem != "README")
    assert len(pages) >= 7
    for page in pages:
        assert [5 <= len(block.splitlines()) <= 15 for block in blocks(page, "python")] == [True], page
        assert f"def test_{page.replace('-', '_')}(" in Path(__file__).read_text(encoding="utf-8"), page


def test_the_readme_agrees_with_a_logistic_regression(tmp_path, monkeypatch):
    from sklearn.linear_model import LogisticRegression

    page = (GUIDE.parents[1] / "README.md").read_text(encoding="utf-8")
    (block,) = page.split("```python\n")[1:]
    monkeypatch.chdir(tmp_path)
    defined = {}
    exec(compile(block.split("```")[0], "README.md", "exec"), defined)
    X, y, model = np.c_[defined["temperature"]].astype(float), defined["distress"], defined["model"]
    found = model.predict_proba([[53.0], [75.0], [np.nan]])[:, 1]
    plain = LogisticRegression(C=1e6, max_iter=1000).fit(X, y).predict_proba([[53.0], [75.0]])[:, 1]
    np.testing.assert_allclose(found[:2], plain, atol=0.15)
    # Without the temperature, the share among the flights.
    assert abs(found[2] - np.mean(y)) < 0.15


def test_classify(run):
    found = run("classify")
    probability, lower, upper = (np.asarray(found[name]) for name in ("probability", "lower", "upper"))
    assert probability.shape == lower.shape == (10, 2)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert ((0 <= lower) & (lower < upper) & (upper <= 1)).all() and ((lower < probability) & (probability < upper)).mean() > 0.9
    assert found["new"].index.tolist() == [f"p{k}" for k in range(140, 150)] and np.isfinite(found["score"]).all()
    known = found["y"].notna()
    assert found["model"].score(found["X"][known], found["y"][known]) > 0.8


@pytest.mark.skipif(not COMMAND, reason="the command npb is not there: name it by NPB_COMMAND")
def test_classify_has_the_numbers_of_the_command(run):
    found = run("classify")
    for line in "".join(blocks("classify", "console")[:1]).splitlines():
        line, _, file = line.removeprefix("$ npb ").partition(" > ")
        output = subprocess.run([COMMAND, *shlex.split(line)], check=True, stdout=subprocess.PIPE).stdout
        if file:
            Path(file).write_bytes(output)
    rows = list(csv.DictReader(Path("probabilities.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["patient"] for row in rows] == found["new"].index.tolist()
    names = {"P(yes)": found["probability"]["yes"], "lower(yes)": found["lower"][:, 1], "upper(yes)": found["upper"][:, 1]}
    for name, here in names.items():
        np.testing.assert_array_equal([float(row[name]) for row in rows], here, err_msg=name)


def test_fill(run):
    found = run("fill")
    survey, filled = found["survey"], found["filled"]
    assert survey.isna().sum().min() > 0 and not filled.isna().any(axis=None)
    for name in survey:
        known = survey[name].notna()
        assert filled[name][known].tolist() == survey[name][known].tolist(), name
        assert name in ("income", "rooms", "children") or set(filled[name]) == set(survey[name][known]), name
    assert all(value == int(value) >= 0 for value in filled["rooms"])
    observed = survey["income"].dropna()
    assert len(found["means"]) == 20 and abs(np.mean(found["means"]) - observed.mean()) < 2 * observed.std() / len(observed) ** 0.5
    # Holes make the mean less sure than 160 complete rows would, and not less than the known rows alone by much.
    assert observed.var() / 160 < 1.3 * found["variance"] < 1.3 * 1.5 * observed.var() / len(observed)


def test_ask(run):
    found = run("ask")
    (income,) = found["answer"]
    survey = found["survey"]
    assert income["lower"] < income["mean"] < income["upper"] and 0 <= income["epistemic"] < 0.5
    # More rooms, more income.
    (small,) = found["model"].predict_columns("income", given={"rooms": 1})
    assert small["mean"] < income["mean"]
    assert (found["odd"]["excess"].diff().dropna() <= 0).all() and set(found["odd"]["column"]) <= set(survey)
    assert len(found["bergen"]) == 1000 and set(found["bergen"]["town"]) == {"Bergen"} and not found["bergen"].isna().any(axis=None)
    assert len(found["alike"]) == 5 and len(found["groups"][0]["labels"]) == len(survey)


def test_dependence(run):
    found = run("dependence")
    pairs = {frozenset((pair["a"], pair["b"])): pair for pair in found["pairs"]}
    assert len(pairs) == 6 * 5 // 2 and all(pair["information"] >= 0 for pair in pairs.values())
    together = {"income", "rooms", "owns"}
    strong = [pair for names, pair in pairs.items() if names < together]
    none = [pair for names, pair in pairs.items() if names & {"children", "mood"}]
    assert all(pair["dependent"] for pair in strong) and not any(pair["dependent"] for pair in none)
    assert min(pair["information"] for pair in strong) > 2 * max(pair["information"] for pair in none)
    assert Path("dependence.png").read_bytes().startswith(b"\x89PNG")


def test_recommend(run):
    found = run("recommend")
    ratings, top, mean, model = found["ratings"], found["top"], found["mean"], found["model"]
    rated = set(ratings["film"][ratings["user"] == "u3"])
    assert len(top) == 5 and not set(top["column"]) & rated
    assert (top["exposure"] * top["liked"]).is_monotonic_decreasing and top["liked"].between(0, 1).all()
    np.testing.assert_allclose(mean, top["mean"])
    assert (found["sd"] > top["sd"]).all()
    assert ((found["lower"] < mean) & (mean < found["upper"])).all()
    rest = sorted(set(ratings["film"]) - rated)
    np.testing.assert_allclose(model.recommend("u3", n=1, by="mean")[0]["mean"], model.predict(["u3"] * len(rest), rest).max())
    stars = ratings["stars"]
    error = model.predict(ratings["user"], ratings["film"]) - stars
    assert np.mean(error**2) < 0.5 * np.var(stars)


def test_labels(run):
    found = run("labels")
    predicted, chances = found["predicted"], found["chances"]
    assert predicted.shape == (10, 3) and predicted.columns.tolist() == ["sport", "politics", "spam"]
    # Labels are decided at one half or below.
    assert (predicted >= (chances > 0.5)).all(axis=None) and not predicted[chances < 0.1].any(axis=None)
    given = found["labels"].loc[found["documents"].index]
    assert ((found["Y"] == 1) == (given == "yes")).all(axis=None)
    right = found["model"].predict(found["documents"]) == found["Y"]
    # What is most frequent of each label is right less often.
    assert (right.mean() > np.maximum(found["Y"].mean(), 1 - found["Y"].mean()) + 0.1).all()


def test_few_ratings(run):
    found = run("few-ratings")
    best = found["model"].recommend(liked=found["liked"], disliked=found["disliked"], n=5)
    names = [one["item"] for one in best]
    assert len(names) == 5 and not set(names) & set(found["mine"]["film"])
    assert all(0 <= one["probability"] <= 1 for one in best)
    # Who likes three comedies and no drama is recommended comedies.
    assert all(name.startswith("comedy") for name in names)


def test_images(run):
    found = run("images")
    picture = found["picture"]

    def error(image):
        return np.abs(image - picture).mean()

    assert error(found["clean"]) < 0.5 * error(found["noisy"])
    assert error(found["whole"]) < 10 / 255
    # What was seen is restored better than what was not.
    wrong, hole = np.abs(found["whole"] - picture), found["holes"] > 0.5
    assert wrong[~hole].mean() < 0.8 * wrong[hole].mean()
    assert found["sd"].shape == picture.shape and (found["sd"] > 0).all()
    assert 0.5 < found["noise"][0] / (found["noisy"] - picture).std() < 1.5
    from matplotlib.image import imread

    for name in ("clean", "whole"):
        np.testing.assert_allclose(imread(f"{name}.png")[:, :, 0], np.clip(found[name], 0, 1), atol=0.01)
