//! Integration tests of npb-infer, one binary.

mod restart;
mod storage;
mod stream;
mod vb;
