"""Writes src/measure/reference.rs: Beta and Gamma expectations from 60-digit arithmetic (mpmath).

Run: python3 scripts/measures.py > src/measure/reference.rs
"""

from mpmath import digamma, log, loggamma, mp, mpf

mp.dps = 60


def show(x):
    return repr(float(x))


def ln_beta(a, b):
    return loggamma(a) + loggamma(b) - loggamma(a + b)


sizes = [1e-3, 0.05, 0.9, 1.0, 3.5, 17.0, 1234.5, 1e7, 1e12]
print("//! Written by scripts/measures.py; do not edit.\n")
print("/// (a, b, E ln V, E ln(1 - V), entropy) for V ~ Beta(a, b).")
print("pub(super) const BETA_REFERENCE: &[(f64, f64, f64, f64, f64)] = &[")
for fa in sizes:
    for fb in sizes:
        a, b = mpf(fa), mpf(fb)
        ln_v, ln_r = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
        entropy = ln_beta(a, b) - (a - 1) * ln_v - (b - 1) * ln_r
        print(f"    ({', '.join(show(x) for x in (a, b, ln_v, ln_r, entropy))}),")
print("];")
print("\n/// (shape, rate, shape0, rate0, KL) between Gamma(shape, rate) and Gamma(shape0, rate0).")
print("pub(super) const GAMMA_KL_REFERENCE: &[(f64, f64, f64, f64, f64)] = &[")
for s, r in [(0.05, 0.05), (0.06, 0.05), (19.05, 30.25), (2.0, 1e-3), (49_000.05, 1e6), (1e9, 3.0)]:
    for s0, r0 in [(0.05, 0.05), (1.0, 1.0), (1e-6, 1e-6)]:
        a, b, a0, b0 = map(mpf, (s, r, s0, r0))
        kl = (a - a0) * digamma(a) - loggamma(a) + loggamma(a0) + a0 * (log(b) - log(b0)) + a * (b0 - b) / b
        print(f"    ({', '.join(show(x) for x in (a, b, a0, b0, kl))}),")
print("];")
