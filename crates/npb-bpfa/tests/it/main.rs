//! Tests through the public interface.

mod answers;
mod answers_image;
mod bad_input;
mod bits;
mod fitted;
mod image;
mod saved;
mod simulated;
mod vb;
