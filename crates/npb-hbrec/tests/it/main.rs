//! Integration tests of the public interface.

mod bad_input;
mod bits;
mod grouped;
mod infinite;
mod mixture;
mod recommend;
mod recovery;
mod simulated;
