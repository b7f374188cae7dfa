"""The examples, on the real data that NPB_DATA_DIR names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
pytestmark = pytest.mark.skipif("NPB_DATA_DIR" not in os.environ, reason="NPB_DATA_DIR does not say where the data are")


@pytest.mark.parametrize("example", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_example(tmp_path, example):
    for package in ("matplotlib", "pandas"):
        pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLES / f"{example}.py"), str(tmp_path)],
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert done.stdout.strip() and not done.stderr
    figures = list(tmp_path.glob("*.png"))
    assert figures and all(figure.stat().st_size > 5_000 for figure in figures)
