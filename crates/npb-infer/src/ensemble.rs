//! Several fits that answer together: weights by stacking or by bounds, and calibrated class probabilities.
//!
//! ```
//! use npb_infer::ensemble::{Calibration, stack};
//!
//! // Two members and four labels: what each, trained without a label, said of the class that it turned out to be.
//! let weights = stack(&[vec![0.9, 0.8, 0.9, 0.7], vec![0.5; 4]], &[0.5, 0.5]);
//! assert!(weights[0] > weights[1] && (weights[0] + weights[1] - 1.0).abs() < 1e-12);
//! // One that is right more often than it says becomes surer.
//! let said = [0.6, 0.4].repeat(40);
//! let found = Calibration::fit(&said, &[0; 40]);
//! assert!(found.of(&[0.6, 0.4])[0] > 0.6);
//! ```

mod calibration;
mod weights;

pub use calibration::Calibration;
pub use weights::{by_bounds, check_weights, stack, stack_with};
