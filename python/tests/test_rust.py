"""The same data, settings and seed give the same bits by the command `npb`, whose models are read here.

Needs the command: on the path, or named by NPB_COMMAND.
"""

import os
import shutil
import subprocess

import numpy as np
import pytest
from conftest import QUICK

from npb import IncompleteClassifier, MultiTaskClassifier

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
