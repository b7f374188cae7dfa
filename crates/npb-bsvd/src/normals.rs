//! Standard normals, many at once.

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// Draws n standard normals.
pub(crate) fn normals<R: Rng + ?Sized>(out: &mut [f64], rng: &mut R) {
    out.iter_mut().for_each(|x| *x = rng.sample(StandardNormal));
}
