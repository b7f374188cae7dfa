"""Writes src/special/tables.rs: polynomial coefficients computed with mpmath at 60 digits.

Run from anywhere: python3 special_tables.py            rewrite the file
                   python3 special_tables.py --check    fail when the file is out of date
"""

import sys
from pathlib import Path

from mpmath import cos, erfc, exp, findroot, mp, mpf, pi, psi, sqrt

mp.dps = 60
TARGET = Path(__file__).resolve().parent.parent / "src" / "special" / "tables.rs"

TAIL_SCALE, TAIL_PIECES, TAIL_TERMS = 4, 32, 9
DIGAMMA_TERMS = 24


def tail_fraction(a):
    """K(a) = 1/e(a) - a, where e(a) = 1/mills(a) - a; K(a) = 2/(a + 3/(a + 4/(a + ...)))."""
    if a > 200:
        k = mpf(0)
        for n in range(200, 1, -1):
            k = n / (a + k)
        return k
    with mp.workdps(90):
        mills = sqrt(pi / 2) * erfc(a / sqrt(mpf(2))) * exp(a * a / 2)
        return 1 / (1 / mills - a) - a


def tail_smooth(t):
    """(a + c) K(a) in the variable t = c/(c + a), which maps [0, inf) to (0, 1]."""
    if t == 0:
        return mpf(2)
    a = TAIL_SCALE / t - TAIL_SCALE
    return tail_fraction(a) * (a + TAIL_SCALE)


def chebyshev_to_monomials(c):
    """Coefficients in powers of u of sum c_j T_j(u)."""
    n = len(c)
    before, now = [mpf(1)] + [mpf(0)] * (n - 1), [mpf(0), mpf(1)] + [mpf(0)] * (n - 2)
    out = [c[0] * x for x in before]
    for j in range(1, n):
        out = [o + c[j] * x for o, x in zip(out, now)]
        shifted = [mpf(0)] + now[:-1]
        before, now = now, [2 * s - b for s, b in zip(shifted, before)]
    return out


def polynomial(f, lo, hi, terms):
    """Near-minimax polynomial of f on [lo, hi], in powers of u in [-1, 1]."""
    nodes = [cos(pi * (k + mpf(1) / 2) / terms) for k in range(terms)]
    values = [f((lo + hi) / 2 + (hi - lo) / 2 * x) for x in nodes]
    cheb = [
        2 * sum(v * cos(pi * j * (k + mpf(1) / 2) / terms) for k, v in enumerate(values)) / terms
        for j in range(terms)
    ]
    cheb[0] /= 2
    return chebyshev_to_monomials(cheb)


def literal(x):
    """The shortest decimal that reads back as the nearest f64."""
    text = repr(float(x))
    return text if "." in text or "e" in text else text + ".0"


def render():
    lines = [
        "//! Coefficients computed by `scripts/special_tables.py`; do not edit.",
        "",
        "/// Scale c of the variable t = c / (c + a) of [`TAIL`].",
        f"pub(super) const TAIL_SCALE: f64 = {TAIL_SCALE}.0;",
        "",
        "/// (a + c) K(a) on equal pieces of t in (0, 1], each in powers of u in [-1, 1].",
        "#[rustfmt::skip]",
        f"pub(super) const TAIL: [[f64; {TAIL_TERMS}]; {TAIL_PIECES}] = [",
    ]
    for j in range(TAIL_PIECES):
        lo, hi = mpf(j) / TAIL_PIECES, mpf(j + 1) / TAIL_PIECES
        lines.append("    [" + ", ".join(literal(c) for c in polynomial(tail_smooth, lo, hi, TAIL_TERMS)) + "],")
    lines += ["];", ""]
    zero = findroot(lambda x: psi(0, x), mpf("1.46163"))
    high = mpf(float(zero))
    lines += [
        "/// The positive zero of digamma, rounded to f64.",
        f"pub(super) const DIGAMMA_ZERO: f64 = {literal(zero)};",
        "",
        "/// What rounding took from [`DIGAMMA_ZERO`].",
        f"pub(super) const DIGAMMA_ZERO_REST: f64 = {literal(zero - high)};",
        "",
        "/// digamma(x) / (x - zero) on [1, 2], in powers of u = 2 x - 3.",
        "#[rustfmt::skip]",
        f"pub(super) const DIGAMMA: [f64; {DIGAMMA_TERMS}] = [",
    ]
    for c in polynomial(lambda x: psi(0, x) / (x - zero), mpf(1), mpf(2), DIGAMMA_TERMS):
        lines.append(f"    {literal(c)},")
    lines += ["];", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    text = render()
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.read_text() == text else f"{TARGET} is out of date")
    TARGET.write_text(text)
