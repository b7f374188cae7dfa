//! Integration tests of npb-infer, one binary.

mod diagnostics;
mod joint;
mod parallel;
mod proofs;
mod restart;
mod runner;
mod shares;
mod storage;
mod stream;
mod sweeps;
mod toys;
mod vb;
mod watch;
