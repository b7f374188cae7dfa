"""Writes tests/reference/truncated_normal.csv: moments of N(0, 1) on an interval, computed with mpmath at 150 digits.

Columns: lower, upper, mean, variance, ln of the mass. Run with --check to fail when the file is out of date.
"""

import random
import sys
from pathlib import Path

from mpmath import erfc, exp, inf, log, mp, mpf, pi, sqrt

mp.dps = 150
TARGET = Path(__file__).resolve().parent.parent / "tests" / "reference" / "truncated_normal.csv"


def density(x):
    return mpf(0) if abs(x) == inf else exp(-x * x / 2) / sqrt(2 * pi)


def mass_above(x):
    return mpf(0) if x == inf else erfc(x / sqrt(mpf(2))) / 2


def moments(a, b):
    mass = mass_above(a) - mass_above(b)
    mean = (density(a) - density(b)) / mass
    at_a = a * density(a)
    at_b = mpf(0) if b == inf else b * density(b)
    return mean, 1 + (at_a - at_b) / mass - mean * mean, log(mass)


def cases():
    rng = random.Random("npb truncated normal")
    for a in (-6.5, -0.1, 0.0, 1.5, 8.3, 40.0, 300.0):
        yield a, inf
    for a, width in ((-4.0, 8.0), (0.0, 3.46), (0.0, 3.47), (-3.4, 6.86), (40.0, 1e-9), (40.0, 0.14), (40.0, 0.16), (200.0, 1.0)):
        yield a, a + width
    for _ in range(45):
        a = rng.choice([rng.uniform(-8, 8), rng.uniform(0, 45)])
        yield a, a + 10 ** rng.uniform(-7, 1.5)


def render():
    lines = ["lower,upper,mean,variance,ln_mass"]
    for a, b in cases():
        a, b = mpf(a), mpf(b)
        lines.append(",".join(repr(float(x)) for x in (a, b, *moments(a, b))))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.read_text() == render() else f"{TARGET} is out of date")
    TARGET.write_text(render())
