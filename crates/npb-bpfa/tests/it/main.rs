//! Tests through the public interface.

mod bad_input;
mod bits;
mod fitted;
mod image;
mod saved;
mod simulated;
mod vb;
