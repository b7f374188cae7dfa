"""Writes tests/reference/*.bin: arguments and values of the special functions, computed with mpmath at 60 digits or more.

Each file is a plain sequence of little-endian numbers, row after row; LAYOUT says which columns are f32 (arguments that
need no more) and which f64. Arguments are rounded to the stored type first, values are computed for the rounded argument.

python3 special_reference.py            rewrite the files
python3 special_reference.py --check    fail when a file is out of date
"""

import random
import struct
import sys
from pathlib import Path

from mpmath import (
    betainc, digamma, erfc, erfinv, exp, expm1, gammainc, log, log1p, loggamma, mp, mpf, pi, psi, sqrt,
)

mp.dps = 60
FOLDER = Path(__file__).resolve().parent.parent / "tests" / "reference"
ROWS = 2000


def as_f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def as_f64(x):
    """Nearest f64, overflow to infinity."""
    x = mpf(x)
    if abs(x) > mpf(2) ** 1024 * (1 - mpf(2) ** -54):
        return float("inf") if x > 0 else float("-inf")
    return float(x)


def log_uniform(rng, lo, hi):
    """10^u for u uniform in [lo, hi]."""
    return float(mpf(10) ** mpf(rng.uniform(lo, hi)))


def tail(a):
    """Mills ratio, mean excess and mean squared excess of a standard normal above a."""
    if a > 150:
        k = mpf(0)
        for n in range(300, 1, -1):
            k = n / (a + k)
        excess = 1 / (a + k)
        return 1 / (a + excess), excess, k * excess
    with mp.workdps(120):
        mills = sqrt(pi / 2) * erfc(a / sqrt(mpf(2))) * exp(a * a / 2)
        excess = 1 / mills - a
        return mills, excess, 1 - a * excess


def normal_rows(rng):
    """x, Phi, ln Phi, Mills ratio, erfcx, mean excess above x, mean squared excess above x."""
    xs = [rng.uniform(-10, 10) for _ in range(800)] + [rng.uniform(-40, 40) for _ in range(500)]
    xs += [s * log_uniform(rng, -300, 1) for s in (-1, 1) for _ in range(150)]
    xs += [s * log_uniform(rng, 1, 153) for s in (-1, 1) for _ in range(200)]
    for x in (mpf(v) for v in xs):
        mills, excess, square = tail(x)
        left = tail(-x)[0]
        density = exp(-x * x / 2) / sqrt(2 * pi)
        cdf = density * left
        if x > 0:
            ln_phi = log1p(-density * mills) if density * mills > mpf(10) ** -40 else -density * mills
        else:
            ln_phi = -x * x / 2 - log(2 * pi) / 2 + log(left)
        yield x, cdf, ln_phi, mills, tail(sqrt(mpf(2)) * x)[0] * sqrt(2 / pi), excess, square


def gamma_rows(rng):
    """x, ln Gamma, digamma, trigamma."""
    xs = [rng.uniform(0, 3) for _ in range(500)] + [rng.uniform(0, 40) for _ in range(500)]
    xs += [1.461632144968362341 + s * log_uniform(rng, -15, -1) for s in (-1, 1) for _ in range(150)]
    xs += [z + s * log_uniform(rng, -15, -1) for z in (1, 2) for s in (-1, 1) for _ in range(50)]
    xs += [log_uniform(rng, -150, 0) for _ in range(200)] + [log_uniform(rng, 1, 150) for _ in range(300)]
    for x in (mpf(v) for v in xs):
        with mp.workdps(400 if x > 10**30 else 80):
            yield x, loggamma(x), psi(0, x), psi(1, x) if x < 10**30 else 1 / x + 1 / (2 * x * x)


def log1mexp_rows(rng):
    """x, ln(1 - e^x)."""
    xs = [rng.uniform(-2, 0) for _ in range(800)] + [rng.uniform(-80, 0) for _ in range(500)]
    xs += [-log_uniform(rng, -37, 2) for _ in range(700)]
    for x in (mpf(as_f32(v)) for v in xs):
        yield x, log(-expm1(x)) if x > -1 else log1p(-exp(x))


def quantile_rows(rng):
    """p, Phi^-1(p)."""
    ps = [rng.uniform(0, 1) for _ in range(1000)] + [log_uniform(rng, -300, 0) for _ in range(700)]
    ps += [0.5 + s * log_uniform(rng, -16, -1) for s in (-1, 1) for _ in range(75)]
    ps += [1 - log_uniform(rng, -15, -1) for _ in range(150)]
    for p in (mpf(v) for v in ps):
        if p > 1e-5:
            x = sqrt(mpf(2)) * erfinv(2 * p - 1)
        else:
            x = -sqrt(-2 * log(p))
            for _ in range(200):
                left = tail(-x)[0]
                step = (-x * x / 2 - log(2 * pi) / 2 + log(left) - log(p)) * left
                x -= step
                if abs(step) < mpf(10) ** -45:
                    break
        yield p, x


