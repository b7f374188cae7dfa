//! Integration tests of the public interface.

mod answers;
mod answers_recommend;
mod bad_input;
mod bits;
mod grouped;
mod infinite;
mod mixture;
mod recommend;
mod recovery;
mod simulated;
