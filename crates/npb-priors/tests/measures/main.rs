//! The random measures against closed forms, full enumeration, and each other.
//!
//! Statistical tests run at fixed seeds and a level of 1e-4 (two-sided z of 3.9) or stricter. Where a printed
//! rule is known to be wrong, a twin with that rule has to fail the same test.

mod beta_bernoulli;
mod check;
mod dp;
mod hdp;
mod ibp;
mod itf;