def ln_beta_rows(rng):
    """a, b, ln B(a, b)."""
    for i in range(ROWS):
        if i % 2 == 0:
            a, b = log_uniform(rng, -1, 2), log_uniform(rng, -1, 2)
        else:
            a, b = log_uniform(rng, -30, 30), log_uniform(rng, -30, 30)
        a, b = mpf(as_f32(a)), mpf(as_f32(b))
        with mp.workdps(120):
            yield a, b, loggamma(a) + loggamma(b) - loggamma(a + b)


def multivariate_rows(rng):
    """p, a, ln Gamma_p(a), sum of digamma(a - j/2)."""
    for i in range(ROWS):
        p = rng.choice([1, 2, 3, 5, 10, 34, 100])
        low = (p - 1) / 2
        a = mpf(as_f32(low + log_uniform(rng, -3, 5 if i % 2 else 1)))
        steps = [a - mpf(j) / 2 for j in range(p)]
        yield p, a, mpf(p * (p - 1)) / 4 * log(pi) + sum(map(loggamma, steps)), sum(map(digamma, steps))


def incomplete_gamma_rows(rng):
    """a, x, lower and upper regularised incomplete gamma."""
    for i in range(ROWS):
        a = log_uniform(rng, -3, 4)
        x = a * max(1 + rng.gauss(0, 2) / a**0.5, 1e-3) if i % 2 else log_uniform(rng, -6, 3)
        a, x = mpf(as_f32(a)), mpf(as_f32(x))
        lower = gammainc(a, 0, x, regularized=True)
        upper = gammainc(a, x, regularized=True) if lower > 0.5 else 1 - lower
        yield a, x, lower, upper


def incomplete_beta_rows(rng):
    """a, b, x, regularised incomplete beta."""
    for _ in range(ROWS):
        a, b = log_uniform(rng, -2, 3), log_uniform(rng, -2, 3)
        x = rng.betavariate(a, b) if rng.random() < 0.7 else rng.random()
        a, b, x = mpf(as_f32(a)), mpf(as_f32(b)), mpf(as_f32(min(max(x, 1e-30), 1 - 1e-7)))
        yield a, b, x, betainc(a, b, 0, x, regularized=True)


def student_t_rows(rng):
    """t, df, P(|T| > |t|)."""
    for i in range(ROWS):
        df = log_uniform(rng, -1, 4) if i % 2 else rng.randint(1, 200)
        t = abs(rng.gauss(0, 2)) if i % 4 < 2 else log_uniform(rng, -9, 9)
        t, df = mpf(as_f32(t)), mpf(as_f32(df))
        square = t * t / df
        if square < 1:
            yield t, df, 1 - betainc(mpf(1) / 2, df / 2, 0, square / (1 + square), regularized=True)
        else:
            yield t, df, betainc(df / 2, mpf(1) / 2, 0, 1 / (1 + square), regularized=True)


def normal_density_rows(rng):
    """x, phi(x), ln phi(x)."""
    xs = [rng.uniform(-37.5, 37.5) for _ in range(1500)] + [log_uniform(rng, -300, 150) for _ in range(500)]
    for x in map(mpf, xs):
        yield x, exp(-x * x / 2) / sqrt(2 * pi), -x * x / 2 - log(2 * pi) / 2


def rising_factorial_rows(rng):
    """x, n, ln [Gamma(x + n) / Gamma(x)], and the size of its terms."""
    for i in range(ROWS):
        x = log_uniform(rng, -30, 30)
        n = rng.randint(1, 1000) if i % 2 else log_uniform(rng, -3, 9)
        x, n = mpf(as_f32(x)), mpf(as_f32(n))
        with mp.workdps(120):
            ln_beta = loggamma(x) + loggamma(n) - loggamma(x + n)
            yield x, n, loggamma(x + n) - loggamma(x), max(1, abs(loggamma(n)), abs(ln_beta))


LAYOUT = {
    "normal": ("ddddddd", normal_rows),
    "gamma": ("dddd", gamma_rows),
    "log1mexp": ("fd", log1mexp_rows),
    "normal_quantile": ("dd", quantile_rows),
    "ln_beta": ("ffd", ln_beta_rows),
    "multivariate": ("ffdd", multivariate_rows),
    "incomplete_gamma": ("ffdd", incomplete_gamma_rows),
    "incomplete_beta": ("fffd", incomplete_beta_rows),
    "student_t": ("ffd", student_t_rows),
    "normal_density": ("ddd", normal_density_rows),
    "rising_factorial": ("ffdf", rising_factorial_rows),
}


def render(name):
    layout, rows = LAYOUT[name]
    rng = random.Random(f"npb {name}")
    out = bytearray()
    count = 0
    for row in rows(rng):
        out += struct.pack("<" + layout, *map(as_f64, row))
        count += 1
    assert count >= ROWS, (name, count)
    return bytes(out)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    names = [a for a in sys.argv[1:] if not a.startswith("-")] or LAYOUT
    for name in names:
        path = FOLDER / f"{name}.bin"
        fresh = render(name)
        if "--check" in sys.argv:
            if path.read_bytes() != fresh:
                sys.exit(f"{path} is out of date")
        else:
            path.write_bytes(fresh)
