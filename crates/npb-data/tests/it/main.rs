//! Tests of the public interface; those on real data read the folder named by `NPB_DATA_DIR`.
#![allow(clippy::print_stderr)]

mod delimited;
mod documents;
mod features;
mod fields;
mod formats;
mod hostile;
mod image;
mod interop;
mod metrics;
mod mixed;
mod ratings;
mod real;
mod schema;
mod splits;
mod table;
mod targets;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A generator with a fixed seed.
fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}
