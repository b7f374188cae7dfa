//! Integration tests of npb-infer, one binary.

mod diagnostics;
mod restart;
mod storage;
mod stream;
mod sweeps;
mod vb;
