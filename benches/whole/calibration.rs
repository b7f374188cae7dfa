//! A fixed piece of work, so that times of two machines, or of one machine on two days, can be compared.

use std::hint::black_box;

use npb_benches::timed;

/// Half arithmetic on what lies in the first cache, half a walk through more than any cache holds.
pub struct Kernel {
    small: Vec<f64>,
    large: Vec<f64>,
}

impl Kernel {
    pub fn new() -> Self {
        Self {
            small: (0..1024).map(f64::from).collect(),
            large: vec![1.0; 16 << 20],
        }
    }

    /// Processor time of the kernel, about half a second.
    pub fn seconds(&self) -> f64 {
        let work = || {
            for turn in 0..1_200_000 {
                let factor = 1.0 + 1e-9 * f64::from(turn);
                black_box(sum_of_squares(black_box(&self.small), factor));
            }
            for turn in 0..8 {
                black_box(sum_of_squares(black_box(&self.large), f64::from(turn)));
            }
        };
        timed(work).1.processor
    }
}

/// Sum of `(factor x)^2` in eight sums, as compilers can do with vectors.
fn sum_of_squares(x: &[f64], factor: f64) -> f64 {
    let mut sums = [0.0; 8];
    for x in x.chunks_exact(8) {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += (factor * x) * (factor * x);
        }
    }
    sums.iter().sum()
}
